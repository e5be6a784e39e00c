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
    /// The operating system cannot start threads.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
    /// Conflicting options of the decision.
    #[error(transparent)]
    Decision(#[from] DecisionError),
    /// Texts are to be kept, but the model has none.
    #[error("texts cannot be kept: the model is made of features or vectors, not of text")]
    NoText,
    /// Word vectors were given for a corpus without words.
    #[error("word vectors need texts, but this corpus has features")]
    WordVectorsWithoutText,
    /// Counts were requested for a corpus of texts.
    #[error("counts were requested, but this corpus has texts, whose terms are counted anyway")]
    NoFeatures,
    /// A class weight was set for a label that no document has.
    #[error("a class weight names the label `{0}`, which no document has")]
    UnknownLabel(String),
    /// Abstaining requires tuning.
    #[error("limits for abstaining are learned by tuning, which is off")]
    AbstainNeedsTuning,
    /// Too few documents become novel when their labels are held out.
    #[error(
        "fewer than 20 documents are novel when their labels are held out: a limit for novel \
         documents needs more documents, and several labels that do not occur together"
    )]
    NoNovelDocuments,
    /// A limit for novel documents was requested for a corpus with fewer than three labels.
    #[error(
        "a limit for novel documents needs at least three labels, and the corpus has {labels}: \
         each label is held out in turn, and documents of one label are all alike"
    )]
    NoveltyNeedsLabels {
        /// The number of labels.
        labels: usize,
    },
    /// A part of a corpus cannot determine what the whole corpus determines.
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
    /// The share of prototypes was set.
    #[error("the share of label prototypes is chosen by tuning and cannot be set")]
    PrototypesAreTuned,
    /// Learned votes conflict with deciding on whole batches.
    #[error("learned votes conflict with PCut: vote weights are learned for single documents")]
    LearnedByBatch,
    /// Abstaining conflicts with deciding on whole batches.
    #[error("abstaining conflicts with PCut: its limits apply to single documents")]
    AbstainByBatch,
    /// Label-size compensation conflicts with multi-label decisions.
    #[error(
        "label-size compensation is for one label per document; label thresholds already account \
         for sizes"
    )]
    CompensationForSeveral,
    /// The model weights queries differently from documents, and has no texts to build queries
    /// from.
    #[error(
        "{weighting} weights queries differently from documents, and the model keeps no texts from \
         which queries could be made"
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
