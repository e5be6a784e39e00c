//! An index whose kind is chosen at run time.

use std::fmt;
use std::num::NonZero;
use std::str::FromStr;

use super::{
    BruteForce, ClusterSize, Egnat, EgnatOptions, Index, KdTree, ListOfClusters, MTree, Pivots,
    Probe, Progress, SssIndex, SssTree, Task, VpTree,
};
use crate::collector::{Answer, Collector};
use crate::error::Error;
use crate::lists::NeighborLists;
use crate::metric::{Blocks, Metric};
use crate::points::Points;
use crate::stored::{FileContents, Reader, StoreProblem, StoredIndex};

/// A kind of index with its parameters. As text, for example `lc:64`.
///
/// ```
/// use metric_index::index::{Index, Kind};
/// use metric_index::metric::Edit;
/// use metric_index::points::Strings;
///
/// let kind: Kind = "egnat:16x64".parse()?;
/// assert_eq!(kind.to_string(), "egnat:16x64");
/// let words: Strings = ["casa", "cosa", "pez"].into_iter().collect();
/// assert_eq!(kind.build(words, Edit)?.within("casa", 1.0)?.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// `brute-force`
    BruteForce,
    /// `lc:64`: clusters of a center and 64 points; or `lc:r0.5`: clusters of a radius.
    ListOfClusters(ClusterSize),
    /// `sss-index:0.4`: pivots by Sparse Spatial Selection; or `sss-index:32p`, the default: 32
    /// pivots by farthest-first traversal.
    SssIndex(Pivots),
    /// `sss-tree:0.4`
    SssTree(f32),
    /// `egnat:16x64`: 16 centers per node and buckets of 64 points.
    Egnat(EgnatOptions),
    /// `m-tree:32`: 32 entries per page.
    MTree(u32),
    /// `vp-tree`
    VpTree,
    /// `kd-tree`, for a metric with [coordinates](Metric::coordinates).
    KdTree,
}

impl Kind {
    /// Every kind once, with parameters that suit most data.
    ///
    /// ```
    /// assert_eq!(metric_index::index::Kind::all().len(), 8);
    /// ```
    pub fn all() -> [Self; 8] {
        let mut all = [Self::KdTree; 8];
        all[..7].copy_from_slice(&Self::of_any_metric());
        all
    }

    /// Every kind that supports any metric, with parameters that suit most data.
    ///
    /// ```
    /// assert_eq!(metric_index::index::Kind::of_any_metric().len(), 7);
    /// ```
    pub fn of_any_metric() -> [Self; 7] {
        [
            Self::BruteForce,
            Self::ListOfClusters(ClusterSize::Points(64)),
            Self::SssIndex(Pivots::Count(32)),
            Self::SssTree(0.4),
            Self::Egnat(EgnatOptions::default()),
            Self::MTree(32),
            Self::VpTree,
        ]
    }

    /// Builds an index of this kind.
    ///
    /// # Errors
    /// The errors of the index of this kind.
    ///
    /// ```
    /// use metric_index::index::{Index, Kind};
    /// use metric_index::metric::Edit;
    /// use metric_index::points::Strings;
    ///
    /// let words: Strings = ["casa", "cosa", "caso", "pez"].into_iter().collect();
    /// for kind in Kind::of_any_metric() {
    ///     assert_eq!(kind.build(&words, Edit)?.within("casa", 1.0)?.len(), 3);
    /// }
    /// # Ok::<(), metric_index::error::Error>(())
    /// ```
    pub fn build<S: Points, M: Metric<S::Point>>(
        self,
        points: S,
        metric: M,
    ) -> Result<AnyIndex<S, M>, Error> {
        self.build_with(points, metric, &Progress::none())
    }

