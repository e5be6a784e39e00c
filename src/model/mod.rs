//! The model: everything that classification needs, frozen at training, and its file format.
//!
//! The file is a single safetensors file with a JSON document in its metadata; see
//! `models/README.md`. It is read into memory (or mapped, with [`Model::map`]) and validated
//! completely when opened: types, lengths, checksums, and every property that the rest of the
//! program relies on.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::decide::calibrate::{Abstention, Calibration, ForeignLimit, Strangeness};
use crate::decide::decision::{Decision, shares};
use crate::decide::vote::{LearnedVotes, PrototypeLearning, Prototypes, TrainingLabels, Vote};
use crate::rows::dense::{DenseFeatures, DensePart, DenseSpec};
use crate::rows::matrix::{Array, Csr, csr, row};
use crate::rows::strings::Strings;
use crate::text::analyze::{Analyzer, AnalyzerSpec};
use crate::text::corpus::ReadOptions;
use crate::text::counts::{Counts, Fields};
use crate::text::hierarchy::Hierarchy;
use crate::text::select::Selection;
use crate::text::tfidf::{RawRows, Side, TermWeights, Weighting};
use crate::text::vocabulary::Vocabulary;
use crate::threads::Threads;

pub(crate) mod array_names;
mod check;
mod collection;
mod dense_part;
mod error;
mod file;
mod journal;
pub(crate) mod joined;
mod tuning_summary;

pub use collection::{Change, ChangeError, Changed, Collection, NewDocument};
pub use error::{ModelError, ModelProblem};
use joined::Joined;
pub use journal::{JournalLock, UpdateError, UpdatedModel, journal_path};
pub use tuning_summary::TuningSummary;

/// Bump when a field or an array changes meaning. Older files must still load: see `models/`.
const VERSION: u32 = 9;
/// The version of models with prototypes.
const PROTOTYPES: u32 = 8;
/// The version of models with learned weights of terms.
const LEARNED_TERMS: u32 = 7;
/// The version of models whose documents changed.
const UPDATED: u32 = 6;
/// The version of models that are parts of a whole.
const PART: u32 = 5;
/// The version of models that are tuned.
const TUNED: u32 = 4;
/// The version of models with dense vectors that are not tuned.
const WITH_DENSE: u32 = 3;
/// The version of models with neither, which older programs can read.
const WITHOUT_DENSE: u32 = 2;
const FORMAT: &str = "classify.model";

/// The model's input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InputSpec {
    /// Text, analyzed with these settings.
    Text(AnalyzerSpec),
    /// Features by column.
    Features(FeatureSpec),
    /// Dense vectors only, which every document brings along.
    Vectors(VectorSpec),
}

/// How dense vectors are read if a corpus has them as features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VectorSpec {
    /// The number of the first column in svmlight files, 0 or 1.
    pub first_column: u32,
}

/// How features are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeatureSpec {
    /// Whether values are counts to be weighted; otherwise they are weights.
    pub counts: bool,
    /// The number of the first column in svmlight files, 0 or 1.
    pub first_column: u32,
}

/// The settings of a training run.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainSettings {
    /// The model's input.
    pub input: InputSpec,
    /// The fields of a text and their boosts.
    pub fields: Fields,
    /// How counts become weights.
    pub weighting: Weighting,
    /// The number of neighbors that vote.
    pub k: NonZeroUsize,
    /// How votes are weighted.
    pub vote: Vote,
    /// How labels are chosen.
    pub decision: Decision,
    /// The term selection, if any.
    pub selection: Option<Selection>,
    /// The results of tuning, if any.
    pub tuning: Option<TuningSummary>,
    /// When the model abstains; `None`: never.
    pub abstention: Option<Abstention>,
    /// The label hierarchy: ancestors of labels are added to training documents and predictions.
    pub hierarchy: Hierarchy,
}

impl Default for InputSpec {
    /// Text, analyzed with [`AnalyzerSpec::default`].
    fn default() -> Self {
        Self::Text(AnalyzerSpec::default())
    }
}

