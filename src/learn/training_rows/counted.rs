//! Counted training documents as searchable rows. Term weights use the labels of all documents or,
//! for each fold, only the labels of the documents outside it.
//!
//! Terms that are selected or weighted by labels contain information about the labels of the
//! documents that they were learned from. Excluding such a document only as a neighbor would make
//! it easier to classify than a new document. So the terms are weighted without the whole fold, and
//! neighbors are found without the single document.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rayon::prelude::*;

use crate::decide::vote::TrainingLabels;
use crate::rows::matrix::{Csr, csr};
use crate::search::{Engines, RowSet, Search, SearchError};
use crate::text::analyze::AnalyzerSpec;
use crate::text::counts::{Counts, Fields};
use crate::text::select::{
    Criterion, Frequencies, Postings, Selection, TermScores, all_term_weights, needs_scores,
    term_weights,
};
use crate::text::tfidf::{RawRows, Side, TermWeights, Weighting};
use crate::threads::Threads;

use crate::learn::held_out::{Exclusion, FOLDS, LeaveOneOut, SearchableRows, clusters, folds};
use crate::learn::novelty::{HeldOutLabels, NoveltySearch};
use crate::learn::prototypes::FoldRows;
use crate::learn::term_weights;

/// Training documents as weighted rows and as queries.
#[derive(Debug)]
pub(in crate::learn) struct WeightedRows {
    documents: Arc<Csr>,
    queries: Option<Arc<Csr>>,
    /// The mean length of the documents.
    mean_length: f64,
}

/// The terms and rows of the queries, if they differ from the searched rows.
#[derive(Clone, Copy)]
struct QueryTerms<'a> {
    /// Which terms a query keeps.
    terms: &'a [bool],
    /// The rows that become queries; the other query rows are empty.
    rows: &'a [u32],
}

/// The settings that convert counted documents to weighted rows.
#[derive(Clone, Copy)]
struct RowWeighting<'a> {
    counts: &'a Counts,
    fields: &'a Fields,
    weighting: Weighting,
    /// The weights of terms.
    weights: &'a [f64],
    threads: &'a Threads,
}

impl RowWeighting<'_> {
    /// Weights rows, given the mean length of the documents.
    fn weigh(&self, side: Side, mut rows: RawRows, mean_length: f64) -> Arc<Csr> {
        let terms = TermWeights { idf: self.weights, mean_length };
        rows.weigh(&self.weighting, side, terms, self.threads);
        let columns = self.counts.vocabulary.len();
        let rows = self.threads.run(|| csr(columns, rows.indptr, rows.indices, rows.data));
        Arc::new(rows.expect("rows are in column order"))
    }

    /// Returns the rows as queries, given the mean length of the documents.
    fn queries(&self, QueryTerms { terms, rows }: QueryTerms<'_>, mean_length: f64) -> Arc<Csr> {
        let rows = self.counts.rows_of(&self.fields.boosts(), terms, Some(rows));
        self.weigh(Side::Query, rows, mean_length)
    }

    /// Weights all documents, restricted to the terms in `kept` if given.
    fn weighted(&self, kept: Option<&[bool]>, query_terms: Option<QueryTerms<'_>>) -> WeightedRows {
        let boosts = self.fields.boosts();
        let rows = match kept {
            Some(kept) => self.counts.rows_of(&boosts, kept, None),
            None => self.counts.rows(&boosts, self.threads),
        };
        let mean_length = rows.mean_length(self.threads);
        let queries = match query_terms {
            Some(query_terms) => Some(self.queries(query_terms, mean_length)),
            None => (!self.weighting.is_symmetric())
                .then(|| self.weigh(Side::Query, rows.clone(), mean_length)),
        };
        WeightedRows {
            documents: self.weigh(Side::Document, rows, mean_length),
            queries,
            mean_length,
        }
    }
}

/// Weighted documents with an engine that searches them.
#[derive(Debug)]
pub(in crate::learn) struct IndexedRows {
    fields: Fields,
    weighting: Weighting,
    weighted: WeightedRows,
    engine: Arc<dyn Search>,
}

impl IndexedRows {
    /// Weights counted documents and indexes them.
    ///
    /// # Errors
    /// Fails if the rows cannot be indexed.
    pub(in crate::learn) fn new(
        counts: &Counts,
        fields: &Fields,
        weighting: Weighting,
        engines: &Engines,
    ) -> Result<Self, SearchError> {
        let weighted = WeightedRows::new(counts, fields, weighting, engines.threads());
        let engine = engines.engine(&weighted.documents)?;
        Ok(Self { fields: fields.clone(), weighting, weighted, engine })
    }