    /// Like [`build`](Self::build), with progress reports.
    ///
    /// # Errors
    /// Those of [`build`](Self::build).
    ///
    /// ```
    /// use metric_index::index::{Index, Kind, Progress};
    /// use metric_index::metric::Edit;
    /// use metric_index::points::Strings;
    ///
    /// let words: Strings = ["casa", "cosa", "caso", "pez"].into_iter().collect();
    /// let report = |done: u64, all: u64| assert!(done <= all);
    /// assert_eq!(Kind::VpTree.build_with(words, Edit, &Progress::new(&report))?.len(), 4);
    /// # Ok::<(), metric_index::error::Error>(())
    /// ```
    pub fn build_with<S: Points, M: Metric<S::Point>>(
        self,
        points: S,
        metric: M,
        progress: &Progress<'_>,
    ) -> Result<AnyIndex<S, M>, Error> {
        use AnyIndex as Any;
        Ok(match self {
            Self::BruteForce => {
                progress.begin(points.len() as u64);
                let index = BruteForce::new(points, metric)?;
                progress.add(index.len() as u64);
                Any::BruteForce(index)
            }
            Self::ListOfClusters(size) => {
                Any::ListOfClusters(ListOfClusters::build_with(points, metric, size, progress)?)
            }
            Self::SssIndex(pivots) => {
                Any::SssIndex(SssIndex::build_with(points, metric, pivots, progress)?)
            }
            Self::SssTree(share) => {
                Any::SssTree(SssTree::build_with(points, metric, share, progress)?)
            }
            Self::Egnat(options) => {
                Any::Egnat(Egnat::build_with(points, metric, options, progress)?)
            }
            Self::MTree(page) => Any::MTree(MTree::build_with(points, metric, page, progress)?),
            Self::VpTree => Any::VpTree(VpTree::build_with(points, metric, progress)?),
            Self::KdTree => Any::KdTree(KdTree::build_with(points, metric, progress)?),
        })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BruteForce => f.write_str("brute-force"),
            Self::ListOfClusters(ClusterSize::Points(points)) => write!(f, "lc:{points}"),
            Self::ListOfClusters(ClusterSize::Radius(radius)) => write!(f, "lc:r{radius}"),
            Self::SssIndex(Pivots::Spread(share)) => write!(f, "sss-index:{share}"),
            Self::SssIndex(Pivots::Count(pivots)) => write!(f, "sss-index:{pivots}p"),
            Self::SssTree(share) => write!(f, "sss-tree:{share}"),
            Self::Egnat(EgnatOptions { arity, bucket }) => write!(f, "egnat:{arity}x{bucket}"),
            Self::MTree(page) => write!(f, "m-tree:{page}"),
            Self::VpTree => f.write_str("vp-tree"),
            Self::KdTree => f.write_str("kd-tree"),
        }
    }
}

/// The error for a text that is not a kind of index.
///
/// ```
/// use metric_index::index::Kind;
///
/// assert!("ball-tree".parse::<Kind>().unwrap_err().to_string().contains("vp-tree"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a kind of index; expected brute-force, lc:POINTS, lc:rRADIUS, \
     sss-index:SHARE, sss-index:PIVOTSp, sss-tree:SHARE, egnat:ARITYxBUCKET, m-tree:PAGE, \
     vp-tree or kd-tree"
)]
pub struct UnknownKind {
    text: String,
}

impl FromStr for Kind {
    type Err = UnknownKind;

    /// Parses a kind; parameters may be omitted.
    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        let (name, parameter) = text.split_once(':').unwrap_or((text, ""));
        let read = || -> Option<Self> {
            let is_bare = !text.contains(':');
            let share = || if is_bare { Some(0.4) } else { parameter.parse().ok() };
            Some(match name {
                "brute-force" if is_bare => Self::BruteForce,
                "vp-tree" if is_bare => Self::VpTree,
                "kd-tree" if is_bare => Self::KdTree,
                "lc" if is_bare => Self::ListOfClusters(ClusterSize::Points(64)),
                "lc" => Self::ListOfClusters(match parameter.strip_prefix('r') {
                    Some(radius) => ClusterSize::Radius(radius.parse().ok()?),
                    None => ClusterSize::Points(parameter.parse().ok()?),
                }),
                "sss-index" if is_bare => Self::SssIndex(Pivots::Count(32)),
                "sss-index" => Self::SssIndex(match parameter.strip_suffix('p') {
                    Some(pivots) => Pivots::Count(pivots.parse().ok()?),
                    None => Pivots::Spread(parameter.parse().ok()?),
                }),
                "sss-tree" => Self::SssTree(share()?),
                "egnat" if is_bare => Self::Egnat(EgnatOptions::default()),
                "egnat" => {
                    let (arity, bucket) = parameter.split_once('x')?;
                    let arity = arity.parse().ok()?;
                    let bucket = bucket.parse().ok()?;
                    Self::Egnat(EgnatOptions { arity, bucket })
                }
                "m-tree" if is_bare => Self::MTree(32),
                "m-tree" => Self::MTree(parameter.parse().ok()?),
                _ => return None,
            })
        };
        read().ok_or_else(|| UnknownKind { text: text.to_owned() })
    }
}

