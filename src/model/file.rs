//! Reading and writing model files. A file is written atomically, and read into memory or mapped.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use array_file::Bytes;
use array_file::container::{self, Container, Format, check_checksum, checksum};
use array_file::output::{Output, OutputError, OutputProblem};
use safetensors::Dtype;

use super::error::invalid;
use super::rows_by_id::RowsById;
use super::segmented::Segmented;
use super::settings::{FORMAT, VERSION};
use super::{
    Arrays, InputSpec, JournalLock, Model, ModelError, ModelProblem, Settings, UpdateError,
    array_names,
};
use crate::decide::calibrate::{Calibration, NoveltyScore, TrainingProfile};
use crate::decide::vote::{LearnedVotes, Prototypes};
use crate::rows::dense::DensePart;
use crate::rows::matrix::{Array, csr};
use crate::rows::strings::{FILE_KEY, Strings};
use crate::text::vocabulary::{TermKind, Vocabulary};
use crate::threads;

const MODELS: Format = Format { what: "a model", key: FILE_KEY, name: FORMAT, version: VERSION };

impl Model {
    /// Writes the model atomically. Identical models produce identical bytes.
    ///
    /// # Errors
    /// Fails if the model is not valid, if another process is changing the documents of the
    /// previous model, or if the file cannot be written. In these cases, the previous file at
    /// `path` is unchanged. Also fails if the file was replaced, but the previous journal cannot be
    /// removed.
    pub fn save(&self, path: &Path) -> Result<(), ModelError> {
        let output = Output::open(path)
            .map_err(|error| ModelError { path: error.path, problem: error.problem.into() })?;
        self.save_to(output)
    }

    /// Writes the model to an output that was opened beforehand, and commits the output.
    ///
    /// # Errors
    /// Fails if the model is not valid, if another process is changing the documents of the
    /// previous model, or if the file cannot be written. In these cases, the previous file is
    /// unchanged. Also fails if the file was replaced, but the previous journal cannot be removed.
    pub fn save_to(&self, output: Output) -> Result<(), ModelError> {
        let path = output.path().to_owned();
        // The journal of a replaced model is also removed. Meanwhile, the lock keeps other
        // processes from changing the model's documents.
        let is_file = std::fs::metadata(&path).is_ok_and(|data| data.is_file());
        let lock = match JournalLock::new(&path) {
            _ if !is_file => None,
            Ok(lock) => Some(lock),
            Err(UpdateError::Model(error)) if error.io_kind().is_some() => None,
            Err(UpdateError::Model(error)) => return Err(error),
            Err(locked) => {
                let source = std::io::Error::new(ErrorKind::WouldBlock, locked.to_string());
                let problem = OutputProblem::Io { doing: "replace", source }.into();
                return Err(ModelError { path, problem });
            }
        };
        self.write_and_clean_up(output, lock.as_ref())
            .map_err(|problem| ModelError { path, problem })
    }

    /// Like [`save_to`](Self::save_to), for a caller that has locked the journal of the replaced
    /// model.
    ///
    /// # Errors
    /// Fails in the same cases as [`save_to`](Self::save_to).
    pub fn save_locked(&self, output: Output, lock: &JournalLock) -> Result<(), ModelError> {
        let path = output.path().to_owned();
        self.write_and_clean_up(output, Some(lock)).map_err(|problem| ModelError { path, problem })
    }

    fn write_and_clean_up(
        &self,
        output: Output,
        lock: Option<&JournalLock>,
    ) -> Result<(), ModelProblem> {
        self.check()?;
        self.write(output)?;
        let failed = |source| OutputProblem::Io { doing: "remove the journal of", source };
        Ok(lock.map_or(Ok(()), JournalLock::remove_journal).map_err(failed)?)
    }

    /// Returns the bytes of a model file, which [`Model::from_bytes`] can read.
    ///
    /// # Errors
    /// Fails if the model is not valid.
    pub fn to_bytes(&self) -> Result<Vec<u8>, ModelError> {
        let bytes = self.check().and_then(|()| {
            let bytes = container::to_bytes(FILE_KEY, self.json()?, self.arrays.list());
            bytes.map_err(|error| OutputError::write("<memory>".as_ref(), error).into())
        });
        bytes.map_err(|problem| ModelError { path: PathBuf::from("<memory>"), problem })
    }

    fn write(&self, output: Output) -> Result<(), ModelProblem> {
        Ok(container::write_to(output, FILE_KEY, self.json()?, self.arrays.list())?)
    }

    /// Returns the settings, including the checksums of the arrays, as JSON.
    fn json(&self) -> Result<String, ModelProblem> {
        let arrays = self.arrays.list();
        let sum = |&(name, _, bytes): &(&str, Dtype, &[u8])| (name.to_owned(), checksum(bytes));
        let checksums = threads::map(&arrays, sum).into_iter().collect();
        let settings = Settings { checksums, ..self.settings.clone() };
        serde_json::to_string(&settings).map_err(ModelProblem::Settings)
    }