impl TrainSettings {
    /// `ltc` weights and 30 neighbors, which vote with their similarity.
    pub fn new(input: InputSpec, decision: Decision) -> Self {
        let (weighting, vote) = (Weighting::default(), Vote::default());
        Self {
            input,
            fields: Fields::Whole,
            weighting,
            k: Self::K,
            vote,
            decision,
            selection: None,
            tuning: None,
            abstention: None,
            hierarchy: Hierarchy::default(),
        }
    }

    /// The default number of neighbors.
    pub const K: NonZeroUsize = NonZeroUsize::new(30).expect("30 is not 0");
}

/// The size of a model.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelCounts {
    /// Training documents.
    pub documents: u64,
    /// The number of training documents without a label.
    pub unlabeled: u64,
    /// The number of training documents without a weighted term.
    pub empty: u64,
    /// Terms in the vocabulary.
    pub terms: u64,
    /// Labels.
    pub labels: u64,
    /// Nonzero weights.
    pub nonzeros: u64,
    /// The mean number of terms of a document, with repetitions.
    pub mean_length: f64,
}

/// The JSON document in the model's metadata.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    format: String,
    version: u32,
    /// The program that trained the model.
    pub created_by: String,
    /// The model's input.
    pub input: InputSpec,
    /// The fields of a text and their boosts (since version 2).
    #[serde(default)]
    pub fields: Fields,
    /// How counts become weights.
    pub weighting: Weighting,
    /// The exact formula of the weighting.
    pub formula: String,
    /// The number of neighbors that vote.
    pub k: NonZeroUsize,
    /// How votes are weighted.
    pub vote: Vote,
    /// How labels are chosen.
    pub decision: Decision,
    /// The term selection (since version 2).
    #[serde(default)]
    pub selection: Option<Selection>,
    /// The results of tuning, if k, vote and decision were tuned (since version 2).
    #[serde(default)]
    pub tuning: Option<TuningSummary>,
    /// When the model abstains (since version 2).
    #[serde(default)]
    pub abstention: Option<Abstention>,
    /// When the model refuses documents as foreign (since version 4).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign: Option<ForeignLimit>,
    /// The label hierarchy (since version 2).
    #[serde(default)]
    pub hierarchy: Hierarchy,
    /// The dense vectors, if the model has them (since version 3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dense: Option<DenseSpec>,
    /// The share of the neighbors by dense vectors in the votes, from 0 (terms only) to 1 (vectors only; since version 3).
    #[serde(default, skip_serializing_if = "is_none")]
    pub dense_share: f64,
    /// The number of documents of the corpus whose terms are weighted, if the model has only a part of them (since version 5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part_of: Option<u64>,
    /// How the documents differ from those that the model was trained on (since version 6).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updates: Option<Updates>,
    /// The size of the model.
    pub counts: ModelCounts,
    /// CRC-32 of every array, as eight hexadecimal digits; empty before the model is saved.
    pub checksums: BTreeMap<String, String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_none(share: &f64) -> bool {
    share.to_bits() == 0
}

/// How a model's documents differ from those that it was trained on (since version 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Updates {
    /// The number of documents that the weights of the terms were made of.
    pub weighed: u64,
    /// How many documents were added since the model was trained or last tuned.
    pub added: u64,
    /// How many were removed, those that were replaced included.
    pub removed: u64,
    /// How many were given other labels.
    pub relabeled: u64,
}

impl Updates {
    /// Whether the documents have changed since the model was trained or last tuned.
    pub fn are_any(&self) -> bool {
        self.added + self.removed + self.relabeled > 0
    }
}

/// A trained model, in memory or memory-mapped.
#[derive(Debug)]
pub struct Model {
    pub(crate) settings: Settings,
    pub(crate) arrays: Arrays,
    /// The number of training documents with each label.
    pub(crate) label_sizes: Vec<u32>,
}

