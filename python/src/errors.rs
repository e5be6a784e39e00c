//! Errors of the library as Python exceptions.

use std::io::ErrorKind;

use classify::classifier::ClassifyError;
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
    "A file or bytes that are not a valid, undamaged model."
);

/// An error of a parameter, under its name in Python.
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

pub(crate) fn of_corpus(error: &CorpusError) -> PyErr {
    let CorpusError { place, problem } = error;
    match (problem, place.line) {
        (Problem::Io(io) | Problem::Thread(io), _) => of_io(io, error.to_string()),
        // Lines are counted from 1, rows from 0.
        (_, Some(line)) => PyValueError::new_err(format!("X[{}]: {problem}", line - 1)),
        (_, None) => PyValueError::new_err(problem.to_string()),
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

/// The command's flags and the parameters that stand for them in Python.
const NAMES: [(&str, &str); 12] = [
    (
        "--abstain learns its limits by tuning: it needs --tune or `classify tune MODEL`",
        "target_error and foreign are learned by tuning: they need tune=True",
    ),
    (
        "learned votes are learned by tuning: they need --tune or `classify tune MODEL`",
        "weights='learned' is learned by tuning: it needs tune=True",
    ),
    (
        "the share of prototypes is chosen by --tune: leave /prototypes out of --vote",
        "the share of prototypes is chosen by tune=True: leave /prototypes out of weights",
    ),
    ("--mode single", "one label a document"),
    ("--hierarchy", "hierarchy"),
    ("--abstain foreign=…", "foreign"),
    ("--abstain", "target_error or foreign"),
    ("--class-weight", "class_weight"),
    ("--keep-text", "keep_text"),
    ("--features counts", "features='counts'"),
    ("--vote learned", "weights='learned'"),
    ("`classify train --tune=votes`", "tune='votes'"),
];

pub(crate) fn of_train(error: &TrainError) -> PyErr {
    match error {
        TrainError::Corpus(error) => of_corpus(error),
        TrainError::Search(error) => of_search(error),
        error => {
            let text = NAMES
                .iter()
                .fold(error.to_string(), |text, (flag, parameter)| text.replace(flag, parameter));
            PyValueError::new_err(text)
        }
    }
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
        "{error} (device='auto' uses the CPU if no GPU works; after a fork the GPU of the parent \
         process cannot be used: start processes with 'spawn')"
    );
    PyRuntimeError::new_err(message)
}