    /// Returns the rows.
    pub(in crate::learn) fn weighted(&self) -> &WeightedRows {
        &self.weighted
    }

    /// Returns the engine over the rows.
    pub(in crate::learn) fn engine(&self) -> &dyn Search {
        &*self.engine
    }
}

impl WeightedRows {
    /// Weights counted documents.
    pub(in crate::learn) fn new(
        counts: &Counts,
        fields: &Fields,
        weighting: Weighting,
        threads: &Threads,
    ) -> Self {
        let weights = all_term_weights(counts, weighting, threads);
        RowWeighting { counts, fields, weighting, weights: &weights, threads }.weighted(None, None)
    }

    /// Returns the rows to search.
    pub(in crate::learn) fn documents(&self) -> &Arc<Csr> {
        &self.documents
    }

    /// Returns the rows as queries.
    pub(in crate::learn) fn queries(&self) -> &Arc<Csr> {
        self.queries.as_ref().unwrap_or(&self.documents)
    }

    /// Finds the leave-one-out neighbors of `rows`.
    pub(in crate::learn) fn leave_one_out(
        &self,
        rows: &[u32],
        k: NonZeroUsize,
        exclusion: Exclusion<'_>,
        engines: &Engines,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<LeaveOneOut, SearchError> {
        let engine = engines.engine(&self.documents)?;
        let view = SearchableRows { engine: &*engine, queries: self.queries().view().into() };
        LeaveOneOut::search(view, rows, k, exclusion, progress)
    }
}

/// The settings that determine the term vectors of documents.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::learn) struct Features {
    /// How text is converted to terms; `None`: the documents are given as vectors.
    pub(in crate::learn) analyzer: Option<AnalyzerSpec>,
    /// The fields and their boosts.
    pub(in crate::learn) fields: Fields,
    /// How counts are converted to weights.
    pub(in crate::learn) weighting: Weighting,
    /// The terms that are kept.
    pub(in crate::learn) selection: Option<Selection>,
    /// Number of gradient steps for learned term factors: 5, 10 or 20; 0: no factors.
    pub(in crate::learn) term_steps: u32,
}

/// Maximum number of entries in all rows that are searched concurrently; they take about 1 GiB.
const MAX_ENTRIES: usize = 1 << 25;

/// The numbers of steps that tuning tries.
pub(in crate::learn) const TERM_STEPS: [u32; 3] = [5, 10, 20];

/// Term factors that are learned without the documents of a fold.
#[derive(Debug)]
struct FoldFactors {
    /// The features without the term factors.
    features: Features,
    fold: usize,
    /// The factors after each number of steps in [`TERM_STEPS`].
    factors: Arc<Vec<Vec<f32>>>,
}

/// The settings of a leave-one-out search.
#[derive(Clone, Copy)]
pub(in crate::learn) struct HoldOutSearch<'a> {
    /// The number of neighbors.
    pub(in crate::learn) k: NonZeroUsize,
    /// The documents that are excluded as neighbors.
    pub(in crate::learn) exclusion: Exclusion<'a>,
    /// The engines that search, with their threads.
    pub(in crate::learn) engines: &'a Engines,
    /// Whether terms that occur only in the held-out document are dropped from it: in a new
    /// document they would be unknown. Dropping them changes similarities, but not the order of
    /// neighbors.
    pub(in crate::learn) as_new: bool,
    /// Number of folds that are searched concurrently if the folds have different terms.
    pub(in crate::learn) concurrent_folds: usize,
    /// Called with the number of documents held out so far.
    pub(in crate::learn) progress: &'a (dyn Fn(u64) + Sync),
}

impl std::fmt::Debug for HoldOutSearch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HoldOutSearch").field("k", &self.k).finish_non_exhaustive()
    }
}

/// Documents whose labels are held out.
pub(in crate::learn) struct WithoutLabels {
    /// Their neighbors among the documents with other labels.
    pub(in crate::learn) found: LeaveOneOut,
    /// For each of them, the share of its terms that do not occur in the other documents.
    pub(in crate::learn) unknown: Vec<f64>,
    /// All rows of terms, weighted without the held-out labels.
    pub(in crate::learn) rows: Option<FoldRows>,
}

/// The terms of a fold: which are kept, and their weights.
struct FoldTerms {
    /// Whether each term is kept; `None`: all terms are kept.
    kept: Option<Vec<bool>>,
    weights: Vec<f64>,
}

