//! Types of `wire` in what a program reads again: what is sent may change, what is on a disk stays readable. Such a
//! field has a form of its own there (`with = "kept::form"`).

use std::collections::BTreeSet;

/// How many lines of what is read again, as it derives `Deserialize`, name a type of `wire` that has no form.
pub fn fields(text: &str) -> usize {
    let sent = sent(text);
    let (mut inside, mut is_kept, mut found) = (false, false, 0);
    for line in text.lines() {
        let code = line.trim_start();
        if code.starts_with("#[") {
            inside |= code.starts_with("#[derive(") && code.contains("Deserialize");
            is_kept |= code.contains("kept::form");
        } else if inside && !code.starts_with("//") {
            found += usize::from(!is_kept && words(code).any(|word| word == "wire" || sent.contains(word)));
            is_kept = false;
            inside = line != "}" && !line.ends_with(';');
        }
    }
    found
}

/// The types that the file names as `wire` does.
fn sent(text: &str) -> BTreeSet<&str> {
    let named = text.split("use wire::").skip(1).filter_map(|rest| rest.split(';').next());
    named.flat_map(words).filter(|word| word.starts_with(char::is_uppercase)).collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|char: char| !char.is_alphanumeric() && char != '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    const USED: &str = "use wire::control::{\n    Owner, Script,\n};\n";

    #[test]
    fn what_is_read_again_has_what_is_sent_in_a_form() {
        let item = |derived, field| {
            format!("{USED}#[derive({derived})]\nstruct Kept {{\n{field}\n}}\nfn f(_: Owner) {{}}\n")
        };
        assert_eq!(fields(&item("Clone, Deserialize", "    owner: Vec<Owner>,")), 1);
        assert_eq!(fields(&item("Deserialize", "    owner: wire::control::Owner,\n    script: Script,")), 2);
        assert_eq!(fields(&item("Deserialize", "    #[serde(with = \"kept::form\")]\n    owner: Owner,")), 0);
        assert_eq!(fields(&item("Deserialize", "    /// The Owner.\n    uid: u32,")), 0);
        assert_eq!(fields(&item("Serialize", "    owner: Owner,")), 0);
        assert_eq!(fields("use wire::A;\n#[derive(Deserialize)]\nstruct B(u8);\nfn f(_: A) {}\n"), 0);
    }
}