/// The arrays of a model, before validation.
#[derive(Debug)]
pub(crate) struct Arrays {
    pub(crate) vocabulary: Arc<Vocabulary>,
    /// The weight of each term besides its count, its learned factor included.
    pub(crate) idf: Array<f64>,
    /// The learned factor of each term, if weights of terms were learned.
    pub(crate) term_factors: Option<Array<f32>>,
    pub(crate) rows: Joined<Csr>,
    pub(crate) label_names: Strings,
    pub(crate) label_indptr: Array<u64>,
    pub(crate) label_indices: Array<u32>,
    pub(crate) ids: Strings,
    pub(crate) weights: Array<f32>,
    pub(crate) texts: Option<Joined<Strings>>,
    pub(crate) calibration: Option<Calibration>,
    pub(crate) strangeness: Option<Strangeness>,
    pub(crate) learned_votes: Option<LearnedVotes>,
    pub(crate) prototypes: Option<Prototypes>,
    pub(crate) dense: Option<DensePart>,
}

/// What the learners of [`learn`](crate::learn) found, for a model to keep.
#[derive(Debug, Clone)]
pub(crate) struct Learned {
    /// The number of neighbors that vote.
    pub(crate) k: NonZeroUsize,
    /// How neighbors vote.
    pub(crate) vote: Vote,
    /// How scores become labels.
    pub(crate) decision: Decision,
    /// The share of the neighbors by dense vectors in the votes, from 0 to 1.
    pub(crate) dense_share: f64,
    /// The part of the report that the model keeps.
    pub(crate) summary: TuningSummary,
    /// From scores to probabilities.
    pub(crate) calibration: Calibration,
    /// When no answer is given.
    pub(crate) abstention: Option<Abstention>,
    /// When a document is refused because it has none of the known labels.
    pub(crate) novelty: Option<(ForeignLimit, Strangeness)>,
    /// Learned vote weights, if the vote uses them.
    pub(crate) votes: Option<LearnedVotes>,
    /// How label prototypes are learned, if they have a share in the scores.
    pub(crate) prototypes: Option<PrototypeLearning>,
}

impl Model {
    /// Weights counted documents and builds the model.
    ///
    /// The rows are weighted in place, without a second copy.
    ///
    /// # Panics
    /// Never: counts are valid by construction.
    pub fn of_counts(counts: Counts, settings: TrainSettings, threads: &Threads) -> Self {
        Self::with_term_factors(counts, settings, None, threads)
    }

    /// The same with learned factors of the weights of terms.
    pub(crate) fn with_term_factors(
        mut counts: Counts,
        settings: TrainSettings,
        term_factors: Option<Vec<f32>>,
        threads: &Threads,
    ) -> Self {
        let documents = counts.documents();
        let weighting = settings.weighting;
        let mut idf = counts.all_term_weights(weighting, threads);
        for (idf, &factor) in idf.iter_mut().zip(term_factors.iter().flatten()) {
            *idf *= f64::from(factor);
        }
        let mut rows = counts.take_rows(&settings.fields.boosts());
        let whole = counts.whole;
        let mean_length =
            whole.map_or_else(|| rows.mean_length(threads), |whole| whole.mean_length);
        let term_weights = TermWeights { idf: &idf, mean_length };
        weighting.weigh_rows(Side::Document, &mut rows, term_weights, threads);
        rows.indices.shrink_to_fit();
        rows.data.shrink_to_fit();
        let RawRows { indptr, indices: terms, data } = rows;
        let empty = indptr.windows(2).filter(|bounds| bounds[0] == bounds[1]).count() as u64;
        let unlabeled =
            counts.label_indptr.windows(2).filter(|bounds| bounds[0] == bounds[1]).count();
        let columns = counts.vocabulary.len();
        let rows = threads.run(|| csr(columns, indptr, terms, data));
        let arrays = Arrays {
            rows: Joined::one(rows.expect("rows in column order")),
            vocabulary: Arc::new(counts.vocabulary),
            idf: idf.into(),
            term_factors: term_factors.map(Into::into),
            label_names: counts.label_names.iter().collect(),
            label_indptr: counts.label_indptr.into(),
            label_indices: counts.label_indices.into(),
            ids: counts.ids,
            weights: counts.weights.into(),
            texts: counts.texts.map(Joined::one),
            calibration: None,
            strangeness: None,
            learned_votes: None,
            prototypes: None,
            dense: None,
        };
        let counts = ModelCounts {
            documents: documents as u64,
            unlabeled: unlabeled as u64,
            empty,
            terms: columns as u64,
            labels: counts.label_names.len() as u64,
            nonzeros: arrays.rows.whole().nnz() as u64,
            mean_length,
        };
        let label_sizes = arrays.label_sizes();
        let model = Self {
            label_sizes,
            settings: Settings {
                format: FORMAT.into(),
                version: WITHOUT_DENSE,
                created_by: concat!("classify ", env!("CARGO_PKG_VERSION")).into(),
                input: settings.input,
                fields: settings.fields,
                weighting,
                formula: if arrays.term_factors.is_some() {
                    format!(
                        "{}; multiplied by the term's learned factor before normalization",
                        weighting.formula()
                    )
                } else {
                    weighting.formula()
                },
                k: settings.k,
                vote: settings.vote,
                decision: settings.decision,
                selection: settings.selection,
                tuning: settings.tuning,
                abstention: settings.abstention,
                foreign: None,
                hierarchy: settings.hierarchy,
                dense: None,
                dense_share: 0.0,
                part_of: whole.map(|whole| whole.documents),
                updates: None,
                counts,
                checksums: BTreeMap::new(),
            },
            arrays,
        };
        // Dense vectors, the worths of votes and prototypes are added later.
        let vote = model.settings.vote;
        let later = vote.learned || vote.prototypes > 0.0;
        if !matches!(model.settings.input, InputSpec::Vectors(_)) && !later {
            debug_assert_eq!(model.check().map_err(|problem| problem.to_string()), Ok(()));
        }
        model
    }

