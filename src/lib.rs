//! Exact k-nearest-neighbor document classification.
//!
//! ```text
//! text ──▶ tokens ──▶ TF-IDF CSR ──▶ neighbors ──▶ votes ──▶ labels ──▶ evaluation
//! corpus   analyze    counts         search        vote      decide     evaluate
//!                     vocabulary     exhaustive │ inverted │ cuda
//!                     tfidf
//! ```
//!
//! [`classifier`] puts the stages together: [`classifier::train`] and [`classifier::Classifier`]. A
//! [`model::Model`] holds everything that classification needs, frozen at training. The modules
//! below are listed in the order in which the data passes through them.
//!
//! ```
//! use classify::classifier::{Classifier, train};
//! use classify::text::corpus::{Corpus, ReadOptions};
//! use classify::decide::decision::Decision;
//! use classify::model::{InputSpec, TrainSettings};
//! use classify::threads::Threads;
//!
//! let corpus = "{\"text\": \"bake the bread\", \"label\": \"cooking\"}
//! {\"text\": \"the guitar strings\", \"label\": \"music\"}";
//! let mut documents = Corpus::from_bytes("two lines", corpus.into(), ReadOptions::default())?;
//! let settings = TrainSettings::new(InputSpec::default(), Decision::Single);
//! let threads = Threads::available()?;
//! let model = train(&mut documents, settings, Default::default(), &threads)?;
//! let classifier = Classifier::new(model.into(), &threads)?;
//! let prediction = &classifier.classify_texts(&["fresh bread"])?[0];
//! assert_eq!(classifier.model().labels().get(prediction.labels[0] as usize), Some("cooking"));
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
#[cfg(feature = "serve")]
pub mod server;