    /// Opens a model file, validates it completely, and applies the changes in its
    /// [journal](crate::model::UpdatedModel). The file is read into memory, so later changes to the
    /// file have no effect.
    ///
    /// # Errors
    /// Fails if the file or its journal cannot be read, is damaged, or is not valid.
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        super::journal::with_journal(path, Self::open_alone)
    }

    /// Opens a model file without its journal.
    pub(super) fn open_alone(path: &Path) -> Result<Self, ModelError> {
        Self::opened(path, Bytes::read)
    }

    /// Like [`Model::open`], but maps the file into memory. Processes that map the same model share
    /// its memory, and unused parts need not be in memory.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or is not a valid, undamaged model.
    ///
    /// # Safety
    /// As for [`Bytes::map`]: while the model or a part of it exists, the file must not be
    /// overwritten or truncated in place. It may be replaced only by renaming, as [`Model::save`]
    /// does.
    #[expect(unsafe_code, reason = "the bytes of a mapped file can change")]
    pub unsafe fn map(path: &Path) -> Result<Self, ModelError> {
        // SAFETY: the caller guarantees that the file does not change in place.
        let map = |path: &Path| unsafe { Bytes::map(path) };
        super::journal::with_journal(path, |path| Self::opened(path, map))
    }

    fn opened(
        path: &Path,
        bytes: impl FnOnce(&Path) -> std::io::Result<Bytes>,
    ) -> Result<Self, ModelError> {
        let model = bytes(path).map_err(ModelProblem::Read).and_then(Self::of_bytes);
        model.map_err(|problem| ModelError { path: path.to_owned(), problem })
    }

    /// Reads a model from bytes, with the same validation as [`Model::open`].
    ///
    /// # Errors
    /// Fails if the bytes are not a valid model.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ModelError> {
        let model = Bytes::copy_of(bytes).map_err(ModelProblem::Read).and_then(Self::of_bytes);
        model.map_err(|problem| ModelError { path: PathBuf::from("<memory>"), problem })
    }

    fn of_bytes(bytes: Bytes) -> Result<Self, ModelProblem> {
        let mut file = Container::new(bytes, MODELS.what)?;
        let settings: Settings = file.settings(&MODELS)?;
        let arrays = Arrays::read(&mut file, &settings)?;
        if let Some(name) = file.first_unread() {
            return Err(ModelProblem::Unknown { array: name.to_owned() });
        }
        let label_sizes = arrays.label_sizes();
        let rows_by_id = RowsById::default();
        let model = Self { settings, arrays, label_sizes, rows_by_id };
        let sums = &model.settings.checksums;
        let check =
            |&(name, _, bytes): &(&str, Dtype, &[u8])| check_checksum(name, bytes, sums.get(name));
        threads::map(&model.arrays.list(), check).into_iter().collect::<Result<(), _>>()?;
        model.check()?;
        Ok(model)
    }
}

