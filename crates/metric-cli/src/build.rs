//! The command `build`.

use std::num::NonZero;
use std::path::PathBuf;
use std::time::Instant;

use array_file::output::Outputs;
use clap::Args;
use metric_index::index::{Kind, Progress};
use metric_index::metric::check;
use metric_index::points::Points;
use metric_index::stored::save_to;

use crate::failure::{Failure, Outcome, refused};
use crate::input::{Data, Input};
use crate::metric::{MetricFlag, of_vectors, of_words};
use crate::talk::Talk;
use crate::threads::start_threads;

#[derive(Debug, Args)]
pub(crate) struct Build {
    #[command(flatten)]
    points: Input,
    /// Where the index is written
    #[arg(short, long, value_name = "INDEX")]
    output: PathBuf,
    /// The kind of index: brute-force, lc:POINTS, lc:rRADIUS, sss-index:SHARE (pivots by Sparse Spatial Selection),
    /// sss-index:PIVOTSp (so many pivots, each the farthest from those before; sss-index alone means 32p),
    /// sss-tree:SHARE, egnat:ARITYxBUCKET, m-tree:PAGE, vp-tree or kd-tree (vectors with a Minkowski distance)
    #[arg(long, default_value = "vp-tree", value_name = "KIND")]
    index: Kind,
    #[command(flatten)]
    metric: MetricFlag,
    /// Threads to use; the index never depends on it [default: all cores]
    #[arg(short = 'j', long, value_name = "N")]
    threads: Option<NonZero<usize>>,
}

/// Points on which the axioms of the metric are tried before an index is built.
const AXIOMS: usize = 64;

impl Build {
    pub(crate) fn run(self, talk: Talk) -> Outcome {
        let start = Instant::now();
        if self.output.as_os_str() == "-" {
            return Err(Failure::usage("an index is a file: -o takes its name".to_owned()));
        }
        let mut files = Outputs::default();
        files.reads(self.points.path());
        let output = files.open(&self.output)?;
        start_threads(self.threads)?;
        let shown = progress::Progress::new("building", 1, talk.is_quiet);
        let show = |done: u64, all: u64| {
            shown.set_total(all);
            shown.show(done, "");
        };
        let progress = Progress::new(&show);
        let kind = self.index;
        let (count, what) = match self.points.read(talk, None)? {
            Data::Words(words) => {
                let (count, metric) = (words.len(), of_words(self.metric.name())?);
                check(&words, &metric, AXIOMS, 0).map_err(refused)?;
                let index = kind.build_with(words, metric, &progress).map_err(refused)?;
                shown.finish();
                save_to(&index, output).map_err(Failure::stored)?;
                (count, "words".to_owned())
            }
            Data::Vectors(vectors) => {
                let (count, dimension) = (vectors.len(), vectors.dimension());
                let metric = of_vectors(self.metric.name())?;
                check(&vectors, &metric, AXIOMS, 0).map_err(refused)?;
                let index = kind.build_with(vectors, metric, &progress).map_err(refused)?;
                shown.finish();
                save_to(&index, output).map_err(Failure::stored)?;
                (count, format!("vectors of {dimension} dimensions"))
            }
        };
        if count == 0 {
            talk.warn(&format!("{}: no points in it", self.points.path().display()));
        }
        let (path, seconds) = (self.output.display(), start.elapsed().as_secs_f64());
        talk.say(&format!("{path}: {kind} of {count} {what}, {seconds:.1} s"));
        Ok(())
    }
}
