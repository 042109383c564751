//! Where a service is, and where programs find the control service.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::munge::ServiceUser;

/// Where it listens unless somebody says otherwise: what `packaging/control.toml` gives.
pub const SOCKET_DEFAULT: &str = "/run/forebay/control.sock";

/// A file of one line that says where it listens, for machines that control does not run on.
pub const ADDRESS_FILE: &str = "/etc/forebay/control";

/// What the control service is called in MUNGE credentials; a node is called by its name.
pub const CONTROL: &str = "control";

/// How long another machine may take to accept a connection. A living one does in milliseconds.
pub const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// The longest path of a socket, bytes: 108 with the zero at its end (unix(7)).
const SOCKET_PATH_MAX: usize = 107;

/// A socket's path does not fit into its address.
#[derive(Debug, thiserror::Error)]
#[error(
    "the path of the socket {} has {} bytes, and the kernel takes {SOCKET_PATH_MAX}: that of its folder must be {} \
     bytes shorter",
    path.display(),
    path.as_os_str().len(),
    path.as_os_str().len() - SOCKET_PATH_MAX
)]
pub struct SocketPathTooLong {
    path: PathBuf,
}

/// Whether `path` fits into a socket's address.
///
/// # Errors
/// It does not.
pub fn check_socket_path(path: &Path) -> Result<(), SocketPathTooLong> {
    match path.as_os_str().len() > SOCKET_PATH_MAX {
        true => Err(SocketPathTooLong { path: path.into() }),
        false => Ok(()),
    }
}

/// Whether the paths of all sockets in the state folder of one machine's services fit; n63 has the longest name.
///
/// # Errors
/// They do not.
pub fn check_state_folder(folder: &Path) -> Result<(), SocketPathTooLong> {
    check_socket_path(&folder.join("nodes/n63/node.sock"))
}

/// An address of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A unix socket on this machine.
    Unix(PathBuf),
    /// Callers and service prove with MUNGE who they are.
    Tcp {
        /// `HOST:PORT`.
        address: String,
        /// Who may answer there.
        user: ServiceUser,
    },
}

impl Endpoint {
    /// `$FOREBAY_CONTROL`, else the line in [`ADDRESS_FILE`], else [`SOCKET_DEFAULT`].
    pub fn find() -> Endpoint {
        Endpoint::choose(std::env::var("FOREBAY_CONTROL").ok(), std::fs::read_to_string(ADDRESS_FILE).ok())
    }

    /// The same where this machine is one of a cluster: something says where its control is, or it is here.
    pub fn of_cluster() -> Option<Endpoint> {
        let named = std::env::var_os("FOREBAY_CONTROL").is_some_and(|value| !value.is_empty());
        let found = named
            || [ADDRESS_FILE, SOCKET_DEFAULT]
                .iter()
                .any(|path| disk::exists(Path::new(path)).unwrap_or(true));
        found.then(Endpoint::find)
    }

    /// The same for a program in a job, whoever runs it: `forebay run` says in `$FOREBAY_DIR` where its own control is.
    pub fn of_program() -> Endpoint {
        let own = std::env::var_os("FOREBAY_DIR").filter(|folder| !folder.is_empty());
        let own = own.map(|folder| Path::new(&folder).join("control.sock"));
        match own.or_else(|| Endpoint::of_cluster().is_none().then(default_socket).flatten()) {
            Some(socket) if std::env::var_os("FOREBAY_CONTROL").is_none() => Endpoint::Unix(socket),
            _ => Endpoint::find(),
        }
    }

    fn choose(variable: Option<String>, file: Option<String>) -> Endpoint {
        let texts = [variable, file].into_iter().flatten();
        let chosen = texts.map(|text| text.trim().to_owned()).find(|text| !text.is_empty());
        Endpoint::parse(chosen.as_deref().unwrap_or(SOCKET_DEFAULT))
    }

    /// What has a slash is a socket's path; else `HOST:PORT`, and after a space the numeric id of the user that the
    /// service runs as, where that is not root. What is no number is no user's.
    pub fn parse(text: &str) -> Endpoint {
        if text.contains('/') {
            return Endpoint::Unix(text.into());
        }
        let (address, uid) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        Endpoint::Tcp { address: address.to_owned(), user: ServiceUser(uid.trim().parse().ok()) }
    }
}

/// The socket of the control that this user's commands start.
fn default_socket() -> Option<PathBuf> {
    Some(disk::state::folder(None).ok()?.join("control.sock"))
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Unix(path) => path.display().fmt(f),
            Endpoint::Tcp { address, .. } => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_wins_over_the_file_and_the_file_over_the_default() {
        let some = |text: &str| Some(text.to_owned());
        let head = |uid| Endpoint::Tcp { address: "head:7400".to_owned(), user: ServiceUser(uid) };
        assert_eq!(Endpoint::choose(some("head:7400"), some("/x")), head(None));
        assert_eq!(Endpoint::choose(None, some("head:7400 812\n")), head(Some(812)));
        assert_eq!(Endpoint::choose(some(""), None), Endpoint::Unix(SOCKET_DEFAULT.into()));
    }
}
