//! Flags for the search: the device, the engine and the index.

use std::panic::resume_unwind;
use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;

use clap::Args;
use classify::search::{DenseIndex, DeviceChoice, DeviceError, EngineKind, Engines};
use classify::stages::Stage;
use classify::threads::Threads;

use crate::failure::Failure;
use crate::output::progress::Verbosity;

/// Flags that choose where and how searches run. They do not affect results.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Searching")]
pub(crate) struct SearchFlags {
    /// Where to search: auto (a GPU if one works), cpu, cuda (the GPU with the most free memory),
    /// cuda:N or cuda:all (all GPUs); does not affect results
    #[arg(long, value_name = "WHERE", default_value_t = DeviceChoice::Auto)]
    device: DeviceChoice,
    /// The search engine: inverted or exhaustive on the CPU; fused on a GPU, or the algorithms of
    /// Bresler et al. 2011: base[:THREADS], shared[:THREADS], grid[:DOCUMENTSxTHREADS], and
    /// grid-ldg[:…] without textures [default: inverted or fused]
    #[arg(long, value_name = "ENGINE")]
    engine: Option<EngineKind>,
    /// The index for dense vectors on the CPU: auto, brute-force, kd-tree, vp-tree, lc, sss-index,
    /// sss-tree, egnat or m-tree, with the parameters of `metric-index`
    #[arg(long, value_name = "INDEX", default_value_t = DenseIndex::Auto)]
    index: DenseIndex,
}

impl SearchFlags {
    /// Whether the flags request a device or an engine, which must then be available.
    pub(crate) fn is_requested(&self) -> bool {
        self.device != DeviceChoice::Auto || self.engine.is_some()
    }

    /// Builds the engine factory and prints the chosen engine.
    pub(crate) fn engines(
        self,
        threads: &Threads,
        verbosity: Verbosity,
    ) -> Result<Engines, Failure> {
        let engines = self.build(threads)?;
        Self::report(&engines, verbosity);
        Ok(engines)
    }

    /// Builds the engine factory.
    pub(crate) fn build(self, threads: &Threads) -> Result<Engines, Failure> {
        let engines = self.device.open(self.engine, threads).map_err(|error| match error {
            DeviceError::Conflict { engine, place, device } => Failure::Usage(format!(
                "--engine {engine} runs on {place} and conflicts with --device {device}"
            )),
            DeviceError::Gpu(error) => Failure::Gpu(error),
        })?;
        Ok(engines.with_index(self.index))
    }

    /// Builds the engine factory in parallel with `open`, because a GPU starts slowly. Returns the
    /// factory, its start-up time, and the result of `open`. If both fail, returns the error of the
    /// factory.
    pub(crate) fn engines_while<T>(
        self,
        threads: &Threads,
        open: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<(Engines, Stage, T), Failure> {
        let start = || {
            let start = Instant::now();
            let engines = self.build(threads);
            (engines, Stage::since("start the search device", 0, start))
        };
        let (start_result, result) = thread::scope(|scope| {
            let starting =
                thread::Builder::new().name("start".to_owned()).spawn_scoped(scope, start);
            let result = open();
            let start_result = match starting.map(ScopedJoinHandle::join) {
                Ok(start_result) => start_result.unwrap_or_else(|panic| resume_unwind(panic)),
                // If no thread can be started, this thread builds the engines.
                Err(_) => start(),
            };
            (start_result, result)
        });
        let (engines, stage) = start_result;
        Ok((engines?, stage, result?))
    }

    /// Builds the engine factory for the CPU, which starts immediately.
    pub(crate) fn on_cpu(self, threads: &Threads) -> Engines {
        Engines::cpu(threads).with_index(self.index)
    }

    /// Prints the chosen engine.
    pub(crate) fn report(engines: &Engines, verbosity: Verbosity) {
        let line = format!("search: {}", engines.describe());
        // The CPU is the default, so its name is printed only with --verbose.
        if verbosity.verbose || engines.is_gpu() {
            verbosity.print(&line);
        }
    }
}
