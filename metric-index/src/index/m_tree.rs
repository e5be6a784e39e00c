//! M-tree (Ciaccia, Patella & Zezula 1997; Barrientos 2011, section 2.2.3.2, algorithm 2).

use super::{
    DynamicIndex, PointIndex, Probe, Progress, Space, Structure, Task, nearest_last, of_kind,
};
use crate::collector::Collector;
use crate::error::Error;
use crate::metric::Metric;
use crate::points::{GrowablePoints, Points};
use crate::stored::{DistinctNumbers, FileContents, Reader, StoreProblem, invalid, validate_ends};

/// Marks the absence of a page: above the root, below an entry of a leaf, and for a removed point.
const NO_PAGE: u32 = u32::MAX;

/// An entry of a page: a point of a leaf, or the routing object of a page below.
#[derive(Debug, Clone, Copy)]
struct Entry {
    point: u32,
    /// The distance from the routing object of the page; meaningless in the root.
    from_parent: f32,
    /// Upper bound on the distances from the entry's point to all points below it.
    radius: f32,
    /// The page below.
    node: u32,
}

#[derive(Debug, Clone)]
struct Page {
    parent: u32,
    is_leaf: bool,
    entries: Vec<Entry>,
}

/// A balanced tree of pages that grows from its leaves. The entries of an inner page are routing
/// objects: points, each with a radius that covers all points below.
///
/// An overflowing page is split in two. The promoted pair of entries is the pair whose greater
/// covering radius is smallest (the `mM_RAD` policy). Each entry goes to the nearer of the two
/// (generalized hyperplane), or to the smaller page if both are equally near.
///
/// A removed point is deleted from its leaf, but remains a routing object if it was one.
///
/// ```
/// use metric_index::index::{DynamicIndex, Index, MTree};
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
pub type MTree<S, M> = PointIndex<S, M, PagedTree>;

/// The pages of an [`MTree`].
#[derive(Debug, Clone)]
pub struct PagedTree {
    /// Maximum number of entries per page.
    page: u32,
    root: u32,
    pages: Vec<Page>,
    /// Pages that can be reused.
    free: Vec<u32>,
    /// The leaf of each point.
    leaf_of: Vec<u32>,
    removed: usize,
}

/// A page split in two: the promoted points, and the entries with their distances from the promoted
/// points.
struct Split {
    promoted: [u32; 2],
    radii: [f32; 2],
    entries: [Vec<Entry>; 2],
    /// The distances from the promoted points to the routing object of their new page.
    from_above: [f32; 2],
}

/// A step on a path from the root to a leaf: an entry of an inner page.
struct Step {
    page: u32,
    /// The position of the entry.
    position: usize,
    /// The distance from the entry to the point to be added.
    distance: f32,
}

impl<S: Points, M: Metric<S::Point>> MTree<S, M> {
    /// Builds the tree point by point, with up to `page` entries per page (at least 4). Evaluates
    /// about n · page · levels distances.
    ///
    /// # Errors
    /// Fails if the distance from a point to itself is not 0, if a distance between two points is
    /// not finite, or if `page` is below 4.
    pub fn build(points: S, metric: M, page: u32) -> Result<Self, Error> {
        Self::build_with(points, metric, page, &Progress::none())
    }
}

/// Checks the maximum number of entries per page.
fn check_page(page: u32) -> Result<(), Error> {
    if page < 4 {
        return Err(Error::Option { option: "page", value: page, expected: "4 or more" });
    }
    Ok(())
}

impl PagedTree {
    /// Returns the path from the root to the leaf for a point. In each page, the path follows the
    /// nearest entry that covers the point. If no entry covers the point, the path follows the
    /// entry whose radius grows least.
    fn path<S: Points, M: Metric<S::Point>>(
        &self,
        space: &Space<S, M>,
        point: &S::Point,
    ) -> Result<Vec<Step>, Error> {
        let from = space.origin_of(point);
        let mut path = Vec::new();
        let mut page = self.root;
        while !self.pages[page as usize].is_leaf {
            let mut best: Option<(bool, f32, usize, f32)> = None;
            for (position, entry) in self.pages[page as usize].entries.iter().enumerate() {
                let distance = from.to(entry.point)?;
                let grows = distance > entry.radius;
                let cost = if grows { distance - entry.radius } else { distance };
                if best.is_none_or(|best| (grows, cost) < (best.0, best.1)) {
                    best = Some((grows, cost, position, distance));
                }
            }
            let (_, _, position, distance) = best.expect("an inner page has an entry");
            path.push(Step { page, position, distance });
            page = self.pages[page as usize].entries[position].node;
        }
        Ok(path)
    }

