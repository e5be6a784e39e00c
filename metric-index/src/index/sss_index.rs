//! SSS-Index (Pedreira & Brisaboa 2007; Barrientos 2011, section 2.2.3.3, algorithms 3 and 4).

use multiversion::multiversion;
use rayon::prelude::*;

use super::{Index, Probe, Task, between, check};
use crate::array::Array;
use crate::collector::Collector;
use crate::error::Error;
use crate::metric::Metric;
use crate::points::Points;
use crate::prune::Bounds;
use crate::stored::{Once, Parts, Reader, StoreProblem, Stored, invalid};

/// Which points are pivots.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pivots {
    /// Each point that is at least this share (0 to 1; 0 makes every point a pivot) of the greatest distance
    /// away from all earlier pivots; around 0.4 in the literature. The greatest distance is estimated: of the
    /// point that is farthest from the first, from the one that is farthest from it.
    Spread(f32),
    /// So many, each the farthest from all earlier ones.
    Count(u32),
}

/// Points of a task.
const BLOCK: usize = 512;
/// The highest code of a distance.
const HIGHEST: f32 = 65_535.0;

/// A table of the distances of all points from some of them, the pivots.
///
/// The distances are kept as 16-bit codes, rounded down: whole numbers up to 65,535 exactly, others to a
/// 32,768th of the greatest and better. Blocks of points are compared with a pivot at a time, as many as
/// the machine has lanes.
///
/// ```
/// use metric_index::index::{Index, Pivots, SssIndex};
/// use metric_index::metric::Edit;
/// use metric_index::points::Strings;
///
/// let words: Strings = ["casa", "cosa", "caso", "pez"].into_iter().collect();
/// let index = SssIndex::build(words, Edit, Pivots::Spread(0.4))?;
/// assert_eq!(index.within("masa", 1.0)?[0].point, 0);
/// # Ok::<(), metric_index::error::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct SssIndex<S, M> {
    points: S,
    metric: M,
    bounds: Bounds,
    pivots: Vec<u32>,
    /// The same, rising.
    sorted: Vec<u32>,
    /// A code is a distance times this power of two.
    scale: f32,
    /// The codes of the points of block b for pivot p begin at `(b * pivots + p) * BLOCK`.
    codes: Array<u16>,
}

impl<S: Points, M: Metric<S::Point>> SssIndex<S, M> {
    /// Chooses pivots and fills the table: n distances for each pivot, twice.
    ///
    /// # Errors
    /// If a point has no distance of 0 from itself or none from a pivot, or the share is not 0 to 1.
    pub fn build(points: S, metric: M, pivots: Pivots) -> Result<Self, Error> {
        let count = check(&points, &metric)?;
        let all: Vec<u32> = (0..count).collect();
        let pivots = match pivots {
            Pivots::Spread(share) => spread(&points, &metric, &all, share)?,
            Pivots::Count(most) => farthest_first(&points, &metric, count, most)?,
        };
        let greatest = pivots.par_iter().map(|&pivot| {
            all.iter().try_fold(0.0f32, |most, &point| {
                between(&points, &metric, pivot, point).map(|distance| most.max(distance))
            })
        });
        let greatest = greatest.try_reduce(|| 0.0, |a, b| Ok(a.max(b)))?;
        let scale = scale(greatest);
        let mut codes = vec![0; all.len().div_ceil(BLOCK) * pivots.len() * BLOCK];
        let blocks = codes.par_chunks_mut(pivots.len().max(1) * BLOCK).zip(all.par_chunks(BLOCK));
        blocks.try_for_each(|(codes, block)| {
            for (column, &pivot) in codes.chunks_mut(BLOCK).zip(&pivots) {
                for (code, &point) in column.iter_mut().zip(block) {
                    *code = code_of(between(&points, &metric, pivot, point)?, scale);
                }
            }
            Ok::<(), Error>(())
        })?;
        let mut sorted = pivots.clone();
        sorted.sort_unstable();
        let codes = codes.into();
        Ok(Self { bounds: Bounds::of(&metric), points, metric, pivots, sorted, scale, codes })
    }

    /// The pivots.
    pub fn pivots(&self) -> &[u32] {
        &self.pivots
    }
}

