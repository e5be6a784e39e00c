//! The engine for dense vectors, which searches an index of `metric-index`.

use std::collections::BinaryHeap;
use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::sync::Arc;

use metric_index::Question;
use metric_index::collector::{Answer, Collector};
use metric_index::error::Error;
use metric_index::gpu::{Device, GpuSearch};
use metric_index::index::{AnyIndex, Index, KdTree, Kind, search};
use metric_index::metric::{Euclidean, Manhattan, Metric as Distance};
use metric_index::neighbor::Neighbor as IndexNeighbor;
use metric_index::points::{Points, Subset};

use super::engine::{Search, checked_count, clear_on_failure};
use super::request::{QueryRows, Request, check_finite};
use super::stop::{NEVER, Stop};
use super::{Allow, Neighbor, NeighborLists, Report, RowSet, SearchError, VectorsView};
use crate::rows::dense::{Kernel, Metric, Vectors, normalize};
use crate::threads::Threads;

/// The kind of index for dense vectors: `auto`, or a kind from `metric-index`, such as
/// `brute-force`, `kd-tree`, `vp-tree`, `lc:64` or `sss-index`. The choice does not affect results.
///
/// ```
/// use classify::search::DenseIndex;
///
/// assert_eq!("auto".parse(), Ok(DenseIndex::Auto));
/// assert_eq!("lc:32".parse::<DenseIndex>()?.to_string(), "lc:32");
/// assert!("ball-tree".parse::<DenseIndex>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum DenseIndex {
    /// A KD-tree if it evaluates few distances on a sample of the rows, otherwise brute force.
    #[default]
    Auto,
    /// The given kind of index.
    Kind(Kind),
}

impl fmt::Display for DenseIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Kind(kind) => kind.fmt(f),
        }
    }
}

impl FromStr for DenseIndex {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let kind: Kind =
            text.parse().map_err(|error| format!("expected auto or a kind of index: {error}"))?;
        // Build a small index to validate the parameters.
        let points = Vectors::new(1, vec![0.0, 1.0]).map_err(|error| error.to_string())?;
        let index = kind.build(Rows(Arc::new(points)), distance(Metric::Euclidean));
        index.map_err(|error| error.to_string())?;
        Ok(Self::Kind(kind))
    }
}

/// The engine for dense vectors, on the CPU or on GPUs. Its queries are [`QueryRows::Dense`], and a
/// [`Kernel`] converts distances to similarities. The CPU search has no slower fallback, so its
/// [`Report`] counts every query as fast.
///
/// ```
/// use std::sync::Arc;
///
/// use classify::rows::dense::{Kernel, Metric, Vectors};
/// use classify::search::{Dense, DenseIndex, NeighborLists, Request, Search};
/// use classify::threads::Threads;
///
/// let rows = Arc::new(Vectors::new(2, vec![1.0, 0.0, 0.0, 1.0, 0.6, 0.8])?);
/// let kernel = Kernel { metric: Metric::Angular, scale: 1.0 };
/// let engine = Dense::new(Arc::clone(&rows), kernel, DenseIndex::Auto, Threads::available()?)?;
/// let mut found = NeighborLists::default();
/// engine.search(&Request::new(rows.view(), 2.try_into()?), &mut found)?;
/// assert_eq!(found.get(1).iter().map(|neighbor| neighbor.row).collect::<Vec<_>>(), [1, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Dense {
    rows: Arc<Vectors>,
    kernel: Kernel,
    index: Arc<RowIndex>,
    /// Whether zero vectors are excluded.
    skips_zeros: bool,
    /// The nonzero rows, if zero vectors are excluded and some rows are zero.
    nonzero: Option<RowSet>,
    /// The search on GPUs, if there are any.
    gpus: Option<GpuSearch<RowIndex>>,
    /// Whether the CPU takes over if a GPU fails.
    fall_back: bool,
    threads: Threads,
}

impl fmt::Debug for Dense {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dense({:?}, {})", self.kernel, self.kind())
    }
}

/// An index of the rows. The distance is chosen at run time, so that the code of each index is
/// compiled only once.
type RowIndex = AnyIndex<Rows, &'static dyn Distance<[f32]>>;

