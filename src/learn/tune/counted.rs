//! Counted training documents as rows to search: weighted with the labels of all documents, or for
//! each fold without the labels of its documents.
//!
//! Terms that are selected or weighted by labels know the labels of the documents that they were
//! learned from: left out as neighbors alone, these documents look easier than new ones are. So each
//! fold is left out together: as neighbors one at a time, as teachers of terms all at once.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rayon::prelude::*;

use crate::decide::vote::{PrototypeLearning, TrainingLabels};
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

use super::folds::{folds, kin};
use super::foreign::{Foreign, WithoutLabels};
use super::learned_terms::learned_terms;
use super::neighbors::{Exclusion, LeaveOneOut};
use super::prototypes::FoldRows;
use super::thresholds::FOLDS;

/// Training documents as weighted rows and as queries.
#[derive(Debug)]
pub struct Weighted {
    documents: Arc<Csr>,
    queries: Option<Arc<Csr>>,
    /// The mean length of the documents.
    mean_length: f64,
}

/// What queries are made of, if not of the rows themselves.
#[derive(Clone, Copy)]
struct Asked<'a> {
    /// The terms that are asked for.
    terms: &'a [bool],
    /// The rows that become queries; the others are empty.
    rows: &'a [u32],
}

/// How counted documents become rows.
#[derive(Clone, Copy)]
struct Made<'a> {
    counts: &'a Counts,
    fields: &'a Fields,
    weighting: Weighting,
    /// The weights of terms.
    weights: &'a [f64],
    threads: &'a Threads,
}

impl Made<'_> {
    /// Weights rows, given the mean length of the documents.
    fn weigh(&self, side: Side, mut rows: RawRows, mean_length: f64) -> Arc<Csr> {
        let terms = TermWeights { idf: self.weights, mean_length };
        rows.weigh(&self.weighting, side, terms, self.threads);
        let columns = self.counts.vocabulary.len();
        let rows = self.threads.run(|| csr(columns, rows.indptr, rows.indices, rows.data));
        Arc::new(rows.expect("rows in column order"))
    }

    /// Rows as queries of documents of this mean length.
    fn queries(&self, Asked { terms, rows }: Asked<'_>, mean_length: f64) -> Arc<Csr> {
        let rows = self.counts.rows_of(&self.fields.boosts(), terms, Some(rows));
        self.weigh(Side::Query, rows, mean_length)
    }

    /// All documents; only their terms in `kept`, if given.
    fn weighted(&self, kept: Option<&[bool]>, asked: Option<Asked<'_>>) -> Weighted {
        let boosts = self.fields.boosts();
        let rows = match kept {
            Some(kept) => self.counts.rows_of(&boosts, kept, None),
            None => self.counts.rows(&boosts, self.threads),
        };
        let mean_length = rows.mean_length(self.threads);
        let queries = match asked {
            Some(asked) => Some(self.queries(asked, mean_length)),
            None => (!self.weighting.is_symmetric())
                .then(|| self.weigh(Side::Query, rows.clone(), mean_length)),
        };
        Weighted { documents: self.weigh(Side::Document, rows, mean_length), queries, mean_length }
    }
}

/// Weighted documents with an engine that searches them.
#[derive(Debug)]
pub struct Indexed {
    fields: Fields,
    weighting: Weighting,
    weighted: Weighted,
    engine: Arc<dyn Search>,
}

impl Indexed {
    /// Weights counted documents and indexes them.
    ///
    /// # Errors
    /// If the rows cannot be indexed.
    pub fn new(
        counts: &Counts,
        fields: &Fields,
        weighting: Weighting,
        engines: &Engines,
    ) -> Result<Self, SearchError> {
        let weighted = Weighted::new(counts, fields, weighting, engines.threads());
        let engine = engines.engine(&weighted.documents)?;
        Ok(Self { fields: fields.clone(), weighting, weighted, engine })
    }

    /// The rows.
    pub fn weighted(&self) -> &Weighted {
        &self.weighted
    }

    /// The engine over the rows.
    pub fn engine(&self) -> &dyn Search {
        &*self.engine
    }
}

impl Weighted {
    /// Weights counted documents.
    ///
    /// # Panics
    /// Never: counts are valid by construction.
    pub fn new(counts: &Counts, fields: &Fields, weighting: Weighting, threads: &Threads) -> Self {
        let weights = all_term_weights(counts, weighting, threads);
        Made { counts, fields, weighting, weights: &weights, threads }.weighted(None, None)
    }

    /// The rows to search in.
    pub fn documents(&self) -> &Arc<Csr> {
        &self.documents
    }

