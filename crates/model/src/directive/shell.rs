//! What a shell would replace in a path, and directives do not.

/// Refuses what a reader of shell scripts would expect to be replaced, but is not.
pub(super) fn check_plain_path(path: &str) -> Result<(), String> {
    if let Some(variable) = shell_variable(path) {
        return Err(format!(
            "`{variable}` looks like a shell variable, and directives do not see those; use an absolute path, or \
             %d for the job's folder and %u for the user's name"
        ));
    }
    if path.contains('*') {
        return Err(format!(
            "`{path}` has a wildcard, and directives have none; stage the directory with type=directory, or several \
             files with type=list"
        ));
    }
    Ok(())
}

/// The first `$NAME`, `${...` or `$(...`.
fn shell_variable(text: &str) -> Option<&str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices('$').find_map(|(at, _)| {
        let rest = &text[at + 1..];
        let length = match rest.chars().next()? {
            '{' => rest.find('}').map_or(rest.len(), |end| end + 1),
            '(' => rest.find(')').map_or(rest.len(), |end| end + 1),
            c if is_name(c) => rest.find(|c| !is_name(c)).unwrap_or(rest.len()),
            _ => return None,
        };
        Some(&text[at..=at + length])
    })
}
