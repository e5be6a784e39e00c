//! The command `metric-index`: builds indexes of words and vectors, and searches them.
//!
//! stdout is data, stderr is talk. Exit codes: 0 done, 1 other failures, 2 wrong usage, 3 bad input, 4 bad index.

use std::process::ExitCode;

use clap::Parser;

mod cli;

fn main() -> ExitCode {
    let command = cli::Command::parse();
    match cli::run(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
