//! The compiled part of the Python package `classify_knn`, which exchanges arrays and strings with
//! Python.
//!
//! The public classes, their checks and their documentation are in `classify_knn/*.py`.

use pyo3::prelude::*;

mod documents;
mod errors;
mod logging;
mod metric;
mod model;
mod notes;
mod options;
mod running;
mod sparse;

/// The compiled part of `classify_knn`.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::errors::ModelError;
    #[pymodule_export]
    use crate::metric::MetricIndex;
    #[pymodule_export]
    use crate::model::{Model, check, count_terms, train};
    #[pymodule_export]
    use crate::sparse::SparseRows;

    use pyo3::prelude::*;

    /// The version of the package.
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    /// Returns the languages that have a list of stop words, as ISO 639-1 codes.
    #[pyfunction]
    fn stop_word_languages() -> Vec<&'static str> {
        classify::text::analyze::stop_word_languages().to_vec()
    }

    #[pymodule_init]
    fn init(_module: &Bound<'_, PyModule>) {
        crate::logging::start();
    }
}