    /// Adds dense vectors, and the share of their neighbors in the votes.
    #[must_use]
    pub(crate) fn with_dense(mut self, dense: DensePart, dense_share: f64) -> Self {
        self.settings.dense = Some(dense.spec().clone());
        self.settings.dense_share = dense_share;
        self.arrays.dense = Some(dense);
        debug_assert_eq!(self.check().map_err(|problem| problem.to_string()), Ok(()));
        self
    }

    /// Replaces everything that is learned by what was learned now.
    ///
    /// # Panics
    /// If the calibration is for another number of labels.
    #[must_use]
    pub(crate) fn with_learned(mut self, learned: Learned, threads: &Threads) -> Self {
        let labels = self.labels().len();
        assert_eq!(learned.calibration.check(labels), Ok(()), "one value per label");
        let (limit, strangeness) = learned.novelty.unzip();
        self.settings.dense_share = learned.dense_share;
        self.settings.k = learned.k;
        self.settings.vote = learned.vote;
        self.settings.decision = learned.decision;
        self.settings.tuning = Some(learned.summary);
        self.settings.abstention = learned.abstention;
        self.settings.foreign = limit;
        // Everything was learned from the present documents.
        let weighed = self.settings.updates.map(|updates| updates.weighed);
        self.settings.updates = weighed.map(|weighed| Updates { weighed, ..Updates::default() });
        self.arrays.calibration = Some(learned.calibration);
        self.arrays.strangeness = strangeness;
        self.arrays.learned_votes = learned.votes;
        self.with_prototypes(learned.prototypes, threads)
    }

    /// The model with the terms and rows of another one of the same documents; all that was learned stays.
    pub(crate) fn with_terms_of(&self, other: Self) -> Self {
        let arrays = Arrays {
            label_names: self.arrays.label_names.clone(),
            label_indptr: self.arrays.label_indptr.clone(),
            label_indices: self.arrays.label_indices.clone(),
            ids: self.arrays.ids.clone(),
            weights: self.arrays.weights.clone(),
            calibration: self.arrays.calibration.clone(),
            strangeness: self.arrays.strangeness.clone(),
            learned_votes: self.arrays.learned_votes.clone(),
            prototypes: None,
            dense: self.arrays.dense.clone(),
            ..other.arrays
        };
        let updates = self.settings.updates.unwrap_or_default();
        let settings = Settings {
            formula: other.settings.formula,
            part_of: None,
            updates: Some(Updates { weighed: self.settings.counts.documents, ..updates }),
            counts: ModelCounts { labels: self.settings.counts.labels, ..other.settings.counts },
            ..self.settings.clone()
        };
        Self { settings, arrays, label_sizes: self.label_sizes.clone() }
    }

