//! The flag `--device`, which chooses the CPU or GPUs.

use std::num::NonZero;
use std::str::FromStr;
use std::sync::Arc;

use metric_index::Question;
use metric_index::gpu::{Device, GpuError, GpuPoint, GpuSearch, Layout, devices};
use metric_index::index::Index;
use metric_index::lists::NeighborLists;
use metric_index::points::Points;

use crate::failure::Failure;
use crate::verbosity::Verbosity;

/// The value of `--device`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeviceFlag {
    Cpu,
    Best,
    Number(usize),
    All,
}

impl FromStr for DeviceFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = || text.strip_prefix("cuda:").and_then(|number| number.parse().ok());
        match text {
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Best),
            "cuda:all" => Ok(Self::All),
            _ => number()
                .map(Self::Number)
                .ok_or_else(|| "expected cpu, cuda, cuda:N or cuda:all".to_owned()),
        }
    }
}

impl DeviceFlag {
    /// Opens the GPUs that the flag names; returns an empty list for the CPU.
    pub(crate) fn open(self, verbosity: Verbosity) -> Result<Vec<Device>, Failure> {
        let open_single = |device: Result<Device, GpuError>| {
            let device = device.and_then(|device| device.info().check().map(|()| device));
            Ok(vec![device.map_err(Failure::gpu)?])
        };
        match self {
            Self::Cpu => Ok(Vec::new()),
            Self::Best => open_single(Device::open_best()),
            Self::Number(number) => open_single(Device::open(number)),
            Self::All => {
                let mut opened = Vec::new();
                for info in devices().map_err(Failure::gpu)? {
                    match info.check().and_then(|()| Device::open(info.ordinal)) {
                        Ok(device) => opened.push(device),
                        Err(error) => verbosity.warn(&format!("{error}; continuing without it")),
                    }
                }
                if opened.is_empty() { Err(Failure::gpu(GpuError::NoDevice)) } else { Ok(opened) }
            }
        }
    }

    /// Opens the GPU of a command that uses exactly one GPU.
    pub(crate) fn open_one(self, command: &str, verbosity: Verbosity) -> Result<Device, Failure> {
        let mut devices = self.open(verbosity)?;
        match (devices.pop(), devices.is_empty()) {
            (Some(device), true) => Ok(device),
            _ => Err(Failure::usage(format!(
                "{command} measures one GPU; use --device cuda or cuda:N"
            ))),
        }
    }
}

/// The settings of a search on GPUs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GpuRun {
    pub(crate) question: Question,
    /// Number of threads for the queries that fall back to the CPU.
    pub(crate) threads: NonZero<usize>,
    pub(crate) verbosity: Verbosity,
}

/// Answers queries on GPUs. Queries that the GPUs cannot answer fall back to the CPU.
pub(crate) fn answers<I: Index + Send>(
    devices: &[Device],
    index: &Arc<I>,
    queries: &I::Points,
    run: GpuRun,
) -> Result<NeighborLists, Failure>
where
    <I::Points as Points>::Point: GpuPoint,
{
    let GpuRun { question, threads, verbosity } = run;
    let on_cpu = || match question {
        Question::Within(radius) => index.within_many(queries, radius, threads),
        Question::Nearest(k) => index.nearest_many(queries, k, threads),
    };
    let Some(search) = GpuSearch::new(devices, Arc::clone(index)).map_err(Failure::gpu)? else {
        verbosity.warn("GPUs do not support these points or this distance; searching on the CPU");
        return Ok(on_cpu());
    };
    let answers = search.answer(queries, question, threads);
    for error in &answers.failed {
        verbosity.warn(&format!("{error}; the other GPUs or the CPU took over its work"));
    }
    let ordinals: Vec<String> =
        devices.iter().map(|device| device.info().ordinal.to_string()).collect();
    let layout = match search.layout() {
        Layout::Replicated => "all points on each",
        Layout::Sharded => "points split",
    };
    verbosity.say(&format!(
        "GPU {}, {layout}: {} queries, {:.3} ms in kernels; {} by the CPU",
        ordinals.join(", "),
        queries.len(),
        answers.device_seconds * 1e3,
        answers.fell_back
    ));
    Ok(answers.lists)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_by_name() {
        assert_eq!("cuda:2".parse(), Ok(DeviceFlag::Number(2)));
        assert_eq!("cuda:all".parse(), Ok(DeviceFlag::All));
        for bad in ["", "gpu", "cuda:", "cuda:-1", "cuda:x"] {
            assert!(bad.parse::<DeviceFlag>().unwrap_err().contains("cuda:all"), "{bad}");
        }
    }
}
