//! An index of a kind chosen at run time.

use std::num::NonZero;

use super::brute_force::BruteForce;
use super::egnat::Egnat;
use super::kd_tree::KdTree;
use super::kind::Kind;
use super::list_of_clusters::ListOfClusters;
use super::m_tree::MTree;
use super::point_index::PointIndex;
use super::probe::Probe;
use super::progress::Progress;
use super::search::Index;
use super::space::Space;
use super::sss_index::SssIndex;
use super::sss_tree::SssTree;
use super::task::Task;
use super::vp_tree::VpTree;
use crate::collector::{Answer, Collector};
use crate::error::Error;
use crate::lists::NeighborLists;
use crate::metric::{Blocks, Metric};
use crate::points::Points;
use crate::stored::{FileContents, Reader, StoreProblem, StoredIndex};

impl Kind {
    /// Builds an index of this kind.
    ///
    /// # Errors
    /// Fails like the `build` function of the index.
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

    /// Builds an index like [`build`](Self::build), with progress reports.
    ///
    /// # Errors
    /// Fails like [`build`](Self::build).
    pub fn build_with<S: Points, M: Metric<S::Point>>(
        self,
        points: S,
        metric: M,
        progress: &Progress<'_>,
    ) -> Result<AnyIndex<S, M>, Error> {
        use AnyIndex as Any;
        use PointIndex as Index;
        Ok(match self {
            Self::BruteForce => Any::BruteForce(Index::build_with(points, metric, (), progress)?),
            Self::ListOfClusters(size) => {
                Any::ListOfClusters(Index::build_with(points, metric, size, progress)?)
            }
            Self::SssIndex(pivots) => {
                Any::SssIndex(Index::build_with(points, metric, pivots, progress)?)
            }
            Self::SssTree(share) => {
                Any::SssTree(Index::build_with(points, metric, share, progress)?)
            }
            Self::Egnat(options) => {
                Any::Egnat(Index::build_with(points, metric, options, progress)?)
            }
            Self::MTree(page) => Any::MTree(Index::build_with(points, metric, page, progress)?),
            Self::VpTree => Any::VpTree(Index::build_with(points, metric, (), progress)?),
            Self::KdTree => Any::KdTree(Index::build_with(points, metric, (), progress)?),
        })
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

/// Forwards a call to the index in the variant.
macro_rules! forward {
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
        forward!(self, index => index.points())
    }

    fn len(&self) -> usize {
        forward!(self, index => index.len())
    }

    fn metric(&self) -> &M {
        forward!(self, index => index.metric())
    }

    fn nodes(&self) -> usize {
        forward!(self, index => index.nodes())
    }

    fn answer_many<Q: Points<Point = S::Point>, A: Answer>(
        &self,
        queries: &Q,
        threads: NonZero<usize>,
        ask: impl Fn(u32) -> A + Sync,
    ) -> NeighborLists {
        forward!(self, index => index.answer_many(queries, threads, ask))
    }

    fn blocks(&self) -> Option<&dyn Blocks<S::Point>> {
        forward!(self, index => index.blocks())
    }

    fn start<C: Collector>(
        &self,
        probe: &mut Probe<'_, S, M, C>,
        tasks: &mut Vec<Task>,
    ) -> Box<[f32]> {
        forward!(self, index => index.start(probe, tasks))
    }

    fn step<C: Collector>(
        &self,
        task: Task,
        shared: &[f32],
        probe: &mut Probe<'_, S, M, C>,
        tasks: &mut Vec<Task>,
    ) {
        forward!(self, index => index.step(task, shared, probe, tasks));
    }
}

impl<S: Points, M: Metric<S::Point>> StoredIndex for AnyIndex<S, M> {
    fn kind(&self) -> Kind {
        forward!(self, index => index.kind())
    }

    fn reads(_: Kind) -> bool {
        true
    }

    fn write<'a>(&'a self, contents: &mut FileContents<'a>) {
        forward!(self, index => index.write(contents));
    }

    fn read(file: &mut Reader, kind: Kind, space: Space<S, M>) -> Result<Self, StoreProblem> {
        Ok(match kind {
            Kind::BruteForce => Self::BruteForce(StoredIndex::read(file, kind, space)?),
            Kind::ListOfClusters(_) => Self::ListOfClusters(StoredIndex::read(file, kind, space)?),
            Kind::SssIndex(_) => Self::SssIndex(StoredIndex::read(file, kind, space)?),
            Kind::SssTree(_) => Self::SssTree(StoredIndex::read(file, kind, space)?),
            Kind::Egnat(_) => Self::Egnat(StoredIndex::read(file, kind, space)?),
            Kind::MTree(_) => Self::MTree(StoredIndex::read(file, kind, space)?),
            Kind::VpTree => Self::VpTree(StoredIndex::read(file, kind, space)?),
            Kind::KdTree => Self::KdTree(StoredIndex::read(file, kind, space)?),
        })
    }
}
