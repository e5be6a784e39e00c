//! Reads and writes vectors files: documents that are analyzed and weighted once and can be
//! classified repeatedly.
//!
//! [`VectorsWriter`] writes the file (`classify vectorize`), and [`StoredVectors`] reads it. Like a
//! model, it is a safetensors file. It contains the weighted rows, the identifiers and labels of
//! the documents, and a fingerprint of the model's vocabulary and weighting. A model with a
//! different fingerprint is rejected, because term numbers and weights would have a different
//! meaning.
//!
//! ```
//! use classify::classifier::{Classifier, FoundNeighbors};
//! use classify::learn::Trainer;
//! use classify::text::corpus::Document;
//! use classify::threads::Threads;
//! use classify::classifier::vectors::{StoredVectors, VectorsWriter};
//!
//! let documents = [
//!     Document::text("a", "bake the bread").labels(["cooking"]),
//!     Document::text("b", "the guitar strings").labels(["music"]),
//! ];
//! let model = std::sync::Arc::new(Trainer::builder().build().train(&documents)?.model);
//! let classifier = Classifier::new(model.clone(), &Threads::available()?)?;
//!
//! let mut writer = VectorsWriter::new(&model);
//! writer.push(&documents, &classifier.vectorize(&documents)?);
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("two.vectors");
//! writer.save(&path)?;
//!
//! let (labeled, vectors) = StoredVectors::open(&path, &model)?.batch(0..1);
//! let options = classifier.options();
//! let mut neighbors = FoundNeighbors::default();
//! let _ = classifier.neighbors(&vectors, &options, &mut neighbors)?;
//! let raw = &classifier.predict_from_neighbors(&vectors, &neighbors, &options)[0];
//! assert_eq!(raw.named(&model).labels, labeled[0].labels);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use array_file::container::{self, Container, check_checksum, checksum};
use array_file::output::Output;
use array_file::{Bytes, FileProblem};
use safetensors::Dtype;
use serde::{Deserialize, Serialize};

use crate::classifier::{DocumentVectors, TermUse};
use crate::model::{Model, array_names};
use crate::printable::printable;
use crate::rows::dense::Vectors;
use crate::rows::matrix::{Array, Csr, csr};
use crate::rows::strings::{FILE_KEY, Strings, StringsBuilder};
use crate::text::corpus::{Document, check_vector};

const VERSION: u32 = 1;
/// Maximum number of bytes from the start of a file to the end of the format's name.
const FORMAT_NAME_END: usize = 67;
const FORMAT: container::Format = container::Format {
    what: "a vectors file",
    key: FILE_KEY,
    name: "classify.vectors",
    version: VERSION,
};

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    format: String,
    version: u32,
    /// The fingerprint of the model.
    model: String,
    /// The number of columns of the rows.
    terms: u64,
    /// The checksum of each array.
    checksums: BTreeMap<String, String>,
}

/// An error in reading or writing vectors.
#[derive(Debug, thiserror::Error)]
#[error("{}: {}", printable(path.display()), printable(problem))]
pub struct VectorsError {
    /// The file.
    pub path: PathBuf,
    /// The problem.
    #[source]
    pub problem: VectorsProblem,
}

/// A problem with a vectors file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VectorsProblem {
    /// The file cannot be written or read, has another format, or is damaged.
    #[error(transparent)]
    File(#[from] FileProblem),
    /// Labels are required, but no document has one.
    #[error("no document has a label: there is nothing to compare predictions with")]
    NoLabels,
    /// The file was created with a different model.
    #[error("the vectors were created with a model that has a different vocabulary or weighting")]
    OtherModel,
}

impl VectorsError {
    /// Returns the kind of the I/O error, or `None` if the problem is not an I/O error.
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        match &self.problem {
            VectorsProblem::File(problem) => problem.io_kind(),
            _ => None,
        }
    }

    /// Returns a hint about how to solve the problem.
    pub fn hint(&self) -> Option<&'static str> {
        match &self.problem {
            VectorsProblem::File(problem) if problem.is_io_error() => problem.system_hint(),
            VectorsProblem::NoLabels => Some("vectorize a labeled corpus"),
            _ => Some("create the vectors again"),
        }
    }
}

/// The identifier and the labels of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabeledDocument {
    /// The identifier.
    pub id: String,
    /// The labels, without duplicates.
    pub labels: Vec<String>,
}

impl From<Document> for LabeledDocument {
    fn from(document: Document) -> Self {
        Self { id: document.id, labels: document.labels }
    }
}

/// A writer of a vectors file. The vectors stay in memory until they are saved.
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
    /// The dense vectors, if the model has them.
    dense: Option<Vec<f32>>,
}

