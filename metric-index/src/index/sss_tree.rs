//! SSS-Tree (Brisaboa, Pedreira et al. 2008; Barrientos 2011, section 2.2.3.4, algorithm 5).

use rayon::prelude::*;

use super::{
    Levels, PointIndex, Probe, Progress, Space, Structure, Task, nearest_last, of_kind,
    select_pivots,
};
use crate::collector::Collector;
use crate::error::Error;
use crate::metric::Metric;
use crate::points::Points;
use crate::stored::{DistinctNumbers, FileContents, Reader, StoreProblem, invalid, validate_ends};

/// Maximum number of points per leaf.
const BUCKET_SIZE: usize = 16;
/// Marks a center without other points in its cluster.
const NO_NODE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Center {
    point: u32,
    /// The distance to the farthest point of the cluster.
    radius: f32,
    /// The node of the cluster.
    node: u32,
}

/// A center, the points for which it is the nearest center, and the distance to the farthest of
/// these points.
struct Cluster {
    center: u32,
    radius: f32,
    points: Vec<u32>,
}

/// A tree whose nodes are split into a data-dependent number of clusters. Centers are chosen like
/// the pivots of [`SssIndex`](super::SssIndex). Each other point goes to the nearest center, which
/// stores its covering radius.
///
/// ```
/// use metric_index::index::{Index, SssTree};
/// use metric_index::metric::Edit;
/// use metric_index::points::Strings;
///
/// let words: Strings = ["casa", "cosa", "caso", "pez"].into_iter().collect();
/// assert_eq!(SssTree::build(words, Edit, 0.4)?.nearest("pe", 1)?[0].point, 3);
/// # Ok::<(), metric_index::error::Error>(())
/// ```
pub type SssTree<S, M> = PointIndex<S, M, SssNodes>;

/// The nodes of an [`SssTree`].
#[derive(Debug, Clone)]
pub struct SssNodes {
    /// The end of each node's centers, which begin where the centers of the previous node end.
    ends: Vec<u32>,
    centers: Vec<Center>,
}

impl<S: Points, M: Metric<S::Point>> SssTree<S, M> {
    /// Builds the tree, with the nodes of a level in parallel.
    ///
    /// `share` is the minimum distance between centers, as a fraction of the estimated greatest
    /// distance between the points of a node. It is around 0.4 in the literature. If it is far
    /// above 0.5, the depth of the tree can reach the number of points.
    ///
    /// # Errors
    /// Fails if the distance from a point to itself is not 0, if a distance from a center is not
    /// finite, or if `share` is not between 0 and 1.
    pub fn build(points: S, metric: M, share: f32) -> Result<Self, Error> {
        Self::build_with(points, metric, share, &Progress::none())
    }
}

/// Splits a node into clusters. Calls `on_assigned` with the number of points assigned to centers.
fn split<S: Points, M: Metric<S::Point>>(
    space: &Space<S, M>,
    cluster: &[u32],
    share: f32,
    on_assigned: &(dyn Fn(usize) + Sync),
) -> Result<Vec<Cluster>, Error> {
    let singleton = |&center: &u32| Cluster { center, radius: 0.0, points: Vec::new() };
    if cluster.len() <= BUCKET_SIZE {
        return Ok(cluster.iter().map(singleton).collect());
    }
    let centers = select_pivots(space, cluster, share, &Progress::none())?;
    let from = space.origins(&centers);
    if let [from] = &from[..] {
        // Equal points become centers of a single node. Otherwise, each of them would add a level
        // to the tree.
        let mut are_equal = true;
        for &point in cluster {
            are_equal &= from.to(point)? == 0.0;
        }
        if are_equal {
            return Ok(cluster.iter().map(singleton).collect());
        }
    }
    let mut sorted = centers.clone();
    sorted.sort_unstable();
    let nearest = cluster.par_chunks(1024).map(|part| {
        let mut near = Vec::with_capacity(part.len());
        for &point in part.iter().filter(|point| sorted.binary_search(point).is_err()) {
            let mut best = (f32::INFINITY, 0);
            for (number, from) in from.iter().enumerate() {
                let distance = from.to(point)?;
                if distance < best.0 {
                    best = (distance, number);
                }
            }
            near.push((point, best));
        }
        on_assigned(near.len());
        Ok(near)
    });
    let mut clusters: Vec<Cluster> = centers.iter().map(singleton).collect();
    for (point, (distance, number)) in nearest.collect::<Result<Vec<_>, Error>>()?.concat() {
        let cluster = &mut clusters[number];
        cluster.radius = cluster.radius.max(distance);
        cluster.points.push(point);
    }
    Ok(clusters)
}

