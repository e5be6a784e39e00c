//! The errors of training.

use super::features::FeatureError;
use crate::classifier::ClassifyError;
use crate::decide::decision::DecisionError;
use crate::search::SearchError;
use crate::text::corpus::CorpusError;

/// An error that stopped training.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// The corpus cannot be read, or contains nothing to learn from.
    #[error(transparent)]
    Corpus(#[from] CorpusError),
    /// The search failed.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// The operating system could not start a thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
    /// The decision options conflict.
    #[error(transparent)]
    Decision(#[from] DecisionError),
    /// The options request stored texts, but the corpus has none.
    #[error("texts cannot be kept: the corpus has features or vectors, but no text")]
    NoText,
    /// Word vectors were given for a corpus without words.
    #[error("word vectors need texts, but this corpus has features")]
    WordVectorsWithoutText,
    /// Counts were requested for a corpus of texts.
    #[error("counts apply to features, but this corpus has texts, whose terms are always counted")]
    NoFeatures,
    /// A class weight was set for a label that no document has.
    #[error("a class weight names the label `{0}`, which no document has")]
    UnknownLabel(String),
    /// The options request abstaining, but tuning is off.
    #[error("abstaining needs tuning, which is off: tuning learns the confidence limit")]
    AbstainNeedsTuning,
    /// Fewer than 20 documents become novel when their labels are held out.
    #[error(
        "fewer than 20 documents are novel when their labels are held out: a limit for novel \
         documents needs more documents, and several labels that do not occur together"
    )]
    NoNovelDocuments,
    /// A limit for novel documents was requested for a corpus with fewer than four labels.
    #[error(
        "a limit for novel documents needs at least four labels, and the corpus has {labels}: \
         each label is held out in turn, and documents of one label are all alike"
    )]
    NoveltyNeedsLabels {
        /// The number of labels.
        labels: usize,
    },
    /// Tuning, term selection, χ² or dense vectors were requested for a part of a corpus.
    #[error(
        "a part of a corpus is weighted by the document frequencies of the whole: tuning, term \
         selection, χ² and dense vectors need all documents"
    )]
    PartNeedsWhole,
    /// A part of a corpus has features.
    #[error("a part of a corpus of features cannot be weighted by the whole: only texts can")]
    PartOfFeatures,
    /// The options request learned vote weights, but tuning is off.
    #[error("learned vote weights need tuning, which is off")]
    LearnedNeedsTuning,
    /// The options set the share of the label prototypes, which only tuning can choose.
    #[error("the share of label prototypes is chosen by tuning and cannot be set")]
    PrototypesAreTuned,
    /// Learned vote weights conflict with a decision on a whole batch.
    #[error("learned vote weights conflict with PCut, which decides on a whole batch")]
    LearnedByBatch,
    /// Abstaining conflicts with a decision on a whole batch.
    #[error("abstaining conflicts with PCut, which decides on a whole batch")]
    AbstainByBatch,
    /// Label-size compensation conflicts with a multi-label decision.
    #[error(
        "label-size compensation is for one label per document; label thresholds already account \
         for sizes"
    )]
    CompensationForMultiLabel,
    /// The model weights queries differently from documents, and stores no texts from which to
    /// build queries.
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

impl From<ClassifyError> for TrainError {
    fn from(error: ClassifyError) -> Self {
        match error {
            ClassifyError::Document(error) => error.into(),
            ClassifyError::Search(error) => error.into(),
        }
    }
}
