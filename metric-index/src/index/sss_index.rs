//! SSS-Index, with Sparse Spatial Selection of pivots (Pedreira & Brisaboa 2007; Barrientos 2011,
//! section 2.2.3.3, algorithms 3 and 4).

use rayon::prelude::*;

use super::{
    Pivots, PointBlocks, PointIndex, Probe, Progress, Space, Structure, Task, nearest_last,
    of_kind, select_pivots,
};
use crate::collector::Collector;
use crate::error::Error;
use crate::metric::{Blocks, Metric};
use crate::points::Points;
use crate::stored::{DistinctNumbers, FileContents, Reader, StoreProblem, invalid};

use table::{POINTS_PER_BLOCK, PivotDistances, Table, number};

mod table;

/// A table of the distances from all points to the pivots, which are themselves points of the
/// index.
///
/// Distances are stored as 16-bit codes, rounded down. Integers up to 65,535 are exact; other
/// distances have a precision of at least 1/32,767 of the greatest distance.
///
/// The paper scans the table row by row. Here, similar rows are adjacent, with bounding boxes of
/// their codes, so that many rows can be excluded at once. The same distances are evaluated.
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
pub type SssIndex<S, M> = PointIndex<S, M, PivotTable<S>>;

/// The pivots and the table of an [`SssIndex`].
#[derive(Debug, Clone)]
pub struct PivotTable<S: Points> {
    pivots: Vec<u32>,
    /// The distances of all points except the pivots.
    table: Table,
    blocks: PointBlocks<S>,
}

impl<S: Points, M: Metric<S::Point>> SssIndex<S, M> {
    /// Chooses pivots and fills the table. Evaluates n distances per pivot, and as many again for
    /// [`Pivots::Spread`]. Building requires 4 bytes of memory per point and pivot.
    ///
    /// # Errors
    /// Fails if the distance from a point to itself is not 0, if a distance from a pivot is not
    /// finite, or if the share is not between 0 and 1.
    pub fn build(points: S, metric: M, pivots: Pivots) -> Result<Self, Error> {
        Self::build_with(points, metric, pivots, &Progress::none())
    }

    /// Returns the pivots.
    ///
    /// ```
    /// use metric_index::index::{Pivots, SssIndex};
    /// use metric_index::metric::Edit;
    /// use metric_index::points::Strings;
    ///
    /// let words: Strings = ["casa", "cosa", "caso", "pez"].into_iter().collect();
    /// assert_eq!(SssIndex::build(words, Edit, Pivots::Count(2))?.pivots(), [0, 3]);
    /// # Ok::<(), metric_index::error::Error>(())
    /// ```
    pub fn pivots(&self) -> &[u32] {
        &self.structure.pivots
    }
}

/// Returns the amount of work in part `part` of `parts`. The amounts of all parts add up to `all`.
fn work_of_part(all: u32, part: usize, parts: usize) -> u64 {
    let end = |part: usize| u64::from(all) * part as u64 / parts as u64;
    end(part + 1) - end(part)
}

/// Computes the distances from one point to all points.
fn compute_column<S: Points, M: Metric<S::Point>>(
    space: &Space<S, M>,
    from: u32,
) -> Result<Vec<f32>, Error> {
    let from = space.origin(from);
    let mut distances = vec![0.0; space.points.len()];
    distances.par_iter_mut().with_min_len(256).enumerate().try_for_each(|(point, distance)| {
        *distance = from.to(u32::try_from(point).expect("fewer than 2^32 points"))?;
        Ok(())
    })?;
    Ok(distances)
}

/// Chooses pivots by farthest-first traversal. Also returns the distances from all points to each
/// pivot.
fn farthest_first<S: Points, M: Metric<S::Point>>(
    space: &Space<S, M>,
    pivots: u32,
    progress: &Progress<'_>,
) -> Result<(Vec<u32>, Vec<Vec<f32>>), Error> {
    let count = space.count();
    let pivot_count = pivots.min(count) as usize;
    let mut nearest = vec![f32::INFINITY; count as usize];
    let mut pivots: Vec<u32> = Vec::new();
    let mut columns = Vec::new();
    while pivots.len() < pivot_count {
        let farther = |&a: &u32, &b: &u32| {
            nearest[a as usize].total_cmp(&nearest[b as usize]).then(b.cmp(&a))
        };
        let Some(pivot) = (0..count).filter(|point| !pivots.contains(point)).max_by(farther) else {
            break;
        };
        let column = compute_column(space, pivot)?;
        for (nearest, &distance) in nearest.iter_mut().zip(&column) {
            *nearest = nearest.min(distance);
        }
        progress.add(work_of_part(count, pivots.len(), pivot_count));
        pivots.push(pivot);
        columns.push(column);
    }
    if pivot_count == 0 {
        progress.add(u64::from(count));
    }
    Ok((pivots, columns))
}

