//! Exact k-nearest-neighbor document classification.
//!
//! ```text
//! text ──▶ tokens ──▶ TF-IDF CSR ──▶ neighbors ──▶ votes ──▶ labels ──▶ evaluation
//! text     text       text, rows     search        decide    decide     evaluate
//! ```
//!
//! [`Trainer`](learn::Trainer) turns a corpus into a [`Model`](model::Model), which holds
//! everything that classification needs. [`Classifier`](classifier::Classifier) answers with it.
//! The modules below are listed in the order in which the data passes through them; a module uses
//! only modules above it.
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

/// The examples of the page on the library compile and run.
#[cfg(doctest)]
#[doc = include_str!("../docs/library.md")]
struct LibraryPage;
