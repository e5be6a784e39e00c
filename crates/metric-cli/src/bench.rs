//! The command `bench`: one module per experiment.

use crate::failure::Outcome;
use crate::talk::Talk;

mod cordeiro;
mod data;
mod karelis;
mod multi_gpu;
mod online;
mod results;
mod thesis;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Bench {
    /// Repeat the experiments of Barrientos 2011: chapter 3, strategies of several threads and
    /// indexes; with --device cuda, chapter 4, searches on a GPU
    Thesis(thesis::Thesis),
    /// Measure queries that arrive one at a time: throughput and latency by batch size
    Online(online::Online),
    /// Repeat the tables of Cordeiro 2023: exact nearest neighbors of vectors on a GPU
    Cordeiro(cordeiro::Cordeiro),
    /// Repeat the figures of Karelis 2020: trees built and searched on a GPU
    Karelis(karelis::Karelis),
    /// Compare one GPU with several: all points on each GPU, and points dealt to them
    MultiGpu(multi_gpu::MultiGpu),
}

impl Bench {
    pub(crate) fn run(self, talk: Talk) -> Outcome {
        match self {
            Self::Thesis(thesis) => thesis.run(talk),
            Self::Online(online) => online.run(talk),
            Self::Cordeiro(cordeiro) => cordeiro.run(talk),
            Self::Karelis(karelis) => karelis.run(talk),
            Self::MultiGpu(multi_gpu) => multi_gpu.run(talk),
        }
    }
}
