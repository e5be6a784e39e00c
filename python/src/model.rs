//! The Python class `Model`: training, files, predictions and explanations.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use classify::check::{Check, CheckOptions};
use classify::classifier::explain::explain;
use classify::classifier::{
    Classifier, ClassifyOptions, DocumentVectors, FoundNeighbors, RawPrediction, Searchers,
};
use classify::learn::{Event, Trainer};
use classify::model::{InputSpec, Model as LibraryModel};
use classify::rows::dense::{DenseSpec, Metric};
use classify::search::{DeviceChoice, Engines, Stop};
use classify::text::corpus::{CorpusError, Document, Place, Problem, unknown_labels};
use classify::text::counts::{CorpusStatistics, CountOptions, Counts};
use classify::text::tfidf::Side;
use numpy::{IntoPyArray, PyArray1, PyArrayMethods, PyReadonlyArray1};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::documents::{Input, View};
use crate::errors::{of_classify, of_corpus, of_device, of_model, of_search, of_train};
use crate::notes;
use crate::options::{Parameters, device};
use crate::running::{ProcessLocal, run, run_for, threads};

/// Number of documents explained per batch.
const EXPLAIN_BATCH: usize = 64;
/// Interval between reports of progress.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);

/// A trained model with its search engines.
#[pyclass(frozen, module = "classify_knn._native")]
pub(crate) struct Model {
    trained: Arc<LibraryModel>,
    jobs: Option<usize>,
    device: DeviceChoice,
    /// Classifier with its indexes.
    search_state: ProcessLocal<SearchState>,
    /// Classifier without an index, for weighting only.
    weighting_classifier: ProcessLocal<Classifier>,
}

struct SearchState {
    classifier: Classifier,
    batch: usize,
    description: String,
}

/// Labels of training documents as indices into `names`. They are multi-label if there is an
/// `indptr`.
struct Labels<'a> {
    names: Vec<String>,
    indptr: Option<&'a [i64]>,
    indices: &'a [i64],
}

impl Labels<'_> {
    fn check(&self, rows: usize) -> Result<(), String> {
        let in_range = |&label: &i64| usize::try_from(label).is_ok_and(|at| at < self.names.len());
        let counted = match self.indptr {
            None => self.indices.len() == rows,
            Some(indptr) => {
                indptr.len() == rows + 1
                    && indptr.first() == Some(&0)
                    && indptr.windows(2).all(|pair| pair[0] <= pair[1])
                    && indptr
                        .last()
                        .is_some_and(|&end| usize::try_from(end) == Ok(self.indices.len()))
            }
        };
        if counted && self.indices.iter().all(in_range) {
            Ok(())
        } else {
            Err(format!("the labels do not match the {rows} documents"))
        }
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked")]
    fn of(&self, row: usize) -> Vec<String> {
        let indices = match self.indptr {
            None => &self.indices[row..=row],
            Some(indptr) => &self.indices[indptr[row] as usize..indptr[row + 1] as usize],
        };
        indices.iter().map(|&label| self.names[label as usize].clone()).collect()
    }
}

/// Reports the events of training to Python, from the training thread.
struct Reports {
    callback: Option<Py<PyAny>>,
    last_report: Mutex<Option<Instant>>,
    error: Mutex<Option<PyErr>>,
    stop: Arc<Stop>,
}

impl Reports {
    fn on_event(&self, event: Event<'_>) {
        let (what, done, text) = match event {
            Event::Read(done) => ("fit: read", Some(done), None),
            Event::HeldOut(done) => ("fit: held out", Some(done), None),
            event => ("fit", None, classify_report::training::event(&event, 10)),
        };
        let Some(call) = &self.callback else { return };
        if text.is_none() && !self.is_due() {
            return;
        }
        let result = Python::attach(|py| call.call1(py, (what, done, text)).map(|_| ()));
        if let Err(error) = result {
            self.stop.stop();
            if let Ok(mut first) = self.error.lock() {
                first.get_or_insert(error);
            }
        }
    }

