//! One batch on the GPU: which kernels to launch, in which configuration, and how to handle the
//! queries that they could not answer.

use gpu_runtime::GpuError;

use super::bresler::GridMemory;
use super::engine::{Cuda, LANES, Residence};
use super::failure::DeviceFailure;
use super::kernels::{ACCUMULATE_STATIC_BYTES, FUSED_SMALL_STATIC_BYTES, address};
use super::lane::{Lane, UploadedQueries};
use super::launch::{
    self, ACCUMULATE_THREADS, BlockShape, DenseQueries, FUSED_MEDIUM_THREADS, FUSED_SMALL_THREADS,
    FusedBatch, FusedBuffers, Launcher, Outputs, QuerySubset, SELECT_SORTED, Scores,
    SelectedNeighbors,
};
use super::memory::{FUSED_K, candidate_capacity, number};
use super::options::CudaEngine;
use super::part::{self, Part};
use crate::search::lists::Slots;
use crate::search::{Neighbor, Request, SearchError};

/// Batches of at most this many queries per resident block are searched by the single fused kernel.
const MEDIUM_ROUNDS: usize = 4;
/// Threads per block when the fused engine needs all similarities of a query.
const GENERAL_THREADS: u32 = 128;

/// Queries of a lane for which all similarities are computed.
#[derive(Debug, Clone, Copy)]
struct DenseBatch {
    /// The first query, unless the lane's list names the queries.
    first: u32,
    count: u32,
    /// Whether they are the queries of the lane's list.
    listed: bool,
    /// The slot of the first query's results.
    slot: usize,
    /// Terms of the longest query that was sent.
    longest: usize,
    k: usize,
}

impl DenseBatch {
    /// The `count` queries of the lane's list.
    fn listed(count: usize, longest: usize, k: usize) -> Self {
        Self { first: 0, count: number(count), listed: true, slot: 0, longest, k }
    }
}

impl Cuda {
    /// Whether the fused kernels can answer; if not, all similarities are computed.
    pub(super) fn is_fused(&self, part: &Part, k: usize) -> bool {
        self.options.engine == CudaEngine::Fused && k <= FUSED_K && !part.tiles.is_empty()
    }

    /// Threads of the block that searches a query in a single kernel, if that is faster than three
    /// kernels and fits.
    fn one_block(&self, tile: &part::Tile, count: usize, k: usize) -> Option<u32> {
        let info = self.untracked.info();
        let bytes = launch::fused_small_bytes(tile.rows.rows, candidate_capacity(k))
            + FUSED_SMALL_STATIC_BYTES
            + info.shared_reserved;
        if bytes > info.shared_per_block || count > self.options.small_batch.unwrap_or(usize::MAX) {
            return None;
        }
        let medium = (info.shared_per_multiprocessor / bytes).min(2);
        match count {
            _ if count <= info.multiprocessors => Some(FUSED_SMALL_THREADS),
            _ if count <= MEDIUM_ROUNDS * medium * info.multiprocessors => {
                Some(FUSED_MEDIUM_THREADS)
            }
            _ => None,
        }
    }

    /// Whether one launch answers a batch, so that it can write to the host's memory itself.
    fn is_one_launch(&self, part: &Part, count: usize, k: usize) -> bool {
        let [tile] = part.tiles.as_slice() else { return false };
        self.is_fused(part, k) && self.one_block(tile, count, k).is_some()
    }

    /// Enqueues the search of the uploaded queries on the lane's stream, and then the copies of the
    /// neighbors to `output` or to the lane's own memory. Does not wait.
    pub(super) fn enqueue_with_copies(
        &self,
        part: &Part,
        lane: &mut Lane,
        uploaded: &UploadedQueries,
        k: usize,
        output: Option<&mut [u64]>,
    ) -> Result<(), GpuError> {
        let count = uploaded.count;
        if !self.is_one_launch(part, count, k) {
            self.enqueue(part, lane, uploaded, k)?;
            return lane.fetch(count, k, self.is_fused(part, k), output);
        }
        let output = match output {
            Some(output) => output,
            None => lane.host_found.get(count * k)?,
        };
        let counts = lane.host_counts.get(count)?;
        let status = lane.host_status.get(count)?;
        let outputs = Outputs::on_host(output, counts, status);
        self.enqueue_fused(part, lane, count, k, Some(outputs))
    }

