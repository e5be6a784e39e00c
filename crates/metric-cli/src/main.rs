//! The program `metric-index`: builds and searches indexes of words and vectors.
//!
//! Data goes to standard output, and messages go to standard error. Exit codes: 0 success, 1 other
//! failures, 2 wrong usage, 3 bad input, 4 bad index, 5 missing GPU, memory or threads.

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
mod verbosity;
mod threads;

process_setup::note_closed_streams_before_main!();

#[global_allocator]
static ALLOCATOR: process_setup::Allocator = process_setup::Allocator;

fn main() -> ExitCode {
    // If this fails, a signal can leave a temporary file behind, but nothing worse.
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
