//! The model file: written in one piece, read by mapping it into memory.

use std::io;
use std::path::{Path, PathBuf};

use memmap2::Mmap;
use metric_index::container::{self, Container, checksum};
use safetensors::Dtype;

use super::error::invalid;
use super::{Arrays, FORMAT, InputSpec, Model, ModelError, ModelProblem, Settings, VERSION};
use crate::calibrate::Calibration;
use crate::matrix::{Array, csr};
use crate::strings::{FILE_KEY, Strings};
use crate::vocabulary::{TermKind, Vocabulary};

impl Model {
    /// Writes the model: whole or not at all, the same bytes for the same model.
    ///
    /// # Errors
    /// If the model could not be opened again, or the file cannot be written; what was at `path` before is then still there.
    pub fn save(&self, path: &Path) -> Result<(), ModelError> {
        let invalid = |problem| ModelError { path: path.to_owned(), problem };
        self.check().map_err(invalid)?;
        self.write(path).map_err(|source| ModelError {
            path: path.to_owned(),
            problem: ModelProblem::Io { doing: "write", source },
        })
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        let arrays = self.arrays.list();
        let sums = arrays.iter().map(|&(name, _, bytes)| (name.to_owned(), checksum(bytes)));
        let checksums = sums.collect();
        let settings = Settings { version: VERSION, checksums, ..self.settings.clone() };
        container::write(path, FILE_KEY, serde_json::to_string(&settings)?, arrays)
    }

    /// Opens a model file and checks all of it.
    ///
    /// # Errors
    /// If the file cannot be read or is not, in every byte, a model that this program wrote.
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        let fail = |problem| ModelError { path: path.to_owned(), problem };
        let map = Container::map(path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => fail(ModelProblem::NotFound),
            io::ErrorKind::InvalidInput => fail(ModelProblem::NotAModel(source.to_string())),
            _ => fail(ModelProblem::Io { doing: "read", source }),
        })?;
        Self::of_map(map).map_err(fail)
    }

    /// Reads a model from bytes, as [`Model::open`] reads a file.
    ///
    /// # Errors
    /// If the bytes are no valid model.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ModelError> {
        let fail = |problem| ModelError { path: PathBuf::from("<memory>"), problem };
        let io = |source| fail(ModelProblem::Io { doing: "read", source });
        let mut map = memmap2::MmapMut::map_anon(bytes.len().max(1)).map_err(io)?;
        map[..bytes.len()].copy_from_slice(bytes);
        Self::of_map(map.make_read_only().map_err(io)?).map_err(fail)
    }

    fn of_map(map: Mmap) -> Result<Self, ModelProblem> {
        let mut file = Container::new(map)?;
        let text = file.json(FILE_KEY)?;
        let settings = settings(&text)?;
        file.check_json(&text)?;
        let arrays = Arrays::read(&mut file, &settings)?;
        if let Some(name) = file.first_unread() {
            return Err(ModelProblem::NotAModel(format!("unknown array `{name}`")));
        }
        let label_sizes = arrays.label_sizes();
        let model = Self { settings, arrays, label_sizes };
        for (name, _, bytes) in model.arrays.list() {
            let (found, expected) = (checksum(bytes), model.settings.checksums.get(name));
            if Some(&found) != expected {
                let expected = expected.cloned().unwrap_or_default();
                return Err(ModelProblem::Checksum { array: name.into(), found, expected });
            }
        }
        model.check()?;
        Ok(model)
    }
}

/// The parsed settings; the version is looked at first, so that a newer file gets a clear answer.
fn settings(text: &str) -> Result<Settings, ModelProblem> {
    let json = |error: serde_json::Error| invalid("settings")(error.to_string());
    let value: serde_json::Value = serde_json::from_str(text).map_err(json)?;
    if value.get("format").and_then(|format| format.as_str()) != Some(FORMAT) {
        return Err(ModelProblem::NotAModel("its metadata are not of this program".into()));
    }
    match value.get("version").and_then(serde_json::Value::as_u64) {
        Some(version) if (1..=u64::from(VERSION)).contains(&version) => {}
        found => return Err(ModelProblem::Version { found: found.unwrap_or(0) }),
    }
    serde_json::from_value(value).map_err(json)
}

impl Arrays {
    fn read(file: &mut Container, settings: &Settings) -> Result<Self, ModelProblem> {
        let kind = match settings.input {
            InputSpec::Text(_) => TermKind::Text,
            InputSpec::Features(_) => TermKind::Columns,
        };
        let terms = Strings::read(file, "vocabulary.text", "vocabulary.offsets")?;
        let frequencies = file.array("vocabulary.document_frequencies", Dtype::U32)?;
        let vocabulary =
            Vocabulary::new(kind, terms, frequencies).map_err(invalid("vocabulary.text"))?;
        let indptr: Array<u64> = file.array("rows.indptr", Dtype::U64)?;
        let indices: Array<u32> = file.array("rows.indices", Dtype::U32)?;
        let data: Array<f32> = file.array("rows.data", Dtype::F32)?;
        if indptr.first() != Some(&0) {
            return Err(invalid("rows.indptr")("it does not begin with 0".into()));
        }
        let rows = csr(vocabulary.len(), indptr, indices, data).map_err(invalid("rows.indptr"))?;
        let texts = file
            .has("documents.text")
            .then(|| Strings::read(file, "documents.text", "documents.text_offsets"));
        let calibration = if file.has("calibration.") {
            Some(Calibration {
                curves: file.array("calibration.curves", Dtype::U32)?,
                starts: file.array("calibration.starts", Dtype::U64)?,
                scores: file.array("calibration.scores", Dtype::F64)?,
                probabilities: file.array("calibration.probabilities", Dtype::F64)?,
            })
        } else {
            None
        };
        Ok(Self {
            vocabulary,
            idf: file.array("vocabulary.idf", Dtype::F64)?,
            rows,
            label_names: Strings::read(file, "labels.text", "labels.offsets")?,
            label_indptr: file.array("documents.label_indptr", Dtype::U64)?,
            label_indices: file.array("documents.label_indices", Dtype::U32)?,
            ids: Strings::read(file, "documents.id_text", "documents.id_offsets")?,
            weights: file.array("documents.weights", Dtype::F32)?,
            texts: texts.transpose()?,
            calibration,
        })
    }
}
