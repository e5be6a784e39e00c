//! Training rows that search each other while a model is tuned.

use std::num::NonZeroUsize;
use std::sync::Arc;

use super::held_out::{ExcludedNeighbors, Exclusion, FOLDS, LeaveOneOut, SearchableRows};
use super::novelty::{HeldOutLabels, NovelDocuments, NoveltySearch};
use super::prototypes::{CorpusKind, FoldRows, HeldOutPrototypes, Precision, PrototypeLearner};
use super::run::Run;
use crate::decide::vote::TrainingLabels;
use crate::rows::dense::{DensePart, Metric, Vectors, VectorsView};
use crate::rows::matrix::Csr;
use crate::search::{Engines, Search, SearchError};
use crate::text::tfidf::Weighting;
use crate::threads::Threads;

mod counted;

pub(super) use counted::{
    CountedDocuments, Features, HoldOutSearch, IndexedRows, TERM_STEPS, WeightedRows,
    WithoutLabels, labels_of,
};

/// The factors of dense vectors that are tried for prototypes. Term rows and vectors each have
/// length 1.
const VECTOR_SCALES: [f32; 3] = [1.0, 0.5, 2.0];
/// The factors that are tried without terms. Larger factors have the effect of higher costs.
const VECTOR_SCALES_WITHOUT_TERMS: [f32; 3] = [2.0, 1.0, 4.0];

/// Maximum number of values in all vectors for learning prototypes, which needs several copies of 8
/// bytes per value.
const MAX_VECTOR_VALUES: usize = 1 << 27;

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
    /// The term rows, of length 1. `None` if they depend on the fold.
    pub(super) unit_rows: Option<&'a Arc<Csr>>,
    /// The dense vectors from which prototypes can be learned. `None` if the vectors of queries
    /// differ.
    pub(super) prototype_vectors: Option<VectorsView<'a>>,
    /// Whether the rows do not depend on the labels of held-out documents.
    pub(super) nested: bool,
}

impl<'a> TrainingRows<'a> {
    /// Creates rows to search by terms. Terms are weighted and selected by the other folds.
    pub(super) fn by_fold(by_fold: FoldWeightedDocuments<'a>, labels: TrainingLabels<'a>) -> Self {
        Self {
            terms: None,
            by_fold: Some(by_fold),
            vectors: None,
            share: None,
            labels,
            unit_rows: None,
            prototype_vectors: None,
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
        let search = |view, rows: &[u32]| LeaveOneOut::search(view, rows, k, exclusion, progress);
        let by_terms = || match self.by_fold {
            Some(FoldWeightedDocuments { counted, features, engines }) => {
                let concurrent_folds = counted.max_concurrent(engines);
                let as_new = true;
                let search =
                    HoldOutSearch { k, exclusion, engines, as_new, concurrent_folds, progress };
                counted.leave_one_out(features, rows, 0..FOLDS, &search).map(Some)
            }
            None => self.terms.map(|view| search(view, rows)).transpose(),
        };
        let terms = if self.vectors.is_none() || dense_share < 1.0 { by_terms()? } else { None };
        let vectors = self.vectors.filter(|_| !self.has_terms() || dense_share > 0.0);
        let Some(vectors) = vectors else { return Ok(terms.unwrap_or_default()) };
        Ok(match terms {
            // Folds may have changed the order of the rows.
            Some(terms) => {
                let vectors = search(vectors, terms.rows())?;
                LeaveOneOut::combined(terms, vectors, dense_share)
            }
            None => search(vectors, rows)?,
        })
    }

    fn has_terms(&self) -> bool {
        self.terms.is_some() || self.by_fold.is_some()
    }

    /// Scores held-out rows with prototypes that are learned without their fold. `None` if there
    /// are no rows to learn from, or too many labels.
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
        let rows_of = |fold, scale| self.fold_rows(fold, exclusion, scale);
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
        learner.learn_again(prototypes, found, again, |fold, scale| {
            self.fold_rows(fold, exclusion, scale)
        })
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
        let has_terms = self.has_cosines() || self.unit_rows.is_some();
        let vector_scales: &[f32] = match (self.prototype_vectors, has_terms) {
            (None, _) => &[0.0],
            (Some(_), true) => &VECTOR_SCALES,
            (Some(_), false) => &VECTOR_SCALES_WITHOUT_TERMS,
        };
        let precision = Precision::Full;
        PrototypeLearner { labels: &self.labels, kind, precision, vector_scales, threads }
    }

    /// Whether there are rows from which prototypes can be learned.
    fn has_prototype_rows(&self) -> bool {
        self.has_cosines() || self.unit_rows.is_some() || self.prototype_vectors.is_some()
    }

    /// Whether all similarities are cosines of terms.
    pub(super) fn searches_cosines(&self) -> bool {
        self.has_cosines() && self.vectors.is_none()
    }

    /// Whether there are rows of terms for each fold, whose similarities are cosines.
    fn has_cosines(&self) -> bool {
        let weighting = self.by_fold.map(|by_fold| by_fold.features.weighting);
        weighting.is_some_and(|by| by.is_cosine() && by.is_symmetric())
    }

