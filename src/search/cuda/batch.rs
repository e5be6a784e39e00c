//! One batch on the GPU: which kernels to launch, in which configuration, and how to handle the
//! queries that they could not answer.

use gpu_runtime::GpuError;

use super::lane::{Lane, Sent};
use super::launch::{
    self, ACCUMULATE_STATIC_BYTES, ACCUMULATE_THREADS, Between, FUSED_MEDIUM_THREADS,
    FUSED_SMALL_STATIC_BYTES, FUSED_SMALL_THREADS, Found, FusedShape, Outputs, SELECT_SORTED,
    Which,
};
use super::part::{self, Part};
use super::{
    Cuda, CudaEngine, FUSED_K, FUSED_ROOM, Failed, GridMemory, LANES, Neighbor, Request, Residence,
    SearchError, Slots,
};

/// Batches of at most this many queries per resident block are searched by the single fused kernel.
const MEDIUM_ROUNDS: usize = 4;
/// Threads per block when the fused engine needs all similarities of a query.
const GENERAL_THREADS: u32 = 128;

/// Queries of the lane: `count` from `first` on, or those in its list.
#[derive(Debug, Clone, Copy)]
struct Batch {
    first: u32,
    count: u32,
    listed: bool,
}

impl Cuda {
    /// Whether the fused kernels can answer; if not, all similarities are computed.
    pub(super) fn is_fused(&self, part: &Part, k: usize) -> bool {
        self.options.engine == CudaEngine::Fused && k <= FUSED_K && !part.tiles.is_empty()
    }

