//! Where paths of the PFS begin: folders that were reached once, through whatever links their user has on the way, and
//! below which no link is followed any more.
//!
//! **Invariant:** what is not below such a folder is reached from `/` as strictly.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use disk::below::Root;
use rustix::io::Errno;

use crate::outside::Outside;
use crate::tree::Result;

/// As many of them keep a descriptor: the lines of a list may name very many.
const HELD_MAX: usize = 512;

/// The roots of a stage.
#[derive(Debug)]
pub(super) struct Roots {
    /// By the paths that their user gives them.
    known: RwLock<BTreeMap<PathBuf, Arc<Root>>>,
    system: Arc<Root>,
    /// Folders that stages may reach, by their paths without links; none: all.
    limits: Vec<PathBuf>,
}

impl Default for Roots {
    fn default() -> Roots {
        Roots::within(&[])
    }
}

impl Roots {
    /// Where these are folders that may be reached.
    pub(super) fn within(limits: &[PathBuf]) -> Roots {
        let real = |limit: &PathBuf| limit.canonicalize().unwrap_or_else(|_| limit.clone());
        let limits = limits.iter().map(real).collect();
        Roots { known: RwLock::default(), system: Arc::new(Root::at(Path::new("/"))), limits }
    }

    /// Knows the folder that `root` is by its path, or that is there now for another that is known.
    pub(super) fn add(&self, root: Root) -> std::result::Result<(), Outside> {
        let path = root.path().to_owned();
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.contains_key(&path) {
            return Ok(());
        }
        let held = known.len() < HELD_MAX;
        if held && self.limits.is_empty() {
            known.insert(path, Arc::new(root));
            return Ok(());
        }
        let real = root.real().unwrap_or_else(|_| path.clone());
        self.admit(&path, &real)?;
        known.insert(path.clone(), Arc::new(if held { root } else { Root::known_as(&path, &real) }));
        Ok(())
    }

    /// The folder `path`, or the nearest above that is there, from now on.
    pub(super) fn enter(&self, path: &Path) -> std::result::Result<(), Outside> {
        if self.known.read().unwrap_or_else(PoisonError::into_inner).contains_key(path) {
            return Ok(());
        }
        for above in path.ancestors() {
            match Root::hold(above) {
                Ok(root) => return self.add(root),
                Err(Errno::NOENT | Errno::NOTDIR) => {}
                // Whoever uses it says why.
                Err(_) => return Ok(()),
            }
        }
        Ok(())
    }

    /// The nearest root of `path`.
    pub(super) fn of(&self, path: &Path) -> Result<Arc<Root>> {
        self.nearest(Some(path), path)
    }

    /// The nearest root above `path`: the folder in which a name is changed.
    pub(super) fn above(&self, path: &Path) -> Result<Arc<Root>> {
        self.nearest(path.parent(), path)
    }

    /// The nearest root of `path` that `folder` is, or is below.
    fn nearest(&self, mut folder: Option<&Path>, path: &Path) -> Result<Arc<Root>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        // A folder comes before all that is below it, so the last one up to here is above it, or beside: then those in
        // question are above both.
        while let Some(here) = folder {
            let up_to = (Bound::Unbounded, Bound::Included(here));
            let Some((last, root)) = known.range::<Path, _>(up_to).next_back() else { break };
            if here.starts_with(last) {
                return Ok(root.clone());
            }
            folder = here.ancestors().find(|above| last.starts_with(above));
        }
        drop(known);
        self.admit(path, path).map_err(|_| Errno::XDEV)?;
        Ok(self.system.clone())
    }

    fn admit(&self, path: &Path, real: &Path) -> std::result::Result<(), Outside> {
        if self.limits.is_empty() || self.limits.iter().any(|limit| real.starts_with(limit)) {
            return Ok(());
        }
        Err(Outside { path: path.to_owned(), real: real.to_owned(), limits: self.limits.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_root_is_found_also_where_others_are_beside_it() {
        let roots = Roots::default();
        for root in ["/", "/a", "/a/b/c", "/a/b/c/d/e", "/a/b-c", "/a/b/bb"] {
            roots.known.write().unwrap().insert(root.into(), Arc::new(Root::at(Path::new(root))));
        }
        let of = |path: &str| roots.of(Path::new(path)).unwrap().path().to_owned();
        let above = |path: &str| roots.above(Path::new(path)).unwrap().path().to_owned();
        let nearest = [
            ("/x", "/"),
            ("/a/b", "/a"),
            ("/a/b/d", "/a"),
            ("/a/b/c", "/a/b/c"),
            ("/a/b/c/z", "/a/b/c"),
            ("/a/b/c/d/f/g", "/a/b/c"),
            ("/a/b-c/x/y", "/a/b-c"),
            ("/a/b.c", "/a"),
        ];
        for (path, root) in nearest {
            assert_eq!(of(path), Path::new(root), "{path}");
        }
        assert_eq!((above("/a/b/c"), above("/a")), (PathBuf::from("/a"), PathBuf::from("/")));
    }
}
