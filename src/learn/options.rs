//! The options of training and tuning.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use crate::decide::decision::DecisionOptions;
use crate::decide::objective::Objective;
use crate::decide::vote::Vote;
use crate::model::FeatureSpec;
use crate::rows::dense::{EncoderSpec, Metric};
use crate::text::analyze::AnalyzerSpec;
use crate::text::corpus::ReadingSpec;
use crate::text::counts::{ClassWeights, CorpusStatistics, Fields, TermLimits};
use crate::text::hierarchy::Hierarchy;
use crate::text::select::Selection;
use crate::text::tfidf::Weighting;

/// The options that determine the trained model.
#[derive(Debug, Clone)]
pub struct TrainOptions {
    /// How text is converted to terms.
    pub analyzer: AnalyzerSpec,
    /// The fields of a text and their boosts.
    pub fields: Fields,
    /// How features are read, if the corpus consists of features.
    pub features: FeatureSpec,
    /// Dense vectors, if the model has them.
    pub dense: Option<DenseOptions>,
    /// The share of the votes that goes to neighbors found by dense vectors, from 0 to 1, for
    /// models with both terms and vectors. `None`: one half, or chosen by tuning.
    pub dense_share: Option<f64>,
    /// How counts are converted to weights.
    pub weighting: Weighting,
    /// Which terms enter the vocabulary.
    pub limits: TermLimits,
    /// How the terms most informative about the labels are selected; `None`: all terms are kept.
    pub selection: Option<Selection>,
    /// The weight of each label's documents in the vote.
    pub class_weights: Option<ClassWeights>,
    /// The label hierarchy.
    pub hierarchy: Hierarchy,
    /// How the corpus was read; stored in the model.
    pub reading: ReadingSpec,
    /// The number of neighbors that vote; `None`: 30, or chosen by tuning.
    pub k: Option<NonZeroUsize>,
    /// How votes are weighted; `None`: by similarity, or chosen by tuning.
    pub vote: Option<Vote>,
    /// How labels are chosen.
    pub decision: DecisionOptions,
    /// The target share of wrong labels, from 0 to 1, which the model reaches by abstaining. Needs
    /// tuning.
    pub target_error: Option<f64>,
    /// Maximum share of documents with known labels that may be rejected as out-of-distribution,
    /// from 0 to 1.
    pub novelty: Option<f64>,
    /// The options for tuning; `None`: tuning is off. The default is [`TuneOptions::quick`].
    pub tuning: Option<TuneOptions>,
    /// Whether the model keeps the texts of the documents.
    pub keep_text: bool,
    /// The terms of a whole corpus that includes the documents. Term weights come from the whole
    /// corpus, and the term limits are not applied.
    pub part_of: Option<Arc<CorpusStatistics>>,
}

impl Default for TrainOptions {
    fn default() -> Self {
        Self {
            analyzer: AnalyzerSpec::default(),
            fields: Fields::Whole,
            features: FeatureSpec { counts: false, first_column: 1 },
            dense: None,
            dense_share: None,
            weighting: Weighting::default(),
            limits: TermLimits::default(),
            selection: None,
            class_weights: None,
            hierarchy: Hierarchy::default(),
            reading: ReadingSpec::default(),
            k: None,
            vote: None,
            decision: DecisionOptions::default(),
            target_error: None,
            novelty: None,
            tuning: Some(TuneOptions::quick()),
            keep_text: false,
            part_of: None,
        }
    }
}

impl TrainOptions {
    /// Whether documents are compared only by dense vectors.
    pub fn has_no_terms(&self) -> bool {
        self.dense.as_ref().is_some_and(DenseOptions::is_alone)
    }

    /// Whether documents need no text: they have no terms, and no encoder reads their text.
    pub fn needs_no_text(&self) -> bool {
        let source = self.dense.as_ref().map(|dense| &dense.source);
        self.has_no_terms() && matches!(source, Some(DenseSource::Given { encoder: None, .. }))
    }
}

