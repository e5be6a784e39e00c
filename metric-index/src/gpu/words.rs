//! Words on a GPU: every query against every word whose length and characters let it be near.
//!
//! The k nearest words are found by range queries: with a small radius first, then, for the queries that have found fewer
//! than k, with the radius that the numbers of words at each distance tell.

use std::ops::Range;
use std::sync::Arc;

use gpu_runtime::{CudaEvent, CudaSlice, CudaStream, Device, GpuError, Pinned, Pool};
use rayon::prelude::*;

use super::alphabet::Alphabet;
use super::engine::{Engine, Found};
use super::vectors::{MOST_FOUND, zeros};
use crate::Question;
use crate::metric::Formula;
use crate::neighbor::Neighbor;
use crate::points::Points;

mod launch;

use launch::{Kernels, OneQuery, Queries, Stored, Words};

/// Words that are stored together.
const LANES: usize = 32;
/// The most characters of a query.
const LONGEST: usize = 64;
/// The most characters of a query that is answered with 32 bits.
const SHORT: usize = 32;
/// The most queries of a batch.
const BATCH: usize = 16_384;
/// The neighbors for which a query has room at first.
const LEAST_ROOM: u32 = 1024;
/// The radius with which the k nearest are looked for at first.
const FIRST_RADIUS: u32 = 2;
/// The radius with which they are looked for then.
const SECOND_RADIUS: u32 = 3;
/// A radius beyond all distances. Twice of it is a number, too.
const FARTHEST: u32 = 1 << 20;
/// Distances that are counted one by one.
const MOST_BINS: u32 = 512;
/// More queries or neighbors than this are prepared and copied by several threads.
const MANY: usize = 4096;
/// Up to this many queries, answers are copied before it is known how long they are.
const FEW: usize = 4;

/// Words on a GPU.
#[derive(Debug)]
pub struct WordEngine {
    device: Device,
    kernels: Kernels,
    stored: Stored,
    words: Words,
    alphabet: Alphabet,
    longest: u32,
    lanes: Pool<Lane>,
}

/// A stream and the buffers of a batch.
#[derive(Debug)]
struct Lane {
    stream: Arc<CudaStream>,
    start: CudaEvent,
    end: CudaEvent,
    packed: Pinned<u32>,
    neighbors: Pinned<u64>,
    /// See [`Queries`].
    buffer: CudaSlice<u32>,
    /// Two zeros: the counters of a search for one query.
    state: CudaSlice<u32>,
    /// Where its answer is written: between searches, nothing is.
    answer: Pinned<u64>,
}

impl Lane {
    fn new(device: &Device) -> Result<Self, GpuError> {
        let (stream, doing) = (device.stream()?, device.doing("allocating memory for queries"));
        let mut answer = Pinned::new(device);
        answer.get(1 + LEAST_ROOM as usize)?.fill(launch::UNWRITTEN);
        Ok(Self {
            answer,
            start: device.timer()?,
            end: device.timer()?,
            packed: Pinned::new(device),
            neighbors: Pinned::new(device),
            buffer: zeros(&stream, 1, doing)?,
            state: zeros(&stream, 2, doing)?,
            stream,
        })
    }
}

