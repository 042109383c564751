//! What workload managers and DataWarp's users call: `dw_wlm_cli`, `dwstat` and `dwcli`.
//!
//! All three are small programs that ask the control service and end. They own what those commands print; nothing here
//! decides anything about a buffer.
//!
//! **Invariant:** no threads and no runtime: a workload manager starts one of them for each step of each job.

pub mod admin;
pub mod shim;
pub mod stat;

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    fn assert_described(page: &str, command: &clap::Command) {
        let page = page.replace("\\-", "-");
        for option in command.get_arguments().filter_map(clap::Arg::get_long) {
            assert!(page.contains(&format!("--{option}")), "{}: no --{option}", command.get_name());
        }
        for below in command.get_subcommands() {
            assert!(page.contains(below.get_name()), "no {}", below.get_name());
            assert_described(&page, below);
        }
    }

    #[test]
    fn manual_pages_have_every_command_and_option() {
        let page = include_str!("../../../packaging/man/dwcli.8");
        assert_described(page, &crate::admin::arguments::Command::command());
        let page = include_str!("../../../packaging/man/dw_wlm_cli.8");
        assert_described(page, &crate::shim::arguments::Arguments::command());
        let page = include_str!("../../../packaging/man/dwstat.1");
        assert_described(page, &crate::stat::Arguments::command());
    }
}
