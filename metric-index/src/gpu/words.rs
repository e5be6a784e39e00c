//! Word search on a GPU. Each query is compared with every word that its length and characters do
//! not exclude.
//!
//! The k nearest words are found by range queries, beginning with a small radius. Queries that find
//! fewer than k words are repeated with a radius derived from the number of words at each distance.

use std::ops::Range;
use std::sync::Arc;

use gpu_runtime::{CudaEvent, CudaSlice, CudaStream, Device, DeviceBuffer, GpuError, Pinned, Pool};
use rayon::prelude::*;

use super::alphabet::Alphabet;
use super::engine::{Engine, GpuAnswers};
use super::launch::{FoundNeighbors, Gatherer};
use super::vectors::{MAX_BATCH_CANDIDATES, zeros};
use crate::Question;
use crate::metric::Formula;
use crate::neighbor::Neighbor;
use crate::points::Points;

mod launch;

use launch::{Answer, Kernels, Launcher, OneQuery, Queries, QueryLayout, WordBuffers, Words};

/// Number of words stored together.
const LANES: usize = 32;
/// Maximum number of characters of a query.
const MAX_LENGTH: usize = 64;
/// Maximum number of characters of a query that fits in 32 bits.
const MAX_SHORT_LENGTH: usize = 32;
/// Maximum number of queries per batch.
const MAX_BATCH_QUERIES: usize = 16_384;
/// Initial capacity for neighbors, per query.
const MIN_CAPACITY: u32 = 1024;
/// The radius of the first search for the k nearest words.
const FIRST_RADIUS: u32 = 2;
/// The radius of the second search.
const SECOND_RADIUS: u32 = 3;
/// A radius above all distances. Its double does not overflow.
const MAX_RADIUS: u32 = 1 << 20;
/// Maximum number of bins of a histogram of distances.
const MAX_BINS: u32 = 512;
/// Maximum number of queries that one thread encodes. More queries are encoded in parallel.
const MAX_SEQUENTIAL: usize = 4096;
/// Maximum number of queries for which answers are copied before their lengths are known.
const MAX_FEW_QUERIES: usize = 4;

/// Words on a GPU.
#[derive(Debug)]
pub struct WordEngine {
    device: Device,
    kernels: Kernels,
    stored: WordBuffers,
    words: Words,
    alphabet: Alphabet,
    longest: u32,
    lanes: Pool<Lane>,
}

/// A stream and the buffers for a batch.
#[derive(Debug)]
struct Lane {
    gpu: gpu_runtime::Lane,
    start: CudaEvent,
    end: CudaEvent,
    packed: Pinned<u32>,
    neighbors: Pinned<u64>,
    /// The queries of a batch, laid out as [`QueryLayout`] describes.
    buffer: DeviceBuffer<u32>,
    /// The two counters of a search for one query; zero between searches.
    state: CudaSlice<u32>,
    /// The answer of a search for one query; unwritten between searches.
    answer: Pinned<u64>,
}

impl Lane {
    fn new(device: &Device) -> Result<Self, GpuError> {
        let gpu = gpu_runtime::Lane::new(device)?;
        let mut answer = Pinned::new(device);
        answer.get(1 + MIN_CAPACITY as usize)?.fill(launch::UNWRITTEN);
        Ok(Self {
            answer,
            start: device.timer()?,
            end: device.timer()?,
            packed: Pinned::new(device),
            neighbors: Pinned::new(device),
            buffer: DeviceBuffer::default(),
            state: zeros(gpu.stream(), 2, device.step("allocating memory for queries"))?,
            gpu,
        })
    }
}

/// A range query that has not been answered.
#[derive(Debug)]
struct PendingQuery {
    query: u32,
    codes: Vec<u8>,
    set: u32,
    radius: u32,
}

/// The parameters that all batches of a search share.
#[derive(Debug, Clone, Copy)]
struct SearchGoal {
    /// The number of the first query of `GpuAnswers`.
    first: u32,
    /// Minimum number of neighbors, for nearest-neighbor queries.
    k: Option<usize>,
}

impl SearchGoal {
    /// Returns whether a query that found `count` words is answered, given the capacity for words.
    fn is_met(self, count: u32, capacity: u32) -> bool {
        count <= capacity && self.k.is_none_or(|k| count as usize >= k)
    }