/// A query that is answered: its number, its characters and what is looked for.
#[derive(Debug)]
struct Asked {
    query: u32,
    codes: Vec<u8>,
    set: u32,
    radius: u32,
}

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
        let (mut characters, mut starts) = (Vec::new(), Vec::new());
        for group in order.chunks(LANES) {
            starts.push(u32::try_from(characters.len()).unwrap_or(u32::MAX));
            let first = characters.len();
            let longest = group.last().map_or(0, |&(length, ..)| usize::from(length));
            characters.resize(first + longest.div_ceil(4) * LANES, 0);
            for (lane, &(.., point)) in group.iter().enumerate() {
                for (at, code) in code(point).into_iter().enumerate() {
                    characters[first + at / 4 * LANES + lane] |= u32::from(code) << (8 * (at % 4));
                }
            }
        }
        if characters.len() > u32::MAX as usize {
            return Ok(None);
        }
        characters.resize(characters.len().max(1), 0);
        #[expect(unsafe_code, reason = "buffers are ordered by `synchronize`")]
        // SAFETY: the buffers of a lane are used on its stream; those of the words are read only once the stream
        // that makes them has been synchronized.
        unsafe {
            device.disable_event_tracking();
        }
        let (stream, kernels) = (device.stream()?, Kernels::load(device)?);
        let failed = device.doing("copying words to it").failed();
        let sets: Vec<u32> = order.iter().map(|&(_, set, _)| set).collect();
        let numbers: Vec<u32> = order.iter().map(|&(.., point)| point).collect();
        let lengths: Vec<u16> = order.iter().map(|&(length, ..)| length).collect();
        let stored = Stored {
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
        let (device, lanes) = (device.clone(), Pool::default());
        Ok(Some(Self { device, kernels, stored, words, alphabet, longest, lanes }))
    }

    fn answer<Q: Points<Point = str>>(
        &self,
        queries: &Q,
        range: Range<u32>,
        question: Question,
    ) -> Result<Found, GpuError> {
        let mut found = Found::nothing(range.len());
        let first = range.start;
        let (k, radius) = match question {
            Question::Nearest(k) => (Some(k.min(self.stored.count as usize)), FIRST_RADIUS),
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "saturates"
            )]
            Question::Within(radius) => (None, radius as u32),
        };
        let ask = |query| self.asked(query, queries.point(query), radius);
        let mut asked: Vec<Asked> = if range.len() > MANY {
            range.into_par_iter().filter_map(ask).collect()
        } else {
            range.filter_map(ask).collect()
        };
        // Queries of a block have similar lengths.
        if asked.len() > 1 {
            asked.sort_unstable_by_key(|asked| (asked.codes.len(), asked.set, asked.query));
        }
        let mut lane = self.lanes.take(|| Lane::new(&self.device))?;
        let mut room = LEAST_ROOM;
        while !asked.is_empty() {
            let mut left = Vec::new();
            let mut more_room = 0;
            for batch in batches(&asked, self.queries_of_batch(&lane, asked.len(), room)?) {
                let counts = self.batch(&mut lane, batch, room, first, k, &mut found);
                if counts.is_err() {
                    // The caller may drop the words: nothing may still read them. What this says is no news.
                    let _ = lane.stream.synchronize();
                }
                let counts = counts?;
                let mut too_few = Vec::new();
                for (asked, count) in batch.iter().zip(counts) {
                    let again = || Asked { codes: asked.codes.clone(), ..*asked };
                    if count > room {
                        more_room = more_room.max(count);
                        left.push(again());
                    } else if k.is_some_and(|k| (count as usize) < k) {
                        too_few.push(again());
                    }
                }
                if let Some(k) = k.filter(|_| !too_few.is_empty()) {
                    if too_few.iter().all(|asked| asked.radius < SECOND_RADIUS) {
                        for asked in &mut too_few {
                            asked.radius = SECOND_RADIUS;
                        }
                    } else {
                        let most = self.widen(&mut lane, &mut too_few, k, &mut found)?;
                        more_room = more_room.max(most);
                    }
                    left.append(&mut too_few);
                }
            }
            asked = left;
            let Some(more) = more_room.max(LEAST_ROOM).checked_next_power_of_two() else { break };
            room = more;
            if !asked.is_empty() && self.queries_of_batch(&lane, asked.len(), room)? == 0 {
                // The CPU answers them.
                break;
            }
        }
        self.lanes.put(lane);
        Ok(found)
    }

    fn bytes_of<S: Points<Point = str>>(points: &S, _: Formula) -> usize {
        // Four characters are at least four bytes of text, and words of a group have about the same length.
        let count = u32::try_from(points.len()).unwrap_or(u32::MAX);
        (0..count).map(|point| points.point(point).len() + 24).sum()
    }
}

/// Whether a batch is one query that is answered without copies.
fn is_alone(queries: usize, room: u32) -> bool {
    queries == 1 && room == LEAST_ROOM
}

/// Queries of up to 32 characters, then others, in batches.
fn batches(asked: &[Asked], most: usize) -> impl Iterator<Item = &[Asked]> {
    let short = asked.partition_point(|asked| asked.codes.len() <= SHORT);
    let (short, long) = asked.split_at(short);
    let most = most.max(1);
    short.chunks(most).chain(long.chunks(most))
}

impl WordEngine {
    /// `None` if the GPU cannot answer the query.
    fn asked(&self, query: u32, text: &str, radius: u32) -> Option<Asked> {
        let codes = self.alphabet.encode_query(text, LONGEST)?;
        let set = set_of(&codes);
        Some(Asked { query, codes, set, radius })
    }

