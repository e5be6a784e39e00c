//! EGNAT (Uribe, Navarro, Barrientos & Marín 2006; Navarro & Uribe 2011; Barrientos 2011, section 2.2.3.1,
//! algorithm 1), after GNAT (Brin 1995).

use rayon::prelude::*;

use super::progress::Levels;
use super::{
    Dynamic, FromPoint, Index, Probe, Progress, Task, between, check, check_new, from_new,
    nearest_last,
};
use crate::collector::Collector;
use crate::error::Error;
use crate::metric::{Metric, Origin};
use crate::points::{Growing, Points};
use crate::prune::Bounds;

mod stored;

/// The shape of an [`Egnat`].
///
/// ```
/// use metric_index::index::EgnatOptions;
///
/// let options = EgnatOptions { bucket: 50, ..EgnatOptions::default() };
/// assert_eq!(options.arity, 16);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EgnatOptions {
    /// Centers of an inner node, 2 to 32.
    pub arity: u32,
    /// Points of a leaf, from 1: more than these become an inner node.
    pub bucket: u32,
}

impl EgnatOptions {
    fn check(self) -> Result<(), Error> {
        if !(2..=32).contains(&self.arity) {
            let (option, value) = ("arity", self.arity);
            return Err(Error::Option { option, value, expected: "2 to 32" });
        }
        if self.bucket == 0 {
            return Err(Error::Option { option: "bucket", value: 0, expected: "1 or more" });
        }
        Ok(())
    }
}

impl Default for EgnatOptions {
    fn default() -> Self {
        Self { arity: 16, bucket: 64 }
    }
}

/// The centers of an inner node of the highest arity.
const MOST: usize = 32;
/// The node of a point that was removed.
const NOWHERE: u32 = u32::MAX;

/// Least and greatest distance.
type Interval = (f32, f32);
/// A point of a leaf and its distance from the center above.
type Held = (u32, f32);

#[derive(Debug, Clone)]
enum Node {
    Bucket(Vec<Held>),
    Gnat(Gnat),
}

/// An inner node; it has a center at least.
#[derive(Debug, Clone)]
struct Gnat {
    centers: Vec<u32>,
    /// The node of the other points that are nearest to each center.
    children: Vec<u32>,
    /// At `i * centers + j`: the distances of center i from center j and the points below it.
    ranges: Vec<Interval>,
}

/// A tree whose inner nodes have centers, each with the points that are nearer to it than to the others, and a
/// table of the distances of every center from the points of every other. Leaves are buckets, in which
/// each point keeps its distance from the center above.
///
/// A center that is removed is replaced by a point from below it. The points were dealt by the old center,
/// behind whose *ghost planes* they stay: the distances of the new one from them are known less sharply, by as
/// much as it is apart from the old. After many such removals ([`ghosts`](Egnat::ghosts)) a tree that is built anew is faster.
///
/// ```
/// use metric_index::index::{Dynamic, Egnat, EgnatOptions, Index};
/// use metric_index::metric::Edit;
/// use metric_index::points::Strings;
///
/// let words: Strings = ["casa", "cosa", "pez"].into_iter().collect();
/// let mut tree = Egnat::build(words, Edit, EgnatOptions::default())?;
/// tree.remove(0)?;
/// let caso = tree.insert("caso")?;
/// assert_eq!(tree.nearest("casa", 1)?[0].point, 1);
/// assert_eq!(tree.nearest("caso", 1)?[0].point, caso);
/// # Ok::<(), metric_index::error::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Egnat<S, M> {
    points: S,
    metric: M,
    bounds: Bounds,
    options: EgnatOptions,
    nodes: Vec<Node>,
    /// The node of each point.
    home: Vec<u32>,
    removed: usize,
    ghosts: u64,
}

/// A node to be: centers, their table, and the other points by center.
struct Cut {
    centers: Vec<u32>,
    ranges: Vec<Interval>,
    clusters: Vec<Vec<Held>>,
}

