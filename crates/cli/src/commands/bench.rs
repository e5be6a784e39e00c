//! `classify bench`

use clap::Subcommand;
use classify::threads::Threads;

use crate::failure::Failure;
use crate::output::progress::Verbosity;

mod paper;
mod speedup;

#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Tables 1 to 3 of Bresler et al. 2011: the paper's algorithms in its settings, and our
    /// engines
    Paper(paper::Paper),
}

impl Bench {
    pub(crate) fn run(self, threads: &Threads, verbosity: Verbosity) -> Result<(), Failure> {
        let Self::Paper(command) = self;
        command.run(threads, verbosity)
    }
}