    /// The rows as queries.
    pub fn queries(&self) -> &Arc<Csr> {
        self.queries.as_ref().unwrap_or(&self.documents)
    }

    /// The leave-one-out neighbors of `rows`.
    ///
    /// # Errors
    /// If the rows cannot be indexed.
    pub fn leave_one_out(
        &self,
        rows: &[u32],
        k: NonZeroUsize,
        exclusion: Exclusion<'_>,
        engines: &Engines,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<LeaveOneOut, SearchError> {
        let engine = engines.engine(&self.documents)?;
        let queries = self.queries().view();
        LeaveOneOut::search(&*engine, queries, rows, k, exclusion, progress)
    }
}

/// The settings that determine the vectors of documents.
#[derive(Debug, Clone, PartialEq)]
pub struct Features {
    /// How text becomes terms; `None`: the documents are given as vectors.
    pub analyzer: Option<AnalyzerSpec>,
    /// The fields and their boosts.
    pub fields: Fields,
    /// How counts become weights.
    pub weighting: Weighting,
    /// Which terms are kept.
    pub selection: Option<Selection>,
    /// The number of steps by which the weights of terms are learned: 5, 10 or 20; 0: they are not.
    pub term_steps: u32,
}

/// Rows are searched side by side as long as they have at most this many entries in total, which keeps their memory
/// below about 1 GiB.
const ENTRIES: usize = 1 << 25;

/// The numbers of steps that tuning tries.
pub(super) const TERM_STEPS: [u32; 3] = [5, 10, 20];

/// The learned factors of terms, without a fold.
#[derive(Debug)]
struct Taught {
    /// The other features.
    features: Features,
    left_out: usize,
    /// The factors after each number of steps in [`TERM_STEPS`].
    factors: Arc<Vec<Vec<f32>>>,
}

/// How documents are left out.
#[derive(Clone, Copy)]
pub struct LeaveOutSearch<'a> {
    /// The number of neighbors.
    pub k: NonZeroUsize,
    /// Documents that are excluded as neighbors.
    pub exclusion: Exclusion<'a>,
    /// The engines that search, with their threads.
    pub engines: &'a Engines,
    /// Whether terms of a left-out document alone are left out too, as they would be unknown in a new
    /// document: it does not change the order of neighbors, but their similarities.
    pub as_new: bool,
    /// How many folds are searched side by side, if terms are not the same in all of them.
    pub at_once: usize,
    /// Called with the number of documents left out so far.
    pub progress: &'a (dyn Fn(u64) + Sync),
}

impl std::fmt::Debug for LeaveOutSearch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LeaveOutSearch").field("k", &self.k).finish_non_exhaustive()
    }
}

/// Counted documents, their folds, and what is computed from them once.
#[derive(Debug)]
pub struct Counted {
    counts: Counts,
    /// The fold of each document.
    folds: Arc<[u8]>,
    postings: OnceLock<Postings>,
    /// For each fold, how informative terms are by the labels of the documents outside it: by χ²,
    /// and by information gain.
    scores: [[OnceLock<TermScores>; FOLDS]; 2],
    taught: Mutex<Vec<Taught>>,
    /// Rows that are already there, by some of the possible features.
    indexed: Option<Indexed>,
}

impl Counted {
    /// Deals counted documents to folds.
    pub fn new(counts: Counts, exclusion: Exclusion<'_>) -> Self {
        let kin = kin(exclusion, counts.documents());
        let sizes = counts.label_sizes();
        let folds = folds(&counts.training_labels(&sizes), &kin, FOLDS).into();
        Self::with_folds(counts, folds)
    }

    /// Counted documents in the folds that they are in by another analysis.
    pub(super) fn with_folds(counts: Counts, folds: Arc<[u8]>) -> Self {
        Self {
            counts,
            folds,
            postings: OnceLock::new(),
            scores: Default::default(),
            taught: Mutex::default(),
            indexed: None,
        }
    }

    /// The same with weighted and indexed rows of the documents, if there are any: they are used where features make
    /// the same rows.
    #[must_use]
    pub fn with_index(self, indexed: Option<Indexed>) -> Self {
        Self { indexed, ..self }
    }

    /// The counts.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The counts.
    pub fn into_counts(self) -> Counts {
        self.counts
    }

    /// The fold of each document, of [`FOLDS`].
    pub(super) fn folds(&self) -> &Arc<[u8]> {
        &self.folds
    }