impl<S: Points, M: Metric<S::Point>> Egnat<S, M> {
    /// Builds the tree, the nodes of a level in parallel: about n · arity distances per level.
    ///
    /// # Errors
    /// If a point has no distance of 0 from itself or none from a center, or an option is out of its range.
    ///
    /// ```
    /// use metric_index::index::{Egnat, EgnatOptions, Index};
    /// use metric_index::metric::Edit;
    /// use metric_index::points::Strings;
    ///
    /// let words: Strings = ["casa", "cosa", "caso", "pez"].into_iter().collect();
    /// let index = Egnat::build(words, Edit, EgnatOptions::default())?;
    /// assert_eq!(index.within("pe", 1.0)?.len(), 1);
    /// # Ok::<(), metric_index::error::Error>(())
    /// ```
    pub fn build(points: S, metric: M, options: EgnatOptions) -> Result<Self, Error> {
        Self::build_with(points, metric, options, &Progress::none())
    }

    /// As [`build`](Self::build), with progress reports.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    ///
    /// ```
    /// use metric_index::index::{Egnat, EgnatOptions, Index, Progress};
    /// use metric_index::metric::Edit;
    /// use metric_index::points::Strings;
    ///
    /// let words: Strings = ["casa", "cosa", "caso", "pez"].into_iter().collect();
    /// let report = |done: u64, all: u64| assert!(done <= all);
    /// let index = Egnat::build_with(words, Edit, EgnatOptions::default(), &Progress::new(&report))?;
    /// assert_eq!(index.len(), 4);
    /// # Ok::<(), metric_index::error::Error>(())
    /// ```
    pub fn build_with(
        points: S,
        metric: M,
        options: EgnatOptions,
        progress: &Progress<'_>,
    ) -> Result<Self, Error> {
        options.check()?;
        let count = check(&points, &metric)?;
        let mut tree = Self {
            bounds: Bounds::of(&metric),
            points,
            metric,
            options,
            nodes: vec![Node::Bucket((0..count).map(|point| (point, 0.0)).collect())],
            home: vec![0; count as usize],
            removed: 0,
            ghosts: 0,
        };
        let levels = Levels::begin(progress, count);
        let (mut level, mut depth) = (vec![0], 0);
        while !level.is_empty() {
            let dealt = |points| levels.down(depth, points);
            let cuts: Result<Vec<_>, Error> =
                level.par_iter().map(|&node| tree.cut(node, &dealt)).collect();
            let mut next = Vec::new();
            for (node, cut) in level.into_iter().zip(cuts?) {
                if let Some(cut) = cut {
                    levels.stay(depth, cut.centers.len());
                    next.extend(tree.install(node, cut));
                } else if let Node::Bucket(held) = &tree.nodes[node as usize] {
                    levels.stay(depth, held.len());
                }
            }
            (level, depth) = (next, depth + 1);
        }
        Ok(tree)
    }

    /// How many centers took the place of one that was removed.
    ///
    /// ```
    /// use metric_index::index::{Dynamic, Egnat, EgnatOptions};
    /// use metric_index::metric::Edit;
    /// use metric_index::points::Strings;
    ///
    /// let words: Strings = ["casa", "cosa", "caso", "pez"].into_iter().collect();
    /// let options = EgnatOptions { arity: 2, bucket: 1 };
    /// let mut tree = Egnat::build(words, Edit, options)?;
    /// assert!(tree.remove(0)?, "a center");
    /// assert_eq!(tree.ghosts(), 1);
    /// # Ok::<(), metric_index::error::Error>(())
    /// ```
    pub fn ghosts(&self) -> u64 {
        self.ghosts
    }

