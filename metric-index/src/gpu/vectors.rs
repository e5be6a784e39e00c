//! Vectors on a GPU, searched by a filter and exact distances.
//!
//! ```text
//! queries ─▶ prepare ─▶ filter part of the points ─▶ select ─▶ … ─▶ measure ─▶ order or gather
//!            slack      values up to the threshold   lower it       exact distances
//! ```
//!
//! All points of the first part are candidates. Each later part is several times as large as all
//! earlier parts together. The threshold therefore admits only a small multiple of k points of each
//! part.

use std::ops::Range;
use std::sync::Arc;

use gpu_runtime::{
    CudaEvent, CudaSlice, CudaStream, Device, DevicePtr, GpuError, GpuStep, Pinned, Pool,
};

use super::arguments::{PointRows, Vectors};
use super::engine::{Engine, GpuAnswers};
use super::launch::{
    self, Batch, COLS, FoundNeighbors, Gatherer, Halves, Kernels, LaunchResult, Launcher,
    PositionRange, ROWS, ScanPoints, Selection, TERMS, VectorShape,
};
use super::parts::{few_part_ends, part_ends};
use crate::Question;
use crate::metric::Formula;
use crate::neighbor::Neighbor;
use crate::points::Points;

/// Minimum compute capability. From this version on, tensor cores multiply 16-bit floats in groups
/// of 16 terms.
const TENSOR_CAPABILITY: (i32, i32) = (8, 0);
/// Maximum number of queries per batch.
const MAX_BATCH_QUERIES: u32 = 8192;
/// Maximum number of queries for which parts grow as fast as the capacity for candidates permits,
/// because launches cost more than candidates.
const MAX_FEW_QUERIES: u32 = 64;
/// Size of a part relative to all earlier parts together, for many queries.
const GROWTH: u32 = 8;
/// Minimum capacity for candidates, per query.
const MIN_CAPACITY: u32 = 4096;
/// Maximum number of candidates per batch, because their positions are 32-bit numbers.
pub(super) const MAX_BATCH_CANDIDATES: usize = 1 << 31;
/// Number of positions in the first part, unless k requires more.
const FIRST_PART_SIZE: u32 = 2048;
/// Number of values per copy to the GPU.
const VALUES_PER_COPY: usize = 1 << 24;
/// Maximum absolute coordinate on the GPU. If the largest coordinate is above this limit or below
/// its inverse, the CPU searches the vectors.
const MAX_COORDINATE: f64 = 1e18;

/// The copy of the points that a filter reads, ordered by position.
#[derive(Debug)]
enum Filter {
    Tensor(Halves),
    Scan(ScanPoints),
}

/// Vectors on a GPU.
#[derive(Debug)]
pub struct VectorEngine {
    device: Device,
    kernels: Kernels,
    points: Vectors,
    rows: PointRows,
    filter: Filter,
    lanes: Pool<Lane>,
}

/// A stream and the buffers for a batch.
#[derive(Debug)]
struct Lane {
    gpu: gpu_runtime::Lane,
    start: CudaEvent,
    end: CudaEvent,
    values: Pinned<f32>,
    neighbors: Pinned<u64>,
    batch: Option<Batch>,
    /// The numbers of queries and neighbors for which `batch` has memory.
    queries: u32,
    k: u32,
}

impl Lane {
    fn new(device: &Device) -> Result<Self, GpuError> {
        Ok(Self {
            gpu: gpu_runtime::Lane::new(device)?,
            start: device.timer()?,
            end: device.timer()?,
            values: Pinned::new(device),
            neighbors: Pinned::new(device),
            batch: None,
            queries: 0,
            k: 0,
        })
    }
}

/// Returns the step between the points of adjacent positions: position p holds point p · step
/// modulo `count`.
fn step_of(count: u32) -> u32 {
    // A step in the golden ratio to `count` keeps the points of nearby positions far apart.
    let golden = u64::from(count) * 618_034 / 1_000_000;
    let mut step = u32::try_from(golden).expect("below `count`") | 1;
    while greatest_common_divisor(step, count) > 1 {
        step += 1;
    }
    step
}

