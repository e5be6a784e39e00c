//! M-tree (Ciaccia, Patella & Zezula 1997; Barrientos 2011, section 2.2.3.2, algorithm 2).

use super::{
    Dynamic, FromPoint, Index, Kind, Probe, Progress, Task, between, check, check_new, from_new,
    nearest_last,
};
use crate::collector::Collector;
use crate::error::Error;
use crate::metric::{Metric, Origin};
use crate::points::{Growing, Points};
use crate::prune::Bounds;
use crate::stored::{Once, Parts, Reader, StoreProblem, Stored, distances, ends_of, invalid};

/// No node: above the root, below the entry of a leaf, around a point that was removed.
const NONE: u32 = u32::MAX;

/// A point of a leaf, or the routing object of a node below.
#[derive(Debug, Clone, Copy)]
struct Entry {
    point: u32,
    /// Its distance from the routing object of the page; of no meaning in the root.
    from_parent: f32,
    /// No point below is farther than this.
    radius: f32,
    node: u32,
}

#[derive(Debug, Clone)]
struct Page {
    parent: u32,
    is_leaf: bool,
    entries: Vec<Entry>,
}

/// A balanced tree of pages that grows from its leaves. The entries of an inner page are routing objects:
/// points, each with a radius that covers all that is below.
///
/// A page that overflows is split in two: of all pairs of its entries those are promoted whose greater covering
/// radius is the least (`mM_RAD`), and each entry goes to the nearer of them (generalized hyperplane), or, if
/// both are as near, to the page that has fewer.
///
/// A point that is removed leaves its page; if it is a routing object, it stays one.
///
/// ```
/// use metric_index::index::{Dynamic, Index, MTree};
/// use metric_index::metric::Euclidean;
/// use metric_index::points::Vectors;
///
/// let mut tree = MTree::build(Vectors::new(vec![0.0f32, 0.0, 3.0, 4.0], 2)?, Euclidean, 32)?;
/// tree.insert(&[3.0, 3.0])?;
/// tree.remove(0)?;
/// let found: Vec<u32> = tree.within(&[3.0, 3.0], 1.0)?.iter().map(|near| near.point).collect();
/// assert_eq!(found, [2, 1]);
/// # Ok::<(), metric_index::error::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct MTree<S, M> {
    points: S,
    metric: M,
    bounds: Bounds,
    page: u32,
    root: u32,
    pages: Vec<Page>,
    /// Unused pages.
    free: Vec<u32>,
    /// The leaf of each point.
    home: Vec<u32>,
    removed: usize,
}

/// A page cut in two: the promoted points and their entries, with their distances from them.
struct Split {
    promoted: [u32; 2],
    radii: [f32; 2],
    entries: [Vec<Entry>; 2],
}

impl<S: Points, M: Metric<S::Point>> MTree<S, M> {
    /// Builds the tree point by point, with up to `page` entries per page (4 or more): about n · page · levels distances.
    ///
    /// # Errors
    /// If a point has no distance of 0 from itself or none from a point that it is compared with, or the page is
    /// too small.
    ///
    /// ```
    /// use metric_index::index::{Index, MTree};
    /// use metric_index::metric::Edit;
    /// use metric_index::points::Strings;
    ///
    /// let words: Strings = ["casa", "cosa", "caso", "pez"].into_iter().collect();
    /// let index = MTree::build(words, Edit, 4)?;
    /// assert_eq!(index.within("pe", 1.0)?.len(), 1);
    /// # Ok::<(), metric_index::error::Error>(())
    /// ```
    pub fn build(points: S, metric: M, page: u32) -> Result<Self, Error> {
        Self::build_with(points, metric, page, &Progress::none())
    }

    /// As [`build`](Self::build), with progress reports.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    ///
    /// ```
    /// use metric_index::index::{Index, MTree, Progress};
    /// use metric_index::metric::Edit;
    /// use metric_index::points::Strings;
    ///
    /// let words: Strings = ["casa", "cosa", "caso", "pez"].into_iter().collect();
    /// let report = |done: u64, all: u64| assert!(done <= all);
    /// let index = MTree::build_with(words, Edit, 4, &Progress::new(&report))?;
    /// assert_eq!(index.len(), 4);
    /// # Ok::<(), metric_index::error::Error>(())
    /// ```
    pub fn build_with(
        points: S,
        metric: M,
        page: u32,
        progress: &Progress<'_>,
    ) -> Result<Self, Error> {
        if page < 4 {
            return Err(Error::Option { option: "page", value: page, expected: "4 or more" });
        }
        let count = check(&points, &metric)?;
        let root = Page { parent: NONE, is_leaf: true, entries: Vec::new() };
        let mut tree = Self {
            bounds: Bounds::of(&metric),
            points,
            metric,
            page,
            root: 0,
            pages: vec![root],
            free: Vec::new(),
            home: Vec::new(),
            removed: 0,
        };
        progress.begin(u64::from(count));
        for point in 0..count {
            let way = tree.way(tree.points.point(point))?;
            tree.add(point, way);
            progress.add(1);
        }
        Ok(tree)
    }

