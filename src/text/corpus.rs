//! Corpora: streams of [`Document`]s read from files, folders or standard input.
//!
//! ```text
//! path ─▶ source (decompress, decode) ─▶ detect ─▶ one reader per format ─▶ Document
//! ```
//!
//! A [`Corpus`] is an iterator that holds one record at a time, or a few blocks of records if
//! several threads parse. Every error has a [`Place`]: the file, and the line of the problem or the
//! first line of the record.
//!
//! Each file uses only files listed before it. Read `reading` first, then the reader of one format,
//! such as `jsonl`.
//!
//! | files | contents |
//! |---|---|
//! | `place`, `error`, `label_cell` | places in files; errors; labels in a field |
//! | `document`, `format`, `notes` | documents; file formats; notes on suspicious input |
//! | `peeked`, `compressed`, `members`, `magic`, `encoding` | decompression; decoding |
//! | `lines`, `table`, `quotes`, `cutter`, `source` | a stream of lines or blocks |
//! | `blocks` | parsing of blocks on several threads, in order |
//! | `qrels`, `vectors_beside` | labels and dense vectors in separate files |
//! | `text_encoder` | dense vectors computed from the texts |
//! | `options`, `reading_spec`, `records` | reader options; stored options; checks of records |
//! | `svmlight`, `jsonl`, `json`, `delimited` | readers of sparse rows, JSON and tables |
//! | `fasttext`, `annif`, `plain` | readers of one document per line |
//! | `reuters`, `lyrl2004` | readers of two benchmarks |
//! | `detect`, `folders`, `reading` | format detection; label folders; the [`Corpus`] |
//! | `holdout`, [`preset`] | random splits; the splits of benchmarks |
//!
//! Benchmark formats can be named or detected like all other formats. A preset lists the files of a
//! benchmark with their split and label set, which makes published results reproducible from the
//! original files.

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
mod text_encoder;
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
pub use text_encoder::TextEncoder;
pub use vectors_beside::VectorsFile;
