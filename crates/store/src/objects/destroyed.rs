//! Objects that were removed, and stay away whatever the node loses with its power.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;

use model::Ino;

use super::Objects;

impl Objects {
    /// Removes these objects, which were removed before, where they have come back; from now on none does.
    ///
    /// # Errors
    /// The errno of what failed: any of them may be there, or come back.
    pub fn destroy_for_good(&self, inos: &[Ino]) -> io::Result<()> {
        let mut folders = BTreeSet::new();
        for ino in inos {
            let path = self.path(*ino);
            if disk::exists(&path)? {
                self.destroy(*ino)?;
            }
            folders.extend(path.parent().map(ToOwned::to_owned));
        }
        // The folders alone: nobody's bytes are written for this.
        for folder in folders {
            match File::open(&folder) {
                Ok(folder) => folder.sync_all()?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
