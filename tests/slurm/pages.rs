//! What the pages for operators show happens: their command blocks run as they stand, in the order of the page.

use std::fs;

use tests::page::OF_OPERATORS;

use crate::site::Site;

/// As root on the head, with this cluster's folders.
pub fn of_operators(site: &Site) {
    let folder = site.folder().to_str().expect("the folder has a plain name");
    let home = format!("{folder}/home/root");
    fs::create_dir_all(format!("{home}/.local/state/forebay")).expect("the folder is ours");
    let state = format!("{folder}/state");
    for page in OF_OPERATORS {
        page.run(&home, &mut |commands| {
            let commands = commands
                .replace("/var/lib/forebay/control", &format!("{state}/control"))
                .replace("/var/lib/forebay/node", &format!("{state}/n1"))
                .replace("/root", &home);
            let script = format!("exec 2>&1\nexport HOME={home}\n{commands}");
            site.on("head", &["bash", "-c", &script]).stdout
        });
    }
}
