//! `--capacity`, `--in` and `--out` as typed: what `#DW` lines say, on the command line.

use clap::Args;

/// A buffer, and what goes into it and out of it.
#[derive(Clone, Debug, Default, Args)]
pub struct Buffer {
    /// How much the buffer holds, as 10GiB
    #[arg(long, value_name = "SIZE")]
    pub capacity: Option<String>,
    /// Copy SRC, a file or the contents of a folder, to DST in the buffer before the start [default: under its own
    /// name]. May be given several times; `\:` is a colon in a name
    #[arg(long = "in", value_name = "SRC[:DST]")]
    pub stage_in: Vec<String>,
    /// Copy SRC in the buffer, a file or the contents of a folder, to DST after the end. May be given several times
    #[arg(long = "out", value_name = "SRC:DST")]
    pub stage_out: Vec<String>,
}
