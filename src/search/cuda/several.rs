//! Search on several GPUs. Each GPU has all training rows and takes batches of queries. If the rows
//! do not fit, they are divided among the GPUs.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use gpu_runtime::{Device, GpuError, on_each};

use super::engine::{Cuda, LANES, Loaded, MAX_RETRIES, RowPlacement};
use super::failure::DeviceFailure;
use super::options::CudaOptions;
use crate::rows::matrix::{Csr, CsrBuilder, row};
use crate::search::engine::{Search, clear_on_failure};
use crate::search::neighbor::row_number;
use crate::search::request::{Queries, Request};
use crate::search::{Composite, NeighborLists, Part, Report, RowMap, SearchError};
use crate::threads::Threads;

/// An engine on several GPUs, each with all training rows. It returns the same results as one GPU.
/// If a GPU fails, the others take over its queries. If the last GPU fails, the search continues as
/// in [`Cuda`]: with less memory, or on the CPU.
#[derive(Debug)]
pub struct SeveralGpus {
    engines: Vec<Cuda>,
    /// Whether each GPU has failed.
    failed: Vec<AtomicBool>,
}

impl SeveralGpus {
    /// Creates an engine over training rows on several GPUs. If the rows do not fit on each GPU,
    /// they are divided among the GPUs.
    ///
    /// # Errors
    /// In the cases of [`Cuda::new`], or if there is no GPU.
    pub fn engine(
        training: &Arc<Csr>,
        devices: &[Device],
        options: CudaOptions,
        threads: &Threads,
    ) -> Result<Arc<dyn Search>, SearchError> {
        Ok(Self::make(training, devices, options, threads)?)
    }

    pub(in crate::search) fn make(
        training: &Arc<Csr>,
        devices: &[Device],
        options: CudaOptions,
        threads: &Threads,
    ) -> Result<Arc<dyn Search>, DeviceFailure> {
        let load = |rows: &Arc<Csr>, device: &Device| {
            Cuda::make(Arc::clone(rows), device.clone(), options, threads.clone())
        };
        let engines = on_each(devices, |device| load(training, device));
        let mut engines = engines.into_iter().collect::<Result<Vec<_>, _>>()?;
        if engines.len() == 1 {
            return Ok(Arc::new(engines.remove(0)));
        }
        if engines.is_empty() {
            return Err(GpuError::NoDevice.into());
        }
        let is_resident = |engine: &Cuda| matches!(engine.loaded().rows, RowPlacement::Resident(_));
        if engines.iter().all(is_resident) {
            let failed = engines.iter().map(|_| AtomicBool::new(false)).collect();
            return Ok(Arc::new(Self { engines, failed }));
        }
        // Free the memory of the GPUs for the shares of the rows.
        drop(engines);
        let mut parts = Vec::new();
        for (range, device) in balanced_ranges(training, devices.len()).into_iter().zip(devices) {
            let ends = training.indptr();
            let ends = &ends[range.start..=range.end];
            let entries = usize::try_from(ends[range.len()] - ends[0]).expect("in memory");
            let mut rows = CsrBuilder::with_capacity(range.len(), entries);
            for number in range.clone() {
                let (terms, weights) = row(&training.view(), number);
                rows.push_row(terms.iter().copied().zip(weights.iter().copied()));
            }
            let rows = Arc::new(rows.build(training.cols()));
            let first = row_number(range.start);
            parts.push(Part { engine: Arc::new(load(&rows, device)?), rows: RowMap::From(first) });
        }
        // Each GPU needs a thread that waits for it.
        let count = NonZeroUsize::new(devices.len().max(threads.count())).expect("above 0");
        let threads = Threads::new(count).map_err(|error| SearchError::Engine(Arc::new(error)))?;
        Ok(Arc::new(Composite::new(parts, threads)?.concurrently()))
    }