impl Arrays {
    /// Returns the name, type and bytes of every array.
    fn list(&self) -> Vec<(&'static str, Dtype, &[u8])> {
        let bytes = bytemuck::cast_slice::<u64, u8>;
        let (terms, term_offsets) = self.vocabulary.terms().parts();
        let frequencies = self.vocabulary.document_frequencies();
        let (labels, label_offsets) = self.label_names.parts();
        let (ids, id_offsets) = self.ids.parts();
        let rows = self.rows.whole();
        let mut list = vec![
            (array_names::TERMS, Dtype::U8, terms),
            (array_names::TERM_OFFSETS, Dtype::U64, bytes(term_offsets)),
            (array_names::DOCUMENT_FREQUENCIES, Dtype::U32, bytemuck::cast_slice(frequencies)),
            (array_names::IDF, Dtype::F64, bytemuck::cast_slice(&self.idf)),
            (array_names::ROW_BOUNDS, Dtype::U64, bytes(rows.indptr())),
            (array_names::ROW_TERMS, Dtype::U32, bytemuck::cast_slice(rows.indices())),
            (array_names::ROW_WEIGHTS, Dtype::F32, bytemuck::cast_slice(rows.data())),
            (array_names::LABELS, Dtype::U8, labels),
            (array_names::LABEL_OFFSETS, Dtype::U64, bytes(label_offsets)),
            (array_names::IDS, Dtype::U8, ids),
            (array_names::ID_OFFSETS, Dtype::U64, bytes(id_offsets)),
            (array_names::LABEL_BOUNDS, Dtype::U64, bytes(&self.label_indptr)),
            (array_names::LABEL_NUMBERS, Dtype::U32, bytemuck::cast_slice(&self.label_indices)),
            (array_names::DOCUMENT_WEIGHTS, Dtype::F32, bytemuck::cast_slice(&self.weights)),
        ];
        if let Some(texts) = &self.texts {
            let (text, offsets) = texts.whole().parts();
            list.push((array_names::TEXTS, Dtype::U8, text));
            list.push((array_names::TEXT_OFFSETS, Dtype::U64, bytes(offsets)));
        }
        if let Some(dense) = &self.dense {
            let values = bytemuck::cast_slice(dense.vectors().values());
            list.push((array_names::DENSE_VECTORS, Dtype::F32, values));
            if let Some(projection) = dense.projection() {
                let values = bytemuck::cast_slice(projection.terms().values());
                list.push((array_names::DENSE_PROJECTION, Dtype::F32, values));
            }
        }
        if let Some(factors) = &self.term_factors {
            list.push((array_names::TERM_FACTORS, Dtype::F32, bytemuck::cast_slice(factors)));
        }
        if let Some(votes) = &self.learned_votes {
            list.extend([
                (array_names::VOTE_STARTS, Dtype::U64, bytes(&votes.starts)),
                (array_names::VOTE_LABELS, Dtype::U32, bytemuck::cast_slice(&votes.labels)),
                (array_names::VOTE_WEIGHTS, Dtype::F32, bytemuck::cast_slice(&votes.vote_weights)),
                (array_names::VOTE_OFFSETS, Dtype::F32, bytemuck::cast_slice(&votes.offsets)),
                (array_names::VOTE_SCALES, Dtype::F32, bytemuck::cast_slice(&votes.scales)),
            ]);
        }
        if let Some(prototypes) = &self.prototypes {
            let weights = bytemuck::cast_slice::<f32, u8>;
            let labels = bytemuck::cast_slice(&prototypes.labels);
            list.extend([
                (array_names::PROTOTYPE_STARTS, Dtype::U64, bytes(&prototypes.starts)),
                (array_names::PROTOTYPE_LABELS, Dtype::U32, labels),
                (array_names::PROTOTYPE_WEIGHTS, Dtype::F32, weights(&prototypes.weights)),
                (array_names::PROTOTYPE_OFFSETS, Dtype::F32, weights(&prototypes.offsets)),
                (array_names::PROTOTYPE_LINK, Dtype::F32, weights(&prototypes.link)),
            ]);
            if prototypes.use_vectors() {
                let scale = bytemuck::bytes_of(&prototypes.vector_scale);
                list.push((array_names::PROTOTYPE_VECTOR_SCALE, Dtype::F32, scale));
            }
        }
        let floats = bytemuck::cast_slice::<f64, u8>;
        if let Some(novelty_score) = &self.novelty_score {
            let similarities = bytemuck::cast_slice::<f32, u8>;
            list.extend([
                (array_names::NOVELTY_WEIGHTS, Dtype::F64, floats(&novelty_score.weights)),
                (array_names::NOVELTY_NEAREST, Dtype::F32, similarities(&novelty_score.nearest)),
            ]);
        }
        if let Some(calibration) = &self.calibration {
            let similarities = bytemuck::cast_slice(&calibration.similarities);
            list.extend([
                (array_names::CALIBRATION_WEIGHTS, Dtype::F64, floats(&calibration.weights)),
                (array_names::CALIBRATION_OFFSETS, Dtype::F64, floats(&calibration.offsets)),
                (array_names::CALIBRATION_SIMILARITIES, Dtype::F32, similarities),
            ]);
        }
        if let Some(profile) = &self.profile {
            let values = bytemuck::cast_slice::<f32, u8>;
            list.extend([
                (array_names::PROFILE_VALUES, Dtype::F32, values(&profile.values)),
                (array_names::PROFILE_SHARES, Dtype::F32, values(&profile.shares)),
            ]);
        }
        list
    }

