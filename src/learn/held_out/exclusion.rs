//! Determines which documents cannot be neighbors of each other while a model is tuned.

use super::SearchableRows;
use super::folds::{draw_sample, hashes};
use super::leave_one_out::{
    chronological_window, near_duplicate_limit, near_duplicates, nearest_of_sample, window_size,
};
use super::near_duplicates::{Exclusion, NearDuplicates};
use crate::decide::vote::TrainingLabels;
use crate::learn::options::{NearDuplicateLimit, TuneOptions, TuneScope};
use crate::search::SearchError;
use crate::threads::Threads;

/// Training rows that are checked for near-duplicates and a chronological order.
pub(in crate::learn) struct InspectedRows<'a> {
    pub(in crate::learn) terms: Option<SearchableRows<'a>>,
    pub(in crate::learn) vectors: Option<SearchableRows<'a>>,
    pub(in crate::learn) labels: TrainingLabels<'a>,
    /// Whether the similarities of terms are cosines. Near-duplicates are recognized only by
    /// cosines.
    pub(in crate::learn) is_cosine: bool,
    /// The group of each document; empty if there are no groups.
    pub(in crate::learn) groups: Vec<u32>,
}

/// The documents that cannot be neighbors of each other while a model is tuned.
#[derive(Debug, Default)]
pub(in crate::learn) struct ExcludedNeighbors {
    /// The cosine above which documents are near-duplicates.
    pub(in crate::learn) above: Option<f32>,
    pub(in crate::learn) near: NearDuplicates,
    /// Number of documents before and after each document that are held out with it when settings
    /// are compared.
    pub(in crate::learn) window: u32,
    /// The group of each document; empty if there are no groups.
    groups: Vec<u32>,
    /// The hash of each document, which determines samples and folds.
    pub(in crate::learn) hashes: Vec<u64>,
}

/// Maximum number of documents from which the near-duplicate limit is estimated.
const MAX_FOR_LIMIT: usize = 4_000;
/// Approximate number of documents from which a chronological order is detected.
const MAX_FOR_WINDOW: usize = 4_000;

/// Returns the documents that are held out to choose k, vote and decision.
pub(in crate::learn) fn held_out_rows(tuning: &TuneOptions, hashes: &[u64]) -> Vec<u32> {
    match tuning.scope {
        TuneScope::Quick => draw_sample(hashes, tuning.sample),
        TuneScope::Votes | TuneScope::All => (0u32..).take(hashes.len()).collect(),
    }
}

impl ExcludedNeighbors {
    /// Finds near-duplicates, and determines the window if the documents are in chronological
    /// order.
    pub(in crate::learn) fn find(
        inspected: InspectedRows<'_>,
        tuning: &TuneOptions,
        threads: &Threads,
    ) -> Result<Self, SearchError> {
        let InspectedRows { terms, vectors, labels, is_cosine, groups } = inspected;
        // Texts show near-duplicates better than dense vectors, most of which are similar.
        let view = terms.or(vectors);
        let quick = tuning.scope == TuneScope::Quick;
        let hashes = view
            .map_or(Vec::new(), |SearchableRows { queries, .. }| hashes(queries, &labels, threads));
        let above = match (tuning.near_duplicates, terms) {
            (NearDuplicateLimit::Above(limit), _) => Some(limit),
            (NearDuplicateLimit::Found, Some(view)) if is_cosine => {
                let count = if quick { tuning.sample } else { MAX_FOR_LIMIT };
                near_duplicate_limit(view, &draw_sample(&hashes, count))?
            }
            (NearDuplicateLimit::Found | NearDuplicateLimit::Off, _) => None,
        };
        let mut excluded = Self { above, groups, hashes, ..Self::default() };
        if let (Some(limit), Some(view)) = (above, view) {
            let rows = held_out_rows(tuning, &excluded.hashes);
            excluded.near = near_duplicates(view, &rows, limit)?;
        }
        excluded.window = match (tuning.time_order, view) {
            (Some(true), _) => window_size(labels.weights.len()),
            (None, Some(view)) => {
                let count = if quick { tuning.sample / 2 } else { MAX_FOR_WINDOW };
                let exclusion = excluded.without_window();
                let nearest = nearest_of_sample(view, exclusion, count)?;
                threads.run(|| chronological_window(&labels, &nearest))
            }
            (Some(false), _) | (None, None) => 0,
        };
        Ok(excluded)
    }

    /// Returns the exclusion for comparing settings.
    pub(in crate::learn) fn exclusion(&self) -> Exclusion<'_> {
        Exclusion { window: self.window, ..self.without_window() }
    }

    /// Returns the exclusion for learning thresholds.
    pub(in crate::learn) fn without_window(&self) -> Exclusion<'_> {
        Exclusion {
            near: Some(&self.near),
            groups: &self.groups,
            window: 0,
            is_chronological: self.window > 0,
            only: None,
            hashes: &self.hashes,
        }
    }
}
