//! The Python class `MetricIndex`: points are vectors, strings, sets, or any objects with a Python
//! function as their distance.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use classify::search::Stop;
use gpu_runtime::GpuError;
use metric_index::error::Error;
use metric_index::gpu::{GpuPoint, GpuSearch};
use metric_index::index::{AnyIndex, Index, Kind};
use metric_index::lists::NeighborLists;
use metric_index::metric::{Edit, Jaccard, Metric, VectorMetric};
use metric_index::points::{Items, Points, Sets, Strings, Vectors};
use metric_index::stored::{
    StoreError, StoreProblem, StoredIndex, StoredPoints, describe, open, save,
};
use metric_index::{Question, advise};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::errors::{ModelError, of_io, of_parameter};
use crate::running::{run, run_for};

/// Number of queries answered between checks for Ctrl-C.
const CHUNK: usize = 1_024;
/// Interval between checks whether a call with a Python function was stopped.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Number of points below which brute force is used without comparing indexes.
const MIN_INDEXED: usize = 2_000;

/// Metric that calls a Python function.
struct Callable {
    function: Py<PyAny>,
    call: Arc<Call>,
}

/// State that a call into an index shares with its Python function.
#[derive(Default)]
struct Call {
    /// Lock that is held during a call. Calls run one at a time, because they share `error`.
    turn: Mutex<()>,
    /// First exception that the function raised.
    error: Mutex<Option<PyErr>>,
    /// Whether the function must no longer be called.
    ended: AtomicBool,
}

impl Call {
    /// Waits for other calls to end, and runs `work`. After a stop, the function is no longer
    /// called.
    ///
    /// The caller must not hold the GIL.
    fn run<T>(&self, stop: &Stop, work: impl FnOnce() -> T) -> PyResult<T> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.ended.store(stop.is_stopped(), Ordering::Relaxed);
        let done = std::thread::scope(|scope| {
            let (over, is_over) = std::sync::mpsc::channel::<()>();
            let _ = scope.spawn(move || {
                // The loop ends when `over` is dropped.
                while is_over.recv_timeout(STOP_CHECK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                    if stop.is_stopped() {
                        self.ended.store(true, Ordering::Relaxed);
                    }
                }
            });
            let done = work();
            drop(over);
            done
        });
        match self.error.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(error),
            None => Ok(done),
        }
    }
}

impl Metric<Py<PyAny>> for Callable {
    fn distance(&self, a: &Py<PyAny>, b: &Py<PyAny>) -> f32 {
        if self.call.ended.load(Ordering::Relaxed) {
            return f32::NAN;
        }
        Python::attach(|py| {
            let distance =
                self.function.call1(py, (a, b)).and_then(|result| result.extract::<f64>(py));
            match distance {
                #[expect(clippy::cast_possible_truncation, reason = "distances are f32")]
                Ok(distance) => distance as f32,
                Err(error) => {
                    self.call.ended.store(true, Ordering::Relaxed);
                    let mut first = self.call.error.lock().unwrap_or_else(PoisonError::into_inner);
                    first.get_or_insert(error);
                    f32::NAN
                }
            }
        })
    }

    fn relative_error(&self) -> f32 {
        f32::EPSILON
    }
}

type Objects = Items<Py<PyAny>, Py<PyAny>>;

enum IndexKind {
    Vectors(Arc<AnyIndex<Vectors<f32>, VectorMetric>>),
    Strings(Arc<AnyIndex<Strings, Edit>>),
    Sets(Arc<AnyIndex<Sets, Jaccard>>),
    Objects(Box<AnyIndex<Objects, Callable>>),
}

enum GpuIndex {
    Vectors(GpuSearch<AnyIndex<Vectors<f32>, VectorMetric>>),
    Strings(GpuSearch<AnyIndex<Strings, Edit>>),
}

/// An index over points.
#[pyclass(frozen, module = "classify_knn._native")]
pub(crate) struct MetricIndex {
    built: IndexKind,
    kind: String,
    jobs: Option<usize>,
    gpus: Option<GpuIndex>,
    /// State of the Python function, if the metric is one.
    call: Arc<Call>,
}

