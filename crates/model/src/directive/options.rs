//! The `name=value` words of one directive: known or not, not empty, and each with one value only.

use super::lines::{Item, Place, Statement, Word};
use super::{OptionPlace, ScriptError};
use crate::size;

/// What a directive may contain.
pub(super) struct Known {
    /// The names of its options.
    pub options: &'static [&'static str],
    /// Those that are kept with the buffer as they are.
    pub kept: &'static [&'static str],
    /// Names that are accepted too, but not offered in messages.
    pub rare: &'static [&'static str],
    /// Whether one word without `=` may follow the keyword, and what it is, as `SIZE`.
    pub plain: Option<&'static str>,
}

/// What came before a word, to tell a stray word from half an option.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Previous<'a> {
    /// An option with this value.
    Value(&'a str),
    /// An option whose value is missing.
    WithoutValue,
    /// Something that wants no more.
    Complete,
}

impl Known {
    fn has(&self, name: &str) -> bool {
        self.options.contains(&name) || self.kept.contains(&name) || self.rare.contains(&name)
    }

    /// What the directive takes, for messages: `SIZE, pool=`.
    fn offered(&self) -> String {
        let options = self.options.iter().chain(self.kept).map(|option| format!("{option}="));
        self.plain.map(str::to_owned).into_iter().chain(options).collect::<Vec<_>>().join(", ")
    }
}

/// The options of one directive. Mistakes are collected, not returned: one look finds them all.
pub(super) struct Options {
    keyword: Word,
    given: Vec<(Word, Word)>,
    plain: Option<Word>,
    /// Options that were meant but are wrong: their mistake is told once, not again as "needs".
    meant: Vec<String>,
    /// The mistakes so far.
    pub errors: Vec<ScriptError>,
}

impl Options {
    /// Reads what follows the keyword.
    pub(super) fn read(keyword: &Word, statement: &Statement, known: &Known) -> Options {
        let mut options = Options {
            keyword: keyword.clone(),
            given: Vec::new(),
            plain: None,
            meant: Vec::new(),
            errors: Vec::new(),
        };
        let mut previous = Previous::Complete;
        for item in &statement.items[1..] {
            previous = match item {
                Item::Plain(word) => options.add_plain(word, known, previous),
                // A lone `=`, as in `type = scratch`.
                Item::Option { name, value }
                    if name.text.is_empty() && previous == Previous::WithoutValue =>
                {
                    if value.text.is_empty() { previous } else { Previous::Complete }
                }
                Item::Option { name, value } => {
                    options.add(name, value, known);
                    if value.text.is_empty() { Previous::WithoutValue } else { Previous::Value(&value.text) }
                }
            }
        }
        options
    }

    /// Where each option stands.
    pub(super) fn places(&self) -> Vec<OptionPlace> {
        let place = |(name, _): &(Word, Word)| OptionPlace {
            name: name.text.clone(),
            line: name.place.line,
            column: name.place.column,
        };
        self.given.iter().map(place).collect()
    }

    /// The value of an option.
    pub(super) fn get(&self, name: &str) -> Option<Word> {
        self.given.iter().find(|(given, _)| given.text == name).map(|(_, value)| value.clone())
    }

    /// The value of an option that must be there; `example` says how to write it.
    pub(super) fn require(&mut self, name: &str, example: &str) -> Option<Word> {
        let value = self.get(name);
        if value.is_none() && !self.meant.iter().any(|meant| meant == name) {
            self.error(self.keyword.place, format!("{} needs {name}=, as {example}", self.keyword.text));
        }
        value
    }

    /// The word without `=`.
    pub(super) fn plain(&self) -> Option<Word> {
        self.plain.clone()
    }

    /// The given options among `names`, in the script's order.
    pub(super) fn among(&self, names: &[&str]) -> Vec<(String, String)> {
        let wanted = self.given.iter().filter(|(name, _)| names.contains(&name.text.as_str()));
        wanted.map(|(name, value)| (name.text.clone(), value.text.clone())).collect()
    }