impl<S: Points, M: Metric<S::Point>> Structure<S, M> for PivotTable<S> {
    of_kind!(SssIndex(Pivots));

    fn build(
        space: &Space<S, M>,
        requested: Pivots,
        progress: &Progress<'_>,
    ) -> Result<Self, Error> {
        let count = space.count();
        let all = space.numbers();
        let (pivots, columns) = match requested {
            Pivots::Spread(share) => {
                // Half of the work is choosing pivots; the other half is computing columns.
                progress.begin(2 * u64::from(count));
                let pivots = select_pivots(space, &all, share, progress)?;
                let mut columns = Vec::with_capacity(pivots.len());
                for (index, &pivot) in pivots.iter().enumerate() {
                    columns.push(compute_column(space, pivot)?);
                    progress.add(work_of_part(count, index, pivots.len()));
                }
                (pivots, columns)
            }
            Pivots::Count(pivots) => {
                progress.begin(u64::from(count));
                farthest_first(space, pivots, progress)?
            }
        };
        let mut is_pivot = vec![false; all.len()];
        for &pivot in &pivots {
            is_pivot[pivot as usize] = true;
        }
        let others = all.into_iter().filter(|&point| !is_pivot[point as usize]).collect();
        let table = Table::new(others, &columns);
        let blocks = PointBlocks::new(space, table.order());
        Ok(Self { pivots, table, blocks })
    }

    /// Returns the number of blocks and groups of the table.
    fn nodes(&self) -> usize {
        self.table.regions()
    }

    fn blocks(&self, _: &Space<S, M>) -> Option<&dyn Blocks<S::Point>> {
        self.blocks.get()
    }

    /// Computes the distances from the pivots. A task is a block or a group of blocks.
    fn start<C: Collector>(
        &self,
        probe: &mut Probe<'_, S, M, C>,
        tasks: &mut Vec<Task>,
    ) -> Box<[f32]> {
        let highest = self.table.regions().checked_sub(1).and_then(|last| u32::try_from(last).ok());
        tasks.extend(highest.map(|region| Task::new(region, 0.0, 0.0)));
        self.table.shared(self.pivots.iter().map(|&pivot| probe.visit(pivot)))
    }

    fn step<C: Collector>(
        &self,
        space: &Space<S, M>,
        task: Task,
        shared: &[f32],
        probe: &mut Probe<'_, S, M, C>,
        tasks: &mut Vec<Task>,
    ) {
        let query = PivotDistances::of(shared);
        let Some(points) = self.table.block(task.region) else {
            let first = tasks.len();
            for (member, bound) in self.table.members(task.region, query, space.bounds) {
                if bound <= probe.radius() {
                    tasks.push(Task::new(member, bound, 0.0));
                }
            }
            nearest_last(&mut tasks[first..]);
            return;
        };
        // The radius may shrink while the block is scanned. The margin is then slightly too large,
        // which is safe.
        let margin = query.margin(probe.radius(), space.bounds);
        let mut marks = [0; POINTS_PER_BLOCK];
        if !self.table.mark_candidates(task.region, task.at, query, margin, &mut marks) {
            return;
        }
        let first = task.region * number(POINTS_PER_BLOCK);
        let positions = first + task.at..first + number(points.len());
        let end = positions.end;
        let is_marked = |position: u32| marks[(position - first) as usize] != 0;
        let next = probe.visit_marked(positions, self.table.order(), is_marked);
        if next < end {
            tasks.push(Task { at: next - first, ..task });
        }
    }

    fn write<'a>(&'a self, contents: &mut FileContents<'a>) {
        contents.array("pivots", &self.pivots);
        contents.array("table.points", self.table.order());
        contents.array("table.codes", self.table.codes());
        contents.number("pivots", self.pivots.len() as u64);
        contents.number("scale", u64::from(self.table.scale().to_bits()));
    }

    fn read(file: &mut Reader, space: &Space<S, M>, _: Pivots) -> Result<Self, StoreProblem> {
        let pivots = file.array::<u32>("pivots")?.to_vec();
        let mut distinct = DistinctNumbers::of("table.points", space.points.len());
        pivots.iter().try_for_each(|&pivot| distinct.check(pivot))?;
        let others = space.points.len() - pivots.len();
        let order = file.array_of::<u32>("table.points", others)?;
        order.iter().try_for_each(|&point| distinct.check(point))?;
        let count = others.div_ceil(POINTS_PER_BLOCK) * pivots.len() * POINTS_PER_BLOCK;
        let codes = file.array_of("table.codes", count)?;
        let scale = f32::from_bits(file.small("scale")?);
        if !scale.is_normal() || scale < 0.0 || scale.to_bits() & 0x7F_FFFF != 0 {
            return Err(invalid("settings", format!("scale {scale} is not a power of two")));
        }
        let table = Table::of_codes(pivots.len(), scale, order, codes);
        let blocks = PointBlocks::new(space, table.order());
        Ok(Self { pivots, table, blocks })
    }
}
