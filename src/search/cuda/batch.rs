//! The search of one batch on the GPU: which kernels to launch, in which configuration, and how to
//! handle the queries that they cannot answer.

use gpu_runtime::GpuError;

use super::bresler::GridMemory;
use super::engine::{Cuda, LANES, RowPlacement};
use super::failure::DeviceFailure;
use super::kernels::{ACCUMULATE_STATIC_BYTES, FUSED_SMALL_STATIC_BYTES, address};
use super::lane::{Lane, UploadedQueries};
use super::launch::{
    self, ACCUMULATE_THREADS, BlockShape, DenseQueries, FUSED_MEDIUM_THREADS, FUSED_SMALL_THREADS,
    FusedBatch, FusedBuffers, Launcher, Outputs, QuerySubset, SELECT_SORTED, Scores,
    SelectedNeighbors,
};
use super::memory::{MAX_FUSED_K, batch_number, candidate_capacity};
use super::options::CudaEngine;
use super::segment::{self, GpuSegment};
use crate::search::lists::Slots;
use crate::search::{Neighbor, Request, SearchError};

/// Maximum number of queries per resident block for which the single fused kernel searches a batch.
const MAX_QUERIES_PER_BLOCK: usize = 4;
/// Threads per block when the fused engine computes all similarities of a query.
const DENSE_THREADS: u32 = 128;

/// A batch of a lane's queries for which all similarities are computed.
#[derive(Debug, Clone, Copy)]
struct DenseBatch {
    /// The first query, unless the lane's list names the queries.
    first: u32,
    count: u32,
    /// Whether the batch consists of the queries in the lane's list.
    is_listed: bool,
    /// The slot of the first query's results.
    slot: usize,
    /// Number of terms of the longest uploaded query.
    longest: usize,
    k: usize,
}

impl DenseBatch {
    /// Creates a batch of the `count` queries in the lane's list.
    fn listed(count: usize, longest: usize, k: usize) -> Self {
        Self { first: 0, count: batch_number(count), is_listed: true, slot: 0, longest, k }
    }
}

impl Cuda {
    /// Whether the fused kernels can answer queries. If not, all similarities are computed.
    pub(super) fn is_fused(&self, segment: &GpuSegment, k: usize) -> bool {
        self.options.engine == CudaEngine::Fused && k <= MAX_FUSED_K && !segment.tiles.is_empty()
    }

    /// Returns the number of threads per block if each query is searched by one block of a single
    /// kernel. Returns `None` if three kernels are faster or the block does not fit.
    fn single_block_threads(&self, tile: &segment::Tile, count: usize, k: usize) -> Option<u32> {
        let info = self.untracked.info();
        let bytes = launch::fused_small_bytes(tile.rows.rows, candidate_capacity(k))
            + FUSED_SMALL_STATIC_BYTES
            + info.shared_reserved;
        if bytes > info.shared_per_block || count > self.options.small_batch.unwrap_or(usize::MAX) {
            return None;
        }
        let blocks_per_multiprocessor = (info.shared_per_multiprocessor / bytes).min(2);
        let resident_blocks = blocks_per_multiprocessor * info.multiprocessors;
        match count {
            _ if count <= info.multiprocessors => Some(FUSED_SMALL_THREADS),
            _ if count <= MAX_QUERIES_PER_BLOCK * resident_blocks => Some(FUSED_MEDIUM_THREADS),
            _ => None,
        }
    }

    /// Whether one launch answers the batch, so that it can write directly to host memory.
    fn is_one_launch(&self, segment: &GpuSegment, count: usize, k: usize) -> bool {
        let [tile] = segment.tiles.as_slice() else { return false };
        self.is_fused(segment, k) && self.single_block_threads(tile, count, k).is_some()
    }

    /// Enqueues the search of the uploaded queries on the lane's stream, then the copies of the
    /// neighbors to `output` or to the lane's own memory. Does not wait.
    pub(super) fn enqueue_with_copies(
        &self,
        segment: &GpuSegment,
        lane: &mut Lane,
        uploaded: &UploadedQueries,
        k: usize,
        output: Option<&mut [u64]>,
    ) -> Result<(), GpuError> {
        let count = uploaded.count;
        if !self.is_one_launch(segment, count, k) {
            self.enqueue(segment, lane, uploaded, k)?;
            return lane.fetch(count, k, self.is_fused(segment, k), output);
        }
        let output = match output {
            Some(output) => output,
            None => lane.host_found.get(count * k)?,
        };
        let counts = lane.host_counts.get(count)?;
        let status = lane.host_status.get(count)?;
        let outputs = Outputs::on_host(output, counts, status);
        self.enqueue_fused(segment, lane, count, k, Some(outputs))
    }

