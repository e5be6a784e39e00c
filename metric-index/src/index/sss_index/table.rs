//! The table of distances from pivots, with a tree of bounding boxes over its rows.

use multiversion::multiversion;

use crate::prune::Bounds;
use array_file::array::Array;

/// Number of points per block.
pub(super) const POINTS_PER_BLOCK: usize = 64;
/// Maximum number of blocks or groups per group.
const FAN_OUT: usize = 8;
/// The maximum code of a distance.
const MAX_CODE: f32 = 65_535.0;

/// The distances from points to pivots, as codes. A query can exclude many points at once by the
/// bounding boxes of blocks of points, groups of blocks and larger groups.
///
/// The regions of a table are its blocks, followed by its groups from the lowest to the highest
/// level.
#[derive(Debug, Clone)]
pub(super) struct Table {
    pivots: usize,
    /// The scale, a power of two. A code is a distance multiplied by the scale, rounded down.
    scale: f32,
    /// The points in the order of the table. Block b begins at `b * POINTS_PER_BLOCK`. Nearby
    /// points are adjacent.
    order: Array<u32>,
    /// The codes of the points of block b for pivot p begin at
    /// `(b * pivots + p) * POINTS_PER_BLOCK`.
    codes: Array<u16>,
    groups: Vec<Group>,
    /// The minimum and maximum codes of the members of group g for pivot p are at `g * pivots + p`.
    boxes: Vec<Boxes>,
}

#[derive(Debug, Clone, Copy)]
struct Group {
    /// The first member, a region.
    first: u32,
    /// The number of members, which are consecutive regions.
    count: u32,
}

#[derive(Debug, Clone, Copy)]
struct Boxes {
    low: [u16; FAN_OUT],
    high: [u16; FAN_OUT],
}

/// The distances from a query to the pivots.
#[derive(Clone, Copy)]
pub(super) struct PivotDistances<'a> {
    distances: &'a [f32],
    /// Upper bound on the distances from the query and all points to the pivots.
    greatest: f32,
}

impl<'a> PivotDistances<'a> {
    /// Reads the data that [`Table::shared`] returned.
    pub(super) fn of(shared: &'a [f32]) -> Self {
        let (greatest, distances) = shared.split_last().map_or((0.0, shared), |(g, d)| (*g, d));
        Self { distances, greatest }
    }

    /// Returns the margin by which two distances from a pivot must differ to exclude a point.
    pub(super) fn margin(self, radius: f32, bounds: Bounds) -> f64 {
        bounds.margin(radius, self.greatest)
    }
}

impl Table {
    /// Creates a table of the points in `order`, which it rearranges. `distances` contains the
    /// distances from all points to each pivot.
    pub(super) fn new(mut order: Vec<u32>, distances: &[Vec<f32>]) -> Self {
        arrange(&mut order, distances);
        for block in order.chunks_mut(POINTS_PER_BLOCK) {
            block.sort_unstable();
        }
        let greatest = distances.iter().flatten().fold(0.0f32, |max, &distance| max.max(distance));
        let scale = scale(greatest);
        let mut codes =
            vec![0; order.len().div_ceil(POINTS_PER_BLOCK) * distances.len() * POINTS_PER_BLOCK];
        let blocks = codes
            .chunks_mut(distances.len().max(1) * POINTS_PER_BLOCK)
            .zip(order.chunks(POINTS_PER_BLOCK));
        for (codes, block) in blocks {
            for (column, distances) in codes.chunks_mut(POINTS_PER_BLOCK).zip(distances) {
                for (code, &point) in column.iter_mut().zip(block) {
                    *code = code_of(distances[point as usize], scale);
                }
            }
        }
        Self::of_codes(distances.len(), scale, order.into(), codes.into())
    }