    fn is_due(&self) -> bool {
        let Ok(mut last) = self.last_report.lock() else { return false };
        let due = last.is_none_or(|last| last.elapsed() >= REPORT_INTERVAL);
        if due {
            *last = Some(Instant::now());
        }
        due
    }
}

/// Counts the terms of texts.
///
/// Returns the terms in byte order, the number of texts with each term, and the number of
/// occurrences of each term.
#[pyfunction]
#[pyo3(signature = (input, parameters, *, n_jobs=None))]
#[expect(clippy::type_complexity, reason = "three columns")]
pub(crate) fn count_terms<'py>(
    py: Python<'py>,
    input: &Bound<'py, PyAny>,
    parameters: &Bound<'_, PyDict>,
    n_jobs: Option<usize>,
) -> PyResult<(Vec<String>, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<f64>>)> {
    let input = Input::of(input)?;
    let view = input.view()?;
    let View::Texts(_) = view else {
        return Err(PyValueError::new_err("count_terms needs texts"));
    };
    let options = Parameters(parameters).options(false)?;
    let threads = threads(n_jobs)?;
    let counting = InputSpec::Text(options.analyzer).counting(&options.fields);
    let stop = Arc::new(Stop::new());
    let counts = run(py, &stop, |_| {
        let source: Arc<str> = "X".into();
        let mut documents = (0..view.rows()).map(|row| Ok(view.document(row, &source)));
        let counts = Counts::read(&mut documents, &CountOptions::new(&counting), &threads, &|_| ());
        counts.map(|counts| counts.term_frequencies(&options.fields.boosts()))
    })?;
    let counts = counts.map_err(|error| of_corpus(&error))?;
    let documents: Vec<i64> = counts.iter().map(|term| i64::from(term.documents)).collect();
    let occurrences: Vec<f64> = counts.iter().map(|term| term.occurrences).collect();
    let terms = counts.into_iter().map(|term| term.term).collect();
    Ok((terms, documents.into_pyarray(py), occurrences.into_pyarray(py)))
}

/// Term statistics of a whole corpus: the terms in byte order, the number of documents with each
/// term, the number of documents, and their mean length.
type WholeCorpus = (Vec<String>, Vec<u32>, u64, f64);

/// Label names, `indptr` (only for multi-label documents) and label indices, as Python passes them.
#[derive(FromPyObject)]
pub(crate) struct LabelArrays<'py>(
    Vec<String>,
    Option<PyReadonlyArray1<'py, i64>>,
    PyReadonlyArray1<'py, i64>,
);

/// Keyword arguments of [`train`]. All except `device` are optional.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct TrainKeywords<'py> {
    #[pyo3(default)]
    weights: Option<PyReadonlyArray1<'py, f32>>,
    #[pyo3(default)]
    ids: Option<Vec<String>>,
    #[pyo3(default)]
    groups: Option<Vec<String>>,
    #[pyo3(default)]
    n_jobs: Option<usize>,
    device: String,
    /// Function that is called with `(what, done, text)`.
    #[pyo3(default)]
    report: Option<Py<PyAny>>,
    #[pyo3(default)]
    part_of: Option<WholeCorpus>,
}

/// The arguments of [`train`] and [`check`].
struct TrainArguments<'a, 'py> {
    input: &'a Bound<'py, PyAny>,
    labels: LabelArrays<'py>,
    parameters: &'a Bound<'py, PyDict>,
    /// The fields of [`TrainKeywords`].
    keywords: Option<&'a Bound<'py, PyDict>>,
}

/// Trains a model.
///
/// The keyword arguments are the fields of [`TrainKeywords`]. Returns the model, and the results of
/// tuning as JSON.
#[pyfunction]
#[pyo3(signature = (input, labels, parameters, **keywords))]
pub(crate) fn train<'py>(
    py: Python<'py>,
    input: &Bound<'py, PyAny>,
    labels: LabelArrays<'py>,
    parameters: &Bound<'py, PyDict>,
    keywords: Option<&Bound<'py, PyDict>>,
) -> PyResult<(Model, Option<String>)> {
    let arguments = TrainArguments { input, labels, parameters, keywords };
    let Trained { result: (model, tuning), jobs, device } = arguments.run(py, train_with)?;
    Ok((Model::new(model, jobs, device), tuning))
}

