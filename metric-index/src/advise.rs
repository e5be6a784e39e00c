//! Which index to take: the kinds are tried on a sample.

use std::fmt;
use std::time::{Duration, Instant};

use crate::collector::{Nearest, Within};
use crate::error::Error;
use crate::estimate::intrinsic_dimension;
use crate::generate::Random;
use crate::index::{ClusterSize, EgnatOptions, Index, KdTree, Kind, Pivots, search};
use crate::metric::{Coordinates, Counted, Metric};
use crate::points::{Points, Subset};

/// What is going to be asked.
///
/// ```
/// let _ = metric_index::Question::Nearest(10);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Question {
    /// So many nearest points.
    Nearest(usize),
    /// All points within a radius.
    Within(f32),
}

/// An index that was tried.
///
/// ```
/// use metric_index::Advised;
/// use metric_index::index::Kind;
///
/// assert_eq!(Advised::Any(Kind::VpTree).to_string(), "vp-tree");
/// assert_eq!(Advised::KdTree.to_string(), "kd-tree");
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Advised {
    /// One of those for any metric.
    Any(Kind),
    /// The KD-tree, for vectors only.
    KdTree,
}

impl fmt::Display for Advised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any(kind) => kind.fmt(f),
            Self::KdTree => f.write_str("kd-tree"),
        }
    }
}

/// What an index took on the sample.
///
/// ```
/// use metric_index::metric::Edit;
/// use metric_index::points::Strings;
/// use metric_index::{Question, advise};
///
/// let words: Strings = (0..500).map(|number| format!("{number:b}")).collect();
/// let advice = advise(&words, &Edit, Question::Nearest(1), 500, 0)?;
/// let fastest = &advice.candidates[0];
/// println!("{}: {} distances a query", fastest.index, fastest.evaluations);
/// # Ok::<(), metric_index::error::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// The index.
    pub index: Advised,
    /// Distances to build it.
    pub build_evaluations: u64,
    /// Time to build it, on all threads.
    pub build: Duration,
    /// Distances of a query, in the mean.
    pub evaluations: f64,
    /// Time of a query on one thread, in the median.
    pub query: Duration,
}

/// What was found out about some points.
///
/// ```
/// use metric_index::metric::Edit;
/// use metric_index::points::Strings;
/// use metric_index::{Question, advise};
///
/// let words: Strings = (0..500).map(|number| format!("{number:b}")).collect();
/// let advice = advise(&words, &Edit, Question::Nearest(1), 500, 0)?;
/// assert_eq!(advice.sample, 495, "the others were queries");
/// assert!(advice.candidates.is_sorted_by_key(|tried| tried.query));
/// # Ok::<(), metric_index::error::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Advice {
    /// See [`intrinsic_dimension`].
    pub intrinsic_dimension: f64,
    /// Points that the indexes were built of.
    pub sample: usize,
    /// The fastest first.
    pub candidates: Vec<Candidate>,
}

/// Tries every kind of index with some parameters on a random sample of the points: other points of the sample, a
/// hundredth and at most 200, are the queries.
///
/// The times are measured, and are not the same from run to run. On more points than the sample the indexes
/// that exclude most gain most: a sample of all points is the best.
///
/// # Errors
/// If there are fewer than 100 points in the sample, or points have no distance, or the radius is none.
///
/// ```
/// use metric_index::metric::Edit;
/// use metric_index::points::Strings;
/// use metric_index::{Question, advise};
///
/// let words: Strings = (0..2_000).map(|number| format!("{number:b}")).collect();
/// let advice = advise(&words, &Edit, Question::Within(1.0), 1_000, 0)?;
/// println!("take {}: {:?} a query", advice.candidates[0].index, advice.candidates[0].query);
/// # Ok::<(), metric_index::error::Error>(())
/// ```
pub fn advise<S: Points, M: Metric<S::Point>>(
    points: &S,
    metric: &M,
    question: Question,
    sample: usize,
    seed: u64,
) -> Result<Advice, Error> {
    let mut trial = Trial::new(points, question, sample, seed)?;
    trial.of_any_metric(metric)?;
    trial.advice(metric)
}

