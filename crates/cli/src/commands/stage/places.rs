//! From what the user types to a buffer and paths: a path below a mount, or `$DW_JOB_STRIPED/…` with a token.

use std::path::{Path, PathBuf};

use api::control::session_path;
use api::mounted::{Mounted, absolute};
use model::Ino;
use model::Token;
use model::buffer::BufferRef;
use model::directive::{BufferPath, BufferRoot, parse_buffer_path, parse_list_line};
use model::phase::{AccessMode, Direction, StageKind};
use wire::control::{ErrorCode, Place, SessionStatus, StagePair, StageScope};

use super::super::mount::no_cluster;
use super::client::Client;
use crate::arguments::{self, Ask, Common, Kind, Which, token_or_usage};
use crate::failure::Failure;

const ADVICE: &str = "name a path below a mounted buffer, or $DW_JOB_STRIPED/PATH and --token TOKEN";

const NAME_ONE: &str = "name a path below a mounted buffer, or --token TOKEN; `forebay status` lists them";

/// A path in a buffer.
struct Located {
    place: Place,
    path: String,
    is_folder: bool,
    /// Where it is on this machine, if it is mounted here.
    here: Option<PathBuf>,
}

/// With what is known of the source, which is `here` on this machine.
fn with_known(pair: StagePair, direction: Direction, here: Option<&Path>) -> StagePair {
    let Some(here) = here else { return pair };
    let ino = (direction == Direction::Out).then(|| inodes(here)(here)).flatten();
    StagePair { size_hint: size(here), ino, ..pair }
}

/// With what is known here, where the buffer is mounted, of what is to be staged out.
fn measured(mut pairs: Vec<StagePair>, here: &Path) -> Vec<StagePair> {
    let inode = inodes(here);
    for pair in &mut pairs {
        let path = here.join(&pair.buffer);
        (pair.size_hint, pair.ino) = (size(&path), inode(&path));
    }
    pairs
}

/// The inode numbers of what is in the buffer that `place` is in.
fn inodes(place: &Path) -> impl Fn(&Path) -> Option<Ino> {
    let mounted = Mounted::of_path(place).ok().flatten();
    move |path| mounted.as_ref()?.0.inode(path).map(Ino::from)
}

fn size(path: &Path) -> Option<u64> {
    Some(path.metadata().ok()?.len())
}

/// What `stage in` and `stage out` ask for.
///
/// # Errors
/// A path that is in no buffer, or a list with a mistake.
pub async fn of_request(
    client: &Client,
    direction: Direction,
    ask: &Ask,
) -> Result<(Place, StageKind, Vec<StagePair>), Failure> {
    let common = &ask.common;
    let (source, destination) = (ask.source.as_path(), ask.destination.as_deref());
    if ask.kind == Some(Kind::List) {
        let (place, pairs) = of_list(client, direction, source, common).await?;
        return Ok((place, StageKind::File, pairs));
    }
    let destination = destination.ok_or_else(|| {
        Failure::usage("a destination is missing", "name the source and then the destination")
    })?;
    let (buffer, pfs) = match direction {
        Direction::In => (destination, source),
        Direction::Out => (source, destination),
    };
    check_text(source)?;
    check_text(destination)?;
    let buffer = locate(client, buffer, common).await?;
    let pfs = absolute(pfs).map_err(|e| Failure::local("look up", pfs, &e))?;
    let is_folder = match direction {
        Direction::In => disk::is_folder(&pfs).map_err(|e| Failure::local("look up", &pfs, &e))?,
        Direction::Out => buffer.is_folder,
    };
    let kind = match ask.kind {
        Some(Kind::Directory) => StageKind::Directory,
        None if is_folder => StageKind::Directory,
        _ => StageKind::File,
    };
    // A file that goes to a folder keeps its name there; control knows folders by their slash, and the root as empty.
    let into_folder = kind == StageKind::File && direction == Direction::In && buffer.is_folder;
    let path = if into_folder && !buffer.path.is_empty() { buffer.path + "/" } else { buffer.path };
    let here = if direction == Direction::In { Some(pfs.clone()) } else { buffer.here };
    let pair = StagePair::new(path, pfs);
    let pair = client.asking(move || with_known(pair, direction, here.as_deref())).await;
    Ok((buffer.place, kind, vec![pair]))
}

