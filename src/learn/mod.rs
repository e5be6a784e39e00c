//! From a corpus to a model: training and tuning.
//!
//! Comes in: a stream of documents and [`TrainOptions`](trainer::TrainOptions). Goes out: a
//! [`Model`](crate::model::Model) and a report of what tuning chose. Read [`trainer`] first.
//!
//! | module | what it does |
//! |---|---|
//! | [`tune`] | leave-one-out search, folds, and the learners that use them |
//! | [`trainer`] | the pipeline: count, tune, weight |

pub mod tune;
pub mod trainer;
