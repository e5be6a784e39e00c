//! The base of all indexes: points, their metric, and a structure specific to the kind of index.

use std::num::NonZero;

use super::kind::Kind;
use super::probe::Probe;
use super::progress::Progress;
use super::search::{Index, answer_each};
use super::space::Space;
use super::task::Task;
use crate::collector::{Answer, Collector};
use crate::error::Error;
use crate::lists::NeighborLists;
use crate::metric::{Blocks, Metric};
use crate::points::Points;
use crate::stored::{FileContents, Reader, StoreProblem, StoredIndex};

/// An index of points. [`VpTree`](super::VpTree) and the other indexes of this crate are this type
/// with different structures.
#[derive(Debug, Clone)]
pub struct PointIndex<S, M, T> {
    pub(super) space: Space<S, M>,
    kind: Kind,
    pub(super) structure: T,
}

/// The data that a kind of index stores about its points, and how a search uses this data.
pub trait Structure<S: Points, M: Metric<S::Point>>: Sync + Sized {
    /// The parameters of the kind.
    type Options: Copy;

    /// Builds the structure.
    fn build(
        space: &Space<S, M>,
        options: Self::Options,
        progress: &Progress<'_>,
    ) -> Result<Self, Error>;

    /// Returns the kind of index with its parameters.
    fn kind(options: Self::Options) -> Kind;

    /// Returns the parameters of a kind of index, if this structure belongs to that kind.
    fn options(kind: Kind) -> Option<Self::Options>;

    /// Writes the structure to a file.
    fn write<'a>(&'a self, contents: &mut FileContents<'a>);

    /// Reads and validates the data that [`write`](Self::write) wrote.
    fn read(
        file: &mut Reader,
        space: &Space<S, M>,
        options: Self::Options,
    ) -> Result<Self, StoreProblem>;

    /// Returns the number of nodes; see [`Index::nodes`].
    fn nodes(&self) -> usize;

    /// Returns the number of removed points.
    fn removed(&self) -> usize {
        0
    }

    /// Returns the points in blocks; see [`Index::blocks`].
    fn blocks(&self, _: &Space<S, M>) -> Option<&dyn Blocks<S::Point>> {
        None
    }

    /// Returns the node at which a search starts, if there are nodes.
    fn root(&self) -> u32 {
        0
    }

    /// Starts a search; see [`Index::start`].
    fn start<C: Collector>(&self, _: &mut Probe<'_, S, M, C>, tasks: &mut Vec<Task>) -> Box<[f32]> {
        if self.nodes() > 0 {
            // The root has no center above it, and the distance NaN excludes nothing.
            tasks.push(Task::new(self.root(), 0.0, f32::NAN));
        }
        Box::default()
    }

    /// Processes a task; see [`Index::step`].
    fn step<C: Collector>(
        &self,
        space: &Space<S, M>,
        task: Task,
        shared: &[f32],
        probe: &mut Probe<'_, S, M, C>,
        tasks: &mut Vec<Task>,
    );

    /// Answers many queries together if that is faster than answering them one by one. Otherwise,
    /// returns `None`.
    fn answer_together<Q: Points<Point = S::Point>, A: Answer>(
        _index: &PointIndex<S, M, Self>,
        _queries: &Q,
        _threads: NonZero<usize>,
        _ask: &(impl Fn(u32) -> A + Sync),
    ) -> Option<NeighborLists> {
        None
    }
}

/// Implements the items of [`Structure`] that depend only on the kind of index.
macro_rules! of_kind {
    ($kind:ident) => {
        type Options = ();

        fn kind(_options: ()) -> $crate::index::Kind {
            $crate::index::Kind::$kind
        }

        fn options(kind: $crate::index::Kind) -> Option<()> {
            matches!(kind, $crate::index::Kind::$kind).then_some(())
        }
    };
    ($kind:ident($options:ty)) => {
        type Options = $options;

        fn kind(options: $options) -> $crate::index::Kind {
            $crate::index::Kind::$kind(options)
        }

        fn options(kind: $crate::index::Kind) -> Option<$options> {
            if let $crate::index::Kind::$kind(options) = kind { Some(options) } else { None }
        }
    };
}

pub(super) use of_kind;

impl<S: Points, M: Metric<S::Point>, T: Structure<S, M>> PointIndex<S, M, T> {
    /// Builds an index like `build`, with progress reports. Indexes without parameters have the
    /// options `()`.
    ///
    /// # Errors
    /// Fails like `build`.
    ///
    /// ```
    /// use metric_index::index::{Index, MTree, Progress, VpTree};
    /// use metric_index::metric::Edit;
    /// use metric_index::points::Strings;
    ///
    /// let words: Strings = ["casa", "cosa", "caso", "pez"].into_iter().collect();
    /// let report = |done: u64, all: u64| assert!(done <= all);
    /// assert_eq!(VpTree::build_with(&words, Edit, (), &Progress::new(&report))?.len(), 4);
    /// assert_eq!(MTree::build_with(&words, Edit, 32, &Progress::new(&report))?.len(), 4);
    /// # Ok::<(), metric_index::error::Error>(())
    /// ```
    pub fn build_with(
        points: S,
        metric: M,
        options: T::Options,
        progress: &Progress<'_>,
    ) -> Result<Self, Error> {
        let space = Space::new(points, metric)?;
        let structure = T::build(&space, options, progress)?;
        Ok(Self::of_structure(space, options, structure))
    }

    pub(super) fn of_structure(space: Space<S, M>, options: T::Options, structure: T) -> Self {
        Self { space, kind: T::kind(options), structure }
    }
}

impl<S: Points, M: Metric<S::Point>, T: Structure<S, M>> Index for PointIndex<S, M, T> {
    type Points = S;
    type Metric = M;

    fn points(&self) -> &S {
        &self.space.points
    }

    fn len(&self) -> usize {
        self.space.points.len() - self.structure.removed()
    }

    fn metric(&self) -> &M {
        &self.space.metric
    }

    fn nodes(&self) -> usize {
        self.structure.nodes()
    }

    fn answer_many<Q: Points<Point = S::Point>, A: Answer>(
        &self,
        queries: &Q,
        threads: NonZero<usize>,
        ask: impl Fn(u32) -> A + Sync,
    ) -> NeighborLists {
        T::answer_together(self, queries, threads, &ask)
            .unwrap_or_else(|| answer_each(self, queries, threads, &ask))
    }

    fn blocks(&self) -> Option<&dyn Blocks<S::Point>> {
        self.structure.blocks(&self.space)
    }

    fn start<C: Collector>(
        &self,
        probe: &mut Probe<'_, S, M, C>,
        tasks: &mut Vec<Task>,
    ) -> Box<[f32]> {
        self.structure.start(probe, tasks)
    }

    fn step<C: Collector>(
        &self,
        task: Task,
        shared: &[f32],
        probe: &mut Probe<'_, S, M, C>,
        tasks: &mut Vec<Task>,
    ) {
        self.structure.step(&self.space, task, shared, probe, tasks);
    }
}

impl<S: Points, M: Metric<S::Point>, T: Structure<S, M>> StoredIndex for PointIndex<S, M, T> {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn reads(kind: Kind) -> bool {
        T::options(kind).is_some()
    }

    fn write<'a>(&'a self, contents: &mut FileContents<'a>) {
        self.structure.write(contents);
    }

    fn read(file: &mut Reader, kind: Kind, space: Space<S, M>) -> Result<Self, StoreProblem> {
        let options = T::options(kind).ok_or_else(|| file.wrong_kind())?;
        let structure = T::read(file, &space, options)?;
        Ok(Self { space, kind, structure })
    }
}