/// Refuses a path that control cannot be told.
fn check_text(path: &Path) -> Result<(), Failure> {
    if path.to_str().is_some() {
        return Ok(());
    }
    Err(Failure::usage(
        format!("{path:?} is not UTF-8 text, as the two paths of a stage must be"),
        "rename it, or stage the folder that it is in: names below a folder may have any bytes",
    ))
}

/// The stages that `status`, `wait`, `retry` and `cancel` are about.
///
/// # Errors
/// A path that is in no buffer.
pub async fn of_which(client: &Client, which: &Which) -> Result<(Place, StageScope), Failure> {
    let common = &which.common;
    match &which.path {
        Some(path) => {
            let located = locate(client, path, common).await?;
            let scope = match located.is_folder || located.path.is_empty() {
                true => StageScope::Directory(located.path),
                false => StageScope::Files(vec![located.path]),
            };
            Ok((located.place, scope))
        }
        None => {
            let root = match &common.persistent {
                Some(name) => of_persistent(client, name).await?,
                None => of_session(client, token_or_usage(common.token.as_ref(), NAME_ONE)?).await?,
            };
            Ok((root, StageScope::All))
        }
    }
}

async fn of_list(
    client: &Client,
    direction: Direction,
    file: &Path,
    common: &Common,
) -> Result<(Place, Vec<StagePair>), Failure> {
    let text = std::fs::read_to_string(file).map_err(|e| {
        Failure::no_input(
            format!("read {}: {e}", file.display()),
            "name a file of `source destination` lines",
        )
    })?;
    let mistake = |line: usize, why: String| {
        Failure::script(format!("list file {}, line {line}: {why}", file.display()), "correct that line")
    };
    let mut root: Option<BufferRoot> = None;
    let mut pairs = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let Some(entry) = parse_list_line(text, direction) else { continue };
        let entry = entry.map_err(|error| mistake(line, error.to_string()))?;
        if *root.get_or_insert_with(|| entry.buffer.root.clone()) != entry.buffer.root {
            return Err(mistake(line, "it is in another buffer than the lines before".to_owned()));
        }
        let pfs = PathBuf::from(entry.pfs);
        let size_hint = size(&pfs).filter(|_| direction == Direction::In);
        pairs.push(StagePair { size_hint, ..StagePair::new(entry.buffer.path, pfs) });
    }
    let root = root.ok_or_else(|| mistake(1, "the list is empty".to_owned()))?;
    let token = common.persistent.as_ref().or(common.token.as_ref());
    let located = of_variable(client, BufferPath { root, path: String::new() }, token).await?;
    if let (Direction::Out, Some(here)) = (direction, located.here) {
        pairs = client.asking(move || measured(pairs, &here)).await;
    }
    Ok((located.place, pairs))
}

async fn locate(client: &Client, path: &Path, common: &Common) -> Result<Located, Failure> {
    if let Some(name) = &common.persistent {
        return in_persistent(client, path, name).await;
    }
    let token = common.token.as_ref();
    if let Some(parsed) = path.to_str().and_then(parse_buffer_path) {
        let parsed = parsed.map_err(|why| Failure::usage(why, ADVICE))?;
        return of_variable(client, parsed, token).await;
    }
    let asked = path.to_owned();
    let (found, is_folder) = client.asking(move || (Mounted::of_path(&asked), disk::is_folder(&asked))).await;
    let found = found
        .map_err(|e| Failure::no_input(format!("look up {}: {e}", path.display()), "check the spelling"))?;
    let Some((mounted, below)) = found else {
        return Err(Failure::usage(format!("{} is in no buffer", path.display()), ADVICE));
    };
    let is_folder = is_folder.map_err(|e| Failure::local("look up", path, &e))?
        || path.as_os_str().as_encoded_bytes().ends_with(b"/");
    Ok(Located { place: mounted.place(), path: below, is_folder, here: Some(path.to_owned()) })
}

/// A path from the root of a persistent buffer.
async fn in_persistent(client: &Client, path: &Path, name: &Token) -> Result<Located, Failure> {
    let place = of_persistent(client, name).await?;
    let text = path.to_string_lossy();
    let below = text.trim_start_matches('/');
    let is_folder = below.is_empty() || below == "." || below.ends_with('/');
    let parts: Vec<&str> = below.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    Ok(Located { place, path: parts.join("/"), is_folder, here: None })
}

