//! What becomes of a stage-out whose source has lost its name since it was asked for.

use std::fs;
use std::path::{Path, PathBuf};

use model::Ino;
use model::phase::{Direction, StageKind, StageState};
use wire::control::{ErrorCode, StageStatus};
use wire::node::StageSpec;

use crate::support::Site;
use crate::support::faulty_pfs::FaultyPfs;
use crate::worker::Work;

#[test]
fn a_file_that_was_removed_after_it_was_asked_for_is_said_to_be() {
    let work = Work::new(1, 1 << 20);
    let spec = StageSpec { kind: StageKind::File, ..work.spec("1.0", Direction::Out, "out", "results.h5") };
    let status = work.run(&StageSpec { source_ino: Some(Ino(4711)), ..spec });
    let error = status.error.unwrap();
    assert_eq!(error.code, ErrorCode::StageSourceRemoved);
    assert!(error.message.contains("results.h5: it was removed after the stage was asked for"), "{error}");
    assert_eq!(status.failures.iter().map(|failure| failure.errno).collect::<Vec<_>>(), [2]);
}

/// Stages in a set of two folders; what `meanwhile` does is done before each listing, of which it gets the number.
fn staged_while(meanwhile: impl FnMut(u64, &Path) + Send + 'static) -> (Site, StageStatus) {
    let site = Site::new();
    for folder in ["set/a", "set/b"] {
        fs::create_dir_all(site.pfs(folder).join("sub")).unwrap();
        for name in ["kept", "moved", "sub/below"] {
            fs::write(site.pfs(folder).join(name), folder).unwrap();
        }
    }
    let pfs = FaultyPfs::default();
    *pfs.shared.at_list.lock().unwrap() = Some(Box::new(meanwhile));
    let spec = site.spec(Direction::In, StageKind::Directory, "set", "");
    let status = site.run_on(pfs, &spec);
    (site, status)
}

#[test]
fn what_is_moved_from_a_folder_that_was_not_listed_yet_into_one_that_was_is_staged() {
    let mut first: Option<PathBuf> = None;
    let mut is_moved = false;
    let (site, status) = staged_while(move |_, folder| {
        if is_moved || !["a", "b"].iter().any(|name| folder.ends_with(name)) {
            return;
        }
        let Some(listed) = first.clone().filter(|listed| listed != folder) else {
            first = Some(folder.to_owned());
            return;
        };
        is_moved = true;
        // A name of its own, one of a folder that is there no more, and that of a file that was listed.
        fs::remove_dir_all(listed.join("sub")).unwrap();
        fs::write(folder.join("sub/new"), b"new").unwrap();
        fs::rename(folder.join("sub"), listed.join("sub")).unwrap();
        fs::rename(folder.join("kept"), listed.join("alone")).unwrap();
        fs::rename(folder.join("moved"), listed.join("moved")).unwrap();
    });
    assert_eq!((status.state, &status.failures), (StageState::Complete, &vec![]), "{status:?}");
    for path in ["kept", "alone", "moved", "sub/below", "sub/new"] {
        let found = ["a", "b"].iter().find(|folder| site.pfs(&format!("set/{folder}/{path}")).exists());
        let path = format!("{}/{path}", found.unwrap());
        let (there, here) = (fs::read(site.pfs("set").join(&path)), fs::read(site.buffer(&path)));
        assert_eq!(here.ok(), there.ok(), "{path}");
    }
}

#[test]
fn a_tree_whose_folders_never_rest_is_not_called_complete() {
    let (_, status) = staged_while(|number, folder| {
        if folder.ends_with("set") {
            fs::create_dir(folder.join(format!("new{number}"))).unwrap();
        } else if let Some(set) = folder.ancestors().find(|above| above.ends_with("set")) {
            fs::create_dir(set.join(format!("beside{number}"))).unwrap();
        }
    });
    assert_eq!(status.state, StageState::Failed, "{status:?}");
    assert!(status.failures.iter().any(|failure| failure.operation == "list folder"), "{status:?}");
}