    /// Threads of the block that searches a query in a single kernel, if that is faster than three
    /// kernels and fits.
    fn one_block(&self, tile: &part::Tile, count: usize, k: usize) -> Option<u32> {
        let info = self.device.info();
        let bytes = launch::fused_small_bytes(tile.rows.rows(), room(k))
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

    /// Enqueues the search of the sent queries on the lane's stream and the copies of what is found, to
    /// `places` or to the lane's own memory. Does not wait.
    pub(super) fn enqueue_with_copies(
        &self,
        part: &Part,
        lane: &mut Lane,
        sent: &Sent,
        k: usize,
        places: Option<&mut [u64]>,
    ) -> Result<(), GpuError> {
        let count = sent.count;
        if !self.is_one_launch(part, count, k) {
            self.enqueue(part, lane, sent, k)?;
            return lane.fetch(count, k, self.is_fused(part, k), places);
        }
        let places = match places {
            Some(places) => places,
            None => lane.host_found.get(count * k)?,
        };
        let (counts, status) = (lane.host_counts.get(count)?, lane.host_status.get(count)?);
        let outputs = Outputs::on_host(places, counts, status);
        self.enqueue_fused(part, lane, count, k, Some(outputs))
    }

    /// Enqueues the search of the sent queries on the lane's stream; what is found stays on the GPU.
    pub(super) fn enqueue(
        &self,
        part: &Part,
        lane: &mut Lane,
        sent: &Sent,
        k: usize,
    ) -> Result<(), GpuError> {
        let count = sent.count;
        let (device, stream) = (self.device.clone(), lane.stream.clone());
        lane.found.get(&device, &stream, count * k)?;
        lane.counts.get(&device, &stream, count)?;
        if self.is_fused(part, k) {
            return self.enqueue_fused(part, lane, count, k, None);
        }
        let batch = match self.options.engine {
            CudaEngine::Grid { documents, .. } => documents as usize,
            _ => 256,
        };
        let batch = batch.min(self.dense_batch(part)).max(1);
        for first in (0..count).step_by(batch) {
            let count = number(batch.min(count - first));
            let which = Batch { first: number(first), count, listed: false };
            self.enqueue_dense(part, lane, self.options.engine, which, sent.longest, (first, k))?;
        }
        Ok(())
    }

    /// The number of queries whose scores take at most a gigabyte and a tenth of the budget.
    fn dense_batch(&self, part: &Part) -> usize {
        let bytes = (self.loaded().budget / 10).clamp(1 << 20, 1 << 30);
        (bytes / (part.rows.count as usize * 4).max(1)).clamp(1, 4_096)
    }

    /// `outputs`: where a batch of one launch writes, if not to the lane's buffers.
    fn enqueue_fused(
        &self,
        part: &Part,
        lane: &mut Lane,
        count: usize,
        k: usize,
        outputs: Option<Outputs>,
    ) -> Result<(), GpuError> {
        let (device, stream) = (self.device.clone(), lane.stream.clone());
        let failed = device.doing("launching a kernel").failed();
        let info = device.info();
        let rows = lane.queries();
        let allow = lane.allow();
        let mut shape = FusedShape {
            count: number(count),
            k: number(k),
            room: room(k),
            fresh: true,
            last: false,
            blocks: 0,
        };
        for (number_of_tile, tile) in part.tiles.iter().enumerate() {
            shape.last = number_of_tile + 1 == part.tiles.len();
            let one_block = self.one_block(tile, count, k);
            let shared = launch::accumulate_bytes(tile.rows.rows())
                + ACCUMULATE_STATIC_BYTES
                + info.shared_reserved;
            let by_threads = info.threads / ACCUMULATE_THREADS as usize;
            let blocks = (info.shared_per_multiprocessor / shared).min(by_threads).max(1);
            shape.blocks = number(blocks * info.multiprocessors);
            // Three times the mean, if the maximum is not lower.
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
            let tasks = (lane.entries as f64 * tile.cuts.mean * 3.0) as usize + 65_536;
            let tasks = tasks.min(lane.entries * tile.cuts.most);
            let entries = count * (room(k) as usize - k);
            let Lane { found, counts, status, .. } = lane;
            let launched = if let Some(threads) = one_block {
                let outputs = match outputs {
                    Some(outputs) => outputs,
                    None => Outputs::on_device(
                        &stream,
                        found.get(&device, &stream, count * k)?,
                        counts.get(&device, &stream, count)?,
                        status.get(&device, &stream, count)?,
                    ),
                };
                let with = (shape, threads);
                launch::fused_small(&self.kernels, &stream, &tile.rows, &rows, allow, with, outputs)
            } else {
                let mut place = Found {
                    keys: found.get(&device, &stream, count * k)?,
                    at: 0,
                    counts: counts.get(&device, &stream, count)?,
                };
                let mut between = Between {
                    records: lane.records.get(&device, &stream, count)?,
                    tasks: lane.tasks.get(&device, &stream, tasks)?,
                    next_task: lane.next_task.get(&device, &stream, 1)?,
                    candidates: lane.candidates.get(&device, &stream, entries)?,
                    candidate_counts: lane.candidate_counts.get(&device, &stream, count)?,
                };
                launch::fused(
                    &self.kernels,
                    &stream,
                    &tile.rows,
                    &rows,
                    allow,
                    shape,
                    &mut between,
                    &mut place,
                    status.get(&device, &stream, count)?,
                )
            };
            launched.map_err(&failed)?;
            shape.fresh = false;
        }
        Ok(())
    }

    /// Enqueues the scores of some queries and the selection of the best on the lane's stream;
    /// results are written to the slots from `at` on.
    fn enqueue_dense(
        &self,
        part: &Part,
        lane: &mut Lane,
        engine: CudaEngine,
        which: Batch,
        longest: usize,
        (at, k): (usize, usize),
    ) -> Result<(), GpuError> {
        let (device, stream) = (self.device.clone(), lane.stream.clone());
        let failed = device.doing("launching a kernel").failed();
        let (rows, allow) = (lane.queries(), lane.allow());
        let Lane { scores, dense, found, counts, list, .. } = lane;
        let scores =
            scores.get(&device, &stream, which.count as usize * part.rows.count as usize)?;
        let which = Which {
            first: which.first,
            count: which.count,
            list: which.listed.then(|| list.made()),
        };
        let most = self.options.query_terms.unwrap_or(4_096);
        let most = most.min(number(device.info().shared_per_block / 8)).max(1);
        // No more shared memory than the longest query needs, so that more blocks fit.
        let room = number(longest.next_multiple_of(32).max(32)).min(most);
        match engine {
            CudaEngine::Base { threads } => {
                let terms = self.training.cols();
                // Dense queries take at most a twentieth of the budget.
                let bytes = (self.loaded().budget / 20 / LANES).min(1 << 28);
                let batch = (bytes / (terms * 4).max(1)).clamp(1, which.count as usize);
                let fresh = dense.len() < batch * terms;
                let dense = dense.get(&device, &stream, batch * terms)?;
                if fresh {
                    stream.memset_zeros(dense).map_err(&failed)?;
                }
                for first in (0..which.count as usize).step_by(batch) {
                    let count = batch.min(which.count as usize - first);
                    let some = (which.first + number(first), number(count));
                    let scatter = |dense: &mut _, clear| {
                        launch::base_scatter(
                            &self.kernels,
                            &stream,
                            &rows,
                            some,
                            (terms, clear),
                            dense,
                        )
                    };
                    scatter(dense, false).map_err(&failed)?;
                    for query in 0..count {
                        let place = (query, first + query, terms);
                        launch::base(
                            &self.kernels,
                            &stream,
                            &part.rows,
                            dense,
                            place,
                            scores,
                            threads,
                        )
                        .map_err(&failed)?;
                    }
                    scatter(dense, true).map_err(&failed)?;
                }
            }
            CudaEngine::Shared { threads } => {
                for query in 0..which.count as usize {
                    let (place, shape) = ((which.first, query), (threads, room));
                    launch::shared(&self.kernels, &stream, &part.rows, &rows, place, scores, shape)
                        .map_err(&failed)?;
                }
            }
            CudaEngine::Grid { threads, memory: GridMemory::Texture, .. }
                if !part.textures.is_empty() =>
            {
                for texture in &part.textures {
                    let shape = (threads, room);
                    launch::grid_texture(
                        &self.kernels,
                        &stream,
                        &part.rows,
                        texture,
                        &rows,
                        which,
                        scores,
                        shape,
                    )
                    .map_err(&failed)?;
                }
            }
            CudaEngine::Grid { .. } | CudaEngine::Fused => {
                let threads = match engine {
                    CudaEngine::Grid { threads, .. } => threads,
                    _ => GENERAL_THREADS,
                };
                let shape = (threads, room);
                launch::grid_ldg(&self.kernels, &stream, &part.rows, &rows, which, scores, shape)
                    .map_err(&failed)?;
            }
        }
        let count = at + which.count as usize;
        let mut place = Found {
            keys: found.get(&device, &stream, count * k)?,
            at,
            counts: counts.get(&device, &stream, count)?,
        };
        let rows = (part.rows.count, part.first_row);
        launch::select(&self.kernels, &stream, rows, scores, which, allow, number(k), &mut place)
            .map_err(&failed)
    }

    /// Waits for a batch, answers the queries that the fused kernel could not, and stores the
    /// neighbors.
    pub(super) fn finish(
        &self,
        part: &Part,
        lane: &mut Lane,
        sent: &Sent,
        k: usize,
        found: &mut Slots<'_>,
    ) -> Result<(), GpuError> {
        lane.wait()?;
        let fused = self.is_fused(part, k);
        let count = sent.count;
        let open = if fused { sent.open(lane.host_status.get(count)?) } else { Vec::new() };
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
            let which = Batch { first: 0, count: number(some.len()), listed: true };
            self.enqueue_dense(part, lane, CudaEngine::Fused, which, sent.longest, (0, k))?;
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

    fn timed(&self, request: &Request<'_>, runs: usize) -> Result<Vec<f64>, Failed> {
        let mut sparse = None;
        let queries = request.queries(self.count, self.training.cols(), &mut sparse)?;
        let loaded = self.loaded();
        if let Residence::Gone(error) = &loaded.rows {
            return Err(error.clone().into());
        }
        let Residence::Resident(part) = &loaded.rows else {
            let bytes = part::bytes(&self.training(), &(0..self.training.rows()), self.needs());
            self.device.reserve("all training rows at once", bytes)?;
            return Ok(Vec::new());
        };
        let count = queries.rows.rows();
        let k = queries.k.min(part.rows.count as usize).max(1);
        let mut lane = self.lanes.take(|| Lane::new(&self.device))?;
        let sent = lane.send(&queries, 0..count, &self.threads)?;
        let (start, end) = (self.device.timer()?, self.device.timer()?);
        let failed = self.device.doing("measuring").failed();
        let mut seconds = Vec::new();
        for _ in 0..runs {
            lane.wait()?;
            start.record(&lane.stream).map_err(&failed)?;
            self.enqueue(part, &mut lane, &sent, k)?;
            end.record(&lane.stream).map_err(&failed)?;
            lane.wait()?;
            let mut taken = start.elapsed_ms(&end).map_err(&failed)?;
            if self.is_fused(part, k) {
                // Copying the list of open queries takes place in between, and is not measured.
                let status = lane.stream.clone_dtoh(&lane.status.made().slice(..count));
                let open = sent.open(&status.map_err(&failed)?);
                start.record(&lane.stream).map_err(&failed)?;
                self.enqueue_open(part, &mut lane, &open, (sent.longest, k))?;
                end.record(&lane.stream).map_err(&failed)?;
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
        (longest, k): (usize, usize),
    ) -> Result<(), GpuError> {
        for some in open.chunks(self.dense_batch(part)) {
            lane.send_list(some)?;
            let which = Batch { first: 0, count: number(some.len()), listed: true };
            self.enqueue_dense(part, lane, CudaEngine::Fused, which, longest, (0, k))?;
        }
        Ok(())
    }
}

impl Sent {
    /// The queries that the fused kernels have not answered.
    fn open(&self, status: &[u32]) -> Vec<u32> {
        let refused = (0..self.count).filter(|&query| status[query] != 0);
        let mut open: Vec<u32> = refused.chain(self.negative.iter().copied()).map(number).collect();
        open.sort_unstable();
        open.dedup();
        open
    }
}

/// The number of candidates that a fused block can hold.
pub(super) fn room(k: usize) -> u32 {
    number(3 * k.min(FUSED_K)).next_power_of_two().max(FUSED_ROOM)
}

fn number(n: usize) -> u32 {
    u32::try_from(n).expect("batches are cut below 2^32")
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a size")]
pub(super) fn share(bytes: usize, share: f64) -> usize {
    (bytes as f64 * share) as usize
}
