//! Training rows that are searched among themselves while a model is tuned.

use std::num::NonZeroUsize;
use std::sync::Arc;

use super::Trainer;
use super::excluded::Excluded;
use crate::decide::vote::{PrototypeLearning, TrainingLabels};
use crate::learn::tune::{
    Counted, Exclusion, FOLDS, Features, FoldRows, Foreign, HeldOutPrototypes, LeaveOneOut,
    LeaveOutSearch, Weighted, WithoutLabels,
};
use crate::rows::dense::{DensePart, Vectors};
use crate::rows::matrix::Csr;
use crate::search::{Engines, QueryRows, Search, SearchError};
use crate::text::tfidf::Weighting;
use crate::threads::Threads;

/// An engine over training rows, and the rows as queries.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) engine: &'a dyn Search,
    pub(super) queries: QueryRows<'a>,
}

/// Counted documents, to be searched with the terms that each fold's other documents tell.
#[derive(Debug, Clone, Copy)]
pub(super) struct ByFold<'a> {
    pub(super) counted: &'a Counted,
    pub(super) features: &'a Features,
    pub(super) engines: &'a Engines,
}

/// Training rows to be searched among themselves: by terms, by dense vectors, or both.
#[derive(Debug, Clone, Copy)]
pub(super) struct TrainingRows<'a> {
    pub(super) terms: Option<View<'a>>,
    /// The rows to be searched by terms if they depend on the fold.
    pub(super) by_fold: Option<ByFold<'a>>,
    pub(super) vectors: Option<View<'a>>,
    /// The share of the neighbors by vectors in the votes, if it is fixed.
    pub(super) share: Option<f64>,
    pub(super) labels: TrainingLabels<'a>,
    /// Rows of terms of length 1 that do not depend on the fold, if there are no dense vectors.
    pub(super) unit_rows: Option<&'a Arc<Csr>>,
    /// Whether the rows do not depend on the labels of documents that are left out.
    pub(super) nested: bool,
}

impl<'a> TrainingRows<'a> {
    /// Rows to be searched by terms alone, which do not depend on the fold.
    pub(super) fn by_terms(view: View<'a>, labels: TrainingLabels<'a>) -> Self {
        Self {
            terms: Some(view),
            by_fold: None,
            vectors: None,
            share: None,
            labels,
            unit_rows: None,
            nested: true,
        }
    }