fn index_error(error: &Error) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn of_gpu(error: &GpuError) -> PyErr {
    PyRuntimeError::new_err(format!("{error} (device='cpu' needs no GPU)"))
}

fn of_store(error: &StoreError) -> PyErr {
    match &error.problem {
        StoreProblem::File(problem) => match (problem.io_kind(), problem.is_io_error()) {
            (Some(kind), _) => of_io(&kind.into(), error.to_string()),
            (None, true) => PyOSError::new_err(error.to_string()),
            _ => ModelError::new_err(error.to_string()),
        },
        _ => ModelError::new_err(error.to_string()),
    }
}

fn threads(jobs: Option<usize>) -> NonZero<usize> {
    let available = || std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    jobs.and_then(NonZero::new).unwrap_or_else(available)
}

/// Returns the kind of index by name. `auto` is the kind that is fastest on a sample.
fn kind_of<S: Points, M: Metric<S::Point>>(name: &str, points: &S, metric: &M) -> PyResult<Kind> {
    if name != "auto" {
        return name
            .parse::<Kind>()
            .map_err(|error| of_parameter("index", &format!("{name:?}"), &error.to_string()));
    }
    if points.len() < MIN_INDEXED {
        return Ok(Kind::BruteForce);
    }
    let advice = advise(points, metric, Question::Nearest(10), MIN_INDEXED, 0);
    let advice = advice.map_err(|error| index_error(&error))?;
    Ok(advice.candidates.first().map_or(Kind::BruteForce, |fastest| fastest.index))
}

fn build<S: Points, M: Metric<S::Point>>(
    name: &str,
    points: S,
    metric: M,
) -> PyResult<(AnyIndex<S, M>, String)> {
    let kind = kind_of(name, &points, &metric)?;
    let index = kind.build(points, metric).map_err(|error| index_error(&error))?;
    Ok((index, kind.to_string()))
}

/// Checks the metric of points that support only one named metric.
fn check_metric(metric: Option<&str>, name: &'static str, points: &str) -> PyResult<()> {
    match metric {
        None => Ok(()),
        Some(given) if given == name => Ok(()),
        Some(given) => {
            let what = format!("expected {name:?} or a function as the metric of {points}");
            Err(of_parameter("metric", &format!("{given:?}"), &what))
        }
    }
}

fn vector_metric(name: &str) -> PyResult<VectorMetric> {
    name.parse().map_err(|what: String| {
        let hint = match name {
            "cosine" => "; use 'angular', which is a metric and orders vectors like the cosine",
            "l1" | "cityblock" => "; use 'manhattan'",
            "l2" => "; use 'euclidean'",
            _ => "",
        };
        of_parameter("metric", &format!("{name:?}"), &format!("{what}{hint}"))
    })
}

fn vectors(array: &Bound<'_, PyAny>) -> PyResult<Vectors<f32>> {
    let array: PyReadonlyArray2<'_, f32> = array.extract()?;
    let dimension = array.shape()[1];
    Vectors::new(array.as_slice()?.to_vec(), dimension).map_err(|error| index_error(&error))
}

fn strings(list: &Bound<'_, PyAny>) -> PyResult<Strings> {
    let list = list.cast::<PyList>().map_err(|_| PyTypeError::new_err("expected a list of str"))?;
    let mut texts = Vec::with_capacity(list.len());
    for (place, item) in list.iter().enumerate() {
        let text: pyo3::pybacked::PyBackedStr = item
            .extract()
            .map_err(|_| PyTypeError::new_err(format!("point {place} is not a str")))?;
        texts.push(text);
    }
    Ok(texts.iter().map(|text| &**text).collect())
}

fn sets(list: &Bound<'_, PyAny>) -> PyResult<Sets> {
    let lists: Vec<Vec<u32>> = list.extract()?;
    Sets::new(lists).map_err(|error| index_error(&error))
}

fn objects(list: &Bound<'_, PyAny>) -> PyResult<Objects> {
    let list = list.cast::<PyList>().map_err(|_| PyTypeError::new_err("expected a list"))?;
    Ok(list.iter().map(Bound::unbind).collect())
}