/// Returns the distance function of a metric. Angles are Euclidean distances of unit vectors.
fn distance(metric: Metric) -> &'static dyn Distance<[f32]> {
    match metric {
        Metric::Angular | Metric::Euclidean => &Euclidean,
        Metric::Manhattan => &Manhattan,
    }
}

/// The neighbors of each query; `None` for queries that have not been answered.
type Lists = Vec<Option<Vec<Neighbor>>>;

/// Training rows as points, without a copy.
#[derive(Debug, Clone)]
struct Rows(Arc<Vectors>);

impl Points for Rows {
    type Point = [f32];

    fn len(&self) -> usize {
        self.0.rows()
    }

    fn point(&self, number: u32) -> &[f32] {
        self.0.row(number as usize)
    }
}

/// Query rows as points.
#[derive(Debug, Clone, Copy)]
struct QueryPoints<'a> {
    dimension: usize,
    values: &'a [f32],
}

impl Points for QueryPoints<'_> {
    type Point = [f32];

    fn len(&self) -> usize {
        self.values.len() / self.dimension
    }

    fn point(&self, number: u32) -> &[f32] {
        &self.values[number as usize * self.dimension..][..self.dimension]
    }
}

impl Dense {
    /// Creates an engine over training rows. For [`Metric::Angular`], they must have length 1 or 0.
    ///
    /// # Errors
    /// If a value is not finite, or the index cannot be built.
    pub fn new(
        rows: Arc<Vectors>,
        kernel: Kernel,
        index: DenseIndex,
        threads: Threads,
    ) -> Result<Self, SearchError> {
        checked_count(rows.rows())?;
        check_finite("training", rows.values(), &threads)?;
        let points = Rows(Arc::clone(&rows));
        let build = || {
            let distance = distance(kernel.metric);
            choose_kind(index, &points, distance)?.build(points.clone(), distance)
        };
        let index = Arc::new(threads.run(build).map_err(index_error)?);
        let engine = Self {
            rows,
            kernel,
            index,
            skips_zeros: false,
            nonzero: None,
            gpus: None,
            fall_back: true,
            threads,
        };
        let is_angular = kernel.metric == Metric::Angular;
        Ok(if is_angular { engine.without_zeros() } else { engine })
    }

    /// Excludes zero vectors. A zero row is never a neighbor, and a zero query has no neighbors.
    /// [`Metric::Angular`] always excludes them.
    #[must_use]
    pub fn without_zeros(self) -> Self {
        if self.skips_zeros {
            return self;
        }
        let is_zero = |row: u32| is_zero(self.rows.row(row as usize));
        let count = self.rows();
        let nonzero = (0..count).any(is_zero).then(|| RowSet::from_fn(count, |row| !is_zero(row)));
        Self { skips_zeros: true, nonzero, ..self }
    }

    /// Copies the rows to GPUs, which then answer requests that have no filter. If there are no
    /// GPUs, or they cannot search such rows, the engine stays on the CPU.
    ///
    /// # Errors
    /// If a GPU fails and `fall_back` is not set.
    pub fn on_gpus(self, devices: &[Device], fall_back: bool) -> Result<Self, SearchError> {
        match GpuSearch::new(devices, Arc::clone(&self.index)) {
            Ok(gpus) => Ok(Self { gpus, fall_back, ..self }),
            Err(error) if fall_back => {
                tracing::warn!("{error}; searching dense vectors on the CPU");
                Ok(self)
            }
            Err(error) => Err(SearchError::Engine(Arc::new(error))),
        }
    }