    /// Rows to be searched by terms alone, with the terms that the other folds tell.
    pub(super) fn by_fold(by_fold: ByFold<'a>, labels: TrainingLabels<'a>) -> Self {
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

    /// The leave-one-out neighbors of some rows, with a share of those by vectors.
    pub(super) fn leave_one_out(
        &self,
        rows: &[u32],
        k: NonZeroUsize,
        exclusion: Exclusion<'_>,
        share: f64,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<LeaveOneOut, SearchError> {
        if let Some(ByFold { counted, features, engines }) = self.by_fold {
            let at_once = counted.at_once(engines);
            let search = LeaveOutSearch { k, exclusion, engines, as_new: true, at_once, progress };
            return counted.left_out(features, rows, 0..FOLDS, &search);
        }
        self.views_left_out(rows, k, exclusion, share, progress)
    }

    /// What prototypes learned without each fold say about some rows that are left out; `None` if there are only
    /// dense vectors, or too many labels.
    pub(super) fn prototypes(
        &self,
        found: &LeaveOneOut,
        several: bool,
        exclusion: Exclusion<'_>,
        threads: &Threads,
    ) -> Result<Option<HeldOutPrototypes>, SearchError> {
        let kind = (several, exclusion.in_time_order);
        if !self.teaches_prototypes() {
            return Ok(None);
        }
        let rows_of = |fold| self.fold_rows(fold, exclusion);
        HeldOutPrototypes::learn(found, &self.labels, kind, rows_of, threads)
    }

    /// The prototypes that judge the documents of `again`, which were left out a second time with their near-duplicates
    /// as neighbors, are learned anew: near-duplicates teach now.
    pub(super) fn teach_again(
        &self,
        prototypes: &mut HeldOutPrototypes,
        found_again: (&LeaveOneOut, &LeaveOneOut),
        several: bool,
        exclusion: Exclusion<'_>,
        threads: &Threads,
    ) -> Result<(), SearchError> {
        let kind = (several, exclusion.in_time_order);
        let rows_of = |fold| self.fold_rows(fold, exclusion);
        prototypes.learn_again(found_again, &self.labels, kind, rows_of, threads)
    }

    /// Whether there are rows from which prototypes can be learned.
    fn teaches_prototypes(&self) -> bool {
        let weighting = self.by_fold.map(|by_fold| by_fold.features.weighting);
        weighting.map_or(self.unit_rows.is_some(), |by| by.is_cosine() && by.is_symmetric())
    }

    /// The rows of a fold.
    fn fold_rows(&self, fold: usize, exclusion: Exclusion<'_>) -> Result<FoldRows, SearchError> {
        if let Some(ByFold { counted, features, engines }) = self.by_fold {
            return counted.fold_rows(features, fold, exclusion, engines);
        }
        let rows = self.unit_rows.expect("rows teach prototypes");
        Ok(FoldRows { documents: Arc::clone(rows), queries: Arc::clone(rows) })
    }

    pub(super) fn searches_both(&self) -> bool {
        self.terms.is_some() && self.vectors.is_some()
    }

    /// The left-out documents that have near-duplicates once more, with them as neighbors: new documents may have
    /// near-duplicates, too. `None` if none has.
    pub(super) fn with_near_duplicates(
        &self,
        found: &LeaveOneOut,
        k: NonZeroUsize,
        excluded: &Excluded,
    ) -> Result<Option<LeaveOneOut>, SearchError> {
        let rows: Vec<u32> =
            found.rows().iter().copied().filter(|&row| !excluded.near.of(row).is_empty()).collect();
        if rows.is_empty() {
            return Ok(None);
        }
        let exclusion = Exclusion { near: None, ..excluded.always() };
        self.leave_one_out(&rows, k, exclusion, found.dense_share, &|_| ()).map(Some)
    }

    /// The same of some rows, by the engines.
    fn views_left_out(
        &self,
        rows: &[u32],
        k: NonZeroUsize,
        exclusion: Exclusion<'_>,
        share: f64,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<LeaveOneOut, SearchError> {
        let search = |View { engine, queries }: View<'_>| {
            LeaveOneOut::search(engine, queries, rows, k, exclusion, progress)
        };
        let terms = self.terms.filter(|_| self.vectors.is_none() || share < 1.0).map(search);
        let vectors = self.vectors.filter(|_| self.terms.is_none() || share > 0.0).map(search);
        Ok(match (terms.transpose()?, vectors.transpose()?) {
            (Some(terms), Some(vectors)) => LeaveOneOut::mixed(terms, vectors, share),
            (Some(found), None) | (None, Some(found)) => found,
            (None, None) => LeaveOneOut::default(),
        })
    }

    /// For each fold of labels, its documents and their neighbors among those of other labels. `unknown`
    /// returns the share of a document's terms that would be unknown if it were left out; of rows that depend
    /// on the fold, it is counted anew.
    pub(super) fn without_labels(
        &self,
        k: NonZeroUsize,
        exclusion: Exclusion<'_>,
        share: f64,
        unknown: &dyn Fn(u32) -> f64,
        (prototypes, threads): (Option<PrototypeLearning>, &Threads),
    ) -> Result<Vec<Foreign>, SearchError> {
        let without = WithoutLabels::by_fold(&self.labels);
        without
            .iter()
            .map(|without| {
                if without.foreign.is_empty() {
                    return Ok(Foreign::default());
                }
                if let Some(ByFold { counted, features, engines }) = self.by_fold {
                    let without = (without, prototypes);
                    return counted.without_labels(features, without, k, exclusion, engines);
                }
                let exclusion = Exclusion { only: Some(&without.rows), ..exclusion };
                let rows = &without.foreign;
                let found = self.views_left_out(rows, k, exclusion, share, &|_| ())?;
                let unknown = rows.iter().map(|&row| unknown(row)).collect();
                let margins = prototypes.zip(self.unit_rows).map(|(learning, rows)| {
                    without.margins((rows, rows), &self.labels, learning, threads)
                });
                let margins = margins.unwrap_or_default();
                Ok(Foreign { rows: without.rows.clone(), found, unknown, margins })
            })
            .collect()
    }
}

/// Engines over training rows while a model is tuned.
#[derive(Debug)]
pub(super) struct Prepared<'a> {
    weighted: &'a Weighted,
    part: Option<&'a DensePart>,
    terms: Option<Arc<dyn Search>>,
    vectors: Option<Arc<dyn Search>>,
    /// The dense vectors as queries, if those of documents are others.
    queries: Option<Vectors>,
    /// Whether the rows do not depend on labels.
    nested: bool,
}

impl Prepared<'_> {
    /// The rows to be searched.
    pub(super) fn rows<'b>(
        &'b self,
        labels: TrainingLabels<'b>,
        share: Option<f64>,
    ) -> TrainingRows<'b> {
        let terms = self.terms.as_deref().map(|engine| {
            let queries = (&**self.weighted.queries()).into();
            View { engine, queries }
        });
        let vectors = self.vectors.as_deref().zip(self.part).map(|(engine, part)| {
            let queries = self.queries.as_ref().unwrap_or(part.vectors());
            View { engine, queries: queries.view().into() }
        });
        let nested = self.nested;
        TrainingRows { terms, by_fold: None, vectors, share, labels, unit_rows: None, nested }
    }
}

impl Trainer {
    /// The engines that the options need.
    pub(super) fn prepared<'a>(
        &self,
        weighted: &'a Weighted,
        weighting: Weighting,
        part: Option<&'a DensePart>,
        nested: bool,
    ) -> Result<Prepared<'a>, SearchError> {
        let by_terms = self.options.dense.as_ref().is_none_or(|dense| dense.with_terms);
        let terms = by_terms.then(|| self.engines.engine(weighted.documents())).transpose()?;
        let vectors = part.map(|part| self.engines.dense(part));
        let projection = part.and_then(DensePart::projection);
        let queries = projection.filter(|_| !weighting.is_symmetric()).map(|projection| {
            let rows = weighted.queries().view();
            let values = projection.project_all(&rows, self.engines.threads());
            Vectors::new(projection.dimension(), values)
        });
        let (vectors, queries) = (vectors.transpose()?, queries.transpose()?);
        Ok(Prepared { weighted, part, terms, vectors, queries, nested })
    }
}
