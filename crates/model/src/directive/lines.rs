//! From the text of a script to statements: which lines are directives, joined over continuation lines, symbols
//! replaced, split into words that remember where they stand.

mod comment;
mod near_miss;

use super::{KEYWORDS_BB, KEYWORDS_DW, ScriptError};
use crate::symbols::Symbols;
use near_miss::near_miss;

/// More directives than that are better said by a list or a directory: each is a transfer of its own.
pub(super) const DIRECTIVES_MAX: usize = 4096;

/// Whoever sees that many mistakes needs no more of them.
pub(super) const ERRORS_MAX: usize = 100;

/// Which of the two prefixes a line has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Dw,
    Bb,
}

/// A place in the script: line and column from 1, the column counted in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub line: u32,
    pub column: u32,
}

/// A character of a word and where it stands.
#[derive(Clone, Copy, Debug)]
struct Cell {
    ch: char,
    place: Place,
    from_symbol: bool,
}

/// A run of characters without white space; never empty, except as the value of an `option=`.
#[derive(Clone, Debug)]
pub(super) struct Word {
    pub text: String,
    /// Of the first character.
    pub place: Place,
}

/// A directive as words.
#[derive(Debug)]
pub(super) struct Statement {
    pub family: Family,
    /// Of the prefix.
    pub place: Place,
    /// What follows the prefix. Names and values of options are separate: see [`Item`].
    pub items: Vec<Item>,
    /// Whether its lines could be joined; if not, the error is already reported and there may be words missing.
    pub complete: bool,
}

/// A word of a statement.
#[derive(Clone, Debug)]
pub(super) enum Item {
    /// A word without `=`.
    Plain(Word),
    /// `name=value`.
    Option { name: Word, value: Word },
}

impl Place {
    pub(super) fn error(self, message: String) -> ScriptError {
        ScriptError { line: self.line, column: self.column, message }
    }
}

impl Statement {
    /// Whether it is a stage, well written or not.
    pub(super) fn is_stage(&self) -> bool {
        self.complete
            && matches!(self.items.first(), Some(Item::Plain(word)) if matches!(word.text.as_str(), "stage_in" | "stage_out"))
    }
}

impl Family {
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Family::Dw => "#DW",
            Family::Bb => "#BB",
        }
    }

    pub(super) fn keywords(self) -> &'static [&'static str] {
        match self {
            Family::Dw => &KEYWORDS_DW,
            Family::Bb => &KEYWORDS_BB,
        }
    }

    /// What follows the prefix, if `line` begins with it and white space or nothing after it.
    fn strip(self, line: &str) -> Option<&str> {
        line.strip_prefix(self.prefix())
            .filter(|rest| rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_whitespace()))
    }
}

/// The directive statements of a script, in order. What is nearly one, or cannot be joined, is added to `errors`.
pub(super) fn statements(text: &str, symbols: &Symbols, errors: &mut Vec<ScriptError>) -> Vec<Statement> {
    // Slurm writes a NUL byte after the script.
    let text = text.trim_end_matches('\0');
    let lines: Vec<&str> = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
    let mut reader = Reader { lines, at: 0, symbols, errors };
    let mut statements = Vec::new();
    while let Some(line) = reader.lines.get(reader.at) {
        if reader.errors.len() >= ERRORS_MAX {
            break;
        }
        let family = [Family::Dw, Family::Bb].into_iter().find(|family| family.strip(line).is_some());
        match family {
            Some(_) if statements.len() == DIRECTIVES_MAX => {
                reader.errors.push(too_many(reader.at));
                break;
            }
            Some(family) => statements.push(reader.statement(family)),
            None => {
                let place = Place { line: number(reader.at), column: 1 };
                reader.errors.extend(near_miss(line).map(|message| place.error(message)));
                reader.at += 1;
            }
        }
    }
    statements
}

fn too_many(at: usize) -> ScriptError {
    let message = format!(
        "more than {DIRECTIVES_MAX} directives; stage many files by a list (type=list) or their directory"
    );
    Place { line: number(at), column: 1 }.error(message)
}

struct Reader<'a> {
    lines: Vec<&'a str>,
    /// Index of the next line.
    at: usize,
    symbols: &'a Symbols,
    errors: &'a mut Vec<ScriptError>,
}

