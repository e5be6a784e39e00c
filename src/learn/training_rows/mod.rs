//! Training rows that search each other while a model is tuned.

use std::num::NonZeroUsize;
use std::sync::Arc;

use super::held_out::{ExcludedNeighbors, Exclusion, FOLDS, LeaveOneOut, SearchableRows};
use super::novelty::{HeldOutLabels, NovelDocuments, NoveltySearch};
use super::prototypes::{CorpusKind, FoldRows, HeldOutPrototypes, Precision, PrototypeLearner};
use super::run::Run;
use crate::decide::vote::TrainingLabels;
use crate::rows::dense::{DensePart, Vectors};
use crate::rows::matrix::Csr;
use crate::search::{Engines, Search, SearchError};
use crate::text::tfidf::Weighting;
use crate::threads::Threads;

mod counted;

pub(super) use counted::{
    CountedDocuments, Features, HoldOutSearch, IndexedRows, TERM_STEPS, WeightedRows, labels_of,
};

/// Counted documents whose terms are weighted and selected by the labels of the other folds.
#[derive(Debug, Clone, Copy)]
pub(super) struct FoldWeightedDocuments<'a> {
    pub(super) counted: &'a CountedDocuments,
    pub(super) features: &'a Features,
    pub(super) engines: &'a Engines,
}

/// Training rows that search each other: by terms, by dense vectors, or both.
#[derive(Debug, Clone, Copy)]
pub(super) struct TrainingRows<'a> {
    pub(super) terms: Option<SearchableRows<'a>>,
    /// The rows to search by terms, if they depend on the fold.
    pub(super) by_fold: Option<FoldWeightedDocuments<'a>>,
    pub(super) vectors: Option<SearchableRows<'a>>,
    /// The share of the votes that goes to neighbors found by dense vectors, if it is fixed.
    pub(super) share: Option<f64>,
    pub(super) labels: TrainingLabels<'a>,
    /// The term rows, of length 1. `None` if they depend on the fold, or if there are dense
    /// vectors.
    pub(super) unit_rows: Option<&'a Arc<Csr>>,
    /// Whether the rows do not depend on the labels of held-out documents.
    pub(super) nested: bool,
}

impl<'a> TrainingRows<'a> {
    /// Creates rows to search by terms alone. Terms are weighted and selected by the other folds.
    pub(super) fn by_fold(by_fold: FoldWeightedDocuments<'a>, labels: TrainingLabels<'a>) -> Self {
        Self {
            terms: None,
            by_fold: Some(by_fold),
            vectors: None,
            share: None,
            labels,
            unit_rows: None,
            nested: true,
        }
    }