impl VectorsWriter {
    /// Creates an empty writer for vectors of this model.
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
            dense: model.dense().map(|_| Vec::new()),
        }
    }

    /// Adds documents and their vectors from
    /// [`vectorize`](crate::classifier::Classifier::vectorize).
    ///
    /// # Panics
    /// Panics if the numbers of vectors and documents differ, or if the vectors have a different
    /// vocabulary.
    pub fn push(&mut self, documents: &[Document], vectors: &DocumentVectors) {
        assert_eq!((documents.len(), self.columns), (vectors.rows.rows(), vectors.rows.cols()));
        let start = self.indices.len() as u64;
        self.indptr.extend(vectors.rows.indptr()[1..].iter().map(|end| start + end));
        self.indices.extend_from_slice(vectors.rows.indices());
        self.data.extend_from_slice(vectors.rows.data());
        self.known.extend(vectors.terms.iter().map(|terms| terms.known as u64));
        self.unknown.extend(vectors.terms.iter().map(|terms| terms.unknown as u64));
        if let (Some(dense), Some(vectors)) = (&mut self.dense, &vectors.dense) {
            dense.extend_from_slice(vectors.values());
        }
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

    /// Returns the number of documents.
    pub fn len(&self) -> usize {
        self.indptr.len() - 1
    }

    /// Whether there are no documents.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes the file completely or not at all.
    ///
    /// # Errors
    /// Fails if the file cannot be written. The previous file at `path` is then unchanged.
    pub fn save(self, path: &Path) -> Result<(), VectorsError> {
        let output = Output::open(path).map_err(|error| {
            let problem = FileProblem::from(error.problem).into();
            VectorsError { path: error.path, problem }
        })?;
        self.save_to(output)
    }

    /// Writes the file to an output that was opened beforehand, and commits the output.
    ///
    /// # Errors
    /// Fails if the file cannot be written. The previous file is then unchanged.
    pub fn save_to(self, output: Output) -> Result<(), VectorsError> {
        let path = output.path().to_owned();
        self.write(output).map_err(|problem| VectorsError { path, problem: problem.into() })
    }

    fn write(self, output: Output) -> Result<(), FileProblem> {
        let ids = self.ids.build();
        let labels = self.label_names.build();
        let longs = bytemuck::cast_slice::<u64, u8>;
        let mut arrays = vec![
            (array_names::ROW_BOUNDS, Dtype::U64, longs(&self.indptr)),
            (array_names::ROW_TERMS, Dtype::U32, bytemuck::cast_slice(&self.indices)),
            (array_names::ROW_WEIGHTS, Dtype::F32, bytemuck::cast_slice(&self.data)),
            (array_names::KNOWN_TERMS, Dtype::U64, longs(&self.known)),
            (array_names::UNKNOWN_TERMS, Dtype::U64, longs(&self.unknown)),
            (array_names::IDS, Dtype::U8, ids.parts().0),
            (array_names::ID_OFFSETS, Dtype::U64, longs(ids.parts().1)),
            (array_names::LABEL_BOUNDS, Dtype::U64, longs(&self.label_indptr)),
            (array_names::LABEL_NUMBERS, Dtype::U32, bytemuck::cast_slice(&self.label_indices)),
            (array_names::LABELS, Dtype::U8, labels.parts().0),
            (array_names::LABEL_OFFSETS, Dtype::U64, longs(labels.parts().1)),
        ];
        if let Some(dense) = &self.dense {
            arrays.push((array_names::DENSE_VECTORS, Dtype::F32, bytemuck::cast_slice(dense)));
        }
        let header = Header {
            format: FORMAT.name.into(),
            version: VERSION,
            model: self.model,
            terms: self.columns as u64,
            checksums: checksums(&arrays),
        };
        let json = serde_json::to_string(&header).map_err(FileProblem::Settings)?;
        Ok(container::write_to(output, FILE_KEY, json, arrays)?)
    }
}

fn checksums(arrays: &[container::Part<'_>]) -> BTreeMap<String, String> {
    arrays.iter().map(|&(name, _, bytes)| (name.to_owned(), checksum(bytes))).collect()
}

/// A validated vectors file, in memory or mapped.
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
    dense: Option<Vectors>,
}

impl StoredVectors {
    /// Whether the file at `path` is a vectors file, valid or not. Only regular files are opened,
    /// because a pipe can be read only once.
    pub fn is_at(path: &Path) -> bool {
        const PREFIX_SIZE: u64 = 4_096;
        if !path.metadata().is_ok_and(|metadata| metadata.is_file()) {
            return false;
        }
        let mut prefix = Vec::new();
        let opened = std::fs::File::open(path);
        let read = opened.and_then(|file| file.take(PREFIX_SIZE).read_to_end(&mut prefix));
        // Check the four high bytes of the header's length and the first byte of the header. No
        // text begins like this. A file truncated before the name of its format is accepted.
        let header = prefix.get(4..prefix.len().min(9)).unwrap_or_default();
        read.is_ok()
            && !header.is_empty()
            && b"\0\0\0\0{".starts_with(header)
            && (prefix.len() < FORMAT_NAME_END
                || prefix.windows(FORMAT.name.len()).any(|window| window == FORMAT.name.as_bytes()))
    }

