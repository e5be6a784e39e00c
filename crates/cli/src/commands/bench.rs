//! `classify bench`

use clap::Subcommand;
use classify::threads::Threads;

use crate::failure::Failure;
use crate::output::progress::Verbosity;

mod active;
mod paper;
mod speedup;

#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Tables 1 to 3 of Bresler et al. 2011: the paper's algorithms in its settings, and our
    /// engines
    Paper(paper::Paper),
    /// Simulates labeling: how good a model is after each batch of documents that were chosen at
    /// random, by uncertainty, or by `classify next`
    Active(Box<active::Active>),
}

impl Bench {
    pub(crate) fn run(self, threads: &Threads, verbosity: Verbosity) -> Result<(), Failure> {
        match self {
            Self::Paper(command) => command.run(threads, verbosity),
            Self::Active(command) => command.run(threads, verbosity),
        }
    }
}
