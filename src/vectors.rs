//! Documents as a model sees them, in a file: analyzed and weighted once, classified often.
//!
//! [`VectorsWriter`] makes the file (`classify vectorize`), [`StoredVectors`] reads it, mapped into memory.
//! It is a safetensors file like the model, with the weighted rows, the documents' identifiers and labels,
//! and a fingerprint of the model's vocabulary and weighting: with another model the numbers would mean
//! something else, so it is refused.
//!
//! ```
//! use classify::classifier::{Classifier, train};
//! use classify::corpus::{Corpus, Document, ReadOptions};
//! use classify::decide::Decision;
//! use classify::model::{InputSpec, TrainSettings};
//! use classify::threads::Threads;
//! use classify::vectors::{StoredVectors, VectorsWriter};
//!
//! let lines = "{\"text\": \"bake the bread\", \"label\": \"cooking\"}
//! {\"text\": \"the guitar strings\", \"label\": \"music\"}";
//! let corpus = || Corpus::from_bytes("two lines", lines.into(), ReadOptions::default());
//! let settings = TrainSettings::new(InputSpec::default(), Decision::Single);
//! let threads = Threads::available()?;
//! let model = train(&mut corpus()?, settings, Default::default(), &threads)?;
//! let classifier = Classifier::new(&model, &threads)?;
//!
//! let documents: Vec<Document> = corpus()?.collect::<Result<_, _>>()?;
//! let mut writer = VectorsWriter::new(&model);
//! writer.push(&documents, &classifier.vectorize(&documents)?);
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("two.vectors");
//! writer.save(&path)?;
//!
//! let (labeled, vectors) = StoredVectors::open(&path, &model)?.batch(0..1);
//! let neighbors = classifier.neighbors(&vectors, classifier.k)?;
//! let prediction = &classifier.predict(&vectors, neighbors)[0];
//! assert_eq!(model.labels().get(prediction.labels[0] as usize), Some(&*labeled[0].labels[0]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use metric_index::container::{self, Container, ContainerProblem, checksum};
use safetensors::Dtype;
use serde::{Deserialize, Serialize};

use crate::classifier::{TermUse, Vectors};
use crate::corpus::Document;
use crate::matrix::{Array, Csr, csr};
use crate::model::Model;
use crate::strings::{FILE_KEY, Strings, StringsBuilder};

const FORMAT: &str = "classify.vectors";
const VERSION: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    format: String,
    version: u32,
    /// Of the model's vocabulary and weighting.
    model: String,
    /// Columns of the rows.
    terms: u64,
    /// By array.
    checksums: BTreeMap<String, String>,
}

/// Why vectors cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct VectorsError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    #[source]
    pub problem: VectorsProblem,
}

/// What can be wrong with a file of vectors.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VectorsProblem {
    /// The operating system refused.
    #[error("cannot {doing} the vectors: {source}")]
    Io {
        /// `read` or `write`.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// No file of vectors, or a damaged one.
    #[error("no vectors, or cut short or damaged: {0}")]
    Damaged(String),
    /// A version of the format that this program does not know.
    #[error("vectors of version {found}, this program reads {VERSION}")]
    Version {
        /// The file's version.
        found: u32,
    },
    /// Labels are needed, and no document has one.
    #[error("no document has a label: there is nothing to compare predictions with")]
    NoLabels,
    /// They were made with another model.
    #[error("the vectors were made with a model of another vocabulary or weighting")]
    OtherModel,
}

impl VectorsError {
    /// What the user can do next.
    pub fn hint(&self) -> &'static str {
        match self.problem {
            VectorsProblem::Io { doing: "write", .. } => {
                "is there room, and may you write in that folder?"
            }
            VectorsProblem::Io { .. } => "may you read this file?",
            VectorsProblem::NoLabels => {
                "make them of a corpus with labels: `classify vectorize` takes --label-column and --qrels"
            }
            _ => "make them again: `classify vectorize MODEL CORPUS -o FILE`",
        }
    }
}

impl From<ContainerProblem> for VectorsProblem {
    fn from(problem: ContainerProblem) -> Self {
        Self::Damaged(match problem {
            ContainerProblem::Damaged(what) => what,
            ContainerProblem::Json => "the checksum of its header differs".into(),
            ContainerProblem::Missing { array } => format!("array `{array}` is missing"),
            ContainerProblem::WrongType { array, found, expected } => {
                format!("array `{array}` is {found}, expected a vector of {expected}")
            }
            ContainerProblem::Invalid { array, what } => format!("`{array}` is not valid: {what}"),
        })
    }
}