    /// Creates a table from codes, and computes its boxes. The last block of `codes` must be padded
    /// to a whole block.
    pub(super) fn of_codes(
        pivots: usize,
        scale: f32,
        order: Array<u32>,
        codes: Array<u16>,
    ) -> Self {
        let mut table = Self { pivots, scale, order, codes, groups: Vec::new(), boxes: Vec::new() };
        let blocks = table.order.len().div_ceil(POINTS_PER_BLOCK);
        // The first region of the current level and the number of its regions.
        let mut first = 0;
        let mut count = blocks;
        while count > 1 || (count == 1 && table.groups.is_empty()) {
            for start in (first..first + count).step_by(FAN_OUT) {
                let members = start..(start + FAN_OUT).min(first + count);
                for pivot in 0..pivots {
                    let mut boxes = Boxes { low: [u16::MAX; FAN_OUT], high: [0; FAN_OUT] };
                    for (index, member) in members.clone().enumerate() {
                        (boxes.low[index], boxes.high[index]) = table.code_range(member, pivot);
                    }
                    table.boxes.push(boxes);
                }
                let group = Group { first: number(start), count: number(members.len()) };
                table.groups.push(group);
            }
            first += count;
            count = count.div_ceil(FAN_OUT);
        }
        table
    }

    /// Returns the minimum and maximum code of a region for a pivot.
    fn code_range(&self, region: usize, pivot: usize) -> (u16, u16) {
        let blocks = self.order.len().div_ceil(POINTS_PER_BLOCK);
        if let Some(group) = region.checked_sub(blocks) {
            let Boxes { low, high } = self.boxes[group * self.pivots + pivot];
            let min = low.into_iter().fold(u16::MAX, u16::min);
            return (min, high.into_iter().fold(0, u16::max));
        }
        let start = (region * self.pivots + pivot) * POINTS_PER_BLOCK;
        let codes = &self.codes[start..start + self.block(number(region)).map_or(0, <[u32]>::len)];
        let min = codes.iter().fold(u16::MAX, |min, &code| min.min(code));
        (min, codes.iter().fold(0, |max, &code| max.max(code)))
    }

    /// Returns the number of blocks and groups.
    pub(super) fn regions(&self) -> usize {
        self.order.len().div_ceil(POINTS_PER_BLOCK) + self.groups.len()
    }

    /// Returns the points of a block; `None` if the region is a group.
    pub(super) fn block(&self, region: u32) -> Option<&[u32]> {
        let start = region as usize * POINTS_PER_BLOCK;
        let points = self.order.get(start..(start + POINTS_PER_BLOCK).min(self.order.len()))?;
        (!points.is_empty()).then_some(points)
    }

    /// Returns the shared data of a query's tasks: the distances from the query to the pivots, then
    /// [`PivotDistances::greatest`].
    pub(super) fn shared(&self, distances: impl Iterator<Item = f32>) -> Box<[f32]> {
        let mut greatest = MAX_CODE / self.scale;
        let mut shared: Vec<f32> = Vec::with_capacity(self.pivots + 1);
        shared.extend(distances.inspect(|&distance| greatest = greatest.max(distance)));
        shared.push(greatest);
        shared.into()
    }

    /// Iterates over the members of a group, each with a lower bound on the distances from the
    /// query to its points.
    pub(super) fn members(
        &self,
        region: u32,
        query: PivotDistances<'_>,
        bounds: Bounds,
    ) -> impl Iterator<Item = (u32, f32)> + use<> {
        let group = region as usize - self.order.len().div_ceil(POINTS_PER_BLOCK);
        let boxes = &self.boxes[group * self.pivots..(group + 1) * self.pivots];
        let code_bounds = box_bounds(boxes, query.distances, self.scale);
        let Group { first, count } = self.groups[group];
        let scale = self.scale;
        let greatest = query.greatest;
        (first..first + count)
            .zip(code_bounds)
            .map(move |(member, bound)| (member, bounds.gap_of(bound / scale, greatest)))
    }

    /// Marks the points of a block that the pivots do not exclude, beginning at position `from`.
    /// Returns whether any point is marked.
    pub(super) fn mark_candidates(
        &self,
        region: u32,
        from: u32,
        query: PivotDistances<'_>,
        margin: f64,
        marks: &mut [u16; POINTS_PER_BLOCK],
    ) -> bool {
        let count = self.block(region).map_or(0, <[u32]>::len);
        marks[from as usize..count].fill(u16::MAX);
        let start = region as usize * self.pivots * POINTS_PER_BLOCK;
        let (columns, _) = self.codes[start..start + self.pivots * POINTS_PER_BLOCK].as_chunks();
        clear_excluded(marks, columns, query.distances, f64::from(self.scale), margin)
    }

