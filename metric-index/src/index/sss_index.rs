//! SSS-Index (Pedreira & Brisaboa 2007; Barrientos 2011, section 2.2.3.3, algorithms 3 and 4).

use rayon::prelude::*;

use super::{FromPoint, InBlocks, Index, Kind, Probe, Progress, Task, check, nearest_last};
use crate::collector::Collector;
use crate::error::Error;
use crate::metric::{Blocks, Metric};
use crate::points::Points;
use crate::prune::Bounds;
use crate::stored::{Once, Parts, Reader, StoreProblem, Stored, invalid};

use table::{BLOCK, Place, Table, number};

mod table;

/// Which points are pivots.
///
/// ```
/// use metric_index::index::{Kind, Pivots};
///
/// assert_eq!(Kind::SssIndex(Pivots::Count(32)).to_string(), "sss-index:32p");
/// assert_eq!(Kind::SssIndex(Pivots::Spread(0.4)).to_string(), "sss-index:0.4");
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pivots {
    /// Sparse Spatial Selection: each point whose distance from all earlier pivots is at least this fraction α (0 to 1; 0
    /// makes every point a pivot) of the greatest distance; around 0.4 in the literature. The greatest distance is
    /// estimated by that of the point farthest from the first and the point farthest from that one.
    Spread(f32),
    /// This many pivots, each the farthest from all earlier ones (farthest-first traversal, not Sparse Spatial Selection).
    Count(u32),
}

/// A table of the distances of all points from some of them, the pivots.
///
/// The distances are kept as 16-bit codes, rounded down: whole numbers up to 65,535 exactly, others to a
/// 32,767th of the greatest and better. The table of the paper is looked at row by row; here rows that are
/// alike stand together, with boxes around their codes, so that most are excluded many at a time. The
/// points that are measured are the same.
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
pub struct SssIndex<S: Points, M> {
    points: S,
    metric: M,
    bounds: Bounds,
    /// The choice of pivots that was asked for.
    asked: Pivots,
    pivots: Vec<u32>,
    /// Of all points but the pivots.
    table: Table,
    blocks: InBlocks<S>,
}

impl<S: Points, M: Metric<S::Point>> SssIndex<S, M> {
    /// Chooses pivots and fills the table: n distances per pivot, and as many again to choose pivots by their spread.
    /// Building takes 4 bytes per point and pivot.
    ///
    /// # Errors
    /// If a point's distance from itself is not 0, it has no finite distance from a pivot, or the share is outside 0 to 1.
    ///
    /// ```
    /// use metric_index::index::{Index, Pivots, SssIndex};
    /// use metric_index::metric::Edit;
    /// use metric_index::points::Strings;
    ///
    /// let words: Strings = ["casa", "cosa", "caso", "pez"].into_iter().collect();
    /// let index = SssIndex::build(words, Edit, Pivots::Count(2))?;
    /// assert_eq!(index.within("pe", 1.0)?.len(), 1);
    /// # Ok::<(), metric_index::error::Error>(())
    /// ```
    pub fn build(points: S, metric: M, pivots: Pivots) -> Result<Self, Error> {
        Self::build_with(points, metric, pivots, &Progress::none())
    }