/// The identifier of a document and the labels that it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Labeled {
    /// The identifier.
    pub id: String,
    /// The labels, without duplicates.
    pub labels: Vec<String>,
}

impl From<Document> for Labeled {
    fn from(document: Document) -> Self {
        Self { id: document.id, labels: document.labels }
    }
}

/// Collects vectors for a file. They are in memory until they are saved.
#[derive(Debug)]
pub struct VectorsWriter {
    model: String,
    columns: usize,
    indptr: Vec<u64>,
    indices: Vec<u32>,
    data: Vec<f32>,
    known: Vec<u64>,
    unknown: Vec<u64>,
    ids: StringsBuilder,
    label_names: StringsBuilder,
    label_numbers: HashMap<String, u32>,
    label_indptr: Vec<u64>,
    label_indices: Vec<u32>,
}

impl VectorsWriter {
    /// No documents yet; those that come are vectors of this model.
    pub fn new(model: &Model) -> Self {
        Self {
            model: model.fingerprint(),
            columns: model.vocabulary().len(),
            indptr: vec![0],
            indices: Vec::new(),
            data: Vec::new(),
            known: Vec::new(),
            unknown: Vec::new(),
            ids: StringsBuilder::default(),
            label_names: StringsBuilder::default(),
            label_numbers: HashMap::new(),
            label_indptr: vec![0],
            label_indices: Vec::new(),
        }
    }

    /// Adds documents and what [`vectorize`](crate::classifier::Classifier::vectorize) made of them.
    ///
    /// # Panics
    /// If these are not as many vectors as documents, or of another vocabulary.
    pub fn push(&mut self, documents: &[Document], vectors: &Vectors) {
        assert_eq!((documents.len(), self.columns), (vectors.rows.rows(), vectors.rows.cols()));
        let start = self.indices.len() as u64;
        let (indptr, indices, data) = vectors.rows.view().into_raw_storage();
        self.indptr.extend(indptr[1..].iter().map(|end| start + end - indptr[0]));
        self.indices.extend_from_slice(indices);
        self.data.extend_from_slice(data);
        self.known.extend(vectors.terms.iter().map(|terms| terms.known as u64));
        self.unknown.extend(vectors.terms.iter().map(|terms| terms.unknown as u64));
        for document in documents {
            self.ids.push(&document.id);
            for label in &document.labels {
                let known = self.label_numbers.get(label).copied();
                let number = known.unwrap_or_else(|| {
                    let next = self.label_numbers.len();
                    let number = u32::try_from(next).expect("fewer than 2^32 labels");
                    self.label_names.push(label);
                    self.label_numbers.insert(label.clone(), number);
                    number
                });
                self.label_indices.push(number);
            }
            self.label_indptr.push(self.label_indices.len() as u64);
        }
    }

