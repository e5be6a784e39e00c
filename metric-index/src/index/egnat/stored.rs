//! The file of an [`Egnat`].

use super::{Egnat, EgnatOptions, Gnat, Held, Interval, NOWHERE, Node};
use crate::index::Kind;
use crate::metric::Metric;
use crate::points::Points;
use crate::prune::Bounds;
use crate::stored::{Once, Parts, Reader, StoreProblem, Stored, distances, ends_of, invalid};

impl<S: Points, M: Metric<S::Point>> Stored for Egnat<S, M> {
    fn name(&self) -> &'static str {
        "egnat"
    }

    fn kind(&self) -> Kind {
        Kind::Egnat(self.options)
    }

    fn reads(name: &str) -> bool {
        name == "egnat"
    }

    /// Held points have distances, centers have children; so the arrays beside the points say which they are.
    fn write<'a>(&'a self, parts: &mut Parts<'a>) {
        let (mut is_gnat, mut ends, mut points) = (Vec::new(), Vec::new(), Vec::new());
        let (mut distances, mut children, mut ranges) = (Vec::new(), Vec::new(), Vec::new());
        for node in &self.nodes {
            is_gnat.push(u8::from(matches!(node, Node::Gnat(_))));
            match node {
                Node::Bucket(held) => {
                    points.extend(held.iter().map(|&(point, _)| point));
                    distances.extend(held.iter().map(|&(_, distance)| distance));
                }
                Node::Gnat(gnat) => {
                    points.extend_from_slice(&gnat.centers);
                    children.extend_from_slice(&gnat.children);
                    ranges.extend(gnat.ranges.iter().flat_map(|&(low, high)| [low, high]));
                }
            }
            ends.push(points.len() as u64);
        }
        parts.made("nodes.is_inner", is_gnat);
        parts.made("nodes.ends", ends);
        parts.made("nodes.points", points);
        parts.made("leaves.distances", distances);
        parts.made("inner.nodes", children);
        parts.made("inner.ranges", ranges);
        parts.number("arity", u64::from(self.options.arity));
        parts.number("bucket", u64::from(self.options.bucket));
        parts.number("ghosts", self.ghosts);
    }

    fn read(file: &mut Reader, _: &str, points: S, metric: M) -> Result<Self, StoreProblem> {
        let options = EgnatOptions { arity: file.small("arity")?, bucket: file.small("bucket")? };
        options.check()?;
        let is_inner = file.array::<u8>("nodes.is_inner")?;
        let ends = file.array_of::<u64>("nodes.ends", is_inner.len())?;
        let all = file.array::<u32>("nodes.points")?;
        let (from_center, children) =
            (file.array::<f32>("leaves.distances")?, file.array::<u32>("inner.nodes")?);
        let ranges = file.array::<f32>("inner.ranges")?;
        distances(&from_center, "leaves.distances")?;
        distances(&ranges, "inner.ranges")?;
        let ends = ends_of(&ends, all.len(), "nodes.ends")?;
        let mut once = Once::of("nodes.points", points.len());
        all.iter().try_for_each(|&point| once.check(point))?;
        let mut below = Once::of("inner.nodes", is_inner.len());
        let mut home = vec![NOWHERE; points.len()];
        let (mut nodes, mut start) = (Vec::with_capacity(ends.len()), 0);
        let (mut held, mut inner) = (from_center.iter(), children.iter());
        let (ranges, rest) = ranges.as_chunks::<2>();
        let mut ranges = ranges.iter().map(|&[low, high]| (low, high));
        let short = |array| move || invalid(array, "it is too short");
        for ((node, &is_inner), end) in (0..).zip(is_inner.iter()).zip(ends) {
            let own = &all[start..end];
            for &point in own {
                home[point as usize] = node;
            }
            start = end;
            if is_inner == 0 {
                let distances = held.by_ref().take(own.len()).copied();
                let bucket: Vec<Held> = own.iter().copied().zip(distances).collect();
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
                // A node comes after the one above it, and has one above it.
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
            return Err(invalid("nodes.is_inner", "it is not of these nodes"));
        }
        if ranges.next().is_some() || !rest.is_empty() {
            return Err(invalid("inner.ranges", "it is too long"));
        }
        let (removed, ghosts) = (points.len() - once.count(), file.number("ghosts")?);
        let bounds = Bounds::of(&metric);
        Ok(Self { points, metric, bounds, options, nodes, home, removed, ghosts })
    }
}