/// Returns the power of two that scales a maximum coordinate into the range from 128 to 256.
fn scale_of(greatest: f64) -> f64 {
    let mut scale = 1.0;
    if greatest > 0.0 {
        while greatest * scale >= 256.0 {
            scale /= 2.0;
        }
        while greatest * scale < 128.0 {
            scale *= 2.0;
        }
    }
    scale
}

/// Returns the greatest common divisor.
fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

impl Engine<[f32]> for VectorEngine {
    fn upload<S: Points<Point = [f32]>>(
        device: &Device,
        points: &S,
        formula: Formula,
    ) -> Result<Option<Self>, GpuError> {
        let metric = match formula {
            Formula::Euclidean => 0,
            Formula::Manhattan => 1,
            Formula::Chebyshev => 2,
            Formula::Angular => 3,
            Formula::Edit => return Ok(None),
        };
        let is_tensor = matches!(formula, Formula::Euclidean | Formula::Angular);
        let fits = device.info().capability >= TENSOR_CAPABILITY;
        let Ok(count) = u32::try_from(points.len()) else { return Ok(None) };
        if count == 0 || points.point(0).is_empty() || !fits {
            return Ok(None);
        }
        let Ok(dimension) = u32::try_from(points.point(0).len()) else { return Ok(None) };
        if (0..count).any(|point| points.point(point).len() != dimension as usize) {
            return Ok(None);
        }
        #[expect(unsafe_code, reason = "`synchronize` orders the accesses to buffers")]
        // SAFETY: each lane's buffers are used on its stream only. The buffers of the points are
        // read only after the stream that fills them has been synchronized.
        unsafe {
            device.disable_event_tracking();
        }
        let stream = device.stream()?;
        let kernels = Kernels::load(device)?;
        let launcher = Launcher { kernels: &kernels, stream: &stream };
        let shape = VectorShape { count, dimension };
        let values = copy_to_device(device, &stream, points, shape)?;
        let doing = device.step("preparing the points");
        let is_angular = formula == Formula::Angular;
        let mut vectors = Vectors { values, lengths: None, count, dimension };
        if is_angular {
            let mut lengths = zeros::<f64>(&stream, count as usize, doing)?;
            launcher
                .measure_lengths(&vectors.values, shape, &mut lengths)
                .map_err(doing.failed())?;
            vectors.lengths = Some(lengths);
        }
        let step = step_of(count);
        let center = if is_tensor {
            center_of(points, shape, is_angular)
        } else {
            vec![0.0; dimension as usize]
        };
        let center = stream.clone_htod(&center).map_err(doing.failed())?;
        let mut greatest = zeros::<f32>(&stream, 2, doing)?;
        launcher.spread(&vectors, &center, is_angular, &mut greatest).map_err(doing.failed())?;
        let greatest = stream.clone_dtoh(&greatest).map_err(doing.failed())?[0];
        let greatest = f64::from(greatest);
        if greatest != 0.0 && !(1.0 / MAX_COORDINATE..MAX_COORDINATE).contains(&greatest) {
            return Ok(None);
        }
        let filter = if is_tensor {
            let scale = scale_of(greatest);
            let steps = dimension.div_ceil(TERMS);
            let padded = count.next_multiple_of(ROWS) as usize;
            let mut halves = Halves {
                positions: zeros(&stream, padded * (steps * TERMS) as usize, doing)?,
                squares: zeros(&stream, padded, doing)?,
                center,
                greatest: zeros(&stream, 2, doing)?,
                scale,
                steps,
                is_angular,
            };
            launcher.prepare_points(&vectors, step, &mut halves).map_err(doing.failed())?;
            Filter::Tensor(halves)
        } else {
            let mut positions = zeros(&stream, vectors.values.len(), doing)?;
            launcher.place_points(&vectors, step, &mut positions).map_err(doing.failed())?;
            Filter::Scan(ScanPoints { positions, is_manhattan: formula == Formula::Manhattan })
        };
        let rows = PointRows::new(&stream, &vectors, metric, step);
        stream.synchronize().map_err(doing.failed())?;
        let lanes = Pool::default();
        Ok(Some(Self { device: device.clone(), kernels, points: vectors, rows, filter, lanes }))
    }

