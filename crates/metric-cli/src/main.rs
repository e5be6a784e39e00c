//! The command `metric-index`: builds indexes of words and vectors, and searches them.
//!
//! stdout is data, stderr is talk. Exit codes: 0 done, 1 other failures, 2 wrong usage, 3 bad input, 4 bad index,
//! 5 threads or memory do not suffice.

use std::process::ExitCode;

use clap::Parser;

mod bench;
mod build;
mod device;
mod failure;
mod input;
mod metric;
mod program;
mod search;
mod stats;
mod talk;
mod threads;

process_setup::note_closed_streams_before_main!();

#[global_allocator]
static ALLOCATOR: process_setup::Allocator = process_setup::Allocator;

fn main() -> ExitCode {
    // Without the handlers, the worst a signal can do is leave a temporary file behind.
    let _ = process_setup::clean_up_on_exit();
    let program = match program::Program::try_parse() {
        Ok(program) => program,
        Err(error) => return failure::usage(&error),
    };
    match program.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
