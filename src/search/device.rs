//! The device that a user chooses for searches: the CPU, one GPU or all GPUs.

use std::fmt;
use std::str::FromStr;

use gpu_runtime::{Device, GpuError};

use super::cuda::load_kernels;
use super::{CudaEngine, EngineKind, Engines};
use crate::threads::Threads;

/// The device to search on: `auto`, `cpu`, `cuda`, `cuda:N` or `cuda:all`. The choice does not
/// affect results.
///
/// ```
/// use classify::search::DeviceChoice;
///
/// assert_eq!("cuda:1".parse(), Ok(DeviceChoice::Gpu(1)));
/// assert_eq!(DeviceChoice::AllGpus.to_string(), "cuda:all");
/// assert!("gpu".parse::<DeviceChoice>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeviceChoice {
    /// A GPU if one works, otherwise the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The GPU with the most free memory.
    AnyGpu,
    /// The GPU with this number.
    Gpu(usize),
    /// Every GPU that works.
    AllGpus,
}

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::AnyGpu),
            "cuda:all" => Ok(Self::AllGpus),
            _ => text
                .strip_prefix("cuda:")
                .and_then(|ordinal| ordinal.parse().ok())
                .map(Self::Gpu)
                .ok_or_else(|| "expected auto, cpu, cuda, cuda:N or cuda:all".to_owned()),
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::AnyGpu => f.write_str("cuda"),
            Self::Gpu(ordinal) => write!(f, "cuda:{ordinal}"),
            Self::AllGpus => f.write_str("cuda:all"),
        }
    }
}

/// The reason a device cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The engine does not run on the chosen device.
    #[error("the engine {engine} runs on {place}, not on the device {device}")]
    Conflict {
        /// The engine.
        engine: EngineKind,
        /// `a GPU` or `the CPU`.
        place: &'static str,
        /// The device.
        device: DeviceChoice,
    },
    /// The GPU cannot be used.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}

impl DeviceChoice {
    /// Opens the chosen GPUs. Returns an empty list for the CPU. A `tracing` warning names each GPU
    /// that `auto` or `cuda:all` skips because it does not work.
    ///
    /// # Errors
    /// If a requested GPU cannot be used.
    pub fn gpus(self) -> Result<Vec<Device>, GpuError> {
        let usable = |device: Device| device.info().check().map(|()| vec![device]);
        match self {
            Self::Cpu => Ok(Vec::new()),
            Self::AnyGpu => Device::open_best().and_then(usable),
            Self::Gpu(ordinal) => Device::open(ordinal).and_then(usable),
            Self::AllGpus => open_all_gpus(),
            Self::Auto => match Device::open_best().and_then(usable) {
                Err(GpuError::NoDriver | GpuError::NoDevice | GpuError::StaticBuild) => {
                    Ok(Vec::new())
                }
                Err(error) => {
                    tracing::warn!("{error}; searching on the CPU");
                    Ok(Vec::new())
                }
                opened => opened,
            },
        }
    }

    /// Opens the device for searching documents with `engine`, or with the best engine for the
    /// device if `engine` is `None`.
    ///
    /// # Errors
    /// If the engine does not run on this device, or in the cases of [`gpus`](Self::gpus).
    pub fn open(
        self,
        engine: Option<EngineKind>,
        threads: &Threads,
    ) -> Result<Engines, DeviceError> {
        let conflict = |engine, place| Err(DeviceError::Conflict { engine, place, device: self });
        let device = match (self, engine) {
            (Self::Cpu, Some(engine)) if engine.needs_gpu() => return conflict(engine, "a GPU"),
            (Self::AnyGpu | Self::Gpu(_) | Self::AllGpus, Some(engine)) if !engine.needs_gpu() => {
                return conflict(engine, "the CPU");
            }
            (Self::Auto, Some(engine)) => {
                if engine.needs_gpu() {
                    Self::AnyGpu
                } else {
                    Self::Cpu
                }
            }
            (device, _) => device,
        };
        let gpus = device.gpus()?;
        for gpu in &gpus {
            // Load the kernels now, so that creating the first engine takes less time. If loading
            // fails, creating that engine fails too and returns the error.
            let _ = load_kernels(gpu);
        }
        Ok(match engine {
            Some(EngineKind::Exhaustive) => Engines::exhaustive(threads),
            Some(EngineKind::Cuda(kind)) => Engines::several_gpus(kind, gpus, threads),
            _ if gpus.is_empty() => Engines::cpu(threads),
            _ => Engines::several_gpus(CudaEngine::Fused, gpus, threads),
        })
    }
}

/// Opens every GPU that works.
fn open_all_gpus() -> Result<Vec<Device>, GpuError> {
    let mut devices = Vec::new();
    for info in gpu_runtime::devices()? {
        match info.check().and_then(|()| Device::open(info.ordinal)) {
            Ok(device) => devices.push(device),
            Err(error) => tracing::warn!("{error}; continuing without it"),
        }
    }
    if devices.is_empty() { Err(GpuError::NoDevice) } else { Ok(devices) }
}
