//! From files to weighted terms.
//!
//! ```text
//! files ──▶ documents ──▶ tokens ──▶ term counts ──▶ TF-IDF rows
//!           corpus        analyze    counts          tfidf, select
//! ```
//!
//! Comes in: files or bytes in any supported format. Goes out: a
//! [`Vocabulary`](vocabulary::Vocabulary) and a sparse [matrix](crate::rows::matrix) of weights.
//! Read [`corpus`] first.
//!
//! | module | what it does |
//! |---|---|
//! | [`corpus`] | reads documents, whatever their format, encoding and compression |
//! | [`hierarchy`] | reads a hierarchy of labels |
//! | [`analyze`] | splits text into terms |
//! | [`vocabulary`] | numbers the terms of a corpus |
//! | [`counts`] | counts the terms of a corpus on all threads |
//! | [`tfidf`] | weights counts by TF-IDF (SMART notation) or BM25 |
//! | [`select`] | keeps the terms that tell labels apart |
//! | [`word_vectors`] | reads word vectors |

pub(crate) mod term_store;
pub mod corpus;
pub mod hierarchy;
pub mod analyze;
pub mod vocabulary;
pub mod tfidf;
pub mod counts;
pub mod select;
pub mod word_vectors;
