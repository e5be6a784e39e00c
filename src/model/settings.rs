//! The settings of a model: the JSON document in its file.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

use super::TuningSummary;
use crate::decide::calibrate::{ConfidenceLimit, NoveltyLimit};
use crate::decide::decision::Decision;
use crate::decide::vote::Vote;
use crate::rows::dense::DenseSpec;
use crate::text::analyze::{Analyzer, AnalyzerSpec};
use crate::text::corpus::ReadingSpec;
use crate::text::counts::{Fields, Input};
use crate::text::hierarchy::Hierarchy;
use crate::text::select::Selection;
use crate::text::tfidf::Weighting;

/// The version of the model file format. Increment it if the meaning of a field or an array
/// changes.
pub(super) const VERSION: u32 = 1;
pub(super) const FORMAT: &str = "classify.model";

/// The model's input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InputSpec {
    /// Text, analyzed with these settings.
    Text(AnalyzerSpec),
    /// Features, identified by their columns.
    Features(FeatureSpec),
    /// Dense vectors only, which every document provides.
    Vectors(VectorSpec),
}

impl InputSpec {
    /// Returns how documents are counted for a model with this input.
    pub fn counting(&self, fields: &Fields) -> Input {
        match self {
            Self::Text(spec) => {
                Input::Text { analyzer: Analyzer::new(spec.clone()), fields: fields.clone() }
            }
            Self::Features(spec) => Input::Features { counts: spec.counts },
            Self::Vectors(_) => Input::Nothing,
        }
    }
}

/// Settings for reading dense vectors that a corpus provides as features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VectorSpec {
    /// The number of the first column in svmlight files, 0 or 1.
    pub first_column: u32,
}

/// Settings for reading features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeatureSpec {
    /// Whether values are counts, which must still be weighted, rather than weights.
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
    /// The weighting scheme, which converts counts to weights.
    pub weighting: Weighting,
    /// The number of neighbors that vote.
    pub k: NonZeroUsize,
    /// The vote rule.
    pub vote: Vote,
    /// The decision rule.
    pub decision: Decision,
    /// The term selection, if any.
    pub selection: Option<Selection>,
    /// The results of tuning, if any.
    pub tuning: Option<TuningSummary>,
    /// The confidence limit below which the model abstains; `None` if it never abstains.
    pub abstention: Option<ConfidenceLimit>,
    /// The label hierarchy: ancestors of labels are added to training documents and predictions.
    pub hierarchy: Hierarchy,
    /// The settings for reading the corpus.
    pub reading: ReadingSpec,
}

impl Default for InputSpec {
    /// Returns text input, analyzed with [`AnalyzerSpec::default`].
    fn default() -> Self {
        Self::Text(AnalyzerSpec::default())
    }
}

impl TrainSettings {
    /// Creates default settings: `ltc` weights, and 30 neighbors that vote with their similarity.
    pub fn new(input: InputSpec, decision: Decision) -> Self {
        Self {
            input,
            fields: Fields::Whole,
            weighting: Weighting::default(),
            k: Self::K,
            vote: Vote::default(),
            decision,
            selection: None,
            tuning: None,
            abstention: None,
            hierarchy: Hierarchy::default(),
            reading: ReadingSpec::default(),
        }
    }

    /// The default number of neighbors.
    pub const K: NonZeroUsize = NonZeroUsize::new(30).expect("30 is not 0");
}

/// The size of a model.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelCounts {
    /// The number of training documents.
    pub documents: u64,
    /// The number of training documents without a label.
    pub unlabeled: u64,
    /// The number of training documents without a weighted term.
    pub empty: u64,
    /// The number of terms in the vocabulary.
    pub terms: u64,
    /// The number of labels.
    pub labels: u64,
    /// The number of nonzero weights.
    pub nonzeros: u64,
    /// The mean number of terms of a document, counting repetitions.
    pub mean_length: f64,
}

/// The JSON document in the model's metadata.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    pub(super) format: String,
    pub(super) version: u32,
    /// The program that trained the model.
    pub created_by: String,
    /// The model's input.
    pub input: InputSpec,
    /// The fields of a text and their boosts.
    pub fields: Fields,
    /// The weighting scheme, which converts counts to weights.
    pub weighting: Weighting,
    /// The exact formula of the weighting.
    pub formula: String,
    /// The number of neighbors that vote.
    pub k: NonZeroUsize,
    /// The vote rule.
    pub vote: Vote,
    /// The decision rule.
    pub decision: Decision,
    /// The term selection, if any.
    pub selection: Option<Selection>,
    /// The results of tuning, if k, vote and decision were tuned.
    pub tuning: Option<TuningSummary>,
    /// The confidence limit below which the model abstains; `None` if it never abstains.
    pub abstention: Option<ConfidenceLimit>,
    /// The limit of the novelty score; `None` if the model never refuses out-of-distribution
    /// documents.
    #[serde(rename = "foreign", skip_serializing_if = "Option::is_none")]
    pub novelty: Option<NoveltyLimit>,
    /// The label hierarchy.
    pub hierarchy: Hierarchy,
    /// The settings with which the corpus was read. They also apply to corpora read later.
    #[serde(default, skip_serializing_if = "ReadingSpec::is_default")]
    pub reading: ReadingSpec,
    /// The dense vectors, if the model has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dense: Option<DenseSpec>,
    /// The share of the votes for neighbors found by dense vectors, from 0 (terms only) to 1
    /// (vectors only).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dense_share: f64,
    /// The number of documents in the corpus from which term weights were computed, if the model
    /// has only some of these documents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part_of: Option<u64>,
    /// The changes to the documents since training, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updates: Option<Updates>,
    /// The size of the model.
    pub counts: ModelCounts,
    /// CRC-32 of every array, as eight hexadecimal digits; empty before the model is saved.
    pub checksums: BTreeMap<String, String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(share: &f64) -> bool {
    share.to_bits() == 0
}

/// The changes to a model's documents since training or the last tuning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Updates {
    /// The number of documents from which term weights were computed.
    pub weighed: u64,
    /// Number of documents added since the model was trained or last tuned.
    pub added: u64,
    /// Number of documents removed or replaced.
    pub removed: u64,
    /// Number of relabeled documents.
    pub relabeled: u64,
}

impl Settings {
    /// Whether label prototypes are learned from terms. Without cosines of terms, they are learned
    /// from dense vectors alone.
    pub(super) fn prototypes_use_terms(&self) -> bool {
        let is_alone = self.dense.as_ref().is_some_and(|dense| dense.alone);
        !is_alone && self.weighting.is_cosine() && self.weighting.is_symmetric()
    }
}

impl Updates {
    /// Whether the documents have changed since the model was trained or last tuned.
    pub fn is_changed(&self) -> bool {
        self.added + self.removed + self.relabeled > 0
    }
}