/// Points that can be split into chunks.
trait Chunk: Points {
    fn chunk(&self, start: u32, end: u32) -> Self;
}

impl Chunk for Vectors<f32> {
    fn chunk(&self, start: u32, end: u32) -> Self {
        let size = self.dimension();
        let values = &self.values()[start as usize * size..end as usize * size];
        Self::new(values.to_vec(), size).unwrap_or_else(|_| unreachable!("whole rows"))
    }
}

impl Chunk for Strings {
    fn chunk(&self, start: u32, end: u32) -> Self {
        (start..end).map(|number| self.point(number)).collect()
    }
}

impl Chunk for Sets {
    fn chunk(&self, start: u32, end: u32) -> Self {
        let sets = (start..end).map(|number| self.point(number));
        Self::new(sets).unwrap_or_else(|_| unreachable!("the number of sets is unchanged"))
    }
}

/// Answers queries in chunks, and checks for a stop before each. Returns `None` if stopped.
fn in_chunks<P: Chunk>(
    queries: &P,
    stop: &Stop,
    ask: impl Fn(&P) -> NeighborLists,
) -> Option<NeighborLists> {
    let count = u32::try_from(queries.len()).unwrap_or(u32::MAX);
    let mut answers = NeighborLists::default();
    for start in (0..count).step_by(CHUNK) {
        if stop.is_stopped() {
            return None;
        }
        let end = count.min(start.saturating_add(u32::try_from(CHUNK).unwrap_or(u32::MAX)));
        answers.append(&ask(&queries.chunk(start, end)));
    }
    Some(answers)
}

fn ask<I: Index>(
    index: &I,
    queries: &I::Points,
    question: Question,
    jobs: NonZero<usize>,
) -> NeighborLists {
    match question {
        Question::Within(radius) => index.within_many(queries, radius, jobs),
        Question::Nearest(k) => index.nearest_many(queries, k, jobs),
    }
}

fn search_on_gpus<I: Index + Send>(
    search: &GpuSearch<I>,
    queries: &I::Points,
    question: Question,
    jobs: NonZero<usize>,
) -> NeighborLists
where
    <I::Points as Points>::Point: GpuPoint,
{
    search.answer(queries, question, jobs).lists
}

/// Arrays `indptr`, points and distances.
type Arrays<'py> =
    (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<f32>>);

impl MetricIndex {
    fn answer<'py>(
        &self,
        py: Python<'py>,
        queries: &Bound<'_, PyAny>,
        question: Question,
    ) -> PyResult<Arrays<'py>> {
        let jobs = threads(self.jobs);
        let answers = match (&self.built, &self.gpus) {
            (IndexKind::Vectors(index), gpus) => {
                let queries = vectors(queries)?;
                let dimension = index.points().dimension();
                if queries.dimension() != dimension {
                    return Err(PyValueError::new_err(format!(
                        "the queries have {} columns, but the points have {dimension}",
                        queries.dimension()
                    )));
                }
                run_for(py, queries.len(), |stop| match gpus {
                    Some(GpuIndex::Vectors(search)) => {
                        Some(search_on_gpus(search, &queries, question, jobs))
                    }
                    _ => in_chunks(&queries, stop, |chunk| ask(&**index, chunk, question, jobs)),
                })?
            }
            (IndexKind::Strings(index), gpus) => {
                let queries = strings(queries)?;
                run_for(py, queries.len(), |stop| match gpus {
                    Some(GpuIndex::Strings(search)) => {
                        Some(search_on_gpus(search, &queries, question, jobs))
                    }
                    _ => in_chunks(&queries, stop, |chunk| ask(&**index, chunk, question, jobs)),
                })?
            }
            (IndexKind::Sets(index), _) => {
                let queries = sets(queries)?;
                run_for(py, queries.len(), |stop| {
                    in_chunks(&queries, stop, |chunk| ask(&**index, chunk, question, jobs))
                })?
            }
            (IndexKind::Objects(index), _) => {
                let queries = objects(queries)?;
                // Only one thread can call a Python function at a time.
                let one = NonZero::<usize>::MIN;
                run(py, &Arc::default(), |stop| {
                    self.call.run(stop, || Some(ask(&**index, &queries, question, one)))
                })??
            }
        };
        let answers = answers.ok_or_else(|| PyRuntimeError::new_err("stopped"))?;
        for (query, answer) in answers.iter().enumerate() {
            answer.map_err(|error| PyValueError::new_err(format!("query {query}: {error}")))?;
        }
        let indptr = answers.offsets().iter();
        let indptr: Vec<i64> = indptr.map(|&end| i64::try_from(end).unwrap_or(i64::MAX)).collect();
        let neighbors = || answers.neighbors().iter();
        let points: Vec<i64> = neighbors().map(|near| i64::from(near.point)).collect();
        let distances: Vec<f32> = neighbors().map(|near| near.distance).collect();
        Ok((indptr.into_pyarray(py), points.into_pyarray(py), distances.into_pyarray(py)))
    }

    fn on(self, device: &str) -> PyResult<Self> {
        let devices = crate::options::device(device)?.gpus().map_err(|error| of_gpu(&error))?;
        if devices.is_empty() {
            return Ok(self);
        }
        let gpus = match &self.built {
            IndexKind::Vectors(index) => GpuSearch::new(&devices, Arc::clone(index))
                .map(|search| search.map(GpuIndex::Vectors)),
            IndexKind::Strings(index) => GpuSearch::new(&devices, Arc::clone(index))
                .map(|search| search.map(GpuIndex::Strings)),
            _ => Ok(None),
        };
        let gpus = gpus.map_err(|error| of_gpu(&error))?;
        if gpus.is_none() && device != "auto" {
            return Err(of_parameter(
                "device",
                &format!("{device:?}"),
                "GPUs do not support these points or this metric",
            ));
        }
        Ok(Self { gpus, ..self })
    }
}

