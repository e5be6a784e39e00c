//! Vectors on a GPU, and their search by a filter and exact distances.
//!
//! ```text
//! queries ─▶ prepare ─▶ filter a part of the points ─▶ select ─▶ … ─▶ measure ─▶ order or gather ─▶ neighbors
//!            slack      values at most the threshold   lower it        exact distances
//! ```
//!
//! All points of the first part are candidates. Each part is several times as large as all before it, so the threshold lets
//! a few times k points of it through, and no more are ever written.

use std::ops::Range;
use std::sync::Arc;

use gpu_runtime::{
    CudaEvent, CudaSlice, CudaStream, Device, DevicePtr, Doing, GpuError, Pinned, Pool,
};

use super::engine::{Engine, Found};
use super::launch::{
    self, Batch, COLS, Halves, Kernels, Launched, Part, PointRows, ROWS, TERMS, Vectors,
};
use crate::Question;
use crate::metric::Formula;
use crate::neighbor::Neighbor;
use crate::points::Points;

/// The compute capability from which matrices of 16-bit floats are multiplied 16 terms at a time.
const TENSOR_CAPABILITY: (i32, i32) = (8, 0);
/// The most queries of a batch.
const BATCH: u32 = 8192;
/// Up to this many queries, parts grow as fast as their candidates have room: launches cost more than candidates.
const FEW: u32 = 64;
/// How many times as large as all before it a part is, for many queries.
const GROWTH: u32 = 8;
/// The fewest candidates for which a query has room.
const LEAST_ROOM: u32 = 4096;
/// The most candidates of a batch: their places are 32-bit numbers.
pub(super) const MOST_FOUND: usize = 1 << 31;
/// Candidates of the first part.
const FIRST: u32 = 2048;
/// Values that are copied to the GPU at a time.
const CHUNK: usize = 1 << 24;
/// Coordinates beyond this, or scales beyond its inverse, are left to the CPU.
const GREATEST: f64 = 1e18;

