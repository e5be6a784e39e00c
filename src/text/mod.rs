//! From files to weighted terms.
//!
//! ```text
//! files ──▶ documents ──▶ tokens ──▶ term counts ──▶ TF-IDF rows
//!           corpus        analyze    counts          tfidf, select
//! ```
//!
//! Input: files or bytes in any supported format. Output: a [`Vocabulary`](vocabulary::Vocabulary)
//! and a sparse [matrix](crate::rows::matrix) of weights. Read [`corpus`] first, then [`counts`],
//! which uses most of the other modules.
//!
//! [`corpus`] also reads the formats of public benchmarks (Reuters-21578 SGML, LYRL2004, relevance
//! judgments). Its presets name the files, splits and label sets of these benchmarks, which makes
//! published results reproducible from the original files.
//!
//! Each module uses only modules listed before it.
//!
//! | module | what it does |
//! |---|---|
//! | `term_store` | assigns ids to terms and looks them up |
//! | [`corpus`] | reads documents in all supported formats, encodings and compressions |
//! | [`hierarchy`] | reads a hierarchy of labels |
//! | [`analyze`] | splits text into terms |
//! | [`vocabulary`] | maps the terms of a corpus to ids |
//! | [`tfidf`] | weights counts by TF-IDF (SMART notation) or BM25 |
//! | [`counts`] | counts the terms of a corpus on all threads |
//! | [`select`] | scores terms by their association with the labels, and keeps the best |
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