/// Checks the labels and documents of a corpus.
///
/// The keyword arguments are the fields of [`TrainKeywords`]. Returns the findings as JSON.
#[pyfunction]
#[pyo3(signature = (input, labels, parameters, **keywords))]
pub(crate) fn check<'py>(
    py: Python<'py>,
    input: &Bound<'py, PyAny>,
    labels: LabelArrays<'py>,
    parameters: &Bound<'py, PyDict>,
    keywords: Option<&Bound<'py, PyDict>>,
) -> PyResult<String> {
    let min_probability = match keywords {
        Some(keywords) => keywords.get_item("min_probability")?.map(|value| value.extract()),
        None => None,
    };
    let min_probability = min_probability.transpose()?;
    let options = min_probability
        .map_or_else(CheckOptions::default, |min_probability| CheckOptions { min_probability });
    let arguments = TrainArguments { input, labels, parameters, keywords };
    let check = |training: Training<'_>| {
        let held_out =
            training.trainer.hold_out(training.documents).map_err(|error| of_train(&error))?;
        serde_json::to_string(&Check::new(&held_out, options))
            .map_err(|error| PyRuntimeError::new_err(error.to_string()))
    };
    Ok(arguments.run(py, check)?.result)
}

/// A trainer and the documents to train on.
struct Training<'a> {
    trainer: Trainer<'a>,
    documents: &'a mut (dyn Iterator<Item = Result<Document, CorpusError>> + Send),
}

/// The result of [`TrainArguments::run`], and the keywords that the model keeps.
struct Trained<R> {
    result: R,
    jobs: Option<usize>,
    device: DeviceChoice,
}

impl TrainArguments<'_, '_> {
    /// Converts the arguments, and calls `work` without Python's lock. Ctrl-C stops it.
    fn run<R: Send>(
        self,
        py: Python<'_>,
        work: impl FnOnce(Training<'_>) -> PyResult<R> + Send,
    ) -> PyResult<Trained<R>> {
        let keywords = self.keywords.cloned().unwrap_or_else(|| PyDict::new(py));
        let TrainKeywords { weights, ids, groups, n_jobs, device, report, part_of } =
            keywords.extract()?;
        let device = self::device(&device)?;
        let input = Input::of(self.input)?;
        let view = input.view()?;
        let LabelArrays(names, indptr, indices) = &self.labels;
        let labels = Labels {
            names: names.clone(),
            indptr: indptr.as_ref().map(|indptr| indptr.as_slice()).transpose()?,
            indices: indices.as_slice()?,
        };
        labels.check(view.rows()).map_err(PyValueError::new_err)?;
        let weights = weights.as_ref().map(|weights| weights.as_slice()).transpose()?;
        let matches_rows = |count: Option<usize>| count.is_none_or(|count| count == view.rows());
        if !matches_rows(weights.map(<[_]>::len))
            || !matches_rows(ids.as_ref().map(Vec::len))
            || !matches_rows(groups.as_ref().map(Vec::len))
        {
            return Err(PyValueError::new_err(
                "weights, ids and groups must have one entry per document",
            ));
        }
        let mut options =
            Parameters(self.parameters).options(matches!(view, View::Dense { .. }))?;
        if let Some((terms, frequencies, documents, mean_length)) = part_of {
            let whole = CorpusStatistics::new(&terms, frequencies, documents, mean_length);
            options.part_of = Some(Arc::new(whole.map_err(PyValueError::new_err)?));
        }
        let threads = threads(n_jobs)?;
        let stop = Arc::new(Stop::new());
        let reports = Reports {
            callback: report,
            last_report: Mutex::new(None),
            error: Mutex::new(None),
            stop: Arc::clone(&stop),
        };
        let result = run(py, &stop, |stopped| {
            let source: Arc<str> = "X".into();
            let mut documents = (0..view.rows()).map(|row| {
                if stopped.is_stopped() {
                    let place = Place { source: Arc::clone(&source), line: None };
                    let problem = Problem::Io(std::io::ErrorKind::Interrupted.into());
                    return Err(CorpusError { place, problem });
                }
                let mut document = view.document(row, &source);
                document.labels = labels.of(row);
                document.weight = weights.map_or(1.0, |weights| weights[row]);
                document.group = groups.as_ref().map(|groups| groups[row].clone());
                if let Some(ids) = &ids {
                    document.id.clone_from(&ids[row]);
                }
                Ok(document)
            });
            // Without tuning, the CPU engines suffice.
            let engines = if options.tuning.is_some() {
                device.open(None, &threads).map_err(|error| of_device(&error))?
            } else {
                Engines::cpu(&threads)
            };
            let engines = engines.until(Arc::clone(&stop));
            let on_event = |event: Event<'_>| reports.on_event(event);
            let builder = Trainer::builder().options(options).engines(engines);
            let trainer = builder.corpus_name("X").on_event(&on_event).build();
            work(Training { trainer, documents: &mut documents })
        })?;
        if let Some(error) = reports.error.into_inner().ok().flatten() {
            return Err(error);
        }
        Ok(Trained { result: result?, jobs: n_jobs, device })
    }
}

fn train_with(training: Training<'_>) -> PyResult<(LibraryModel, Option<String>)> {
    let trained = training.trainer.train(training.documents).map_err(|error| of_train(&error))?;
    let tuning = trained.tuning.map(|report| serde_json::to_string(&report)).transpose();
    let tuning = tuning.map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
    Ok((trained.model, tuning))
}

impl Model {
    fn new(model: LibraryModel, jobs: Option<usize>, device: DeviceChoice) -> Self {
        Self {
            trained: Arc::new(model),
            jobs,
            device,
            search_state: ProcessLocal::default(),
            weighting_classifier: ProcessLocal::default(),
        }
    }

