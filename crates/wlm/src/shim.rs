//! `dw_wlm_cli`: what a workload manager calls for each step of a job. One file per function.
//!
//! Slurm's plugin `burst_buffer/datawarp` reads standard output and standard error as one text, takes some words in it
//! as orders, and dies of JSON that it does not expect. So: nothing on standard error, one line on failure
//! ([`answer`]).

pub mod answer;
pub mod arguments;
mod array_task;
mod create_persistent;
mod data_in;
mod data_out;
mod ended;
mod job_process;
mod paths;
mod pools;
mod post_run;
mod pre_run;
mod real_size;
mod setup;
mod show_configurations;
mod show_instances;
mod show_sessions;
mod squeue;
mod submission;
mod teardown;

use std::time::Duration;

use answer::Answer;
use arguments::{Arguments, Function};

use api::control::Control;

/// For functions during which Slurm holds its locks and gives 5 s (`ValidateTimeout`).
const PROMPT: Duration = Duration::from_secs(4);

/// For functions whose failure a job survives badly or not at all: as long as an administrator may take to start
/// control again. Slurm's own limits (`OtherTimeout`, 300 s; `StageInTimeout` and `StageOutTimeout`, a day) are longer.
const PATIENT: Duration = Duration::from_secs(240);

/// For functions that Slurm repeats by itself.
const REPEATED: Duration = Duration::from_secs(20);

/// Runs the function that the arguments name.
pub fn run(arguments: &Arguments) -> Answer {
    match arguments.function {
        Function::Pools => pools::run(),
        Function::ShowInstances => show_instances::run(&Control::within(PROMPT)),
        Function::ShowSessions => show_sessions::run(&Control::within(PROMPT)),
        Function::ShowConfigurations => show_configurations::run(&Control::within(PROMPT)),
        Function::JobProcess => job_process::run(arguments, &Control::within(PROMPT)),
        Function::CreatePersistent => create_persistent::run(arguments, &Control::patient(PATIENT)),
        Function::Setup => setup::run(arguments, &Control::patient(PATIENT)),
        Function::DataIn => data_in::run(arguments, &Control::patient(PATIENT)),
        Function::RealSize => real_size::run(arguments, &Control::within(PROMPT)),
        Function::Paths => paths::run(arguments, &Control::within(PROMPT)),
        Function::PreRun => pre_run::run(arguments, &Control::patient(PATIENT)),
        Function::PostRun => post_run::run(arguments, &Control::patient(PATIENT)),
        Function::DataOut => data_out::run(arguments, &Control::patient(PATIENT)),
        Function::Teardown => teardown::run(arguments, &Control::patient(REPEATED)),
    }
}
