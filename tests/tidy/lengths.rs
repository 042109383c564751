//! Lengths of files and functions, in lines.

/// The lines of a text.
pub fn file(text: &str) -> usize {
    text.lines().count()
}

/// The functions of a file that rustfmt wrote, with their lines from `fn` to the closing brace.
pub fn functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if let Some(name) = name(line)
            && let Some(length) = length(&lines[at..])
        {
            found.push((name.to_owned(), length));
        }
    }
    found
}

/// The name of the function whose head begins on this line.
fn name(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    while !rest.starts_with("fn ") {
        let (word, after) = rest.split_once(' ')?;
        let before = ["pub", "const", "async", "unsafe", "extern", "\"C\""].contains(&word);
        rest = (before || word.starts_with("pub(")).then_some(after)?;
    }
    let name = rest.strip_prefix("fn ")?;
    name.split(|next: char| !next.is_alphanumeric() && next != '_').next().filter(|name| !name.is_empty())
}

/// How many lines the function that begins with these has; `None` where it has no body.
fn length(lines: &[&str]) -> Option<usize> {
    let head = lines.iter().position(|line| line.ends_with(['{', ';', '}']))?;
    match lines[head] {
        body if body.ends_with('}') => Some(head + 1),
        body if body.ends_with('{') => {
            let indent = lines[0].len() - lines[0].trim_start().len();
            let close = format!("{}}}", &lines[0][..indent]);
            lines.iter().position(|line| *line == close).map(|end| end + 1)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_counted_from_its_head_to_its_brace() {
        let text = "impl A {\n    pub(crate) async fn long(\n        &self,\n    ) -> u8 {\n        if b {\n        }\n\
            \x20   }\n\n\
            \x20   fn short(&self) {}\n}\n\ntrait T {\n    fn none(&self);\n}\n// fn comment() {\n";
        assert_eq!(functions(text), [("long".to_owned(), 6), ("short".to_owned(), 1)]);
        let long = format!("fn f() {{\n{}}}\n", "    g();\n".repeat(39));
        assert_eq!(functions(&long), [("f".to_owned(), 41)]);
        assert_eq!(file(&long), 41);
    }
}
