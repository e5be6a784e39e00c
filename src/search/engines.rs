//! The kinds of engines, and a factory that creates engines of one kind.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use gpu_runtime::Device;

use super::cuda::DeviceFailure;
use super::{
    CudaEngine, CudaOptions, Dense, DenseIndex, Exhaustive, GridMemory, Inverted, NEVER,
    NeighborLists, Report, Request, Search, SearchError, SeveralGpus, Stop,
};
use crate::rows::dense::DensePart;
use crate::rows::matrix::Csr;
use crate::threads::Threads;

/// The kind of an engine. Its text form is `inverted`, `exhaustive`, `fused`, `base:THREADS`,
/// `shared:THREADS`, `grid:DOCUMENTSxTHREADS` or `grid-ldg:DOCUMENTSxTHREADS`. The numbers may be
/// omitted.
///
/// ```
/// use classify::search::EngineKind;
///
/// let grid: EngineKind = "grid:64x128".parse().unwrap();
/// assert_eq!(grid.to_string(), "grid:64x128");
/// assert!(grid.needs_gpu());
/// assert!("grid:7".parse::<EngineKind>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineKind {
    /// [`Exhaustive`], on the CPU.
    Exhaustive,
    /// [`Inverted`], on the CPU.
    Inverted,
    /// [`Cuda`](super::Cuda), on a GPU.
    Cuda(CudaEngine),
}

impl EngineKind {
    /// The default engine on a GPU.
    pub const FUSED: Self = Self::Cuda(CudaEngine::Fused);

    /// Whether the engine runs on a GPU.
    pub fn needs_gpu(self) -> bool {
        matches!(self, Self::Cuda(_))
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exhaustive => f.write_str("exhaustive"),
            Self::Inverted => f.write_str("inverted"),
            Self::Cuda(CudaEngine::Fused) => f.write_str("fused"),
            Self::Cuda(CudaEngine::Base { threads }) => write!(f, "base:{threads}"),
            Self::Cuda(CudaEngine::Shared { threads }) => write!(f, "shared:{threads}"),
            Self::Cuda(CudaEngine::Grid { documents, threads, memory }) => {
                let name = match memory {
                    GridMemory::Texture => "grid",
                    GridMemory::ReadOnly => "grid-ldg",
                };
                write!(f, "{name}:{documents}x{threads}")
            }
        }
    }
}

impl FromStr for EngineKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, numbers) = text.split_once(':').map_or((text, None), |(n, s)| (n, Some(s)));
        // The sizes that Bresler et al. 2011 measured.
        let size = |text: &str| match text.parse() {
            Ok(size @ (32 | 64 | 128 | 256)) => Ok(size),
            _ => Err(format!("`{text}`: expected 32, 64, 128 or 256")),
        };
        let threads = |default| numbers.map_or(Ok(default), size);
        let grid = |memory| {
            let (documents, threads) = match numbers {
                None => (256, 128),
                Some(numbers) => {
                    let (documents, threads) = numbers
                        .split_once('x')
                        .ok_or_else(|| format!("`{text}`: expected {name}:DOCUMENTSxTHREADS"))?;
                    (size(documents)?, size(threads)?)
                }
            };
            Ok(Self::Cuda(CudaEngine::Grid { documents, threads, memory }))
        };
        match name {
            "exhaustive" | "inverted" | "fused" if numbers.is_some() => {
                Err(format!("`{name}` takes no numbers"))
            }
            "exhaustive" => Ok(Self::Exhaustive),
            "inverted" => Ok(Self::Inverted),
            "fused" => Ok(Self::FUSED),
            "base" => Ok(Self::Cuda(CudaEngine::Base { threads: threads(128)? })),
            "shared" => Ok(Self::Cuda(CudaEngine::Shared { threads: threads(128)? })),
            "grid" => grid(GridMemory::Texture),
            "grid-ldg" => grid(GridMemory::ReadOnly),
            _ => {
                Err("expected inverted, exhaustive, fused, base, shared, grid or grid-ldg"
                    .to_owned())
            }
        }
    }
}

