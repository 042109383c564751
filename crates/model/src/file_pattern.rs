//! Names of files with the `%` symbols of `sbatch --output` and `srun --output`.
//!
//! | symbol | stands for |
//! |---|---|
//! | `%%` | a percent sign |
//! | `%A` | job id of the array, else of the job |
//! | `%a` | task id in the array; 4294967294 where there is none |
//! | `%J` | job id; of a step, with `.` and the step's number |
//! | `%j` | job id |
//! | `%N` | short name of the host |
//! | `%n` | number of the node in the job |
//! | `%s` | the step's number; `batch` for the script itself |
//! | `%t` | rank |
//! | `%u` | user name |
//! | `%x` | job name |
//!
//! A number between `%` and the symbol pads numbers with zeros, up to ten digits. What else follows a `%` stays as it
//! is. A name with a backslash keeps all its symbols, and loses the backslash. Source: sbatch(1), and what Slurm 22.05
//! does. The symbols of directives are others: [`crate::symbols`].

/// What Slurm shows as the task id of a job that is no array.
const NO_TASK: u32 = u32::MAX - 1;

/// No number is padded to more digits.
const WIDEST: usize = 10;

/// What the symbols stand for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values {
    /// `%j`.
    pub job_id: String,
    /// `%A`; `None`: the job's own.
    pub array_job_id: Option<String>,
    /// `%a`.
    pub array_task_id: Option<u32>,
    /// `%s`, and of `%J` the second part; `None` for the script itself.
    pub step: Option<u32>,
    /// `%t`.
    pub rank: u32,
    /// `%N`.
    pub host: String,
    /// `%u`.
    pub user: String,
    /// `%x`.
    pub job_name: String,
}

impl Values {
    /// The name of the file.
    pub fn expand(&self, pattern: &str) -> String {
        if pattern.contains('\\') {
            return without_backslashes(pattern);
        }
        let mut name = String::with_capacity(pattern.len());
        for piece in pieces(pattern) {
            match piece {
                Piece::Text(text) => name.push_str(text),
                Piece::Symbol { symbol, width, text } => match self.value(symbol, width) {
                    Some(value) => name.push_str(&value),
                    None => name.push_str(text),
                },
            }
        }
        name
    }

    fn value(&self, symbol: char, width: usize) -> Option<String> {
        let padded = |text: &str| format!("{text:0>width$}");
        Some(match symbol {
            '%' => "%".to_owned(),
            'A' => padded(self.array_job_id.as_ref().unwrap_or(&self.job_id)),
            'a' => padded(&self.array_task_id.unwrap_or(NO_TASK).to_string()),
            'J' => match self.step {
                Some(step) => format!("{}.{step}", padded(&self.job_id)),
                None => padded(&self.job_id),
            },
            'j' => padded(&self.job_id),
            'N' => self.host.clone(),
            // Everything runs on one machine.
            'n' => padded("0"),
            's' => self.step.map_or_else(|| "batch".to_owned(), |step| padded(&step.to_string())),
            't' => padded(&self.rank.to_string()),
            'u' => self.user.clone(),
            'x' => self.job_name.clone(),
            _ => return None,
        })
    }
}

/// Whether the ranks of a step write to a file each.
pub fn is_per_rank(pattern: &str) -> bool {
    let is_rank = |piece: &Piece<'_>| matches!(piece, Piece::Symbol { symbol: 't', .. });
    !pattern.contains('\\') && pieces(pattern).iter().any(is_rank)
}

enum Piece<'a> {
    Text(&'a str),
    Symbol {
        symbol: char,
        width: usize,
        /// As written.
        text: &'a str,
    },
}

fn pieces(pattern: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = pattern;
    while let Some(percent) = rest.find('%') {
        let (before, from) = rest.split_at(percent);
        pieces.push(Piece::Text(before));
        let digits = from[1..].bytes().take_while(u8::is_ascii_digit).count();
        let Some(symbol) = from[1 + digits..].chars().next() else {
            rest = from;
            break;
        };
        let (text, after) = from.split_at(1 + digits + symbol.len_utf8());
        let width = from[1..=digits].parse().unwrap_or(usize::from(digits > 0) * WIDEST);
        pieces.push(Piece::Symbol { symbol, width: width.min(WIDEST), text });
        rest = after;
    }
    pieces.push(Piece::Text(rest));
    pieces
}

fn without_backslashes(pattern: &str) -> String {
    let mut kept = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(ch) = chars.next() {
        match ch {
            '\\' => kept.extend(chars.next()),
            ch => kept.push(ch),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> Values {
        Values {
            job_id: "70029".into(),
            host: "n1".into(),
            user: "ada".into(),
            job_name: "mesh".into(),
            ..Values::default()
        }
    }

    /// Each name is what Slurm 22.05 made of the pattern.
    #[test]
    fn names_are_those_that_slurm_makes() {
        let batch = values();
        assert_eq!(batch.expand("z.%a.%A.%q.%12j.%3x.%3N"), "z.4294967294.70029.%q.0000070029.mesh.n1");
        assert_eq!(
            batch.expand("out.%x.%u.%t.%n.%N.%s.%5j.%J.txt"),
            "out.mesh.ada.0.0.n1.batch.70029.70029.txt"
        );
        let step = Values { step: Some(1), rank: 3, ..values() };
        assert_eq!(step.expand("step.%j.%s.%t.%2t.%J"), "step.70029.1.3.03.70029.1");
        let task = Values { array_job_id: Some("70001".into()), array_task_id: Some(3), ..values() };
        assert_eq!(task.expand("%A_%a %3a %j"), "70001_3 003 70029");
        assert_eq!(batch.expand("a%%b.%j.\\\\%j"), "a%%b.%j.\\%j");
        assert_eq!(batch.expand("100%% %"), "100% %");
    }

    #[test]
    fn only_a_pattern_with_the_rank_makes_a_file_for_each() {
        assert!(is_per_rank("o.%t") && is_per_rank("o.%3t"));
        assert!(!is_per_rank("o.%%t") && !is_per_rank("o.%j") && !is_per_rank("\\o.%t"));
    }
}