impl FoldTerms {
    /// Returns, for each term, whether it is kept and its document frequency meets a condition.
    fn kept_with(&self, frequencies: &[u32], condition: impl Fn(u32) -> bool) -> Vec<bool> {
        let is_kept = |term: usize| self.kept.as_ref().is_none_or(|kept| kept[term]);
        let terms = frequencies.iter().enumerate();
        terms.map(|(term, &df)| condition(df) && is_kept(term)).collect()
    }
}

/// Counted documents, their folds, and values that are computed once from them.
#[derive(Debug)]
pub(in crate::learn) struct CountedDocuments {
    counts: Counts,
    /// The fold of each document.
    folds: Arc<[u8]>,
    /// For each fold, how informative the terms are about the labels of the documents outside it:
    /// by χ², and by information gain.
    term_scores: [[OnceLock<TermScores>; FOLDS]; 2],
    factors: Mutex<Vec<FoldFactors>>,
    /// Rows that are already indexed, for one combination of features.
    indexed: Option<IndexedRows>,
}

impl CountedDocuments {
    /// Assigns counted documents to folds.
    pub(in crate::learn) fn new(counts: Counts, exclusion: Exclusion<'_>) -> Self {
        let clusters = clusters(exclusion, counts.documents());
        let sizes = counts.label_sizes();
        let folds = folds(&labels_of(&counts, &sizes), &clusters, FOLDS).into();
        Self::with_folds(counts, folds)
    }

    /// Creates counted documents with the given folds.
    pub(in crate::learn) fn with_folds(counts: Counts, folds: Arc<[u8]>) -> Self {
        Self {
            counts,
            folds,
            term_scores: Default::default(),
            factors: Mutex::default(),
            indexed: None,
        }
    }

    /// Adds indexed rows of the documents, if there are any. They are reused for features that
    /// produce the same rows.
    #[must_use]
    pub(in crate::learn) fn with_index(self, indexed: Option<IndexedRows>) -> Self {
        Self { indexed, ..self }
    }

    /// Frees the cached values that are not needed with the chosen features.
    pub(in crate::learn) fn release_unused(&mut self, chosen: &Features) {
        if !needs_scores(&self.counts, chosen.weighting) {
            let criterion = chosen.selection.map(|selection| selection.criterion);
            let of = [Criterion::Chi2, Criterion::InformationGain];
            for (scores, of) in self.term_scores.iter_mut().zip(of) {
                if criterion != Some(of) {
                    *scores = Default::default();
                }
            }
        }
        let without_steps = Features { term_steps: 0, ..chosen.clone() };
        let factors = self.factors.get_mut().unwrap_or_else(PoisonError::into_inner);
        factors.retain(|factors| chosen.term_steps > 0 && factors.features == without_steps);
    }

    /// Returns the counts.
    pub(in crate::learn) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Consumes the counted documents and returns the counts.
    pub(in crate::learn) fn into_counts(self) -> Counts {
        self.counts
    }

    /// Returns the fold of each document, below [`FOLDS`].
    pub(in crate::learn) fn folds(&self) -> &Arc<[u8]> {
        &self.folds
    }

    /// Returns how informative terms are about the labels of the documents outside a fold. Before
    /// concurrent calls, the values must be computed by
    /// [`prepare_term_scores`](Self::prepare_term_scores).
    fn term_scores(&self, criterion: Criterion, fold: usize, threads: &Threads) -> &TermScores {
        self.prepare_term_scores(criterion, fold..fold + 1, threads);
        self.term_scores_of(criterion)[fold].get().expect("just computed")
    }

    /// Computes the values of [`term_scores`](Self::term_scores) for some folds.
    fn prepare_term_scores(&self, criterion: Criterion, folds: Range<usize>, threads: &Threads) {
        let of_folds = &self.term_scores_of(criterion)[folds.clone()];
        let is_missing = |scores: &OnceLock<TermScores>| scores.get().is_none();
        let postings = of_folds.iter().any(is_missing).then(|| Postings::of(&self.counts));
        for (fold, scores) in folds.zip(of_folds) {
            let is_outside = |row: u32| usize::from(self.folds[row as usize]) != fold;
            if let Some(postings) = &postings {
                scores.get_or_init(|| {
                    TermScores::new(&self.counts, postings, criterion, threads, &is_outside)
                });
            }
        }
    }

    fn term_scores_of(&self, criterion: Criterion) -> &[OnceLock<TermScores>; FOLDS] {
        &self.term_scores[usize::from(criterion != Criterion::Chi2)]
    }