fn save_index<I: StoredIndex<Points: StoredPoints>>(index: &I, path: &Path) -> PyResult<()> {
    save(index, path).map_err(|error| of_store(&error))
}

/// Keyword arguments of [`MetricIndex::new`]. `metric`, `function` and `n_jobs` are optional.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct IndexKeywords {
    #[pyo3(default)]
    metric: Option<String>,
    /// Distance function for objects.
    #[pyo3(default)]
    function: Option<Py<PyAny>>,
    /// Kind of the index, such as `auto`.
    index: String,
    #[pyo3(default)]
    n_jobs: Option<usize>,
    device: String,
}

#[pymethods]
impl MetricIndex {
    /// Builds an index.
    ///
    /// `kind` is the type of the points: vectors, strings, sets or objects. The keyword arguments
    /// are the fields of [`IndexKeywords`].
    #[new]
    #[pyo3(signature = (points, kind, **keywords))]
    fn new(
        py: Python<'_>,
        points: &Bound<'_, PyAny>,
        kind: &str,
        keywords: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let keywords = keywords.cloned().unwrap_or_else(|| PyDict::new(py));
        let IndexKeywords { metric, function, index, n_jobs, device } = keywords.extract()?;
        let metric = metric.as_deref();
        let index = index.as_str();
        let call = Arc::new(Call::default());
        let (built, kind) = match (kind, function) {
            (_, Some(function)) => {
                let points = objects(points)?;
                let metric = Callable { function, call: Arc::clone(&call) };
                let result = run(py, &Arc::default(), |stop| {
                    call.run(stop, || build(index, points, metric))
                })??;
                let (index, kind) = result?;
                (IndexKind::Objects(Box::new(index)), kind)
            }
            ("vectors", None) => {
                let points = vectors(points)?;
                let metric = vector_metric(metric.unwrap_or("euclidean"))?;
                let (index, kind) = run(py, &Arc::default(), |_| build(index, points, metric))??;
                (IndexKind::Vectors(Arc::new(index)), kind)
            }
            ("strings", None) => {
                check_metric(metric, "edit", "strings")?;
                let points = strings(points)?;
                let (index, kind) = run(py, &Arc::default(), |_| build(index, points, Edit))??;
                (IndexKind::Strings(Arc::new(index)), kind)
            }
            ("sets", None) => {
                check_metric(metric, "jaccard", "sets")?;
                let points = sets(points)?;
                let (index, kind) = run(py, &Arc::default(), |_| build(index, points, Jaccard))??;
                (IndexKind::Sets(Arc::new(index)), kind)
            }
            (kind, None) => {
                return Err(PyValueError::new_err(format!(
                    "kind={kind:?}: expected vectors, strings, sets or objects"
                )));
            }
        };
        Self { built, kind, jobs: n_jobs, gpus: None, call }.on(&device)
    }