    fn answer<Q: Points<Point = [f32]>>(
        &self,
        queries: &Q,
        range: Range<u32>,
        question: Question,
    ) -> Result<GpuAnswers, GpuError> {
        let mut found = GpuAnswers::unanswered(range.len());
        let capacity = match question {
            Question::Nearest(k) => self.capacity(k.min(self.points.count as usize)),
            Question::Within(_) => Some(MIN_CAPACITY),
        };
        let Some(mut capacity) = capacity else { return Ok(found) };
        let mut lane = self.lanes.take(|| Lane::new(&self.device))?;
        let mut unanswered: Vec<u32> = range.clone().collect();
        while !unanswered.is_empty() {
            let max_queries = self.queries_of_batch(&lane, unanswered.len(), capacity)?;
            if max_queries == 0 {
                break;
            }
            let mut overflow = Overflow::default();
            for numbers in unanswered.chunks(max_queries) {
                let request =
                    BatchRequest { queries, numbers, first: range.start, question, capacity };
                self.answer_batch(&mut lane, &request, &mut found, &mut overflow)?;
            }
            // Only range queries can overflow, because the number of their neighbors is unbounded.
            unanswered = overflow.queries;
            let Some(needed) = overflow.capacity.checked_next_power_of_two() else { break };
            capacity = needed;
        }
        self.lanes.put(lane);
        Ok(found)
    }

    fn bytes_of<S: Points<Point = [f32]>>(points: &S, formula: Formula) -> usize {
        let dimension = if points.is_empty() { 0 } else { points.point(0).len() };
        let copy = match formula {
            Formula::Euclidean | Formula::Angular => {
                2 * dimension.next_multiple_of(TERMS as usize) + 12
            }
            _ => 4 * dimension,
        };
        points.len() * (4 * dimension + copy)
    }
}

/// Queries that the GPU does not answer fall back to the CPU.
impl VectorEngine {
    /// Returns the capacity for candidates that a query needs, or `None` if it exceeds shared
    /// memory.
    fn capacity(&self, k: usize) -> Option<u32> {
        let shared = self.device.info().shared_per_block - launch::SELECT_STATIC_BYTES;
        let max = u32::try_from(shared / 8).ok()?.checked_ilog2().map(|log| 1u32 << log)?;
        let k = u32::try_from(k).ok().filter(|&k| k > 0)?;
        let wanted = k.checked_mul(16)?.checked_next_power_of_two()?.max(MIN_CAPACITY);
        let capacity = wanted.min(max);
        (k <= capacity / 4).then_some(capacity)
    }

    /// Returns the maximum number of queries per batch that memory permits.
    fn queries_of_batch(
        &self,
        lane: &Lane,
        queries: usize,
        capacity: u32,
    ) -> Result<usize, GpuError> {
        // Querying free memory takes longer than a small batch.
        if lane.batch.as_ref().is_some_and(|batch| batch.capacity == capacity)
            && queries <= lane.queries as usize
        {
            return Ok(lane.queries as usize);
        }
        let own_bytes = lane.batch.as_ref().map_or(0, |batch| batch.candidates.len() * 8);
        // Each query needs memory for candidates and for neighbors, whose number is at most a
        // quarter of the candidates.
        let bytes_per_query = capacity as usize * 10 + self.points.dimension as usize * 6 + 64;
        let free = self.device.free()? + own_bytes;
        let max = (free / 2 / bytes_per_query)
            .min(MAX_BATCH_QUERIES as usize)
            .min(MAX_BATCH_CANDIDATES / capacity as usize);
        Ok(if max >= COLS as usize { max / COLS as usize * COLS as usize } else { 0 })
    }