    /// Cuts a bucket that is too large; none if it is not, or its points are all the same. `dealt` hears how many
    /// points have got a center.
    fn cut(&self, node: u32, dealt: &(dyn Fn(usize) + Sync)) -> Result<Option<Cut>, Error> {
        let Node::Bucket(held) = &self.nodes[node as usize] else { return Ok(None) };
        if held.len() <= self.options.bucket as usize {
            return Ok(None);
        }
        let centers = self.centers(held)?;
        if centers.len() < 2 {
            return Ok(None);
        }
        let count = centers.len();
        let mut ranges = Vec::with_capacity(count * count);
        let from: Vec<_> =
            centers.iter().map(|&c| FromPoint::new(&self.points, &self.metric, c)).collect();
        for from in &from {
            for &other in &centers {
                let distance = from.to(other)?;
                ranges.push((distance, distance));
            }
        }
        let parts: Result<Vec<_>, Error> = held
            .par_chunks(1024)
            .map(|held| {
                let mut ranges = ranges.clone();
                let mut near: Vec<(usize, Held)> = Vec::with_capacity(held.len());
                for &(point, _) in held.iter().filter(|(point, _)| !centers.contains(point)) {
                    let mut distances = [0.0; MOST];
                    for (distance, from) in distances.iter_mut().zip(&from) {
                        *distance = from.to(point)?;
                    }
                    let nearest = nearest(&distances[..count]);
                    widen(&mut ranges, nearest, &distances[..count]);
                    near.push((nearest, (point, distances[nearest])));
                }
                dealt(near.len());
                Ok((near, ranges))
            })
            .collect();
        let mut clusters = vec![Vec::new(); count];
        for (near, part) in parts? {
            for (center, held) in near {
                clusters[center].push(held);
            }
            for ((low, high), (part_low, part_high)) in ranges.iter_mut().zip(part) {
                (*low, *high) = (low.min(part_low), high.max(part_high));
            }
        }
        Ok(Some(Cut { centers, ranges, clusters }))
    }

    /// Points of a bucket that are far from each other, each the farthest from all earlier ones among
    /// three times as many as are needed (Brin 1995); one if all are the same.
    fn centers(&self, held: &[Held]) -> Result<Vec<u32>, Error> {
        let most = self.options.arity as usize;
        let step = (held.len() / (3 * most)).max(1);
        let first = held[0].0;
        let from_first = FromPoint::new(&self.points, &self.metric, first);
        let mut candidates: Vec<(u32, f32)> = Vec::new();
        for &(point, _) in held.iter().step_by(step).take(3 * most) {
            candidates.push((point, from_first.to(point)?));
        }
        if candidates.iter().all(|&(_, apart)| apart == 0.0) {
            for &(point, _) in held {
                let apart = from_first.to(point)?;
                if apart > 0.0 {
                    candidates.push((point, apart));
                    break;
                }
            }
        }
        let mut centers = vec![first];
        while centers.len() < most {
            // Of equally far ones the first.
            let farthest = candidates.iter().rev().max_by(|a, b| a.1.total_cmp(&b.1));
            let Some(&(center, _)) = farthest.filter(|&&(_, apart)| apart > 0.0) else { break };
            centers.push(center);
            let from = FromPoint::new(&self.points, &self.metric, center);
            for (point, apart) in &mut candidates {
                *apart = apart.min(from.to(*point)?);
            }
        }
        Ok(centers)
    }

    /// Makes a node of a cut; gives the nodes below it.
    fn install(&mut self, node: u32, cut: Cut) -> Vec<u32> {
        let mut children = Vec::with_capacity(cut.centers.len());
        for held in cut.clusters {
            let child = u32::try_from(self.nodes.len()).expect("not more nodes than 32 a point");
            for &(point, _) in &held {
                self.home[point as usize] = child;
            }
            self.nodes.push(Node::Bucket(held));
            children.push(child);
        }
        let gnat = Gnat { centers: cut.centers, children: children.clone(), ranges: cut.ranges };
        self.nodes[node as usize] = Node::Gnat(gnat);
        children
    }

    /// A point below a center that can take its place: it holds nothing itself.
    fn substitute(&self, mut node: u32, center: u32) -> Result<Option<u32>, Error> {
        let from = FromPoint::new(&self.points, &self.metric, center);
        let apart = |point: u32| from.to(point);
        loop {
            match &self.nodes[node as usize] {
                Node::Bucket(held) => {
                    let mut best = None;
                    for &(point, _) in held {
                        let candidate = (apart(point)?, point);
                        best = best.filter(|best| *best <= candidate).or(Some(candidate));
                    }
                    return Ok(best.map(|(_, point)| point));
                }
                Node::Gnat(gnat) => {
                    let holds = |child: u32| !matches!(&self.nodes[child as usize], Node::Bucket(held) if held.is_empty());
                    // The nearest one that holds points, or, where none does, the nearest.
                    let mut best = None;
                    for (&point, &child) in gnat.centers.iter().zip(&gnat.children) {
                        let candidate = (!holds(child), apart(point)?, point, child);
                        best = best.filter(|best| *best <= candidate).or(Some(candidate));
                    }
                    match best.expect("an inner node has a center") {
                        (true, _, point, _) => return Ok(Some(point)),
                        (false, _, _, child) => node = child,
                    }
                }
            }
        }
    }

