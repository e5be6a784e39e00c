//! Files of checked arrays.
//!
//! | module | contents |
//! |---|---|
//! | [`array`](mod@array) | an array in memory or in a mapped file |
//! | [`container`] | a file of named arrays and a JSON document, each with a checksum |
//! | [`output`] | output files, opened before the work starts and written completely or not at all |
//!
//! Models and vectors of `classify` and stored indexes of `metric-index` are such files.

pub mod array;
mod bytes;
pub mod container;
mod error;
mod fallible;
mod hint;
pub mod output;

pub use array::Array;
pub use bytes::Bytes;
pub use error::FileProblem;
pub use fallible::handles_failed_allocation;
pub use hint::{hint_to_read, hint_to_write};