    fn search_state(&self, py: Python<'_>) -> PyResult<Arc<SearchState>> {
        self.search_state.get(py, || {
            let threads = threads(self.jobs)?;
            let engines = self.device.open(None, &threads).map_err(|error| of_device(&error))?;
            let share = self.trained.settings().dense_share;
            let searchers = Searchers::of(&self.trained, share, &engines);
            let searchers = searchers.map_err(|error| of_search(&error))?;
            Ok(SearchState {
                classifier: Classifier::with_searchers(
                    Arc::clone(&self.trained),
                    searchers,
                    &threads,
                ),
                batch: engines.batch(),
                description: engines.describe(),
            })
        })
    }

    fn weighting_classifier(&self, py: Python<'_>) -> PyResult<Arc<Classifier>> {
        self.weighting_classifier.get(py, || {
            let threads = threads(self.jobs)?;
            let searchers = Searchers::default();
            Ok(Classifier::with_searchers(Arc::clone(&self.trained), searchers, &threads))
        })
    }

    /// Calls `each` with the vectors of every batch. Ctrl-C stops it.
    fn batches<T: Default + Send>(
        py: Python<'_>,
        view: View<'_>,
        vectorizer: Vectorizer<'_>,
        each: impl Fn(&DocumentVectors, &Stop, &mut T) -> PyResult<()> + Sync,
    ) -> PyResult<T> {
        let Vectorizer { classifier, batch, side } = vectorizer;
        let rows = view.rows();
        let work = |stop: &Stop| {
            let source: Arc<str> = "X".into();
            let mut answers = T::default();
            let mut documents = Vec::with_capacity(batch.min(rows));
            for start in (0..rows).step_by(batch.max(1)) {
                documents.clear();
                let end = rows.min(start.saturating_add(batch));
                documents.extend((start..end).map(|row| view.document(row, &source)));
                let vectors = classifier.vectorize_as(&documents, side);
                let vectors = vectors.map_err(|error| of_corpus(&error))?;
                each(&vectors, stop, &mut answers)?;
            }
            Ok(answers)
        };
        run_for(py, rows, work)?
    }
}

/// Converts documents to vectors.
#[derive(Clone, Copy)]
struct Vectorizer<'a> {
    classifier: &'a Classifier,
    /// Number of documents per batch.
    batch: usize,
    side: Side,
}