    /// Returns the maximum length of an answer.
    fn max_neighbors(self) -> usize {
        self.k.unwrap_or(usize::MAX)
    }

    /// Returns the position of a query in `GpuAnswers`.
    fn position(self, query: &PendingQuery) -> usize {
        (query.query - self.first) as usize
    }
}

/// Returns the set of a word's characters as a bit mask of their codes modulo 32.
fn set_of(codes: &[u8]) -> u32 {
    codes.iter().fold(0, |set, &code| set | 1 << (code % 32))
}

impl Engine<str> for WordEngine {
    fn upload<S: Points<Point = str>>(
        device: &Device,
        points: &S,
        formula: Formula,
    ) -> Result<Option<Self>, GpuError> {
        let Some(count) = u32::try_from(points.len()).ok().filter(|&count| count < 1 << 29) else {
            return Ok(None);
        };
        if formula != Formula::Edit || count == 0 {
            return Ok(None);
        }
        let alphabet = Alphabet::of_words(points);
        let code = |point: u32| alphabet.encode(points.point(point));
        let mut order: Vec<(u16, u32, u32)> = Vec::with_capacity(count as usize);
        for point in 0..count {
            let word = code(point);
            let Ok(length) = u16::try_from(word.len()) else { return Ok(None) };
            order.push((length, set_of(&word), point));
        }
        order.sort_unstable();
        let mut characters = Vec::new();
        let mut starts = Vec::new();
        for group in order.chunks(LANES) {
            starts.push(u32::try_from(characters.len()).unwrap_or(u32::MAX));
            let first = characters.len();
            let longest = group.last().map_or(0, |&(length, ..)| usize::from(length));
            characters.resize(first + longest.div_ceil(4) * LANES, 0);
            for (lane, &(.., point)) in group.iter().enumerate() {
                for (index, code) in code(point).into_iter().enumerate() {
                    let shift = 8 * (index % 4);
                    characters[first + index / 4 * LANES + lane] |= u32::from(code) << shift;
                }
            }
        }
        if u32::try_from(characters.len()).is_err() {
            return Ok(None);
        }
        characters.resize(characters.len().max(1), 0);
        #[expect(unsafe_code, reason = "`synchronize` orders the accesses to buffers")]
        // SAFETY: each lane's buffers are used on its stream only. The buffers of the words are
        // read only after the stream that fills them has been synchronized.
        unsafe {
            device.disable_event_tracking();
        }
        let stream = device.stream()?;
        let kernels = Kernels::load(device)?;
        let failed = device.step("copying words to it").failed();
        let sets: Vec<u32> = order.iter().map(|&(_, set, _)| set).collect();
        let numbers: Vec<u32> = order.iter().map(|&(.., point)| point).collect();
        let lengths: Vec<u16> = order.iter().map(|&(length, ..)| length).collect();
        let stored = WordBuffers {
            characters: stream.clone_htod(&characters).map_err(&failed)?,
            starts: stream.clone_htod(&starts).map_err(&failed)?,
            sets: stream.clone_htod(&sets).map_err(&failed)?,
            points: stream.clone_htod(&numbers).map_err(&failed)?,
            lengths: stream.clone_htod(&lengths).map_err(&failed)?,
            count,
        };
        let words = Words::new(&stream, &stored);
        stream.synchronize().map_err(&failed)?;
        let longest = lengths.last().map_or(0, |&length| u32::from(length));
        let device = device.clone();
        let lanes = Pool::default();
        Ok(Some(Self { device, kernels, stored, words, alphabet, longest, lanes }))
    }

