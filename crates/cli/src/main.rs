//! The program `classify`; its commands are in `crates/commands`.

use std::process::ExitCode;

#[global_allocator]
static MEMORY: array_file::command::Memory = array_file::command::Memory;

fn main() -> ExitCode {
    commands::main()
}