    /// Learns the prototypes of labels from the rows, if the vote counts them; otherwise there are none.
    #[must_use]
    pub(crate) fn with_prototypes(
        mut self,
        learning: Option<PrototypeLearning>,
        threads: &Threads,
    ) -> Self {
        self.arrays.prototypes = learning.map(|learning| {
            let (rows, among) = (self.rows().view(), self.training_labels());
            Prototypes::learn(&rows, &among, |_| true, learning, threads)
        });
        self
    }

    /// The prototypes of labels, if the vote counts them.
    pub fn prototypes(&self) -> Option<&Prototypes> {
        self.arrays.prototypes.as_ref()
    }

    /// What votes are worth, if that was learned.
    pub fn learned_votes(&self) -> Option<&LearnedVotes> {
        self.arrays.learned_votes.as_ref()
    }

    /// The learned factors of a vocabulary's terms; 1 for a term that is new.
    pub(crate) fn term_factors_of(&self, vocabulary: &Vocabulary) -> Option<Vec<f32>> {
        let factors = self.arrays.term_factors.as_ref()?;
        let factor = |term: &str| self.vocabulary().id(term).map_or(1.0, |id| factors[id as usize]);
        let terms = (0u32..).take(vocabulary.len());
        Some(terms.map(|id| vocabulary.term(id).map_or(1.0, factor)).collect())
    }

    /// Whether the weights of terms have learned factors.
    pub fn learned_terms(&self) -> bool {
        self.arrays.term_factors.is_some()
    }

    /// How strange a document is, if the model refuses foreign documents.
    pub fn strangeness(&self) -> Option<&Strangeness> {
        self.arrays.strangeness.as_ref()
    }

    /// The calibration from scores to probabilities, if the model is calibrated.
    pub fn calibration(&self) -> Option<&Calibration> {
        self.arrays.calibration.as_ref()
    }