    fn answer<Q: Points<Point = str>>(
        &self,
        queries: &Q,
        range: Range<u32>,
        question: Question,
    ) -> Result<GpuAnswers, GpuError> {
        let mut found = GpuAnswers::unanswered(range.len());
        let (k, radius) = match question {
            Question::Nearest(k) => (Some(k.min(self.stored.count as usize)), FIRST_RADIUS),
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "saturates"
            )]
            Question::Within(radius) => (None, radius as u32),
        };
        let goal = SearchGoal { first: range.start, k };
        let encode = |query| self.encode(query, queries.point(query), radius);
        let mut pending: Vec<PendingQuery> = if range.len() > MAX_SEQUENTIAL {
            range.into_par_iter().filter_map(encode).collect()
        } else {
            range.filter_map(encode).collect()
        };
        // Sort the queries, so that the queries of a block have similar lengths.
        if pending.len() > 1 {
            pending.sort_unstable_by_key(|query| (query.codes.len(), query.set, query.query));
        }
        let mut lane = self.lanes.take(|| Lane::new(&self.device))?;
        let mut capacity = MIN_CAPACITY;
        while !pending.is_empty() {
            let mut unanswered = Vec::new();
            let mut needed_capacity = 0;
            let batch_size = self.queries_of_batch(&lane, pending.len(), capacity)?;
            for batch in batches(&pending, batch_size) {
                let counts = self.answer_batch(&mut lane, batch, goal, capacity, &mut found)?;
                let mut too_few = Vec::new();
                for (query, count) in batch.iter().zip(counts) {
                    let again = || PendingQuery { codes: query.codes.clone(), ..*query };
                    if count > capacity {
                        needed_capacity = needed_capacity.max(count);
                        unanswered.push(again());
                    } else if k.is_some_and(|k| (count as usize) < k) {
                        too_few.push(again());
                    }
                }
                if let Some(k) = k.filter(|_| !too_few.is_empty()) {
                    if too_few.iter().all(|query| query.radius < SECOND_RADIUS) {
                        for query in &mut too_few {
                            query.radius = SECOND_RADIUS;
                        }
                    } else {
                        let max_count = self.set_radii(&mut lane, &mut too_few, k, &mut found)?;
                        needed_capacity = needed_capacity.max(max_count);
                    }
                    unanswered.append(&mut too_few);
                }
            }
            pending = unanswered;
            let needed = needed_capacity.max(MIN_CAPACITY).checked_next_power_of_two();
            let Some(needed) = needed else { break };
            capacity = needed;
            let is_possible =
                pending.is_empty() || self.queries_of_batch(&lane, pending.len(), capacity)? > 0;
            if !is_possible {
                // Memory is exhausted, so the CPU answers the remaining queries.
                break;
            }
        }
        self.lanes.put(lane);
        Ok(found)
    }

    fn bytes_of<S: Points<Point = str>>(points: &S, _: Formula) -> usize {
        // A character occupies one byte, no more than in the text. Padding is small, because the
        // words of a group have similar lengths.
        let count = u32::try_from(points.len()).unwrap_or(u32::MAX);
        (0..count).map(|point| points.point(point).len() + 24).sum()
    }
}

/// Returns whether a batch is a single query that can be answered without copies.
fn is_single(queries: usize, capacity: u32) -> bool {
    queries == 1 && capacity == MIN_CAPACITY
}

/// Splits queries into batches. Queries of up to 32 characters come first, then longer queries.
fn batches(queries: &[PendingQuery], size: usize) -> impl Iterator<Item = &[PendingQuery]> {
    let short = queries.partition_point(|query| query.codes.len() <= MAX_SHORT_LENGTH);
    let (short, long) = queries.split_at(short);
    let size = size.max(1);
    short.chunks(size).chain(long.chunks(size))
}

/// Returns the layout of queries in the buffer of a lane.
fn layout_of(queries: &[PendingQuery]) -> QueryLayout {
    let characters = queries.iter().map(|query| query.codes.len()).sum();
    QueryLayout { count: queries.len(), characters }
}

impl WordEngine {
    fn launcher<'a>(&'a self, stream: &'a Arc<CudaStream>) -> Launcher<'a> {
        Launcher { kernels: &self.kernels, stream, words: &self.words }
    }

    /// Encodes a query. Returns `None` if the GPU cannot answer it.
    fn encode(&self, query: u32, text: &str, radius: u32) -> Option<PendingQuery> {
        let codes = self.alphabet.encode_query(text, MAX_LENGTH)?;
        let set = set_of(&codes);
        Some(PendingQuery { query, codes, set, radius })
    }

