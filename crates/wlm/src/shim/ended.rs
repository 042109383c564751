//! How a job ended. Slurm's plugin does not say so when it asks for the stage-out, but Slurm knows by then: it is asked
//! where it matters, which is seldom.

use super::squeue;

/// Whether Slurm says that the job was cut short: its exit status is not 0, as after a signal, or it is to run again.
/// Of a job that it does not know, and where there is no Slurm, nobody says so.
pub(super) fn was_cut_short(job: &str) -> bool {
    squeue::ask(job, &["exit_code:24", "State:24"]).is_some_and(|row| says_cut_short(&row[0], &row[1]))
}

fn says_cut_short(exit: &str, state: &str) -> bool {
    is_failure(exit) || state == "PENDING"
}

/// Slurm 22.05 prints an exit status as of wait(2), in decimal, and 24.11 the code and the signal, as `3:0`.
fn is_failure(exit: &str) -> bool {
    exit.split(':').any(|number| number.parse().is_ok_and(|number: u32| number != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Slurm 22.05 and 24.11 print it: exit status 3, SIGTERM, requeued, succeeded.
    #[test]
    fn a_job_was_cut_short_if_slurm_says_so() {
        for exit in ["768", "15", "3:0", "0:15"] {
            assert!(says_cut_short(exit, "STAGE_OUT"), "{exit}");
        }
        for exit in ["0", "0:0"] {
            assert!(!says_cut_short(exit, "STAGE_OUT") && says_cut_short(exit, "PENDING"), "{exit}");
        }
    }
}