    /// Enqueues the search of the uploaded queries on the lane's stream. The neighbors stay on the
    /// GPU.
    pub(super) fn enqueue(
        &self,
        part: &Part,
        lane: &mut Lane,
        uploaded: &UploadedQueries,
        k: usize,
    ) -> Result<(), GpuError> {
        let count = uploaded.count;
        lane.gpu.reserve(&mut lane.found, count * k)?;
        lane.gpu.reserve(&mut lane.counts, count)?;
        if self.is_fused(part, k) {
            return self.enqueue_fused(part, lane, count, k, None);
        }
        let batch = match self.options.engine {
            CudaEngine::Grid { documents, .. } => documents as usize,
            _ => 256,
        };
        let batch = batch.min(self.dense_batch(part)).max(1);
        for first in (0..count).step_by(batch) {
            let batch = DenseBatch {
                first: number(first),
                count: number(batch.min(count - first)),
                listed: false,
                slot: first,
                longest: uploaded.longest,
                k,
            };
            self.enqueue_dense(part, lane, self.options.engine, batch)?;
        }
        Ok(())
    }

    /// The number of queries whose scores take at most a gigabyte and a tenth of the budget.
    fn dense_batch(&self, part: &Part) -> usize {
        let bytes = (self.loaded().budget / 10).clamp(1 << 20, 1 << 30);
        (bytes / (part.rows.count as usize * 4).max(1)).clamp(1, 4_096)
    }

