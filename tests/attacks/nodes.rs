//! Hosts of the cluster against each other, and what they keep.

use std::fs;

use tests::hosts::plain;
use tests::sharing::{ADA, Site};

/// How `forebay-node` is started on n4 as another node, for eight seconds: which configuration, and where it keeps its
/// state.
const AS_N1: &str = r#"
mkdir -p "$2"
grep -vE '^(name|state_dir|metrics|mount_root|local_)' "$1" > "$2/node.toml"
printf 'name = "n1"\nstate_dir = "%s"\nmount_root = "%s"\napi_port = 8071\ndata_port = 8072\n' "$2/state" "$2/mnt" \
    >> "$2/node.toml"
timeout 8 forebay-node --config "$2/node.toml" 2>&1
true
"#;

/// Root of n4 has the site's MUNGE key, and asks for the name of n1, which lives.
pub fn names(site: &Site) {
    let address = || {
        let status = site.on("head", &[&site.program("forebay"), "status", "--json"]).expect_success();
        let status: serde_json::Value = serde_json::from_str(&status.stdout).expect("it is JSON");
        let nodes = status["nodes"].as_array().expect("a list").clone();
        let n1 = nodes.into_iter().find(|node| node["name"] == "n1").expect("n1 is known");
        assert_eq!(n1["online"], true, "{n1}");
        n1["address"].clone()
    };
    let before = address();
    let configuration = site.folder().join("etc/n4.toml");
    let folder = site.folder().join(site.name("as-n1-"));
    let said = site.on("n4", &["bash", "-c", AS_N1, "as-n1", plain(&configuration), plain(&folder)]);
    assert!(said.stdout.contains("node n1 lives on host"), "{}{}", said.stdout, said.stderr);
    assert_eq!(address(), before);
    fs::remove_dir_all(&folder).expect("ours");
}

/// Images, objects, logs, journals and specifications, also where the folder itself is open.
pub fn modes(site: &Site) {
    let buffer = site.shared_buffer();
    let mut ada = site.session(ADA, &buffer, "");
    ada.mount();
    ada.run("chmod 1777 $B; seq 100000 > $B/f; chmod 666 $B/f; sync $B/f").expect_success();
    let to = site.pfs(ADA).join("f");
    let forebay = site.program("forebay");
    ada.run(&format!("{forebay} stage out --wait $B/f {}", to.display())).expect_success();
    let (mut found, mut open) = (String::new(), String::new());
    for host in ["n1", "n2", "n3"] {
        let state = site.state_of(host);
        let find = ["find", plain(&state), "-type", "f"];
        found += &site.on(host, &find).stdout;
        open += &site.on(host, &[&find[..], &["-perm", "/077"]].concat()).stdout;
    }
    assert!(found.contains("meta.log") && found.contains("spec.json"), "{found}");
    assert_eq!(open, "", "others could read that");
    assert_eq!(fs::read(&to).expect("it was staged").len(), 588_895);
    ada.end();
    site.destroy(&buffer);
}
