//! A command line that is not understood, said as every other error: one line, WHAT; WHAT TO DO.

/// The exit status of a wrong command line.
pub const STATUS: u8 = 64;

/// What the parser's own text, of several lines, says is wrong with a command line of `program`.
pub fn one_line(program: &str, text: &str) -> String {
    let (mut what, mut tips, mut command) = (Vec::new(), Vec::new(), Vec::new());
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(usage) = line.strip_prefix("Usage: ") {
            // Up to the first option or value.
            let is_name = |word: &&str| word.starts_with(|ch: char| ch.is_ascii_lowercase());
            command = usage.split_whitespace().take_while(is_name).collect();
            break;
        }
        match (line.strip_prefix("tip: "), line.starts_with("For more information")) {
            // That a mistyped option may be a value after `--` helps nobody.
            (Some(tip), _) => tips.extend(Some(tip).filter(|tip| !tip.starts_with("to pass "))),
            (None, true) => break,
            (None, false) => what.push(line),
        }
    }
    let what = what.join(" ");
    let what = what.strip_prefix("error: ").unwrap_or(&what);
    let help = if command.is_empty() { program.to_owned() } else { command.join(" ") };
    tips.push("");
    let tip = tips.join("; ");
    // Words of the command line may be in it.
    let whole = format!("{program}: {what}; {tip}`{help} --help` lists what it takes");
    whole.chars().map(|ch| if ch.is_control() { '\u{fffd}' } else { ch }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_and_what_to_do_are_one_line() {
        let text = "error: unexpected argument '--hots' found\n\n  tip: a similar argument exists: '--host'\n  \
                    tip: to pass '--hots' as a value, use '-- --hots'\n\n\
                    Usage: forebay with [OPTIONS] --capacity <SIZE>\n\nFor more information, try '--help'.\n";
        let line = "forebay: unexpected argument '--hots' found; a similar argument exists: '--host'; \
                    `forebay with --help` lists what it takes";
        assert_eq!(one_line("forebay", text), line);
        let text = "error: the following required arguments were not provided:\n  <TOKEN>\n\n\
                    Usage: forebay rm <TOKEN>\n";
        let line = "forebay: the following required arguments were not provided: <TOKEN>; `forebay rm --help` lists \
                    what it takes";
        assert_eq!(one_line("forebay", text), line);
        let unshown = one_line("forebay", "error: invalid value 'a\u{1b}[2J' for 'b'\n");
        assert!(
            !unshown.contains(char::is_control) && unshown.ends_with("`forebay --help` lists what it takes")
        );
    }
}
