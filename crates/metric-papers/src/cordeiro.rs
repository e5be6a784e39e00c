//! The searches of Cordeiro 2023, as they stand there, for comparison: a warp computes a distance, and a block keeps the k nearest in
//! shared memory. [`GpuSearch`] is faster.
//!
//! They need Euclidean distances of vectors, and points that fit on one GPU.
//!
//! [`GpuSearch`]: metric_index::gpu::GpuSearch

use std::sync::Arc;

use gpu_runtime::{CudaSlice, CudaStream, Device, GpuError};

use crate::barrientos::Timed;
use crate::gpu::{are_finite, zeros};
use metric_index::neighbor::Neighbor;
use metric_index::points::{Points, Vectors};

mod launch;

use launch::Kernels;

/// How queries are given to blocks of threads.
///
/// ```
/// assert_ne!(metric_papers::cordeiro::Method::Ppk, metric_papers::cordeiro::Method::Sbq);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// A launch for each query: each block searches a part of the points.
    Ppk,
    /// A block for each query.
    Ppb,
    /// As many queries for each block; those that remain as with `Ppk` (algorithm 1).
    Sbq,
}

/// Vectors on a GPU.
#[derive(Debug)]
pub struct Searcher {
    device: Device,
    stream: Arc<CudaStream>,
    kernels: Kernels,
    values: CudaSlice<f32>,
    count: u32,
    dimension: u32,
}

impl Searcher {
    /// Copies vectors to a GPU.
    ///
    /// # Errors
    /// If the GPU fails.
    ///
    /// # Panics
    /// If there are no vectors, or 2^32 and more.
    pub fn new(device: &Device, points: &Vectors<f32>) -> Result<Self, GpuError> {
        assert!(!points.is_empty(), "no points");
        let (stream, failed) = (device.stream()?, device.doing("copying points to it").failed());
        let values = stream.clone_htod(points.values()).map_err(failed)?;
        Ok(Self {
            kernels: Kernels::load(device)?,
            device: device.clone(),
            stream,
            values,
            count: u32::try_from(points.len()).expect("fewer than 2^32 points"),
            dimension: u32::try_from(points.dimension()).expect("fewer than 2^32 dimensions"),
        })
    }

    /// The k nearest points of each query, and the time of the kernels in seconds. `None` if the queries have another dimension or are
    /// not finite, a distance is infinite, or the k nearest do not fit into shared memory.
    ///
    /// # Errors
    /// If the GPU fails.
    ///
    /// # Panics
    /// If there are 2^32 queries or more.
    pub fn nearest(
        &self,
        queries: &Vectors<f32>,
        k: u32,
        method: Method,
    ) -> Result<Option<Timed>, GpuError> {
        let (failed, stream) = (self.device.doing("answering queries").failed(), &self.stream);
        let (k, dimension) = (k.min(self.count), self.dimension as usize);
        let shared = launch::knn_bytes(self.dimension, k).max(launch::selection_bytes(k));
        let is_taken = queries.dimension() == dimension
            && k > 0
            && shared <= self.kernels.shared
            && queries.values().iter().all(|value| value.is_finite());
        if !is_taken {
            return Ok(None);
        }
        if queries.is_empty() {
            return Ok(Some((Vec::new(), 0.0)));
        }
        let info = self.device.info();
        let of_threads = info.threads / launch::THREADS as usize;
        let of_shared = info.shared_per_multiprocessor / (shared + info.shared_reserved + 256);
        let blocks = info.multiprocessors * of_threads.min(of_shared).max(1);
        let blocks = u32::try_from(blocks).expect("a few thousands");
        let count = u32::try_from(queries.len()).expect("fewer than 2^32 queries");
        // Whole blocks of queries, and those that remain.
        let (of_block, whole) = match method {
            Method::Ppk => (0, 0),
            Method::Ppb => (1, count),
            Method::Sbq => (count / blocks, count / blocks * blocks),
        };
        let rest = count - whole;
        let doing = self.device.doing("allocating memory for neighbors");
        let there = stream.clone_htod(queries.values()).map_err(&failed)?;
        let of_k = |queries: u32| queries as usize * k as usize;
        let mut unsorted = zeros::<u64>(stream, of_k(whole).max(1), doing)?;
        let mut parts = zeros::<u64>(stream, of_k(rest) * blocks as usize + 1, doing)?;
        let mut neighbors = zeros::<u64>(stream, of_k(count), doing)?;
        let (start, end) = (self.device.timer()?, self.device.timer()?);
        start.record(stream).map_err(&failed)?;
        let points = (&self.values, self.count, self.dimension);
        if whole > 0 {
            let threads =
                if method == Method::Ppb { launch::MOST_THREADS } else { launch::THREADS };
            let grid = (whole / of_block, threads);
            let mut to = unsorted.slice_mut(..);
            let all = there.slice(..);
            launch::knn(&self.kernels, stream, points, &all, grid, (of_block, k), &mut to)
                .map_err(&failed)?;
            let mut to = neighbors.slice_mut(..of_k(whole));
            launch::selection(&self.kernels, stream, &unsorted, (whole, k, k), &mut to)
                .map_err(&failed)?;
        }
        for query in whole..count {
            let own = there.slice(query as usize * dimension..);
            let list = of_k(blocks);
            let first = (query - whole) as usize * list;
            let mut to = parts.slice_mut(first..first + list);
            let grid = (blocks, launch::THREADS);
            launch::knn(&self.kernels, stream, points, &own, grid, (0, k), &mut to)
                .map_err(&failed)?;
        }
        if rest > 0 {
            let mut to = neighbors.slice_mut(of_k(whole)..);
            launch::selection(&self.kernels, stream, &parts, (rest, blocks * k, k), &mut to)
                .map_err(&failed)?;
        }
        end.record(stream).map_err(&failed)?;
        let keys = stream.clone_dtoh(&neighbors).map_err(&failed)?;
        if !are_finite(&keys) {
            return Ok(None);
        }
        let answers =
            keys.chunks(k as usize).map(|keys| Neighbor::from_keys(keys).to_vec()).collect();
        let seconds = f64::from(start.elapsed_ms(&end).map_err(&failed)?) / 1e3;
        Ok(Some((answers, seconds)))
    }
}