    /// Opens a vectors file made with this model and validates it completely.
    ///
    /// # Errors
    /// Fails if the file cannot be read, is damaged, or was made with a different model.
    pub fn open(path: &Path, model: &Model) -> Result<Self, VectorsError> {
        Self::opened(path, Bytes::read, model)
    }

    /// Like [`StoredVectors::open`], but maps the file into memory.
    ///
    /// # Errors
    /// Fails if the file cannot be read, is damaged, or was made with a different model.
    ///
    /// # Safety
    /// As for [`Model::map`]: while the vectors or a part of them exist, the file must not be
    /// overwritten or truncated in place. It may be replaced only by renaming.
    #[expect(unsafe_code, reason = "the bytes of a mapped file can change")]
    pub unsafe fn map(path: &Path, model: &Model) -> Result<Self, VectorsError> {
        // SAFETY: the caller guarantees that the file does not change in place.
        let map = |path: &Path| unsafe { Bytes::map(path) };
        Self::opened(path, map, model)
    }

    fn opened(
        path: &Path,
        bytes: impl FnOnce(&Path) -> io::Result<Bytes>,
        model: &Model,
    ) -> Result<Self, VectorsError> {
        let bytes = bytes(path).map_err(|error| FileProblem::Read(error).into());
        let vectors = bytes.and_then(|bytes| Self::read(bytes, model));
        vectors.map_err(|problem| VectorsError { path: path.to_owned(), problem })
    }

    fn read(bytes: Bytes, model: &Model) -> Result<Self, VectorsProblem> {
        let mut file = Container::new(bytes, FORMAT.what)?;
        let header: Header = file.settings(&FORMAT)?;
        if header.model != model.fingerprint() {
            return Err(VectorsProblem::OtherModel);
        }
        let dense = match model.dense() {
            None => None,
            Some(part) => {
                let values: Array<f32> = file.array(array_names::DENSE_VECTORS, Dtype::F32)?;
                let vectors = Vectors::new(part.vectors().dimension(), values);
                let what = "the values cannot be divided into whole vectors";
                Some(vectors.map_err(|_| invalid(array_names::DENSE_VECTORS, what))?)
            }
        };
        let vectors = Self {
            dense,
            columns: model.vocabulary().len(),
            indptr: file.array(array_names::ROW_BOUNDS, Dtype::U64)?,
            indices: file.array(array_names::ROW_TERMS, Dtype::U32)?,
            data: file.array(array_names::ROW_WEIGHTS, Dtype::F32)?,
            known: file.array(array_names::KNOWN_TERMS, Dtype::U64)?,
            unknown: file.array(array_names::UNKNOWN_TERMS, Dtype::U64)?,
            ids: Strings::read(&mut file, array_names::IDS, array_names::ID_OFFSETS)?,
            label_names: Strings::read(&mut file, array_names::LABELS, array_names::LABEL_OFFSETS)?,
            label_indptr: file.array(array_names::LABEL_BOUNDS, Dtype::U64)?,
            label_indices: file.array(array_names::LABEL_NUMBERS, Dtype::U32)?,
        };
        if header.terms != vectors.columns as u64 {
            return Err(invalid(
                array_names::ROW_TERMS,
                "the number of columns differs from the model's",
            )
            .into());
        }
        vectors.check(&header)?;
        Ok(vectors)
    }

