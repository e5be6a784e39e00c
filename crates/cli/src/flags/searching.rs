//! `--device` and `--engine`: where searches run, and how.

use std::panic::resume_unwind;
use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;

use clap::Args;
use classify::search::{DenseIndex, DeviceChoice, DeviceError, EngineKind, Engines};
use classify::stages::Stage;
use classify::threads::Threads;

use crate::failure::Failure;
use crate::output::progress::Talk;

/// Where and how searches run. Results do not depend on it.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Searching")]
pub(crate) struct Searching {
    /// Where to search: auto (a GPU if one works), cpu, cuda (the GPU with the most free memory),
    /// cuda:N or cuda:all (every GPU); results do not depend on it
    #[arg(long, value_name = "WHERE", default_value_t = DeviceChoice::Auto)]
    device: DeviceChoice,
    /// The search engine: inverted or exhaustive on the CPU; fused on a GPU, or the algorithms of
    /// Bresler et al. 2011: base[:THREADS], shared[:THREADS], grid[:DOCUMENTSxTHREADS], and
    /// grid-ldg[:…] without textures [default: inverted or fused]
    #[arg(long, value_name = "ENGINE")]
    engine: Option<EngineKind>,
    /// The index over dense vectors on the CPU (a GPU needs none): auto, brute-force, kd-tree, vp-tree, lc, sss-index, sss-tree, egnat or m-tree, with
    /// parameters as `metric-index` has them
    #[arg(long, value_name = "INDEX", default_value_t = DenseIndex::Auto)]
    index: DenseIndex,
}

impl Searching {
    /// Whether the user requested a device or an engine, which must then be available.
    pub(crate) fn is_asked_for(&self) -> bool {
        self.device != DeviceChoice::Auto || self.engine.is_some()
    }

    /// Builds the engine factory and logs the choice.
    pub(crate) fn engines(self, threads: &Threads, talk: Talk) -> Result<Engines, Failure> {
        let engines = self.silently(threads)?;
        Self::say(&engines, talk);
        Ok(engines)
    }

    /// Builds the engine factory.
    pub(crate) fn silently(self, threads: &Threads) -> Result<Engines, Failure> {
        let engines = self.device.open(self.engine, threads).map_err(|error| match error {
            DeviceError::Conflict { engine, place, device } => Failure::Usage(format!(
                "--engine {engine} runs on {place}, not with --device {device}"
            )),
            DeviceError::Gpu(error) => Failure::Gpu(error),
        })?;
        Ok(engines.with_index(self.index))
    }

    /// The engines, how long they took to start, and what was opened meanwhile, as a GPU takes a while. If there is
    /// none, that is the error returned, whatever else failed.
    pub(crate) fn beside<T>(
        self,
        threads: &Threads,
        open: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<(Engines, Stage, T), Failure> {
        let start = || {
            let start = Instant::now();
            let engines = self.silently(threads);
            (engines, Stage::since("start the search device", 0, start))
        };
        let (started, opened) = thread::scope(|scope| {
            let starting =
                thread::Builder::new().name("start".to_owned()).spawn_scoped(scope, start);
            let opened = open();
            let started = match starting.map(ScopedJoinHandle::join) {
                Ok(started) => started.unwrap_or_else(|panic| resume_unwind(panic)),
                // Without another thread it is done now.
                Err(_) => start(),
            };
            (started, opened)
        });
        let (engines, stage) = started;
        Ok((engines?, stage, opened?))
    }

    /// Those of the CPU, which need no start.
    pub(crate) fn on_cpu(self, threads: &Threads) -> Engines {
        Engines::cpu(threads).with_index(self.index)
    }

    /// Logs the choice.
    pub(crate) fn say(engines: &Engines, talk: Talk) {
        let line = format!("search: {}", engines.describe());
        // The CPU engine is the default and not worth a message.
        if talk.verbose || engines.is_gpu() {
            talk.say(&line);
        }
    }
}