    /// How informative terms are, by the labels of the documents outside a fold. Computed at the first
    /// call, which must not be one of several at the same time.
    pub(super) fn scores(
        &self,
        criterion: Criterion,
        left_out: usize,
        threads: &Threads,
    ) -> &TermScores {
        self.scores[usize::from(criterion != Criterion::Chi2)][left_out].get_or_init(|| {
            let postings = self.postings.get_or_init(|| Postings::of(&self.counts));
            let tells = |row: u32| usize::from(self.folds[row as usize]) != left_out;
            TermScores::new(&self.counts, postings, criterion, threads, &tells)
        })
    }

    /// The number of weightings of the documents whose rows are in memory side by side; one at a time on a GPU.
    pub(crate) fn at_once(&self, engines: &Engines) -> usize {
        if engines.is_gpu() { 1 } else { (ENTRIES / self.counts.entries().max(1)).max(1) }
    }

    /// Computes what several calls of [`left_out`](Self::left_out) at the same time would wait for.
    ///
    /// # Errors
    /// If the rows cannot be indexed.
    pub(super) fn prepare(
        &self,
        features: &Features,
        folds: Range<usize>,
        exclusion: Exclusion<'_>,
        engines: &Engines,
    ) -> Result<(), SearchError> {
        let threads = engines.threads();
        for left_out in folds {
            if let Some(selection) = features.selection {
                let _ = self.scores(selection.criterion, left_out, threads);
            }
            if needs_scores(&self.counts, features.weighting) {
                let _ = self.scores(Criterion::Chi2, left_out, threads);
            }
            if features.term_steps > 0 {
                let _ = self.term_factors(features, left_out, exclusion, engines)?;
            }
        }
        Ok(())
    }

    /// Which terms are kept and what each weighs, by the labels of the documents outside a fold, before
    /// weights are learned.
    fn told(
        &self,
        features: &Features,
        left_out: usize,
        threads: &Threads,
    ) -> (Option<Vec<bool>>, Vec<f64>) {
        let kept = features.selection.map(|Selection { criterion, terms }| {
            self.scores(criterion, left_out, threads).best(terms)
        });
        let by_labels = needs_scores(&self.counts, features.weighting);
        let scores = by_labels.then(|| self.scores(Criterion::Chi2, left_out, threads));
        (kept, term_weights(&self.counts, features.weighting, scores))
    }

    /// The learned factors of terms, by the labels of the documents outside a fold.
    fn term_factors(
        &self,
        features: &Features,
        left_out: usize,
        exclusion: Exclusion<'_>,
        engines: &Engines,
    ) -> Result<Arc<Vec<Vec<f32>>>, SearchError> {
        let others = Features { term_steps: 0, ..features.clone() };
        let taught = || self.taught.lock().unwrap_or_else(PoisonError::into_inner);
        let known = |taught: &&Taught| taught.left_out == left_out && taught.features == others;
        if let Some(known) = taught().iter().find(known) {
            return Ok(Arc::clone(&known.factors));
        }
        let threads = engines.threads();
        let (kept, weights) = self.told(features, left_out, threads);
        let (fields, weighting) = (&features.fields, features.weighting);
        let made = Made { counts: &self.counts, fields, weighting, weights: &weights, threads };
        let weighted = made.weighted(kept.as_deref(), None);
        let rows = u32::try_from(self.folds.len()).unwrap_or(u32::MAX);
        let outside = |row: u32| usize::from(self.folds[row as usize]) != left_out;
        let outside = RowSet::from_fn(rows, outside);
        let exclusion = Exclusion { only: Some(&outside), ..exclusion };
        let sizes = self.counts.label_sizes();
        let among = self.counts.training_labels(&sizes);
        let documents = weighted.documents();
        let factors = learned_terms(documents, &among, exclusion, &TERM_STEPS, engines)?;
        let factors = Arc::new(factors);
        taught().push(Taught { features: others, left_out, factors: Arc::clone(&factors) });
        Ok(factors)
    }

    /// The rows of a fold: what labels tell of terms, the documents outside it tell. Terms that a document of the fold
    /// alone has are left out of it as a query, as they would be unknown in a new document.
    ///
    /// # Errors
    /// If the rows cannot be indexed.
    pub(crate) fn fold_rows(
        &self,
        features: &Features,
        left_out: usize,
        exclusion: Exclusion<'_>,
        engines: &Engines,
    ) -> Result<FoldRows, SearchError> {
        let (counts, threads) = (&self.counts, engines.threads());
        let (kept, mut weights) = self.told(features, left_out, threads);
        self.multiply_factors(features, left_out, exclusion, engines, &mut weights)?;
        let frequencies = counts.vocabulary.document_frequencies().iter();
        let is_kept = |term: usize| kept.as_ref().is_none_or(|kept| kept[term]);
        let terms: Vec<bool> =
            frequencies.enumerate().map(|(term, &df)| df > 1 && is_kept(term)).collect();
        let all: Vec<u32> = (0u32..).take(self.folds.len()).collect();
        let rows = self.in_folds(&all, &(left_out..left_out + 1));
        let asked = Some(Asked { terms: &terms, rows: &rows });
        let (fields, weighting) = (&features.fields, features.weighting);
        let made = Made { counts, fields, weighting, weights: &weights, threads };
        let weighted = made.weighted(kept.as_deref(), asked);
        let queries = Arc::clone(weighted.queries());
        Ok(FoldRows { documents: weighted.documents, queries })
    }

