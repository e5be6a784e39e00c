//! Benchmarks with known files, splits and label sets.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::document::Document;
use super::error::{CorpusError, Problem};
use super::format::Format;
use super::options::{ReadOptions, Split};
use super::place::Place;
use super::qrels::Qrels;
use super::reading::Corpus;
use super::source::io_error;

/// A benchmark: its files, its split and its labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// Reuters-21578, ModApte split: the 90 labels with at least one training and one test
    /// document, and the documents with at least one of these labels.
    ModApte90,
    /// R52 (Cardoso-Cachopo 2007): the stories of Reuters-21578, ModApte split, with exactly one
    /// topic, restricted to the 52 topics with at least one training and one test story.
    R52,
    /// R8: the stories of R52 whose topic is among the ten most frequent topics of the full split.
    /// R52 contains eight of these topics.
    R8,
    /// 20 Newsgroups, split by date: the folders `20news-bydate-train` and `-test`.
    Newsgroups20,
    /// RCV1-v2 topics with the split of Lewis, Yang, Rose and Li (2004). Reads vector files if they
    /// exist, and token files otherwise.
    Lyrl2004,
}

/// A stream of documents.
pub type Documents = Box<dyn Iterator<Item = Result<Document, CorpusError>> + Send>;

/// The training and test documents of a benchmark.
pub struct Sides {
    /// The training documents.
    pub train: Documents,
    /// The test documents.
    pub test: Documents,
    /// A description of the data that were read.
    pub note: String,
}

impl std::fmt::Debug for Sides {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sides").field("note", &self.note).finish_non_exhaustive()
    }
}

impl Preset {
    /// All presets.
    pub const ALL: [Self; 5] =
        [Self::ModApte90, Self::R52, Self::R8, Self::Newsgroups20, Self::Lyrl2004];

    /// The name, such as `r8`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ModApte90 => "modapte90",
            Self::R52 => "r52",
            Self::R8 => "r8",
            Self::Newsgroups20 => "newsgroups20",
            Self::Lyrl2004 => "lyrl2004",
        }
    }

    /// Whether the training documents are known to be in chronological order, and older than the
    /// test documents.
    pub const fn is_chronological(self) -> bool {
        matches!(self, Self::ModApte90 | Self::R52 | Self::R8)
    }

    /// Opens the benchmark's files in `folder`.
    ///
    /// # Errors
    /// If a file is missing or cannot be read. If one side of the split has no documents, the only
    /// item of its stream is an error.
    pub fn open(self, folder: &Path, options: &ReadOptions) -> Result<Sides, CorpusError> {
        let Sides { train, test, note } = match self {
            Self::ModApte90 => reuters(folder, options, &|_| true),
            Self::R52 => reuters(folder, options, &|labels| labels.len() == 1),
            Self::R8 => reuters(folder, options, &|labels| {
                labels.len() == 1 && R8.contains(&labels[0].as_str())
            }),
            Self::Newsgroups20 => newsgroups20(folder, options),
            Self::Lyrl2004 => lyrl2004(folder, options),
        }?;
        let train = require_document(train, folder, "training");
        let test = require_document(test, folder, "test");
        Ok(Sides { train, test, note })
    }
}

/// Returns the documents, or an error with the folder if there are none.
fn require_document(mut documents: Documents, folder: &Path, side: &'static str) -> Documents {
    let place = Place { source: folder.to_string_lossy().into(), line: None };
    let mut is_empty = true;
    Box::new(std::iter::from_fn(move || {
        let next = documents.next();
        let is_missing = next.is_none() && is_empty;
        is_empty = false;
        if is_missing { Some(Err(Problem::NoDocumentOf { side }.at(&place))) } else { next }
    }))
}

