//! MUNGE credentials: who is at the other end of a network connection, as Slurm asks too.
//!
//! libmunge is loaded when it is first needed, so that a machine without it can still run everything that stays on the
//! machine. This is the only file that calls into it.
//!
//! **Invariant:** a credential is made for one request to one service and is taken once: its payload is made by
//! [`crate::binding`], and munged refuses a replay on its machine.

#![expect(unsafe_code, reason = "calls into a C library")]

mod keyed;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::PathBuf;
use std::sync::Arc;

use libloading::{Library, Symbol};
use wire::data::hello::Key;

use self::keyed::Keyed;

/// The library's name by its ABI; Debian, Red Hat and SUSE agree on it.
const LIBRARY: &str = "libmunge.so.2";

/// `MUNGE_OPT_SOCKET` of munge.h.
const OPTION_SOCKET: c_int = 8;

/// `EMUNGE_SUCCESS` of munge.h.
const SUCCESS: c_int = 0;

type CreateContext = unsafe extern "C" fn() -> *mut c_void;
type DestroyContext = unsafe extern "C" fn(*mut c_void);
type SetOption = unsafe extern "C" fn(*mut c_void, c_int, ...) -> c_int;
type Encode = unsafe extern "C" fn(*mut *mut c_char, *mut c_void, *const c_void, c_int) -> c_int;
type Decode = unsafe extern "C" fn(
    *const c_char,
    *mut c_void,
    *mut *mut c_void,
    *mut c_int,
    *mut u32,
    *mut u32,
) -> c_int;
type ErrorText = unsafe extern "C" fn(c_int) -> *const c_char;
type Free = unsafe extern "C" fn(*mut c_void);

/// Why a credential could not be made or is not believed.
#[derive(Debug, thiserror::Error)]
pub enum MungeError {
    /// The library is not there.
    #[error("load {LIBRARY}: {0}; install MUNGE (package libmunge2)")]
    Library(String),
    /// munged or the library refused.
    #[error(
        "{operation} a MUNGE credential{}: {reason}",
        socket.as_ref().map(|path| format!(" by {}", path.display())).unwrap_or_default()
    )]
    Refused {
        /// `make` or `check`.
        operation: &'static str,
        /// munged's socket, where it is not the usual one.
        socket: Option<PathBuf>,
        /// The library's words, as `Replayed credential`.
        reason: String,
    },
    /// The credential was made for another request.
    #[error("the MUNGE credential was made for another request")]
    Misused,
}

/// Who made a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

/// The user ids that a service may run as: root, the caller's own, and one more that is configured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceUser(pub Option<u32>);

impl ServiceUser {
    pub(crate) fn may_be(self, uid: u32) -> bool {
        uid == 0 || uid == rustix::process::geteuid().as_raw() || self.0 == Some(uid)
    }
}

/// What makes and checks credentials. Clones share it.
#[derive(Clone, Debug)]
pub struct Munge(By);

#[derive(Clone, Debug)]
enum By {
    Munged(Loaded),
    /// Where one user's services have a key of their own, and need no munged.
    Key(Arc<Keyed>),
}

/// The loaded library and which munged it talks to.
#[derive(Clone, Debug)]
struct Loaded {
    library: Arc<Library>,
    socket: Option<CString>,
}

/// A context of the library: not to be shared between threads.
struct Context<'a> {
    munge: &'a Loaded,
    raw: *mut c_void,
}

impl Munge {
    /// Loads the library. `socket`: munged's socket, `None` for the usual one.
    ///
    /// # Errors
    /// [`MungeError::Library`].
    pub fn load(socket: Option<PathBuf>) -> Result<Munge, MungeError> {
        let socket = socket.map(|path| CString::new(path.into_os_string().into_encoded_bytes()));
        let socket = socket.transpose().map_err(|error| MungeError::Library(error.to_string()))?;
        // SAFETY: libmunge's initialisers only set up its own state, and it is never unloaded while a `Munge` lives.
        let library = unsafe { Library::new(LIBRARY) };
        let library = library.map_err(|error| MungeError::Library(error.to_string()))?;
        Ok(Munge(By::Munged(Loaded { library: Arc::new(library), socket })))
    }

    /// Credentials by a key that only services of this process's own user have, and nobody else can make.
    pub fn of_key(key: Key) -> Munge {
        Munge(By::Key(Arc::new(Keyed::new(key))))
    }

    /// Makes a credential over `payload`. Blocks while munged works.
    ///
    /// # Errors
    /// munged does not answer.
    pub fn encode(&self, payload: &[u8]) -> Result<String, MungeError> {
        match &self.0 {
            By::Munged(loaded) => loaded.encode(payload),
            By::Key(keyed) => keyed.encode(payload),
        }
    }

    /// Checks a credential and that its payload is `expected`. Blocks while munged works.
    ///
    /// # Errors
    /// It is forged, expired, replayed or another request's, or munged does not answer.
    pub fn decode(&self, credential: &str, expected: &[u8]) -> Result<Identity, MungeError> {
        let (identity, payload) = self.open(credential)?;
        if payload == expected { Ok(identity) } else { Err(MungeError::Misused) }
    }

    /// Checks a credential: who made it, and its payload. Blocks while munged works.
    ///
    /// # Errors
    /// It is forged, expired or replayed, or munged does not answer.
    pub fn open(&self, credential: &str) -> Result<(Identity, Vec<u8>), MungeError> {
        match &self.0 {
            By::Munged(loaded) => loaded.open(credential),
            By::Key(keyed) => keyed.open(credential),
        }
    }
}