    fn reserve(
        &self,
        lane: &mut Lane,
        queries: u32,
        k: u32,
        capacity: u32,
    ) -> Result<(), GpuError> {
        let fits = lane.batch.as_ref().is_some_and(|batch| batch.capacity == capacity);
        if fits && lane.queries >= queries && lane.k >= k {
            return Ok(());
        }
        lane.batch = None;
        let doing = self.device.step("allocating memory for queries");
        let queries = queries.next_multiple_of(COLS);
        let count = queries as usize;
        let dimension = self.points.dimension as usize;
        let stream = lane.gpu.stream();
        let stride = dimension.next_multiple_of(TERMS as usize);
        lane.batch = Some(Batch {
            values: zeros(stream, count * dimension, doing)?,
            halves: zeros(stream, count * stride, doing)?,
            lengths: zeros(stream, count, doing)?,
            states: zeros(stream, count, doing)?,
            counts: zeros(stream, count, doing)?,
            candidates: zeros(stream, count * capacity as usize, doing)?,
            neighbors: zeros(stream, (count * k as usize).max(1), doing)?,
            capacity,
        });
        lane.queries = queries;
        lane.k = k;
        Ok(())
    }

    fn answer_batch<Q: Points<Point = [f32]>>(
        &self,
        lane: &mut Lane,
        request: &BatchRequest<'_, Q>,
        found: &mut GpuAnswers,
        overflow: &mut Overflow,
    ) -> Result<(), GpuError> {
        let failed = self.device.step("answering queries").failed();
        let dimension = self.points.dimension as usize;
        let count = u32::try_from(request.numbers.len()).expect("batch sizes fit in 32 bits");
        let (k, radius) = match request.question {
            Question::Nearest(k) => {
                (u32::try_from(k).unwrap_or(u32::MAX).min(self.points.count), -1.0)
            }
            Question::Within(radius) => (0, radius),
        };
        self.reserve(lane, count, k, request.capacity)?;
        let Lane { gpu, start, end, batch, values, neighbors, .. } = lane;
        let stream = gpu.stream();
        let launcher = Launcher { kernels: &self.kernels, stream };
        let batch = batch.as_mut().expect("reserved above");
        let values = values.get(count as usize * dimension)?;
        for (&query, to) in request.numbers.iter().zip(values.chunks_mut(dimension)) {
            match request.queries.point(query) {
                query if query.len() == dimension => to.copy_from_slice(query),
                // The query is invalid, and the CPU reports the error.
                _ => to.fill(f32::NAN),
            }
        }
        let mut to = batch.values.slice_mut(..values.len());
        stream.memcpy_htod(&*values, &mut to).map_err(&failed)?;
        start.record(stream).map_err(&failed)?;
        self.prepare(launcher, count, radius, batch).map_err(&failed)?;
        match request.question {
            Question::Nearest(_) => self.nearest(launcher, count, k, batch).map_err(&failed)?,
            Question::Within(_) => {
                let all =
                    PositionRange { first: 0, end: self.points.count, all_are_candidates: false };
                self.filter_part(launcher, all, count, batch).map_err(&failed)?;
                launcher.measure_all(&self.rows, count, batch).map_err(&failed)?;
            }
        }
        end.record(stream).map_err(&failed)?;
        let states = stream.clone_dtoh(&batch.states.slice(..count as usize)).map_err(&failed)?;
        let is_answered = |index: usize| states[index].status == 0;
        let number_in_range = |index: usize| (request.numbers[index] - request.first) as usize;
        if k > 0 {
            let length = count as usize * k as usize;
            let keys = neighbors.get(length)?;
            stream.memcpy_dtoh(&batch.neighbors.slice(..length), keys).map_err(&failed)?;
            stream.synchronize().map_err(&failed)?;
            let first = found.add_array(Neighbor::from_keys(keys));
            let lists = (first..).step_by(k as usize).zip(keys.chunks(k as usize));
            let answered = lists.enumerate().filter(|&(index, _)| is_answered(index));
            for (index, (start, keys)) in answered {
                // There are at least k points, so a missing neighbor indicates a bug. The CPU then
                // answers the query.
                if keys.last() != Some(&u64::MAX) {
                    found.set_list(number_in_range(index), start..start + k as usize);
                }
            }
        } else {
            let counts =
                stream.clone_dtoh(&batch.counts.slice(..count as usize)).map_err(&failed)?;
            let mut ends = vec![0u32; count as usize];
            let mut length = 0u32;
            for (index, list_end) in ends.iter_mut().enumerate() {
                length += if is_answered(index) { counts[index] } else { 0 };
                *list_end = length;
                if counts[index] > request.capacity {
                    overflow.queries.push(request.numbers[index]);
                    overflow.capacity = overflow.capacity.max(counts[index]);
                }
            }
            let candidates = FoundNeighbors {
                address: batch.candidates.device_ptr(stream).0,
                capacity: request.capacity,
                queries: count,
            };
            let gatherer = Gatherer { kernel: &self.kernels.gather, gpu, host: neighbors };
            let first = gatherer.add_lists(candidates, &ends, end, found)?;
            let mut start = first;
            for (index, &list_end) in ends.iter().enumerate() {
                let list_end = first + list_end as usize;
                if is_answered(index) {
                    let near = found.neighbors_mut(start..list_end);
                    let length = near.partition_point(|near| near.distance <= radius);
                    found.set_list(number_in_range(index), start..start + length);
                }
                start = list_end;
            }
        }
        found.milliseconds += f64::from(start.elapsed_ms(end).map_err(&failed)?);
        Ok(())
    }

