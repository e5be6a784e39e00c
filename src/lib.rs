//! Exact k-nearest-neighbor document classification.
#![expect(missing_docs, reason = "scaffold")]
pub mod corpus;