    fn queries_of_batch(&self, lane: &Lane, queries: usize, room: u32) -> Result<usize, GpuError> {
        // To ask for free memory takes longer than a few queries; one needs none.
        if is_alone(queries, room) {
            return Ok(1);
        }
        if lane.buffer.len() / 4 >= queries * (room as usize + LONGEST) {
            return Ok(BATCH.min(MOST_FOUND / room as usize));
        }
        let free = self.device.free()? + lane.buffer.len() * 4;
        Ok((free / 2 / (room as usize * 8)).min(BATCH).min(MOST_FOUND / room as usize))
    }

    /// The radii with which queries find k words; returns the greatest number of words that one finds.
    fn widen(
        &self,
        lane: &mut Lane,
        asked: &mut [Asked],
        k: usize,
        found: &mut Found,
    ) -> Result<u32, GpuError> {
        let failed = self.device.doing("counting distances").failed();
        let bins = (self.longest.max(64) + 2).min(MOST_BINS);
        let mut most = 0;
        let there = self.pack(lane, asked, 0)?;
        let Lane { stream, start, end, .. } = lane;
        let length = asked.len() * bins as usize;
        let mut histograms = stream.alloc_zeros(length).map_err(&failed)?;
        start.record(stream).map_err(&failed)?;
        launch::distances(&self.kernels, stream, &self.words, &there, (&mut histograms, bins))
            .map_err(&failed)?;
        end.record(stream).map_err(&failed)?;
        let histograms = stream.clone_dtoh(&histograms).map_err(&failed)?;
        for (asked, histogram) in asked.iter_mut().zip(histograms.chunks(bins as usize)) {
            let mut below = 0;
            let reached = histogram.iter().position(|&count| {
                below += count;
                below as usize >= k
            });
            // The last bin is of all greater distances.
            asked.radius = match reached.and_then(|radius| u32::try_from(radius).ok()) {
                Some(radius) if radius + 1 < bins => radius,
                _ => FARTHEST,
            };
            most = most.max(below);
        }
        found.milliseconds += f64::from(start.elapsed_ms(end).map_err(&failed)?);
        Ok(most)
    }

    /// Copies queries to the GPU, and zeros for the numbers of words that they find.
    fn pack(&self, lane: &mut Lane, asked: &[Asked], room: u32) -> Result<Queries, GpuError> {
        let failed = self.device.doing("copying queries to it").failed();
        let characters: usize = asked.iter().map(|asked| asked.codes.len()).sum();
        let found_at = Queries::found_at(asked.len(), characters);
        let packed = lane.packed.get(found_at)?;
        packed.fill(0);
        let (numbers, codes) = packed.split_at_mut(3 * asked.len());
        let (ends, rest) = numbers.split_at_mut(asked.len());
        let (sets, radii) = rest.split_at_mut(asked.len());
        let codes: &mut [u8] = bytemuck::cast_slice_mut(codes);
        let mut end = 0;
        for (at, asked) in asked.iter().enumerate() {
            codes[end..end + asked.codes.len()].copy_from_slice(&asked.codes);
            end += asked.codes.len();
            ends[at] = u32::try_from(end).expect("a batch");
            sets[at] = asked.set;
            radii[at] = asked.radius.min(FARTHEST);
        }
        let words = found_at + 2 * asked.len() * room as usize;
        let Lane { stream, buffer, .. } = lane;
        if buffer.len() < words {
            // A large buffer is as large as was planned, and never beside the one before.
            let length = if words < 1 << 24 { words.next_power_of_two() } else { words };
            *buffer = stream.alloc_zeros(1).map_err(&failed)?;
            *buffer = stream.alloc_zeros(length).map_err(&failed)?;
        }
        stream.memcpy_htod(&*packed, &mut buffer.slice_mut(..found_at)).map_err(&failed)?;
        let is_short = asked.iter().all(|asked| asked.codes.len() <= SHORT);
        Ok(Queries::new(stream, buffer, (asked.len(), characters), room, is_short))
    }

    /// Asks one query: gives how many words it has found, and adds its answer if these are enough and not too many. A launch is
    /// all that is waited for.
    fn alone(
        &self,
        lane: &mut Lane,
        asked: &Asked,
        first: u32,
        k: Option<usize>,
        found: &mut Found,
    ) -> Result<u32, GpuError> {
        let failed = self.device.doing("answering a query").failed();
        let length = u32::try_from(asked.codes.len()).expect("up to 64 characters");
        let mut query =
            OneQuery { codes: [0; 64], length, set: asked.set, radius: asked.radius.min(FARTHEST) };
        query.codes[..asked.codes.len()].copy_from_slice(&asked.codes);
        let Lane { stream, answer, state, .. } = lane;
        let answer = answer.get(1 + LEAST_ROOM as usize)?;
        launch::within_one(&self.kernels, stream, &self.words, &query, state, answer)
            .map_err(&failed)?;
        let count = launch::wait(stream, answer).map_err(&failed)?;
        let written = &mut answer[..=count.min(LEAST_ROOM) as usize];
        let is_answered = count <= LEAST_ROOM && k.is_none_or(|k| count as usize >= k);
        if is_answered {
            // As numbers, which are in the order of neighbors.
            written[1..].sort_unstable();
            let near = Neighbor::from_keys(&written[1..]);
            let near = &near[..near.len().min(k.unwrap_or(usize::MAX))];
            found.add((asked.query - first) as usize, near);
        }
        written.fill(launch::UNWRITTEN);
        Ok(count)
    }