    /// Takes a point that holds nothing out of its node.
    fn take(&mut self, point: u32) {
        let node = std::mem::replace(&mut self.home[point as usize], NOWHERE);
        let node = &mut self.nodes[node as usize];
        match node {
            Node::Bucket(held) => held.retain(|&(other, _)| other != point),
            Node::Gnat(gnat) => {
                let (count, place) = (gnat.centers.len(), gnat.place(point));
                gnat.centers.remove(place);
                gnat.children.remove(place);
                let mut at = 0;
                gnat.ranges.retain(|_| {
                    at += 1;
                    (at - 1) / count != place && (at - 1) % count != place
                });
                if gnat.centers.is_empty() {
                    *node = Node::Bucket(Vec::new());
                }
            }
        }
    }
}

impl Gnat {
    fn place(&self, center: u32) -> usize {
        self.centers.iter().position(|&other| other == center).expect("the home of its centers")
    }
}

/// Of equally near ones the first.
fn nearest(distances: &[f32]) -> usize {
    let nearest = (0..distances.len()).min_by(|&a, &b| distances[a].total_cmp(&distances[b]));
    nearest.expect("an inner node has a center")
}

/// Puts the distances of a point from all centers into the column of its own center.
fn widen(ranges: &mut [Interval], column: usize, distances: &[f32]) {
    for (row, &distance) in distances.iter().enumerate() {
        let (low, high) = &mut ranges[row * distances.len() + column];
        (*low, *high) = (low.min(distance), high.max(distance));
    }
}

impl<S: Growing, M: Metric<S::Point>> Dynamic for Egnat<S, M> {
    fn insert(&mut self, point: &S::Point) -> Result<u32, Error> {
        let number = check_new(&self.points, &self.metric, point)?;
        let origin = Origin::new(&self.metric, point);
        let (mut path, mut node, mut from_center) = (Vec::new(), 0u32, 0.0);
        while let Node::Gnat(gnat) = &self.nodes[node as usize] {
            let distances = gnat.centers.iter().map(|&c| from_new(&self.points, &origin, c));
            let distances = distances.collect::<Result<Vec<f32>, Error>>()?;
            let column = nearest(&distances);
            from_center = distances[column];
            path.push((node, column, distances));
            node = gnat.children[column];
        }
        drop(origin);
        self.points.push(point)?;
        for (node, column, distances) in path {
            if let Node::Gnat(gnat) = &mut self.nodes[node as usize] {
                widen(&mut gnat.ranges, column, &distances);
            }
        }
        self.home.push(node);
        let Node::Bucket(held) = &mut self.nodes[node as usize] else {
            unreachable!("the way down ends at a bucket")
        };
        held.push((number, from_center));
        // A bucket of one point many times is not cut: it is looked at again when it has doubled.
        if held.len() == self.options.bucket as usize + 1 || held.len().is_power_of_two() {
            // Points without a distance stay in one bucket, where none is needed.
            if let Ok(Some(cut)) = self.cut(node, &|_| {}) {
                self.install(node, cut);
            }
        }
        Ok(number)
    }

    fn remove(&mut self, point: u32) -> Result<bool, Error> {
        let home = self.home.get(point as usize).copied().filter(|&node| node != NOWHERE);
        let Some(home) = home else { return Ok(false) };
        let Node::Gnat(gnat) = &self.nodes[home as usize] else {
            self.take(point);
            self.removed += 1;
            return Ok(true);
        };
        let place = gnat.place(point);
        let child = gnat.children[place] as usize;
        if let Some(substitute) = self.substitute(gnat.children[place], point)? {
            let apart = between(&self.points, &self.metric, point, substitute)?;
            let from_new = |&(held, _): &Held| {
                between(&self.points, &self.metric, substitute, held).map(|d| (held, d))
            };
            let below = match &self.nodes[child] {
                Node::Bucket(held) => {
                    Some(held.iter().map(from_new).collect::<Result<Vec<Held>, Error>>()?)
                }
                Node::Gnat(_) => None,
            };
            if let Some(held) = below {
                self.nodes[child] = Node::Bucket(held);
            }
            self.take(substitute);
            self.home[substitute as usize] = home;
            self.home[point as usize] = NOWHERE;
            self.ghosts += 1;
            if let Node::Gnat(gnat) = &mut self.nodes[home as usize] {
                gnat.centers[place] = substitute;
                let count = gnat.centers.len();
                for (low, high) in &mut gnat.ranges[place * count..(place + 1) * count] {
                    (*low, *high) = (self.bounds.gap(*low, apart), self.bounds.reach(*high, apart));
                }
            }
        } else {
            self.take(point);
        }
        self.removed += 1;
        Ok(true)
    }
}