    /// Enqueues the search of the uploaded queries on the lane's stream. The neighbors stay on the
    /// GPU.
    pub(super) fn enqueue(
        &self,
        segment: &GpuSegment,
        lane: &mut Lane,
        uploaded: &UploadedQueries,
        k: usize,
    ) -> Result<(), GpuError> {
        let count = uploaded.count;
        lane.gpu.reserve(&mut lane.found, count * k)?;
        lane.gpu.reserve(&mut lane.counts, count)?;
        if self.is_fused(segment, k) {
            return self.enqueue_fused(segment, lane, count, k, None);
        }
        let batch = match self.options.engine {
            CudaEngine::Grid { documents, .. } => documents as usize,
            _ => 256,
        };
        let batch = batch.min(self.dense_batch(segment)).max(1);
        for first in (0..count).step_by(batch) {
            let batch = DenseBatch {
                first: batch_number(first),
                count: batch_number(batch.min(count - first)),
                is_listed: false,
                slot: first,
                longest: uploaded.longest,
                k,
            };
            self.enqueue_dense(segment, lane, self.options.engine, batch)?;
        }
        Ok(())
    }

    /// Returns the number of queries whose scores take at most 1 GiB and at most a tenth of the
    /// memory budget.
    fn dense_batch(&self, segment: &GpuSegment) -> usize {
        let bytes = (self.loaded().budget / 10).clamp(1 << 20, 1 << 30);
        (bytes / (segment.rows.count as usize * 4).max(1)).clamp(1, 4_096)
    }

    /// Enqueues the fused kernels for `count` queries. A batch that needs one launch writes to
    /// `outputs`, or to the lane's buffers if `outputs` is `None`.
    fn enqueue_fused(
        &self,
        segment: &GpuSegment,
        lane: &mut Lane,
        count: usize,
        k: usize,
        outputs: Option<Outputs>,
    ) -> Result<(), GpuError> {
        let info = self.untracked.info();
        let queries = lane.queries();
        let allow = lane.allow();
        for (tile_number, tile) in segment.tiles.iter().enumerate() {
            let shared = launch::accumulate_bytes(tile.rows.rows)
                + ACCUMULATE_STATIC_BYTES
                + info.shared_reserved;
            let max_blocks = info.threads / ACCUMULATE_THREADS as usize;
            let blocks = (info.shared_per_multiprocessor / shared).min(max_blocks).max(1);
            let batch = FusedBatch {
                tile: tile.rows,
                queries,
                allow,
                count: batch_number(count),
                k: batch_number(k),
                capacity: candidate_capacity(k),
                is_first: tile_number == 0,
                is_last: tile_number + 1 == segment.tiles.len(),
                blocks: batch_number(blocks * info.multiprocessors),
            };
            // Three times the mean number of tasks plus a constant, but at most the maximum.
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
            let tasks = (lane.entries as f64 * tile.tasks.mean * 3.0) as usize + 65_536;
            let tasks = tasks.min(lane.entries * tile.tasks.max);
            let Lane { gpu, found, counts, status, .. } = lane;
            let launcher = Launcher { kernels: &self.kernels, gpu };
            let keys = count * k;
            match (self.single_block_threads(tile, count, k), outputs) {
                (Some(threads), Some(outputs)) => launcher.fused_small(batch, threads, outputs),
                (Some(threads), None) => {
                    let outputs = Outputs {
                        keys: address(gpu.stream(), gpu.reserve(found, keys)?),
                        counts: address(gpu.stream(), gpu.reserve(counts, count)?),
                        status: address(gpu.stream(), gpu.reserve(status, count)?),
                    };
                    launcher.fused_small(batch, threads, outputs)
                }
                (None, _) => {
                    let candidates = count * (batch.capacity as usize - k);
                    let mut buffers = FusedBuffers {
                        records: gpu.reserve(&mut lane.records, count)?,
                        tasks: gpu.reserve(&mut lane.tasks, tasks)?,
                        next_task: gpu.reserve(&mut lane.next_task, 1)?,
                        candidates: gpu.reserve(&mut lane.candidates, candidates)?,
                        candidate_counts: gpu.reserve(&mut lane.candidate_counts, count)?,
                        keys: gpu.reserve(found, keys)?,
                        counts: gpu.reserve(counts, count)?,
                        status: gpu.reserve(status, count)?,
                    };
                    launcher.fused(batch, &mut buffers)
                }
            }?;
        }
        Ok(())
    }

