//! EGNAT, the Evolutionary GNAT (Uribe, Navarro, Barrientos & Marín 2006; Navarro & Uribe 2011;
//! Barrientos 2011, section 2.2.3.1, algorithm 1), based on GNAT (Brin 1995).

use rayon::prelude::*;

mod split;

use super::{
    DynamicIndex, EgnatOptions, Levels, PointIndex, Probe, Progress, Space, Structure, Task,
    nearest_last, of_kind,
};
use crate::collector::Collector;
use crate::error::Error;
use crate::metric::Metric;
use crate::points::{GrowablePoints, Points};
use crate::prune::Bounds;
use crate::stored::{DistinctNumbers, FileContents, Reader, StoreProblem, invalid, validate_ends};

use split::{BucketEntry, Interval, MAX_ARITY, Split, nearest, widen};

/// Marks a removed point, which has no node.
const NO_NODE: u32 = u32::MAX;

#[derive(Debug, Clone)]
enum Node {
    Bucket(Vec<BucketEntry>),
    Gnat(Gnat),
}

/// An inner node, with at least one center.
#[derive(Debug, Clone)]
struct Gnat {
    centers: Vec<u32>,
    /// For each center, the node of the points that are nearest to it.
    children: Vec<u32>,
    /// At `i * centers + j`, the range of distances from center i to center j and to the points
    /// below center j.
    ranges: Vec<Interval>,
}

/// A tree whose inner nodes partition their points by nearest center. Each node has a table of the
/// distances from every center to the points of every other center. Leaves are buckets, which store
/// the distance from each point to the center above.
///
/// A removed center is replaced by a point from below it. The other points stay in the subtrees
/// that the old center determined, behind its *ghost planes*. The ranges of the new center are
/// wider by its distance from the old center. After many such removals
/// ([`ghosts`](Egnat::ghosts)), a rebuilt tree is faster.
///
/// ```
/// use metric_index::index::{DynamicIndex, Egnat, EgnatOptions, Index};
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
pub type Egnat<S, M> = PointIndex<S, M, EgnatNodes>;

/// The nodes of an [`Egnat`].
#[derive(Debug, Clone)]
pub struct EgnatNodes {
    options: EgnatOptions,
    nodes: Vec<Node>,
    /// The node of each point.
    node_of: Vec<u32>,
    removed: usize,
    ghosts: u64,
}

impl<S: Points, M: Metric<S::Point>> Egnat<S, M> {
    /// Builds the tree, with the nodes of a level in parallel. Evaluates about n · arity distances
    /// per level.
    ///
    /// # Errors
    /// Fails if the distance from a point to itself is not 0, a distance from a center is not
    /// finite, or an option is out of range.
    pub fn build(points: S, metric: M, options: EgnatOptions) -> Result<Self, Error> {
        Self::build_with(points, metric, options, &Progress::none())
    }

    /// Returns the number of centers that have replaced a removed center.
    ///
    /// ```
    /// use metric_index::index::{DynamicIndex, Egnat, EgnatOptions};
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
        self.structure.ghosts
    }
}

impl EgnatNodes {
    /// Splits a node if it is an oversized bucket; see [`Split::of`].
    fn split<S: Points, M: Metric<S::Point>>(
        &self,
        space: &Space<S, M>,
        node: u32,
        on_assigned: &(dyn Fn(usize) + Sync),
    ) -> Result<Option<Split>, Error> {
        match &self.nodes[node as usize] {
            Node::Bucket(bucket) => Split::of(space, bucket, self.options, on_assigned),
            Node::Gnat(_) => Ok(None),
        }
    }

    /// Replaces a bucket with the inner node of its split, and returns the children.
    fn install(&mut self, node: u32, split: Split) -> Vec<u32> {
        let Split { centers, ranges, clusters } = split;
        let mut children = Vec::with_capacity(centers.len());
        for bucket in clusters {
            let child = u32::try_from(self.nodes.len()).expect("at most 32 nodes per point");
            for &BucketEntry { point, .. } in &bucket {
                self.node_of[point as usize] = child;
            }
            self.nodes.push(Node::Bucket(bucket));
            children.push(child);
        }
        let gnat = Gnat { centers, children: children.clone(), ranges };
        self.nodes[node as usize] = Node::Gnat(gnat);
        children
    }