/// The greatest power of two by which no distance is above the highest code: products with it are exact.
fn scale(greatest: f32) -> f32 {
    let mut scale = 2f32.powi(100);
    while greatest * scale > HIGHEST {
        scale /= 2.0;
    }
    scale
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within 0 and HIGHEST")]
fn code_of(distance: f32, scale: f32) -> u16 {
    (distance * scale) as u16
}

/// The codes of points that are not excluded: from the first to the second. A code stands for all distances
/// that are rounded down to it.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within 0 and HIGHEST")]
fn codes_between((below, above): (f32, f32), scale: f32) -> Option<(u16, u16)> {
    let (scale, highest) = (f64::from(scale), f64::from(HIGHEST));
    let first = (f64::from(below).max(0.0) * scale).floor();
    let last = (f64::from(above) * scale).ceil() - 1.0;
    (first <= highest && first <= last).then(|| (first as u16, last.min(highest) as u16))
}

/// Keeps those marks whose code is among `first` to `last`; whether there is one.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2", "aarch64+neon"))]
fn keep(marks: &mut [u16; BLOCK], codes: &[u16; BLOCK], first: u16, last: u16) -> bool {
    let mut any = 0;
    for (mark, &code) in marks.iter_mut().zip(codes) {
        *mark &= if code.wrapping_sub(first) <= last - first { u16::MAX } else { 0 };
        any |= *mark;
    }
    any != 0
}

/// Algorithm 3: the first point, and each that is at least `share` of the greatest distance away from all
/// earlier pivots.
pub(super) fn spread<S: Points, M: Metric<S::Point>>(
    points: &S,
    metric: &M,
    among: &[u32],
    share: f32,
) -> Result<Vec<u32>, Error> {
    if !(0.0..=1.0).contains(&share) {
        return Err(Error::Share { share });
    }
    let Some(&first) = among.first() else { return Ok(Vec::new()) };
    let farthest = |from: u32| -> Result<(f32, u32), Error> {
        let mut best = (0.0, from);
        for &point in among {
            let distance = between(points, metric, from, point)?;
            if distance > best.0 {
                best = (distance, point);
            }
        }
        Ok(best)
    };
    let (greatest, _) = farthest(farthest(first)?.1)?;
    let apart = greatest * share;
    let mut pivots = vec![first];
    if greatest == 0.0 {
        // All are the same point.
        return Ok(pivots);
    }
    for &point in &among[1..] {
        let mut is_apart = true;
        for &pivot in &pivots {
            is_apart &= metric
                .distance_within(points.point(pivot), points.point(point), apart)
                .is_none_or(|d| d >= apart);
            if !is_apart {
                break;
            }
        }
        if is_apart {
            pivots.push(point);
        }
    }
    Ok(pivots)
}

fn farthest_first<S: Points, M: Metric<S::Point>>(
    points: &S,
    metric: &M,
    count: u32,
    most: u32,
) -> Result<Vec<u32>, Error> {
    let mut nearest = vec![f32::INFINITY; count as usize];
    let mut pivots: Vec<u32> = Vec::new();
    while pivots.len() < most.min(count) as usize {
        let farther = |&a: &u32, &b: &u32| {
            nearest[a as usize].total_cmp(&nearest[b as usize]).then(b.cmp(&a))
        };
        let Some(pivot) = (0..count).filter(|point| !pivots.contains(point)).max_by(farther) else {
            break;
        };
        pivots.push(pivot);
        for point in 0..count {
            let distance = between(points, metric, pivot, point)?;
            nearest[point as usize] = nearest[point as usize].min(distance);
        }
    }
    Ok(pivots)
}

impl<S: Points, M: Metric<S::Point>> Index for SssIndex<S, M> {
    type Points = S;
    type Metric = M;

    fn points(&self) -> &S {
        &self.points
    }

    fn metric(&self) -> &M {
        &self.metric
    }

    /// The distances from the pivots; a task a block of points.
    fn start<C: Collector>(
        &self,
        probe: &mut Probe<'_, S, M, C>,
        tasks: &mut Vec<Task>,
    ) -> Box<[f32]> {
        let distances = self.pivots.iter().map(|&pivot| probe.visit(pivot)).collect();
        #[expect(clippy::cast_possible_truncation, reason = "checked when it was built")]
        let blocks = self.points.len().div_ceil(BLOCK) as u32;
        tasks.extend((0..blocks).rev().map(|region| Task::new(region, 0.0, 0.0)));
        distances
    }

    fn step<C: Collector>(
        &self,
        task: Task,
        shared: &[f32],
        probe: &mut Probe<'_, S, M, C>,
        tasks: &mut Vec<Task>,
    ) {
        let start = task.region as usize * BLOCK;
        let size = BLOCK.min(self.points.len() - start);
        let mut marks = [0; BLOCK];
        marks[task.at as usize..size].fill(u16::MAX);
        // The radius may shrink within the block: then this excludes a little less than it could.
        let radius = probe.radius();
        let (columns, _) = self.codes[start * shared.len()..].as_chunks::<BLOCK>();
        for (&distance, codes) in shared.iter().zip(columns) {
            let left = codes_between(self.bounds.excluded(distance, radius), self.scale);
            if !left.is_some_and(|(first, last)| keep(&mut marks, codes, first, last)) {
                return;
            }
        }
        #[expect(clippy::cast_possible_truncation, reason = "checked when it was built")]
        for (point, at) in (start as u32..).zip(0..size as u32) {
            // A pivot was offered when the search began.
            if marks[at as usize] == 0 || self.sorted.binary_search(&point).is_ok() {
                continue;
            }
            if probe.is_tired() {
                tasks.push(Task { at, ..task });
                return;
            }
            probe.visit_within(point);
        }
    }
}

impl<S: Points, M: Metric<S::Point>> Stored for SssIndex<S, M> {
    fn name(&self) -> &'static str {
        "sss-index"
    }

    fn reads(name: &str) -> bool {
        name == "sss-index"
    }

    fn write<'a>(&'a self, parts: &mut Parts<'a>) {
        parts.array("pivots", &self.pivots);
        parts.array("table.codes", &self.codes);
        parts.number("scale", u64::from(self.scale.to_bits()));
    }

    fn read(file: &mut Reader, _: &str, points: S, metric: M) -> Result<Self, StoreProblem> {
        let pivots = file.array::<u32>("pivots")?.to_vec();
        let mut once = Once::of("pivots", points.len());
        pivots.iter().try_for_each(|&pivot| once.check(pivot))?;
        let count = points.len().div_ceil(BLOCK) * pivots.len() * BLOCK;
        let codes = file.array_of("table.codes", count)?;
        let scale = f32::from_bits(file.small("scale")?);
        if !scale.is_normal() || scale < 0.0 || scale.to_bits() & 0x7F_FFFF != 0 {
            return Err(invalid("settings", format!("scale {scale} is no power of two")));
        }
        let mut sorted = pivots.clone();
        sorted.sort_unstable();
        Ok(Self { bounds: Bounds::of(&metric), points, metric, pivots, sorted, scale, codes })
    }
}
