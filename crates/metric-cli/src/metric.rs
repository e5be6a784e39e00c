//! The flag `--metric`.

use clap::Args;
use metric_index::metric::{Edit, VectorMetric};

use crate::failure::Failure;

#[derive(Debug, Args)]
pub(crate) struct MetricFlag {
    /// The distance: edit (for words), or euclidean, manhattan, chebyshev, minkowski:P, angular or
    /// hamming (for vectors) [default: the metric of the index, otherwise edit or euclidean]
    #[arg(long)]
    metric: Option<String>,
}

/// Parses the metric of words, which can only be the edit distance.
pub(crate) fn parse_word_metric(name: Option<&str>) -> Result<Edit, Failure> {
    match name {
        None | Some("edit") => Ok(Edit),
        Some(other) => Err(Failure::usage(format!("words have no metric {other}, expected edit"))),
    }
}

/// Parses the metric of vectors.
pub(crate) fn parse_vector_metric(name: Option<&str>) -> Result<VectorMetric, Failure> {
    name.unwrap_or("euclidean").parse().map_err(Failure::usage)
}

impl MetricFlag {
    pub(crate) fn name(&self) -> Option<&str> {
        self.metric.as_deref()
    }
}