/// Rows of different lengths.
#[derive(Default)]
struct Ragged<T> {
    indptr: Vec<i64>,
    values: Vec<T>,
}

impl<T> Ragged<T> {
    fn push(&mut self, row: impl IntoIterator<Item = T>) {
        if self.indptr.is_empty() {
            self.indptr.push(0);
        }
        self.values.extend(row);
        self.indptr.push(i64::try_from(self.values.len()).unwrap_or(i64::MAX));
    }

    fn indptr<'py>(&mut self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        if self.indptr.is_empty() {
            self.indptr.push(0);
        }
        std::mem::take(&mut self.indptr).into_pyarray(py)
    }
}

/// The predictions of all documents.
#[derive(Default)]
struct Answers {
    labels: Ragged<u32>,
    scores: Ragged<(u32, f64)>,
    probabilities: Vec<f64>,
    confidence: Vec<f64>,
    reasons: Vec<&'static str>,
    unknown: Vec<i64>,
    neighbors: Ragged<(u32, f32)>,
    by_vectors: Ragged<(u32, f32)>,
}

impl Answers {
    fn push(&mut self, prediction: RawPrediction, with_neighbors: bool) {
        self.labels.push(prediction.labels);
        self.scores.push(prediction.scores.iter().map(|found| (found.label, found.score)));
        self.probabilities.extend(prediction.probabilities);
        self.confidence.extend(prediction.confidence);
        self.reasons.push(prediction.reason.map_or("", |reason| reason.name()));
        self.unknown.push(i64::try_from(prediction.unknown_terms).unwrap_or(i64::MAX));
        if with_neighbors {
            self.neighbors
                .push(prediction.neighbors.iter().map(|near| (near.row, near.similarity)));
            let by_vectors = prediction.by_vectors.iter();
            self.by_vectors.push(by_vectors.map(|near| (near.row, near.similarity)));
        }
    }

    fn into_dict(mut self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let answers = PyDict::new(py);
        answers
            .set_item("labels", (self.labels.indptr(py), self.labels.values.into_pyarray(py)))?;
        let indptr = self.scores.indptr(py);
        let (labels, scores): (Vec<u32>, Vec<f64>) = self.scores.values.into_iter().unzip();
        let calibrated = self.probabilities.len() == scores.len() && !self.confidence.is_empty();
        answers.set_item("scores", (indptr, labels.into_pyarray(py), scores.into_pyarray(py)))?;
        if calibrated {
            answers.set_item("probabilities", self.probabilities.into_pyarray(py))?;
            answers.set_item("confidence", self.confidence.into_pyarray(py))?;
        }
        answers.set_item("reasons", self.reasons)?;
        answers.set_item("unknown_terms", self.unknown.into_pyarray(py))?;
        for (name, mut lists) in [("neighbors", self.neighbors), ("by_vectors", self.by_vectors)] {
            let indptr = lists.indptr(py);
            let (rows, similarities): (Vec<u32>, Vec<f32>) = lists.values.into_iter().unzip();
            answers
                .set_item(name, (indptr, rows.into_pyarray(py), similarities.into_pyarray(py)))?;
        }
        Ok(answers)
    }
}

/// Neighbors as arrays with `k` columns. Missing neighbors have row -1 and similarity -inf.
struct Lists {
    k: usize,
    rows: Vec<i64>,
    similarities: Vec<f32>,
}

impl Lists {
    fn push(&mut self, neighbors: &[classify::search::Neighbor]) {
        self.rows.extend(neighbors.iter().map(|near| i64::from(near.row)));
        self.similarities.extend(neighbors.iter().map(|near| near.similarity));
        let missing = self.k - neighbors.len();
        self.rows.extend(std::iter::repeat_n(-1, missing));
        self.similarities.extend(std::iter::repeat_n(f32::NEG_INFINITY, missing));
    }
}

/// Converts neighbor lists to an array of `k` columns.
pub(crate) fn as_matrix<T: numpy::Element>(
    py: Python<'_>,
    values: Vec<T>,
    k: usize,
) -> PyResult<Bound<'_, numpy::PyArray2<T>>> {
    let rows = values.len().checked_div(k).unwrap_or(0);
    values.into_pyarray(py).reshape([rows, k])
}