    /// Answers queries on GPUs. Also returns the numbers of the queries that `metric-index`
    /// answered on the CPU.
    ///
    /// A list is `None` if its search failed, or if rows outside the list may be as similar as its
    /// last row. This is possible because different distances can have the same similarity.
    fn gpu_answers(
        &self,
        gpus: &GpuSearch<RowIndex>,
        points: &QueryPoints<'_>,
        k: usize,
    ) -> Result<(Lists, Vec<u32>), SearchError> {
        /// Number of additional neighbors to request, to include rows of equal similarity.
        const MARGIN: usize = 16;
        let requested = k.saturating_add(MARGIN).min(self.rows.rows());
        let threads = NonZeroUsize::new(self.threads.count()).unwrap_or(NonZeroUsize::MIN);
        let found = gpus.answer(points, Question::Nearest(requested), threads);
        for error in &found.failed {
            if !self.fall_back {
                return Err(SearchError::Engine(Arc::new(error.clone())));
            }
            tracing::warn!("{error}; continuing without this GPU");
        }
        let by_cpu = found.by_cpu;
        let answer = |(query, nearest): (usize, Result<&[IndexNeighbor], Error>)| {
            let nearest = nearest.ok()?;
            let number = u32::try_from(query).expect("batches have fewer than 2^32 queries");
            if self.skips_zeros && is_zero(points.point(number)) {
                return Some(Vec::new());
            }
            let min_similarity =
                nearest.last().map_or(0.0, |last| self.kernel.similarity(last.distance));
            let has_all_rows = nearest.len() == self.rows.rows();
            let similar = nearest.iter().map(|neighbor| Neighbor {
                row: neighbor.point,
                similarity: self.kernel.similarity(neighbor.distance),
            });
            let mut similar: Vec<Neighbor> = similar
                .filter(|neighbor| neighbor.similarity > 0.0)
                .filter(|neighbor| {
                    self.nonzero.as_ref().is_none_or(|rows| rows.contains(neighbor.row))
                })
                .collect();
            similar.sort_unstable();
            similar.truncate(k);
            // Rows that were not found are at most as similar as the last row found.
            let is_exact = similar.len() == k
                && similar.last().is_some_and(|last| last.similarity > min_similarity);
            (has_all_rows || is_exact || min_similarity <= 0.0).then_some(similar)
        };
        Ok((found.lists.iter().enumerate().map(answer).collect(), by_cpu))
    }

    /// The kind of the engine's index.
    pub fn kind(&self) -> &'static str {
        match &*self.index {
            AnyIndex::BruteForce(_) => "brute-force",
            AnyIndex::ListOfClusters(_) => "lc",
            AnyIndex::SssIndex(_) => "sss-index",
            AnyIndex::SssTree(_) => "sss-tree",
            AnyIndex::Egnat(_) => "egnat",
            AnyIndex::MTree(_) => "m-tree",
            AnyIndex::VpTree(_) => "vp-tree",
            AnyIndex::KdTree(_) => "kd-tree",
        }
    }

    fn find(
        &self,
        request: &Request<'_>,
        found: &mut NeighborLists,
    ) -> Result<Report, SearchError> {
        let expected = self.rows.dimension();
        let queries: VectorsView<'_> = match request.rows {
            QueryRows::Dense(rows) if rows.dimension() == expected => rows,
            QueryRows::Dense(rows) => {
                return Err(SearchError::Columns { found: rows.dimension(), expected });
            }
            QueryRows::Sparse(rows) => {
                return Err(SearchError::Columns { found: rows.cols(), expected });
            }
        };
        request.allow.check(queries.rows(), self.rows())?;
        request.stop.check()?;
        check_finite("query", queries.values(), &self.threads)?;
        found.reset(queries.rows(), request.k.get().min(self.rows.rows()))?;
        let mut values = Vec::new();
        let mut first = 0;
        let mut slots = found.slots();
        for batch in queries.values().chunks(self.batch_size(request.stop) * expected) {
            request.stop.check()?;
            let count = batch.len() / expected;
            values.clear();
            values.extend_from_slice(batch);
            if self.kernel.metric == Metric::Angular {
                values.chunks_exact_mut(expected).for_each(normalize);
            }
            let points = QueryPoints { dimension: expected, values: &values };
            let mut remaining: Vec<u32> = (0..).take(count).collect();
            // The GPU search does not support filters.
            if let Some(gpus) = self.gpus.as_ref().filter(|_| request.allow.is_all()) {
                remaining.clear();
                let (answers, by_cpu) = self.gpu_answers(gpus, &points, request.k.get())?;
                for query in by_cpu {
                    slots.mark_fell_back(first + query as usize);
                }
                for (query, answer) in answers.iter().enumerate() {
                    if let Some(list) = answer {
                        slots.set(first + query, list);
                    } else {
                        slots.mark_fell_back(first + query);
                        remaining.push(
                            u32::try_from(query).expect("batches have fewer than 2^32 queries"),
                        );
                    }
                }
            }
            let nearest = |position: u32| {
                let query = remaining[position as usize];
                NearestRows {
                    k: request.k.get(),
                    kernel: &self.kernel,
                    allow: &request.allow,
                    query: first + query as usize,
                    nonzero: self.nonzero.as_ref(),
                    radius: if self.skips_zeros && is_zero(points.point(query)) {
                        -1.0
                    } else {
                        self.kernel.radius(0.0)
                    },
                    found: BinaryHeap::new(),
                }
            };
            let threads = NonZeroUsize::new(self.threads.count()).unwrap_or(NonZeroUsize::MIN);
            let remaining_points = Subset::new(points, remaining.clone());
            let answers = self.index.answer_many(&remaining_points, threads, nearest);
            for (&query, answer) in remaining.iter().zip(&answers) {
                let to_neighbor = |nearest: &IndexNeighbor| Neighbor {
                    row: nearest.point,
                    similarity: self.kernel.similarity(nearest.distance),
                };
                let list: Vec<Neighbor> =
                    answer.map_err(index_error)?.iter().map(to_neighbor).collect();
                slots.set(first + query as usize, &list);
            }
            first += count;
        }
        Ok(found.report())
    }

    /// Returns the number of queries per batch. Batches are smaller if a stop may end the search.
    fn batch_size(&self, stop: &Stop) -> usize {
        /// Number of values that one thread compares in about a tenth of a second.
        const VALUES_PER_STOP_CHECK: usize = 1 << 31;
        if std::ptr::eq(stop, &raw const NEVER) {
            return if self.gpus.is_some() { 1 << 17 } else { 1 << 14 };
        }
        (VALUES_PER_STOP_CHECK / self.rows.values().len().max(1)).clamp(16, 1 << 12)
    }
}

