//! The command `metric-index stats`.

use std::io::{ErrorKind, Write};
use std::num::NonZero;

use array_file::FileProblem;
use array_file::output::Output;
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use metric_index::estimate::{intrinsic_dimension, radius_for_share};
use metric_index::metric::Metric;
use metric_index::points::Points;
use metric_index::stored::{Description, StoreProblem, describe};
use metric_index::{Advice, Question, advise};

use crate::failure::{Failure, Outcome, invalid_request};
use crate::input::{Data, Input};
use crate::metric::{MetricFlag, parse_vector_metric, parse_word_metric};
use crate::threads::start_threads;
use crate::verbosity::Verbosity;

#[derive(Debug, Args)]
pub(crate) struct Stats {
    #[command(flatten)]
    points: Input,
    #[command(flatten)]
    metric: MetricFlag,
    /// Recommend an index for finding the K nearest points
    #[arg(long, value_name = "K", conflicts_with = "radius")]
    nearest: Option<NonZero<usize>>,
    /// Recommend an index for finding all points within a radius
    #[arg(long)]
    radius: Option<f32>,
    /// Number of points on which indexes are tried
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    sample: usize,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

impl Stats {
    pub(crate) fn run(self, verbosity: Verbosity) -> Outcome {
        let mut out = Output::standard()?;
        match describe(self.points.path()) {
            Ok(description) => return print_index(&description, out),
            // The file contains points: words or vectors, possibly from a pipe.
            Err(error) if is_not_an_index(&error.problem) => {}
            Err(error) => return Err(Failure::stored(error)),
        }
        start_threads(None)?;
        let question = match (self.nearest, self.radius) {
            (Some(k), _) => Some(Question::Nearest(k.get())),
            (_, Some(radius)) => Some(Question::Within(radius)),
            _ => None,
        };
        match self.points.read(verbosity, None)? {
            Data::Words(words) => {
                let metric = parse_word_metric(self.metric.name())?;
                let advice = |q| advise(&words, &metric, q, self.sample, self.seed);
                let advice = question.map(advice).transpose().map_err(invalid_request)?;
                self.describe_points(&words, &metric, &mut out)?;
                print_advice(advice, &mut out)?;
            }
            Data::Vectors(vectors) => {
                let metric = parse_vector_metric(self.metric.name())?;
                let advice = |q| advise(&vectors, &metric, q, self.sample, self.seed);
                let advice = question.map(advice).transpose().map_err(invalid_request)?;
                writeln!(out, "dimension\t{}", vectors.dimension())?;
                self.describe_points(&vectors, &metric, &mut out)?;
                print_advice(advice, &mut out)?;
            }
        }
        Ok(out.commit()?)
    }

    /// Prints statistics of the points.
    fn describe_points<S: Points, M: Metric<S::Point>>(
        &self,
        points: &S,
        metric: &M,
        out: &mut Output,
    ) -> Outcome {
        writeln!(out, "points\t{}", points.len())?;
        let dimension = intrinsic_dimension(points, metric, 20_000, self.seed);
        writeln!(out, "intrinsic dimension\t{:.2}", dimension.map_err(invalid_request)?)?;
        for share in [0.0001, 0.001, 0.01] {
            let radius = radius_for_share(points, metric, share, 50, self.seed);
            writeln!(out, "radius of {} %\t{}", share * 100.0, radius.map_err(invalid_request)?)?;
        }
        Ok(())
    }
}

/// Whether an error means that the file is not an index, so that it may contain points.
fn is_not_an_index(problem: &StoreProblem) -> bool {
    match problem {
        StoreProblem::NoIndex => true,
        StoreProblem::File(FileProblem::Read(error)) => error.kind() != ErrorKind::OutOfMemory,
        _ => false,
    }
}

/// Prints the properties of an index: one name and value per line, separated by a tab.
fn print_index(description: &Description, mut out: Output) -> Outcome {
    writeln!(out, "index\t{}", description.kind)?;
    writeln!(out, "points\t{}", description.points)?;
    writeln!(out, "metric\t{}", description.metric.as_deref().unwrap_or("not recorded"))?;
    let dimension = description.dimension.iter().map(|dimension| ("dimension", dimension));
    let numbers = description.numbers.iter().map(|(name, number)| (name.as_str(), number));
    for (name, number) in dimension.chain(numbers) {
        writeln!(out, "{name}\t{number}")?;
    }
    Ok(out.commit()?)
}

fn print_advice(advice: Option<Advice>, out: &mut Output) -> Outcome {
    let Some(advice) = advice else { return Ok(()) };
    let mut table = Table::new();
    table.set_header(["index", "build s", "distances per query", "us per query"]);
    for candidate in &advice.candidates {
        table.add_row([
            candidate.index.to_string(),
            format!("{:.3}", candidate.build.as_secs_f64()),
            format!("{:.0}", candidate.evaluations),
            format!("{:.1}", candidate.query.as_secs_f64() * 1e6),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.load_style(presets::NOTHING);
    writeln!(out, "\ntried on {} points, fastest first:", advice.sample)?;
    for line in table.lines() {
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}
