//! What the pages for users show happens: their command blocks run as they stand, in the order of the page.

use std::process::Command;

use tests::cluster::{Cluster, program_folder};
use tests::page::OF_USERS;

#[test]
fn what_the_pages_for_users_show_happens() {
    for page in OF_USERS {
        let mut cluster = Cluster::new();
        // Where `forebay` looks without --dir.
        cluster.state = cluster.work.join(".local/state/forebay");
        let home = cluster.work.to_str().expect("temporary folders have plain names");
        let path = format!("{}:{}", program_folder().display(), std::env::var("PATH").unwrap_or_default());
        page.run(home, &mut |commands| {
            let mut bash = Command::new("bash");
            bash.args(["-c", &format!("exec 2>&1\n{commands}")])
                .current_dir(home)
                .envs([("PATH", path.as_str()), ("HOME", home)])
                .env_remove("FOREBAY_CONTROL");
            cluster.spawn(bash).wait().stdout
        });
    }
}