impl<S: Points, M: Metric<S::Point>> Structure<S, M> for SssNodes {
    of_kind!(SssTree(f32));

    fn build(space: &Space<S, M>, share: f32, progress: &Progress<'_>) -> Result<Self, Error> {
        if !(0.0..=1.0).contains(&share) {
            return Err(Error::Share { share });
        }
        let mut tree = Self { ends: Vec::new(), centers: Vec::new() };
        let number = |n: usize| u32::try_from(n).map_err(|_| Error::TooMany { count: n });
        let levels = Levels::begin(progress, space.count());
        // Clusters that have no node yet, with the positions of their centers.
        let mut pending = vec![(None, space.numbers())];
        let mut depth = 0;
        while !pending.is_empty() {
            let on_assigned = |points| levels.add_moved_down(depth, points);
            let splits = pending
                .par_iter()
                .map(|(_, cluster)| split(space, cluster, share, &on_assigned))
                .collect::<Result<Vec<_>, Error>>()?;
            let mut next = Vec::new();
            for ((parent, _), clusters) in pending.into_iter().zip(splits) {
                if let Some(parent) = parent {
                    let node = number(tree.ends.len())?;
                    let center: &mut Center = &mut tree.centers[parent];
                    center.node = node;
                }
                levels.add_placed(depth, clusters.len());
                for Cluster { center, radius, points } in clusters {
                    if !points.is_empty() {
                        next.push((Some(tree.centers.len()), points));
                    }
                    tree.centers.push(Center { point: center, radius, node: NO_NODE });
                }
                tree.ends.push(number(tree.centers.len())?);
            }
            pending = next;
            depth += 1;
        }
        Ok(tree)
    }

    fn nodes(&self) -> usize {
        self.ends.len()
    }

    /// `task.at` is the position of a center in its node.
    fn step<C: Collector>(
        &self,
        space: &Space<S, M>,
        task: Task,
        _: &[f32],
        probe: &mut Probe<'_, S, M, C>,
        tasks: &mut Vec<Task>,
    ) {
        let node = task.region as usize;
        let start = node.checked_sub(1).map_or(0, |before| self.ends[before]);
        let first = tasks.len();
        for at in start + task.at..self.ends[node] {
            if probe.is_exhausted() {
                tasks.push(Task { at: at - start, ..task });
                break;
            }
            let center = self.centers[at as usize];
            let distance = probe.visit(center.point);
            if center.node != NO_NODE {
                let bound = space.bounds.gap(distance, center.radius);
                tasks.push(Task::new(center.node, bound, distance));
            }
        }
        nearest_last(&mut tasks[first..]);
    }

    fn write<'a>(&'a self, contents: &mut FileContents<'a>) {
        contents.computed("nodes.ends", self.ends.iter().map(|&end| u64::from(end)));
        contents.computed("centers.points", self.centers.iter().map(|center| center.point));
        contents.computed("centers.radii", self.centers.iter().map(|center| center.radius));
        contents.computed("centers.nodes", self.centers.iter().map(|center| center.node));
    }

    fn read(file: &mut Reader, space: &Space<S, M>, _: f32) -> Result<Self, StoreProblem> {
        let ends = file.array::<u64>("nodes.ends")?;
        let points = file.array::<u32>("centers.points")?;
        let radii = file.distances_of("centers.radii", points.len())?;
        let nodes = file.array_of::<u32>("centers.nodes", points.len())?;
        let mut distinct = DistinctNumbers::of("centers.points", space.points.len());
        points.iter().try_for_each(|&point| distinct.check(point))?;
        distinct.check_complete()?;
        let ends = validate_ends(&ends, points.len(), "nodes.ends")?;
        if ends.is_empty() {
            return Err(invalid("nodes.ends", "there is no root"));
        }
        // Each node has one parent, whose number is lower.
        let mut distinct_children = DistinctNumbers::of("centers.nodes", ends.len());
        let mut node = 0;
        let mut centers = Vec::with_capacity(points.len());
        for (at, ((&point, &radius), &child)) in
            points.iter().zip(radii.iter()).zip(nodes.iter()).enumerate()
        {
            while ends[node] <= at {
                node += 1;
            }
            if child != NO_NODE {
                distinct_children.check(child)?;
                if child as usize <= node {
                    return Err(invalid("centers.nodes", format!("{child} is a child of {node}")));
                }
            }
            centers.push(Center { point, radius, node: child });
        }
        let end = |end| u32::try_from(end).expect("at most the number of points");
        let ends = ends.into_iter().map(end).collect();
        Ok(Self { ends, centers })
    }
}
