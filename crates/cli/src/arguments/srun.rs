//! What `srun --help` says where Slurm is absent.

/// The options that ask for it; `-h` is Slurm's own.
pub const OPTIONS: [&str; 3] = ["--help", "-h", "--usage"];

/// The text.
pub const TEXT: &str = "\
Forebay's srun, for the scripts of `forebay run SCRIPT`: starts the ranks of a job step on this machine.

Usage: srun [OPTIONS] PROGRAM [ARGUMENTS...]

  -n, --ntasks=N           so many ranks [default: $SLURM_NTASKS, else 1]
      --ntasks-per-node=N  so many for each node of --nodes
  -N, --nodes=N            counts with --ntasks-per-node; all ranks are on this machine
  -c, --cpus-per-task=N    sets SLURM_CPUS_PER_TASK
  -D, --chdir=FOLDER       the folder that the ranks start in
  -i, --input=FILE         standard input of every rank; none; or the number of the rank that reads ours
  -o, --output=FILE        one file, a file for each rank with %t, none, all, or the number of a rank
  -e, --error=FILE         likewise [default: as the output]
      --open-mode=MODE     append or truncate
      --export=LIST        ALL, NONE, or names and NAME=VALUE

Slurm's other options are skipped, with a note. Several ranks go through `mpiexec` where it is installed.";