    /// How many documents there are.
    pub fn len(&self) -> usize {
        self.indptr.len() - 1
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes the file: whole or not at all.
    ///
    /// # Errors
    /// If it cannot be written; what was at `path` before is then still there.
    pub fn save(self, path: &Path) -> Result<(), VectorsError> {
        let (ids, labels) = (self.ids.build(), self.label_names.build());
        let longs = bytemuck::cast_slice::<u64, u8>;
        let arrays = vec![
            ("rows.indptr", Dtype::U64, longs(&self.indptr)),
            ("rows.indices", Dtype::U32, bytemuck::cast_slice(&self.indices)),
            ("rows.data", Dtype::F32, bytemuck::cast_slice(&self.data)),
            ("documents.known_terms", Dtype::U64, longs(&self.known)),
            ("documents.unknown_terms", Dtype::U64, longs(&self.unknown)),
            ("documents.id_text", Dtype::U8, ids.parts().0),
            ("documents.id_offsets", Dtype::U64, longs(ids.parts().1)),
            ("documents.label_indptr", Dtype::U64, longs(&self.label_indptr)),
            ("documents.label_indices", Dtype::U32, bytemuck::cast_slice(&self.label_indices)),
            ("labels.text", Dtype::U8, labels.parts().0),
            ("labels.offsets", Dtype::U64, longs(labels.parts().1)),
        ];
        let header = Header {
            format: FORMAT.into(),
            version: VERSION,
            model: self.model,
            terms: self.columns as u64,
            checksums: checksums(&arrays),
        };
        let written = serde_json::to_string(&header).map_err(io::Error::from);
        written.and_then(|json| container::write(path, FILE_KEY, json, arrays)).map_err(|source| {
            VectorsError {
                path: path.to_owned(),
                problem: VectorsProblem::Io { doing: "write", source },
            }
        })
    }
}

fn checksums(arrays: &[container::Part<'_>]) -> BTreeMap<String, String> {
    arrays.iter().map(|&(name, _, bytes)| (name.to_owned(), checksum(bytes))).collect()
}

/// A file of vectors, checked and mapped into memory.
#[derive(Debug)]
pub struct StoredVectors {
    columns: usize,
    indptr: Array<u64>,
    indices: Array<u32>,
    data: Array<f32>,
    known: Array<u64>,
    unknown: Array<u64>,
    ids: Strings,
    label_names: Strings,
    label_indptr: Array<u64>,
    label_indices: Array<u32>,
}

impl StoredVectors {
    /// Whether there is a file of vectors at `path`, sound or not. What is no regular file is not touched: a
    /// pipe can be read only once.
    pub fn is_at(path: &Path) -> bool {
        const BEGIN: u64 = 4_096;
        if !path.metadata().is_ok_and(|metadata| metadata.is_file()) {
            return false;
        }
        let mut begin = Vec::new();
        let opened = std::fs::File::open(path);
        let read = opened.and_then(|file| file.take(BEGIN).read_to_end(&mut begin));
        // The length of a JSON header, and the header: no text begins so.
        read.is_ok()
            && begin.get(4..9) == Some(b"\0\0\0\0{")
            && begin.windows(FORMAT.len()).any(|some| some == FORMAT.as_bytes())
    }

    /// Opens a file of vectors of this model and checks all of it.
    ///
    /// # Errors
    /// If the file cannot be read, is damaged, or was made with another model.
    pub fn open(path: &Path, model: &Model) -> Result<Self, VectorsError> {
        Self::read(path, model).map_err(|problem| VectorsError { path: path.to_owned(), problem })
    }

    fn read(path: &Path, model: &Model) -> Result<Self, VectorsProblem> {
        let io = |source| VectorsProblem::Io { doing: "read", source };
        let mut file = Container::new(Container::map(path).map_err(io)?)?;
        let json = file.json(FILE_KEY)?;
        let damaged = |what: String| VectorsProblem::Damaged(what);
        let value: serde_json::Value =
            serde_json::from_str(&json).map_err(|error| damaged(error.to_string()))?;
        if value.get("format").is_none_or(|format| format != FORMAT) {
            return Err(damaged("its header is not of vectors".into()));
        }
        let version = value.get("version").and_then(serde_json::Value::as_u64);
        if version != Some(VERSION.into()) {
            let found = version.and_then(|version| u32::try_from(version).ok()).unwrap_or(0);
            return Err(VectorsProblem::Version { found });
        }
        file.check_json(&json)?;
        let header: Header =
            serde_json::from_value(value).map_err(|error| damaged(error.to_string()))?;
        if header.model != model.fingerprint() {
            return Err(VectorsProblem::OtherModel);
        }
        let vectors = Self {
            columns: model.vocabulary().len(),
            indptr: file.array("rows.indptr", Dtype::U64)?,
            indices: file.array("rows.indices", Dtype::U32)?,
            data: file.array("rows.data", Dtype::F32)?,
            known: file.array("documents.known_terms", Dtype::U64)?,
            unknown: file.array("documents.unknown_terms", Dtype::U64)?,
            ids: Strings::read(&mut file, "documents.id_text", "documents.id_offsets")?,
            label_names: Strings::read(&mut file, "labels.text", "labels.offsets")?,
            label_indptr: file.array("documents.label_indptr", Dtype::U64)?,
            label_indices: file.array("documents.label_indices", Dtype::U32)?,
        };
        if header.terms != vectors.columns as u64 {
            return Err(damaged("its rows have another number of columns".into()));
        }
        vectors.check(&header).map_err(damaged)?;
        Ok(vectors)
    }

    /// The properties that the rest of the program relies on.
    fn check(&self, header: &Header) -> Result<(), String> {
        let longs = bytemuck::cast_slice::<u64, u8>;
        let arrays = [
            ("rows.indptr", longs(&self.indptr)),
            ("rows.indices", bytemuck::cast_slice(&self.indices)),
            ("rows.data", bytemuck::cast_slice(&self.data)),
            ("documents.known_terms", longs(&self.known)),
            ("documents.unknown_terms", longs(&self.unknown)),
            ("documents.id_text", self.ids.parts().0),
            ("documents.id_offsets", longs(self.ids.parts().1)),
            ("documents.label_indptr", longs(&self.label_indptr)),
            ("documents.label_indices", bytemuck::cast_slice(&self.label_indices)),
            ("labels.text", self.label_names.parts().0),
            ("labels.offsets", longs(self.label_names.parts().1)),
        ];
        for (name, bytes) in arrays {
            if header.checksums.get(name) != Some(&checksum(bytes)) {
                return Err(format!("the checksum of array `{name}` differs"));
            }
        }
        let documents = self.ids.len();
        let rises = |array: &Array<u64>, end: usize| {
            array.len() == documents + 1
                && array.first() == Some(&0)
                && array.last() == Some(&(end as u64))
                && array.is_sorted()
        };
        if !rises(&self.indptr, self.indices.len()) || self.data.len() != self.indices.len() {
            return Err("rows that do not fit their pointers".into());
        }
        if !rises(&self.label_indptr, self.label_indices.len()) {
            return Err("labels that do not fit their pointers".into());
        }
        if self.known.len() != documents || self.unknown.len() != documents {
            return Err("term counts that do not fit the documents".into());
        }
        // Beyond, sums of them would not be numbers of terms any more.
        if self.known.iter().chain(&*self.unknown).any(|&terms| terms > 1 << 52) {
            return Err("more terms than a document can have".into());
        }
        let labels = self.label_names.len();
        let names: HashSet<&str> = self.label_names.iter().collect();
        if names.len() != labels {
            return Err("a label's name twice".into());
        }
        if self.label_indices.iter().any(|&label| label as usize >= labels) {
            return Err("labels without a name".into());
        }
        if !self.data.iter().all(|weight| weight.is_finite()) {
            return Err("a weight that is not finite".into());
        }
        for bounds in self.label_indptr.windows(2) {
            let own = &self.label_indices[range(bounds[0], bounds[1])];
            if (1..own.len()).any(|at| own[..at].contains(&own[at])) {
                return Err("a document with a label twice".into());
            }
        }
        let rows = self.indptr.windows(2).map(|bounds| range(bounds[0], bounds[1]));
        for row in rows {
            let columns = &self.indices[row];
            let rise = columns.is_sorted_by(|a, b| a < b);
            if !rise || columns.last().is_some_and(|&last| last as usize >= self.columns) {
                return Err("columns that fall, repeat or are too large".into());
            }
        }
        Ok(())
    }

    /// How many documents there are.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether any document has a label.
    pub fn has_labels(&self) -> bool {
        !self.label_indices.is_empty()
    }

    /// Some of the documents. Their rows are not copied.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn batch(&self, documents: Range<usize>) -> (Vec<Labeled>, Vectors) {
        let bounds = &self.indptr[documents.start..=documents.end];
        let (start, end) = (bounds[0], bounds[documents.len()]);
        let indptr: Vec<u64> = bounds.iter().map(|at| at - start).collect();
        let entries = range(start, end);
        let rows: Csr = csr(
            self.columns,
            indptr,
            self.indices.slice(entries.clone()),
            self.data.slice(entries),
        )
        .expect("checked when it was opened");
        let size = |terms: u64| usize::try_from(terms).unwrap_or(usize::MAX);
        let used = documents.clone().map(|document| TermUse {
            known: size(self.known[document]),
            unknown: size(self.unknown[document]),
        });
        let terms = used.collect();
        let labeled = documents.map(|document| {
            let own = range(self.label_indptr[document], self.label_indptr[document + 1]);
            let name = |&label: &u32| self.label_names.get(label as usize).unwrap_or_default();
            Labeled {
                id: self.ids.get(document).unwrap_or_default().to_owned(),
                labels: self.label_indices[own]
                    .iter()
                    .map(|label| name(label).to_owned())
                    .collect(),
            }
        });
        (labeled.collect(), Vectors { rows, terms })
    }
}

#[expect(clippy::cast_possible_truncation, reason = "checked against arrays in memory")]
fn range(start: u64, end: u64) -> Range<usize> {
    start as usize..end as usize
}
