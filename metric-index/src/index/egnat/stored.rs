//! How an [`Egnat`] is stored in a file.

use super::{BucketEntry, Egnat, EgnatOptions, Gnat, Interval, NO_NODE, Node};
use crate::index::Kind;
use crate::metric::Metric;
use crate::points::Points;
use crate::prune::Bounds;
use crate::stored::{
    DistinctNumbers, FileContents, Reader, StoreProblem, StoredIndex, distances, ends_of, invalid,
};

impl<S: Points, M: Metric<S::Point>> StoredIndex for Egnat<S, M> {
    fn name(&self) -> &'static str {
        "egnat"
    }

    fn kind(&self) -> Kind {
        Kind::Egnat(self.options)
    }

    fn reads(name: &str) -> bool {
        name == "egnat"
    }

    /// Only points of leaves have distances, and only centers have children, so these arrays are
    /// shorter than that of the points.
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
                Node::Bucket(held) => {
                    points.extend(held.iter().map(|held| held.point));
                    distances.extend(held.iter().map(|held| held.from_center));
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

    fn read(file: &mut Reader, _: &str, points: S, metric: M) -> Result<Self, StoreProblem> {
        let options = EgnatOptions { arity: file.small("arity")?, bucket: file.small("bucket")? };
        options.check()?;
        let is_inner = file.array::<u8>("nodes.is_inner")?;
        let ends = file.array_of::<u64>("nodes.ends", is_inner.len())?;
        let all = file.array::<u32>("nodes.points")?;
        let from_center = file.array::<f32>("leaves.distances")?;
        let children = file.array::<u32>("inner.nodes")?;
        let ranges = file.array::<f32>("inner.ranges")?;
        distances(&from_center, "leaves.distances")?;
        distances(&ranges, "inner.ranges")?;
        let ends = ends_of(&ends, all.len(), "nodes.ends")?;
        let mut distinct = DistinctNumbers::of("nodes.points", points.len());
        all.iter().try_for_each(|&point| distinct.check(point))?;
        let mut below = DistinctNumbers::of("inner.nodes", is_inner.len());
        let mut home = vec![NO_NODE; points.len()];
        let mut nodes = Vec::with_capacity(ends.len());
        let mut start = 0;
        let mut held = from_center.iter();
        let mut inner = children.iter();
        let (ranges, rest) = ranges.as_chunks::<2>();
        let mut ranges = ranges.iter().map(|&[low, high]| Interval { low, high });
        let short = |array| move || invalid(array, "it is too short");
        for ((node, &is_inner), end) in (0..).zip(is_inner.iter()).zip(ends) {
            let own = &all[start..end];
            for &point in own {
                home[point as usize] = node;
            }
            start = end;
            if is_inner == 0 {
                let distances = held.by_ref().take(own.len());
                let bucket: Vec<BucketEntry> = own
                    .iter()
                    .zip(distances)
                    .map(|(&point, &from_center)| BucketEntry { point, from_center })
                    .collect();
                if bucket.len() != own.len() {
                    return Err(short("leaves.distances")());
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
            let children: Vec<u32> = inner.by_ref().take(own.len()).copied().collect();
            for &child in &children {
                // Nodes are numbered after their parent, and each has one parent.
                below.check(child)?;
                if child <= node {
                    return Err(invalid("inner.nodes", format!("{child} is below {node}")));
                }
            }
            let ranges: Vec<Interval> = ranges.by_ref().take(own.len() * own.len()).collect();
            if children.len() != own.len() || ranges.len() != own.len() * own.len() {
                return Err(short("inner.nodes")());
            }
            nodes.push(Node::Gnat(Gnat { centers: own.to_vec(), children, ranges }));
        }
        if nodes.is_empty() || held.next().is_some() || inner.next().is_some() {
            return Err(invalid("nodes.is_inner", "it does not match the other arrays"));
        }
        if ranges.next().is_some() || !rest.is_empty() {
            return Err(invalid("inner.ranges", "it is too long"));
        }
        let removed = points.len() - distinct.count();
        let ghosts = file.number("ghosts")?;
        let bounds = Bounds::of(&metric);
        Ok(Self { points, metric, bounds, options, nodes, home, removed, ghosts })
    }
}
