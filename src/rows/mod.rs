//! Sparse matrices, dense vectors, and lists of strings.
//!
//! These are the data types of all later stages. A row is a document or a query.
//!
//! | module | contents |
//! |---|---|
//! | [`matrix`] | sparse matrices in CSR form (read this first) |
//! | [`dense`] | dense vectors, their metrics, and projections from sparse rows |
//! | [`strings`] | many strings in one array: identifiers, labels, terms |
//! | `powers`, `symmetric` | powers and linear algebra with the same bits on every machine |
//! | [`generate`] | synthetic matrices and corpora for benchmarks |

pub mod matrix;
pub mod strings;
pub mod dense;
pub(crate) mod powers;
pub(crate) mod symmetric;
pub mod generate;
