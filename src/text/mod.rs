//! From files to weighted terms.
//!
//! ```text
//! files ──▶ documents ──▶ tokens ──▶ term counts ──▶ TF-IDF rows
//!           corpus        analyze    counts          tfidf, select
//! ```
//!
//! Comes in: files or bytes in any supported format. Goes out: a
//! [`Vocabulary`](vocabulary::Vocabulary) and a sparse [matrix](crate::rows::matrix) of weights.
//! Read [`corpus`] first, then [`counts`], where the other modules meet.
//!
//! The readers of benchmark formats (Reuters-21578 SGML, LYRL2004, relevance judgments) and the
//! presets that name their files, splits and label sets are in [`corpus`] too: they are formats
//! like any other, and anyone can repeat published results from the files as they are distributed.
//!
//! Each module uses only modules listed before it.
//!
//! | module | what it does |
//! |---|---|
//! | `term_store` | numbers terms, and looks them up |
//! | [`corpus`] | reads documents, whatever their format, encoding and compression |
//! | [`hierarchy`] | reads a hierarchy of labels |
//! | [`analyze`] | splits text into terms |
//! | [`vocabulary`] | numbers the terms of a corpus |
//! | [`tfidf`] | weights counts by TF-IDF (SMART notation) or BM25 |
//! | [`counts`] | counts the terms of a corpus on all threads |
//! | [`select`] | scores terms by the labels, and keeps the best |
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