impl<S: Points, M: Metric<S::Point>> Index for Egnat<S, M> {
    type Points = S;
    type Metric = M;

    fn points(&self) -> &S {
        &self.points
    }

    fn len(&self) -> usize {
        self.points.len() - self.removed
    }

    fn metric(&self) -> &M {
        &self.metric
    }

    fn nodes(&self) -> usize {
        self.nodes.len()
    }

    fn start<C: Collector>(&self, _: &mut Probe<'_, S, M, C>, tasks: &mut Vec<Task>) -> Box<[f32]> {
        // No center is above the root: this distance excludes nothing.
        tasks.push(Task::new(0, 0.0, f32::NAN));
        Box::default()
    }

    /// `at` is the place of a center or of a point of a bucket; `mask` has the centers that are excluded with
    /// what is below them.
    fn step<C: Collector>(
        &self,
        task: Task,
        _: &[f32],
        probe: &mut Probe<'_, S, M, C>,
        tasks: &mut Vec<Task>,
    ) {
        match &self.nodes[task.region as usize] {
            Node::Bucket(held) => {
                for (&(point, from_center), at) in held[task.at as usize..].iter().zip(task.at..) {
                    if !task.distance.is_nan()
                        && self.bounds.outside(task.distance, from_center, from_center)
                            > probe.radius()
                    {
                        continue;
                    }
                    if probe.is_exhausted() {
                        tasks.push(Task { at, ..task });
                        return;
                    }
                    probe.visit_within(point);
                }
            }
            Node::Gnat(gnat) => self.step_down(gnat, task, probe, tasks),
        }
    }
}

impl<S: Points, M: Metric<S::Point>> Egnat<S, M> {
    fn step_down<C: Collector>(
        &self,
        gnat: &Gnat,
        task: Task,
        probe: &mut Probe<'_, S, M, C>,
        tasks: &mut Vec<Task>,
    ) {
        let count = gnat.centers.len();
        let (mut excluded, mut at) = (task.mask, task.at as usize);
        let mut distances = [f32::NAN; MOST];
        while at < count {
            if excluded & (1 << at) == 0 {
                if probe.is_exhausted() {
                    break;
                }
                distances[at] = probe.visit(gnat.centers[at]);
                let (below, above) = self.bounds.excluded(distances[at], probe.radius());
                let row = &gnat.ranges[at * count..(at + 1) * count];
                for (other, &(low, high)) in row.iter().enumerate() {
                    excluded |= u32::from(high <= below || low >= above) << other;
                }
            }
            at += 1;
        }
        let first = tasks.len();
        for own in task.at as usize..at {
            let is_empty = |child: u32| matches!(&self.nodes[child as usize], Node::Bucket(held) if held.is_empty());
            let child = gnat.children[own];
            if excluded & (1 << own) != 0 || is_empty(child) {
                continue;
            }
            let mut bound = task.bound;
            for (row, &distance) in distances[..at].iter().enumerate() {
                if !distance.is_nan() {
                    let (low, high) = gnat.ranges[row * count + own];
                    bound = bound.max(self.bounds.outside(distance, low, high));
                }
            }
            if bound <= probe.radius() {
                tasks.push(Task::new(child, bound, distances[own]));
            }
        }
        nearest_last(&mut tasks[first..]);
        if at < count {
            let at = u32::try_from(at).expect("at most 32");
            // Its own points are as near as those of the whole node.
            tasks.push(Task { at, mask: excluded, ..task });
        }
    }
}
