//! Programs that rely on locks: SQLite and HDF5.

use tests::hosts::plain;

use crate::folder::{Folder, at_once};
use crate::site::Site;

const ROWS: usize = 25;

/// Inserts rows from two nodes at once, each in a transaction of its own.
fn insert(folder: &Folder<'_>) -> Vec<std::process::Output> {
    let database = folder.inside("rows.db");
    let sql = |node: usize| {
        let insert = |n| format!("insert into rows(text) values('{node}-{n}');\n");
        (0..ROWS).map(insert).collect::<String>()
    };
    at_once(2, |node| {
        let words = ["sqlite3", "-bail", "-cmd", ".timeout 60000", plain(&database), &sql(node)];
        folder.site.command(node, &words).output().expect("bash is there")
    })
}

fn create(folder: &Folder<'_>) {
    let database = folder.inside("rows.db");
    folder.site.run(2, &["sqlite3", plain(&database), "create table rows(id integer primary key, text)"]);
}

fn ask(folder: &Folder<'_>, node: usize, sql: &str) -> String {
    folder.site.run(node, &["sqlite3", plain(&folder.inside("rows.db")), sql]).trim().to_owned()
}

pub fn sqlite(site: &Site) {
    for folder in [site.folder(), site.commit_folder()] {
        keep_rows(&folder);
    }
}

fn keep_rows(folder: &Folder<'_>) {
    create(folder);
    for output in insert(folder) {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    for node in 0..3 {
        assert_eq!(ask(folder, node, "select count(distinct text) from rows"), (2 * ROWS).to_string());
        assert_eq!(ask(folder, node, "pragma integrity_check"), "ok");
    }
}

/// Each of two writers appends to one dataset under HDF5's own file lock; who finds it locked tries again.
const HDF5: &str = r#"
import os, sys, time
os.environ["HDF5_USE_FILE_LOCKING"] = "TRUE"
import h5py
path, node, count, refused = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), 0
# Both have begun: to start takes one of them longer than the other needs for all its rows.
open(f"{path}.{node}", "w").close()
while not os.path.exists(f"{path}.{1 - node}"):
    time.sleep(0.002)
done = 0
while done < count:
    try:
        with h5py.File(path, "a") as file:
            data = file["data"]
            data.resize(len(data) + 1, axis=0)
            time.sleep(0.005)
            data[-1] = node * 1000 + done
            done += 1
    except BlockingIOError:
        refused += 1
        time.sleep(0.002)
    except OSError as error:
        if "unable to lock file" not in str(error):
            raise
        refused += 1
        time.sleep(0.002)
print(refused)
"#;

pub fn hdf5(site: &Site) {
    let folder = site.folder();
    let path = folder.inside("data.h5");
    let make = "import h5py, sys; h5py.File(sys.argv[1], 'w').create_dataset('data', (0,), 'i4', maxshape=(None,), chunks=(64,))";
    site.run(2, &["/usr/bin/python3", "-c", make, plain(&path)]);
    let refused = at_once(2, |node| {
        let (number, rows) = (node.to_string(), ROWS.to_string());
        site.run(node, &["/usr/bin/python3", "-c", HDF5, plain(&path), &number, &rows])
    });
    let refused: usize = refused.iter().map(|text| text.trim().parse::<usize>().expect("a number")).sum();
    assert!(refused > 0, "the two never met");
    let look = "import h5py, sys; print(sorted(h5py.File(sys.argv[1])['data'][:].tolist()))";
    let read = site.run(4, &["/usr/bin/python3", "-c", look, plain(&path)]);
    let expected: Vec<usize> =
        (0..2).flat_map(|node: usize| (0..ROWS).map(move |n| node * 1000 + n)).collect();
    assert_eq!(read.trim(), format!("{expected:?}"));
}
