//! Many empty files in one folder.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::rate;

const FILES: usize = 2000;

/// What [`run`] measures, in its order.
pub const CASES: [&str; 3] = ["create", "stat", "unlink"];

/// All of it, in `folder`, which is left as it was: files per second.
pub fn run(folder: &Path) -> Result<Vec<f64>> {
    let folder = folder.join("names");
    fs::create_dir(&folder)?;
    let paths: Vec<PathBuf> = (0..FILES).map(|number| folder.join(format!("file-{number}"))).collect();
    let each = |action: &dyn Fn(&PathBuf) -> std::io::Result<()>| paths.iter().try_for_each(action);
    let rates = vec![
        rate("create", FILES, || each(&|path| File::create_new(path).map(drop)))?,
        rate("stat", FILES, || each(&|path| fs::metadata(path).map(drop)))?,
        rate("unlink", FILES, || each(&|path| fs::remove_file(path)))?,
    ];
    fs::remove_dir(&folder)?;
    Ok(rates)
}
