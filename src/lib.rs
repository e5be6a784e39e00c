//! Exact k-nearest-neighbor document classification.
pub mod threads;
pub mod corpus;
pub mod analyze;
pub mod strings;
pub mod matrix;
pub mod vocabulary;
pub mod counts;
pub mod tfidf;
pub mod search;
pub mod vote;
pub mod decide;
pub mod classifier;
pub mod model;
pub mod evaluate;
pub mod output;
