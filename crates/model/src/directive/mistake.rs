//! What is wrong with a script, and where.

/// One mistake in a script. Displays as `line 3, column 12: what is wrong; what was expected`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct ScriptError {
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1, counted in characters.
    pub column: u32,
    /// What is wrong and what was expected; one line.
    pub message: String,
}

/// The mistakes in a script, in its order, up to some thousands; at least one. Displays one a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptErrors(pub Vec<ScriptError>);

impl std::error::Error for ScriptErrors {}

impl std::fmt::Display for ScriptErrors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            let newline = if index == 0 { "" } else { "\n" };
            write!(f, "{newline}{error}")?;
        }
        Ok(())
    }
}
