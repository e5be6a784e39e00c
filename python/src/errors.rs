//! Converts errors of the library to Python exceptions.

use std::io::ErrorKind;

use classify::classifier::ClassifyError;
use classify::decide::decision::DecisionError;
use classify::learn::TrainError;
use classify::model::ModelError as LibraryModelError;
use classify::search::{DeviceError, SearchError};
use classify::text::corpus::{CorpusError, Problem};
use pyo3::create_exception;
use pyo3::exceptions::{
    PyFileNotFoundError, PyMemoryError, PyOSError, PyPermissionError, PyRuntimeError, PyValueError,
};
use pyo3::prelude::*;

create_exception!(
    classify_knn,
    ModelError,
    PyValueError,
    "A file or bytes that are not a valid model, or a damaged model."
);

/// Creates the error for a parameter, with its Python name.
pub(crate) fn of_parameter(name: &str, value: &str, what: &str) -> PyErr {
    PyValueError::new_err(format!("{name}={value}: {what}"))
}

pub(crate) fn of_io(error: &std::io::Error, message: String) -> PyErr {
    match error.kind() {
        ErrorKind::NotFound => PyFileNotFoundError::new_err(message),
        ErrorKind::PermissionDenied => PyPermissionError::new_err(message),
        ErrorKind::OutOfMemory => PyMemoryError::new_err(message),
        _ => PyOSError::new_err(message),
    }
}

/// Creates the error for a document.
pub(crate) fn of_corpus(error: &CorpusError) -> PyErr {
    match error.problem {
        Problem::NoTerm => PyValueError::new_err(
            "X: no term is left for the vocabulary; the texts have no words, or stop_words, \
             min_length, min_df, max_df or max_features exclude all of them",
        ),
        _ => of_item("X", error),
    }
}

/// Creates the error for one item of the parameter `name`.
pub(crate) fn of_item(name: &str, error: &CorpusError) -> PyErr {
    let CorpusError { place, problem } = error;
    match (problem, place.line) {
        (Problem::Io(io) | Problem::Thread(io), _) => of_io(io, error.to_string()),
        // Lines are counted from 1, and items from 0.
        (_, Some(line)) => PyValueError::new_err(format!("{name}[{}]: {problem}", line - 1)),
        (_, None) => PyValueError::new_err(format!("{name}: {problem}")),
    }
}

/// Creates the error for the file that is the value of the parameter `name`.
pub(crate) fn of_file(name: &str, error: &CorpusError) -> PyErr {
    let message = format!("{name}: {error}");
    match &error.problem {
        Problem::Io(io) | Problem::Thread(io) => of_io(io, message),
        _ => PyValueError::new_err(message),
    }
}

pub(crate) fn of_search(error: &SearchError) -> PyErr {
    match error {
        SearchError::OutOfMemory { .. } => PyMemoryError::new_err(error.to_string()),
        SearchError::Engine(_) | SearchError::Stopped => PyRuntimeError::new_err(error.to_string()),
        _ => PyValueError::new_err(error.to_string()),
    }
}

pub(crate) fn of_classify(error: &ClassifyError) -> PyErr {
    match error {
        ClassifyError::Document(error) => of_corpus(error),
        ClassifyError::Search(error) => of_search(error),
    }
}

pub(crate) fn of_train(error: &TrainError) -> PyErr {
    match error {
        TrainError::Corpus(error) => of_corpus(error),
        TrainError::Search(error) => of_search(error),
        TrainError::Decision(error) => PyValueError::new_err(decision_message(*error)),
        error => PyValueError::new_err(train_message(error)),
    }
}

/// Returns the message of a training error, with the parameter names of the Python package.
fn train_message(error: &TrainError) -> String {
    let message = match error {
        TrainError::UnknownLabel(label) => {
            return format!("class_weight: no document has the label `{label}`");
        }
        TrainError::NotSymmetric { weighting } => {
            return format!(
                "{weighting} weights queries differently from documents, and tuning needs \
                 the texts, which the model does not store: fit it with keep_text=True, or tune \
                 while fitting, with tune='votes'"
            );
        }
        TrainError::NoveltyNeedsLabels { labels } => {
            return format!("foreign needs at least four labels, but y has {labels}");
        }
        TrainError::NoText => "keep_text: the documents are features or vectors, not texts",
        TrainError::NoFeatures => {
            "features='counts': the documents are texts, whose terms are always counted; omit it"
        }
        TrainError::AbstainNeedsTuning => {
            "target_error and foreign are learned by tuning: set tune=True"
        }
        TrainError::NoNovelDocuments => {
            "foreign: holding out labels leaves fewer than 20 out-of-distribution documents; it \
             needs more documents, and labels that do not always occur together"
        }
        TrainError::LearnedNeedsTuning => "weights='learned' is learned by tuning: set tune=True",
        TrainError::PrototypesAreTuned => {
            "tune=True chooses the share of prototypes: omit /prototypes in weights"
        }
        TrainError::CompensationForMultiLabel => {
            "/size in weights is for one label per document: omit it; label thresholds already \
             account for sizes"
        }
        TrainError::LearnedByBatch => {
            "weights='learned' conflicts with rule='pcut', which decides on whole batches"
        }
        TrainError::AbstainByBatch => {
            "target_error and foreign conflict with rule='pcut', which decides on whole batches"
        }
        error => return error.to_string(),
    };
    message.to_owned()
}

fn decision_message(error: DecisionError) -> String {
    let message = match error {
        DecisionError::SingleLabelConflict { option } | DecisionError::SingleLabels { option } => {
            return format!(
                "{option} needs multi-label documents, but each document has one label"
            );
        }
        DecisionError::RuleConflict { option } => return format!("rule conflicts with {option}"),
        DecisionError::ThresholdIsTuned => {
            "tune='votes' and tune=True choose the threshold: omit tune, or omit threshold and \
             allow_none"
        }
        DecisionError::NumberIsTuned => {
            "tuning chooses the number of the rule: write, for example, rule='rcut'"
        }
        DecisionError::NumberMissing => {
            "rule='rcut' needs the number of labels, such as 'rcut:2'; or set tune=True"
        }
        DecisionError::NeedsTuning => "this rule learns thresholds: set tune='votes' or tune=True",
        DecisionError::NoThreshold => "allow_none needs a threshold: set threshold",
    };
    message.to_owned()
}

pub(crate) fn of_model(error: &LibraryModelError) -> PyErr {
    let mut message = error.to_string();
    if let Some(hint) = error.hint() {
        message = format!("{message} ({hint})");
    }
    match &error.problem {
        classify::model::ModelProblem::Read(io) => of_io(io, message),
        problem if problem.is_write() => match problem.io_kind() {
            Some(kind) => of_io(&kind.into(), message),
            None => PyOSError::new_err(message),
        },
        _ => ModelError::new_err(message),
    }
}

pub(crate) fn of_device(error: &DeviceError) -> PyErr {
    let message = format!(
        "{error} (device='auto' uses the CPU if no GPU works; a forked process cannot use the \
         GPU of its parent: start processes with 'spawn')"
    );
    PyRuntimeError::new_err(message)
}