    /// Adds a point to the leaf at the end of a path.
    fn add<S: Points, M: Metric<S::Point>>(
        &mut self,
        space: &Space<S, M>,
        point: u32,
        path: Vec<Step>,
    ) {
        let mut leaf = self.root;
        let mut from_parent = 0.0;
        for Step { page, position, distance } in path {
            let entry = &mut self.pages[page as usize].entries[position];
            entry.radius = entry.radius.max(distance);
            leaf = entry.node;
            from_parent = distance;
        }
        let entry = Entry { point, from_parent, radius: 0.0, node: NO_PAGE };
        self.pages[leaf as usize].entries.push(entry);
        self.leaf_of.push(leaf);
        let mut page = leaf;
        while page != NO_PAGE && self.pages[page as usize].entries.len() > self.page as usize {
            // If a distance between entries is invalid, the entries stay in one page, which needs
            // no distances.
            let Ok(split) = self.split(space, page) else { return };
            page = self.install(page, split);
        }
    }

    fn split<S: Points, M: Metric<S::Point>>(
        &self,
        space: &Space<S, M>,
        page: u32,
    ) -> Result<Split, Error> {
        let entries = &self.pages[page as usize].entries;
        let count = entries.len();
        let mut pairwise = vec![0.0; count * count];
        for a in 0..count {
            let from = space.origin(entries[a].point);
            for b in 0..a {
                let distance = from.to(entries[b].point)?;
                pairwise[a * count + b] = distance;
                pairwise[b * count + a] = distance;
            }
        }
        // Assigns each entry to one of a pair and returns the covering radii of the pair.
        let assign = |a: usize, b: usize, mut sides: Option<&mut Vec<bool>>| {
            let mut sizes = [0usize; 2];
            let mut radii = [0.0f32; 2];
            for (other, entry) in entries.iter().enumerate() {
                let distances = [pairwise[a * count + other], pairwise[b * count + other]];
                let second = match distances[0].total_cmp(&distances[1]) {
                    _ if other == a || other == b => other == b,
                    std::cmp::Ordering::Equal => sizes[1] < sizes[0],
                    order => order.is_gt(),
                };
                let side = usize::from(second);
                sizes[side] += 1;
                let reach = match entry.node {
                    NO_PAGE => distances[side],
                    _ => space.bounds.reach(distances[side], entry.radius),
                };
                radii[side] = radii[side].max(reach);
                if let Some(sides) = sides.as_deref_mut() {
                    sides.push(second);
                }
            }
            radii
        };
        let mut best = (f32::INFINITY, 0, 1);
        for a in 0..count {
            for b in a + 1..count {
                let radii = assign(a, b, None);
                let greater = radii[0].max(radii[1]);
                if greater < best.0 {
                    best = (greater, a, b);
                }
            }
        }
        let (_, a, b) = best;
        let mut sides = Vec::with_capacity(count);
        let radii = assign(a, b, Some(&mut sides));
        let mut parts = [Vec::new(), Vec::new()];
        for (other, (&entry, second)) in entries.iter().zip(sides).enumerate() {
            let promoted = if second { b } else { a };
            let from_parent = pairwise[promoted * count + other];
            parts[usize::from(second)].push(Entry { from_parent, ..entry });
        }
        let promoted = [entries[a].point, entries[b].point];
        let above = self.pages[page as usize].parent;
        let from_above = match self.routing_object(above) {
            Some(routing) => {
                let from = |point| space.distance_between(routing, point);
                [from(promoted[0])?, from(promoted[1])?]
            }
            None => [0.0; 2],
        };
        Ok(Split { promoted, radii, entries: parts, from_above })
    }

    /// Returns the routing object of a page; `None` for the root.
    fn routing_object(&self, page: u32) -> Option<u32> {
        let parent = self.pages.get(page as usize)?.parent;
        let entries = &self.pages.get(parent as usize)?.entries;
        entries.iter().find(|entry| entry.node == page).map(|entry| entry.point)
    }

