//! The command `metric-index build`.

use std::num::NonZero;
use std::path::PathBuf;
use std::time::Instant;

use array_file::output::Outputs;
use clap::Args;
use metric_index::index::{Kind, Progress};
use metric_index::metric::check;
use metric_index::points::Points;
use metric_index::stored::save_to;

use crate::failure::{Failure, Outcome, invalid_request};
use crate::input::{Data, Input};
use crate::metric::{MetricFlag, parse_vector_metric, parse_word_metric};
use crate::threads::start_threads;
use crate::verbosity::Verbosity;

#[derive(Debug, Args)]
pub(crate) struct Build {
    #[command(flatten)]
    points: Input,
    /// The file to write the index to
    #[arg(short, long, value_name = "INDEX")]
    output: PathBuf,
    /// The kind of index: brute-force, lc:POINTS, lc:rRADIUS, sss-index:SHARE (pivots by Sparse
    /// Spatial Selection), sss-index:PIVOTSp (this number of pivots, each of them farthest from the
    /// previous ones; sss-index alone means 32p), sss-tree:SHARE, egnat:ARITYxBUCKET, m-tree:PAGE,
    /// vp-tree, or kd-tree (for vectors with a Minkowski distance)
    #[arg(long, default_value = "vp-tree", value_name = "KIND")]
    index: Kind,
    #[command(flatten)]
    metric: MetricFlag,
    /// Number of threads; it does not affect the index [default: all cores]
    #[arg(short = 'j', long, value_name = "N")]
    threads: Option<NonZero<usize>>,
}

/// Number of points on which the axioms of the metric are checked before an index is built.
const AXIOM_SAMPLE: usize = 64;

/// The description of the points for the final message.
struct PointSet {
    count: usize,
    description: String,
}

impl Build {
    pub(crate) fn run(self, verbosity: Verbosity) -> Outcome {
        let start = Instant::now();
        if self.output.as_os_str() == "-" {
            return Err(Failure::usage(
                "an index is a file, not standard output: give its name to -o".to_owned(),
            ));
        }
        let mut files = Outputs::default();
        files.add_input(self.points.path());
        let output = files.open(&self.output)?;
        start_threads(self.threads)?;
        let display = progress::Progress::new("building", 1, verbosity.is_quiet);
        let update = |done: u64, total: u64| {
            display.set_total(total);
            display.show(done, "");
        };
        let progress = Progress::new(&update);
        let kind = self.index;
        let points = match self.points.read(verbosity, None)? {
            Data::Words(words) => {
                let count = words.len();
                let metric = parse_word_metric(self.metric.name())?;
                check(&words, &metric, AXIOM_SAMPLE, 0).map_err(invalid_request)?;
                let index = kind.build_with(words, metric, &progress).map_err(invalid_request)?;
                display.finish();
                save_to(&index, output).map_err(Failure::stored)?;
                PointSet { count, description: "words".to_owned() }
            }
            Data::Vectors(vectors) => {
                let count = vectors.len();
                let description = format!("vectors of {} dimensions", vectors.dimension());
                let metric = parse_vector_metric(self.metric.name())?;
                check(&vectors, &metric, AXIOM_SAMPLE, 0).map_err(invalid_request)?;
                let index = kind.build_with(vectors, metric, &progress).map_err(invalid_request)?;
                display.finish();
                save_to(&index, output).map_err(Failure::stored)?;
                PointSet { count, description }
            }
        };
        let PointSet { count, description } = points;
        if count == 0 {
            verbosity
                .warn(&format!("{}: the file contains no points", self.points.path().display()));
        }
        let path = self.output.display();
        let seconds = start.elapsed().as_secs_f64();
        verbosity.say(&format!("{path}: {kind} of {count} {description}, {seconds:.1} s"));
        Ok(())
    }
}