    /// As [`build`](Self::build), with progress reports.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    ///
    /// ```
    /// use metric_index::index::{Index, Pivots, Progress, SssIndex};
    /// use metric_index::metric::Edit;
    /// use metric_index::points::Strings;
    ///
    /// let words: Strings = ["casa", "cosa", "caso", "pez"].into_iter().collect();
    /// let report = |done: u64, all: u64| assert!(done <= all);
    /// let index = SssIndex::build_with(words, Edit, Pivots::Count(2), &Progress::new(&report))?;
    /// assert_eq!(index.len(), 4);
    /// # Ok::<(), metric_index::error::Error>(())
    /// ```
    pub fn build_with(
        points: S,
        metric: M,
        pivots: Pivots,
        progress: &Progress<'_>,
    ) -> Result<Self, Error> {
        let count = check(&points, &metric)?;
        let asked = pivots;
        let all: Vec<u32> = (0..count).collect();
        let (pivots, columns) = match pivots {
            Pivots::Spread(share) => {
                // Points that are looked at, and columns, as many as points.
                progress.begin(2 * u64::from(count));
                let pivots = spread(&points, &metric, &all, share, progress)?;
                let mut columns = Vec::with_capacity(pivots.len());
                for (at, &pivot) in pivots.iter().enumerate() {
                    columns.push(column(&points, &metric, pivot)?);
                    progress.add(part(count, at, pivots.len()));
                }
                (pivots, columns)
            }
            Pivots::Count(most) => {
                progress.begin(u64::from(count));
                farthest_first(&points, &metric, (count, most), progress)?
            }
        };
        let mut is_pivot = vec![false; all.len()];
        for &pivot in &pivots {
            is_pivot[pivot as usize] = true;
        }
        let others = all.into_iter().filter(|&point| !is_pivot[point as usize]).collect();
        let table = Table::new(others, &columns);
        let blocks = InBlocks::new(&points, &metric, table.order());
        Ok(Self { bounds: Bounds::of(&metric), points, metric, asked, pivots, table, blocks })
    }

    /// The pivots.
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
        &self.pivots
    }
}

/// How much of `all` a part of `parts` is, so that all of them make all.
fn part(all: u32, part: usize, parts: usize) -> u64 {
    let end = |part: usize| u64::from(all) * part as u64 / parts as u64;
    end(part + 1) - end(part)
}

/// The distances of all points from one.
fn column<S: Points, M: Metric<S::Point>>(
    points: &S,
    metric: &M,
    from: u32,
) -> Result<Vec<f32>, Error> {
    let from = FromPoint::new(points, metric, from);
    let mut distances = vec![0.0; points.len()];
    distances.par_iter_mut().with_min_len(256).enumerate().try_for_each(|(point, distance)| {
        *distance = from.to(u32::try_from(point).expect("fewer than 2^32 points"))?;
        Ok(())
    })?;
    Ok(distances)
}

/// Algorithm 3: the first point, and each that is at least `share` of the greatest distance away from all
/// earlier pivots.
pub(super) fn spread<S: Points, M: Metric<S::Point>>(
    points: &S,
    metric: &M,
    among: &[u32],
    share: f32,
    progress: &Progress<'_>,
) -> Result<Vec<u32>, Error> {
    if !(0.0..=1.0).contains(&share) {
        return Err(Error::Share { share });
    }
    let Some((&first, others)) = among.split_first() else { return Ok(Vec::new()) };
    let farthest = |start: u32| -> Result<(f32, u32), Error> {
        let (mut best, from) = ((0.0, start), FromPoint::new(points, metric, start));
        for &point in among {
            let distance = from.to(point)?;
            if distance > best.0 {
                best = (distance, point);
            }
        }
        Ok(best)
    };
    let (greatest, _) = farthest(farthest(first)?.1)?;
    let apart = greatest * share;
    if greatest == 0.0 {
        // All are the same point.
        progress.add(among.len() as u64);
        return Ok(vec![first]);
    }
    let mut pivots = vec![FromPoint::new(points, metric, first)];
    progress.add(1);
    for &point in others {
        if pivots.iter().all(|pivot| pivot.is_apart(point, apart)) {
            pivots.push(FromPoint::new(points, metric, point));
        }
        progress.add(1);
    }
    Ok(pivots.iter().map(|pivot| pivot.number).collect())
}

