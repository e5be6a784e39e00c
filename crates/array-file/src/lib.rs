//! Array files with checksums, and output files that are written completely or not at all.
//!
//! | module | contents |
//! |---|---|
//! | [`array`](mod@array) | an array in memory or in a file |
//! | [`container`] | a file of named arrays and a JSON document, each with a checksum |
//! | [`output`] | output files, opened before the work starts |
//!
//! The models and vectors of `classify` and the stored indexes of `metric-index` are array files.
//! Linking this crate does not affect a process: nothing runs before `main`, and the allocator and
//! signal handlers remain unchanged.
//!
//! ```
//! use array_file::Bytes;
//! use array_file::container::{self, Container, Dtype};
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("numbers");
//! container::write(&path, "example", "{}".into(), vec![("primes", Dtype::U8, &[2, 3, 5])])?;
//! let mut file = Container::new(Bytes::read(&path)?, "a file of numbers")?;
//! assert_eq!(file.array::<u8>("primes", Dtype::U8)?[2], 5);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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
