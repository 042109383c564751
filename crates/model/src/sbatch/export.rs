//! Which variables a job or a step gets of those that its submitter has: `--export`.

/// What `--export` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// As written: what `SLURM_EXPORT_ENV` has.
    text: String,
    all: bool,
    names: Vec<String>,
    values: Vec<(String, String)>,
}

impl Export {
    /// Reads `ALL`, `NONE`, `NIL`, or names and `NAME=VALUE`, separated by commas; `'` keeps commas in a value.
    pub fn parse(text: &str) -> Export {
        let mut export = Export { text: text.to_owned(), all: false, names: Vec::new(), values: Vec::new() };
        for word in split(text) {
            match word.split_once('=') {
                Some((name, value)) => export.values.push((name.to_owned(), value.to_owned())),
                None if word.eq_ignore_ascii_case("ALL") => export.all = true,
                None if ["NONE", "NIL"].iter().any(|none| word.eq_ignore_ascii_case(none)) => {}
                None => export.names.push(word),
            }
        }
        export
    }

    /// As written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether everything is passed on.
    pub fn is_all(&self) -> bool {
        self.all
    }

    /// Whether a variable of the submitter's is passed on. Slurm's own always are.
    pub fn passes(&self, name: &str) -> bool {
        self.all || name.starts_with("SLURM_") || self.names.iter().any(|listed| listed == name)
    }

    /// Variables that it sets itself.
    pub fn values(&self) -> &[(String, String)] {
        &self.values
    }
}

fn split(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for ch in text.chars() {
        match (ch, quoted) {
            ('\'', _) => quoted = !quoted,
            (',', false) => words.push(String::new()),
            (ch, _) => words.last_mut().expect("there is one from the start").push(ch),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_listed_is_passed_and_nothing_else_but_slurms_own() {
        let export = Export::parse("BAR,NEW='x,y z',E=");
        assert!(export.passes("BAR") && export.passes("SLURM_JOB_ID") && !export.passes("FOO"));
        let values = [("NEW", "x,y z"), ("E", "")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(export.values(), values);
        let all = Export::parse("ALL,NEW=3");
        assert!(all.passes("FOO") && all.values().len() == 1);
        for none in ["NONE", "NIL", "none"] {
            assert!(!Export::parse(none).passes("NONE"));
        }
    }
}