    /// Enqueues the scoring of a batch and the selection of its best rows on the lane's stream.
    fn enqueue_dense(
        &self,
        segment: &GpuSegment,
        lane: &mut Lane,
        engine: CudaEngine,
        batch: DenseBatch,
    ) -> Result<(), GpuError> {
        let query_rows = lane.queries();
        let allow = lane.allow();
        let Lane { gpu, scores, dense, found, counts, list, .. } = lane;
        let launcher = Launcher { kernels: &self.kernels, gpu };
        let count = batch.count as usize;
        let mut scores = Scores {
            values: gpu.reserve(scores, count * segment.rows.count as usize)?,
            rows: segment.rows.count,
            first_row: segment.first_row,
        };
        let queries = QuerySubset {
            rows: query_rows,
            first: batch.first,
            count: batch.count,
            list: batch.is_listed.then(|| list.reserved()),
        };
        let terms = self.shared_terms(batch.longest);
        match engine {
            CudaEngine::Base { threads } => {
                let terms = self.training.cols();
                // Dense queries of all lanes take at most a twentieth of the budget.
                let bytes = (self.loaded().budget / 20 / LANES).min(1 << 28);
                let chunk = (bytes / (terms * 4).max(1)).clamp(1, count);
                let is_fresh = dense.capacity() < chunk * terms;
                let mut dense = DenseQueries { values: gpu.reserve(dense, chunk * terms)?, terms };
                if is_fresh {
                    launcher.clear(dense.values)?;
                }
                for first in (0..count).step_by(chunk) {
                    let chunk = chunk.min(count - first);
                    let first_query = batch.first + batch_number(first);
                    launcher.base_scatter(
                        query_rows,
                        first_query,
                        batch_number(chunk),
                        &mut dense,
                        false,
                    )?;
                    for query in 0..chunk {
                        let query_scores = scores.slot(first + query);
                        launcher.base(&segment.rows, &dense, query, query_scores, threads)?;
                    }
                    launcher.base_scatter(
                        query_rows,
                        first_query,
                        batch_number(chunk),
                        &mut dense,
                        true,
                    )?;
                }
            }
            CudaEngine::Shared { threads } => {
                for slot in 0..count {
                    let query = batch.first + batch_number(slot);
                    let shape = BlockShape { threads, terms };
                    launcher.shared(&segment.rows, query_rows, query, scores.slot(slot), shape)?;
                }
            }
            CudaEngine::Grid { threads, memory: GridMemory::Texture, .. }
                if !segment.textures.is_empty() =>
            {
                for texture in &segment.textures {
                    let shape = BlockShape { threads, terms };
                    launcher.grid_texture(&segment.rows, texture, queries, &mut scores, shape)?;
                }
            }
            CudaEngine::Grid { threads, .. } => {
                let shape = BlockShape { threads, terms };
                launcher.grid_ldg(&segment.rows, queries, &mut scores, shape)?;
            }
            CudaEngine::Fused => {
                let shape = BlockShape { threads: DENSE_THREADS, terms };
                launcher.grid_ldg(&segment.rows, queries, &mut scores, shape)?;
            }
        }
        let slots = batch.slot + count;
        let mut found = SelectedNeighbors {
            keys: gpu.reserve(found, slots * batch.k)?,
            first_slot: batch.slot,
            counts: gpu.reserve(counts, slots)?,
        };
        launcher.select(&mut scores, queries, allow, batch_number(batch.k), &mut found)
    }

    /// Returns the number of a query's terms in shared memory at a time. It is at most the padded
    /// length of the longest query, so that more blocks fit.
    fn shared_terms(&self, longest: usize) -> u32 {
        let limit = self.options.query_terms.unwrap_or(4_096);
        let limit = limit.min(batch_number(self.untracked.info().shared_per_block / 8)).max(1);
        batch_number(longest.next_multiple_of(32).max(32)).min(limit)
    }

    /// Waits for a batch, answers the queries that the fused kernels could not answer, and stores
    /// the neighbors.
    pub(super) fn finish(
        &self,
        segment: &GpuSegment,
        lane: &mut Lane,
        uploaded: &UploadedQueries,
        k: usize,
        found: &mut Slots<'_>,
    ) -> Result<(), GpuError> {
        lane.wait()?;
        let is_fused = self.is_fused(segment, k);
        let count = uploaded.count;
        let unanswered =
            if is_fused { uploaded.unanswered(lane.host_status.get(count)?) } else { Vec::new() };
        let is_sorted = is_fused || k <= SELECT_SORTED as usize;
        let counts = lane.host_counts.get(count)?;
        if found.pinned(k).is_some() && is_sorted {
            found.set_counts(counts);
        } else if found.pinned(k).is_some() {
            self.threads.run(|| found.set_counts_and_sort(counts));
        } else {
            let all = bytemuck::cast_slice(lane.host_found.get(count * k)?);
            self.threads.run(|| found.fill(all, k, counts, is_sorted));
        }
        let batch = self.dense_batch(segment);
        for chunk in unanswered.chunks(batch) {
            lane.send_list(chunk)?;
            let batch = DenseBatch::listed(chunk.len(), uploaded.longest, k);
            self.enqueue_dense(segment, lane, CudaEngine::Fused, batch)?;
            lane.fetch(chunk.len(), k, false, None)?;
            lane.wait()?;
            let all: &[Neighbor] = bytemuck::cast_slice(lane.host_found.get(chunk.len() * k)?);
            let counts = lane.host_counts.get(chunk.len())?;
            for ((&query, neighbors), &count) in chunk.iter().zip(all.chunks(k)).zip(&*counts) {
                found.set_unsorted(query as usize, &neighbors[..count as usize]);
                found.mark_fell_back(query as usize);
            }
        }
        Ok(())
    }