    /// The way from the root to the leaf for a point: at each inner page the place of an entry and the
    /// point's distance from it; of those that cover the point the nearest, otherwise that whose
    /// radius grows least.
    fn way(&self, point: &S::Point) -> Result<Vec<(u32, usize, f32)>, Error> {
        let origin = Origin::new(&self.metric, point);
        let (mut way, mut page) = (Vec::new(), self.root);
        while !self.pages[page as usize].is_leaf {
            let mut best: Option<(bool, f32, usize, f32)> = None;
            for (place, entry) in self.pages[page as usize].entries.iter().enumerate() {
                let distance = from_new(&self.points, &origin, entry.point)?;
                let grows = distance > entry.radius;
                let by = if grows { distance - entry.radius } else { distance };
                if best.is_none_or(|best| (grows, by) < (best.0, best.1)) {
                    best = Some((grows, by, place, distance));
                }
            }
            let (_, _, place, distance) = best.expect("an inner page has an entry");
            way.push((page, place, distance));
            page = self.pages[page as usize].entries[place].node;
        }
        Ok(way)
    }

    /// Puts a point into the leaf at the end of a way.
    fn add(&mut self, point: u32, way: Vec<(u32, usize, f32)>) {
        let (mut leaf, mut from_parent) = (self.root, 0.0);
        for (page, place, distance) in way {
            let entry = &mut self.pages[page as usize].entries[place];
            entry.radius = entry.radius.max(distance);
            (leaf, from_parent) = (entry.node, distance);
        }
        let entry = Entry { point, from_parent, radius: 0.0, node: NONE };
        self.pages[leaf as usize].entries.push(entry);
        self.home.push(leaf);
        let mut page = leaf;
        while page != NONE && self.pages[page as usize].entries.len() > self.page as usize {
            // Points without a distance stay in one page, where none is needed.
            let Ok(split) = self.split(page) else { return };
            page = self.install(page, split);
        }
    }

    fn split(&self, page: u32) -> Result<(Split, [f32; 2]), Error> {
        let entries = &self.pages[page as usize].entries;
        let count = entries.len();
        let mut apart = vec![0.0; count * count];
        for a in 0..count {
            let from = FromPoint::new(&self.points, &self.metric, entries[a].point);
            for b in 0..a {
                let distance = from.to(entries[b].point)?;
                (apart[a * count + b], apart[b * count + a]) = (distance, distance);
            }
        }
        // Which side an entry goes to, and how far the sides reach.
        let dealt = |a: usize, b: usize, mut to: Option<&mut Vec<bool>>| {
            let (mut sizes, mut radii) = ([0usize; 2], [0.0f32; 2]);
            for (other, entry) in entries.iter().enumerate() {
                let distances = [apart[a * count + other], apart[b * count + other]];
                let second = match distances[0].total_cmp(&distances[1]) {
                    _ if other == a || other == b => other == b,
                    std::cmp::Ordering::Equal => sizes[1] < sizes[0],
                    order => order.is_gt(),
                };
                let side = usize::from(second);
                sizes[side] += 1;
                let reach = match entry.node {
                    NONE => distances[side],
                    _ => self.bounds.reach(distances[side], entry.radius),
                };
                radii[side] = radii[side].max(reach);
                if let Some(to) = to.as_deref_mut() {
                    to.push(second);
                }
            }
            radii
        };
        let mut best = (f32::INFINITY, 0, 1);
        for a in 0..count {
            for b in a + 1..count {
                let radii = dealt(a, b, None);
                let greater = radii[0].max(radii[1]);
                if greater < best.0 {
                    best = (greater, a, b);
                }
            }
        }
        let (_, a, b) = best;
        let mut sides = Vec::with_capacity(count);
        let radii = dealt(a, b, Some(&mut sides));
        let mut parts = [Vec::new(), Vec::new()];
        for (other, (&entry, second)) in entries.iter().zip(sides).enumerate() {
            let promoted = if second { b } else { a };
            let from_parent = apart[promoted * count + other];
            parts[usize::from(second)].push(Entry { from_parent, ..entry });
        }
        let promoted = [entries[a].point, entries[b].point];
        let split = Split { promoted, radii, entries: parts };
        // The promoted points' distances from the routing object of the page that they come to.
        let above = self.pages[page as usize].parent;
        let Some(routing) = self.routing(above) else { return Ok((split, [0.0; 2])) };
        let from = |point| between(&self.points, &self.metric, routing, point);
        let from_above = [from(promoted[0])?, from(promoted[1])?];
        Ok((split, from_above))
    }