/// Dense vectors for a model.
#[derive(Debug, Clone, PartialEq)]
pub struct DenseOptions {
    /// The source of the vectors.
    pub source: DenseSource,
    /// The distance between vectors.
    pub metric: Metric,
    /// Whether the model also searches terms, so that neighbors found by terms and by vectors vote
    /// together.
    pub with_terms: bool,
}

/// The source of dense vectors.
#[derive(Debug, Clone, PartialEq)]
pub enum DenseSource {
    /// The vectors are given with the documents, as
    /// [`Document::vector`](crate::text::corpus::Document::vector), or as features.
    Given {
        /// The field of a JSONL, CSV or TSV corpus that contains the vectors; stored in the model.
        field: Option<String>,
        /// The encoder that computes the vectors when documents are read; stored in the model.
        encoder: Option<EncoderSpec>,
    },
    /// Latent semantic analysis of the weighted terms.
    Lsa {
        /// The number of dimensions.
        dimensions: usize,
        /// The seed of the random initialization.
        seed: u64,
    },
    /// A file of word vectors.
    WordVectors(PathBuf),
}

impl DenseOptions {
    /// Whether the model has dense vectors only, and no terms.
    pub fn is_alone(&self) -> bool {
        !self.with_terms && !self.is_projected()
    }

    /// Whether the vectors are computed from the terms.
    pub(super) fn is_projected(&self) -> bool {
        !matches!(self.source, DenseSource::Given { .. })
    }
}

/// The scope of tuning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TuneScope {
    /// k, vote and, for multi-label corpora, one threshold, chosen from a small grid on a sample of
    /// the documents. The defaults are kept if no other setting is clearly better. They are also
    /// kept for corpora with fewer than 100 documents and for very large corpora.
    Quick,
    /// k, vote, learned vote weights and decision, on all documents.
    Votes,
    /// The features, in addition to the settings of [`Votes`](Self::Votes).
    All,
}

/// Options for tuning.
#[derive(Debug, Clone, Copy)]
pub struct TuneOptions {
    /// Which settings to choose.
    pub scope: TuneScope,
    /// Which features may be changed.
    pub free: TunableFeatures,
    /// Number of documents held out to compare features, or to choose all settings in
    /// [`TuneScope::Quick`].
    pub sample: usize,
    /// The objective to maximize.
    pub objective: Objective,
    /// The largest k to try; at most the number of other documents is used.
    pub k_max: NonZeroUsize,
    /// Which documents cannot be neighbors of each other while tuning.
    pub near_duplicates: NearDuplicateLimit,
    /// Whether the documents are in chronological order; `None`: determined from the data.
    pub time_order: Option<bool>,
    /// Whether small corpora are cross-validated, to estimate the metrics of new documents. This
    /// takes several times as long as tuning itself.
    pub cross_validate: bool,
}

impl Default for TuneOptions {
    fn default() -> Self {
        Self {
            scope: TuneScope::All,
            free: TunableFeatures::default(),
            sample: 4_000,
            objective: Objective::default(),
            k_max: NonZeroUsize::new(200).expect("200 is not 0"),
            near_duplicates: NearDuplicateLimit::default(),
            time_order: None,
            cross_validate: true,
        }
    }
}

impl TuneOptions {
    /// Returns the default for training: [`TuneScope::Quick`] on 2,000 documents.
    pub fn quick() -> Self {
        Self { scope: TuneScope::Quick, sample: 2_000, ..Self::default() }
    }
}

/// The features that tuning may change. By default it may change all of them.
#[expect(clippy::struct_excessive_bools, reason = "one switch per feature")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TunableFeatures {
    /// Stemming and n-grams.
    pub analyzer: bool,
    /// The weighting and the exponent of the idf.
    pub weighting: bool,
    /// The exponent of the χ² weights.
    pub chi2_power: bool,
    /// The selection of terms.
    pub selection: bool,
}

impl Default for TunableFeatures {
    fn default() -> Self {
        Self { analyzer: true, weighting: true, chi2_power: true, selection: true }
    }
}

/// The cosine above which documents are near-duplicates.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum NearDuplicateLimit {
    /// The threshold is estimated from the data.
    #[default]
    Found,
    /// Near-duplicates are not excluded.
    Off,
    /// A fixed threshold, from 0 to 1.
    Above(f32),
}
