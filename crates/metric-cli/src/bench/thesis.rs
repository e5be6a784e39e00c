//! `metric-index bench thesis` repeats the experiments of Barrientos 2011: chapter 3 on the CPU and
//! chapter 4 on a GPU.

use metric_index::estimate::radius_for_share;
use metric_index::generate::clustered;
use metric_index::index::{ClusterSize, EgnatOptions, Kind, Pivots};
use metric_index::metric::{Edit, Euclidean, Metric};

use super::data::{Words, read_words};
use crate::device::DeviceFlag;
use crate::failure::{Failure, Outcome, invalid_request};
use crate::threads::{all_cores, start_threads};
use crate::verbosity::Verbosity;

mod flags;
mod gpu;
mod measure;
mod report;

pub(crate) use flags::Thesis;

use measure::{Bench, NamedKind, Space};

/// Returns the five indexes of the thesis, and the VP-tree.
fn kinds(bucket: u32, alpha: f32) -> Vec<NamedKind> {
    [
        ("LC", Kind::ListOfClusters(ClusterSize::Points(bucket))),
        ("SSS-Index", Kind::SssIndex(Pivots::Spread(alpha))),
        ("SSS-Tree", Kind::SssTree(0.4)),
        ("EGNAT", Kind::Egnat(EgnatOptions::default())),
        ("M-tree", Kind::MTree(32)),
        ("VP-tree", Kind::VpTree),
    ]
    .map(|(name, kind)| NamedKind { name, kind })
    .to_vec()
}

impl Thesis {
    pub(crate) fn run(self, verbosity: Verbosity) -> Outcome {
        if self.queries == 0 || (self.words.is_none() && self.vectors == 0) {
            let text = "nothing to measure: use --words or --vectors, and at least one query";
            return Err(Failure::usage(text.to_owned()));
        }
        if self.device != DeviceFlag::Cpu {
            let device = &self.device.open_one("bench thesis", verbosity)?;
            let outputs = self.outputs(&gpu::FIGURES)?;
            return gpu::run(&self, device, verbosity, outputs);
        }
        let outputs = self.outputs(&report::figures().collect::<Vec<_>>())?;
        let threads = self.threads.unwrap_or_else(all_cores);
        start_threads(None)?;
        let mut bench =
            Bench { flags: &self, verbosity, threads, spaces: Vec::new(), measured: Vec::new() };
        if let Some(path) = &self.words {
            let Words { points, queries } =
                Words::held_out(&read_words(path)?, self.queries, self.seed);
            bench.measure_space(&Space {
                name: "words",
                data: format!("{}, seed {}", path.display(), self.seed),
                points: &points,
                queries: &queries,
                metric: if self.table { &WagnerFischer } else { &Edit },
                radii: [1.0, 2.0, 3.0],
                kinds: kinds(32, self.alpha),
            })?;
        }
        if self.vectors > 0 {
            let (points, queries) = clustered(self.vectors, self.queries, self.seed);
            let radius = |share| radius_for_share(&points, &Euclidean, share, 50, self.seed);
            let radius = |share| radius(share).map_err(invalid_request);
            let radii = [radius(0.0001)?, radius(0.001)?, radius(0.01)?];
            let seed = self.seed;
            bench.measure_space(&Space {
                name: "vectors",
                data: format!("generated: 20 dimensions around 200 centers, seed {seed}"),
                points: &points,
                queries: &queries,
                metric: &Euclidean,
                radii,
                kinds: kinds(64, self.alpha),
            })?;
        }
        bench.write(outputs)
    }
}

/// The edit distance, computed with the table of Wagner and Fischer, without bit parallelism or
/// early termination.
#[derive(Debug, Clone, Copy)]
struct WagnerFischer;

impl Metric<str> for WagnerFischer {
    fn distance(&self, a: &str, b: &str) -> f32 {
        let b: Vec<char> = b.chars().collect();
        let mut row: Vec<usize> = (0..=b.len()).collect();
        for a in a.chars() {
            let mut diagonal = row[0];
            row[0] += 1;
            for (i, &b) in b.iter().enumerate() {
                let substituted = diagonal + usize::from(a != b);
                diagonal = row[i + 1];
                row[i + 1] = substituted.min(row[i] + 1).min(diagonal + 1);
            }
        }
        row[b.len()] as f32
    }

    // Distances above 2^24 are rounded.
    fn relative_error(&self) -> f32 {
        f32::EPSILON
    }
}
