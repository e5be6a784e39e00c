//! From documents to predictions: [`Classifier`].
//!
//! | module | what it does |
//! |---|---|
//! | `vectorize` | turns documents into query rows (`document_vectors`) |
//! | `searchers` | searches the neighbors of query rows |
//! | `predictor` | turns neighbors into predictions (`prediction`) |
//! | `predict` | does all of this for texts and batches of documents, [`stream`] for a stream |
//! | `updates` | adds documents to a model, and searches models that change |
//! | [`vectors`] | files of documents that were vectorized |
//! | [`answer`], [`explain`] | predictions as JSON, and the reasons for them |

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
pub(crate) use predictor::{Predicted, Predictor};
pub use searchers::{Classifier, FoundNeighbors, Searchers};
pub use updates::{Additions, UpdatableEngines};
