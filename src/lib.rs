//! Exact k-nearest-neighbor document classification.
pub mod threads;
pub mod corpus;
pub mod analyze;
pub mod matrix;
pub mod vocabulary;
pub mod tfidf;
pub mod search;