/// Arrays of neighbors and of their similarities, each of shape documents × k.
type Matrices<'py> = (Bound<'py, numpy::PyArray2<i64>>, Bound<'py, numpy::PyArray2<f32>>);

#[pymethods]
impl Model {
    /// Opens a model file.
    #[staticmethod]
    #[pyo3(signature = (path, *, n_jobs=None, device="auto"))]
    fn open(py: Python<'_>, path: PathBuf, n_jobs: Option<usize>, device: &str) -> PyResult<Self> {
        let device = self::device(device)?;
        let model = py.detach(|| LibraryModel::open(&path)).map_err(|error| of_model(&error))?;
        Ok(Self::new(model, n_jobs, device))
    }

    /// Reads a model from the bytes of its file.
    #[staticmethod]
    #[pyo3(signature = (bytes, *, n_jobs=None, device="auto"))]
    fn from_bytes(
        py: Python<'_>,
        bytes: &[u8],
        n_jobs: Option<usize>,
        device: &str,
    ) -> PyResult<Self> {
        let device = self::device(device)?;
        let model =
            py.detach(|| LibraryModel::from_bytes(bytes)).map_err(|error| of_model(&error))?;
        Ok(Self::new(model, n_jobs, device))
    }

    /// Writes the model file completely or not at all.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| self.trained.save(&path)).map_err(|error| of_model(&error))
    }

    /// Returns the bytes of the model file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| self.trained.to_bytes()).map_err(|error| of_model(&error))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Returns the same model with another number of threads and another device.
    #[pyo3(signature = (*, n_jobs=None, device="auto"))]
    fn on(&self, n_jobs: Option<usize>, device: &str) -> PyResult<Self> {
        let search_state = ProcessLocal::default();
        let weighting_classifier = ProcessLocal::default();
        let device = self::device(device)?;
        Ok(Self {
            trained: Arc::clone(&self.trained),
            jobs: n_jobs,
            device,
            search_state,
            weighting_classifier,
        })
    }

    /// Returns the model's settings as JSON.
    #[getter]
    fn settings(&self) -> PyResult<String> {
        let json = serde_json::to_string(self.trained.settings());
        json.map_err(|error| PyRuntimeError::new_err(error.to_string()))
    }

    /// The type of the documents: `text`, `features` or `vectors`.
    #[getter]
    fn input(&self) -> &'static str {
        match self.trained.settings().input {
            InputSpec::Text(_) => "text",
            InputSpec::Features(_) => "features",
            InputSpec::Vectors(_) => "vectors",
        }
    }

    /// Whether documents can have several labels.
    #[getter]
    fn multilabel(&self) -> bool {
        self.trained.settings().decision.is_multi()
    }

    /// Whether labels depend on the other documents of a call.
    #[getter]
    fn needs_batch(&self) -> bool {
        self.trained.settings().decision.needs_batch()
    }

    /// The kind of similarity: `cosine`, `dot` (products of unscaled rows), or `bounded` (0 to 1,
    /// based on a distance).
    #[getter]
    fn similarity(&self) -> &'static str {
        let settings = self.trained.settings();
        let angular = |dense: &DenseSpec| dense.metric == Metric::Angular;
        match &settings.dense {
            Some(dense) if settings.dense_share >= 1.0 && !angular(dense) => "bounded",
            Some(_) if settings.dense_share >= 1.0 => "cosine",
            _ if settings.weighting.is_cosine() => "cosine",
            _ => "dot",
        }
    }

    /// The number of terms.
    #[getter]
    fn term_count(&self) -> usize {
        self.trained.vocabulary().len()
    }

    /// The number of neighbors that vote.
    #[getter]
    fn k(&self) -> usize {
        self.trained.settings().k.get()
    }

    /// The number of training documents.
    #[getter]
    fn documents(&self) -> usize {
        self.trained.ids().len()
    }

    /// The dimension of the dense vectors, if there are any.
    #[getter]
    fn dimension(&self) -> Option<usize> {
        self.trained.dense().map(|dense| dense.vectors().dimension())
    }

    /// The label names, by number.
    #[getter]
    fn labels(&self) -> Vec<&str> {
        self.trained.labels().iter().collect()
    }

    /// Returns warnings about the labels, the hierarchy and the identifiers of the training
    /// documents.
    fn notes(&self) -> Vec<String> {
        self.trained.notes().iter().map(notes::warning).collect()
    }

    /// Returns a warning if many of the labels are not labels of the model.
    fn unknown_labels(&self, labels: Vec<String>) -> Option<String> {
        let note = unknown_labels(labels.iter().map(String::as_str), &self.labels());
        note.as_ref().map(notes::warning)
    }

    /// The number of training documents with each label.
    #[getter]
    fn label_sizes(&self) -> Vec<u32> {
        self.trained.label_sizes().to_vec()
    }

    /// The terms, by number.
    #[getter]
    fn terms(&self) -> Vec<String> {
        let terms = self.trained.vocabulary();
        let term = |id| terms.term(id).map(str::to_owned);
        (0..u32::try_from(terms.len()).unwrap_or(u32::MAX)).filter_map(term).collect()
    }

    /// The number of training documents with each term.
    #[getter]
    fn document_frequencies(&self) -> Vec<u32> {
        self.trained.vocabulary().document_frequencies().to_vec()
    }

    /// Returns the identifiers of training documents.
    fn ids(&self, rows: Vec<usize>) -> PyResult<Vec<&str>> {
        let id = |&row: &usize| self.trained.ids().get(row);
        let ids: Option<Vec<&str>> = rows.iter().map(id).collect();
        ids.ok_or_else(|| PyValueError::new_err("no such training document"))
    }

    /// Returns the text of a training document, if the model stores texts.
    fn text(&self, row: usize) -> Option<&str> {
        self.trained.texts().and_then(|texts| texts.get(row))
    }

    /// Returns the labels of a training document.
    fn document_labels(&self, row: u32) -> PyResult<Vec<u32>> {
        if row as usize >= self.trained.ids().len() {
            return Err(PyValueError::new_err("no such training document"));
        }
        Ok(self.trained.document_labels(row).to_vec())
    }

    /// Returns a description of the engine and its device.
    fn engine(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.search_state(py)?.description.clone())
    }

    /// Classifies documents.
    #[pyo3(signature = (input, *, neighbors=false))]
    fn classify<'py>(
        &self,
        py: Python<'py>,
        input: &Bound<'_, PyAny>,
        neighbors: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let input = Input::of(input)?;
        let view = input.view()?;
        let search_state = self.search_state(py)?;
        let classifier = &search_state.classifier;
        let options = classifier.options();
        let batch = if options.decision.needs_batch() { usize::MAX } else { search_state.batch };
        let answers: Answers = Self::batches(
            py,
            view,
            Vectorizer { classifier, batch, side: Side::Query },
            |vectors, stop, answers: &mut Answers| {
                let mut found = FoundNeighbors::default();
                let searched = classifier.neighbors_until(vectors, &options, stop, &mut found);
                let _ = searched.map_err(|error| of_classify(&error.into()))?;
                for prediction in classifier.predict_from_neighbors(vectors, &found, &options) {
                    answers.push(prediction, neighbors);
                }
                Ok(())
            },
        )?;
        answers.into_dict(py)
    }

    /// Returns the nearest training documents: rows and similarities, each of shape documents × k.
    #[pyo3(signature = (input, k, *, by_vectors=false))]
    fn kneighbors<'py>(
        &self,
        py: Python<'py>,
        input: &Bound<'_, PyAny>,
        k: usize,
        by_vectors: bool,
    ) -> PyResult<Matrices<'py>> {
        let k = NonZeroUsize::new(k)
            .ok_or_else(|| PyValueError::new_err("n_neighbors must be at least 1"))?;
        // The caller fills in missing neighbors.
        let k = k.min(NonZeroUsize::new(self.trained.ids().len()).unwrap_or(NonZeroUsize::MIN));
        let input = Input::of(input)?;
        let view = input.view()?;
        let search_state = self.search_state(py)?;
        let classifier = &search_state.classifier;
        let options = ClassifyOptions { k, ..classifier.options() };
        let lists: Option<Lists> = Self::batches(
            py,
            view,
            Vectorizer { classifier, batch: search_state.batch, side: Side::Query },
            |vectors, stop, lists: &mut Option<Lists>| {
                let mut found = FoundNeighbors::default();
                let searched = classifier.neighbors_until(vectors, &options, stop, &mut found);
                let _ = searched.map_err(|error| of_search(&error))?;
                let k = k.get();
                let lists = lists.get_or_insert_with(|| Lists {
                    k,
                    rows: Vec::new(),
                    similarities: Vec::new(),
                });
                let share = options.dense_share;
                let by_vectors = share >= 1.0 || (by_vectors && share > 0.0);
                let found = if by_vectors { &found.vectors } else { &found.terms };
                found.iter().for_each(|neighbors| lists.push(neighbors));
                Ok(())
            },
        )?;
        let k = k.get();
        let lists = lists.unwrap_or(Lists { k, rows: Vec::new(), similarities: Vec::new() });
        Ok((as_matrix(py, lists.rows, k)?, as_matrix(py, lists.similarities, k)?))
    }

    /// Returns explanations as JSON, one per document (schema `classify.explanation/1`).
    #[pyo3(signature = (input, *, terms=20))]
    fn explain(
        &self,
        py: Python<'_>,
        input: &Bound<'_, PyAny>,
        terms: usize,
    ) -> PyResult<Vec<String>> {
        let input = Input::of(input)?;
        let view = input.view()?;
        let search_state = self.search_state(py)?;
        let classifier = &search_state.classifier;
        let options = classifier.options();
        if options.decision.needs_batch() {
            let message =
                "rule='pcut' decides on whole batches: it has no explanation of one document";
            return Err(PyValueError::new_err(message));
        }
        run(py, &Arc::default(), |stop| {
            let source: Arc<str> = "X".into();
            let mut explained = Vec::with_capacity(view.rows());
            for start in (0..view.rows()).step_by(EXPLAIN_BATCH) {
                if stop.is_stopped() {
                    break;
                }
                let end = view.rows().min(start + EXPLAIN_BATCH);
                let documents: Vec<Document> =
                    (start..end).map(|row| view.document(row, &source)).collect();
                let found = explain(classifier, &documents, &options);
                let found = found.map_err(|error| of_classify(&error))?;
                explained.extend(documents.iter().zip(found).map(|(document, explanation)| {
                    explanation.json(&self.trained, &document.id, terms)
                }));
            }
            Ok(explained)
        })?
    }

    /// Weights documents, as training documents or as queries. Returns a CSR matrix: indptr,
    /// indices and data.
    #[pyo3(signature = (input, *, as_queries=false))]
    #[expect(clippy::type_complexity, reason = "three arrays")]
    fn vectorize<'py>(
        &self,
        py: Python<'py>,
        input: &Bound<'_, PyAny>,
        as_queries: bool,
    ) -> PyResult<(Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<u32>>, Bound<'py, PyArray1<f32>>)>
    {
        let side = if as_queries { Side::Query } else { Side::Document };
        let input = Input::of(input)?;
        let view = input.view()?;
        let classifier = self.weighting_classifier(py)?;
        let rows: (Ragged<u32>, Vec<f32>) = Self::batches(
            py,
            view,
            Vectorizer { classifier: &classifier, batch: 1 << 14, side },
            |vectors, stop, (columns, values): &mut (Ragged<u32>, Vec<f32>)| {
                if stop.is_stopped() {
                    return Err(PyRuntimeError::new_err("stopped"));
                }
                for (terms, weights) in vectors.rows.iter() {
                    columns.push(terms.iter().copied());
                    values.extend_from_slice(weights);
                }
                Ok(())
            },
        )?;
        let (mut columns, values) = rows;
        Ok((columns.indptr(py), columns.values.into_pyarray(py), values.into_pyarray(py)))
    }
}
