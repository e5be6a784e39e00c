//! The input and the result of the search for features.

use std::num::NonZeroUsize;
use std::ops::Range;

use crate::learn::held_out::{Exclusion, LeaveOneOut};
use crate::learn::options::TunableFeatures;
use crate::learn::training_rows::{CountedDocuments, Features, HoldOutSearch, labels_of};
use crate::learn::votes::{Grid, Trial, search_grid};
use crate::model::InputSpec;
use crate::search::{Engines, SearchError};
use crate::text::analyze::AnalyzerSpec;
use crate::text::corpus::CorpusError;
use crate::text::counts::{Counts, Fields};

/// The dimensions of the features that the search may change.
#[expect(clippy::struct_excessive_bools, reason = "one switch per dimension")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::learn) struct FreeDimensions {
    /// Stemming and word pairs.
    pub analyzer: bool,
    /// The boost of the first line.
    pub title: bool,
    /// The weighting and the exponent of the idf.
    pub weighting: bool,
    /// The exponent of the χ² weights.
    pub chi2_power: bool,
    /// The selection of terms.
    pub selection: bool,
    /// Learned term weights.
    pub term_weights: bool,
}

impl FreeDimensions {
    /// Returns the dimensions that apply to a corpus and may be changed according to `free`.
    pub(in crate::learn) fn for_corpus(
        free: TunableFeatures,
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

/// A feature change that was tried, with its metrics.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Step {
    /// Description of the change.
    pub change: String,
    /// The leave-one-out metrics of the best vote on the held-out documents.
    #[serde(flatten)]
    pub trial: Trial,
    /// Number of documents that were held out.
    pub documents: usize,
    /// Whether the change was kept as the best so far.
    pub kept: bool,
}

/// An error that stopped the search for features.
#[derive(Debug, thiserror::Error)]
pub enum FeatureError {
    /// The corpus could not be counted.
    #[error(transparent)]
    Corpus(#[from] CorpusError),
    /// The rows could not be searched.
    #[error(transparent)]
    Search(#[from] SearchError),
}

/// A function that counts the training documents with an analyzer and fields.
pub(in crate::learn) type Recount<'a> =
    dyn FnMut(&Option<AnalyzerSpec>, &Fields) -> Result<Counts, CorpusError> + 'a;

/// The inputs that all trials share.
#[derive(Debug, Clone, Copy)]
pub(in crate::learn) struct TrialSetup<'a> {
    /// The documents to hold out, as row numbers in increasing order.
    pub sample: &'a [u32],
    /// The largest k to try.
    pub k_max: NonZeroUsize,
    /// The votes to try.
    pub grid: &'a Grid,
    /// The documents that are excluded as neighbors.
    pub exclusion: Exclusion<'a>,
    /// The engines that search, with their threads.
    pub engines: &'a Engines,
}

/// The result of the search: the chosen features.
pub(in crate::learn) struct ChosenFeatures {
    pub(in crate::learn) features: Features,
    /// The counts of the chosen features, before terms are selected.
    pub(in crate::learn) counted: CountedDocuments,
    pub(in crate::learn) steps: Vec<Step>,
}

impl TrialSetup<'_> {
    /// Finds the `k` leave-one-out neighbors of the sample's documents in some folds.
    /// `concurrent_folds` folds are searched concurrently.
    pub(super) fn neighbors(
        &self,
        counted: &CountedDocuments,
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

    /// Returns the best vote on the documents held out so far.
    pub(super) fn trial(&self, counts: &Counts, found: &LeaveOneOut) -> Trial {
        let sizes = counts.label_sizes();
        search_grid(found, labels_of(counts, &sizes), self.grid, self.engines.threads()).best
    }
}