    fn queries_of_batch(
        &self,
        lane: &Lane,
        queries: usize,
        capacity: u32,
    ) -> Result<usize, GpuError> {
        // Querying free memory takes longer than answering a few queries. A single query needs no
        // memory.
        if is_single(queries, capacity) {
            return Ok(1);
        }
        if lane.buffer.capacity() / 4 >= queries * (capacity as usize + MAX_LENGTH) {
            return Ok(MAX_BATCH_QUERIES.min(MAX_BATCH_CANDIDATES / capacity as usize));
        }
        let free = self.device.free()? + lane.buffer.capacity() * 4;
        let by_memory = free / 2 / (capacity as usize * 8);
        Ok(by_memory.min(MAX_BATCH_QUERIES).min(MAX_BATCH_CANDIDATES / capacity as usize))
    }

    /// Sets the radii within which queries find k words. Returns the maximum number of words that a
    /// query finds.
    fn set_radii(
        &self,
        lane: &mut Lane,
        queries: &mut [PendingQuery],
        k: usize,
        found: &mut GpuAnswers,
    ) -> Result<u32, GpuError> {
        let failed = self.device.step("counting distances").failed();
        let bins = (self.longest.max(64) + 2).min(MAX_BINS);
        let mut max_count = 0;
        let packed = self.pack(lane, queries, 0)?;
        let Lane { gpu, start, end, .. } = lane;
        let stream = gpu.stream();
        let length = queries.len() * bins as usize;
        let mut histograms = stream.alloc_zeros(length).map_err(&failed)?;
        start.record(stream).map_err(&failed)?;
        self.launcher(stream).distances(&packed, &mut histograms, bins).map_err(&failed)?;
        end.record(stream).map_err(&failed)?;
        let histograms = stream.clone_dtoh(&histograms).map_err(&failed)?;
        for (query, histogram) in queries.iter_mut().zip(histograms.chunks(bins as usize)) {
            let mut total = 0;
            let reached = histogram.iter().position(|&count| {
                total += count;
                total as usize >= k
            });
            // The last bin counts all greater distances.
            query.radius = match reached.and_then(|radius| u32::try_from(radius).ok()) {
                Some(radius) if radius + 1 < bins => radius,
                _ => MAX_RADIUS,
            };
            max_count = max_count.max(total);
        }
        found.milliseconds += f64::from(start.elapsed_ms(end).map_err(&failed)?);
        Ok(max_count)
    }

    /// Copies queries to the GPU, with zeros for the numbers of words found.
    fn pack(
        &self,
        lane: &mut Lane,
        queries: &[PendingQuery],
        capacity: u32,
    ) -> Result<Queries, GpuError> {
        let failed = self.device.step("copying queries to it").failed();
        let layout = layout_of(queries);
        let found_at = layout.found_at();
        let packed = lane.packed.get(found_at)?;
        packed.fill(0);
        let (numbers, codes) = packed.split_at_mut(3 * queries.len());
        let (ends, rest) = numbers.split_at_mut(queries.len());
        let (sets, radii) = rest.split_at_mut(queries.len());
        let codes: &mut [u8] = bytemuck::cast_slice_mut(codes);
        let mut end = 0;
        for (index, query) in queries.iter().enumerate() {
            codes[end..end + query.codes.len()].copy_from_slice(&query.codes);
            end += query.codes.len();
            ends[index] = u32::try_from(end).expect("batch sizes fit in 32 bits");
            sets[index] = query.set;
            radii[index] = query.radius.min(MAX_RADIUS);
        }
        let words = found_at + 2 * queries.len() * capacity as usize;
        let Lane { gpu, buffer, .. } = lane;
        // Large buffers have exactly the required size.
        let length = if words < 1 << 24 { words.next_power_of_two() } else { words };
        let buffer = gpu.reserve(buffer, length)?;
        let stream = gpu.stream();
        stream.memcpy_htod(&*packed, &mut buffer.slice_mut(..found_at)).map_err(&failed)?;
        let is_short = queries.iter().all(|query| query.codes.len() <= MAX_SHORT_LENGTH);
        Ok(Queries::new(stream, buffer, layout, capacity, is_short))
    }

