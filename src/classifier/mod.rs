//! The [`Classifier`], which turns documents into predictions.
//!
//! | module | what it does |
//! |---|---|
//! | `vectorize` | converts documents to query rows (`document_vectors`) |
//! | `searchers` | finds the neighbors of query rows |
//! | `predictor` | turns neighbors into predictions (`prediction`) |
//! | `predict`, [`stream`] | run all of these stages for a batch or a stream of documents |
//! | `updates` | adds documents to a model, and searches models that change |
//! | [`vectors`] | reads and writes files of vectorized documents |
//! | [`answer`], [`explain`] | represent predictions as JSON and explain them |

pub mod answer;
mod document_vectors;
pub mod explain;
mod predict;
mod prediction;
mod predictor;
mod searchers;
pub mod stream;
mod updates;
mod vectorize;
pub mod vectors;

pub use document_vectors::{DocumentVectors, TermUse};
pub use prediction::{
    ClassifyError, ClassifyOptions, NamedNeighbor, Prediction, Probabilities, RawPrediction,
    Reason, ScoredLabel,
};
pub(crate) use predictor::{PredictionBuffer, Predictor};
pub use searchers::{Classifier, FoundNeighbors, Searchers};
pub use updates::{Additions, UpdatableEngines};