    /// Returns the number of weightings of the documents that fit in memory at the same time; 1 on
    /// a GPU.
    pub(in crate::learn) fn max_concurrent(&self, engines: &Engines) -> usize {
        if engines.is_gpu() { 1 } else { (MAX_ENTRIES / self.counts.entries().max(1)).max(1) }
    }

    /// Computes the values for which concurrent calls of [`leave_one_out`](Self::leave_one_out)
    /// would wait.
    pub(in crate::learn) fn prepare(
        &self,
        features: &Features,
        folds: Range<usize>,
        exclusion: Exclusion<'_>,
        engines: &Engines,
    ) -> Result<(), SearchError> {
        let threads = engines.threads();
        if let Some(selection) = features.selection {
            self.prepare_term_scores(selection.criterion, folds.clone(), threads);
        }
        if needs_scores(&self.counts, features.weighting) {
            self.prepare_term_scores(Criterion::Chi2, folds.clone(), threads);
        }
        if features.term_steps > 0 {
            for fold in folds {
                let _ = self.factors(features, fold, exclusion, engines)?;
            }
        }
        Ok(())
    }

    /// Returns the terms of a fold, from the labels of the documents outside it, without learned
    /// factors.
    fn terms(&self, features: &Features, fold: usize, threads: &Threads) -> FoldTerms {
        let kept = features.selection.map(|Selection { criterion, terms }| {
            self.term_scores(criterion, fold, threads).best(terms)
        });
        let by_labels = needs_scores(&self.counts, features.weighting);
        let scores = by_labels.then(|| self.term_scores(Criterion::Chi2, fold, threads));
        FoldTerms { kept, weights: term_weights(&self.counts, features.weighting, scores) }
    }

    /// Returns the terms of a fold. Their weights include learned factors if the features have
    /// them.
    fn terms_with_factors(
        &self,
        features: &Features,
        fold: usize,
        exclusion: Exclusion<'_>,
        engines: &Engines,
    ) -> Result<FoldTerms, SearchError> {
        let mut terms = self.terms(features, fold, engines.threads());
        if features.term_steps > 0 {
            let index = TERM_STEPS.iter().position(|&steps| steps >= features.term_steps);
            let index = index.unwrap_or(TERM_STEPS.len() - 1);
            let factors = self.factors(features, fold, exclusion, engines)?;
            multiply(&mut terms.weights, &factors[index]);
        }
        Ok(terms)
    }

    /// Returns the learned factors of terms, from the labels of the documents outside a fold.
    fn factors(
        &self,
        features: &Features,
        fold: usize,
        exclusion: Exclusion<'_>,
        engines: &Engines,
    ) -> Result<Arc<Vec<Vec<f32>>>, SearchError> {
        let others = Features { term_steps: 0, ..features.clone() };
        let cache = || self.factors.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |cached: &&FoldFactors| cached.fold == fold && cached.features == others;
        if let Some(cached) = cache().iter().find(is_same) {
            return Ok(Arc::clone(&cached.factors));
        }
        let threads = engines.threads();
        let terms = self.terms(features, fold, threads);
        let weighted =
            self.weighting_of(features, &terms, threads).weighted(terms.kept.as_deref(), None);
        let rows = u32::try_from(self.folds.len()).unwrap_or(u32::MAX);
        let is_outside = |row: u32| usize::from(self.folds[row as usize]) != fold;
        let outside = RowSet::from_fn(rows, is_outside);
        let exclusion = Exclusion { only: Some(&outside), ..exclusion };
        let sizes = self.counts.label_sizes();
        let labels = labels_of(&self.counts, &sizes);
        let rows = weighted.documents();
        let factors =
            Arc::new(term_weights::learn(rows, &labels, exclusion, &TERM_STEPS, engines)?);
        let learned = FoldFactors { features: others, fold, factors: Arc::clone(&factors) };
        cache().push(learned);
        Ok(factors)
    }