    /// Replaces a page with the two pages of a split. Returns the page above.
    fn install(&mut self, page: u32, split: Split) -> u32 {
        let Page { parent, is_leaf, .. } = self.pages[page as usize];
        let [first, second] = split.entries;
        let parent = if parent == NO_PAGE {
            self.root =
                self.new_page(Page { parent: NO_PAGE, is_leaf: false, entries: Vec::new() });
            self.pages[page as usize].parent = self.root;
            self.root
        } else {
            self.pages[parent as usize].entries.retain(|entry| entry.node != page);
            parent
        };
        let other = self.new_page(Page { parent, is_leaf, entries: second });
        self.pages[page as usize].entries = first;
        for position in 0..self.pages[other as usize].entries.len() {
            let Entry { point, node, .. } = self.pages[other as usize].entries[position];
            if is_leaf {
                self.leaf_of[point as usize] = other;
            } else {
                self.pages[node as usize].parent = other;
            }
        }
        for (side, node) in [page, other].into_iter().enumerate() {
            let point = split.promoted[side];
            let radius = split.radii[side];
            let entry = Entry { point, from_parent: split.from_above[side], radius, node };
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

    /// Removes a point. Returns whether the tree contained it.
    fn remove(&mut self, point: u32) -> bool {
        let leaf = self.leaf_of.get_mut(point as usize).filter(|page| **page != NO_PAGE);
        let Some(leaf) = leaf else { return false };
        let mut page = std::mem::replace(leaf, NO_PAGE);
        self.removed += 1;
        self.pages[page as usize].entries.retain(|entry| entry.point != point);
        while page != self.root && self.pages[page as usize].entries.is_empty() {
            let parent = self.pages[page as usize].parent;
            self.pages[parent as usize].entries.retain(|entry| entry.node != page);
            self.free.push(page);
            page = parent;
        }
        // A root with one entry is replaced by its child; a root without entries becomes a leaf.
        while let Page { is_leaf: false, entries, .. } = &self.pages[self.root as usize] {
            match entries[..] {
                [] => self.pages[self.root as usize].is_leaf = true,
                [Entry { node, .. }] => {
                    self.free.push(self.root);
                    self.pages[node as usize].parent = NO_PAGE;
                    self.root = node;
                }
                _ => break,
            }
        }
        true
    }
}

impl<S: GrowablePoints, M: Metric<S::Point>> DynamicIndex for MTree<S, M> {
    fn insert(&mut self, point: &S::Point) -> Result<u32, Error> {
        let number = self.space.check_new(point)?;
        let path = self.structure.path(&self.space, point)?;
        self.space.points.push(point)?;
        self.structure.add(&self.space, number, path);
        Ok(number)
    }

    fn remove(&mut self, point: u32) -> Result<bool, Error> {
        Ok(self.structure.remove(point))
    }
}

impl<S: Points, M: Metric<S::Point>> Structure<S, M> for PagedTree {
    of_kind!(MTree(u32));

    fn build(space: &Space<S, M>, page: u32, progress: &Progress<'_>) -> Result<Self, Error> {
        check_page(page)?;
        let root = Page { parent: NO_PAGE, is_leaf: true, entries: Vec::new() };
        let mut tree = Self {
            page,
            root: 0,
            pages: vec![root],
            free: Vec::new(),
            leaf_of: Vec::new(),
            removed: 0,
        };
        progress.begin(u64::from(space.count()));
        for point in 0..space.count() {
            let path = tree.path(space, space.points.point(point))?;
            tree.add(space, point, path);
            progress.add(1);
        }
        Ok(tree)
    }

    fn root(&self) -> u32 {
        self.root
    }

    fn removed(&self) -> usize {
        self.removed
    }

    /// Returns the number of pages.
    fn nodes(&self) -> usize {
        self.pages.len() - self.free.len()
    }

    /// `task.distance` is the distance from the query to the page's routing object.
    fn step<C: Collector>(
        &self,
        space: &Space<S, M>,
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
                let distance =
                    space.bounds.outside(task.distance, entry.from_parent, entry.from_parent);
                if space.bounds.gap(distance, entry.radius) > probe.radius() {
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
            let bound = space.bounds.gap(distance, entry.radius).max(task.bound);
            if bound <= probe.radius() {
                tasks.push(Task::new(entry.node, bound, distance));
            }
        }
        nearest_last(&mut tasks[first..]);
        tasks.extend(rest);
    }

    /// Renumbers the pages level by level and writes them.
    fn write<'a>(&'a self, contents: &mut FileContents<'a>) {
        let mut pages = vec![self.root];
        let mut is_leaf = Vec::new();
        let mut ends = Vec::new();
        let mut entries = Vec::new();
        let mut at = 0;
        while let Some(&page) = pages.get(at) {
            let page = &self.pages[page as usize];
            is_leaf.push(u8::from(page.is_leaf));
            for &entry in &page.entries {
                let mut node = NO_PAGE;
                if !page.is_leaf {
                    node = u32::try_from(pages.len()).expect("fewer pages than points");
                    pages.push(entry.node);
                }
                entries.push(Entry { node, ..entry });
            }
            ends.push(entries.len() as u64);
            at += 1;
        }
        contents.computed("pages.is_leaf", is_leaf);
        contents.computed("pages.ends", ends);
        contents.computed("entries.points", entries.iter().map(|entry| entry.point));
        contents.computed("entries.distances", entries.iter().map(|entry| entry.from_parent));
        contents.computed("entries.radii", entries.iter().map(|entry| entry.radius));
        contents.computed("entries.pages", entries.iter().map(|entry| entry.node));
        contents.number("page", u64::from(self.page));
    }

    fn read(file: &mut Reader, space: &Space<S, M>, page: u32) -> Result<Self, StoreProblem> {
        check_page(page)?;
        let is_leaf = file.array::<u8>("pages.is_leaf")?;
        let ends = file.array_of::<u64>("pages.ends", is_leaf.len())?;
        let all = file.array::<u32>("entries.points")?;
        let from_parent = file.distances_of("entries.distances", all.len())?;
        let radii = file.distances_of("entries.radii", all.len())?;
        let below = file.array_of::<u32>("entries.pages", all.len())?;
        let ends = validate_ends(&ends, all.len(), "pages.ends")?;
        let count = space.points.len();
        let mut distinct = DistinctNumbers::of("entries.points", count);
        let mut distinct_pages = DistinctNumbers::of("entries.pages", is_leaf.len());
        let mut leaf_of = vec![NO_PAGE; count];
        let mut parents = vec![NO_PAGE; is_leaf.len()];
        let mut pages = Vec::with_capacity(ends.len());
        let mut start = 0;
        for ((number, &is_leaf), end) in (0..).zip(is_leaf.iter()).zip(ends) {
            let is_leaf = is_leaf != 0;
            let mut entries = Vec::with_capacity(end - start);
            for at in start..end {
                let point = all[at];
                let node = below[at];
                if is_leaf {
                    distinct.check(point)?;
                    leaf_of[point as usize] = number;
                } else {
                    // Each page has one parent, whose number is lower.
                    distinct_pages.check(node)?;
                    if node <= number || point as usize >= count {
                        return Err(invalid(
                            "entries.pages",
                            format!("{node} is a child of {number}"),
                        ));
                    }
                    parents[node as usize] = number;
                }
                if is_leaf && node != NO_PAGE {
                    return Err(invalid("entries.pages", "a leaf has a page below"));
                }
                let from_parent = from_parent[at];
                let radius = radii[at];
                entries.push(Entry { point, from_parent, radius, node });
            }
            if entries.is_empty() && number > 0 {
                return Err(invalid("pages.ends", format!("page {number} is empty")));
            }
            start = end;
            pages.push(Page { parent: parents[number as usize], is_leaf, entries });
        }
        if pages.is_empty() || distinct_pages.count() + 1 != pages.len() {
            return Err(invalid("pages.is_leaf", "it does not match the other arrays"));
        }
        if pages[0].entries.is_empty() && !pages[0].is_leaf {
            return Err(invalid("pages.is_leaf", "an inner page is empty"));
        }
        let removed = count - distinct.count();
        Ok(Self { page, root: 0, pages, free: Vec::new(), leaf_of, removed })
    }
}