    /// Finds a point below a center that can replace the center. Such a point has no points below
    /// it.
    fn substitute<S: Points, M: Metric<S::Point>>(
        &self,
        space: &Space<S, M>,
        mut node: u32,
        center: u32,
    ) -> Result<Option<u32>, Error> {
        let from = space.origin(center);
        loop {
            match &self.nodes[node as usize] {
                Node::Bucket(bucket) => {
                    let mut best = None;
                    for &BucketEntry { point, .. } in bucket {
                        let candidate = (from.to(point)?, point);
                        best = best.filter(|best| *best <= candidate).or(Some(candidate));
                    }
                    return Ok(best.map(|(_, point)| point));
                }
                Node::Gnat(gnat) => {
                    // Choose the nearest center with points below it, or the nearest center if none
                    // has points below it.
                    let mut best = None;
                    for (&point, &child) in gnat.centers.iter().zip(&gnat.children) {
                        let is_empty = self.is_empty_bucket(child);
                        let candidate = (is_empty, from.to(point)?, point, child);
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

    /// Removes a point from its node. No points may be below it.
    fn detach(&mut self, point: u32) {
        let node = std::mem::replace(&mut self.node_of[point as usize], NO_NODE);
        let node = &mut self.nodes[node as usize];
        match node {
            Node::Bucket(bucket) => bucket.retain(|entry| entry.point != point),
            Node::Gnat(gnat) => {
                let count = gnat.centers.len();
                let position = gnat.position(point);
                gnat.centers.remove(position);
                gnat.children.remove(position);
                let mut index = 0;
                gnat.ranges.retain(|_| {
                    index += 1;
                    (index - 1) / count != position && (index - 1) % count != position
                });
                if gnat.centers.is_empty() {
                    *node = Node::Bucket(Vec::new());
                }
            }
        }
    }

    /// Removes a point. Returns whether the tree contained it.
    fn remove<S: Points, M: Metric<S::Point>>(
        &mut self,
        space: &Space<S, M>,
        point: u32,
    ) -> Result<bool, Error> {
        let node = self.node_of.get(point as usize).copied().filter(|&node| node != NO_NODE);
        let Some(node) = node else { return Ok(false) };
        let Node::Gnat(gnat) = &self.nodes[node as usize] else {
            self.detach(point);
            self.removed += 1;
            return Ok(true);
        };
        let position = gnat.position(point);
        let child = gnat.children[position] as usize;
        if let Some(substitute) = self.substitute(space, gnat.children[position], point)? {
            let distance = space.distance_between(point, substitute)?;
            let from = space.origin(substitute);
            let remeasured = |entry: &BucketEntry| {
                let from_center = from.to(entry.point)?;
                Ok(BucketEntry { from_center, ..*entry })
            };
            let new_bucket = match &self.nodes[child] {
                Node::Bucket(bucket) => {
                    let entries: Result<Vec<_>, Error> = bucket.iter().map(remeasured).collect();
                    Some(entries?)
                }
                Node::Gnat(_) => None,
            };
            if let Some(bucket) = new_bucket {
                self.nodes[child] = Node::Bucket(bucket);
            }
            self.detach(substitute);
            self.node_of[substitute as usize] = node;
            self.node_of[point as usize] = NO_NODE;
            self.ghosts += 1;
            if let Node::Gnat(gnat) = &mut self.nodes[node as usize] {
                gnat.centers[position] = substitute;
                let count = gnat.centers.len();
                for range in &mut gnat.ranges[position * count..(position + 1) * count] {
                    range.low = space.bounds.gap(range.low, distance);
                    range.high = space.bounds.reach(range.high, distance);
                }
            }
        } else {
            self.detach(point);
        }
        self.removed += 1;
        Ok(true)
    }

    fn is_empty_bucket(&self, node: u32) -> bool {
        matches!(&self.nodes[node as usize], Node::Bucket(bucket) if bucket.is_empty())
    }
}

impl Gnat {
    fn position(&self, center: u32) -> usize {
        self.centers.iter().position(|&other| other == center).expect("one of the node's centers")
    }
}

impl<S: GrowablePoints, M: Metric<S::Point>> DynamicIndex for Egnat<S, M> {
    fn insert(&mut self, point: &S::Point) -> Result<u32, Error> {
        let number = self.space.check_new(point)?;
        let tree = &mut self.structure;
        let from = self.space.origin_of(point);
        let mut path = Vec::new();
        let mut node = 0u32;
        let mut from_center = 0.0;
        while let Node::Gnat(gnat) = &tree.nodes[node as usize] {
            let distances = gnat.centers.iter().map(|&center| from.to(center));
            let distances = distances.collect::<Result<Vec<f32>, Error>>()?;
            let column = nearest(&distances);
            from_center = distances[column];
            path.push((node, column, distances));
            node = gnat.children[column];
        }
        drop(from);
        self.space.points.push(point)?;
        for (node, column, distances) in path {
            if let Node::Gnat(gnat) = &mut tree.nodes[node as usize] {
                widen(&mut gnat.ranges, column, &distances);
            }
        }
        tree.node_of.push(node);
        let Node::Bucket(bucket) = &mut tree.nodes[node as usize] else {
            unreachable!("the path ends at a bucket")
        };
        bucket.push(BucketEntry { point: number, from_center });
        // A bucket of equal points cannot be split, so another attempt is made each time its size
        // doubles.
        if bucket.len() == tree.options.bucket as usize + 1 || bucket.len().is_power_of_two() {
            // If a distance between points is invalid, the points stay in one bucket, which needs
            // no distances.
            if let Ok(Some(split)) = tree.split(&self.space, node, &|_| {}) {
                tree.install(node, split);
            }
        }
        Ok(number)
    }

    fn remove(&mut self, point: u32) -> Result<bool, Error> {
        self.structure.remove(&self.space, point)
    }
}

impl<S: Points, M: Metric<S::Point>> Structure<S, M> for EgnatNodes {
    of_kind!(Egnat(EgnatOptions));

    fn build(
        space: &Space<S, M>,
        options: EgnatOptions,
        progress: &Progress<'_>,
    ) -> Result<Self, Error> {
        options.check()?;
        let count = space.count();
        let mut tree = Self {
            options,
            nodes: vec![Node::Bucket((0..count).map(BucketEntry::unassigned).collect())],
            node_of: vec![0; count as usize],
            removed: 0,
            ghosts: 0,
        };
        let levels = Levels::begin(progress, count);
        let mut level = vec![0];
        let mut depth = 0;
        while !level.is_empty() {
            let on_assigned = |points| levels.add_moved_down(depth, points);
            let splits: Result<Vec<_>, Error> =
                level.par_iter().map(|&node| tree.split(space, node, &on_assigned)).collect();
            let mut next = Vec::new();
            for (node, split) in level.into_iter().zip(splits?) {
                if let Some(split) = split {
                    levels.add_placed(depth, split.centers.len());
                    next.extend(tree.install(node, split));
                } else if let Node::Bucket(bucket) = &tree.nodes[node as usize] {
                    levels.add_placed(depth, bucket.len());
                }
            }
            level = next;
            depth += 1;
        }
        Ok(tree)
    }

    fn removed(&self) -> usize {
        self.removed
    }

    fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// `task.at` is the position of a center or of a point in a bucket. `task.mask` marks the
    /// centers that are excluded along with the points below them.
    fn step<C: Collector>(
        &self,
        space: &Space<S, M>,
        task: Task,
        _: &[f32],
        probe: &mut Probe<'_, S, M, C>,
        tasks: &mut Vec<Task>,
    ) {
        match &self.nodes[task.region as usize] {
            Node::Bucket(bucket) => {
                for (&BucketEntry { point, from_center }, at) in
                    bucket[task.at as usize..].iter().zip(task.at..)
                {
                    if !task.distance.is_nan()
                        && space.bounds.outside(task.distance, from_center, from_center)
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
            Node::Gnat(gnat) => self.step_down(space.bounds, task, gnat, probe, tasks),
        }
    }

    /// Writes distances only for points of leaves, and children only for centers, so these arrays
    /// are shorter than the array of points.
    fn write<'a>(&'a self, contents: &mut FileContents<'a>) {
        let mut is_gnat = Vec::new();
        let mut ends = Vec::new();
        let mut points = Vec::new();
        let mut distances = Vec::new();
        let mut children = Vec::new();
        let mut ranges = Vec::new();
        for node in &self.nodes {
            is_gnat.push(u8::from(matches!(node, Node::Gnat(_))));
            match node {
                Node::Bucket(bucket) => {
                    points.extend(bucket.iter().map(|entry| entry.point));
                    distances.extend(bucket.iter().map(|entry| entry.from_center));
                }
                Node::Gnat(gnat) => {
                    points.extend_from_slice(&gnat.centers);
                    children.extend_from_slice(&gnat.children);
                    ranges.extend(gnat.ranges.iter().flat_map(|range| [range.low, range.high]));
                }
            }
            ends.push(points.len() as u64);
        }
        contents.computed("nodes.is_inner", is_gnat);
        contents.computed("nodes.ends", ends);
        contents.computed("nodes.points", points);
        contents.computed("leaves.distances", distances);
        contents.computed("inner.nodes", children);
        contents.computed("inner.ranges", ranges);
        contents.number("arity", u64::from(self.options.arity));
        contents.number("bucket", u64::from(self.options.bucket));
        contents.number("ghosts", self.ghosts);
    }

    fn read(
        file: &mut Reader,
        space: &Space<S, M>,
        options: EgnatOptions,
    ) -> Result<Self, StoreProblem> {
        options.check()?;
        let is_inner = file.array::<u8>("nodes.is_inner")?;
        let ends = file.array_of::<u64>("nodes.ends", is_inner.len())?;
        let all = file.array::<u32>("nodes.points")?;
        let from_center = file.distances("leaves.distances")?;
        let children = file.array::<u32>("inner.nodes")?;
        let ranges = file.distances("inner.ranges")?;
        let ends = validate_ends(&ends, all.len(), "nodes.ends")?;
        let mut distinct = DistinctNumbers::of("nodes.points", space.points.len());
        all.iter().try_for_each(|&point| distinct.check(point))?;
        let mut distinct_children = DistinctNumbers::of("inner.nodes", is_inner.len());
        let mut node_of = vec![NO_NODE; space.points.len()];
        let mut nodes = Vec::with_capacity(ends.len());
        let mut start = 0;
        let mut from_center = from_center.iter();
        let mut children = children.iter();
        let (ranges, rest) = ranges.as_chunks::<2>();
        let mut ranges = ranges.iter().map(|&[low, high]| Interval { low, high });
        let too_short = |array| invalid(array, "it is too short");
        for ((node, &is_inner), end) in (0..).zip(is_inner.iter()).zip(ends) {
            let own = &all[start..end];
            for &point in own {
                node_of[point as usize] = node;
            }
            start = end;
            if is_inner == 0 {
                let distances = from_center.by_ref().take(own.len());
                let bucket: Vec<BucketEntry> = own
                    .iter()
                    .zip(distances)
                    .map(|(&point, &from_center)| BucketEntry { point, from_center })
                    .collect();
                if bucket.len() != own.len() {
                    return Err(too_short("leaves.distances"));
                }
                nodes.push(Node::Bucket(bucket));
                continue;
            }
            if !(1..=options.arity as usize).contains(&own.len()) {
                return Err(invalid(
                    "nodes.ends",
                    format!("node {node} has {} centers", own.len()),
                ));
            }
            let own_children: Vec<u32> = children.by_ref().take(own.len()).copied().collect();
            for &child in &own_children {
                // Each node has one parent, whose number is lower.
                distinct_children.check(child)?;
                if child <= node {
                    return Err(invalid("inner.nodes", format!("{child} is a child of {node}")));
                }
            }
            let own_ranges: Vec<Interval> = ranges.by_ref().take(own.len() * own.len()).collect();
            if own_children.len() != own.len() || own_ranges.len() != own.len() * own.len() {
                return Err(too_short("inner.nodes"));
            }
            nodes.push(Node::Gnat(Gnat {
                centers: own.to_vec(),
                children: own_children,
                ranges: own_ranges,
            }));
        }
        if nodes.is_empty() || from_center.next().is_some() || children.next().is_some() {
            return Err(invalid("nodes.is_inner", "it does not match the other arrays"));
        }
        if ranges.next().is_some() || !rest.is_empty() {
            return Err(invalid("inner.ranges", "it is too long"));
        }
        let removed = space.points.len() - distinct.count();
        let ghosts = file.number("ghosts")?;
        Ok(Self { options, nodes, node_of, removed, ghosts })
    }
}

impl EgnatNodes {
    fn step_down<S: Points, M: Metric<S::Point>, C: Collector>(
        &self,
        bounds: Bounds,
        task: Task,
        gnat: &Gnat,
        probe: &mut Probe<'_, S, M, C>,
        tasks: &mut Vec<Task>,
    ) {
        let count = gnat.centers.len();
        let mut excluded = task.mask;
        let mut at = task.at as usize;
        let mut distances = [f32::NAN; MAX_ARITY];
        while at < count {
            if excluded & (1 << at) == 0 {
                if probe.is_exhausted() {
                    break;
                }
                distances[at] = probe.visit(gnat.centers[at]);
                let (below, above) = bounds.exclusion_limits(distances[at], probe.radius());
                let row = &gnat.ranges[at * count..(at + 1) * count];
                for (other, &Interval { low, high }) in row.iter().enumerate() {
                    excluded |= u32::from(high <= below || low >= above) << other;
                }
            }
            at += 1;
        }
        let first = tasks.len();
        for own in task.at as usize..at {
            let child = gnat.children[own];
            if excluded & (1 << own) != 0 || self.is_empty_bucket(child) {
                continue;
            }
            let mut bound = task.bound;
            for (row, &distance) in distances[..at].iter().enumerate() {
                if !distance.is_nan() {
                    let Interval { low, high } = gnat.ranges[row * count + own];
                    bound = bound.max(bounds.outside(distance, low, high));
                }
            }
            if bound <= probe.radius() {
                tasks.push(Task::new(child, bound, distances[own]));
            }
        }
        nearest_last(&mut tasks[first..]);
        if at < count {
            let at = u32::try_from(at).expect("at most 32");
            // The bound of the node also holds for its remaining points.
            tasks.push(Task { at, mask: excluded, ..task });
        }
    }
}
