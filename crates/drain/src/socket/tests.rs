//! Who is spoken to through a drainer's socket, and who is heard.

use super::*;

#[test]
fn only_who_is_not_there_is_no_drainer() {
    let parent = tempfile::tempdir().unwrap();
    let state = parent.path().join("state");
    assert!(order(&state, Order::Status).unwrap().is_none());
    std::fs::create_dir(&state).unwrap();
    assert!(order(&state, Order::Status).unwrap().is_none());
    // ECONNREFUSED: what a drainer leaves that was killed.
    drop(UnixListener::bind(state.join(NAME)).unwrap());
    assert!(order(&state, Order::Status).unwrap().is_none());
    // One of the last release, from before the node was upgraded.
    std::fs::remove_file(state.join(NAME)).unwrap();
    let of_0_1_0 = UnixListener::bind(state.join(NAME_OF_0_1_0)).unwrap();
    let answers = std::thread::spawn(move || {
        let mut line = String::new();
        let stream = of_0_1_0.accept().unwrap().0;
        BufReader::new(&stream).read_line(&mut line).unwrap();
        (line, of_0_1_0)
    });
    order(&state, Order::Status).unwrap_err();
    assert_eq!(answers.join().unwrap().0, "status\n");
    std::fs::remove_file(state.join(NAME_OF_0_1_0)).unwrap();
    // Another's: nobody knows.
    let anothers = parent.path().join("anothers");
    let _listens = UnixListener::bind(&anothers).unwrap();
    std::os::unix::fs::symlink(anothers, state.join(NAME)).unwrap();
    let error = format!("{:#}", order(&state, Order::Status).unwrap_err());
    assert!(error.contains("state"), "{error}");
    // ENAMETOOLONG
    settle(&parent.path().join("x".repeat(300))).unwrap_err();
}

/// What a thread with the rights of `nobody` gives.
fn as_nobody<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    let nobody = rustix::fs::Uid::from_raw(65534);
    let act = || {
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        work()
    };
    std::thread::scope(|scope| scope.spawn(act).join().unwrap())
}

/// A folder of root's in which anybody can make files; `None` where this is not root.
fn of_root() -> Option<tempfile::TempDir> {
    let folder = rustix::process::geteuid().is_root().then(|| tempfile::tempdir().unwrap())?;
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    Some(folder)
}

#[test]
fn who_listens_in_a_folder_of_another_user_is_not_spoken_to() {
    let Some(folder) = of_root() else { return };
    let _listens = as_nobody(|| UnixListener::bind(folder.path().join(NAME)).unwrap());
    let error = format!("{:#}", order(folder.path(), Order::Stop).unwrap_err());
    assert!(error.contains("user 65534 listens on it, and user 0 owns the folder"), "{error}");
}

#[test]
fn another_user_is_not_heard() {
    let Some(folder) = of_root() else { return };
    let path = folder.path().join(NAME);
    let listener = UnixListener::bind(&path).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let _anothers = as_nobody(|| UnixStream::connect(&path).unwrap());
    heard(listener.accept().unwrap().0).unwrap_err();
    let _own = UnixStream::connect(&path).unwrap();
    heard(listener.accept().unwrap().0).unwrap();
}

#[test]
fn a_drainer_that_is_stopped_is_not_waited_for_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    // It takes connections, and nobody reads what comes.
    let _silent = UnixListener::bind(folder.path().join(NAME)).unwrap();
    let error = format!("{:#}", settle(folder.path()).unwrap_err());
    assert!(error.contains("see whether the drainer still works"), "{error}");
}

#[test]
fn a_drainer_that_ends_while_it_is_asked_is_no_drainer() {
    for is_heard in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join(NAME)).unwrap();
        let ends = std::thread::spawn(move || {
            poll(&mut [PollFd::new(&listener, PollFlags::IN)], None).unwrap();
            let heard = is_heard.then(|| listener.accept().unwrap().0);
            drop(listener);
            if let Some(stream) = heard {
                BufReader::new(stream).read_line(&mut String::new()).unwrap();
            }
        });
        let told = order(folder.path(), Order::Status);
        assert!(matches!(told, Ok(None)), "heard {is_heard}: {told:?}");
        ends.join().unwrap();
    }
}
