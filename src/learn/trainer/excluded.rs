//! Documents that are not neighbors of each other while a model is tuned.

use super::training_rows::{TrainingRows, View};
use super::{Event, NearDuplicateLimit, OnEvent, TuneOptions, TuneScope};
use crate::learn::tune::{
    Exclusion, NearDuplicates, drawn, hashes, near_limit, nearest, reach, window,
};
use crate::search::SearchError;
use crate::threads::Threads;

/// Documents that are not neighbors of each other while tuning.
#[derive(Debug, Default)]
pub(super) struct Excluded {
    pub(super) above: Option<f32>,
    pub(super) near: NearDuplicates,
    /// Documents left out before and after each document when settings are compared.
    pub(super) window: u32,
    /// The group of each document; empty if there are no groups.
    pub(super) groups: Vec<u32>,
    /// The hash of each document, by which samples are drawn and folds are dealt.
    pub(super) hashes: Vec<u64>,
}

/// The number of documents that tell whether there are near-duplicates.
const MOST_FOR_LIMIT: usize = 4_000;
/// About the number of documents that tell whether the order is that of time.
const MOST_FOR_WINDOW: usize = 4_000;

/// The documents that are left out to choose k, vote and decision.
pub(super) fn left_out(tuning: &TuneOptions, hashes: &[u64]) -> Vec<u32> {
    match tuning.scope {
        TuneScope::Quick => drawn(hashes, tuning.sample),
        TuneScope::Votes | TuneScope::All => (0u32..).take(hashes.len()).collect(),
    }
}

impl Excluded {
    pub(super) fn find(
        training: &TrainingRows<'_>,
        cosine: bool,
        tuning: &TuneOptions,
        groups: Vec<u32>,
        threads: &Threads,
        on_event: OnEvent<'_>,
    ) -> Result<Self, SearchError> {
        // Texts tell near-duplicates better than their dense vectors, most of which are similar.
        let view = training.terms.or(training.vectors);
        let quick = tuning.scope == TuneScope::Quick;
        let say = |event: Event<'_>| {
            if !quick {
                on_event(event);
            }
        };
        let hashes = view
            .map_or(Vec::new(), |View { queries, .. }| hashes(queries, &training.labels, threads));
        let above = match (tuning.near_duplicates, training.terms) {
            (NearDuplicateLimit::Above(limit), _) => Some(limit),
            (NearDuplicateLimit::Found, Some(View { engine, queries })) if cosine => {
                let most = if quick { tuning.sample } else { MOST_FOR_LIMIT };
                near_limit(engine, queries, &drawn(&hashes, most))?
            }
            (NearDuplicateLimit::Found | NearDuplicateLimit::Off, _) => None,
        };
        let mut excluded = Self { above, groups, hashes, ..Self::default() };
        if let (Some(limit), Some(view)) = (above, view) {
            let rows = left_out(tuning, &excluded.hashes);
            excluded.near = NearDuplicates::search(view.engine, view.queries, &rows, limit)?;
            let documents = excluded.near.documents();
            say(Event::NearDuplicates { documents, above: limit });
        }
        excluded.window = match (tuning.time_order, view) {
            (Some(true), _) => reach(training.labels.weights.len()),
            (None, Some(view)) => {
                let most = if quick { tuning.sample / 2 } else { MOST_FOR_WINDOW };
                let nearest = nearest(view.engine, view.queries, excluded.always(), most)?;
                threads.run(|| window(&training.labels, &nearest))
            }
            (Some(false), _) | (None, None) => 0,
        };
        if excluded.window > 0 {
            say(Event::Window(excluded.window));
        }
        Ok(excluded)
    }

    /// What is excluded when settings are compared.
    pub(super) fn exclusion(&self) -> Exclusion<'_> {
        Exclusion { window: self.window, ..self.always() }
    }

    /// What is excluded when thresholds are learned.
    pub(super) fn always(&self) -> Exclusion<'_> {
        let in_time_order = self.window > 0;
        let (near, groups, hashes) = (Some(&self.near), &*self.groups, &*self.hashes);
        Exclusion { near, groups, window: 0, in_time_order, only: None, hashes }
    }
}
