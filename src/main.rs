//! The command line: parses, runs one command, and is the only place that reports errors and exits.

use std::process::ExitCode;

mod cli;

#[global_allocator]
static MEMORY: array_file::command::Memory = array_file::command::Memory;

fn main() -> ExitCode {
    let arguments = match cli::parse() {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    // Without the handlers, the worst a signal can do is leave a temporary file behind.
    let _ = if arguments.handles_signals() {
        array_file::command::clean_up_after_aborts()
    } else {
        array_file::command::clean_up_at_the_end()
    };
    match cli::run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