    /// `result`'s value; its error is noted at `word`.
    pub(super) fn note<T>(&mut self, word: &Word, result: Result<T, String>) -> Option<T> {
        result.map_err(|message| self.error(word.place, message)).ok()
    }

    pub(super) fn error(&mut self, place: Place, message: String) {
        self.errors.push(place.error(message));
    }

    fn add(&mut self, name: &Word, value: &Word, known: &Known) {
        let mut name = name.clone();
        // Both spellings occur in public scripts, in both families.
        if name.text == "access" {
            name.text = "access_mode".to_owned();
        }
        if !known.has(&name.text) {
            return self.add_unknown(&name, known);
        }
        self.meant.push(name.text.clone());
        if value.text.is_empty() {
            let message = format!("{}= has no value; no white space may stand around the `=`", name.text);
            return self.error(value.place, message);
        }
        if value.text.starts_with(['"', '\'']) {
            let message =
                format!("quotes mean nothing in a directive; write the value of {}= without them", name.text);
            return self.error(value.place, message);
        }
        match self.get(&name.text) {
            None => self.given.push((name, value.clone())),
            // What writes a script line by line may say a thing again: nobody has to guess what is meant.
            Some(first) if first.text == value.text => {}
            Some(first) => {
                let (name_text, first, value) = (&name.text, first.text, &value.text);
                let message =
                    format!("{name_text}= is given twice, as {first} and as {value}; leave one of them");
                self.error(name.place, message);
            }
        }
    }

    fn add_plain<'a>(&mut self, word: &Word, known: &Known, previous: Previous<'a>) -> Previous<'a> {
        if known.has(&word.text) {
            self.meant.push(word.text.clone());
            self.error(
                word.place,
                format!("{}= has no value; write {0}=VALUE without white space around the `=`", word.text),
            );
            return Previous::WithoutValue;
        }
        match previous {
            // The value that white space parted from its option: that error is told.
            Previous::WithoutValue => {}
            Previous::Value(number) if size::is_unit(&word.text) && size::parse(number).is_ok() => {
                self.error(
                    word.place,
                    format!("white space in a size; write {number}{} without it", word.text),
                );
            }
            _ if self.plain.is_none() && known.plain.is_some() => self.plain = Some(word.clone()),
            _ if self.plain.as_ref().is_some_and(|first| first.text == word.text) => {}
            _ => {
                let (keyword, offered) = (&self.keyword.text, known.offered());
                self.error(word.place, format!("unexpected `{}`; {keyword} takes {offered}", word.text));
            }
        }
        Previous::Complete
    }

    fn add_unknown(&mut self, name: &Word, known: &Known) {
        let guess = match closest(&name.text, &[known.options, known.kept, known.rare].concat()) {
            Some(guess) => {
                self.meant.push(guess.to_owned());
                format!("did you mean {guess}=?")
            }
            None => format!("expected {}", known.offered()),
        };
        self.error(name.place, format!("{} has no option {}=; {guess}", self.keyword.text, name.text));
    }
}

/// The candidate that `word` was probably meant to be.
pub(super) fn closest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let word = word.to_lowercase();
    let longer = candidates.iter().find(|candidate| word.len() >= 3 && candidate.starts_with(&word));
    if longer.is_some() {
        return longer.copied();
    }
    let distance = |candidate: &str| strsim::osa_distance(&word, &candidate.to_lowercase());
    let best = candidates.iter().min_by_key(|candidate| distance(candidate))?;
    // One slip in three letters is a typo; more is another word.
    (distance(best) <= best.len().div_ceil(3)).then_some(*best)
}

#[cfg(test)]
mod tests {
    use super::closest;

    #[test]
    fn a_slip_is_guessed_and_another_word_is_not() {
        let words = ["stage_in", "stage_out", "jobdw", "swap"];
        assert_eq!(closest("stage-in", &words), Some("stage_in"));
        assert_eq!(closest("job", &words), Some("jobdw"));
        assert_eq!(closest("JOBDW", &words), Some("jobdw"));
        assert_eq!(closest("jbodw", &words), Some("jobdw"));
        assert_eq!(closest("container", &words), None);
    }
}
