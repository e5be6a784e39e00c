//! `classify completions`

use clap::CommandFactory;
use clap_complete::Shell;

use crate::Arguments;
use crate::failure::Failure;
use crate::output::files::print;

#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::command(), "classify", &mut script);
        print(&script)
    }
}
