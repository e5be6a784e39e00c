//! Why training fails.

use super::features::FeatureError;
use crate::decide::decision::DecisionError;
use crate::search::SearchError;
use crate::text::corpus::CorpusError;

/// Why training failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// The corpus cannot be read, or contains nothing to learn from.
    #[error(transparent)]
    Corpus(#[from] CorpusError),
    /// The search failed.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// Conflicting options of the decision.
    #[error(transparent)]
    Decision(#[from] DecisionError),
    /// Texts are to be kept, but the model has none.
    #[error("--keep-text: the model is made of features or vectors, not of text")]
    NoText,
    /// Word vectors were given for a corpus without words.
    #[error("--word-vectors: this corpus has features and no text")]
    WordVectorsWithoutText,
    /// Counts were requested for a corpus of texts.
    #[error("--features counts: this corpus has texts, whose terms are counted anyway")]
    NoFeatures,
    /// A class weight for a label that no document has.
    #[error("--class-weight: no document has the label `{0}`")]
    UnknownLabel(String),
    /// Abstaining requires tuning.
    #[error("--abstain learns its limits by tuning: it needs --tune or `classify tune MODEL`")]
    AbstainNeedsTuning,
    /// There are too few documents that have only held-out labels.
    #[error(
        "--abstain foreign=…: fewer than 20 documents become foreign by leaving labels out: it \
         needs more documents, and several labels that do not go together"
    )]
    NoForeignDocuments,
    /// Part of a corpus does not suffice for this.
    #[error(
        "a part of a corpus is weighted by the document frequencies of the whole: tuning, term \
         selection, χ² and dense vectors need all documents"
    )]
    PartNeedsWhole,
    /// A part of a corpus has features.
    #[error("a part of a corpus of features cannot be weighted by the whole: only texts can")]
    PartOfFeatures,
    /// Learned votes require tuning.
    #[error("learned votes are learned by tuning: they need --tune or `classify tune MODEL`")]
    LearnedNeedsTuning,
    /// Prototypes cannot be asked for.
    #[error("the share of prototypes is chosen by --tune: leave /prototypes out of --vote")]
    PrototypesAreTuned,
    /// Learned votes conflict with deciding on whole batches.
    #[error("--vote learned conflicts with pcut: votes are learned for single documents")]
    LearnedByBatch,
    /// Abstaining conflicts with deciding on whole batches.
    #[error("--abstain conflicts with pcut: its limits apply to single documents")]
    AbstainByBatch,
    /// Label-size compensation conflicts with several labels.
    #[error("/size^ is for one label per document; label thresholds already account for sizes")]
    CompensationForSeveral,
    /// The model weights queries differently from documents, and has no texts to make queries of.
    #[error(
        "{weighting} weights queries differently from documents, and the model keeps no texts that \
         queries could be made of: train it with --keep-text and without --field, or tune while training, \
         with `classify train --tune=votes`"
    )]
    NotSymmetric {
        /// The weighting.
        weighting: String,
    },
}

impl From<FeatureError> for TrainError {
    fn from(error: FeatureError) -> Self {
        match error {
            FeatureError::Corpus(error) => Self::Corpus(error),
            FeatureError::Search(error) => Self::Search(error),
        }
    }
}
