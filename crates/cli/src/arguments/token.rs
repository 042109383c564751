//! Where tokens come in, from the command line and the environment: they become part of file names and of requests.

use clap_complete::ArgValueCandidates;
use model::Token;

use crate::completion;
use crate::env;
use crate::failure::Failure;

const ADVICE: &str = "`forebay status` lists the tokens";

/// What a shell offers where a token is typed.
pub(super) fn candidates() -> ArgValueCandidates {
    ArgValueCandidates::new(completion::tokens)
}

/// As the user types it.
pub(super) fn typed(text: &str) -> Result<Token, String> {
    text.parse().map_err(|_| format!("a token has {}; {ADVICE}", Token::SPELLING))
}

/// The session's token, as it was typed or as the job has it.
///
/// # Errors
/// What the environment has for the job's cannot be one.
pub fn token(typed: Option<&Token>) -> Result<Option<Token>, Failure> {
    if let Some(token) = typed {
        return Ok(Some(token.clone()));
    }
    let Some((name, text)) = env::job_token() else { return Ok(None) };
    let refused = |_| {
        let message = format!("invalid token `{text}` in {name}: a token has {}", Token::SPELLING);
        Failure::usage(message, ADVICE)
    };
    text.parse().map(Some).map_err(refused)
}

/// The same.
///
/// # Errors
/// Neither; `advice` says what to name.
pub fn token_or_usage(typed: Option<&Token>, advice: &str) -> Result<Token, Failure> {
    token(typed)?.ok_or_else(|| Failure::usage("no buffer named", advice))
}