/// An index of any [`Kind`].
///
/// ```
/// use metric_index::index::{AnyIndex, Kind};
/// use metric_index::metric::Edit;
/// use metric_index::points::Strings;
///
/// let words: Strings = ["casa", "cosa", "caso", "pez"].into_iter().collect();
/// let index = "lc:2".parse::<Kind>().unwrap().build(words, Edit)?;
/// assert!(matches!(index, AnyIndex::ListOfClusters(_)));
/// # Ok::<(), metric_index::error::Error>(())
/// ```
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "each variant has the name of its index")]
pub enum AnyIndex<S: Points, M> {
    BruteForce(BruteForce<S, M>),
    ListOfClusters(ListOfClusters<S, M>),
    SssIndex(SssIndex<S, M>),
    SssTree(SssTree<S, M>),
    Egnat(Egnat<S, M>),
    MTree(MTree<S, M>),
    VpTree(VpTree<S, M>),
    KdTree(KdTree<S, M>),
}

/// Forwards a call to the index of the variant.
macro_rules! each {
    ($self:ident, $index:ident => $call:expr) => {
        match $self {
            AnyIndex::BruteForce($index) => $call,
            AnyIndex::ListOfClusters($index) => $call,
            AnyIndex::SssIndex($index) => $call,
            AnyIndex::SssTree($index) => $call,
            AnyIndex::Egnat($index) => $call,
            AnyIndex::MTree($index) => $call,
            AnyIndex::VpTree($index) => $call,
            AnyIndex::KdTree($index) => $call,
        }
    };
}

impl<S: Points, M: Metric<S::Point>> Index for AnyIndex<S, M> {
    type Points = S;
    type Metric = M;

    fn points(&self) -> &S {
        each!(self, index => index.points())
    }

    fn len(&self) -> usize {
        each!(self, index => index.len())
    }

    fn metric(&self) -> &M {
        each!(self, index => index.metric())
    }

    fn nodes(&self) -> usize {
        each!(self, index => index.nodes())
    }

    fn answer_many<Q: Points<Point = S::Point>, A: Answer>(
        &self,
        queries: &Q,
        threads: NonZero<usize>,
        ask: impl Fn(u32) -> A + Sync,
    ) -> NeighborLists {
        each!(self, index => index.answer_many(queries, threads, ask))
    }

    fn blocks(&self) -> Option<&dyn Blocks<S::Point>> {
        each!(self, index => index.blocks())
    }

    fn start<C: Collector>(
        &self,
        probe: &mut Probe<'_, S, M, C>,
        tasks: &mut Vec<Task>,
    ) -> Box<[f32]> {
        each!(self, index => index.start(probe, tasks))
    }

    fn step<C: Collector>(
        &self,
        task: Task,
        shared: &[f32],
        probe: &mut Probe<'_, S, M, C>,
        tasks: &mut Vec<Task>,
    ) {
        each!(self, index => index.step(task, shared, probe, tasks));
    }
}

impl<S: Points, M: Metric<S::Point>> StoredIndex for AnyIndex<S, M> {
    fn name(&self) -> &'static str {
        each!(self, index => index.name())
    }

    fn kind(&self) -> Kind {
        each!(self, index => index.kind())
    }

    fn reads(name: &str) -> bool {
        Kind::all().iter().any(|kind| kind.to_string().split(':').next() == Some(name))
    }

    fn write<'a>(&'a self, contents: &mut FileContents<'a>) {
        each!(self, index => index.write(contents));
    }

    fn read(file: &mut Reader, name: &str, points: S, metric: M) -> Result<Self, StoreProblem> {
        Ok(match name {
            "lc" => Self::ListOfClusters(StoredIndex::read(file, name, points, metric)?),
            "sss-index" => Self::SssIndex(StoredIndex::read(file, name, points, metric)?),
            "sss-tree" => Self::SssTree(StoredIndex::read(file, name, points, metric)?),
            "egnat" => Self::Egnat(StoredIndex::read(file, name, points, metric)?),
            "m-tree" => Self::MTree(StoredIndex::read(file, name, points, metric)?),
            "vp-tree" => Self::VpTree(StoredIndex::read(file, name, points, metric)?),
            "kd-tree" => Self::KdTree(StoredIndex::read(file, name, points, metric)?),
            _ => Self::BruteForce(StoredIndex::read(file, name, points, metric)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_as_text() {
        let more = ["lc:r0.5", "sss-index:0.4"].map(|text| text.parse().unwrap());
        for kind in Kind::all().into_iter().chain(more) {
            assert_eq!(kind.to_string().parse(), Ok(kind));
            let name = kind.to_string();
            assert!(name.split(':').next().unwrap().parse::<Kind>().is_ok(), "{name}");
        }
        for bad in
            ["", "lc:", "lc:x", "lc:-1", "egnat:4", "egnat:4x", "vp-tree:3", "kd", "m-tree:4p"]
        {
            assert!(bad.parse::<Kind>().unwrap_err().to_string().contains("vp-tree"), "{bad}");
        }
    }
}