    /// Enqueues the fused kernels for `count` queries. A batch of one launch writes to `outputs`,
    /// or to the lane's buffers if that is `None`.
    fn enqueue_fused(
        &self,
        part: &Part,
        lane: &mut Lane,
        count: usize,
        k: usize,
        outputs: Option<Outputs>,
    ) -> Result<(), GpuError> {
        let info = self.untracked.info();
        let queries = lane.queries();
        let allow = lane.allow();
        for (number_of_tile, tile) in part.tiles.iter().enumerate() {
            let shared = launch::accumulate_bytes(tile.rows.rows)
                + ACCUMULATE_STATIC_BYTES
                + info.shared_reserved;
            let by_threads = info.threads / ACCUMULATE_THREADS as usize;
            let blocks = (info.shared_per_multiprocessor / shared).min(by_threads).max(1);
            let batch = FusedBatch {
                tile: tile.rows,
                queries,
                allow,
                count: number(count),
                k: number(k),
                capacity: candidate_capacity(k),
                fresh: number_of_tile == 0,
                last: number_of_tile + 1 == part.tiles.len(),
                blocks: number(blocks * info.multiprocessors),
            };
            // Three times the mean, if the maximum is not lower.
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
            let tasks = (lane.entries as f64 * tile.tasks.mean * 3.0) as usize + 65_536;
            let tasks = tasks.min(lane.entries * tile.tasks.max);
            let Lane { gpu, found, counts, status, .. } = lane;
            let launcher = Launcher { kernels: &self.kernels, gpu };
            let keys = count * k;
            match (self.one_block(tile, count, k), outputs) {
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

    /// Enqueues the scores of some queries and the selection of the best on the lane's stream.
    fn enqueue_dense(
        &self,
        part: &Part,
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
            values: gpu.reserve(scores, count * part.rows.count as usize)?,
            rows: part.rows.count,
            first_row: part.first_row,
        };
        let queries = QuerySubset {
            rows: query_rows,
            first: batch.first,
            count: batch.count,
            list: batch.listed.then(|| list.reserved()),
        };
        let terms = self.shared_terms(batch.longest);
        match engine {
            CudaEngine::Base { threads } => {
                let terms = self.training.cols();
                // Dense queries take at most a twentieth of the budget.
                let bytes = (self.loaded().budget / 20 / LANES).min(1 << 28);
                let some = (bytes / (terms * 4).max(1)).clamp(1, count);
                let is_fresh = dense.capacity() < some * terms;
                let mut dense = DenseQueries { values: gpu.reserve(dense, some * terms)?, terms };
                if is_fresh {
                    launcher.clear(dense.values)?;
                }
                for first in (0..count).step_by(some) {
                    let some = some.min(count - first);
                    let first_query = batch.first + number(first);
                    launcher.base_scatter(
                        query_rows,
                        first_query,
                        number(some),
                        &mut dense,
                        false,
                    )?;
                    for query in 0..some {
                        let own = scores.of(first + query);
                        launcher.base(&part.rows, &dense, query, own, threads)?;
                    }
                    launcher.base_scatter(
                        query_rows,
                        first_query,
                        number(some),
                        &mut dense,
                        true,
                    )?;
                }
            }
            CudaEngine::Shared { threads } => {
                for slot in 0..count {
                    let query = batch.first + number(slot);
                    let shape = BlockShape { threads, terms };
                    launcher.shared(&part.rows, query_rows, query, scores.of(slot), shape)?;
                }
            }
            CudaEngine::Grid { threads, memory: GridMemory::Texture, .. }
                if !part.textures.is_empty() =>
            {
                for texture in &part.textures {
                    let shape = BlockShape { threads, terms };
                    launcher.grid_texture(&part.rows, texture, queries, &mut scores, shape)?;
                }
            }
            CudaEngine::Grid { threads, .. } => {
                let shape = BlockShape { threads, terms };
                launcher.grid_ldg(&part.rows, queries, &mut scores, shape)?;
            }
            CudaEngine::Fused => {
                let shape = BlockShape { threads: GENERAL_THREADS, terms };
                launcher.grid_ldg(&part.rows, queries, &mut scores, shape)?;
            }
        }
        let slots = batch.slot + count;
        let mut found = SelectedNeighbors {
            keys: gpu.reserve(found, slots * batch.k)?,
            at: batch.slot,
            counts: gpu.reserve(counts, slots)?,
        };
        launcher.select(&mut scores, queries, allow, number(batch.k), &mut found)
    }

    /// Terms of a query that are in shared memory at a time: no more than the longest query has, so
    /// that more blocks fit.
    fn shared_terms(&self, longest: usize) -> u32 {
        let limit = self.options.query_terms.unwrap_or(4_096);
        let limit = limit.min(number(self.untracked.info().shared_per_block / 8)).max(1);
        number(longest.next_multiple_of(32).max(32)).min(limit)
    }

    /// Waits for a batch, answers the queries that the fused kernel could not, and stores the
    /// neighbors.
    pub(super) fn finish(
        &self,
        part: &Part,
        lane: &mut Lane,
        uploaded: &UploadedQueries,
        k: usize,
        found: &mut Slots<'_>,
    ) -> Result<(), GpuError> {
        lane.wait()?;
        let fused = self.is_fused(part, k);
        let count = uploaded.count;
        let open = if fused { uploaded.open(lane.host_status.get(count)?) } else { Vec::new() };
        let sorted = fused || k <= SELECT_SORTED as usize;
        let counts = lane.host_counts.get(count)?;
        if found.pinned(k).is_some() && sorted {
            found.set_counts(counts);
        } else if found.pinned(k).is_some() {
            self.threads.run(|| found.set_counts_and_sort(counts));
        } else {
            let all = bytemuck::cast_slice(lane.host_found.get(count * k)?);
            self.threads.run(|| found.fill(all, k, counts, sorted));
        }
        let batch = self.dense_batch(part);
        for some in open.chunks(batch) {
            lane.send_list(some)?;
            let batch = DenseBatch::listed(some.len(), uploaded.longest, k);
            self.enqueue_dense(part, lane, CudaEngine::Fused, batch)?;
            lane.fetch(some.len(), k, false, None)?;
            lane.wait()?;
            let all: &[Neighbor] = bytemuck::cast_slice(lane.host_found.get(some.len() * k)?);
            let counts = lane.host_counts.get(some.len())?;
            for ((&query, own), &count) in some.iter().zip(all.chunks(k)).zip(&*counts) {
                found.set_unsorted(query as usize, &own[..count as usize]);
                found.mark_fell_back(query as usize);
            }
        }
        Ok(())
    }

    /// GPU time in seconds for queries that are already on the GPU, measured by CUDA events: one
    /// value per run. Includes the queries that the fast path could not answer; copies are not
    /// included.
    ///
    /// # Errors
    /// If the GPU fails, or all rows or queries do not fit its memory at once.
    pub fn device_seconds(
        &self,
        request: &Request<'_>,
        runs: usize,
    ) -> Result<Vec<f64>, SearchError> {
        Ok(self.timed(request, runs)?)
    }

    fn timed(&self, request: &Request<'_>, runs: usize) -> Result<Vec<f64>, DeviceFailure> {
        let mut sparse = None;
        let queries = request.queries(self.count, self.training.cols(), &mut sparse)?;
        let loaded = self.loaded();
        if let Residence::Gone(error) = &loaded.rows {
            return Err(error.clone().into());
        }
        let Residence::Resident(part) = &loaded.rows else {
            let bytes =
                part::bytes(&self.training(), &(0..self.training.rows()), self.structures());
            self.untracked.reserve("all training rows at once", bytes)?;
            return Ok(Vec::new());
        };
        let count = queries.rows.rows();
        let k = queries.k.min(part.rows.count as usize).max(1);
        let mut lane = self.lanes.take(|| Lane::new(&self.untracked))?;
        let uploaded = lane.send(&queries, 0..count, &self.threads)?;
        let start = self.untracked.timer()?;
        let end = self.untracked.timer()?;
        let failed = self.untracked.step("measuring").failed();
        let mut seconds = Vec::new();
        for _ in 0..runs {
            lane.wait()?;
            start.record(lane.gpu.stream()).map_err(&failed)?;
            self.enqueue(part, &mut lane, &uploaded, k)?;
            end.record(lane.gpu.stream()).map_err(&failed)?;
            lane.wait()?;
            let mut taken = start.elapsed_ms(&end).map_err(&failed)?;
            if self.is_fused(part, k) {
                // The copy of the list of open queries is not measured.
                let status = lane.gpu.stream().clone_dtoh(&lane.status.reserved().slice(..count));
                let open = uploaded.open(&status.map_err(&failed)?);
                start.record(lane.gpu.stream()).map_err(&failed)?;
                self.enqueue_open(part, &mut lane, &open, uploaded.longest, k)?;
                end.record(lane.gpu.stream()).map_err(&failed)?;
                lane.wait()?;
                if !open.is_empty() {
                    taken += start.elapsed_ms(&end).map_err(&failed)?;
                }
            }
            seconds.push(f64::from(taken) / 1_000.0);
        }
        self.lanes.put(lane);
        Ok(seconds)
    }

    /// Answers open queries, for measurements: the results stay on the GPU.
    fn enqueue_open(
        &self,
        part: &Part,
        lane: &mut Lane,
        open: &[u32],
        longest: usize,
        k: usize,
    ) -> Result<(), GpuError> {
        for some in open.chunks(self.dense_batch(part)) {
            lane.send_list(some)?;
            let batch = DenseBatch::listed(some.len(), longest, k);
            self.enqueue_dense(part, lane, CudaEngine::Fused, batch)?;
        }
        Ok(())
    }
}

impl UploadedQueries {
    /// The queries that the fused kernels have not answered.
    fn open(&self, status: &[u32]) -> Vec<u32> {
        let refused = (0..self.count).filter(|&query| status[query] != 0);
        let mut open: Vec<u32> = refused.chain(self.negative.iter().copied()).map(number).collect();
        open.sort_unstable();
        open.dedup();
        open
    }
}
