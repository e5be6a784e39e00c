//! Exact k-nearest-neighbor document classification.
//!
//! ```text
//! text ──▶ tokens ──▶ TF-IDF CSR ──▶ neighbors ──▶ votes ──▶ labels ──▶ evaluation
//! corpus   analyze    counts         search        vote      decide     evaluate
//!                     vocabulary     exhaustive │ inverted │ cuda
//!                     tfidf
//! ```
//!
//! [`classifier`] puts the stages together: [`classifier::train`] and
//! [`classifier::Classifier`]. A [`model::Model`] is everything that classifying needs, frozen
//! at training. The modules below stand in the order of the data's way.
//!
//! ```
//! use classify::classifier::{Classifier, train};
//! use classify::corpus::{Corpus, ReadOptions};
//! use classify::decide::Decision;
//! use classify::model::{InputSpec, TrainSettings};
//! use classify::threads::Threads;
//!
//! let corpus = "{\"text\": \"bake the bread\", \"label\": \"cooking\"}
//! {\"text\": \"the guitar strings\", \"label\": \"music\"}";
//! let mut documents = Corpus::from_bytes("two lines", corpus.into(), ReadOptions::default())?;
//! let settings = TrainSettings::new(InputSpec::default(), Decision::Single);
//! let threads = Threads::available()?;
//! let model = train(&mut documents, settings, Default::default(), &threads)?;
//! let prediction = &Classifier::new(&model, &threads)?.classify_texts(&["fresh bread"])?[0];
//! assert_eq!(model.labels().get(prediction.labels[0] as usize), Some("cooking"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod threads;
pub mod corpus;
pub mod analyze;
pub mod strings;
pub mod hierarchy;
pub mod matrix;
pub mod vocabulary;
pub mod counts;
pub mod tfidf;
pub mod select;
pub mod search;
pub mod vote;
pub mod decide;
pub mod tune;
pub mod evaluate;
pub mod calibrate;
pub mod classifier;
pub mod model;
pub mod vectors;
pub mod generate;