/// The copy of the points in places that a filter reads.
#[derive(Debug)]
enum Filter {
    Tensor(Halves),
    Scan { places: CudaSlice<f32>, is_manhattan: bool },
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

/// A stream and the buffers of a batch.
#[derive(Debug)]
struct Lane {
    stream: Arc<CudaStream>,
    start: CudaEvent,
    end: CudaEvent,
    values: Pinned<f32>,
    neighbors: Pinned<u64>,
    batch: Option<Batch>,
    /// The queries and the neighbors for which `batch` has room.
    queries: u32,
    k: u32,
}

impl Lane {
    fn new(device: &Device) -> Result<Self, GpuError> {
        Ok(Self {
            stream: device.stream()?,
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

/// The places of points: place p is of point p · step modulo count.
fn step_of(count: u32) -> u32 {
    // By the golden ratio, so that near places are of points that are apart.
    let golden = u64::from(count) * 618_034 / 1_000_000;
    let mut step = u32::try_from(golden).expect("below `count`") | 1;
    while common(step, count) > 1 {
        step += 1;
    }
    step
}

/// The power of two that makes a coordinate of `most` 128 to 256.
fn scale_of(most: f64) -> f64 {
    let mut scale = 1.0;
    if most > 0.0 {
        while most * scale >= 256.0 {
            scale /= 2.0;
        }
        while most * scale < 128.0 {
            scale *= 2.0;
        }
    }
    scale
}

fn common(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { common(b, a % b) }
}

/// The ends of the parts of `count` places: the first is `first`, each of the others `growth` times as large as all before.
fn parts(count: u32, first: u32, growth: u32) -> Vec<u32> {
    let mut ends = vec![first.min(count)];
    while let Some(&end) = ends.last().filter(|&&end| end < count) {
        let next = u64::from(end) * u64::from(growth + 1);
        let next = next.next_multiple_of(u64::from(ROWS)).min(count.into());
        // A small rest is not worth a part.
        let next = if next + u64::from(end) > u64::from(count) { u64::from(count) } else { next };
        ends.push(u32::try_from(next).expect("at most `count`"));
    }
    ends
}

/// The same for few queries, whose first part is `first` to `room`. Two parts are better than three: each takes two launches. If there
/// are two, the second is whole steps of the blocks, which look at `together` places in each, if the first has room for the rest.
fn few_parts(count: u32, (first, room): (u32, u32), growth: u32, together: u32) -> Vec<u32> {
    let of_two = count.div_ceil(growth + 1).next_multiple_of(ROWS);
    let first = if of_two <= room { first.max(of_two) } else { first };
    let mut ends = parts(count, first, growth);
    if let [first, _] = &mut ends[..] {
        let rest = ((count - *first) % together).next_multiple_of(ROWS);
        if *first + rest <= room && *first + rest < count {
            *first += rest;
        }
    }
    ends
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
        #[expect(unsafe_code, reason = "buffers are ordered by `synchronize`")]
        // SAFETY: the buffers of a lane are used on its stream; those of the points are read only once the stream
        // that makes them has been synchronized.
        unsafe {
            device.disable_event_tracking();
        }
        let (stream, kernels) = (device.stream()?, Kernels::load(device)?);
        let copy = copied(device, &stream, points, (count, dimension))?;
        let doing = device.doing("preparing the points");
        let is_angular = formula == Formula::Angular;
        let mut points_there = Vectors { values: copy, lengths: None, count, dimension };
        if is_angular {
            let mut lengths = zeros::<f64>(&stream, count as usize, doing)?;
            let shape = (count, dimension);
            launch::measure_lengths(&kernels, &stream, &points_there.values, shape, &mut lengths)
                .map_err(doing.failed())?;
            points_there.lengths = Some(lengths);
        }
        let step = step_of(count);
        let center = if is_tensor {
            center_of(points, (count, dimension), is_angular)
        } else {
            vec![0.0; dimension as usize]
        };
        let center = stream.clone_htod(&center).map_err(doing.failed())?;
        let mut greatest = zeros::<f32>(&stream, 2, doing)?;
        launch::spread(&kernels, &stream, &points_there, &center, is_angular, &mut greatest)
            .map_err(doing.failed())?;
        let most = stream.clone_dtoh(&greatest).map_err(doing.failed())?[0];
        let most = f64::from(most);
        if most != 0.0 && !(1.0 / GREATEST..GREATEST).contains(&most) {
            return Ok(None);
        }
        let filter = if is_tensor {
            let scale = scale_of(most);
            let steps = dimension.div_ceil(TERMS);
            let padded = count.next_multiple_of(ROWS) as usize;
            let mut halves = Halves {
                places: zeros(&stream, padded * (steps * TERMS) as usize, doing)?,
                squares: zeros(&stream, padded, doing)?,
                center,
                greatest: zeros(&stream, 2, doing)?,
                scale,
                steps,
                is_angular,
            };
            launch::prepare_points(&kernels, &stream, &points_there, step, &mut halves)
                .map_err(doing.failed())?;
            Filter::Tensor(halves)
        } else {
            let mut places = zeros(&stream, points_there.values.len(), doing)?;
            launch::place_points(&kernels, &stream, &points_there, step, &mut places)
                .map_err(doing.failed())?;
            Filter::Scan { places, is_manhattan: formula == Formula::Manhattan }
        };
        let rows = PointRows::new(&stream, &points_there, metric, step);
        stream.synchronize().map_err(doing.failed())?;
        let lanes = Pool::default();
        Ok(Some(Self {
            device: device.clone(),
            kernels,
            points: points_there,
            rows,
            filter,
            lanes,
        }))
    }

    fn answer<Q: Points<Point = [f32]>>(
        &self,
        queries: &Q,
        range: Range<u32>,
        question: Question,
    ) -> Result<Found, GpuError> {
        let mut found = Found::nothing(range.len());
        let room = match question {
            Question::Nearest(k) => self.room(k.min(self.points.count as usize)),
            Question::Within(_) => Some(LEAST_ROOM),
        };
        let Some(mut room) = room else { return Ok(found) };
        let mut lane = self.lanes.take(|| Lane::new(&self.device))?;
        let mut left: Vec<u32> = range.clone().collect();
        while !left.is_empty() {
            let most = self.queries_of_batch(&lane, left.len(), room)?;
            if most == 0 {
                break;
            }
            let mut more = More::default();
            for numbers in left.chunks(most) {
                let asked = Asked { queries, numbers, first: range.start, question };
                let done = self.batch(&mut lane, &asked, room, &mut found, &mut more);
                if done.is_err() {
                    // The caller may drop the points: nothing may still read them. What this says is no news.
                    let _ = lane.stream.synchronize();
                }
                done?;
            }
            // Only the answers of range queries have no limit.
            left = more.queries;
            let Some(more) = more.room.checked_next_power_of_two() else { break };
            room = more;
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

/// What GPUs do not answer is left to the CPU.
impl VectorEngine {
    /// The candidates for which a query needs room, if there is that much shared memory.
    fn room(&self, k: usize) -> Option<u32> {
        let shared = self.device.info().shared_per_block - launch::SELECT_STATIC_BYTES;
        let most = u32::try_from(shared / 8).ok()?.checked_ilog2().map(|log| 1u32 << log)?;
        let k = u32::try_from(k).ok().filter(|&k| k > 0)?;
        let wanted = k.checked_mul(16)?.checked_next_power_of_two()?.max(LEAST_ROOM);
        let room = wanted.min(most);
        (k <= room / 4).then_some(room)
    }

    /// The queries of a batch for which there is memory.
    fn queries_of_batch(&self, lane: &Lane, queries: usize, room: u32) -> Result<usize, GpuError> {
        // To ask for free memory takes longer than a small batch.
        if lane.batch.as_ref().is_some_and(|batch| batch.room == room)
            && queries <= lane.queries as usize
        {
            return Ok(lane.queries as usize);
        }
        let own = lane.batch.as_ref().map_or(0, |batch| batch.candidates.len() * 8);
        // Candidates, and neighbors, which are a quarter of them at most.
        let of_query = room as usize * 10 + self.points.dimension as usize * 6 + 64;
        let free = self.device.free()? + own;
        let most = (free / 2 / of_query).min(BATCH as usize).min(MOST_FOUND / room as usize);
        Ok(if most >= COLS as usize { most / COLS as usize * COLS as usize } else { 0 })
    }

    fn reserve(&self, lane: &mut Lane, queries: u32, k: u32, room: u32) -> Result<(), GpuError> {
        let fits = lane.batch.as_ref().is_some_and(|batch| batch.room == room);
        if fits && lane.queries >= queries && lane.k >= k {
            return Ok(());
        }
        lane.batch = None;
        let doing = self.device.doing("allocating memory for queries");
        let queries = queries.next_multiple_of(COLS);
        let (count, dimension) = (queries as usize, self.points.dimension as usize);
        let stream = &lane.stream;
        let stride = dimension.next_multiple_of(TERMS as usize);
        lane.batch = Some(Batch {
            values: zeros(stream, count * dimension, doing)?,
            halves: zeros(stream, count * stride, doing)?,
            lengths: zeros(stream, count, doing)?,
            states: zeros(stream, count, doing)?,
            counts: zeros(stream, count, doing)?,
            candidates: zeros(stream, count * room as usize, doing)?,
            neighbors: zeros(stream, (count * k as usize).max(1), doing)?,
            room,
        });
        (lane.queries, lane.k) = (queries, k);
        Ok(())
    }

    fn batch<Q: Points<Point = [f32]>>(
        &self,
        lane: &mut Lane,
        asked: &Asked<'_, Q>,
        room: u32,
        found: &mut Found,
        more: &mut More,
    ) -> Result<(), GpuError> {
        let failed = self.device.doing("answering queries").failed();
        let dimension = self.points.dimension as usize;
        let count = u32::try_from(asked.numbers.len()).expect("a batch");
        let (k, radius) = match asked.question {
            Question::Nearest(k) => {
                (u32::try_from(k).unwrap_or(u32::MAX).min(self.points.count), -1.0)
            }
            Question::Within(radius) => (0, radius),
        };
        self.reserve(lane, count, k, room)?;
        let Lane { stream, start, end, batch, values, neighbors, .. } = lane;
        let batch = batch.as_mut().expect("reserved above");
        let values = values.get(count as usize * dimension)?;
        for (&query, to) in asked.numbers.iter().zip(values.chunks_mut(dimension)) {
            match asked.queries.point(query) {
                query if query.len() == dimension => to.copy_from_slice(query),
                // No query: the CPU says so.
                _ => to.fill(f32::NAN),
            }
        }
        let mut to = batch.values.slice_mut(..values.len());
        stream.memcpy_htod(&*values, &mut to).map_err(&failed)?;
        start.record(stream).map_err(&failed)?;
        self.prepare(stream, count, radius, batch).map_err(&failed)?;
        match asked.question {
            Question::Nearest(_) => self.nearest(stream, count, k, batch).map_err(&failed)?,
            Question::Within(_) => {
                let all = Part { first: 0, end: self.points.count, all: false };
                self.part(stream, all, count, batch).map_err(&failed)?;
                launch::measure_all(&self.kernels, stream, &self.rows, count, batch)
                    .map_err(&failed)?;
            }
        }
        end.record(stream).map_err(&failed)?;
        let states = stream.clone_dtoh(&batch.states.slice(..count as usize)).map_err(&failed)?;
        let is_answered = |at: usize| states[at].status == 0;
        let place = |at: usize| (asked.numbers[at] - asked.first) as usize;
        if k > 0 {
            let length = count as usize * k as usize;
            let keys = neighbors.get(length)?;
            stream.memcpy_dtoh(&batch.neighbors.slice(..length), keys).map_err(&failed)?;
            stream.synchronize().map_err(&failed)?;
            let first = found.add_array(Neighbor::from_keys(keys));
            let lists = (first..).step_by(k as usize).zip(keys.chunks(k as usize));
            for (at, (start, keys)) in lists.enumerate().filter(|&(at, _)| is_answered(at)) {
                // There are k points, so a gap would be a mistake: then the CPU answers.
                if keys.last() != Some(&u64::MAX) {
                    found.place(place(at), start..start + k as usize);
                }
            }
        } else {
            let counts =
                stream.clone_dtoh(&batch.counts.slice(..count as usize)).map_err(&failed)?;
            let mut ends = vec![0u32; count as usize];
            let mut length = 0u32;
            for (at, end) in ends.iter_mut().enumerate() {
                length += if is_answered(at) { counts[at] } else { 0 };
                *end = length;
                if counts[at] > room {
                    more.queries.push(asked.numbers[at]);
                    more.room = more.room.max(counts[at]);
                }
            }
            let there = stream.clone_htod(&ends).map_err(&failed)?;
            let mut gathered = stream.alloc_zeros(length.max(1) as usize).map_err(&failed)?;
            let of = (batch.candidates.device_ptr(stream).0, room);
            launch::gather(&self.kernels.gather, stream, of, &there, count, &mut gathered)
                .map_err(&failed)?;
            let keys = neighbors.get(length.max(1) as usize)?;
            stream.memcpy_dtoh(&gathered, keys).map_err(&failed)?;
            stream.synchronize().map_err(&failed)?;
            let first = found.add_array(Neighbor::from_keys(&keys[..length as usize]));
            let mut start = first;
            for (at, &end) in ends.iter().enumerate() {
                let end = first + end as usize;
                if is_answered(at) {
                    let near = found.neighbors_mut(start..end);
                    if near.len() > launch::SORTED as usize {
                        near.sort_unstable();
                    }
                    let length = near.partition_point(|near| near.distance <= radius);
                    found.place(place(at), start..start + length);
                }
                start = end;
            }
        }
        found.milliseconds += f64::from(start.elapsed_ms(end).map_err(&failed)?);
        Ok(())
    }

    fn prepare(
        &self,
        stream: &Arc<CudaStream>,
        count: u32,
        radius: f32,
        batch: &mut Batch,
    ) -> Launched {
        let shape = (count, self.points.dimension);
        if self.points.lengths.is_some() {
            let Batch { values, lengths, .. } = batch;
            launch::measure_lengths(&self.kernels, stream, values, shape, lengths)?;
        }
        match &self.filter {
            Filter::Tensor(halves) => {
                launch::prepare_queries(&self.kernels, stream, halves, shape, radius, batch)
            }
            Filter::Scan { .. } => {
                launch::prepare_scan(&self.kernels, stream, shape, radius, batch)
            }
        }
    }

    fn part(
        &self,
        stream: &Arc<CudaStream>,
        part: Part,
        count: u32,
        batch: &mut Batch,
    ) -> Launched {
        match &self.filter {
            Filter::Tensor(halves) => {
                launch::filter(&self.kernels, stream, halves, part, count, batch)
            }
            Filter::Scan { places, is_manhattan } => {
                let shape = (count, self.points.dimension);
                launch::scan(&self.kernels, stream, (places, *is_manhattan), part, shape, batch)
            }
        }
    }

    fn nearest(&self, stream: &Arc<CudaStream>, count: u32, k: u32, batch: &mut Batch) -> Launched {
        // A part that is n times as large as all before it gives about n · k candidates. They may take 9/16 of the room: the filter's
        // errors, and chance, add some.
        let most = (batch.room / 16 * 9 / k).max(1);
        let first = FIRST.max(2 * k).next_multiple_of(ROWS).min(batch.room);
        let ends = if count <= FEW {
            let together = match &self.filter {
                Filter::Tensor(halves) => self.kernels.places_together(halves.steps, count),
                Filter::Scan { .. } => ROWS,
            };
            few_parts(self.points.count, (first, batch.room), most.min(64), together)
        } else {
            parts(self.points.count, first, most.min(GROWTH))
        };
        let mut start = 0;
        for (at, &end) in ends.iter().enumerate() {
            let part = Part { first: start, end, all: at == 0 };
            self.part(stream, part, count, batch)?;
            let asked = (count, k, if at == 0 { end } else { 0 });
            launch::select(&self.kernels, stream, asked, batch)?;
            start = end;
        }
        launch::measure_all(&self.kernels, stream, &self.rows, count, batch)?;
        launch::order(&self.kernels, stream, (count, k), batch)
    }
}

/// Queries of a batch, by their numbers, and what is asked.
struct Asked<'a, Q> {
    queries: &'a Q,
    numbers: &'a [u32],
    /// The number of the first query of `Found`.
    first: u32,
    question: Question,
}

/// Range queries that need more room, and how much.
#[derive(Default)]
struct More {
    queries: Vec<u32>,
    room: u32,
}

pub(super) fn zeros<T: gpu_runtime::DeviceRepr + gpu_runtime::ValidAsZeroBits>(
    stream: &Arc<CudaStream>,
    length: usize,
    doing: Doing,
) -> Result<CudaSlice<T>, GpuError> {
    stream.alloc_zeros(length).map_err(doing.failed())
}

/// The vectors on the GPU.
fn copied<S: Points<Point = [f32]>>(
    device: &Device,
    stream: &Arc<CudaStream>,
    points: &S,
    (count, dimension): (u32, u32),
) -> Result<CudaSlice<f32>, GpuError> {
    let doing = device.doing("copying points to it");
    let dimension = dimension as usize;
    let mut there = zeros(stream, count as usize * dimension, doing)?;
    let mut pinned = [Pinned::new(device), Pinned::new(device)];
    let of_chunk = u32::try_from((CHUNK / dimension).max(1)).unwrap_or(u32::MAX);
    let mut first = 0;
    while first < count {
        let end = count.min(first.saturating_add(of_chunk));
        let length = (end - first) as usize * dimension;
        // The copy before the last has ended.
        pinned.swap(0, 1);
        let values = pinned[0].get(length)?;
        for (point, to) in (first..end).zip(values.chunks_mut(dimension)) {
            to.copy_from_slice(points.point(point));
        }
        stream.synchronize().map_err(doing.failed())?;
        let start = first as usize * dimension;
        let mut to = there.slice_mut(start..start + length);
        stream.memcpy_htod(&*values, &mut to).map_err(doing.failed())?;
        first = end;
    }
    stream.synchronize().map_err(doing.failed())?;
    Ok(there)
}

/// About the middle of the points: distances do not depend on it, but the errors of the filter do.
#[expect(clippy::cast_possible_truncation, reason = "any value will do")]
fn center_of<S: Points<Point = [f32]>>(
    points: &S,
    (count, dimension): (u32, u32),
    is_angular: bool,
) -> Vec<f32> {
    const SAMPLE: usize = 4096;
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
    fn each_point_has_a_place() {
        for count in [1u32, 2, 3, 4, 5, 89, 128, 1000, 4096] {
            let step = u64::from(step_of(count));
            let mut seen = vec![false; count as usize];
            for place in 0..u64::from(count) {
                seen[usize::try_from(place * step % u64::from(count)).unwrap()] = true;
            }
            assert!(seen.into_iter().all(|seen| seen), "{count}");
        }
    }

    #[test]
    fn parts_grow_to_the_end() {
        assert_eq!(parts(100, 2048, 8), [100]);
        assert_eq!(parts(2049, 2048, 8), [2048, 2049]);
        assert_eq!(parts(1_000_000, 2048, 8), [2048, 18_432, 165_888, 1_000_000]);
        // 132 multiprocessors, four blocks of 64 places each.
        let together = 132 * 4 * 64;
        assert_eq!(few_parts(70_000, (2048, 4096), 64, together), [2432, 70_000]);
        assert_eq!(70_000 - 2432, 2 * together - 16, "the last step is nearly full");
        // A larger first part, so that two are enough; and where it has no room.
        assert_eq!(few_parts(60_000, (2048, 4096), 18, together), [3200, 60_000]);
        assert_eq!(
            few_parts(1_000_000, (2048, 4096), 18, together),
            [2048, 38_912, 739_328, 1_000_000]
        );
        for count in (1..9_000).chain((9_000..300_000).step_by(37)) {
            for growth in [1, 9, 18, 64] {
                let ends = few_parts(count, (2048, 4096), growth, together);
                assert!(ends.is_sorted_by(|a, b| a < b), "{count}: {ends:?}");
                let (last, before) = ends.split_last().unwrap();
                assert_eq!(*last, count);
                assert!(before.iter().all(|end| end.is_multiple_of(ROWS)), "{count}: {ends:?}");
                assert!(ends[0] <= 4096, "all of the first part are candidates");
            }
        }
        let ends = parts(u32::MAX, 2048, 64);
        assert!(ends.is_sorted() && ends.last() == Some(&u32::MAX));
    }
}