    /// Checks the properties that the rest of the program relies on.
    fn check(&self, header: &Header) -> Result<(), FileProblem> {
        let longs = bytemuck::cast_slice::<u64, u8>;
        let arrays = [
            (array_names::ROW_BOUNDS, longs(&self.indptr)),
            (array_names::ROW_TERMS, bytemuck::cast_slice(&self.indices)),
            (array_names::ROW_WEIGHTS, bytemuck::cast_slice(&self.data)),
            (array_names::KNOWN_TERMS, longs(&self.known)),
            (array_names::UNKNOWN_TERMS, longs(&self.unknown)),
            (array_names::IDS, self.ids.parts().0),
            (array_names::ID_OFFSETS, longs(self.ids.parts().1)),
            (array_names::LABEL_BOUNDS, longs(&self.label_indptr)),
            (array_names::LABEL_NUMBERS, bytemuck::cast_slice(&self.label_indices)),
            (array_names::LABELS, self.label_names.parts().0),
            (array_names::LABEL_OFFSETS, longs(self.label_names.parts().1)),
        ];
        for (name, bytes) in arrays {
            check_checksum(name, bytes, header.checksums.get(name))?;
        }
        if let Some(dense) = &self.dense {
            let name = array_names::DENSE_VECTORS;
            let bytes = bytemuck::cast_slice(dense.values());
            check_checksum(name, bytes, header.checksums.get(name))?;
            if dense.rows() != self.ids.len() {
                return Err(invalid(name, "there is not exactly one vector per document"));
            }
            if check_vector(dense.values()).is_err() {
                return Err(invalid(name, "a value is not between -1e30 and 1e30"));
            }
        }
        let documents = self.ids.len();
        let is_valid_indptr = |array: &Array<u64>, end: usize| {
            array.len() == documents + 1
                && array.first() == Some(&0)
                && array.last() == Some(&(end as u64))
                && array.is_sorted()
        };
        let entries = self.indices.len();
        if !is_valid_indptr(&self.indptr, entries) || self.data.len() != entries {
            return Err(invalid(array_names::ROW_BOUNDS, "the pointers do not match the rows"));
        }
        if !is_valid_indptr(&self.label_indptr, self.label_indices.len()) {
            return Err(invalid(array_names::LABEL_BOUNDS, "the pointers do not match the labels"));
        }
        if self.known.len() != documents || self.unknown.len() != documents {
            return Err(invalid(
                array_names::KNOWN_TERMS,
                "the number of term counts differs from the number of documents",
            ));
        }
        // Beyond this limit, sums would overflow.
        if self.known.iter().chain(&*self.unknown).any(|&terms| terms > 1 << 52) {
            return Err(invalid(array_names::KNOWN_TERMS, "a document has too many terms"));
        }
        let labels = self.label_names.len();
        let names: HashSet<&str> = self.label_names.iter().collect();
        if names.len() != labels {
            return Err(invalid(array_names::LABELS, "a label name occurs twice"));
        }
        if self.label_indices.iter().any(|&label| label as usize >= labels) {
            return Err(invalid(array_names::LABEL_NUMBERS, "a label has no name"));
        }
        if !self.data.iter().all(|weight| weight.is_finite()) {
            return Err(invalid(array_names::ROW_WEIGHTS, "a weight is not finite"));
        }
        for bounds in self.label_indptr.windows(2) {
            let labels = &self.label_indices[range(bounds[0], bounds[1])];
            if (1..labels.len()).any(|index| labels[..index].contains(&labels[index])) {
                return Err(invalid(array_names::LABEL_NUMBERS, "a document has a label twice"));
            }
        }
        let rows = self.indptr.windows(2).map(|bounds| range(bounds[0], bounds[1]));
        for row in rows {
            let columns = &self.indices[row];
            let is_sorted = columns.is_sorted_by(|a, b| a < b);
            if !is_sorted || columns.last().is_some_and(|&last| last as usize >= self.columns) {
                return Err(invalid(
                    array_names::ROW_TERMS,
                    "columns are out of order, repeated or too large",
                ));
            }
        }
        Ok(())
    }

    /// Returns the number of documents.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are no documents.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether any document has a label.
    pub fn has_labels(&self) -> bool {
        !self.label_indices.is_empty()
    }

    /// Returns a range of the documents. Their rows are not copied.
    ///
    /// # Panics
    /// Panics if the range is out of bounds.
    pub fn batch(&self, documents: Range<usize>) -> (Vec<LabeledDocument>, DocumentVectors) {
        let bounds = &self.indptr[documents.start..=documents.end];
        let start = bounds[0];
        let end = bounds[documents.len()];
        let indptr: Vec<u64> = bounds.iter().map(|offset| offset - start).collect();
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
        let dense = self.dense.as_ref().map(|dense| {
            let size = dense.dimension();
            let values = dense.values()[documents.start * size..documents.end * size].to_vec();
            Vectors::new(size, values).expect("whole vectors")
        });
        let labeled = documents.map(|document| {
            let labels = range(self.label_indptr[document], self.label_indptr[document + 1]);
            let name = |&label: &u32| self.label_names.get(label as usize).unwrap_or_default();
            LabeledDocument {
                id: self.ids.get(document).unwrap_or_default().to_owned(),
                labels: self.label_indices[labels]
                    .iter()
                    .map(|label| name(label).to_owned())
                    .collect(),
            }
        });
        (labeled.collect(), DocumentVectors { rows, terms, dense })
    }
}

fn invalid(array: &str, what: &str) -> FileProblem {
    FileProblem::invalid(array, what)
}

#[expect(clippy::cast_possible_truncation, reason = "checked against arrays in memory")]
fn range(start: u64, end: u64) -> Range<usize> {
    start as usize..end as usize
}