impl Search for Dense {
    fn rows(&self) -> u32 {
        u32::try_from(self.rows.rows()).expect("checked when the engine was created")
    }

    fn search(
        &self,
        request: &Request<'_>,
        found: &mut NeighborLists,
    ) -> Result<Report, SearchError> {
        let outcome = self.find(request, found);
        clear_on_failure(outcome, found)
    }
}

fn is_zero(vector: &[f32]) -> bool {
    vector.iter().all(|&value| value == 0.0)
}

fn index_error(error: Error) -> SearchError {
    SearchError::Index(error.to_string())
}

/// Chooses the kind of index for the rows. `auto` counts the distances that a KD-tree evaluates on
/// a sample. It does not measure time, so that the choice is the same on every machine.
fn choose_kind(
    index: DenseIndex,
    points: &Rows,
    distance: &dyn Distance<[f32]>,
) -> Result<Kind, Error> {
    /// Number of rows below which brute force is as fast as a tree.
    const MIN_ROWS: usize = 1_000;
    /// Number of dimensions above which a tree prunes too little.
    const MAX_DIMENSIONS: usize = 128;
    const SAMPLE: usize = 20_000;
    const QUERIES: usize = 64;
    /// Factor by which a tree must reduce the number of evaluated distances. Measured on vectors of
    /// 4 to 64 dimensions.
    const MIN_SAVING: u64 = 4;
    let count = points.len();
    match index {
        DenseIndex::Kind(kind) => return Ok(kind),
        DenseIndex::Auto if count < MIN_ROWS || points.0.dimension() > MAX_DIMENSIONS => {
            return Ok(Kind::BruteForce);
        }
        DenseIndex::Auto => {}
    }
    let evenly_spaced = |total: usize, count: usize| -> Vec<u32> {
        let count = count.min(total);
        (0..count).filter_map(|index| u32::try_from(index * total / count).ok()).collect()
    };
    let sample = Subset::new(points, evenly_spaced(count, SAMPLE));
    let queries = evenly_spaced(sample.len(), QUERIES);
    let tree = KdTree::build(&sample, distance)?;
    let mut evaluations = 0;
    for &query in &queries {
        let nearest = metric_index::collector::Nearest::new(10);
        evaluations += search(&tree, sample.point(query), nearest)?.1.evaluations;
    }
    let all = (queries.len() * sample.len()) as u64;
    Ok(if evaluations * MIN_SAVING < all { Kind::KdTree } else { Kind::BruteForce })
}

