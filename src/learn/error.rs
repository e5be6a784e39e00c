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
    #[error("texts cannot be kept: the model is made of features or vectors, not of text")]
    NoText,
    /// Word vectors were given for a corpus without words.
    #[error("word vectors need text, but this corpus has features")]
    WordVectorsWithoutText,
    /// Counts were requested for a corpus of texts.
    #[error("counts were requested, but the terms of texts are always counted")]
    NoFeatures,
    /// A class weight for a label that no document has.
    #[error("class weights: no document has the label `{0}`")]
    UnknownLabel(String),
    /// Abstaining requires tuning.
    #[error("limits for abstaining are learned by tuning, which is off")]
    AbstainNeedsTuning,
    /// No documents become foreign by leaving their labels out.
    #[error(
        "fewer than 20 documents become foreign by leaving labels out: a limit for foreign \
         documents needs more documents, and several labels that do not go together"
    )]
    NoForeignDocuments,
    /// A part of a corpus does not tell what the whole does.
    #[error(
        "a part of a corpus is weighted by the document frequencies of the whole: tuning, term \
         selection, χ² and dense vectors need all documents"
    )]
    PartNeedsWhole,
    /// A part of a corpus has features.
    #[error("a part of a corpus of features cannot be weighted by the whole: only texts can")]
    PartOfFeatures,
    /// Learned votes require tuning.
    #[error("vote weights are learned by tuning, which is off")]
    LearnedNeedsTuning,
    /// Prototypes cannot be asked for.
    #[error("tuning chooses the share of prototypes: leave it out of the vote")]
    PrototypesAreTuned,
    /// Learned votes conflict with deciding on whole batches.
    #[error("learned votes conflict with pcut: votes are learned for single documents")]
    LearnedByBatch,
    /// Abstaining conflicts with deciding on whole batches.
    #[error("abstaining conflicts with pcut: its limits apply to single documents")]
    AbstainByBatch,
    /// Label-size compensation conflicts with several labels.
    #[error("/size^ is for one label per document; label thresholds already account for sizes")]
    CompensationForSeveral,
    /// The model weights queries differently from documents, and has no texts to make queries of.
    #[error(
        "{weighting} weights queries differently from documents, and the model keeps no texts that \
         queries could be made of: keep whole texts in training, or tune while training"
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
