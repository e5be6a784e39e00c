//! Trains models and tunes them by cross-validation.
//!
//! ```text
//! documents ─▶ count ─▶ choose features ─▶ hold out each document ─▶ learners ─▶ Model
//!                       features           held_out
//! ```
//!
//! The input is a stream of documents and [`TrainOptions`]. The output is a
//! [`Model`](crate::model::Model) and a report of the choices that tuning made. Read [`Trainer`]
//! first, then `pipeline.rs`, which runs the learners in sequence.
//!
//! | module | what it learns |
//! |---|---|
//! | `votes` | the number of neighbors, how they vote, and the weights of their votes |
//! | `prototypes` | one weight vector per label |
//! | `thresholds` | the minimum score at which a label is predicted |
//! | `term_weights` | a factor for the weight of each term |
//! | `novelty` | the novelty score above which a document is rejected as out-of-distribution |
//! | `probabilities` | the probability of a label, given its score |
//! | `label_errors` | the labels of the corpus that are probably wrong |
//! | `descriptions` | the weight of descriptions of labels |
//! | `abstention` | the confidence below which no label is predicted |
//!
//! The entry point of each learner is its `learn` function. Every learner uses held-out documents
//! (`held_out`): a document is never scored with anything learned from it. `features` chooses how
//! text is converted to terms, and `dense` computes dense vectors. `cross_validation` repeats the
//! training of small corpora without some of the documents, to estimate the metrics of new ones.

mod abstention;
mod characters;
mod cross_validation;
mod dense;
mod descriptions;
mod error;
mod event;
mod features;
mod given_vectors;
mod held_out;
mod held_out_corpus;
mod held_out_scores;
mod label_errors;
mod novelty;
mod options;
mod pipeline;
mod probabilities;
mod prototypes;
mod report;
mod retune;
mod reweight;
mod run;
mod term_weights;
#[cfg(test)]
mod tests;
mod thresholds;
mod time_order;
mod trainer;
mod training_rows;
mod tuned_training;
mod votes;

pub use descriptions::DescriptionWeight;
pub use error::TrainError;
pub use event::{Event, OrderComparison, TimeOrder};
pub use features::Step;
pub use held_out_corpus::{HeldOutCorpus, HeldOutRows};
pub use label_errors::{ErrorRate, LabelErrors, Suspect};
pub use options::{
    DenseOptions, DenseSource, NearDuplicateLimit, TrainOptions, TunableFeatures, TuneOptions,
    TuneScope,
};
pub use report::{TrainingResult, TuningReport};
pub use reweight::{ReweighError, reweigh};
pub use run::OnEvent;
pub use trainer::{Trainer, TrainerBuilder};
pub use votes::{Candidate, Trial, VoteLearning};
