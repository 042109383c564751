//! A node that meets an error at its start.

use std::fs;

use client::Errno;
use tests::injection::{Fault, Trace, recorded, struck};
use wire::control::VolumeKind;

use crate::site::{Site, is_named};
use crate::tried;

/// A node with a fragment in a folder and one in a volume, both filled, that does not run.
fn filled() -> Site {
    let mut site = Site::new();
    site.start_well();
    for (instance, volume) in [("i1", VolumeKind::Directory), ("i2", VolumeKind::Image)] {
        site.create(instance, volume).unwrap();
        site.fill(instance);
    }
    site.stop();
    site
}

#[test]
fn an_error_of_any_call_of_a_start_is_named_and_loses_nothing() {
    let mut site = filled();
    let (log, folder) = (site.trace_log(), site.folder());
    site.start(Some(&Trace::of(Fault::None, &log))).unwrap();
    let calls = tried(recorded(&log, &folder));
    site.stop();
    let (mut hits, mut refusals) = (0, 0);
    for call in calls {
        match site.start(Some(&Trace::of(Fault::Error("EIO", call.clone()), &log))) {
            Err(words) => {
                refusals += 1;
                assert!(
                    is_named(&words, &folder),
                    "{call:?}: the node does not start, and says only: {words}"
                );
            }
            Ok(health) => {
                assert_eq!(health.fragments.len(), 2, "{call:?}: a fragment is passed over in silence");
                for status in health.fragments {
                    match status.error {
                        // The error may meet a thread that serves: its answer is EIO then, and nothing else.
                        None => match site.compare(status.instance.as_str(), &call) {
                            Ok(()) => {}
                            Err(errno) => assert_eq!(errno, Errno::IO, "{call:?}: {}", status.instance),
                        },
                        Some(words) => {
                            refusals += 1;
                            assert!(is_named(&words, &folder), "{call:?}: {words}");
                        }
                    }
                }
            }
        }
        site.stop();
        hits += struck(&log);
    }
    assert!(hits > 10 && refusals > 5, "{hits} errors, {refusals} refusals");
    site.start_well();
    site.check("i1", &"after all errors");
    site.check("i2", &"after all errors");
}

#[test]
fn what_is_missing_or_damaged_is_named_and_kept() {
    let mut site = filled();
    let lost =
        ["i1/spec.json", "i1/namespaces/0/meta.log", "i1/objects/0", "i2/volume.empty", "i2/volume.img"];
    let mut cases: Vec<(&str, Option<&[u8]>)> = lost.into_iter().map(|path| (path, None)).collect();
    cases.extend([("i1/spec.json", Some(&b"{"[..])), ("i2/volume.empty", Some(b"many"))]);
    for (path, damage) in cases {
        let (file, aside) = (site.fragments().join(path), site.folder().join("aside"));
        fs::rename(&file, &aside).unwrap();
        if let Some(bytes) = damage {
            fs::write(&file, bytes).unwrap();
        }
        let instance = &path[..2];
        let health = site.start_well();
        let status = health.fragments.iter().find(|status| status.instance == instance);
        let words = status.and_then(|status| status.error.clone()).unwrap_or_default();
        assert!(words.contains(path), "{path}: {words:?}");
        let refused = site.create(instance, VolumeKind::Directory).unwrap_err();
        assert!(refused.contains(path) && refused.contains("kept as it is"), "{refused}");
        site.stop();
        assert_eq!(fs::read(&file).ok().as_deref(), damage, "{path} was made anew");
        if damage.is_some() {
            fs::remove_file(&file).unwrap();
        }
        fs::rename(&aside, &file).unwrap();
        site.start_well();
        site.check(instance, &path);
        site.stop();
    }
}
