//! Corpora: streams of [`Document`]s read from files, folders or standard input.
//!
//! ```text
//! path ─▶ source (decompress, decode) ─▶ detect ─▶ one reader per format ─▶ Document
//! ```
//!
//! A [`Corpus`] is an iterator that holds one record at a time, or a few blocks of records if
//! several threads parse. Every error names its [`Place`]: the file and the line where the record
//! begins or the problem is.
//!
//! Each file uses only files listed before it. Read `reading` first, then the reader of one format,
//! such as `jsonl`.
//!
//! | files | what they do |
//! |---|---|
//! | `place`, `error`, `label_cell` | places; what can be wrong; labels in a field |
//! | `document`, `format`, `notes` | what a corpus consists of; what is remarkable |
//! | `peeked`, `compressed`, `members`, `magic`, `encoding` | bytes: decompressed, decoded |
//! | `lines`, `table`, `quotes`, `cutter`, `source` | a named stream: lines, or blocks of records |
//! | `blocks` | blocks parsed by several threads, in order |
//! | `qrels`, `vectors_beside` | labels and dense vectors in files next to the corpus |
//! | `options`, `reading_spec`, `records` | how to read; what a model remembers; records checked |
//! | `svmlight`, `jsonl`, `json`, `delimited` | the readers of rows, JSON and tables |
//! | `fasttext`, `annif`, `plain` | the readers of lines |
//! | `reuters`, `lyrl2004` | the readers of two benchmarks |
//! | `detect`, `folders`, `reading` | the format of a file; label folders; the [`Corpus`] |
//! | `holdout`, [`preset`] | splits: a random one, and those of benchmarks |
//!
//! The readers of benchmarks live here, next to the others, because they are formats like any
//! other: they can be named or detected, and a preset is only a list of such files with their split
//! and label set. They let anyone repeat published results from the files as they are distributed.

mod place;
mod error;
mod label_cell;
mod document;
mod format;
mod peeked;
mod compressed;
mod members;
mod magic;
mod encoding;
mod lines;
mod table;
mod quotes;
mod cutter;
mod source;
mod blocks;
mod qrels;
mod vectors_beside;
mod notes;
mod options;
mod reading_spec;
mod records;
mod svmlight;
mod jsonl;
mod json;
mod delimited;
mod fasttext;
mod annif;
mod plain;
mod reuters;
mod lyrl2004;
mod detect;
mod folders;
mod reading;
mod holdout;
pub mod preset;

pub(crate) use document::add_features;
pub use document::{Content, Document, check_features, check_vector};
pub(crate) use encoding::read_error;
pub use encoding::{OnBadUtf8, encoding_for_label};
pub use error::{CorpusError, FieldRole, Problem};
pub use format::Format;
pub use holdout::{HoldOut, Side, hold_out};
pub use label_cell::normalized_label;
pub use notes::{
    LabelFrequency, Note, Notes, closest_label, label_notes, repeated_ids, unknown_labels,
    unknown_names,
};
pub use options::{IdUse, LabelUse, ReadOptions, Split};
pub use place::Place;
pub use qrels::Qrels;
pub use reading::{Corpus, OnOpen};
pub use reading_spec::ReadingSpec;
pub(crate) use source::open_bytes;
pub use table::{Quoting, TableOptions};
pub use vectors_beside::VectorsBeside;
