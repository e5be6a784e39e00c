//! `--device` and `--engine`: where searches run, and how.

use std::str::FromStr;

use clap::Args;
use classify::search::{CudaEngine, DenseIndex, EngineKind, Engines};
use classify::threads::Threads;
use gpu_runtime::{Device, GpuError};

use super::failure::Failure;
use super::progress::Talk;

/// Where and how searches run. Results do not depend on it.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Searching")]
pub(crate) struct Searching {
    /// Where to search: auto (a GPU if one works), cpu, cuda (the GPU with the most free memory),
    /// cuda:N or cuda:all (every GPU); results do not depend on it
    #[arg(long, value_name = "WHERE", default_value = "auto")]
    device: DeviceArgument,
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

/// `--device`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DeviceArgument {
    Auto,
    Cpu,
    Cuda(Option<usize>),
    AllGpus,
}

impl FromStr for DeviceArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(None)),
            "cuda:all" => Ok(Self::AllGpus),
            _ => text
                .strip_prefix("cuda:")
                .and_then(|ordinal| ordinal.parse().ok())
                .map(|ordinal| Self::Cuda(Some(ordinal)))
                .ok_or_else(|| "expected auto, cpu, cuda, cuda:N or cuda:all".to_owned()),
        }
    }
}

impl Searching {
    /// Whether the user requested a device or an engine, which must then be available.
    pub(crate) fn is_asked_for(&self) -> bool {
        self.device != DeviceArgument::Auto || self.engine.is_some()
    }

    /// Builds the engine factory and logs the choice.
    pub(crate) fn engines(self, threads: &Threads, talk: Talk) -> Result<Engines, Failure> {
        let engines = self.chosen(threads, talk)?.with_index(self.index);
        let line = format!("search: {}", engines.describe());
        // The CPU engine is the default and not worth a message.
        if talk.verbose || engines.is_gpu() {
            talk.say(&line);
        }
        Ok(engines)
    }

    fn chosen(self, threads: &Threads, talk: Talk) -> Result<Engines, Failure> {
        let on_cpu = || match self.engine {
            Some(EngineKind::Exhaustive) => Engines::exhaustive(threads),
            _ => Engines::cpu(threads),
        };
        let wants_gpu = self.engine.map(EngineKind::needs_gpu);
        let device = match (self.device, wants_gpu) {
            (DeviceArgument::Cpu, Some(true)) => {
                let engine = self.engine.unwrap_or(EngineKind::FUSED);
                let message = format!("--engine {engine} runs on a GPU, not with --device cpu");
                return Err(Failure::Usage(message));
            }
            (DeviceArgument::Cuda(_) | DeviceArgument::AllGpus, Some(false)) => {
                let engine = self.engine.unwrap_or(EngineKind::Inverted);
                let message = format!("--engine {engine} runs on the CPU, not with --device cuda");
                return Err(Failure::Usage(message));
            }
            (DeviceArgument::Cpu, _) | (DeviceArgument::Auto, Some(false)) => return Ok(on_cpu()),
            (DeviceArgument::AllGpus, _) => return self.all_gpus(threads, talk),
            (DeviceArgument::Cuda(Some(ordinal)), _) => Device::open(ordinal),
            (DeviceArgument::Cuda(None), _) | (DeviceArgument::Auto, Some(true)) => {
                Device::open_best()
            }
            (DeviceArgument::Auto, None) => match Device::open_best() {
                Ok(device) => Ok(device),
                Err(GpuError::NoDriver | GpuError::NoDevice | GpuError::StaticBuild) => {
                    return Ok(on_cpu());
                }
                Err(error) => {
                    talk.say(&format!("{error}; searching on the CPU"));
                    return Ok(on_cpu());
                }
            },
        };
        let device = device.and_then(|device| device.info().check().map(|()| device));
        let device = device.map_err(Failure::Gpu)?;
        let Some(EngineKind::Cuda(engine)) = self.engine.or(Some(EngineKind::FUSED)) else {
            return Ok(on_cpu());
        };
        Ok(Engines::cuda(engine, device, threads))
    }

    /// Every GPU that works.
    fn all_gpus(self, threads: &Threads, talk: Talk) -> Result<Engines, Failure> {
        let mut devices = Vec::new();
        for info in gpu_runtime::devices().map_err(Failure::Gpu)? {
            match info.check().and_then(|()| Device::open(info.ordinal)) {
                Ok(device) => devices.push(device),
                Err(error) => talk.say(&format!("{error}; continuing without it")),
            }
        }
        if devices.is_empty() {
            return Err(Failure::Gpu(GpuError::NoDevice));
        }
        let engine = match self.engine {
            Some(EngineKind::Cuda(engine)) => engine,
            _ => CudaEngine::Fused,
        };
        Ok(Engines::several_gpus(engine, devices, threads))
    }
}
