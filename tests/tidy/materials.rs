//! The bill of materials that a release comes with, against `Cargo.lock`.

use serde_json::Value;

/// What is wrong with a bill in CycloneDX: it lists what is not locked, without its checksum or a licence; it lacks one
/// of `linked`, as `NAME vVERSION`.
pub fn wrong(bill: &Value, lock: &str, linked: &[String]) -> Vec<String> {
    let components = || bill["components"].as_array().into_iter().flatten();
    let mut wrong: Vec<String> = components().filter_map(|component| wrong_in(component, lock)).collect();
    let listed: Vec<String> = components().map(name).collect();
    wrong.extend(linked.iter().filter(|one| !listed.contains(one)).map(|one| format!("{one} is not listed")));
    let is_other = |one: &&String| !linked.contains(one);
    wrong.extend(listed.iter().filter(is_other).map(|one| format!("{one} is not linked")));
    wrong
}

fn name(component: &Value) -> String {
    let [name, version] = ["name", "version"].map(|key| component[key].as_str().unwrap_or_default());
    format!("{name} v{version}")
}

fn wrong_in(component: &Value, lock: &str) -> Option<String> {
    let [name, version, purl] =
        ["name", "version", "purl"].map(|key| component[key].as_str().unwrap_or_default());
    let begin = format!("name = \"{name}\"\nversion = \"{version}\"\n");
    let Some(entry) = lock.split("\n\n").find(|entry| entry.contains(&begin)) else {
        return Some(format!("{name} {version} is not in Cargo.lock"));
    };
    let locked = entry.lines().find_map(|line| line.strip_prefix("checksum = "));
    let told = component["hashes"][0]["content"].as_str().map(|sum| format!("\"{sum}\""));
    match () {
        () if locked != told.as_deref() => {
            Some(format!("{name} {version} has another checksum in Cargo.lock"))
        }
        () if component["licenses"][0]["expression"].is_null() => Some(format!("{name} has no licence")),
        () if purl != format!("pkg:cargo/{name}@{version}") => Some(format!("{name} has the address {purl}")),
        () => None,
    }
}