    /// Multiplies the weights of terms by their learned factors, without a fold, if features have them.
    fn multiply_factors(
        &self,
        features: &Features,
        left_out: usize,
        exclusion: Exclusion<'_>,
        engines: &Engines,
        weights: &mut [f64],
    ) -> Result<(), SearchError> {
        if features.term_steps > 0 {
            let at = TERM_STEPS.iter().position(|&steps| steps >= features.term_steps);
            let at = at.unwrap_or(TERM_STEPS.len() - 1);
            let factors = self.term_factors(features, left_out, exclusion, engines)?;
            multiply(weights, &factors[at]);
        }
        Ok(())
    }

    /// Whether the terms of features depend on the labels of documents.
    pub fn is_told_by_labels(&self, features: &Features) -> bool {
        features.selection.is_some()
            || features.term_steps > 0
            || needs_scores(&self.counts, features.weighting)
    }

    /// The share of the terms of each document that would be unknown if it were left out.
    pub(crate) fn unknown_shares(&self, features: &Features, threads: &Threads) -> Vec<f64> {
        let kept: Vec<Vec<bool>> = features.selection.map_or(Vec::new(), |selection| {
            let of_fold =
                |fold| self.scores(selection.criterion, fold, threads).best(selection.terms);
            (0..FOLDS).map(of_fold).collect()
        });
        let unknown = |(row, &fold): (usize, &u8)| {
            self.counts.unknown_share_among(row, kept.get(usize::from(fold)).map(|kept| &**kept))
        };
        threads.run(|| self.folds.par_iter().enumerate().map(unknown).collect())
    }

    /// The documents of some rows in some folds.
    pub(super) fn in_folds(&self, rows: &[u32], folds: &Range<usize>) -> Vec<u32> {
        let is_in = |&row: &u32| folds.contains(&usize::from(self.folds[row as usize]));
        rows.iter().copied().filter(is_in).collect()
    }

    /// The leave-one-out neighbors of those of `rows` that are in some folds. If the labels of
    /// documents tell which terms are kept or how much they weigh, each fold's are told by the
    /// documents outside it, and the neighbors are in the order of folds. Folds are searched side by side if their rows take
    /// little memory.
    ///
    /// # Errors
    /// If the rows cannot be indexed.
    pub fn left_out(
        &self,
        features: &Features,
        rows: &[u32],
        folds: Range<usize>,
        search: &LeaveOutSearch<'_>,
    ) -> Result<LeaveOneOut, SearchError> {
        let LeaveOutSearch { k, exclusion, engines, as_new, at_once, progress } = *search;
        let (counts, threads) = (&self.counts, engines.threads());
        let Features { fields, weighting, .. } = features;
        // The number of documents that are done in all folds.
        let done = AtomicU64::new(0);
        let find = |rows: &[u32], weights: &[f64], kept: Option<&[bool]>| {
            let frequencies = counts.vocabulary.document_frequencies().iter();
            let asked: Option<Vec<bool>> = as_new.then(|| {
                let is_kept = |term: usize| kept.is_none_or(|kept| kept[term]);
                frequencies.enumerate().map(|(term, &df)| df > 1 && is_kept(term)).collect()
            });
            let asked = asked.as_deref().map(|terms| Asked { terms, rows });
            let before = AtomicU64::new(0);
            let progress = |now| {
                let more = now - before.swap(now, Ordering::Relaxed);
                progress(done.fetch_add(more, Ordering::Relaxed) + more);
            };
            let made = Made { counts, fields, weighting: *weighting, weights, threads };
            let known = self.indexed.as_ref().filter(|known| {
                !self.is_told_by_labels(features)
                    && (&known.fields, known.weighting) == (fields, *weighting)
            });
            if let Some(Indexed { weighted, engine, .. }) = known {
                let queries = asked.map(|asked| made.queries(asked, weighted.mean_length));
                let queries = queries.as_ref().unwrap_or(weighted.queries()).view();
                return LeaveOneOut::search(&**engine, queries, rows, k, exclusion, &progress);
            }
            let weighted = made.weighted(kept, asked);
            weighted.leave_one_out(rows, k, exclusion, engines, &progress)
        };
        if !self.is_told_by_labels(features) {
            let weights = term_weights(counts, *weighting, None);
            return find(&self.in_folds(rows, &folds), &weights, None);
        }
        // Computed before: a thread that waits for it may take up another fold, which needs the same, and neither would end.
        self.prepare(features, folds.clone(), exclusion, engines)?;
        let of_fold = |&left_out: &usize| {
            let rows = self.in_folds(rows, &(left_out..left_out + 1));
            let (kept, mut weights) = self.told(features, left_out, threads);
            self.multiply_factors(features, left_out, exclusion, engines, &mut weights)?;
            find(&rows, &weights, kept.as_deref())
        };
        let folds: Vec<usize> = folds.collect();
        let mut found = LeaveOneOut::default();
        for of_fold in threads.map_few(&folds, at_once, of_fold) {
            found.append(&of_fold?);
        }
        Ok(found)
    }
}

