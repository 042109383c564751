//! Fragments that are made and removed while a call fails, or kills the node.

use tests::injection::{Call, Fault, Trace, recorded, struck};
use wire::control::VolumeKind;

use crate::site::{Site, is_named};
use crate::tried;

/// A node that runs, with one filled fragment that must stay.
fn site() -> Site {
    let mut site = Site::new();
    site.start_well();
    site.create("i1", VolumeKind::Directory).unwrap();
    site.fill("i1");
    site
}

/// The calls of making a fragment, and of removing it.
fn calls(site: &mut Site, volume: VolumeKind) -> (Vec<Call>, Vec<Call>) {
    let (log, fragments) = (site.trace_log(), site.fragments());
    let attached = Trace::of(Fault::None, &log).attach(site.pid());
    site.create("i2", volume).unwrap();
    drop(attached);
    let made = recorded(&log, &fragments);
    let attached = Trace::of(Fault::None, &log).attach(site.pid());
    site.delete("i2").unwrap();
    drop(attached);
    (tried(made), tried(recorded(&log, &fragments)))
}

fn an_error_leaves_nothing_behind(volume: VolumeKind) {
    let mut site = site();
    let (made, removed) = calls(&mut site, volume);
    let (log, folder, mut hits) = (site.trace_log(), site.folder(), 0);
    for call in made {
        let attached = Trace::of(Fault::Error("EIO", call.clone()), &log).attach(site.pid());
        let outcome = site.create("i2", volume);
        drop(attached);
        hits += struck(&log);
        if let Err(words) = outcome {
            assert!(is_named(&words, &folder), "{call:?}: {words}");
            site.create("i2", volume)
                .unwrap_or_else(|error| panic!("{call:?}: {words}, and after it {error}"));
        }
        site.fill("i2");
        site.check("i2", &call);
        site.delete("i2").unwrap();
        assert_eq!(site.names(), ["i1"], "{call:?}");
    }
    for call in removed {
        site.create("i2", volume).unwrap();
        let attached = Trace::of(Fault::Error("EIO", call.clone()), &log).attach(site.pid());
        let outcome = site.delete("i2");
        drop(attached);
        hits += struck(&log);
        if let Err(words) = outcome {
            assert!(is_named(&words, &folder), "{call:?}: {words}");
            site.delete("i2").unwrap_or_else(|error| panic!("{call:?}: {words}, and after it {error}"));
        }
        assert_eq!(site.names(), ["i1"], "{call:?}");
    }
    assert!(hits > 10, "{hits} errors");
    site.stop();
    assert_eq!(site.start_well().fragments.len(), 1);
    site.check("i1", &"after all errors");
}

fn a_death_leaves_all_or_nothing(volume: VolumeKind) {
    let mut site = site();
    let (made, removed) = calls(&mut site, volume);
    let (log, mut deaths) = (site.trace_log(), 0);
    let steps =
        made.into_iter().map(|call| (call, true)).chain(removed.into_iter().map(|call| (call, false)));
    for (call, makes) in steps {
        if !makes {
            site.create("i2", volume).unwrap();
        }
        let attached = Trace::of(Fault::Kill(call.clone()), &log).attach(site.pid());
        let outcome = if makes { site.create("i2", volume) } else { site.delete("i2") };
        drop(attached);
        if let Err(words) = outcome {
            // A program that the node runs has calls of the same number: then that is killed, and the node says so.
            if words.is_empty() {
                deaths += 1;
                site.await_death();
                site.start_well();
            }
            let health = site.health().unwrap_or_else(|| panic!("{call:?}: {words}"));
            let errors: Vec<_> = health.fragments.iter().filter_map(|status| status.error.clone()).collect();
            assert!(errors.is_empty(), "{call:?}: {errors:?}");
            let is_there = health.fragments.iter().any(|status| status.instance == "i2");
            assert_eq!(site.names(), if is_there { vec!["i1", "i2"] } else { vec!["i1"] }, "{call:?}");
            site.create("i2", volume).unwrap();
            site.fill("i2");
        }
        site.check("i1", &call);
        site.delete("i2").unwrap();
        assert_eq!(site.names(), ["i1"], "{call:?}");
    }
    assert!(deaths > 10, "{deaths} deaths");
}

#[test]
fn an_error_while_a_fragment_in_a_folder_comes_or_goes_leaves_nothing_behind() {
    an_error_leaves_nothing_behind(VolumeKind::Directory);
}

#[test]
fn an_error_while_a_fragment_in_a_volume_comes_or_goes_leaves_nothing_behind() {
    an_error_leaves_nothing_behind(VolumeKind::Image);
}

#[test]
fn a_death_while_a_fragment_in_a_folder_comes_or_goes_leaves_all_of_it_or_nothing() {
    a_death_leaves_all_or_nothing(VolumeKind::Directory);
}

#[test]
fn a_death_while_a_fragment_in_a_volume_comes_or_goes_leaves_all_of_it_or_nothing() {
    a_death_leaves_all_or_nothing(VolumeKind::Image);
}