    /// Asks some queries; gives how many words each has found. Those with enough and not too many are answered.
    fn batch(
        &self,
        lane: &mut Lane,
        asked: &[Asked],
        room: u32,
        first: u32,
        k: Option<usize>,
        found: &mut Found,
    ) -> Result<Vec<u32>, GpuError> {
        let failed = self.device.doing("answering queries").failed();
        if is_alone(asked.len(), room) {
            return Ok(vec![self.alone(lane, &asked[0], first, k, found)?]);
        }
        let queries = self.pack(lane, asked, room)?;
        let Lane { stream, start, end, buffer, neighbors, .. } = lane;
        let is_few = asked.len() <= FEW;
        if !is_few {
            start.record(stream).map_err(&failed)?;
        }
        launch::within(&self.kernels, stream, &self.words, &queries).map_err(&failed)?;
        // The numbers of words, and, of few queries, the words.
        let characters: usize = asked.iter().map(|asked| asked.codes.len()).sum();
        let counts_at = Queries::counts_at(asked.len(), characters);
        let found_at = Queries::found_at(asked.len(), characters);
        let words = if is_few { 2 * asked.len() * room as usize } else { 0 };
        // In words of 64 bits.
        let here = neighbors.get((found_at - counts_at + words).div_ceil(2))?;
        let here: &mut [u32] = bytemuck::cast_slice_mut(here);
        stream.memcpy_dtoh(&buffer.slice(counts_at..found_at + words), here).map_err(&failed)?;
        stream.synchronize().map_err(&failed)?;
        let counts = here[..asked.len()].to_vec();
        let is_answered = |count: u32| count <= room && k.is_none_or(|k| count as usize >= k);
        let most = k.unwrap_or(usize::MAX);
        let place = |asked: &Asked| (asked.query - first) as usize;
        if is_few {
            let keys: &mut [u64] = bytemuck::cast_slice_mut(&mut here[found_at - counts_at..]);
            let lists = keys.chunks_mut(room as usize);
            for ((asked, &count), keys) in asked.iter().zip(&counts).zip(lists) {
                if is_answered(count) {
                    let keys = &mut keys[..count as usize];
                    keys.sort_unstable();
                    let near = &Neighbor::from_keys(keys)[..keys.len().min(most)];
                    found.add(place(asked), near);
                }
            }
            return Ok(counts);
        }
        let mut length = 0;
        let ends = counts.iter().map(|&count| {
            length += if is_answered(count) { count } else { 0 };
            length
        });
        let ends: Vec<u32> = ends.collect();
        let there = stream.clone_htod(&ends).map_err(&failed)?;
        let mut gathered = stream.alloc_zeros(length.max(1) as usize).map_err(&failed)?;
        let of = (queries.found(), room);
        super::launch::gather(
            &self.kernels.gather,
            stream,
            of,
            &there,
            queries.count,
            &mut gathered,
        )
        .map_err(&failed)?;
        end.record(stream).map_err(&failed)?;
        let keys = neighbors.get(length.max(1) as usize)?;
        stream.memcpy_dtoh(&gathered, keys).map_err(&failed)?;
        stream.synchronize().map_err(&failed)?;
        let start_of_lists = found.add_array(Neighbor::from_keys(&keys[..length as usize]));
        let mut from = start_of_lists;
        for ((asked, &count), &end) in asked.iter().zip(&counts).zip(&ends) {
            let end = start_of_lists + end as usize;
            if is_answered(count) {
                if end - from > super::launch::SORTED as usize {
                    found.neighbors_mut(from..end).sort_unstable();
                }
                found.place(place(asked), from..end.min(from.saturating_add(most)));
            }
            from = end;
        }
        found.milliseconds += f64::from(start.elapsed_ms(end).map_err(&failed)?);
        Ok(counts)
    }
}
