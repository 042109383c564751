//! The components of a heterogeneous job: `#SBATCH hetjob` parts the lines above the first command.

use super::{is_head, words};

/// The script as each component has it: lines that are another component's are empty, so that each line keeps its
/// number. What follows the first command is the first component's. One of a script that is not parted.
pub fn components(text: &str) -> Vec<String> {
    let (mut last, mut in_head) = (0, true);
    let of = |(index, line): (usize, &str)| {
        in_head &= is_head(line);
        last += usize::from(in_head && parts(line));
        match (index, in_head) {
            (0, _) => None,
            (_, true) => Some(last),
            (_, false) => Some(0),
        }
    };
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let owners: Vec<Option<usize>> = lines.iter().copied().enumerate().map(of).collect();
    let component = |own: usize| {
        let line = |(line, owner): (&&'_ str, &Option<usize>)| match owner {
            Some(other) if *other != own => if line.ends_with('\n') { "\n" } else { "" }.to_owned(),
            _ => (*line).to_owned(),
        };
        lines.iter().zip(&owners).map(line).collect()
    };
    (0..=last).map(component).collect()
}

/// `packjob` is what older releases called it.
fn parts(line: &str) -> bool {
    let first = line.strip_prefix("#SBATCH").and_then(|options| words::split(options).into_iter().next());
    first.is_some_and(|word| ["hetjob", "packjob"].contains(&word.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_component_has_the_lines_of_its_own_part_and_they_keep_their_numbers() {
        let text = "#!/bin/sh\n#DW a\n#SBATCH hetjob\n#SBATCH -N1\n\n#DW b\necho\n#SBATCH hetjob\n#DW c";
        let first = "#!/bin/sh\n#DW a\n\n\n\n\necho\n#SBATCH hetjob\n#DW c";
        let second = "#!/bin/sh\n\n#SBATCH hetjob\n#SBATCH -N1\n\n#DW b\n\n\n";
        assert_eq!(components(text), [first, second]);
        assert_eq!(components("#!/bin/sh\n#SBATCH -J hetjob\n"), ["#!/bin/sh\n#SBATCH -J hetjob\n"]);
    }
}