    /// Searches on the GPUs that have not failed. An error includes the number of the GPU.
    fn find(
        &self,
        working: &[usize],
        queries: &Queries<'_>,
        found: &mut NeighborLists,
    ) -> Result<Report, (usize, DeviceFailure)> {
        let first = working[0];
        let lead = &self.engines[first];
        let count = queries.rows.rows();
        let k = queries.k.min(lead.training.rows());
        found.reset_pinned(count, k, &lead.untracked).map_err(|error| (first, error.into()))?;
        if k == 0 {
            queries.check_finite(&lead.threads).map_err(|error| (first, error.into()))?;
            return Ok(found.report());
        }
        let loaded: Vec<(usize, Arc<Loaded>)> =
            working.iter().map(|&number| (number, self.engines[number].loaded())).collect();
        for (number, loaded) in &loaded {
            match &loaded.rows {
                RowPlacement::Resident(_) => {}
                RowPlacement::Failed(error) => return Err((*number, error.clone().into())),
                RowPlacement::Streamed(_) => return Err((*number, GpuError::NoDevice.into())),
            }
        }
        let RowPlacement::Resident(segment) = &loaded[0].1.rows else {
            unreachable!("checked above")
        };
        // Make enough batches for all GPUs, each small enough for every GPU.
        let budget = loaded.iter().map(|(_, loaded)| loaded.budget).min().unwrap_or(0);
        let mut chunks = lead.chunks(segment, budget, queries, k);
        let min_batches = working.len() * LANES;
        if chunks.len() < min_batches {
            let size = count.div_ceil(min_batches).max(MIN_BATCH_QUERIES);
            let split = |chunk: Range<usize>| {
                let end = chunk.end;
                chunk.step_by(size).map(move |start| start..end.min(start + size))
            };
            chunks = chunks.into_iter().flat_map(split).collect();
        }
        let mut rest = found.slots();
        let mut work = Vec::new();
        for chunk in chunks {
            let (current, remaining) = rest.split_at(chunk.len());
            work.push((chunk, current));
            rest = remaining;
        }
        // Workers take batches from the end of the list.
        work.reverse();
        let work = Mutex::new(work);
        let next = || work.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let outcomes = on_each(&loaded, |(number, loaded)| -> Result<(), (usize, DeviceFailure)> {
            let engine = &self.engines[*number];
            let RowPlacement::Resident(segment) = &loaded.rows else {
                unreachable!("checked above")
            };
            engine.search_batches(segment, queries, k, next).map_err(|error| (*number, error))
        });
        // All workers have ended. Return the first failure.
        outcomes.into_iter().collect::<Result<(), _>>()?;
        Ok(found.report())
    }
}

/// Minimum number of queries of a batch when queries are divided among GPUs.
const MIN_BATCH_QUERIES: usize = 256;

/// Divides the rows into ranges with about the same number of entries.
fn balanced_ranges(training: &Csr, parts: usize) -> Vec<Range<usize>> {
    let ends = training.indptr();
    let entries = training.nnz() as u64;
    let mut start = 0;
    (1..=parts as u64)
        .map(|part| {
            let target = entries * part / parts as u64;
            let end = if part == parts as u64 {
                training.rows()
            } else {
                ends[1..].partition_point(|&end| end <= target).max(start)
            };
            let range = start..end;
            start = end;
            range
        })
        .collect()
}

impl Search for SeveralGpus {
    fn rows(&self) -> u32 {
        self.engines[0].count
    }

    fn search(
        &self,
        request: &Request<'_>,
        found: &mut NeighborLists,
    ) -> Result<Report, SearchError> {
        let mut sparse = None;
        let lead = &self.engines[0];
        let queries = request.queries(lead.count, lead.training.cols(), &mut sparse);
        let queries = clear_on_failure(queries, found)?;
        let mut tries = 0;
        loop {
            let is_working = |number: &usize| !self.failed[*number].load(Ordering::Relaxed);
            let working: Vec<usize> = (0..self.engines.len()).filter(is_working).collect();
            match *working {
                // At most one GPU is left. It searches, or the CPU takes over.
                [] => return lead.search(request, found),
                [last] => return self.engines[last].search(request, found),
                _ => {}
            }
            match self.find(&working, &queries, found) {
                Ok(report) => return Ok(report),
                // The GPU may be able to continue with less memory.
                Err((number, DeviceFailure::Gpu(error)))
                    if error.is_out_of_memory()
                        && tries < MAX_RETRIES
                        && self.engines[number].shrink(&error).is_ok() =>
                {
                    tries += 1;
                }
                Err((number, DeviceFailure::Gpu(error))) => {
                    if !lead.options.fall_back {
                        return clear_on_failure(Err(DeviceFailure::Gpu(error).into()), found);
                    }
                    tracing::warn!("{error}; continuing on the other GPUs");
                    self.failed[number].store(true, Ordering::Relaxed);
                }
                Err((_, failed)) => return clear_on_failure(Err(failed.into()), found),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_contain_all_rows() {
        let mut rows = CsrBuilder::default();
        for length in [0u32, 5, 1, 1, 0, 9, 2, 0] {
            rows.push_row((0..length).map(|column| (column, 1.0)));
        }
        let rows = rows.build(9);
        for parts in 1..12 {
            let ranges = balanced_ranges(&rows, parts);
            assert_eq!(ranges.len(), parts);
            assert!(ranges.into_iter().flatten().eq(0..8), "{parts}");
        }
        assert_eq!(balanced_ranges(&rows, 2), [0..5, 5..8]);
    }
}
