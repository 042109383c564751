//! Users of one persistent buffer.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use tests::hosts::plain;

use tests::sharing::{ADA, GRACE, Session, Site, contents};

/// A buffer in which ada has put files, and her session with it.
fn with_adas_files(site: &Site) -> (String, Session<'_>) {
    let buffer = site.shared_buffer();
    let mut ada = site.session(ADA, &buffer, "");
    ada.mount();
    ada.run(
        "umask 022; chmod 1777 $B; mkdir $B/alice; echo secret > $B/alice/key; chmod 600 $B/alice/key; \
         echo open > $B/alice/open; \
         mkdir -m 700 $B/closed; echo inside > $B/closed/f; chmod 666 $B/closed/f",
    )
    .expect_success();
    (buffer, ada)
}

fn stage_out(buffer: &str, what: &str, to: &str) -> String {
    format!("#DW stage_out type=file source=$DW_PERSISTENT_STRIPED_{buffer}/{what} destination={to}")
}

pub fn staged_out(site: &Site) {
    let (buffer, ada) = with_adas_files(site);
    let pfs = site.pfs(GRACE);
    for (what, delivered) in [("alice/key", None), ("closed/f", None), ("alice/open", Some("open\n"))] {
        let to = pfs.join(what.replace('/', "-"));
        let mut grace = site.session(GRACE, &buffer, &stage_out(&buffer, what, plain(&to)));
        grace.data_in().expect_success();
        grace.mount();
        let outcome = grace.data_out();
        assert_eq!(contents(&to).as_deref(), delivered, "{what}");
        assert_eq!(outcome.status.success(), delivered.is_some(), "{}{}", outcome.stdout, outcome.stderr);
        if delivered.is_none() {
            assert!(outcome.stdout.contains("Permission denied"), "{}", outcome.stdout);
        }
        grace.end();
    }
    ada.end();
    site.destroy(&buffer);
}

pub fn staged_in(site: &Site) {
    let (buffer, ada) = with_adas_files(site);
    let pfs = site.pfs(GRACE);
    fs::write(pfs.join("forged"), "forged\n").expect("ours");
    fs::set_permissions(pfs.join("forged"), fs::Permissions::from_mode(0o644)).expect("ours");
    let from = pfs.join("forged");
    let line = |what: &str| {
        let to = format!("$DW_PERSISTENT_STRIPED_{buffer}/{what}");
        format!("#DW stage_in type=file source={} destination={to}", from.display())
    };
    for what in ["alice/key", "alice/open", "alice/new", "closed/f"] {
        let grace = site.session(GRACE, &buffer, &line(what));
        let outcome = grace.data_in();
        assert!(!outcome.status.success() && outcome.stdout.contains("ermi"), "{what}: {}", outcome.stdout);
        grace.end();
    }
    let left =
        ada.run("cd $B; cat alice/key alice/open closed/f; ls alice; stat -c %u:%a alice/key alice/open");
    assert_eq!(left.stdout, "secret\nopen\ninside\nkey\nopen\n2001:600\n2001:644\n", "{}", left.stderr);
    // What she may make is hers.
    let grace = site.session(GRACE, &buffer, &line("own"));
    grace.data_in().expect_success();
    grace.end();
    let made = ada.run("stat -c %u:%g $B/own; cat $B/own").expect_success();
    assert_eq!(made.stdout, "2002:2002\nforged\n");
    ada.end();
    site.destroy(&buffer);
}

pub fn on_demand(site: &Site) {
    let (buffer, ada) = with_adas_files(site);
    let mut grace = site.session(GRACE, &buffer, "");
    grace.mount();
    let pfs = site.pfs(GRACE);
    let forebay = site.program("forebay");
    let out = |what: &str| format!("{forebay} stage out --wait $B/alice/{what} {}/{what}", pfs.display());
    let stolen = grace.run(&out("key"));
    assert!(!stolen.status.success() && contents(&pfs.join("key")).is_none(), "{}", stolen.stdout);
    grace.run(&out("open")).expect_success();
    assert_eq!(contents(&pfs.join("open")).as_deref(), Some("open\n"));
    assert_eq!(fs::metadata(pfs.join("open")).expect("it is there").uid(), GRACE.id);
    grace.end();
    ada.end();
    site.destroy(&buffer);
}

pub fn let_in(site: &Site) {
    let (buffer, ada) = with_adas_files(site);
    let pfs = site.pfs(GRACE);
    ada.run("setfacl -m u:2002:r $B/alice/key").expect_success();
    let to = pfs.join("by-list");
    let mut grace = site.session(GRACE, &buffer, &stage_out(&buffer, "alice/key", plain(&to)));
    grace.data_in().expect_success();
    grace.mount();
    grace.data_out().expect_success();
    assert_eq!(contents(&to).as_deref(), Some("secret\n"));
    grace.end();
    ada.end();
    site.destroy(&buffer);
}

/// n3 has the buffer mounted, and stores nothing of it: what it knows does not make it a storage node.
pub fn keys(site: &Site) {
    let (buffer, ada) = with_adas_files(site);
    let specs = fs::read_dir(site.state_of("n1").join("fragments")).expect("n1 stores").flatten();
    let specs = specs.filter_map(|fragment| fs::read(fragment.path().join("spec.json")).ok());
    let specs: Vec<serde_json::Value> = specs.filter_map(|text| serde_json::from_slice(&text).ok()).collect();
    let keys: Vec<&str> = specs.iter().filter_map(|spec| spec["key"].as_str()).collect();
    assert!(!keys.is_empty(), "n1 has no key: the rest shows nothing");
    for key in keys {
        let found = site.on("n3", &["grep", "-rl", key, plain(&site.state_of("n3"))]);
        assert_eq!(found.stdout, "", "n3 has the key of a buffer");
    }
    ada.end();
    site.destroy(&buffer);
}