    /// Opens an index file.
    #[staticmethod]
    #[pyo3(signature = (path, *, n_jobs=None, device="auto"))]
    fn open(py: Python<'_>, path: PathBuf, n_jobs: Option<usize>, device: &str) -> PyResult<Self> {
        let description = describe(&path).map_err(|error| of_store(&error))?;
        let metric = description.metric.clone().unwrap_or_default();
        let built = py.detach(|| {
            let result = match description.points.as_str() {
                "strings" => open(&path, Edit).map(|index| IndexKind::Strings(Arc::new(index))),
                "vectors of F32" => {
                    let metric =
                        vector_metric(if metric.is_empty() { "euclidean" } else { &metric })?;
                    open(&path, metric).map(|index| IndexKind::Vectors(Arc::new(index)))
                }
                "sets" => open(&path, Jaccard).map(|index| IndexKind::Sets(Arc::new(index))),
                points => {
                    return Err(ModelError::new_err(format!(
                        "{}: this is an index of {points}; expected vectors, strings or sets",
                        path.display()
                    )));
                }
            };
            result.map_err(|error| of_store(&error))
        })?;
        Self { built, kind: description.kind, jobs: n_jobs, gpus: None, call: Arc::default() }
            .on(device)
    }

    /// Writes the index file completely or not at all.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| match &self.built {
            IndexKind::Vectors(index) => save_index(&**index, &path),
            IndexKind::Strings(index) => save_index(&**index, &path),
            IndexKind::Sets(index) => save_index(&**index, &path),
            IndexKind::Objects(_) => Err(PyValueError::new_err(
                "an index with a Python function as its metric cannot be saved, \
                 because a file cannot store the function",
            )),
        })
    }

    /// Finds the nearest points of each query.
    fn nearest<'py>(
        &self,
        py: Python<'py>,
        queries: &Bound<'_, PyAny>,
        k: usize,
    ) -> PyResult<Arrays<'py>> {
        if k == 0 {
            return Err(PyValueError::new_err("k must be at least 1"));
        }
        self.answer(py, queries, Question::Nearest(k))
    }

    /// Finds all points within a radius of each query.
    fn within<'py>(
        &self,
        py: Python<'py>,
        queries: &Bound<'_, PyAny>,
        radius: f32,
    ) -> PyResult<Arrays<'py>> {
        self.answer(py, queries, Question::Within(radius))
    }

    /// The kind of index with its parameters.
    #[getter]
    fn kind(&self) -> &str {
        &self.kind
    }

    /// The type of the points.
    #[getter]
    fn points(&self) -> &'static str {
        match &self.built {
            IndexKind::Vectors(_) => "vectors",
            IndexKind::Strings(_) => "strings",
            IndexKind::Sets(_) => "sets",
            IndexKind::Objects(_) => "objects",
        }
    }

    /// The name of the metric.
    #[getter]
    fn metric(&self) -> Option<String> {
        match &self.built {
            IndexKind::Vectors(index) => Metric::<[f32]>::name(index.metric()),
            IndexKind::Strings(_) => Some("edit".to_owned()),
            IndexKind::Sets(_) => Some("jaccard".to_owned()),
            IndexKind::Objects(_) => None,
        }
    }

    /// Whether a GPU runs the searches.
    #[getter]
    fn on_gpu(&self) -> bool {
        self.gpus.is_some()
    }

    fn __len__(&self) -> usize {
        match &self.built {
            IndexKind::Vectors(index) => index.len(),
            IndexKind::Strings(index) => index.len(),
            IndexKind::Sets(index) => index.len(),
            IndexKind::Objects(index) => index.len(),
        }
    }
}