    /// Returns the rows of a fold. Dense vectors are multiplied by `vector_scale`; if it is 0, they
    /// are left out.
    fn fold_rows(
        &self,
        fold: usize,
        exclusion: Exclusion<'_>,
        vector_scale: f32,
    ) -> Result<FoldRows, SearchError> {
        let rows = match (self.by_fold, self.unit_rows) {
            (Some(FoldWeightedDocuments { counted, features, engines }), _)
                if self.has_cosines() =>
            {
                counted.fold_rows(features, fold, exclusion, engines)?
            }
            (_, Some(rows)) => FoldRows::of(rows),
            (_, None) => FoldRows::of(&Csr::without_columns(self.labels.weights.len()).into()),
        };
        let folds = self.by_fold.map(|by_fold| by_fold.counted.folds());
        let is_in_fold =
            |row: u32| folds.is_none_or(|folds| usize::from(folds[row as usize]) == fold);
        Ok(self.with_vectors(rows, vector_scale, &is_in_fold))
    }

    /// Appends dense vectors, multiplied by `scale`, to rows of terms. `is_query` returns whether a
    /// row is a query.
    fn with_vectors(&self, rows: FoldRows, scale: f32, is_query: &dyn Fn(u32) -> bool) -> FoldRows {
        match self.prototype_vectors.filter(|_| scale > 0.0) {
            Some(vectors) => rows.with_vectors(&vectors, scale, is_query),
            None => rows,
        }
    }

    pub(super) fn searches_both(&self) -> bool {
        self.has_terms() && self.vectors.is_some()
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
            let NoveltySearch { k, exclusion, dense_share, unknown_share, prototypes, .. } =
                *search;
            let exclusion = Exclusion { only: Some(&without.rows), ..exclusion };
            let rows = &without.novel;
            let of_fold = match self.by_fold {
                Some(FoldWeightedDocuments { counted, features, engines }) => {
                    let mut of_fold = counted.without_labels(features, without, search, engines)?;
                    if let Some(view) = self.vectors.filter(|_| dense_share > 0.0) {
                        let vectors = LeaveOneOut::search(view, rows, k, exclusion, &|_| ())?;
                        of_fold.found = LeaveOneOut::combined(of_fold.found, vectors, dense_share);
                    }
                    of_fold
                }
                None => WithoutLabels {
                    found: self.leave_one_out(rows, k, exclusion, dense_share, &|_| ())?,
                    unknown: rows.iter().map(|&row| unknown_share(row)).collect(),
                    rows: self.unit_rows.map(FoldRows::of),
                },
            };
            let WithoutLabels { found, unknown, rows: unit_rows } = of_fold;
            let scale = prototypes.map_or(0.0, |learning| learning.vector_scale);
            let no_terms = || FoldRows::of(&Csr::without_columns(self.labels.weights.len()).into());
            let unit_rows = unit_rows.filter(|_| self.by_fold.is_none() || self.has_cosines());
            let unit_rows = unit_rows.or_else(|| self.prototype_vectors.map(|_| no_terms()));
            let is_novel = |row: u32| without.novel.binary_search(&row).is_ok();
            let unit_rows = unit_rows.map(|rows| self.with_vectors(rows, scale, &is_novel));
            Ok(without.describe(found, &unknown, unit_rows.as_ref(), search, threads))
        };
        HeldOutLabels::by_fold(&self.labels).iter().map(of_fold).collect()
    }
}

/// The search of training documents by dense vectors while a model is tuned.
#[derive(Debug)]
pub(super) struct VectorSearch<'a> {
    part: &'a DensePart,
    engine: Arc<dyn Search>,
    /// The dense vectors as queries, if they differ from the document vectors.
    queries: Option<Vectors>,
}

impl<'a> VectorSearch<'a> {
    /// Builds the engine. `projected` are the rows that were projected to vectors, if they were.
    pub(super) fn new(
        run: &Run<'_>,
        projected: Option<&WeightedRows>,
        weighting: Weighting,
        part: &'a DensePart,
    ) -> Result<Self, SearchError> {
        let engine = run.engines.dense(part)?;
        let projection = part.projection().zip(projected);
        let queries = projection.filter(|_| !weighting.is_symmetric());
        let queries = queries.map(|(projection, projected)| {
            let rows = projected.queries().view();
            let values = projection.project_all(&rows, run.threads());
            Vectors::new(projection.dimension(), values)
        });
        Ok(Self { part, engine, queries: queries.transpose()? })
    }

    /// Returns the vectors as rows to search.
    pub(super) fn rows(&self) -> SearchableRows<'_> {
        let queries = self.queries.as_ref().unwrap_or(self.part.vectors());
        SearchableRows { engine: &*self.engine, queries: queries.view().into() }
    }

    /// Returns the vectors from which prototypes can be learned.
    pub(super) fn prototype_vectors(&self) -> Option<VectorsView<'_>> {
        prototype_vectors(self.part).filter(|_| self.queries.is_none())
    }
}

/// Returns the vectors of a model from which prototypes can be learned. `None` if vectors may have
/// any length, because the metric is not angular, or if there are too many.
pub(super) fn prototype_vectors(part: &DensePart) -> Option<VectorsView<'_>> {
    let vectors = part.vectors().view();
    let is_small = vectors.values().len() <= MAX_VECTOR_VALUES;
    (part.spec().metric == Metric::Angular && is_small).then_some(vectors)
}