/// A factory for engines of one kind, on given GPUs and threads.
#[derive(Clone)]
pub struct Engines {
    kind: EngineKind,
    /// The GPUs; empty for CPU engines.
    devices: Vec<Device>,
    /// The kind of index for dense vectors.
    index: DenseIndex,
    threads: Threads,
    /// Whether the CPU takes over if the GPU fails.
    fall_back: bool,
    /// The stop for requests that have no stop of their own.
    stop: Option<Arc<Stop>>,
}

impl fmt::Debug for Engines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Engines({}, {:?})", self.kind, self.threads)
    }
}

impl Engines {
    /// Creates a factory for [`Inverted`] engines on the CPU.
    pub fn cpu(threads: &Threads) -> Self {
        let kind = EngineKind::Inverted;
        Self {
            kind,
            devices: Vec::new(),
            index: DenseIndex::Auto,
            threads: threads.clone(),
            fall_back: true,
            stop: None,
        }
    }

    /// Creates a factory for [`Exhaustive`] engines on the CPU.
    pub fn exhaustive(threads: &Threads) -> Self {
        Self { kind: EngineKind::Exhaustive, ..Self::cpu(threads) }
    }

    /// Creates a factory for engines on one GPU. If the GPU fails, the CPU takes over and a
    /// `tracing` warning is emitted.
    pub fn cuda(engine: CudaEngine, device: Device, threads: &Threads) -> Self {
        Self::several_gpus(engine, vec![device], threads)
    }

    /// Creates a factory for engines on several GPUs, or on the CPU if `devices` is empty. If a GPU
    /// fails, the others take over, then the CPU.
    pub fn several_gpus(engine: CudaEngine, devices: Vec<Device>, threads: &Threads) -> Self {
        Self { kind: EngineKind::Cuda(engine), devices, ..Self::cpu(threads) }
    }

    /// Makes searches return an error after a GPU failure instead of falling back to the CPU.
    /// Intended for benchmarks.
    #[must_use]
    pub fn without_fall_back(self) -> Self {
        Self { fall_back: false, ..self }
    }

    /// Sets the stop for engines created from now on. A request's own stop takes precedence.
    #[must_use]
    pub fn until(self, stop: Arc<Stop>) -> Self {
        Self { stop: Some(stop), ..self }
    }

    /// Sets the kind of index for dense vectors.
    #[must_use]
    pub fn with_index(self, index: DenseIndex) -> Self {
        Self { index, ..self }
    }

    /// Creates an engine over the dense vectors of a model. Even with GPUs, the CPU answers
    /// requests with a filter, for example in leave-one-out tuning.
    ///
    /// # Errors
    /// If the vectors cannot be indexed, or a GPU fails and falling back to the CPU is disabled.
    pub fn dense(&self, part: &DensePart) -> Result<Arc<dyn Search>, SearchError> {
        let rows = Arc::clone(part.vectors());
        let engine = Dense::new(rows, part.spec().kernel(), self.index, self.threads.clone())?;
        let engine = if part.skips_zeros() { engine.without_zeros() } else { engine };
        Ok(self.with_stop(Arc::new(engine.on_gpus(&self.devices, self.fall_back)?)))
    }

    /// The threads of the engines.
    pub fn threads(&self) -> &Threads {
        &self.threads
    }

    /// Returns the same factory without GPUs, for many small indexes with few queries each. The
    /// threads build and search several indexes concurrently, whereas a GPU would wait for each to
    /// be built and copied.
    #[must_use]
    pub fn on_cpu(&self) -> Self {
        if !self.is_gpu() {
            return self.clone();
        }
        Self { kind: EngineKind::Inverted, devices: Vec::new(), ..self.clone() }
    }