    fn shape(&self, count: u32) -> VectorShape {
        VectorShape { count, dimension: self.points.dimension }
    }

    fn prepare(
        &self,
        launcher: Launcher<'_>,
        count: u32,
        radius: f32,
        batch: &mut Batch,
    ) -> LaunchResult {
        let shape = self.shape(count);
        if self.points.lengths.is_some() {
            let Batch { values, lengths, .. } = batch;
            launcher.measure_lengths(values, shape, lengths)?;
        }
        match &self.filter {
            Filter::Tensor(halves) => launcher.prepare_queries(halves, shape, radius, batch),
            Filter::Scan(_) => launcher.prepare_scan(shape, radius, batch),
        }
    }

    fn filter_part(
        &self,
        launcher: Launcher<'_>,
        part: PositionRange,
        count: u32,
        batch: &mut Batch,
    ) -> LaunchResult {
        match &self.filter {
            Filter::Tensor(halves) => launcher.filter(halves, part, count, batch),
            Filter::Scan(points) => launcher.scan(points, part, self.shape(count), batch),
        }
    }

    fn nearest(
        &self,
        launcher: Launcher<'_>,
        count: u32,
        k: u32,
        batch: &mut Batch,
    ) -> LaunchResult {
        // A part that is n times as large as all earlier parts together has about n · k candidates.
        // They may take 9/16 of the capacity, because errors of the filter and random variation add
        // more.
        let max_growth = (batch.capacity / 16 * 9 / k).max(1);
        let first = FIRST_PART_SIZE.max(2 * k).next_multiple_of(ROWS).min(batch.capacity);
        let ends = if count <= MAX_FEW_QUERIES {
            let step = match &self.filter {
                Filter::Tensor(halves) => self.kernels.positions_per_step(halves.steps, count),
                Filter::Scan(_) => ROWS,
            };
            few_part_ends(self.points.count, first, batch.capacity, max_growth.min(64), step)
        } else {
            part_ends(self.points.count, first, max_growth.min(GROWTH))
        };
        let mut start = 0;
        for (index, &end) in ends.iter().enumerate() {
            let part = PositionRange { first: start, end, all_are_candidates: index == 0 };
            self.filter_part(launcher, part, count, batch)?;
            let candidates = if index == 0 { end } else { 0 };
            launcher.select(Selection { queries: count, k, candidates }, batch)?;
            start = end;
        }
        launcher.measure_all(&self.rows, count, batch)?;
        launcher.order(count, k, batch)
    }
}

