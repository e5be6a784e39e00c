//! Recommends an index by trying all kinds on a sample.

use std::num::NonZero;
use std::time::{Duration, Instant};

use crate::collector::{AnyCollector, Nearest, Within};
use crate::error::Error;
use crate::estimate::intrinsic_dimension;
use crate::generate::Random;
use crate::index::{ClusterSize, EgnatOptions, Index, Kind, Pivots, search};
use crate::metric::{Blocks, Coordinates, CountingMetric, Distances, Metric, check};
use crate::points::{Points, Subset};

/// Number of sampled points on which the axioms of the metric are checked.
const AXIOM_SAMPLE: usize = 64;

/// A kind of query for which to recommend an index.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Question {
    /// The k nearest points.
    Nearest(usize),
    /// All points within a radius.
    Within(f32),
}

/// The cost of an index, measured on the sample.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// The index.
    pub index: Kind,
    /// Number of distances evaluated to build the index.
    pub build_evaluations: u64,
    /// Time to build the index on all threads.
    pub build: Duration,
    /// Mean number of distances evaluated per query.
    pub evaluations: f64,
    /// Median time of a query on one thread.
    pub query: Duration,
}

/// The recommendation for a set of points.
///
/// ```
/// use metric_index::metric::Edit;
/// use metric_index::points::Strings;
/// use metric_index::{Question, advise};
///
/// let words: Strings = (0..500).map(|number| format!("{number:b}")).collect();
/// let advice = advise(&words, &Edit, Question::Nearest(1), 500, 0)?;
/// assert_eq!(advice.sample, 495, "the other points were queries");
/// assert!(advice.candidates.is_sorted_by_key(|tried| tried.query));
/// # Ok::<(), metric_index::error::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Advice {
    /// The [intrinsic dimension](intrinsic_dimension) of the points.
    pub intrinsic_dimension: f64,
    /// The number of points from which the indexes were built.
    pub sample: usize,
    /// All candidates, fastest first.
    pub candidates: Vec<Candidate>,
}

/// Recommends an index: builds every kind that supports the metric on a random sample of the points
/// and measures it.
///
/// One hundredth of the sample, but at most about 200 points, is held out as queries. Times vary
/// from run to run. Indexes that exclude many points gain the most from additional points, so a
/// sample of all points is the most reliable.
///
/// # Errors
/// Fails if the sample has fewer than 100 points, a distance is not finite, the radius is negative
/// or NaN, or the metric fails [`check`].
///
/// ```
/// use metric_index::metric::Edit;
/// use metric_index::points::Strings;
/// use metric_index::{Question, advise};
///
/// let words: Strings = (0..2_000).map(|number| format!("{number:b}")).collect();
/// let advice = advise(&words, &Edit, Question::Within(1.0), 1_000, 0)?;
/// println!("use {}: {:?} per query", advice.candidates[0].index, advice.candidates[0].query);
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
    check(points, metric, AXIOM_SAMPLE, seed)?;
    trial.measure_all_kinds(metric)?;
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
        let sample = Random::new(seed).sample(points.len(), sample);
        if sample.len() < 100 {
            return Err(Error::TooFew { count: sample.len(), expected: 100 });
        }
        let step = 100.max(sample.len() / 200);
        let is_query = |position: usize| position.is_multiple_of(step);
        let mut held_out = Vec::new();
        let mut rest = Vec::new();
        for (position, number) in sample.into_iter().enumerate() {
            if is_query(position) { held_out.push(number) } else { rest.push(number) }
        }
        let queries = Subset::new(points, held_out);
        let points = Subset::new(points, rest);
        Ok(Self { points, queries, question, seed, candidates: Vec::new() })
    }

    fn measure_all_kinds(&mut self, metric: &dyn Metric<S::Point>) -> Result<(), Error> {
        let variants = [
            Kind::ListOfClusters(ClusterSize::Points(16)),
            Kind::ListOfClusters(ClusterSize::Points(256)),
            Kind::SssIndex(Pivots::Count(8)),
            Kind::SssIndex(Pivots::Spread(0.4)),
            Kind::Egnat(EgnatOptions { arity: 8, bucket: 32 }),
            Kind::Egnat(EgnatOptions { arity: 32, bucket: 128 }),
        ];
        let kd_tree = metric.coordinates().map(|_| Kind::KdTree);
        for kind in Kind::of_any_metric().into_iter().chain(variants).chain(kd_tree) {
            self.measure(
                kind,
                &EvaluationCounter { counted: CountingMetric::new(metric), metric },
            )?;
        }
        Ok(())
    }

    fn measure(
        &mut self,
        kind: Kind,
        measured: &EvaluationCounter<'_, S::Point>,
    ) -> Result<(), Error> {
        let start = Instant::now();
        // Use a trait object, so that indexes are compiled once per store of points and not once
        // per metric.
        let index = kind.build(self.points.clone(), measured as &dyn Metric<S::Point>)?;
        let build = start.elapsed();
        let build_evaluations = measured.counted.calls();
        let mut evaluations = 0;
        let mut times = Vec::new();
        for query in 0..u32::try_from(self.queries.len()).expect("at most 200") {
            let query = self.queries.point(query);
            let start = Instant::now();
            let collector = match self.question {
                Question::Nearest(k) => AnyCollector::Nearest(Nearest::new(k)),
                Question::Within(radius) => AnyCollector::Within(Within::new(radius)),
            };
            let (_, cost) = search(&index, query, collector)?;
            times.push(start.elapsed());
            evaluations += cost.evaluations;
        }
        times.sort_unstable();
        let mut query = times[times.len() / 2];
        if kind == Kind::BruteForce {
            // Answering all queries together can take less time per query.
            let start = Instant::now();
            let threads = NonZero::<usize>::MIN;
            let all = match self.question {
                Question::Nearest(k) => index.nearest_many(&self.queries, k, threads),
                Question::Within(radius) => index.within_many(&self.queries, radius, threads),
            };
            let count = u32::try_from(all.len()).expect("at most 200");
            query = query.min(start.elapsed() / count.max(1));
        }
        self.candidates.push(Candidate {
            index: kind,
            build_evaluations,
            build,
            evaluations: evaluations as f64 / times.len() as f64,
            query,
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

/// A metric that counts single distances. Distances computed in blocks are not counted.
struct EvaluationCounter<'m, P: ?Sized> {
    counted: CountingMetric<&'m dyn Metric<P>>,
    metric: &'m dyn Metric<P>,
}

impl<P: ?Sized> Metric<P> for EvaluationCounter<'_, P> {
    fn distance(&self, a: &P, b: &P) -> f32 {
        self.counted.distance(a, b)
    }

    fn relative_error(&self) -> f32 {
        self.metric.relative_error()
    }

    fn absolute_error(&self) -> f32 {
        self.metric.absolute_error()
    }

    fn distance_within(&self, a: &P, b: &P, radius: f32) -> Option<f32> {
        self.counted.distance_within(a, b, radius)
    }

    fn distances_from<'a>(&'a self, point: &'a P) -> Option<Box<dyn Distances<P> + 'a>> {
        self.counted.distances_from(point)
    }

    fn blocks(&self, points: &[&P]) -> Option<Box<dyn Blocks<P>>> {
        self.metric.blocks(points)
    }

    fn size(&self, point: &P) -> usize {
        self.metric.size(point)
    }

    fn coordinates(&self) -> Option<&dyn Coordinates<P>> {
        self.metric.coordinates()
    }
}
