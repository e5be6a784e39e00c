//! Exact k-nearest-neighbor document classification.
//!
//! ```text
//! text ──▶ tokens ──▶ TF-IDF CSR ──▶ neighbors ──▶ votes ──▶ labels ──▶ evaluation
//! text     text       text, rows     search        decide    decide     evaluate
//! ```
//!
//! [`Trainer`](learn::Trainer) trains a [`Model`](model::Model) on a corpus. The model contains
//! everything that a [`Classifier`](classifier::Classifier) needs. The modules below are listed in
//! the order in which data passes through them. A module uses only modules above it.
//!
//! ```
//! use classify::classifier::Classifier;
//! use classify::learn::Trainer;
//! use classify::text::corpus::Document;
//! use classify::threads::Threads;
//!
//! let documents = [
//!     Document::text("a", "bake the bread").labels(["cooking"]),
//!     Document::text("b", "the guitar strings").labels(["music"]),
//! ];
//! let model = Trainer::builder().build().train(documents)?.model;
//! let classifier = Classifier::new(model.into(), &Threads::available()?)?;
//! let prediction = classifier.predict("fresh bread")?;
//! assert_eq!(prediction.labels, ["cooking"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use seeded_random as random;

pub mod threads;
pub mod printable;
pub mod limits;
pub mod stages;
pub mod rows;
pub mod text;
pub mod search;
pub mod decide;
pub mod model;
pub mod classifier;
pub mod learn;
pub mod evaluate;
pub mod check;
pub mod propose;

/// Compiles and runs the example in `docs/checking.md`.
#[cfg(doctest)]
#[doc = include_str!("../docs/checking.md")]
struct CheckingPage;

/// Compiles and runs the examples in `docs/library.md`.
#[cfg(doctest)]
#[doc = include_str!("../docs/library.md")]
struct LibraryPage;