/// A batch of queries and the question that they ask.
struct BatchRequest<'a, Q> {
    queries: &'a Q,
    /// The numbers of the queries of the batch.
    numbers: &'a [u32],
    /// The number of the first query of `GpuAnswers`.
    first: u32,
    question: Question,
    /// Capacity for candidates, per query.
    capacity: u32,
}

/// Range queries whose candidates exceed the capacity, and the capacity that they need.
#[derive(Default)]
struct Overflow {
    queries: Vec<u32>,
    capacity: u32,
}

pub(super) fn zeros<T: gpu_runtime::DeviceRepr + gpu_runtime::ValidAsZeroBits>(
    stream: &Arc<CudaStream>,
    length: usize,
    doing: GpuStep,
) -> Result<CudaSlice<T>, GpuError> {
    stream.alloc_zeros(length).map_err(doing.failed())
}

/// Copies vectors to the GPU.
fn copy_to_device<S: Points<Point = [f32]>>(
    device: &Device,
    stream: &Arc<CudaStream>,
    points: &S,
    shape: VectorShape,
) -> Result<CudaSlice<f32>, GpuError> {
    let doing = device.step("copying points to it");
    let count = shape.count;
    let dimension = shape.dimension as usize;
    let mut device_values = zeros(stream, count as usize * dimension, doing)?;
    let mut pinned = [Pinned::new(device), Pinned::new(device)];
    let vectors_per_chunk = u32::try_from((VALUES_PER_COPY / dimension).max(1)).unwrap_or(u32::MAX);
    let mut first = 0;
    while first < count {
        let end = count.min(first.saturating_add(vectors_per_chunk));
        let length = (end - first) as usize * dimension;
        // The copy from this buffer two iterations ago has finished.
        pinned.swap(0, 1);
        let values = pinned[0].get(length)?;
        for (point, to) in (first..end).zip(values.chunks_mut(dimension)) {
            to.copy_from_slice(points.point(point));
        }
        stream.synchronize().map_err(doing.failed())?;
        let start = first as usize * dimension;
        let mut to = device_values.slice_mut(start..start + length);
        stream.memcpy_htod(&*values, &mut to).map_err(doing.failed())?;
        first = end;
    }
    stream.synchronize().map_err(doing.failed())?;
    Ok(device_values)
}

/// Returns the approximate center of the points. It affects the errors of the filter, but no
/// distances.
#[expect(clippy::cast_possible_truncation, reason = "any value near the center will do")]
fn center_of<S: Points<Point = [f32]>>(
    points: &S,
    shape: VectorShape,
    is_angular: bool,
) -> Vec<f32> {
    const SAMPLE: usize = 4096;
    let VectorShape { count, dimension } = shape;
    let mut sums = vec![0f64; dimension as usize];
    let step = (count as usize / SAMPLE).max(1);
    let mut sampled = 0.0;
    for point in (0..count).step_by(step) {
        let vector = points.point(point);
        let length = vector.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
        let scale = if is_angular { 1.0 / length } else { 1.0 };
        for (sum, &value) in sums.iter_mut().zip(vector) {
            *sum += f64::from(value) * scale;
        }
        sampled += 1.0;
    }
    sums.into_iter().map(|sum| (sum / sampled) as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_point_has_a_position() {
        for count in [1u32, 2, 3, 4, 5, 89, 128, 1000, 4096] {
            let step = u64::from(step_of(count));
            let mut seen = vec![false; count as usize];
            for position in 0..u64::from(count) {
                seen[usize::try_from(position * step % u64::from(count)).unwrap()] = true;
            }
            assert!(seen.into_iter().all(|seen| seen), "{count}");
        }
    }
}