/// A collector of the k allowed rows of highest similarity above 0. Ties go to the lower row.
struct NearestRows<'a> {
    k: usize,
    kernel: &'a Kernel,
    allow: &'a Allow<'a>,
    query: usize,
    nonzero: Option<&'a RowSet>,
    /// Distance beyond which a row cannot be among the k.
    radius: f32,
    /// The rows found and the bits of their distances. The worst row is on top.
    found: BinaryHeap<(Neighbor, u32)>,
}

impl Collector for NearestRows<'_> {
    fn radius(&self) -> f32 {
        self.radius
    }

    fn offer(&mut self, found: IndexNeighbor) {
        let similarity = self.kernel.similarity(found.distance);
        let neighbor = Neighbor { row: found.point, similarity };
        let is_full = self.found.len() == self.k;
        if similarity <= 0.0
            || found.distance > self.radius
            || (is_full && self.found.peek().is_some_and(|(worst, _)| neighbor >= *worst))
            || !self.allow.allows(self.query, found.point)
            || self.nonzero.is_some_and(|nonzero| !nonzero.contains(found.point))
        {
            return;
        }
        if is_full {
            self.found.pop();
        }
        self.found.push((neighbor, found.distance.to_bits()));
        if self.found.len() == self.k
            && let Some((worst, _)) = self.found.peek()
        {
            self.radius = self.radius.min(self.kernel.radius(worst.similarity));
        }
    }
}

impl Answer for NearestRows<'_> {
    fn into_sorted(self) -> Vec<IndexNeighbor> {
        let to_index_neighbor = |(neighbor, distance): (Neighbor, u32)| IndexNeighbor {
            point: neighbor.row,
            distance: f32::from_bits(distance),
        };
        self.found.into_sorted_vec().into_iter().map(to_index_neighbor).collect()
    }
}

/// Learns the scale of a metric from at most 1,000 evenly spaced training rows. The scale is the
/// median distance from a row to the nearest row that differs from it. It is 1 for
/// [`Metric::Angular`], or if all rows are equal.
///
/// # Errors
/// In the cases of [`Dense::new`].
pub fn learn_scale(
    rows: &Arc<Vectors>,
    metric: Metric,
    threads: &Threads,
) -> Result<f64, SearchError> {
    const SAMPLE: usize = 1_000;
    struct NearestDifferent(u32, f32);
    impl Collector for NearestDifferent {
        fn radius(&self) -> f32 {
            self.1
        }
        fn offer(&mut self, neighbor: IndexNeighbor) {
            if neighbor.distance > 0.0 && neighbor.distance < self.1 {
                (self.0, self.1) = (neighbor.point, neighbor.distance);
            }
        }
    }
    impl Answer for NearestDifferent {
        fn into_sorted(self) -> Vec<IndexNeighbor> {
            let found = self.1.is_finite();
            found.then_some(IndexNeighbor { point: self.0, distance: self.1 }).into_iter().collect()
        }
    }
    if metric == Metric::Angular || rows.rows() == 0 {
        return Ok(1.0);
    }
    let provisional = Kernel { metric, scale: 1.0 };
    let engine = Dense::new(Arc::clone(rows), provisional, DenseIndex::Auto, threads.clone())?;
    let count = rows.rows().min(SAMPLE);
    let sample: Vec<f32> = (0..count)
        .flat_map(|index| rows.row(index * rows.rows() / count).iter().copied())
        .collect();
    let queries = QueryPoints { dimension: rows.dimension(), values: &sample };
    let workers = NonZeroUsize::new(threads.count()).unwrap_or(NonZeroUsize::MIN);
    let collector = |_| NearestDifferent(0, f32::INFINITY);
    let mut distances = Vec::new();
    for answer in &engine.index.answer_many(&queries, workers, collector) {
        distances.extend(answer.map_err(index_error)?.first().map(|nearest| nearest.distance));
    }
    distances.sort_unstable_by(f32::total_cmp);
    let median = distances.get(distances.len() / 2).copied().unwrap_or(1.0);
    // A subnormal scale would make every similarity 0.
    Ok(f64::from(median.max(f32::MIN_POSITIVE)))
}