impl Counted {
    /// The neighbors of documents whose labels are left out, among those of other labels; and the share
    /// of their terms that these do not have. What labels tell of terms, only those others tell.
    ///
    /// # Errors
    /// If the rows cannot be indexed.
    pub(crate) fn without_labels(
        &self,
        features: &Features,
        without: (&WithoutLabels, Option<PrototypeLearning>),
        k: NonZeroUsize,
        exclusion: Exclusion<'_>,
        engines: &Engines,
    ) -> Result<Foreign, SearchError> {
        let (without, prototypes) = without;
        let (counts, threads) = (&self.counts, engines.threads());
        let Features { fields, weighting, selection, .. } = features;
        let scores = |criterion| {
            let postings = self.postings.get_or_init(|| Postings::of(counts));
            let is_in = |row| without.rows.contains(row);
            TermScores::new(counts, postings, criterion, threads, &is_in)
        };
        let kept = selection.map(|Selection { criterion, terms }| scores(criterion).best(terms));
        let told = needs_scores(counts, *weighting).then(|| scores(Criterion::Chi2));
        let frequencies = counts.frequencies_among(|row| without.rows.contains(row));
        let is_kept = |term: usize| kept.as_ref().is_none_or(|kept| kept[term]);
        let asked: Vec<bool> =
            frequencies.iter().enumerate().map(|(term, &df)| df > 0 && is_kept(term)).collect();
        let among = Frequencies { of_terms: &frequencies, documents: without.rows.count() as u64 };
        let mut weights = among.term_weights(*weighting, told.as_ref());
        if features.term_steps > 0 {
            let made = Made { counts, fields, weighting: *weighting, weights: &weights, threads };
            let weighted = made.weighted(kept.as_deref(), None);
            let exclusion = Exclusion { only: Some(&without.rows), ..exclusion };
            let sizes = counts.label_sizes();
            let (among, steps) = (counts.training_labels(&sizes), [features.term_steps]);
            let factors = learned_terms(weighted.documents(), &among, exclusion, &steps, engines)?;
            multiply(&mut weights, &factors[0]);
        }
        let asked_rows = Asked { terms: &asked, rows: &without.foreign };
        let made = Made { counts, fields, weighting: *weighting, weights: &weights, threads };
        let weighted = made.weighted(kept.as_deref(), Some(asked_rows));
        let exclusion = Exclusion { only: Some(&without.rows), ..exclusion };
        let rows = &without.foreign;
        let found = weighted.leave_one_out(rows, k, exclusion, engines, &|_| ())?;
        let unknown = |&row: &u32| counts.unknown_share_among(row as usize, Some(&asked));
        let unknown = rows.iter().map(unknown).collect();
        let (documents, queries) = (weighted.documents(), weighted.queries());
        let sizes = counts.label_sizes();
        let among = counts.training_labels(&sizes);
        let margins = prototypes.map_or(Vec::new(), |learning| {
            without.margins((documents, queries), &among, learning, threads)
        });
        Ok(Foreign { rows: without.rows.clone(), found, unknown, margins })
    }
}

fn multiply(weights: &mut [f64], factors: &[f32]) {
    weights.iter_mut().zip(factors).for_each(|(weight, &factor)| *weight *= f64::from(factor));
}

impl Counts {
    /// The training labels and weights for voting; `sizes` are [`Counts::label_sizes`].
    pub fn training_labels<'a>(&'a self, sizes: &'a [u32]) -> TrainingLabels<'a> {
        TrainingLabels {
            indptr: &self.label_indptr,
            indices: &self.label_indices,
            weights: &self.weights,
            sizes,
        }
    }
}