    fn read(file: &mut Container, settings: &Settings) -> Result<Self, ModelProblem> {
        let kind = match settings.input {
            InputSpec::Text(_) => TermKind::Text,
            InputSpec::Features(_) | InputSpec::Vectors(_) => TermKind::Columns,
        };
        let terms = Strings::read(file, array_names::TERMS, array_names::TERM_OFFSETS)?;
        let frequencies = file.array(array_names::DOCUMENT_FREQUENCIES, Dtype::U32)?;
        let vocabulary =
            Vocabulary::new(kind, terms, frequencies).map_err(invalid(array_names::TERMS))?;
        let indptr: Array<u64> = file.array(array_names::ROW_BOUNDS, Dtype::U64)?;
        let indices: Array<u32> = file.array(array_names::ROW_TERMS, Dtype::U32)?;
        let data: Array<f32> = file.array(array_names::ROW_WEIGHTS, Dtype::F32)?;
        if indptr.first() != Some(&0) {
            return Err(invalid(array_names::ROW_BOUNDS)("it does not begin with 0".into()));
        }
        let rows = csr(vocabulary.len(), indptr, indices, data)
            .map_err(invalid(array_names::ROW_BOUNDS))?;
        let held_out = settings.tuning.as_ref().map_or(u64::MAX, |tuning| tuning.documents);
        let texts = file
            .has(array_names::TEXTS)
            .then(|| Strings::read(file, array_names::TEXTS, array_names::TEXT_OFFSETS));
        let calibration = if file.has("calibration.") {
            Some(Calibration {
                weights: file.array(array_names::CALIBRATION_WEIGHTS, Dtype::F64)?,
                offsets: file.array(array_names::CALIBRATION_OFFSETS, Dtype::F64)?,
                similarities: file.array(array_names::CALIBRATION_SIMILARITIES, Dtype::F32)?,
                documents: held_out,
            })
        } else {
            None
        };
        let profile = if file.has("profile.") {
            Some(TrainingProfile {
                values: file.array(array_names::PROFILE_VALUES, Dtype::F32)?,
                shares: file.array(array_names::PROFILE_SHARES, Dtype::F32)?,
                documents: held_out,
            })
        } else {
            None
        };
        let learned_votes = if file.has("votes.") {
            Some(LearnedVotes {
                starts: file.array(array_names::VOTE_STARTS, Dtype::U64)?,
                labels: file.array(array_names::VOTE_LABELS, Dtype::U32)?,
                vote_weights: file.array(array_names::VOTE_WEIGHTS, Dtype::F32)?,
                offsets: file.array(array_names::VOTE_OFFSETS, Dtype::F32)?,
                scales: file.array(array_names::VOTE_SCALES, Dtype::F32)?,
            })
        } else {
            None
        };
        let novelty_score = if file.has("foreign.") {
            Some(NoveltyScore {
                weights: file.array(array_names::NOVELTY_WEIGHTS, Dtype::F64)?,
                nearest: file.array(array_names::NOVELTY_NEAREST, Dtype::F32)?,
            })
        } else {
            None
        };
        let ids = Strings::read(file, array_names::IDS, array_names::ID_OFFSETS)?;
        let dense = match &settings.dense {
            None => None,
            Some(spec) => {
                let vectors = file.array(array_names::DENSE_VECTORS, Dtype::F32)?;
                let projection = file.has(array_names::DENSE_PROJECTION);
                let projection = projection
                    .then(|| file.array(array_names::DENSE_PROJECTION, Dtype::F32))
                    .transpose()?;
                let terms = vocabulary.len();
                Some(DensePart::checked(spec.clone(), ids.len(), vectors, terms, projection)?)
            }
        };
        Ok(Self {
            vocabulary: Arc::new(vocabulary),
            idf: file.array(array_names::IDF, Dtype::F64)?,
            term_factors: file
                .has(array_names::TERM_FACTORS)
                .then(|| file.array(array_names::TERM_FACTORS, Dtype::F32))
                .transpose()?,
            rows: Segmented::one(rows),
            label_names: Strings::read(file, array_names::LABELS, array_names::LABEL_OFFSETS)?,
            label_indptr: file.array(array_names::LABEL_BOUNDS, Dtype::U64)?,
            label_indices: file.array(array_names::LABEL_NUMBERS, Dtype::U32)?,
            ids,
            weights: file.array(array_names::DOCUMENT_WEIGHTS, Dtype::F32)?,
            texts: texts.transpose()?.map(Segmented::one),
            calibration,
            profile,
            novelty_score,
            learned_votes,
            prototypes: read_prototypes(file)?,
            dense,
        })
    }
}

fn read_prototypes(file: &mut Container) -> Result<Option<Prototypes>, ModelProblem> {
    if !file.has("prototypes.") {
        return Ok(None);
    }
    let scales: Array<f32> = if file.has(array_names::PROTOTYPE_VECTOR_SCALE) {
        file.array(array_names::PROTOTYPE_VECTOR_SCALE, Dtype::F32)?
    } else {
        Array::default()
    };
    Ok(Some(Prototypes {
        starts: file.array(array_names::PROTOTYPE_STARTS, Dtype::U64)?,
        labels: file.array(array_names::PROTOTYPE_LABELS, Dtype::U32)?,
        weights: file.array(array_names::PROTOTYPE_WEIGHTS, Dtype::F32)?,
        offsets: file.array(array_names::PROTOTYPE_OFFSETS, Dtype::F32)?,
        link: file.array(array_names::PROTOTYPE_LINK, Dtype::F32)?,
        vector_scale: scales.first().copied().unwrap_or(0.0),
    }))
}
