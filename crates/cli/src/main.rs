//! The program `classify`; its commands are in `crates/commands`.

use std::process::ExitCode;

process_setup::note_closed_streams_before_main!();

#[global_allocator]
static ALLOCATOR: process_setup::Allocator = process_setup::Allocator;

fn main() -> ExitCode {
    commands::main()
}
