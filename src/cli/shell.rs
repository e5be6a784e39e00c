//! `classify completions` and `classify man`

use std::io::Write;
use std::path::PathBuf;

use clap::CommandFactory;
use clap_complete::Shell;

use super::Arguments;
use super::failure::Failure;

#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::command(), "classify", &mut script);
        std::io::stdout().write_all(&script).map_err(Failure::stdout)
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct Man {
    /// The folder; it is made if it is not there
    folder: PathBuf,
}

impl Man {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let failed = Failure::output(&self.folder);
        std::fs::create_dir_all(&self.folder).map_err(&failed)?;
        clap_mangen::generate_to(Arguments::command(), &self.folder).map_err(&failed)
    }
}