    /// Measures the GPU time of each run in seconds, with CUDA events. The time includes queries
    /// that the fast path cannot answer, but no copies.
    ///
    /// # Errors
    /// If the GPU fails, or if all rows and queries do not fit in its memory at once.
    pub fn device_seconds(
        &self,
        request: &Request<'_>,
        runs: usize,
    ) -> Result<Vec<f64>, SearchError> {
        Ok(self.measure(request, runs)?)
    }

    fn measure(&self, request: &Request<'_>, runs: usize) -> Result<Vec<f64>, DeviceFailure> {
        let mut sparse = None;
        let queries = request.queries(self.count, self.training.cols(), &mut sparse)?;
        let loaded = self.loaded();
        if let RowPlacement::Failed(error) = &loaded.rows {
            return Err(error.clone().into());
        }
        let RowPlacement::Resident(segment) = &loaded.rows else {
            let bytes =
                segment::byte_size(&self.training(), &(0..self.training.rows()), self.structures());
            self.untracked.reserve("all training rows at once", bytes)?;
            return Ok(Vec::new());
        };
        let count = queries.rows.rows();
        let k = queries.k.min(segment.rows.count as usize).max(1);
        let mut lane = self.lanes.take(|| Lane::new(&self.untracked))?;
        let uploaded = lane.send(&queries, 0..count, &self.threads)?;
        let start = self.untracked.timer()?;
        let end = self.untracked.timer()?;
        let failed = self.untracked.step("measuring").failed();
        let mut seconds = Vec::new();
        for _ in 0..runs {
            lane.wait()?;
            start.record(lane.gpu.stream()).map_err(&failed)?;
            self.enqueue(segment, &mut lane, &uploaded, k)?;
            end.record(lane.gpu.stream()).map_err(&failed)?;
            lane.wait()?;
            let mut milliseconds = start.elapsed_ms(&end).map_err(&failed)?;
            if self.is_fused(segment, k) {
                // The time for copying the list of unanswered queries is not measured.
                let status = lane.gpu.stream().clone_dtoh(&lane.status.reserved().slice(..count));
                let unanswered = uploaded.unanswered(&status.map_err(&failed)?);
                start.record(lane.gpu.stream()).map_err(&failed)?;
                self.enqueue_unanswered(segment, &mut lane, &unanswered, uploaded.longest, k)?;
                end.record(lane.gpu.stream()).map_err(&failed)?;
                lane.wait()?;
                if !unanswered.is_empty() {
                    milliseconds += start.elapsed_ms(&end).map_err(&failed)?;
                }
            }
            seconds.push(f64::from(milliseconds) / 1_000.0);
        }
        self.lanes.put(lane);
        Ok(seconds)
    }

    /// Answers queries that the fused kernels did not answer. This is for measurements, so the
    /// results stay on the GPU.
    fn enqueue_unanswered(
        &self,
        segment: &GpuSegment,
        lane: &mut Lane,
        unanswered: &[u32],
        longest: usize,
        k: usize,
    ) -> Result<(), GpuError> {
        for chunk in unanswered.chunks(self.dense_batch(segment)) {
            lane.send_list(chunk)?;
            let batch = DenseBatch::listed(chunk.len(), longest, k);
            self.enqueue_dense(segment, lane, CudaEngine::Fused, batch)?;
        }
        Ok(())
    }
}

impl UploadedQueries {
    /// Returns the queries that the fused kernels did not answer, in increasing order.
    fn unanswered(&self, status: &[u32]) -> Vec<u32> {
        let failed = (0..self.count).filter(|&query| status[query] != 0);
        let mut unanswered: Vec<u32> =
            failed.chain(self.negative.iter().copied()).map(batch_number).collect();
        unanswered.sort_unstable();
        unanswered.dedup();
        unanswered
    }
}
