//! `classify completions`

use clap::Command;
use clap_complete::Shell;

use crate::failure::Failure;
use crate::output::files::print;

#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    /// Prints the script of `program`.
    pub(crate) fn run(self, mut program: Command) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut program, "classify", &mut script);
        print(&script)
    }
}