    /// Whether the engines run on a GPU.
    pub fn is_gpu(&self) -> bool {
        !self.devices.is_empty()
    }

    /// Describes the kind of engine and its device, for messages.
    pub fn describe(&self) -> String {
        let Some(first) = self.devices.first() else {
            return format!("{} on the CPU ({} threads)", self.kind, self.threads.count());
        };
        let ordinals = self.devices.iter().map(|device| device.info().ordinal.to_string());
        let ordinals = ordinals.collect::<Vec<_>>().join(", ");
        let gpus = if self.devices.len() == 1 { "GPU" } else { "GPUs" };
        format!("{} on {gpus} {ordinals} ({})", self.kind, first.info().name)
    }

    /// The number of queries per batch that keeps an engine busy.
    pub fn batch(&self) -> usize {
        if self.is_gpu() { 16_384 * self.devices.len() } else { 4_096 }
    }

    /// Creates an engine over training rows.
    ///
    /// # Errors
    /// If a weight is not finite, or the GPU fails and falling back to the CPU is disabled.
    pub fn engine(&self, training: &Arc<Csr>) -> Result<Arc<dyn Search>, SearchError> {
        let training = Arc::clone(training);
        let threads = self.threads.clone();
        Ok(self.with_stop(match (self.kind, &*self.devices) {
            (EngineKind::Cuda(engine), [_, ..]) => {
                let fall_back = self.fall_back;
                let options = CudaOptions { fall_back, ..CudaOptions::new(engine) };
                match SeveralGpus::make(&training, &self.devices, options, &threads) {
                    Ok(engine) => engine,
                    // For example, the kernels could not be loaded.
                    Err(DeviceFailure::Gpu(error)) if fall_back => {
                        tracing::warn!("{error}; continuing on the CPU");
                        Arc::new(Inverted::new(training, threads)?)
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            (EngineKind::Exhaustive, _) => Arc::new(Exhaustive::new(training, threads)?),
            // Without GPUs, the CPU takes over.
            (EngineKind::Inverted, _) | (EngineKind::Cuda(_), []) => {
                Arc::new(Inverted::new(training, threads)?)
            }
        }))
    }

    fn with_stop(&self, engine: Arc<dyn Search>) -> Arc<dyn Search> {
        match &self.stop {
            Some(stop) => Arc::new(EngineWithStop { engine, stop: Arc::clone(stop) }),
            None => engine,
        }
    }
}

/// An engine with a stop for requests that have none.
#[derive(Debug)]
struct EngineWithStop {
    engine: Arc<dyn Search>,
    stop: Arc<Stop>,
}

impl Search for EngineWithStop {
    fn rows(&self) -> u32 {
        self.engine.rows()
    }

    fn search(
        &self,
        request: &Request<'_>,
        found: &mut NeighborLists,
    ) -> Result<Report, SearchError> {
        let has_own_stop = !std::ptr::eq(request.stop, &raw const NEVER);
        self.engine
            .search(&request.until(if has_own_stop { request.stop } else { &self.stop }), found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::matrix::CsrBuilder;

    #[test]
    fn a_stop_ends_the_searches_of_engines_created_with_it() {
        let threads = Threads::new(std::num::NonZeroUsize::MIN).expect("a thread");
        let mut rows = CsrBuilder::default();
        rows.push_row([(0, 1.0)]);
        let rows = Arc::new(rows.build(1));
        let stop = Arc::new(Stop::new());
        let engine = Engines::cpu(&threads).until(Arc::clone(&stop)).engine(&rows).expect("finite");
        let request = Request::new(&*rows, std::num::NonZeroUsize::MIN);
        let mut found = NeighborLists::default();
        assert!(engine.search(&request, &mut found).is_ok());
        stop.stop();
        assert!(matches!(engine.search(&request, &mut found), Err(SearchError::Stopped)));
        // A request's own stop takes precedence.
        assert!(engine.search(&request.until(&Stop::new()), &mut found).is_ok());
    }
}
