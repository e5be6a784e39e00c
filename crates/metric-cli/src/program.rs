//! The command line and its commands.

use clap::Parser;
use metric_index::Question;

use crate::bench::Bench;
use crate::build::Build;
use crate::failure::{Failure, Outcome};
use crate::search::{Knn, Range};
use crate::stats::Stats;
use crate::verbosity::Verbosity;

/// Exact similarity search in metric spaces
#[derive(Debug, Parser)]
#[command(name = "metric-index", version)]
pub(crate) struct Program {
    /// Print only errors on standard error
    #[arg(short, long, global = true)]
    quiet: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Build an index of words or vectors
    Build(Build),
    /// Find all points within a radius of each query
    Range(Range),
    /// Find the nearest points of each query
    Knn(Knn),
    /// Describe an index, or analyze a set of points and recommend an index
    Stats(Stats),
    /// Run benchmarks
    #[command(subcommand)]
    Bench(Bench),
}

impl Program {
    pub(crate) fn run(self) -> Outcome {
        let verbosity = Verbosity { is_quiet: self.quiet };
        match self.command {
            Command::Build(build) => build.run(verbosity),
            Command::Range(Range { search, radius }) if radius >= 0.0 => {
                search.run(verbosity, Question::Within(radius))
            }
            Command::Range(Range { radius, .. }) => {
                let text = format!("invalid radius {radius}, expected a number of at least 0");
                Err(Failure::usage(text))
            }
            Command::Knn(Knn { search, k }) => search.run(verbosity, Question::Nearest(k.get())),
            Command::Stats(stats) => stats.run(verbosity),
            Command::Bench(bench) => bench.run(verbosity),
        }
    }
}