impl Loaded {
    fn encode(&self, payload: &[u8]) -> Result<String, MungeError> {
        let context = self.context("make")?;
        let encode: Symbol<'_, Encode> = self.symbol("munge_encode")?;
        let len = c_int::try_from(payload.len()).map_err(|_| self.refused("make", "too large".into()))?;
        let mut credential: *mut c_char = std::ptr::null_mut();
        // SAFETY: the context is ours alone; `payload` has `len` bytes, which are only read; the library sets
        // `credential` to a terminated string on its heap, or to null.
        let code = unsafe { encode(&mut credential, context.raw, payload.as_ptr().cast(), len) };
        let text = (!credential.is_null()).then(|| {
            // SAFETY: not null, so a terminated string; it is copied before it is freed.
            unsafe { CStr::from_ptr(credential) }.to_string_lossy().into_owned()
        });
        self.free(credential.cast())?;
        match (code, text) {
            (SUCCESS, Some(text)) => Ok(text),
            (code, _) => Err(self.failed("make", code)),
        }
    }

    fn open(&self, credential: &str) -> Result<(Identity, Vec<u8>), MungeError> {
        let context = self.context("check")?;
        let decode: Symbol<'_, Decode> = self.symbol("munge_decode")?;
        let credential =
            CString::new(credential).map_err(|_| self.refused("check", "it has a NUL byte".into()))?;
        let (mut payload, mut len): (*mut c_void, c_int) = (std::ptr::null_mut(), 0);
        let (mut uid, mut gid) = (u32::MAX, u32::MAX);
        // SAFETY: the context is ours alone; the credential is a terminated string; the library sets `payload` to `len`
        // bytes on its heap, or to null, and the ids to the sender's.
        let code =
            unsafe { decode(credential.as_ptr(), context.raw, &mut payload, &mut len, &mut uid, &mut gid) };
        let copy = match usize::try_from(len) {
            Ok(len) if !payload.is_null() => {
                // SAFETY: the library says that `payload` has `len` bytes; they are copied before they are freed.
                unsafe { std::slice::from_raw_parts(payload.cast::<u8>(), len) }.to_vec()
            }
            _ => Vec::new(),
        };
        self.free(payload)?;
        match code {
            SUCCESS => Ok((Identity { uid, gid }, copy)),
            code => Err(self.failed("check", code)),
        }
    }

    fn context(&self, operation: &'static str) -> Result<Context<'_>, MungeError> {
        let create: Symbol<'_, CreateContext> = self.symbol("munge_ctx_create")?;
        // SAFETY: takes nothing, gives a context or null.
        let raw = unsafe { create() };
        if raw.is_null() {
            return Err(self.refused(operation, "out of memory".into()));
        }
        let context = Context { munge: self, raw };
        if let Some(socket) = &self.socket {
            let set: Symbol<'_, SetOption> = self.symbol("munge_ctx_set")?;
            // SAFETY: the context is living; this option takes a terminated string, which the library copies.
            let code = unsafe { set(context.raw, OPTION_SOCKET, socket.as_ptr()) };
            if code != SUCCESS {
                return Err(self.failed(operation, code));
            }
        }
        Ok(context)
    }

    fn symbol<T>(&self, name: &str) -> Result<Symbol<'_, T>, MungeError> {
        // SAFETY: every caller asks for a name with its type in munge.h, which the library's ABI number 2 stands for.
        unsafe { self.library.get(name) }.map_err(|error| MungeError::Library(error.to_string()))
    }

    /// Gives back what the library allocated with `malloc`.
    fn free(&self, memory: *mut c_void) -> Result<(), MungeError> {
        // The C library is among libmunge's dependencies, so that its symbols are found through it.
        let free: Symbol<'_, Free> = self.symbol("free")?;
        // SAFETY: `memory` is null or came from the library just now, which documents that the caller frees it.
        unsafe { free(memory) };
        Ok(())
    }

    fn failed(&self, operation: &'static str, code: c_int) -> MungeError {
        let reason = match self.symbol::<ErrorText>("munge_strerror") {
            // SAFETY: gives a static terminated string for every code.
            Ok(text) => unsafe { CStr::from_ptr(text(code)) }.to_string_lossy().into_owned(),
            Err(error) => error.to_string(),
        };
        self.refused(operation, reason)
    }

    fn refused(&self, operation: &'static str, reason: String) -> MungeError {
        let socket = self.socket.as_ref().map(|path| PathBuf::from(path.to_string_lossy().into_owned()));
        MungeError::Refused { operation, socket, reason }
    }
}

impl Drop for Context<'_> {
    fn drop(&mut self) {
        let Ok(destroy) = self.munge.symbol::<DestroyContext>("munge_ctx_destroy") else { return };
        // SAFETY: the context came from munge_ctx_create and is not used again.
        unsafe { destroy(self.raw) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_runs_as_root_as_the_caller_or_as_who_is_configured() {
        let own = rustix::process::geteuid().as_raw();
        let other = own + 4321;
        assert!(ServiceUser::default().may_be(0) && ServiceUser::default().may_be(own));
        assert!(!ServiceUser::default().may_be(other) && ServiceUser(Some(other)).may_be(other));
    }
}
