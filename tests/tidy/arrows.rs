//! Arrows between crates: what a `Cargo.toml` says against the list in ARCHITECTURE.md, in which no arrow goes back up.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// What each crate uses of the workspace.
pub type Arrows = BTreeMap<String, BTreeSet<String>>;

/// The arrows in what `cargo metadata --no-deps` says. Tests may use what they like.
pub fn of_metadata(metadata: &Value) -> Arrows {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    packages.map(|package| (text(&package["name"]), uses(package))).collect()
}

fn uses(package: &Value) -> BTreeSet<String> {
    let all = package["dependencies"].as_array().into_iter().flatten();
    let ours = all.filter(|used| used["path"].is_string() && used["kind"] != "dev");
    ours.map(|used| text(&used["name"])).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// What is wrong with the list: a line for each crate, `NAME  uses A B C`, between the line that begins with
/// "```arrows" and the next "```".
pub fn differences(document: &str, real: &Arrows) -> Vec<String> {
    let lines = document.lines().skip_while(|line| !line.starts_with("```arrows")).skip(1);
    let lines = lines.take_while(|line| !line.starts_with("```"));
    let (mut wrong, mut listed) = (Vec::new(), Arrows::new());
    for line in lines {
        let mut words = line.split_whitespace().filter(|word| *word != "uses").map(str::to_owned);
        let Some(name) = words.next() else { continue };
        let uses: BTreeSet<String> = words.collect();
        for used in uses.iter().filter(|used| !listed.contains_key(*used)) {
            wrong.push(format!("{name} uses {used}, which is not above it"));
        }
        listed.insert(name, uses);
    }
    for name in real.keys().chain(listed.keys()).collect::<BTreeSet<_>>() {
        let (real, said) = (real.get(name), listed.get(name));
        if real != said {
            wrong.push(format!("{name}: Cargo.toml says {}, ARCHITECTURE.md {}", show(real), show(said)));
        }
    }
    wrong
}

fn show(uses: Option<&BTreeSet<String>>) -> String {
    match uses {
        None => "there is no such crate".to_owned(),
        Some(uses) => format!("`uses {}`", uses.iter().cloned().collect::<Vec<_>>().join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LIST: &str = "An arrow\n```arrows\nmodel\nwire    uses model\n```\nstore uses wire\n";

    fn metadata(wire: &[&str]) -> Value {
        let used: Vec<Value> = wire
            .iter()
            .map(|name| json!({"name": name, "path": "/x", "kind": null}))
            .chain([json!({"name": "serde", "kind": null})])
            .chain([json!({"name": "tempfile", "path": "/x", "kind": "dev"})])
            .collect();
        json!({"packages": [{"name": "model", "dependencies": []}, {"name": "wire", "dependencies": used}]})
    }

    #[test]
    fn the_list_says_what_the_manifests_say() {
        assert_eq!(differences(LIST, &of_metadata(&metadata(&["model"]))), Vec::<String>::new());
        assert_eq!(differences(LIST, &of_metadata(&metadata(&[]))).len(), 1);
        assert_eq!(differences(LIST, &of_metadata(&metadata(&["model", "store"]))).len(), 1);
    }

    #[test]
    fn no_arrow_goes_back_up() {
        let list = "```arrows\nwire uses model\nmodel\n```\n";
        let wrong = differences(list, &of_metadata(&metadata(&["model"])));
        assert_eq!(wrong, ["wire uses model, which is not above it"]);
    }
}