    /// The routing object of a page; none of the root.
    fn routing(&self, page: u32) -> Option<u32> {
        let parent = self.pages.get(page as usize)?.parent;
        let entries = &self.pages.get(parent as usize)?.entries;
        entries.iter().find(|entry| entry.node == page).map(|entry| entry.point)
    }

    /// Makes two pages of one; gives the page above.
    fn install(&mut self, page: u32, (split, from_above): (Split, [f32; 2])) -> u32 {
        let Page { parent, is_leaf, .. } = self.pages[page as usize];
        let [first, second] = split.entries;
        let parent = if parent == NONE {
            self.root = self.new_page(Page { parent: NONE, is_leaf: false, entries: Vec::new() });
            self.pages[page as usize].parent = self.root;
            self.root
        } else {
            self.pages[parent as usize].entries.retain(|entry| entry.node != page);
            parent
        };
        let other = self.new_page(Page { parent, is_leaf, entries: second });
        self.pages[page as usize].entries = first;
        for place in 0..self.pages[other as usize].entries.len() {
            let Entry { point, node, .. } = self.pages[other as usize].entries[place];
            if is_leaf {
                self.home[point as usize] = other;
            } else {
                self.pages[node as usize].parent = other;
            }
        }
        for (side, node) in [page, other].into_iter().enumerate() {
            let (point, radius) = (split.promoted[side], split.radii[side]);
            let entry = Entry { point, from_parent: from_above[side], radius, node };
            self.pages[parent as usize].entries.push(entry);
        }
        parent
    }

    fn new_page(&mut self, page: Page) -> u32 {
        if let Some(free) = self.free.pop() {
            self.pages[free as usize] = page;
            return free;
        }
        self.pages.push(page);
        u32::try_from(self.pages.len() - 1).expect("fewer pages than points")
    }
}

impl<S: Growing, M: Metric<S::Point>> Dynamic for MTree<S, M> {
    fn insert(&mut self, point: &S::Point) -> Result<u32, Error> {
        let number = check_new(&self.points, &self.metric, point)?;
        let way = self.way(point)?;
        self.points.push(point)?;
        self.add(number, way);
        Ok(number)
    }

    fn remove(&mut self, point: u32) -> Result<bool, Error> {
        let home = self.home.get_mut(point as usize).filter(|page| **page != NONE);
        let Some(home) = home else { return Ok(false) };
        let mut page = std::mem::replace(home, NONE);
        self.removed += 1;
        self.pages[page as usize].entries.retain(|entry| entry.point != point);
        while page != self.root && self.pages[page as usize].entries.is_empty() {
            let parent = self.pages[page as usize].parent;
            self.pages[parent as usize].entries.retain(|entry| entry.node != page);
            self.free.push(page);
            page = parent;
        }
        // A root of one page is no root, and one of none is a leaf.
        while let Page { is_leaf: false, entries, .. } = &self.pages[self.root as usize] {
            match entries[..] {
                [] => self.pages[self.root as usize].is_leaf = true,
                [Entry { node, .. }] => {
                    self.free.push(self.root);
                    self.pages[node as usize].parent = NONE;
                    self.root = node;
                }
                _ => break,
            }
        }
        Ok(true)
    }
}

impl<S: Points, M: Metric<S::Point>> Index for MTree<S, M> {
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

    /// Pages.
    fn nodes(&self) -> usize {
        self.pages.len() - self.free.len()
    }

    fn start<C: Collector>(&self, _: &mut Probe<'_, S, M, C>, tasks: &mut Vec<Task>) -> Box<[f32]> {
        // No routing object is above the root: this distance excludes nothing.
        tasks.push(Task::new(self.root, 0.0, f32::NAN));
        Box::default()
    }

    /// `distance` is that of the query from the page's routing object.
    fn step<C: Collector>(
        &self,
        task: Task,
        _: &[f32],
        probe: &mut Probe<'_, S, M, C>,
        tasks: &mut Vec<Task>,
    ) {
        let page = &self.pages[task.region as usize];
        let first = tasks.len();
        let mut rest = None;
        for (entry, at) in page.entries[task.at as usize..].iter().zip(task.at..) {
            if !task.distance.is_nan() {
                let apart =
                    self.bounds.outside(task.distance, entry.from_parent, entry.from_parent);
                if self.bounds.gap(apart, entry.radius) > probe.radius() {
                    continue;
                }
            }
            if probe.is_exhausted() {
                rest = Some(Task { at, ..task });
                break;
            }
            if page.is_leaf {
                probe.visit_within(entry.point);
                continue;
            }
            let distance = probe.measure(entry.point);
            let bound = self.bounds.gap(distance, entry.radius).max(task.bound);
            if bound <= probe.radius() {
                tasks.push(Task::new(entry.node, bound, distance));
            }
        }
        nearest_last(&mut tasks[first..]);
        tasks.extend(rest);
    }
}

