//! The brute-force GPU searches of Cordeiro 2023, as published: PPK, PPB and SBQ-KNN.
//!
//! A warp computes a distance (algorithm 2), and a block keeps its k nearest points in shared
//! memory. A second kernel merges the lists of several blocks (algorithm 3). The command
//! `metric-index bench cordeiro` prints the paper's tables. Programs that only need neighbors
//! should use [`GpuSearch`], which is faster.
//!
//! The searches support Euclidean distances between vectors. The points must fit into the memory of
//! one GPU.
//!
//! [`GpuSearch`]: metric_index::gpu::GpuSearch

use std::sync::Arc;

use gpu_runtime::{CudaSlice, CudaStream, Device, GpuError};

pub use crate::gpu::TimedAnswers;
use crate::gpu::{are_finite, lists_of, zeros};
use metric_index::points::{Points, Vectors};

mod launch;

use launch::{DeviceVectors, Kernels, KeyLists, KnnLaunch};

/// The distribution of queries over blocks of threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// One launch per query, in which each block searches part of the points.
    Ppk,
    /// One block per query.
    Ppb,
    /// Each block answers the same number of queries; the remaining queries are answered as with
    /// `Ppk` (algorithm 1).
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
    /// Fails if the GPU fails.
    ///
    /// # Panics
    /// Panics if there are no vectors, or 2^32 or more.
    pub fn new(device: &Device, points: &Vectors<f32>) -> Result<Self, GpuError> {
        assert!(!points.is_empty(), "there are no points");
        let stream = device.stream()?;
        let failed = device.step("copying points to it").failed();
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

    /// Returns the k nearest points of each query.
    ///
    /// Returns `None` if the queries have a different dimension or are not finite, or if a distance
    /// is infinite. Also returns `None` if k is 0 or k neighbors do not fit into shared memory.
    ///
    /// # Errors
    /// Fails if the GPU fails.
    ///
    /// # Panics
    /// Panics if there are 2^32 queries or more.
    pub fn nearest(
        &self,
        queries: &Vectors<f32>,
        k: u32,
        method: Method,
    ) -> Result<Option<TimedAnswers>, GpuError> {
        let failed = self.device.step("answering queries").failed();
        let stream = &self.stream;
        let k = k.min(self.count);
        let dimension = self.dimension as usize;
        let shared = launch::knn_bytes(self.dimension, k).max(launch::selection_bytes(k));
        let is_supported = queries.dimension() == dimension
            && k > 0
            && shared <= self.kernels.shared
            && queries.values().iter().all(|value| value.is_finite());
        if !is_supported {
            return Ok(None);
        }
        if queries.is_empty() {
            return Ok(Some(TimedAnswers::default()));
        }
        let info = self.device.info();
        let by_threads = info.threads / launch::THREADS as usize;
        let by_shared = info.shared_per_multiprocessor / (shared + info.shared_reserved + 256);
        let blocks = info.multiprocessors * by_threads.min(by_shared).max(1);
        let blocks = u32::try_from(blocks).expect("fewer than 2^32 blocks");
        let count = u32::try_from(queries.len()).expect("fewer than 2^32 queries");
        let queries_per_block = match method {
            Method::Ppk => 0,
            Method::Ppb => 1,
            Method::Sbq => count / blocks,
        };
        // The number of queries that a single block answers. Each of the other queries is answered
        // by all blocks.
        let single_block = match method {
            Method::Ppk => 0,
            Method::Ppb => count,
            Method::Sbq => queries_per_block * blocks,
        };
        let all_blocks = count - single_block;
        let doing = self.device.step("allocating memory for neighbors");
        let device_queries = stream.clone_htod(queries.values()).map_err(&failed)?;
        let list_length = |queries: u32| queries as usize * k as usize;
        let mut unsorted = zeros::<u64>(stream, list_length(single_block).max(1), doing)?;
        let mut parts = zeros::<u64>(stream, list_length(all_blocks) * blocks as usize + 1, doing)?;
        let mut neighbors = zeros::<u64>(stream, list_length(count), doing)?;
        let start = self.device.timer()?;
        let end = self.device.timer()?;
        start.record(stream).map_err(&failed)?;
        let points =
            DeviceVectors { values: &self.values, count: self.count, dimension: self.dimension };
        if single_block > 0 {
            let threads = if method == Method::Ppb { launch::MAX_THREADS } else { launch::THREADS };
            let config = KnnLaunch {
                blocks: single_block / queries_per_block,
                threads,
                queries_per_block,
                k,
            };
            let mut to = unsorted.slice_mut(..);
            self.kernels
                .knn(stream, points, &device_queries.slice(..), config, &mut to)
                .map_err(&failed)?;
            let mut to = neighbors.slice_mut(..list_length(single_block));
            let lists = KeyLists { keys: &unsorted, count: single_block, length: k };
            self.kernels.selection(stream, lists, k, &mut to).map_err(&failed)?;
        }
        for query in single_block..count {
            let query_values = device_queries.slice(query as usize * dimension..);
            let list = list_length(blocks);
            let first = (query - single_block) as usize * list;
            let mut to = parts.slice_mut(first..first + list);
            let config = KnnLaunch { blocks, threads: launch::THREADS, queries_per_block: 0, k };
            self.kernels.knn(stream, points, &query_values, config, &mut to).map_err(&failed)?;
        }
        if all_blocks > 0 {
            let mut to = neighbors.slice_mut(list_length(single_block)..);
            let lists = KeyLists { keys: &parts, count: all_blocks, length: blocks * k };
            self.kernels.selection(stream, lists, k, &mut to).map_err(&failed)?;
        }
        end.record(stream).map_err(&failed)?;
        let keys = stream.clone_dtoh(&neighbors).map_err(&failed)?;
        if !are_finite(&keys) {
            return Ok(None);
        }
        let answers = lists_of(&keys, k);
        let seconds = f64::from(start.elapsed_ms(&end).map_err(&failed)?) / 1e3;
        Ok(Some(TimedAnswers { answers, seconds }))
    }
}