    pub(super) fn scale(&self) -> f32 {
        self.scale
    }

    pub(super) fn order(&self) -> &Array<u32> {
        &self.order
    }

    pub(super) fn codes(&self) -> &Array<u16> {
        &self.codes
    }
}

pub(super) fn number(n: usize) -> u32 {
    u32::try_from(n).expect("fewer than 2^32 points and regions")
}

/// Rearranges points so that points with similar distances from the pivots are adjacent. Splits
/// them recursively at the median distance from the pivot whose distances vary most. The first part
/// of a split has a power-of-two number of blocks, so that each group is one of the parts.
fn arrange(order: &mut [u32], distances: &[Vec<f32>]) {
    let blocks = order.len().div_ceil(POINTS_PER_BLOCK);
    if blocks <= 1 {
        return;
    }
    let variance = |pivot: usize| {
        let sample = order.iter().step_by((order.len() / 256).max(1));
        let mut count = 0.0;
        let mut sum = 0.0;
        let mut squares = 0.0;
        for distance in sample.map(|&point| f64::from(distances[pivot][point as usize])) {
            count += 1.0;
            sum += distance;
            squares += distance * distance;
        }
        squares / count - (sum / count) * (sum / count)
    };
    let variances: Vec<f64> = (0..distances.len()).map(variance).collect();
    let widest = (0..distances.len()).max_by(|&a, &b| variances[a].total_cmp(&variances[b]));
    let Some(pivot) = widest else { return };
    let from = |point: u32| distances[pivot][point as usize];
    let half = blocks.next_power_of_two() / 2 * POINTS_PER_BLOCK;
    order.select_nth_unstable_by(half, |&a, &b| from(a).total_cmp(&from(b)).then(a.cmp(&b)));
    let (near, far) = order.split_at_mut(half);
    rayon::join(|| arrange(near, distances), || arrange(far, distances));
}

/// Returns the greatest power of two, up to 2^100, that scales all distances to at most
/// [`MAX_CODE`]. Scaling by a power of two is exact.
fn scale(greatest: f32) -> f32 {
    let mut scale = f32::from_bits((127 + 100) << 23);
    while greatest * scale > MAX_CODE {
        scale /= 2.0;
    }
    scale
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between 0 and MAX_CODE"
)]
fn code_of(distance: f32, scale: f32) -> u16 {
    (distance * scale) as u16
}

/// Returns a lower bound on the distance from a query to each box, in units of codes. The bound is
/// the maximum, over all pivots, of the distance from the nearer end of the box. A code represents
/// all distances that are rounded down to it.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2", "aarch64+neon"))]
fn box_bounds(boxes: &[Boxes], distances: &[f32], scale: f32) -> [f32; FAN_OUT] {
    let mut bounds = [0.0f32; FAN_OUT];
    for (boxes, distance) in boxes.iter().zip(distances) {
        let scaled = distance * scale;
        for ((bound, &low), &high) in bounds.iter_mut().zip(&boxes.low).zip(&boxes.high) {
            let below = f32::from(low) - scaled;
            let above = scaled - (f32::from(high) + 1.0);
            let outside = if below > above { below } else { above };
            *bound = if outside > *bound { outside } else { *bound };
        }
    }
    bounds
}

/// Removes the marks of points whose codes are outside the margin of the query's distances. Returns
/// whether any mark is left.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2", "aarch64+neon"))]
fn clear_excluded(
    marks: &mut [u16; POINTS_PER_BLOCK],
    columns: &[[u16; POINTS_PER_BLOCK]],
    distances: &[f32],
    scale: f64,
    margin: f64,
) -> bool {
    for (codes, &distance) in columns.iter().zip(distances) {
        let scaled = f64::from(distance) * scale;
        let margin = margin * scale;
        // The cast rounds down and saturates, so larger values become the maximum code.
        let first = (scaled - margin) as u16;
        let last = (scaled + margin) as u16;
        let mut any = 0;
        for (mark, &code) in marks.iter_mut().zip(codes) {
            *mark &= if code.wrapping_sub(first) <= last - first { u16::MAX } else { 0 };
            any |= *mark;
        }
        if any == 0 {
            return false;
        }
    }
    marks.iter().any(|&mark| mark != 0)
}