/// Pivots, and the distances of all points from each.
fn farthest_first<S: Points, M: Metric<S::Point>>(
    points: &S,
    metric: &M,
    (count, most): (u32, u32),
    progress: &Progress<'_>,
) -> Result<(Vec<u32>, Vec<Vec<f32>>), Error> {
    let most = most.min(count) as usize;
    let mut nearest = vec![f32::INFINITY; count as usize];
    let (mut pivots, mut columns): (Vec<u32>, _) = (Vec::new(), Vec::new());
    while pivots.len() < most {
        let farther = |&a: &u32, &b: &u32| {
            nearest[a as usize].total_cmp(&nearest[b as usize]).then(b.cmp(&a))
        };
        let Some(pivot) = (0..count).filter(|point| !pivots.contains(point)).max_by(farther) else {
            break;
        };
        let column = column(points, metric, pivot)?;
        for (nearest, &distance) in nearest.iter_mut().zip(&column) {
            *nearest = nearest.min(distance);
        }
        progress.add(part(count, pivots.len(), most));
        pivots.push(pivot);
        columns.push(column);
    }
    if most == 0 {
        progress.add(u64::from(count));
    }
    Ok((pivots, columns))
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

    /// Blocks of the table, and groups of them.
    fn nodes(&self) -> usize {
        self.table.regions()
    }

    fn blocks(&self) -> Option<&dyn Blocks<S::Point>> {
        self.blocks.get()
    }

    /// The distances from the pivots; a task is a block or a group of blocks.
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
        task: Task,
        shared: &[f32],
        probe: &mut Probe<'_, S, M, C>,
        tasks: &mut Vec<Task>,
    ) {
        let query = Place::of(shared);
        let Some(points) = self.table.block(task.region) else {
            let first = tasks.len();
            for (part, bound) in self.table.parts(task.region, query, self.bounds) {
                if bound <= probe.radius() {
                    tasks.push(Task::new(part, bound, 0.0));
                }
            }
            nearest_last(&mut tasks[first..]);
            return;
        };
        // The radius may shrink within the block: then this excludes a little less than it could.
        let margin = query.margin(probe.radius(), self.bounds);
        let mut marks = [0; BLOCK];
        if !self.table.keep(task.region, task.at, query, margin, &mut marks) {
            return;
        }
        let first = task.region * number(BLOCK);
        let places = first + task.at..first + number(points.len());
        let end = places.end;
        let is_marked = |place: u32| marks[(place - first) as usize] != 0;
        let left = probe.visit_marked(places, self.table.order(), is_marked);
        if left < end {
            tasks.push(Task { at: left - first, ..task });
        }
    }
}

impl<S: Points, M: Metric<S::Point>> Stored for SssIndex<S, M> {
    fn name(&self) -> &'static str {
        "sss-index"
    }

    fn kind(&self) -> Kind {
        Kind::SssIndex(self.asked)
    }

    fn reads(name: &str) -> bool {
        name == "sss-index"
    }

    fn write<'a>(&'a self, parts: &mut Parts<'a>) {
        parts.array("pivots", &self.pivots);
        parts.array("table.points", self.table.order());
        parts.array("table.codes", self.table.codes());
        parts.number("pivots", self.pivots.len() as u64);
        parts.number("scale", u64::from(self.table.scale().to_bits()));
    }

    fn read(file: &mut Reader, _: &str, points: S, metric: M) -> Result<Self, StoreProblem> {
        let Kind::SssIndex(asked) = file.kind()? else { return Err(file.wrong_kind()) };
        let pivots = file.array::<u32>("pivots")?.to_vec();
        let mut once = Once::of("table.points", points.len());
        pivots.iter().try_for_each(|&pivot| once.check(pivot))?;
        let others = points.len() - pivots.len();
        let order = file.array_of::<u32>("table.points", others)?;
        order.iter().try_for_each(|&point| once.check(point))?;
        let count = others.div_ceil(BLOCK) * pivots.len() * BLOCK;
        let codes = file.array_of("table.codes", count)?;
        let scale = f32::from_bits(file.small("scale")?);
        if !scale.is_normal() || scale < 0.0 || scale.to_bits() & 0x7F_FFFF != 0 {
            return Err(invalid("settings", format!("scale {scale} is no power of two")));
        }
        let table = Table::of_codes(pivots.len(), scale, order, codes);
        let blocks = InBlocks::new(&points, &metric, table.order());
        Ok(Self { bounds: Bounds::of(&metric), points, metric, asked, pivots, table, blocks })
    }
}