impl Reader<'_> {
    /// Reads the statement that begins at the current line.
    fn statement(&mut self, family: Family) -> Statement {
        let place = Place { line: number(self.at), column: 1 };
        let mut cells = Vec::new();
        let mut complete = true;
        let mut comments = Vec::new();
        loop {
            let line = self.lines[self.at];
            let Some(body) = family.strip(line) else { break };
            let continuation = Continuation::of(body);
            comments.extend(self.cells(continuation.body(body), family.prefix().len(), &mut cells));
            self.at += 1;
            if let Continuation::None = continuation {
                break;
            }
            let backslash =
                Place { line: number(self.at - 1), column: column(line.trim_end().chars().count() - 1) };
            if let Continuation::SpaceAfter = continuation {
                complete = false;
                self.errors.push(
                    backslash.error(
                        "white space follows the backslash; to continue a line it must be the last character"
                            .into(),
                    ),
                );
            }
            if self.lines.get(self.at).is_none_or(|next| family.strip(next).is_none()) {
                complete = false;
                self.errors.push(backslash.error(format!(
                    "the line ends with a backslash, so the next line must continue it and begin with {}",
                    family.prefix()
                )));
                break;
            }
        }
        let statement = Statement { family, place, items: self.items(&cells), complete };
        self.errors
            .extend(comments.iter().filter_map(|(place, text)| comment::refusal(&statement, *place, text)));
        statement
    }

    /// Adds the characters of one line, symbols replaced, and gives its comment. `skipped` characters of the line come
    /// before `body`.
    fn cells<'b>(
        &mut self,
        body: &'b str,
        skipped: usize,
        cells: &mut Vec<Cell>,
    ) -> Option<(Place, &'b str)> {
        let (body, comment) = comment::split(body);
        let line = number(self.at);
        let place = |index: usize| Place { line, column: column(skipped + index) };
        let mut unknown = Vec::new();
        let expanded = self.symbols.expand(body, &mut unknown);
        self.errors.extend(unknown.into_iter().map(|error| place(error.index).error(error.to_string())));
        cells.extend(expanded.into_iter().map(|c| Cell {
            ch: c.ch,
            place: place(c.index),
            from_symbol: c.from_symbol,
        }));
        comment.map(|text| (place(body.chars().count()), text))
    }

    /// Splits characters into items.
    fn items(&mut self, cells: &[Cell]) -> Vec<Item> {
        cells
            .split(|cell| cell.ch.is_ascii_whitespace() && !cell.from_symbol)
            .filter(|word| !word.is_empty())
            .map(|word| {
                self.check_characters(word);
                item(word)
            })
            .collect()
    }

    /// Refuses characters that nobody sees: they come from word processors and web pages.
    fn check_characters(&mut self, word: &[Cell]) {
        if let Some(cell) = word.iter().find(|cell| !cell.from_symbol && is_hidden(cell.ch)) {
            self.errors.push(cell.place.error(format!(
                "invisible character U+{:04X}; type a plain space, or remove it",
                u32::from(cell.ch)
            )));
        }
    }
}

/// Whether a directive goes on in the next line.
#[derive(Clone, Copy)]
enum Continuation {
    None,
    Backslash,
    /// Meant to, but white space hides the backslash.
    SpaceAfter,
}

impl Continuation {
    fn of(body: &str) -> Continuation {
        let trimmed = body.trim_end();
        // Two backslashes are the symbol that ends the replacement.
        if !trimmed.ends_with('\\') || trimmed.ends_with("\\\\") {
            Continuation::None
        } else if trimmed.len() == body.len() {
            Continuation::Backslash
        } else {
            Continuation::SpaceAfter
        }
    }

    /// The line without the backslash.
    fn body(self, body: &str) -> &str {
        match self {
            Continuation::None => body,
            Continuation::Backslash | Continuation::SpaceAfter => {
                let trimmed = body.trim_end();
                &trimmed[..trimmed.len() - 1]
            }
        }
    }
}

fn item(cells: &[Cell]) -> Item {
    // A `=` that came from a folder's name does not make an option.
    match cells.iter().position(|cell| cell.ch == '=' && !cell.from_symbol) {
        Some(equals) => Item::Option {
            name: word(&cells[..equals], cells[0].place),
            // Where the value is missing, its place is the equals sign.
            value: word(&cells[equals + 1..], cells.get(equals + 1).unwrap_or(&cells[equals]).place),
        },
        None => Item::Plain(word(cells, cells[0].place)),
    }
}

fn word(cells: &[Cell], place: Place) -> Word {
    Word { text: cells.iter().map(|cell| cell.ch).collect(), place }
}

/// White space of any alphabet, control characters and the zero-width space: what nobody sees on the screen.
fn is_hidden(c: char) -> bool {
    c.is_control() || c.is_whitespace() || c == '\u{200b}'
}

/// The number, from 1, of the line with this index.
fn number(index: usize) -> u32 {
    u32::try_from(index + 1).unwrap_or(u32::MAX)
}

/// The column, from 1, of the character with this index.
fn column(index: usize) -> u32 {
    number(index)
}

#[cfg(test)]
mod tests;
