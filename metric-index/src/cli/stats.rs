//! `metric-index stats`.

use std::io::{self, Write};

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use metric_index::estimate::{intrinsic_dimension, radius_of_share};
use metric_index::metric::Metric;
use metric_index::points::Points;
use metric_index::stored::describe;
use metric_index::{Advice, Question, advise, advise_vectors};

use super::{Data, Failure, Input, MetricFlag, Outcome, of_vectors, of_words};

#[derive(Debug, Args)]
pub(crate) struct Stats {
    #[command(flatten)]
    points: Input,
    #[command(flatten)]
    metric: MetricFlag,
    /// Recommend an index for queries for so many nearest points
    #[arg(long, value_name = "K", conflicts_with = "radius")]
    nearest: Option<usize>,
    /// Recommend an index for queries for all points within a radius
    #[arg(long)]
    radius: Option<f32>,
    /// Points to try indexes on
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    sample: usize,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

impl Stats {
    pub(crate) fn run(self) -> Outcome {
        // An index says itself what it is.
        if let Ok(found) = describe(self.points.path()) {
            let mut out = io::stdout().lock();
            writeln!(out, "index\t{}\npoints\t{}", found.index, found.points)?;
            for (name, number) in found
                .dimension
                .iter()
                .map(|d| ("dimension", d))
                .chain(found.numbers.iter().map(|(name, number)| (name.as_str(), number)))
            {
                writeln!(out, "{name}\t{number}")?;
            }
            return Ok(());
        }
        let question = match (self.nearest, self.radius) {
            (Some(k), _) => Some(Question::Nearest(k)),
            (_, Some(radius)) => Some(Question::Within(radius)),
            _ => None,
        };
        match self.points.read()? {
            Data::Words(words) => {
                let metric = of_words(&self.metric)?;
                let advice = |q| advise(&words, &metric, q, self.sample, self.seed);
                let advice = question.map(advice).transpose().map_err(Failure::of(3))?;
                self.told(&words, &metric)?;
                advised(advice)
            }
            Data::Vectors(vectors) => {
                let metric = of_vectors(&self.metric)?;
                let advice = |q| advise_vectors(&vectors, &metric, q, self.sample, self.seed);
                let advice = question.map(advice).transpose().map_err(Failure::of(3))?;
                writeln!(io::stdout(), "dimension\t{}", vectors.dimension())?;
                self.told(&vectors, &metric)?;
                advised(advice)
            }
        }
    }

    fn told<S: Points, M: Metric<S::Point>>(&self, points: &S, metric: &M) -> Outcome {
        let mut out = io::stdout().lock();
        writeln!(out, "points\t{}", points.len())?;
        let dimension = intrinsic_dimension(points, metric, 20_000, self.seed);
        writeln!(out, "intrinsic dimension\t{:.2}", dimension.map_err(Failure::of(3))?)?;
        for share in [0.0001, 0.001, 0.01] {
            let radius = radius_of_share(points, metric, share, 50, self.seed);
            writeln!(out, "radius of {} %\t{}", share * 100.0, radius.map_err(Failure::of(3))?)?;
        }
        Ok(())
    }
}

fn advised(advice: Option<Advice>) -> Outcome {
    let Some(advice) = advice else { return Ok(()) };
    let mut table = Table::new();
    table.set_header(["index", "build s", "distances a query", "us a query"]);
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
    let mut out = io::stdout().lock();
    writeln!(out, "\ntried on {} points, the fastest first:", advice.sample)?;
    for line in table.lines() {
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}