    /// Returns the settings that weight rows with the terms of a fold.
    fn weighting_of<'a>(
        &'a self,
        features: &'a Features,
        terms: &'a FoldTerms,
        threads: &'a Threads,
    ) -> RowWeighting<'a> {
        RowWeighting {
            counts: &self.counts,
            fields: &features.fields,
            weighting: features.weighting,
            weights: &terms.weights,
            threads,
        }
    }

    /// Returns the rows of a fold, weighted by the labels of the documents outside it. Terms that
    /// occur in only one document are dropped from its query, because they would be unknown in a
    /// new document.
    pub(in crate::learn) fn fold_rows(
        &self,
        features: &Features,
        fold: usize,
        exclusion: Exclusion<'_>,
        engines: &Engines,
    ) -> Result<FoldRows, SearchError> {
        let terms = self.terms_with_factors(features, fold, exclusion, engines)?;
        let frequencies = self.counts.vocabulary.document_frequencies();
        let query_terms = terms.kept_with(frequencies, |df| df > 1);
        let all: Vec<u32> = (0u32..).take(self.folds.len()).collect();
        let rows = self.in_folds(&all, &(fold..fold + 1));
        let query_terms = QueryTerms { terms: &query_terms, rows: &rows };
        let weighting = self.weighting_of(features, &terms, engines.threads());
        let weighted = weighting.weighted(terms.kept.as_deref(), Some(query_terms));
        let queries = Arc::clone(weighted.queries());
        Ok(FoldRows { documents: weighted.documents, queries })
    }

    /// Whether the terms depend on the labels of documents.
    pub(in crate::learn) fn depends_on_labels(&self, features: &Features) -> bool {
        features.selection.is_some()
            || features.term_steps > 0
            || needs_scores(&self.counts, features.weighting)
    }

    /// Returns, for each document, the share of its terms that would be unknown if it were held
    /// out.
    pub(in crate::learn) fn unknown_shares(
        &self,
        features: &Features,
        threads: &Threads,
    ) -> Vec<f64> {
        let kept: Vec<Vec<bool>> = features.selection.map_or(Vec::new(), |selection| {
            self.prepare_term_scores(selection.criterion, 0..FOLDS, threads);
            let of_fold =
                |fold| self.term_scores(selection.criterion, fold, threads).best(selection.terms);
            (0..FOLDS).map(of_fold).collect()
        });
        let unknown = |(row, &fold): (usize, &u8)| {
            self.counts.unknown_share_among(row, kept.get(usize::from(fold)).map(|kept| &**kept))
        };
        threads.run(|| self.folds.par_iter().enumerate().map(unknown).collect())
    }

    /// Returns the elements of `rows` that are in some of the folds.
    pub(in crate::learn) fn in_folds(&self, rows: &[u32], folds: &Range<usize>) -> Vec<u32> {
        let is_in = |&row: &u32| folds.contains(&usize::from(self.folds[row as usize]));
        rows.iter().copied().filter(is_in).collect()
    }

    /// Finds the leave-one-out neighbors of the elements of `rows` that are in some of the folds.
    ///
    /// If labels determine which terms are kept or how they are weighted, the terms of each fold
    /// come from the documents outside it. The neighbors are then in the order of the folds. Folds
    /// are searched concurrently if their rows take little memory.
    pub(in crate::learn) fn leave_one_out(
        &self,
        features: &Features,
        rows: &[u32],
        folds: Range<usize>,
        search: &HoldOutSearch<'_>,
    ) -> Result<LeaveOneOut, SearchError> {
        // Number of documents searched so far, over all folds.
        let done = AtomicU64::new(0);
        if !self.depends_on_labels(features) {
            let weights = term_weights(&self.counts, features.weighting, None);
            let terms = FoldTerms { kept: None, weights };
            return self.search_fold(features, &self.in_folds(rows, &folds), &terms, search, &done);
        }
        let HoldOutSearch { exclusion, engines, concurrent_folds, .. } = *search;
        // A thread that waits for these values may start another fold that needs the same values,
        // which would be a deadlock. So the values are computed first.
        self.prepare(features, folds.clone(), exclusion, engines)?;
        let of_fold = |&fold: &usize| {
            let rows = self.in_folds(rows, &(fold..fold + 1));
            let terms = self.terms_with_factors(features, fold, exclusion, engines)?;
            self.search_fold(features, &rows, &terms, search, &done)
        };
        let folds: Vec<usize> = folds.collect();
        let mut found = LeaveOneOut::default();
        for of_fold in engines.threads().map_few(&folds, concurrent_folds, of_fold) {
            found.append(&of_fold?);
        }
        Ok(found)
    }

    /// Finds the neighbors of some rows with the terms of their fold.
    fn search_fold(
        &self,
        features: &Features,
        rows: &[u32],
        terms: &FoldTerms,
        search: &HoldOutSearch<'_>,
        done: &AtomicU64,
    ) -> Result<LeaveOneOut, SearchError> {
        let HoldOutSearch { k, exclusion, engines, as_new, progress, .. } = *search;
        let frequencies = self.counts.vocabulary.document_frequencies();
        let query_terms = as_new.then(|| terms.kept_with(frequencies, |df| df > 1));
        let query_terms = query_terms.as_deref().map(|terms| QueryTerms { terms, rows });
        let before = AtomicU64::new(0);
        let progress = |now| {
            let more = now - before.swap(now, Ordering::Relaxed);
            progress(done.fetch_add(more, Ordering::Relaxed) + more);
        };
        let weighting = self.weighting_of(features, terms, engines.threads());
        let indexed = self.indexed.as_ref().filter(|indexed| {
            !self.depends_on_labels(features)
                && indexed.fields == features.fields
                && indexed.weighting == features.weighting
        });
        if let Some(IndexedRows { weighted, engine, .. }) = indexed {
            let queries = query_terms.map(|terms| weighting.queries(terms, weighted.mean_length));
            let queries = queries.as_ref().unwrap_or(weighted.queries()).view().into();
            let view = SearchableRows { engine: &**engine, queries };
            return LeaveOneOut::search(view, rows, k, exclusion, &progress);
        }
        let weighted = weighting.weighted(terms.kept.as_deref(), query_terms);
        weighted.leave_one_out(rows, k, exclusion, engines, &progress)
    }

    /// Finds the neighbors of documents whose labels are held out, among the documents with other
    /// labels. Also returns the share of their terms that do not occur in these documents. Terms
    /// and their weights come from these documents only.
    pub(in crate::learn) fn without_labels(
        &self,
        features: &Features,
        without: &HeldOutLabels,
        search: &NoveltySearch<'_>,
        engines: &Engines,
    ) -> Result<WithoutLabels, SearchError> {
        let counts = &self.counts;
        let threads = engines.threads();
        let exclusion = Exclusion { only: Some(&without.rows), ..search.exclusion };
        let sizes = counts.label_sizes();
        let labels = labels_of(counts, &sizes);
        let term_scores = |criterion| {
            let postings = Postings::of(counts);
            let is_in = |row| without.rows.contains(row);
            TermScores::new(counts, &postings, criterion, threads, &is_in)
        };
        let kept = features
            .selection
            .map(|Selection { criterion, terms }| term_scores(criterion).best(terms));
        let by_labels = needs_scores(counts, features.weighting);
        let scores = by_labels.then(|| term_scores(Criterion::Chi2));
        let frequencies = counts.frequencies_among(|row| without.rows.contains(row));
        let documents = without.rows.count() as u64;
        let among = Frequencies { of_terms: &frequencies, documents };
        let weights = among.term_weights(features.weighting, scores.as_ref());
        let mut terms = FoldTerms { kept, weights };
        if features.term_steps > 0 {
            let weighting = self.weighting_of(features, &terms, threads);
            let weighted = weighting.weighted(terms.kept.as_deref(), None);
            let steps = [features.term_steps];
            let rows = weighted.documents();
            let factors = term_weights::learn(rows, &labels, exclusion, &steps, engines)?;
            multiply(&mut terms.weights, &factors[0]);
        }
        let rows = &without.novel;
        let query_terms = terms.kept_with(&frequencies, |df| df > 0);
        let queries = QueryTerms { terms: &query_terms, rows };
        let weighting = self.weighting_of(features, &terms, threads);
        let weighted = weighting.weighted(terms.kept.as_deref(), Some(queries));
        let found = weighted.leave_one_out(rows, search.k, exclusion, engines, &|_| ())?;
        let unknown = |&row: &u32| counts.unknown_share_among(row as usize, Some(&query_terms));
        let unknown: Vec<f64> = rows.iter().map(unknown).collect();
        let queries = Arc::clone(weighted.queries());
        let rows = Some(FoldRows { documents: Arc::clone(weighted.documents()), queries });
        Ok(WithoutLabels { found, unknown, rows })
    }
}

fn multiply(weights: &mut [f64], factors: &[f32]) {
    weights.iter_mut().zip(factors).for_each(|(weight, &factor)| *weight *= f64::from(factor));
}

/// Returns the labels and weights of counted documents, for voting. `sizes` are the
/// [`Counts::label_sizes`].
pub(in crate::learn) fn labels_of<'a>(counts: &'a Counts, sizes: &'a [u32]) -> TrainingLabels<'a> {
    TrainingLabels {
        indptr: &counts.label_indptr,
        indices: &counts.label_indices,
        weights: &counts.weights,
        sizes,
    }
}
