//! The model file: written in one piece, read by mapping it into memory.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytemuck::Pod;
use memmap2::Mmap;
use safetensors::tensor::{Metadata, TensorInfo};
use safetensors::{Dtype, SafeTensors};

use super::error::invalid;
use super::{
    Arrays, FORMAT, InputSpec, KEY, Model, ModelError, ModelProblem, SETTINGS_CRC, Settings,
    VERSION, checksum,
};
use crate::calibrate::Calibration;
use crate::matrix::{Array, csr};
use crate::output::write_atomically;
use crate::strings::Strings;
use crate::vocabulary::{TermKind, Vocabulary};

/// The arrays begin at a multiple of this many bytes.
const ALIGNMENT: usize = 64;

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
        let mut arrays = self.arrays.list();
        let sums = arrays.iter().map(|&(name, _, bytes)| (name.to_owned(), checksum(bytes)));
        let checksums = sums.collect();
        let settings = Settings { version: VERSION, checksums, ..self.settings.clone() };
        let json = serde_json::to_string(&settings)?;
        let crc = crc32fast::hash(json.as_bytes()).to_le_bytes();
        arrays.push((SETTINGS_CRC, Dtype::U32, &crc));
        // The format leaves no gaps: wide types first, and every array is aligned to its own.
        arrays.sort_by_key(|&(name, dtype, _)| (std::cmp::Reverse(dtype.bitsize()), name));
        let mut end = 0;
        let infos = arrays.iter().map(|&(name, dtype, bytes)| {
            let start = end;
            end += bytes.len();
            let shape = vec![bytes.len() / (dtype.bitsize() / 8)];
            (name.to_owned(), TensorInfo { dtype, shape, data_offsets: (start, end) })
        });
        let metadata = HashMap::from([(KEY.to_owned(), json)]);
        let metadata = Metadata::new(Some(metadata), infos.collect()).map_err(io::Error::other)?;
        let mut header = serde_json::to_vec(&metadata)?;
        header.resize((header.len() + 8).next_multiple_of(ALIGNMENT) - 8, b' ');
        write_atomically(path, |out| {
            out.write_all(&(header.len() as u64).to_le_bytes())?;
            out.write_all(&header)?;
            arrays.iter().try_for_each(|(.., bytes)| out.write_all(bytes))
        })
    }

    /// Opens a model file and checks all of it.
    ///
    /// # Errors
    /// If the file cannot be read or is not, in every byte, a model that this program wrote.
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        let fail = |problem| ModelError { path: path.to_owned(), problem };
        let io = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => fail(ModelProblem::NotFound),
            _ => fail(ModelProblem::Io { doing: "read", source }),
        };
        let file = std::fs::File::open(path).map_err(io)?;
        if !file.metadata().map_err(io)?.is_file() {
            return Err(fail(ModelProblem::NotAModel("it is no regular file".into())));
        }
        #[expect(unsafe_code, reason = "memory-mapping the model")]
        // SAFETY: the map is read-only. Models are replaced by renaming, never written in place,
        // so the mapped bytes do not change while the map lives.
        let map = unsafe { Mmap::map(&file) }.map_err(io)?;
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
        let damaged =
            |error: safetensors::SafeTensorError| ModelProblem::NotAModel(error.to_string());
        let (header, metadata) = SafeTensors::read_metadata(&map).map_err(damaged)?;
        let text = metadata.metadata().as_ref().and_then(|metadata| metadata.get(KEY));
        let text = text.ok_or_else(|| {
            ModelProblem::NotAModel("a safetensors file, but not of this program".into())
        })?;
        let settings = settings(text)?;
        let map = Arc::new(map);
        let mut file =
            ModelFile { map: &map, start: 8 + header, metadata: &metadata, unread: Vec::new() };
        file.unread = metadata.tensors().into_keys().collect();
        let crc = file.array::<u32>(SETTINGS_CRC, Dtype::U32)?;
        if *crc != [crc32fast::hash(text.as_bytes())] {
            return Err(invalid("settings")("their checksum differs: they are damaged".into()));
        }
        let arrays = Arrays::read(&mut file, &settings)?;
        if let Some(name) = file.unread.first() {
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

/// The arrays of a mapped file that are still to be read.
struct ModelFile<'a> {
    map: &'a Arc<Mmap>,
    /// Where the arrays begin.
    start: usize,
    metadata: &'a Metadata,
    unread: Vec<String>,
}

impl ModelFile<'_> {
    fn array<T: Pod>(&mut self, name: &str, dtype: Dtype) -> Result<Array<T>, ModelProblem> {
        let missing = || ModelProblem::MissingArray { array: name.into() };
        let info = self.metadata.info(name).ok_or_else(missing)?;
        let wrong = || ModelProblem::WrongType {
            array: name.into(),
            found: format!("{:?} of shape {:?}", info.dtype, info.shape),
            expected: format!("{dtype:?}"),
        };
        if info.dtype != dtype || info.shape.len() != 1 {
            return Err(wrong());
        }
        self.unread.retain(|unread| unread != name);
        let (start, end) = info.data_offsets;
        Array::mapped(self.map, self.start + start..self.start + end).ok_or_else(wrong)
    }

    fn strings(&mut self, text: &'static str, offsets: &str) -> Result<Strings, ModelProblem> {
        let bytes = self.array(text, Dtype::U8)?;
        Strings::new(bytes, self.array::<u64>(offsets, Dtype::U64)?).map_err(invalid(text))
    }
}

impl Arrays {
    fn read(file: &mut ModelFile<'_>, settings: &Settings) -> Result<Self, ModelProblem> {
        let kind = match settings.input {
            InputSpec::Text(_) => TermKind::Text,
            InputSpec::Features(_) => TermKind::Columns,
        };
        let terms = file.strings("vocabulary.text", "vocabulary.offsets")?;
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
        let has_texts = file.unread.iter().any(|name| name == "documents.text");
        let texts = has_texts.then(|| file.strings("documents.text", "documents.text_offsets"));
        let calibration = if file.unread.iter().any(|name| name.starts_with("calibration.")) {
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
            label_names: file.strings("labels.text", "labels.offsets")?,
            label_indptr: file.array("documents.label_indptr", Dtype::U64)?,
            label_indices: file.array("documents.label_indices", Dtype::U32)?,
            ids: file.strings("documents.id_text", "documents.id_offsets")?,
            weights: file.array("documents.weights", Dtype::F32)?,
            texts: texts.transpose()?,
            calibration,
        })
    }
}
