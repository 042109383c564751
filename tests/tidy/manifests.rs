//! What a crate's `Cargo.toml` takes from the workspace: who it is, and the version of all that it uses.

use crate::tree::Source;

/// What a package has from `[workspace.package]`.
const OF_PACKAGE: [&str; 5] = ["version", "edition", "license", "publish", "rust-version"];

/// What a manifest says by itself, or lacks, that the workspace's is to say: a line each.
fn own(text: &str) -> Vec<String> {
    let (mut section, mut own, mut left) = (String::new(), Vec::new(), OF_PACKAGE.to_vec());
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if line.starts_with('[') {
            section = line.trim_matches(['[', ']']).to_owned();
            continue;
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        if section == "package" && value.trim() == "true" {
            left.retain(|wanted| key.trim().strip_suffix(".workspace") != Some(wanted));
        }
        // A path alone has no version.
        let has_version =
            value.trim().starts_with('"') || ["version", "git"].iter().any(|it| value.contains(it));
        if section.ends_with("dependencies") && has_version {
            own.push(format!("[{section}] {line}"));
        }
    }
    own.extend(left.into_iter().map(|wanted| format!("[package] has no {wanted}.workspace = true")));
    own
}

/// What the manifests of the workspace's packages say by themselves.
pub fn wrong(manifests: &[Source]) -> Vec<String> {
    let of = |Source { path, text }: &Source| -> Vec<String> {
        own(text).into_iter().map(|line| format!("{path}: {line}")).collect()
    };
    manifests.iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_the_workspaces() {
        let package: String = OF_PACKAGE.iter().map(|key| format!("{key}.workspace = true\n")).collect();
        let of = |rest: &str| own(&format!("[package]\nname = \"a\"\n{package}{rest}"));
        let inherited = "[dependencies]\na.workspace = true\nd = { path = \"../d\" }\n\
                         b = { workspace = true, features = [\"c\"] }\n";
        assert_eq!(of(inherited), [""; 0]);
        assert_eq!(of("[dev-dependencies]\na = \"1\"\n"), ["[dev-dependencies] a = \"1\""]);
        assert_eq!(
            of("[target.x.dependencies]\na = { version = \"1\" }\n"),
            ["[target.x.dependencies] a = { version = \"1\" }"]
        );
        assert_eq!(
            own(&format!("[package]\n{package}").replace("version.workspace = true\n", "version = \"2\"\n"))
                .len(),
            2
        );
    }
}
