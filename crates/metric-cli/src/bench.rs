//! The command `bench`, with one module per experiment.

use crate::failure::Outcome;
use crate::verbosity::Verbosity;

mod cordeiro;
mod data;
mod karelis;
mod multi_gpu;
mod online;
mod results;
mod thesis;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Bench {
    /// Repeat the experiments of Barrientos 2011: chapter 3 (strategies for several threads and
    /// indexes) or, with --device cuda, chapter 4 (searches on a GPU)
    Thesis(thesis::Thesis),
    /// Measure queries that arrive one at a time: throughput and latency by batch size
    Online(online::Online),
    /// Repeat the tables of Cordeiro 2023: exact nearest neighbors of vectors on a GPU
    Cordeiro(cordeiro::Cordeiro),
    /// Repeat the figures of Karelis 2020: trees built and searched on a GPU
    Karelis(karelis::Karelis),
    /// Compare one GPU with several: with all points on each GPU, and with the points split over
    /// them
    MultiGpu(multi_gpu::MultiGpu),
}

impl Bench {
    pub(crate) fn run(self, verbosity: Verbosity) -> Outcome {
        match self {
            Self::Thesis(thesis) => thesis.run(verbosity),
            Self::Online(online) => online.run(verbosity),
            Self::Cordeiro(cordeiro) => cordeiro.run(verbosity),
            Self::Karelis(karelis) => karelis.run(verbosity),
            Self::MultiGpu(multi_gpu) => multi_gpu.run(verbosity),
        }
    }
}