    /// The settings of the training run and the size of the model.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The terms.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.arrays.vocabulary
    }

    /// The weighted training rows: documents × terms.
    pub fn rows(&self) -> &Arc<Csr> {
        self.arrays.rows.whole()
    }

    /// The dense vectors, if the model has them.
    pub fn dense(&self) -> Option<&DensePart> {
        self.arrays.dense.as_ref()
    }

    /// The number of the first column of features.
    pub(crate) fn first_column(&self) -> u32 {
        match &self.settings.input {
            InputSpec::Text(_) => 1,
            InputSpec::Features(spec) => spec.first_column,
            InputSpec::Vectors(spec) => spec.first_column,
        }
    }

    /// Whether documents have terms: not if the model has [given vectors only](InputSpec::Vectors).
    pub fn has_terms(&self) -> bool {
        !matches!(self.settings.input, InputSpec::Vectors(_))
    }

    /// Whether terms are searched, not only made into vectors.
    pub fn searches_terms(&self) -> bool {
        self.has_terms() && self.dense().is_none_or(|dense| !dense.spec().alone)
    }

    /// Whether both terms and dense vectors are searched, so that they share the votes.
    pub fn searches_both(&self) -> bool {
        self.searches_terms() && self.dense().is_some()
    }

    /// A checksum of everything that a document's vector depends on: analysis, vocabulary,
    /// weighting and projection.
    pub(crate) fn fingerprint(&self) -> String {
        let Settings { input, fields, weighting, .. } = &self.settings;
        let mut hasher = crc32fast::Hasher::new();
        let (terms, offsets) = self.vocabulary().terms().parts();
        let settings = serde_json::to_vec(&(input, fields, weighting));
        hasher.update(&settings.expect("settings were read from JSON or will be written as it"));
        hasher.update(&self.settings.counts.mean_length.to_le_bytes());
        hasher.update(terms);
        hasher.update(bytemuck::cast_slice(offsets));
        hasher.update(bytemuck::cast_slice(&self.arrays.idf));
        if let Some(dense) = self.dense() {
            let spec = serde_json::to_vec(dense.spec());
            hasher.update(&spec.expect("settings were read from JSON or will be written as it"));
            let terms =
                dense.projection().map_or(&[][..], |projection| projection.terms().values());
            hasher.update(bytemuck::cast_slice(terms));
        }
        format!("{:08x}", hasher.finalize())
    }

    /// The term weights for queries.
    pub(crate) fn term_weights(&self) -> TermWeights<'_> {
        let mean_length = self.settings.counts.mean_length;
        TermWeights { idf: &self.arrays.idf, mean_length }
    }

    /// The label names by number, in byte order.
    pub fn labels(&self) -> &Strings {
        &self.arrays.label_names
    }

    /// The labels of training document `row`, in increasing order.
    ///
    /// # Panics
    /// If there is no such document.
    pub fn document_labels(&self, row: u32) -> &[u32] {
        let row = row as usize;
        let bounds = &self.arrays.label_indptr[row..=row + 1];
        &self.arrays.label_indices[bounds_of(bounds[0], bounds[1])]
    }

    /// The identifiers of the training documents.
    pub fn ids(&self) -> &Strings {
        &self.arrays.ids
    }

    /// The weights of the training documents in a vote.
    pub fn document_weights(&self) -> &[f32] {
        &self.arrays.weights
    }

    /// The number of training documents with each label.
    pub fn label_sizes(&self) -> &[u32] {
        &self.label_sizes
    }

    /// The share of the training documents with each label.
    pub fn label_shares(&self) -> Vec<f64> {
        shares(&self.label_sizes, self.ids().len())
    }

    /// The labels and weights of the training documents, for voting.
    pub fn training_labels(&self) -> TrainingLabels<'_> {
        TrainingLabels {
            indptr: &self.arrays.label_indptr,
            indices: &self.arrays.label_indices,
            weights: &self.arrays.weights,
            sizes: &self.label_sizes,
        }
    }

    /// The texts of the training documents, if they were kept.
    pub fn texts(&self) -> Option<&Strings> {
        self.arrays.texts.as_ref().map(|texts| &**texts.whole())
    }

    /// The text of training document `row`, if it was kept.
    ///
    /// # Panics
    /// If there is no such document.
    pub fn text(&self, row: u32) -> Option<&str> {
        let (texts, own) = self.arrays.texts.as_ref()?.of(row);
        texts.get(own)
    }

    /// Whether the texts of the training documents were kept.
    pub fn keeps_texts(&self) -> bool {
        self.arrays.texts.is_some()
    }

    /// Adjusts reading options so that documents are read as the model requires; explicit options
    /// are kept.
    pub fn fit_read_options(&self, options: &mut ReadOptions) {
        match self.settings.input {
            InputSpec::Text(_) => options.text_only = true,
            InputSpec::Features(spec) => {
                options.first_column = options.first_column.or(Some(spec.first_column));
            }
            InputSpec::Vectors(spec) => {
                options.first_column = options.first_column.or(Some(spec.first_column));
                options.text_optional = true;
            }
        }
        if let Some(DenseFeatures::Given { field }) =
            self.settings.dense.as_ref().map(|dense| &dense.features)
            && options.vector_field.is_none()
            && options.vectors_beside.is_none()
        {
            options.vector_field.clone_from(field);
        }
        if options.text_columns.is_empty() {
            self.settings.fields.read_apart(options);
        }
    }

    /// The analyzer, if the model was trained on text.
    pub fn analyzer(&self) -> Option<Analyzer> {
        match &self.settings.input {
            InputSpec::Text(spec) => Some(Analyzer::new(spec.clone())),
            InputSpec::Features(_) | InputSpec::Vectors(_) => None,
        }
    }

    /// The terms and weights of training document `row`, in order of terms.
    ///
    /// # Panics
    /// If there is no such document.
    pub fn document_terms(&self, row_number: u32) -> (&[u32], &[f32]) {
        let (rows, own) = self.arrays.rows.of(row_number);
        row(&rows.view(), own)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "checked against arrays in memory")]
fn bounds_of(start: u64, end: u64) -> Range<usize> {
    start as usize..end as usize
}

impl Arrays {
    pub(crate) fn label_sizes(&self) -> Vec<u32> {
        let mut sizes = vec![0; self.label_names.len()];
        for &label in &*self.label_indices {
            // A damaged file may contain invalid labels; this is checked later.
            if let Some(size) = sizes.get_mut(label as usize) {
                *size += 1;
            }
        }
        sizes
    }
}
