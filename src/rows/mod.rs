//! Rows of numbers: sparse matrices, dense vectors, and lists of strings.
//!
//! This module depends only on numbers and strings. It defines the types that every later stage
//! computes with. A row is a document or a query.
//!
//! | module | what it holds |
//! |---|---|
//! | [`matrix`] | sparse matrices in CSR form (read this first) |
//! | [`dense`] | dense vectors, their metrics, and projections from sparse rows |
//! | [`strings`] | many strings in one array: identifiers, labels, terms |
//! | `powers`, `symmetric` | powers and linear algebra with the same bits on every machine |
//! | [`generate`] | synthetic matrices and corpora for measurements |

pub mod matrix;
pub mod strings;
pub mod dense;
pub(crate) mod powers;
pub(crate) mod symmetric;
pub mod generate;