impl<S: Points, M: Metric<S::Point>> Stored for MTree<S, M> {
    fn name(&self) -> &'static str {
        "m-tree"
    }

    fn kind(&self) -> Kind {
        Kind::MTree(self.page)
    }

    fn reads(name: &str) -> bool {
        name == "m-tree"
    }

    /// The pages level by level, numbered anew.
    fn write<'a>(&'a self, parts: &mut Parts<'a>) {
        let mut pages = vec![self.root];
        let (mut is_leaf, mut ends, mut entries) = (Vec::new(), Vec::new(), Vec::new());
        let mut at = 0;
        while let Some(&page) = pages.get(at) {
            let page = &self.pages[page as usize];
            is_leaf.push(u8::from(page.is_leaf));
            for &entry in &page.entries {
                let mut node = NONE;
                if !page.is_leaf {
                    node = u32::try_from(pages.len()).expect("fewer pages than points");
                    pages.push(entry.node);
                }
                entries.push(Entry { node, ..entry });
            }
            ends.push(entries.len() as u64);
            at += 1;
        }
        parts.made("pages.is_leaf", is_leaf);
        parts.made("pages.ends", ends);
        parts.made("entries.points", entries.iter().map(|entry| entry.point));
        parts.made("entries.distances", entries.iter().map(|entry| entry.from_parent));
        parts.made("entries.radii", entries.iter().map(|entry| entry.radius));
        parts.made("entries.pages", entries.iter().map(|entry| entry.node));
        parts.number("page", u64::from(self.page));
    }

    fn read(file: &mut Reader, _: &str, points: S, metric: M) -> Result<Self, StoreProblem> {
        let page = file.small("page")?;
        if page < 4 {
            return Err(Error::Option { option: "page", value: page, expected: "4 or more" }.into());
        }
        let is_leaf = file.array::<u8>("pages.is_leaf")?;
        let ends = file.array_of::<u64>("pages.ends", is_leaf.len())?;
        let all = file.array::<u32>("entries.points")?;
        let from_parent = file.array_of::<f32>("entries.distances", all.len())?;
        let radii = file.array_of::<f32>("entries.radii", all.len())?;
        let below = file.array_of::<u32>("entries.pages", all.len())?;
        distances(&from_parent, "entries.distances")?;
        distances(&radii, "entries.radii")?;
        let ends = ends_of(&ends, all.len(), "pages.ends")?;
        let mut once = Once::of("entries.points", points.len());
        let mut pages_once = Once::of("entries.pages", is_leaf.len());
        let mut home = vec![NONE; points.len()];
        let mut parents = vec![NONE; is_leaf.len()];
        let (mut pages, mut start) = (Vec::with_capacity(ends.len()), 0);
        for ((number, &is_leaf), end) in (0..).zip(is_leaf.iter()).zip(ends) {
            let is_leaf = is_leaf != 0;
            let mut entries = Vec::with_capacity(end - start);
            for at in start..end {
                let (point, node) = (all[at], below[at]);
                if is_leaf {
                    once.check(point)?;
                    home[point as usize] = number;
                } else {
                    // A page comes after the one above it, and has one above it.
                    pages_once.check(node)?;
                    if node <= number || point as usize >= points.len() {
                        return Err(invalid("entries.pages", format!("{node} is below {number}")));
                    }
                    parents[node as usize] = number;
                }
                if is_leaf && node != NONE {
                    return Err(invalid("entries.pages", "a leaf has a page below"));
                }
                let (from_parent, radius) = (from_parent[at], radii[at]);
                entries.push(Entry { point, from_parent, radius, node });
            }
            if entries.is_empty() && number > 0 {
                return Err(invalid("pages.ends", format!("page {number} is empty")));
            }
            start = end;
            pages.push(Page { parent: parents[number as usize], is_leaf, entries });
        }
        if pages.is_empty() || pages_once.count() + 1 != pages.len() {
            return Err(invalid("pages.is_leaf", "it is not of these pages"));
        }
        if pages[0].entries.is_empty() && !pages[0].is_leaf {
            return Err(invalid("pages.is_leaf", "an inner page is empty"));
        }
        let removed = points.len() - once.count();
        let (bounds, free) = (Bounds::of(&metric), Vec::new());
        Ok(Self { points, metric, bounds, page, root: 0, pages, free, home, removed })
    }
}