/// The persistent buffer's namespace.
async fn of_persistent(client: &Client, name: &Token) -> Result<Place, Failure> {
    if matches!(client, Client::Own(_)) {
        return Err(no_cluster());
    }
    let missing = || {
        let message = format!("there is no persistent buffer {name}");
        Failure::no_input(message, "`forebay status` lists those that there are")
    };
    let status = known(client, name).await?.ok_or_else(missing)?;
    if status.persistent.is_none() {
        return Err(Failure::no_input(
            format!("{name} is the buffer of a job, and no persistent one"),
            format!("write --token {name}"),
        ));
    }
    of_session(client, name.clone()).await
}

/// A path as directives have it.
async fn of_variable(client: &Client, path: BufferPath, token: Option<&Token>) -> Result<Located, Failure> {
    let token = arguments::token(token)?
        .ok_or_else(|| Failure::usage(format!("{path} is of no session here"), ADVICE))?;
    let (persistent, access_mode) = (path.root.buffer.persistent().cloned(), path.root.access_mode);
    let status = known(client, &token).await?.ok_or_else(|| Failure::no_buffer(&token))?;
    check_namespace(&status, &path.root)?;
    // Where it is mounted here, a folder can be told from a file.
    let place = Place::Session { token: token.clone(), persistent: persistent.clone(), access_mode };
    let mounted = mountpoint(status, persistent.as_ref(), access_mode);
    let here = mounted.map(|root| root.join(&path.path));
    let asked = here.clone();
    let is_folder = path.path.is_empty()
        || path.path.ends_with('/')
        || client.asking(move || asked.is_some_and(|here| disk::is_folder(&here).unwrap_or(false))).await;
    Ok(Located { place, path: path.path.trim_end_matches('/').to_owned(), is_folder, here })
}

/// The session; `None`: there is none.
async fn known(client: &Client, token: &Token) -> Result<Option<SessionStatus>, Failure> {
    match client.get(&session_path(token.as_str(), "")).await {
        Err(Failure::Api(error)) if error.code == ErrorCode::NoSuchSession => Ok(None),
        asked => asked.map(Some),
    }
}

/// Refuses a path in a namespace of its own that the session does not have.
fn check_namespace(status: &SessionStatus, root: &BufferRoot) -> Result<(), Failure> {
    let own = status.instance.as_ref().map(|instance| instance.access_modes.clone()).unwrap_or_default();
    if root.buffer.persistent().is_some() || own.contains(&root.access_mode) {
        return Ok(());
    }
    let of = |buffer: BufferRef, access_mode| BufferRoot { buffer, access_mode }.to_string();
    let owns = own.iter().map(|mode| of(BufferRef::Own, *mode));
    let uses = status.uses.iter().map(|name| of(BufferRef::Persistent(name.clone()), AccessMode::Striped));
    let there: Vec<String> = owns.chain(uses).collect();
    let there = if there.is_empty() { "nothing yet".to_owned() } else { there.join(" and ") };
    Err(Failure::no_input(
        format!("buffer {} has no {root}; it has {there}", status.token),
        "name a path in that",
    ))
}

fn mountpoint(status: SessionStatus, persistent: Option<&Token>, access_mode: AccessMode) -> Option<PathBuf> {
    let is_it = |mount: &wire::control::ActivationStatus| {
        mount.access_mode == access_mode && mount.persistent.as_ref() == persistent && mount.mounted
    };
    status.activations.into_iter().find(is_it).map(|mount| mount.mountpoint)
}

/// A session's own namespace: the striped one, where it has one.
async fn of_session(client: &Client, token: Token) -> Result<Place, Failure> {
    let status = known(client, &token).await?.ok_or_else(|| Failure::no_buffer(&token))?;
    let own = status.instance.as_ref().and_then(|instance| instance.access_modes.first().copied());
    let persistent = status.uses.first().cloned().filter(|_| own.is_none());
    let access_mode = own.unwrap_or(AccessMode::Striped);
    Ok(Place::Session { token, persistent, access_mode })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;
    use crate::exit_code::ExitCode;

    #[test]
    fn a_path_that_is_no_text_is_the_users_mistake_and_shown_on_one_line() {
        let refused = check_text(Path::new(OsStr::from_bytes(b"/tmp/x\n/b\xff"))).unwrap_err();
        assert_eq!(refused.exit_code(), ExitCode::Usage);
        assert!(refused.to_string().contains(r#""/tmp/x\n/b\xFF" is not UTF-8"#), "{refused}");
        check_text(Path::new("/tmp/é")).unwrap();
    }
}
