//! Subjects of commits: `area: Imperative sentence`, at most 72 columns.

/// The widest subject, in characters.
const WIDTH: usize = 72;

/// What is wrong with a subject. Areas are crates and top-level folders, and `workspace` for what is in no folder.
///
/// # Errors
/// It does not have the form.
pub fn check(subject: &str, areas: &[String]) -> Result<(), String> {
    let wrong = |why: &str| Err(format!("`{subject}`: {why}"));
    let Some((named, sentence)) = subject.split_once(": ") else { return wrong("it names no area") };
    if let Some(unknown) = named.split(", ").find(|area| !areas.iter().any(|known| known == area)) {
        return wrong(&format!("{unknown} is no crate and no top-level folder"));
    }
    if subject.chars().count() > WIDTH {
        return wrong(&format!("it is wider than {WIDTH} columns"));
    }
    match sentence.starts_with(char::is_uppercase) && !sentence.ends_with('.') {
        true => Ok(()),
        false => wrong("the sentence begins with a capital letter and has no full stop"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_has_an_area_and_a_short_sentence() {
        let areas = ["store".to_owned(), "docs".to_owned()];
        check("store, docs: Keep what was synced", &areas).unwrap();
        let wrong = |subject: &str| check(subject, &areas).unwrap_err();
        assert!(wrong("Keep what was synced").contains("no area"));
        assert!(wrong("store, shop: Keep it").contains("shop"));
        assert!(wrong("store: keep it").contains("capital"));
        assert!(wrong("store: Keep it.").contains("full stop"));
        assert!(wrong(&format!("store: Keep {}", "x".repeat(72))).contains("72"));
    }
}