/// [`advise`] for vectors, with the KD-tree among the indexes.
///
/// # Errors
/// As [`advise`].
///
/// ```
/// use metric_index::metric::Euclidean;
/// use metric_index::points::Vectors;
/// use metric_index::{Question, advise_vectors};
///
/// let plane = Vectors::new((0..4_000u16).map(|x| f32::from(x % 1_000 * 37 % 1_000)).collect(), 2)?;
/// let advice = advise_vectors(&plane, &Euclidean, Question::Nearest(5), 1_000, 0)?;
/// assert!(advice.intrinsic_dimension < 5.0);
/// # Ok::<(), metric_index::error::Error>(())
/// ```
pub fn advise_vectors<S: Points<Point = [f32]>, M: Coordinates>(
    points: &S,
    metric: &M,
    question: Question,
    sample: usize,
    seed: u64,
) -> Result<Advice, Error> {
    let mut trial = Trial::new(points, question, sample, seed)?;
    trial.of_any_metric(metric)?;
    trial.of_kd_tree(metric)?;
    trial.advice(metric)
}

struct Trial<'a, S> {
    points: Subset<&'a S>,
    queries: Subset<&'a S>,
    question: Question,
    seed: u64,
    candidates: Vec<Candidate>,
}

impl<'a, S: Points> Trial<'a, S> {
    fn new(points: &'a S, question: Question, sample: usize, seed: u64) -> Result<Self, Error> {
        if let Question::Within(radius) = question
            && (radius.is_nan() || radius < 0.0)
        {
            return Err(Error::Radius { radius });
        }
        let sample = Random(seed).sample(points.len(), sample);
        if sample.len() < 100 {
            return Err(Error::TooFew { count: sample.len(), expected: 100 });
        }
        let step = 100.max(sample.len() / 200);
        let is_query = |at: usize| at.is_multiple_of(step);
        let (mut held_out, mut rest) = (Vec::new(), Vec::new());
        for (at, number) in sample.into_iter().enumerate() {
            if is_query(at) { held_out.push(number) } else { rest.push(number) }
        }
        let (points, queries) = (Subset::new(points, rest), Subset::new(points, held_out));
        Ok(Self { points, queries, question, seed, candidates: Vec::new() })
    }

    fn of_any_metric<M: Metric<S::Point>>(&mut self, metric: &M) -> Result<(), Error> {
        let more = [
            Kind::ListOfClusters(ClusterSize::Points(16)),
            Kind::ListOfClusters(ClusterSize::Points(256)),
            Kind::SssIndex(Pivots::Count(8)),
            Kind::SssIndex(Pivots::Spread(0.4)),
            Kind::Egnat(EgnatOptions { arity: 8, bucket: 32 }),
            Kind::Egnat(EgnatOptions { arity: 32, bucket: 128 }),
        ];
        for kind in Kind::all().into_iter().chain(more) {
            let counted = Counted::new(metric);
            let points = self.points.clone();
            self.measure(Advised::Any(kind), &counted, || kind.build(points, &counted))?;
        }
        Ok(())
    }

    fn of_kd_tree<M: Coordinates>(&mut self, metric: &M) -> Result<(), Error>
    where
        S: Points<Point = [f32]>,
    {
        let counted = Counted::new(metric);
        let points = self.points.clone();
        self.measure(Advised::KdTree, &counted, || KdTree::build(points, &counted))
    }

    fn measure<I: Index<Points = Subset<&'a S>>, M: Metric<S::Point>>(
        &mut self,
        name: Advised,
        counted: &Counted<M>,
        build: impl FnOnce() -> Result<I, Error>,
    ) -> Result<(), Error> {
        let start = Instant::now();
        let index = build()?;
        let (build, build_evaluations) = (start.elapsed(), counted.calls());
        let (mut evaluations, mut times) = (0, Vec::new());
        for query in 0..u32::try_from(self.queries.len()).expect("at most 200") {
            let query = self.queries.point(query);
            let start = Instant::now();
            let cost = match self.question {
                Question::Nearest(k) => search(&index, query, Nearest::new(k))?.1,
                Question::Within(radius) => search(&index, query, Within::new(radius))?.1,
            };
            times.push(start.elapsed());
            evaluations += cost.evaluations;
        }
        times.sort_unstable();
        self.candidates.push(Candidate {
            index: name,
            build_evaluations,
            build,
            evaluations: evaluations as f64 / times.len() as f64,
            query: times[times.len() / 2],
        });
        Ok(())
    }

    fn advice<M: Metric<S::Point>>(mut self, metric: &M) -> Result<Advice, Error> {
        self.candidates.sort_by_key(|candidate| candidate.query);
        Ok(Advice {
            intrinsic_dimension: intrinsic_dimension(&self.points, metric, 10_000, self.seed)?,
            sample: self.points.len(),
            candidates: self.candidates,
        })
    }
}
