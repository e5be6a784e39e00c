//! The input and the result of a search of features.

use std::num::NonZeroUsize;
use std::ops::Range;

use crate::learn::held_out::{Exclusion, LeaveOneOut};
use crate::learn::options::FreeFeatures;
use crate::learn::training_rows::{Counted, Features, HoldOutSearch, labels_of};
use crate::learn::votes::{Grid, Trial, search_grid};
use crate::model::InputSpec;
use crate::search::{Engines, SearchError};
use crate::text::analyze::AnalyzerSpec;
use crate::text::corpus::CorpusError;
use crate::text::counts::{Counts, Fields};

/// The features that may be changed.
#[expect(clippy::struct_excessive_bools, reason = "six dimensions, each free or not")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::learn) struct Free {
    /// Stems and word pairs.
    pub analyzer: bool,
    /// The boost of the first line.
    pub title: bool,
    /// The weighting and the exponent of the idf.
    pub weighting: bool,
    /// The exponent of χ².
    pub chi2_power: bool,
    /// The selection of terms.
    pub selection: bool,
    /// Learned weights of terms.
    pub term_weights: bool,
}

impl Free {
    /// Returns which of the requested features of a corpus can be changed.
    pub(in crate::learn) fn for_corpus(
        free: FreeFeatures,
        input: &InputSpec,
        counts: &Counts,
    ) -> Self {
        let is_text = matches!(input, InputSpec::Text(_));
        let is_weighted = match input {
            InputSpec::Text(_) => false,
            InputSpec::Features(spec) => !spec.counts,
            InputSpec::Vectors(_) => true,
        };
        Self {
            analyzer: is_text && free.analyzer,
            title: is_text && counts.has_titles(),
            weighting: free.weighting && !is_weighted,
            chi2_power: free.chi2_power,
            selection: free.selection,
            term_weights: free.weighting,
        }
    }
}

/// A feature that was tried.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Step {
    /// The change.
    pub change: String,
    /// The leave-one-out metrics of the best vote on the held-out documents.
    #[serde(flatten)]
    pub trial: Trial,
    /// The number of documents that were held out.
    pub documents: usize,
    /// Whether it was kept as the best so far.
    pub kept: bool,
}

/// Why features cannot be tried.
#[derive(Debug, thiserror::Error)]
pub enum FeatureError {
    /// The corpus cannot be counted.
    #[error(transparent)]
    Corpus(#[from] CorpusError),
    /// The rows cannot be searched.
    #[error(transparent)]
    Search(#[from] SearchError),
}

/// Counts the training documents with an analyzer and fields.
pub(in crate::learn) type Recount<'a> =
    dyn FnMut(&Option<AnalyzerSpec>, &Fields) -> Result<Counts, CorpusError> + 'a;

/// The setup that all trials share.
#[derive(Debug, Clone, Copy)]
pub(in crate::learn) struct TrialSetup<'a> {
    /// The documents to hold out, as row numbers.
    pub sample: &'a [u32],
    /// The largest k to try.
    pub k_max: NonZeroUsize,
    /// The votes to try.
    pub grid: &'a Grid,
    /// Documents that are excluded as neighbors.
    pub exclusion: Exclusion<'a>,
    /// The engines that search, with their threads.
    pub engines: &'a Engines,
}

/// Chosen features.
pub(in crate::learn) struct ChosenFeatures {
    pub(in crate::learn) features: Features,
    /// Their counts, before terms are selected.
    pub(in crate::learn) counted: Counted,
    pub(in crate::learn) steps: Vec<Step>,
}

impl TrialSetup<'_> {
    /// The `k` leave-one-out neighbors of the sample's documents in some folds, of which
    /// `concurrent_folds` are searched concurrently.
    pub(super) fn neighbors(
        &self,
        counted: &Counted,
        features: &Features,
        folds: Range<usize>,
        k: NonZeroUsize,
        concurrent_folds: usize,
    ) -> Result<LeaveOneOut, SearchError> {
        let Self { sample, exclusion, engines, .. } = *self;
        let progress = &|_| ();
        let search =
            HoldOutSearch { k, exclusion, engines, as_new: false, concurrent_folds, progress };
        counted.leave_one_out(features, sample, folds, &search)
    }

    /// The best vote on the documents held out so far.
    pub(super) fn trial(&self, counts: &Counts, found: &LeaveOneOut) -> Trial {
        let sizes = counts.label_sizes();
        search_grid(found, labels_of(counts, &sizes), self.grid, self.engines.threads()).best
    }
}