    /// Finds the `k` leave-one-out neighbors of some rows. `dense_share` is the share of the votes
    /// that goes to neighbors found by dense vectors.
    pub(super) fn leave_one_out(
        &self,
        rows: &[u32],
        k: NonZeroUsize,
        exclusion: Exclusion<'_>,
        dense_share: f64,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<LeaveOneOut, SearchError> {
        if let Some(FoldWeightedDocuments { counted, features, engines }) = self.by_fold {
            let concurrent_folds = counted.max_concurrent(engines);
            let as_new = true;
            let search =
                HoldOutSearch { k, exclusion, engines, as_new, concurrent_folds, progress };
            return counted.leave_one_out(features, rows, 0..FOLDS, &search);
        }
        let search = |view| LeaveOneOut::search(view, rows, k, exclusion, progress);
        let terms = self.terms.filter(|_| self.vectors.is_none() || dense_share < 1.0).map(search);
        let vectors =
            self.vectors.filter(|_| self.terms.is_none() || dense_share > 0.0).map(search);
        Ok(match (terms.transpose()?, vectors.transpose()?) {
            (Some(terms), Some(vectors)) => LeaveOneOut::combined(terms, vectors, dense_share),
            (Some(found), None) | (None, Some(found)) => found,
            (None, None) => LeaveOneOut::default(),
        })
    }

    /// Scores held-out rows with prototypes that are learned without their fold. `None` if there
    /// are only dense vectors, or too many labels.
    pub(super) fn prototypes(
        &self,
        found: &LeaveOneOut,
        multi_label: bool,
        exclusion: Exclusion<'_>,
        precision: Precision,
        threads: &Threads,
    ) -> Result<Option<HeldOutPrototypes>, SearchError> {
        if !self.has_prototype_rows() {
            return Ok(None);
        }
        let rows_of = |fold| self.fold_rows(fold, exclusion);
        let learner = self.prototype_learner(multi_label, exclusion, threads);
        PrototypeLearner { precision, ..learner }.learn(found, rows_of)
    }

    /// Scores the documents of `again`, which were held out a second time with their
    /// near-duplicates as neighbors. The prototypes are then learned from most of these
    /// near-duplicates too.
    pub(super) fn prototypes_again(
        &self,
        prototypes: &mut HeldOutPrototypes,
        found: &LeaveOneOut,
        again: &LeaveOneOut,
        learner: &PrototypeLearner<'_>,
        exclusion: Exclusion<'_>,
    ) -> Result<(), SearchError> {
        learner.learn_again(prototypes, found, again, |fold| self.fold_rows(fold, exclusion))
    }

    /// Returns a prototype learner for these rows.
    pub(super) fn prototype_learner<'b>(
        &'b self,
        multi_label: bool,
        exclusion: Exclusion<'_>,
        threads: &'b Threads,
    ) -> PrototypeLearner<'b> {
        let is_chronological = exclusion.is_chronological;
        let kind = CorpusKind { multi_label, is_chronological };
        PrototypeLearner { labels: &self.labels, kind, precision: Precision::Full, threads }
    }

    /// Whether there are rows from which prototypes can be learned.
    fn has_prototype_rows(&self) -> bool {
        self.by_fold.map_or(self.unit_rows.is_some(), |_| self.searches_cosines())
    }

    /// Whether all similarities are cosines of terms.
    pub(super) fn searches_cosines(&self) -> bool {
        let weighting = self.by_fold.map(|by_fold| by_fold.features.weighting);
        weighting.is_some_and(|by| by.is_cosine() && by.is_symmetric())
    }

    /// Returns the rows of a fold.
    fn fold_rows(&self, fold: usize, exclusion: Exclusion<'_>) -> Result<FoldRows, SearchError> {
        if let Some(FoldWeightedDocuments { counted, features, engines }) = self.by_fold {
            return counted.fold_rows(features, fold, exclusion, engines);
        }
        let rows = self.unit_rows.expect("prototypes are learned only from unit rows");
        Ok(FoldRows { documents: Arc::clone(rows), queries: Arc::clone(rows) })
    }

    pub(super) fn searches_both(&self) -> bool {
        self.terms.is_some() && self.vectors.is_some()
    }

    /// Repeats the search for documents that have near-duplicates, with the near-duplicates as
    /// possible neighbors: new documents may have near-duplicates, too. `None` if no document has
    /// one.
    pub(super) fn with_near_duplicates(
        &self,
        found: &LeaveOneOut,
        k: NonZeroUsize,
        excluded: &ExcludedNeighbors,
    ) -> Result<Option<LeaveOneOut>, SearchError> {
        let has_near = |row: &u32| !excluded.near.of(*row).is_empty();
        let rows: Vec<u32> = found.rows().iter().copied().filter(has_near).collect();
        if rows.is_empty() {
            return Ok(None);
        }
        let exclusion = Exclusion { near: None, ..excluded.without_window() };
        self.leave_one_out(&rows, k, exclusion, found.dense_share, &|_| ()).map(Some)
    }

    /// Returns, for each fold of labels, its documents and their neighbors among the documents with
    /// other labels.
    pub(super) fn without_labels(
        &self,
        search: &NoveltySearch<'_>,
        threads: &Threads,
    ) -> Result<Vec<NovelDocuments>, SearchError> {
        let of_fold = |without: &HeldOutLabels| {
            if without.novel.is_empty() {
                return Ok(NovelDocuments::default());
            }
            if let Some(FoldWeightedDocuments { counted, features, engines }) = self.by_fold {
                return counted.without_labels(features, without, search, engines);
            }
            let NoveltySearch { k, exclusion, dense_share, unknown_share, .. } = *search;
            let exclusion = Exclusion { only: Some(&without.rows), ..exclusion };
            let rows = &without.novel;
            let found = self.leave_one_out(rows, k, exclusion, dense_share, &|_| ())?;
            let unknown: Vec<f64> = rows.iter().map(|&row| unknown_share(row)).collect();
            let unit_rows = self
                .unit_rows
                .map(|rows| FoldRows { documents: Arc::clone(rows), queries: Arc::clone(rows) });
            Ok(without.describe(found, &unknown, unit_rows.as_ref(), search, threads))
        };
        HeldOutLabels::by_fold(&self.labels).iter().map(of_fold).collect()
    }
}

/// The engines over training rows while a model is tuned.
#[derive(Debug)]
pub(super) struct TrainingEngines<'a> {
    weighted: &'a WeightedRows,
    part: Option<&'a DensePart>,
    terms: Option<Arc<dyn Search>>,
    vectors: Option<Arc<dyn Search>>,
    /// The dense vectors as queries, if they differ from the document vectors.
    queries: Option<Vectors>,
    /// Whether the rows are independent of labels.
    nested: bool,
}

impl<'a> TrainingEngines<'a> {
    /// Builds the engines that the options need.
    pub(super) fn new(
        run: &Run<'_>,
        weighted: &'a WeightedRows,
        weighting: Weighting,
        part: Option<&'a DensePart>,
        nested: bool,
    ) -> Result<Self, SearchError> {
        let by_terms = run.options.dense.as_ref().is_none_or(|dense| dense.with_terms);
        let terms = by_terms.then(|| run.engines.engine(weighted.documents())).transpose()?;
        let vectors = part.map(|part| run.engines.dense(part)).transpose()?;
        let projection = part.and_then(DensePart::projection);
        let queries = projection.filter(|_| !weighting.is_symmetric()).map(|projection| {
            let rows = weighted.queries().view();
            let values = projection.project_all(&rows, run.threads());
            Vectors::new(projection.dimension(), values)
        });
        let queries = queries.transpose()?;
        Ok(Self { weighted, part, terms, vectors, queries, nested })
    }

    /// Returns the rows to be searched.
    pub(super) fn rows<'b>(
        &'b self,
        labels: TrainingLabels<'b>,
        share: Option<f64>,
    ) -> TrainingRows<'b> {
        let terms = self.terms.as_deref().map(|engine| {
            let queries = (&**self.weighted.queries()).into();
            SearchableRows { engine, queries }
        });
        let vectors = self.vectors.as_deref().zip(self.part).map(|(engine, part)| {
            let queries = self.queries.as_ref().unwrap_or(part.vectors());
            SearchableRows { engine, queries: queries.view().into() }
        });
        let nested = self.nested;
        TrainingRows { terms, by_fold: None, vectors, share, labels, unit_rows: None, nested }
    }
}