    /// Answers one query and returns the number of words found. Adds the answer if the goal is met.
    /// The kernel is the only operation to wait for.
    fn answer_single(
        &self,
        lane: &mut Lane,
        query: &PendingQuery,
        goal: SearchGoal,
        found: &mut GpuAnswers,
    ) -> Result<u32, GpuError> {
        let failed = self.device.step("answering a query").failed();
        let length = u32::try_from(query.codes.len()).expect("up to 64 characters");
        let radius = query.radius.min(MAX_RADIUS);
        let mut packed = OneQuery { codes: [0; 64], length, set: query.set, radius };
        packed.codes[..query.codes.len()].copy_from_slice(&query.codes);
        let Lane { gpu, answer, state, .. } = lane;
        let written = Answer::new(answer, MIN_CAPACITY)?;
        self.launcher(gpu.stream()).within_one(&packed, state, written).map_err(&failed)?;
        let count = written.wait(gpu.stream()).map_err(&failed)?;
        // The GPU no longer writes to this memory.
        let written = answer.get(1 + count.min(MIN_CAPACITY) as usize)?;
        if goal.is_met(count, MIN_CAPACITY) {
            // Keys are ordered like neighbors.
            written[1..].sort_unstable();
            let near = Neighbor::from_keys(&written[1..]);
            let near = &near[..near.len().min(goal.max_neighbors())];
            found.add(goal.position(query), near);
        }
        written.fill(launch::UNWRITTEN);
        Ok(count)
    }

    /// Answers a batch of queries and returns the number of words that each query found. Adds the
    /// answers of queries whose goal is met.
    fn answer_batch(
        &self,
        lane: &mut Lane,
        queries: &[PendingQuery],
        goal: SearchGoal,
        capacity: u32,
        found: &mut GpuAnswers,
    ) -> Result<Vec<u32>, GpuError> {
        let failed = self.device.step("answering queries").failed();
        if is_single(queries.len(), capacity) {
            return Ok(vec![self.answer_single(lane, &queries[0], goal, found)?]);
        }
        let packed = self.pack(lane, queries, capacity)?;
        let Lane { gpu, start, end, buffer, neighbors, .. } = lane;
        let stream = gpu.stream();
        let buffer = buffer.reserved();
        let is_few = queries.len() <= MAX_FEW_QUERIES;
        if !is_few {
            start.record(stream).map_err(&failed)?;
        }
        self.launcher(stream).within(&packed).map_err(&failed)?;
        // Copy the numbers of words and, for few queries, the words.
        let layout = layout_of(queries);
        let counts_at = layout.counts_at();
        let found_at = layout.found_at();
        let words = if is_few { 2 * queries.len() * capacity as usize } else { 0 };
        // The length of pinned memory is in units of 64 bits.
        let copied = neighbors.get((found_at - counts_at + words).div_ceil(2))?;
        let copied: &mut [u32] = bytemuck::cast_slice_mut(copied);
        stream.memcpy_dtoh(&buffer.slice(counts_at..found_at + words), copied).map_err(&failed)?;
        stream.synchronize().map_err(&failed)?;
        let counts = copied[..queries.len()].to_vec();
        let max_neighbors = goal.max_neighbors();
        if is_few {
            let keys: &mut [u64] = bytemuck::cast_slice_mut(&mut copied[found_at - counts_at..]);
            let lists = keys.chunks_mut(capacity as usize);
            for ((query, &count), keys) in queries.iter().zip(&counts).zip(lists) {
                if goal.is_met(count, capacity) {
                    let keys = &mut keys[..count as usize];
                    keys.sort_unstable();
                    let near = &Neighbor::from_keys(keys)[..keys.len().min(max_neighbors)];
                    found.add(goal.position(query), near);
                }
            }
            return Ok(counts);
        }
        let mut length = 0;
        let ends = counts.iter().map(|&count| {
            length += if goal.is_met(count, capacity) { count } else { 0 };
            length
        });
        let ends: Vec<u32> = ends.collect();
        let words = FoundNeighbors { address: packed.found(), capacity, queries: packed.count };
        let gatherer = Gatherer { kernel: &self.kernels.gather, gpu, host: neighbors };
        let first = gatherer.add_lists(words, &ends, end, found)?;
        let mut list_start = first;
        for ((query, &count), &list_end) in queries.iter().zip(&counts).zip(&ends) {
            let list_end = first + list_end as usize;
            if goal.is_met(count, capacity) {
                let list = list_start..list_end.min(list_start.saturating_add(max_neighbors));
                found.set_list(goal.position(query), list);
            }
            list_start = list_end;
        }
        found.milliseconds += f64::from(start.elapsed_ms(end).map_err(&failed)?);
        Ok(counts)
    }
}
