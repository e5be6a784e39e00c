//! The whole pipeline, from documents to predictions: [`train()`] and [`Classifier`].
//!
//! | module | what it does |
//! |---|---|
//! | `train` | trains a model on a corpus |
//! | `vectorize` | turns documents into query rows (`document_vectors`) |
//! | `searchers` | searches the neighbors of query rows |
//! | `predictor` | turns neighbors into predictions (`prediction`) |
//! | `classify` | does all of this for a batch of documents, [`stream`] for a stream |
//! | `updates` | adds documents to a model, and searches models that change |
//! | [`vectors`] | files of documents that were vectorized |
//! | [`answer`], [`explain`] | predictions with names, and the reasons for them |

pub mod answer;
mod classify;
mod document_vectors;
pub mod explain;
mod prediction;
mod predictor;
mod searchers;
pub mod stream;
mod train;
mod updates;
mod vectorize;
pub mod vectors;

pub use document_vectors::{DocumentVectors, TermUse};
pub use prediction::{ClassifyError, ClassifyOptions, Prediction, Probabilities, Reason};
pub(crate) use predictor::{Predicted, Predictor};
pub use searchers::{Classifier, FoundNeighbors, Searchers};
pub use train::train;
pub(crate) use train::train_counts;
pub use updates::{Additions, UpdatableEngines};
