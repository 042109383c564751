//! A batch script, as `forebay run` keeps it to resume.

use std::path::PathBuf;

use wire::control::Script;

form! {
    struct ScriptForm of Script {
        text: String,
        path: PathBuf,
        workdir: PathBuf,
        job_name: String,
        user: String,
    }
}
