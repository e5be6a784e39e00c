//! `classify generate`

use std::path::PathBuf;

use clap::Subcommand;
use classify::rows::generate::{DocumentCounts, RCV1_DOCUMENTS, rcv1_like};

use crate::failure::Failure;
use crate::flags::seed::SeedFlag;
use crate::output::progress::{Progress, Verbosity};

#[derive(Debug, Subcommand)]
pub(crate) enum Generate {
    /// Generate a corpus like RCV1-v2: LYRL2004 vector files, qrels and a hierarchy
    Rcv1Like {
        /// The number of documents. 23,149 are for training, or half of them if there are fewer;
        /// the rest is for testing
        #[arg(
            long, value_name = "N", default_value_t = RCV1_DOCUMENTS,
            value_parser = clap::value_parser!(u64).range(2..=100_000_000)
        )]
        documents: u64,
        /// The folder to write into
        #[arg(short, long, value_name = "DIR")]
        output: PathBuf,
        #[command(flatten)]
        seed: SeedFlag,
    },
}

impl Generate {
    pub(crate) fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        let Self::Rcv1Like { documents, output, seed } = self;
        let progress = Progress::new(verbosity, "writing", &[]);
        let DocumentCounts { training, test } =
            rcv1_like(documents, seed.value, &output, &|written| progress.tick(written))?;
        drop(progress);
        verbosity
            .print(&format!("{}: {training} training and {test} test documents", output.display()));
        Ok(())
    }
}