/// Returns the names of the entries of a folder, sorted.
fn file_names(folder: &Path) -> Result<Vec<String>, CorpusError> {
    let failed = |error| io_error(folder, error);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        names.push(entry.map_err(failed)?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

fn missing_file(folder: &Path, file: &str) -> CorpusError {
    let place = Place { source: folder.to_string_lossy().into(), line: None };
    Problem::MissingFile { file: file.to_owned() }.at(&place)
}

/// The topics of R8.
const R8: [&str; 8] = ["acq", "crude", "earn", "grain", "interest", "money-fx", "ship", "trade"];

/// Opens the stories for whose topics `accepts` returns true. Topics that do not occur on both
/// sides of the split are removed.
fn reuters(
    folder: &Path,
    options: &ReadOptions,
    accepts: &'static (dyn Fn(&[String]) -> bool + Sync),
) -> Result<Sides, CorpusError> {
    if !file_names(folder)?.iter().any(|name| name.contains(".sgm")) {
        return Err(missing_file(folder, "reut2-*.sgm"));
    }
    let side = |split| {
        let options = ReadOptions { format: Some(Format::Reuters), split, ..options.clone() };
        Corpus::open(&[folder.to_owned()], options)
    };
    let label_set = |split| -> Result<HashSet<String>, CorpusError> {
        let mut labels = HashSet::new();
        for document in side(split)? {
            let found = document?.labels;
            if accepts(&found) {
                labels.extend(found);
            }
        }
        Ok(labels)
    };
    let test_labels = label_set(Split::Test)?;
    let mut common = label_set(Split::Train)?;
    common.retain(|label| test_labels.contains(label));
    let note = format!("{} labels with a training and a test document", common.len());
    let common = Arc::new(common);
    let with_common_labels = |corpus: Corpus| -> Documents {
        let common = Arc::clone(&common);
        Box::new(corpus.filter_map(move |document| match document {
            Ok(document) if !accepts(&document.labels) => None,
            Ok(mut document) => {
                document.labels.retain(|label| common.contains(label));
                (!document.labels.is_empty()).then_some(Ok(document))
            }
            Err(error) => Some(Err(error)),
        }))
    };
    let train = with_common_labels(side(Split::Train)?);
    let test = with_common_labels(side(Split::Test)?);
    Ok(Sides { train, test, note })
}

fn newsgroups20(folder: &Path, options: &ReadOptions) -> Result<Sides, CorpusError> {
    let open = |side: &str| {
        let path = folder.join(format!("20news-bydate-{side}"));
        if !path.is_dir() {
            return Err(missing_file(folder, &format!("20news-bydate-{side}/")));
        }
        // The posts have many encodings; windows-1252 decodes any bytes.
        let encoding = options.encoding.or(Some(encoding_rs::WINDOWS_1252));
        let options = ReadOptions { format: Some(Format::Folders), encoding, ..options.clone() };
        Corpus::open(&[path], options)
    };
    let note = "whole posts, with headers and quotes".to_owned();
    Ok(Sides { train: Box::new(open("train")?), test: Box::new(open("test")?), note })
}

fn lyrl2004(folder: &Path, options: &ReadOptions) -> Result<Sides, CorpusError> {
    let names = file_names(folder)?;
    let files = |prefix: &str| -> Vec<PathBuf> {
        names.iter().filter(|name| name.starts_with(prefix)).map(|name| folder.join(name)).collect()
    };
    let qrels = files("rcv1-v2.topics.qrels");
    let qrels = qrels.first().ok_or_else(|| missing_file(folder, "rcv1-v2.topics.qrels"))?;
    let qrels = match &options.threads {
        Some(threads) => Qrels::read_with(qrels, threads),
        None => Qrels::read(qrels),
    };
    let qrels = Arc::new(qrels?);
    let (kind, format) = if files("lyrl2004_vectors_train").is_empty() {
        ("tokens", Format::Lyrl2004Tokens)
    } else {
        ("vectors", Format::Lyrl2004Vectors)
    };
    let open = |side: &str| {
        let prefix = format!("lyrl2004_{kind}_{side}");
        let paths = files(&prefix);
        if paths.is_empty() {
            return Err(missing_file(folder, &format!("{prefix}*.dat")));
        }
        let options = ReadOptions {
            format: Some(format),
            qrels: Some(Arc::clone(&qrels)),
            ..options.clone()
        };
        Corpus::open(&paths, options)
    };
    let note = format!("{kind} files, {} topics in the qrels", qrels.names().len());
    Ok(Sides { train: Box::new(open("train")?), test: Box::new(open("test")?), note })
}
