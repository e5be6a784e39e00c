//! Feature selection by trial: weighting, stems, word pairs, title and term selection. Each is kept
//! if it improves a leave-one-out search of a sample.
//!
//! The search is greedy: one dimension after the other, keeping the best value of each; then once
//! more, because the best weighting changes when terms are dropped. Each trial weights all training
//! documents, searches the neighbors of the sample and re-votes a coarse grid.

use std::num::NonZeroUsize;
use std::sync::Arc;

use crate::analyze::{AnalyzerSpec, NgramRange, Stemmer, stop_words};
use crate::corpus::CorpusError;
use crate::counts::{Counts, Fields};
use crate::matrix::{Csr, csr};
use crate::search::{Engines, SearchError};
use crate::select::{Criterion, Selection};
use crate::tfidf::{RawRows, Side, TermWeights, Weighting};
use crate::vote::TrainingLabels;

use super::neighbors::{Exclusion, LeaveOneOut};
use super::{Figures, Grid, Trial, revote};

/// Training documents as weighted rows and as queries.
#[derive(Debug)]
pub struct Weighted {
    documents: Arc<Csr>,
    queries: Option<Arc<Csr>>,
}

impl Weighted {
    /// Weights counted documents.
    ///
    /// # Panics
    /// Never: counts are valid by construction.
    pub fn new(counts: &Counts, fields: &Fields, weighting: Weighting) -> Self {
        Self::told_by(counts, fields, weighting, &|_| true)
    }

    /// The same, using only the labels of the documents for which `tells` returns true.
    fn told_by(
        counts: &Counts,
        fields: &Fields,
        weighting: Weighting,
        tells: &dyn Fn(u32) -> bool,
    ) -> Self {
        let columns = counts.vocabulary.len();
        let rows = counts.rows(&fields.boosts());
        let idf = counts.term_weights(weighting, tells);
        let terms = TermWeights { idf: &idf, mean_length: rows.mean_length() };
        let weigh = |side, mut rows: RawRows| {
            weighting.weigh_rows(side, &mut rows, terms);
            Arc::new(
                csr(columns, rows.indptr, rows.indices, rows.data).expect("rows in column order"),
            )
        };
        let queries = (!weighting.is_symmetric()).then(|| weigh(Side::Query, rows.clone()));
        Self { documents: weigh(Side::Document, rows), queries }
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
        progress: &dyn Fn(u64),
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
}

/// Which features may be changed.
#[expect(clippy::struct_excessive_bools, reason = "five dimensions, each free or not")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Free {
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
}

/// A feature that was tried.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Step {
    /// The change.
    pub change: String,
    /// The leave-one-out figures of the best vote on the sample.
    #[serde(flatten)]
    pub trial: Trial,
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
pub type Recount<'a> =
    dyn FnMut(&Option<AnalyzerSpec>, &Fields) -> Result<Counts, CorpusError> + 'a;

/// How to run the trials.
pub struct Trials<'a> {
    /// Counts the training documents again.
    pub recount: &'a mut Recount<'a>,
    /// The documents to leave out, as row numbers.
    pub sample: &'a [u32],
    /// The largest k to try.
    pub k_max: NonZeroUsize,
    /// The votes to try.
    pub grid: &'a Grid,
    /// Documents that are excluded as neighbors.
    pub exclusion: Exclusion<'a>,
    /// The engines that search, with their threads.
    pub engines: &'a Engines,
    /// Called after every trial.
    pub progress: &'a mut dyn FnMut(&Step),
}

impl std::fmt::Debug for Trials<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trials").finish_non_exhaustive()
    }
}

/// The number of folds of the sample for term selection: the terms for each fold are chosen by the
/// other documents.
const FOLDS: u32 = 4;

impl Trials<'_> {
    /// The leave-one-out neighbors of the sample. Terms are selected and weighted without the
    /// labels of the left-out documents, which would make rare terms look better than they are.
    fn neighbors(&self, counts: &Counts, features: &Features) -> Result<LeaveOneOut, SearchError> {
        let search = |counts: &Counts, rows: &[u32], tells: &dyn Fn(u32) -> bool| {
            let Features { fields, weighting, .. } = features;
            let weighted = Weighted::told_by(counts, fields, *weighting, tells);
            weighted.leave_one_out(rows, self.k_max, self.exclusion, self.engines, &|_| ())
        };
        if features.selection.is_none() && features.weighting.chi2_power() <= 0.0 {
            return search(counts, self.sample, &|_| true);
        }
        // Folds are contiguous stretches: neighboring documents are often alike.
        let documents = u64::try_from(counts.documents()).unwrap_or(u64::MAX).max(1);
        let fold = |row: u32| u64::from(row) * u64::from(FOLDS) * 8 / documents % u64::from(FOLDS);
        let mut found = LeaveOneOut::default();
        for left_out in 0..u64::from(FOLDS) {
            let rows: Vec<u32> =
                self.sample.iter().copied().filter(|&row| fold(row) == left_out).collect();
            let tells = |row: u32| fold(row) != left_out;
            found.append(&match features.selection {
                Some(selection) => {
                    let kept = counts.selected(selection, &tells);
                    search(&counts.clone().keep(&kept), &rows, &tells)?
                }
                None => search(counts, &rows, &tells)?,
            });
        }
        Ok(found)
    }
}

/// A change is kept if it improves the objective by at least this much; less may be chance.
const GAIN: f64 = 0.001;
/// How many times all dimensions are searched.
const ROUNDS: usize = 2;

/// The state of the greedy search.
struct GreedySearch<'t, 'a> {
    trials: &'t mut Trials<'a>,
    best: Features,
    figures: Option<Figures>,
    /// The counts for each combination of analyzer and fields that was requested.
    counted: Vec<((Option<AnalyzerSpec>, Fields), Counts)>,
    steps: Vec<Step>,
    tried: Vec<Features>,
    /// The stemmer for the corpus's language.
    stemmer: Option<Stemmer>,
}

/// The best features found from `start`, the counts of their documents, and all steps.
///
/// # Errors
/// If the documents cannot be counted or searched.
pub fn tune_features(
    trials: &mut Trials<'_>,
    start: Features,
    free: Free,
) -> Result<(Features, Counts, Vec<Step>), FeatureError> {
    let fields = start.fields.clone();
    let mut search = GreedySearch {
        trials,
        best: start,
        figures: None,
        counted: Vec::new(),
        steps: Vec::new(),
        tried: Vec::new(),
        stemmer: None,
    };
    search.try_out("as given".to_owned(), search.best.clone())?;
    search.stemmer = language(&search.counted[0].1);
    for _ in 0..ROUNDS {
        if free.weighting {
            search.weightings()?;
        }
        if free.chi2_power {
            search.chi2_powers()?;
        }
        if free.title && fields == Fields::Whole {
            search.titles()?;
        }
        if free.analyzer {
            search.analyzers()?;
        }
        if free.selection {
            search.selections(free)?;
        }
    }
    let (best, steps) = (search.best.clone(), std::mem::take(&mut search.steps));
    let at = search.count(&best)?;
    let mut counts = search.counted.swap_remove(at).1;
    if let Some(selection) = best.selection {
        counts = counts.select(selection);
    }
    Ok((best, counts, steps))
}

impl GreedySearch<'_, '_> {
    /// The index of the counts for these features; counts if necessary.
    fn count(&mut self, features: &Features) -> Result<usize, CorpusError> {
        // The boost is applied later, so fields are counted separately once.
        let fields = match features.fields {
            Fields::FirstLine { .. } => Fields::FirstLine { boost: 1.0 },
            ref fields => fields.clone(),
        };
        let key = (features.analyzer.clone(), fields);
        if let Some(at) = self.counted.iter().position(|(counted, _)| *counted == key) {
            return Ok(at);
        }
        let counts = (self.trials.recount)(&key.0, &key.1)?;
        self.counted.push((key, counts));
        Ok(self.counted.len() - 1)
    }

    fn try_out(&mut self, change: String, features: Features) -> Result<(), FeatureError> {
        if self.tried.contains(&features) {
            return Ok(());
        }
        self.tried.push(features.clone());
        let at = self.count(&features)?;
        let counts = &self.counted[at].1;
        let trials = &mut *self.trials;
        let found = trials.neighbors(counts, &features)?;
        let sizes = counts.label_sizes();
        let trial =
            revote(&found, counts.training_labels(&sizes), trials.grid, trials.engines.threads())
                .best;
        let value = |figures| trials.grid.objective.of(figures);
        let least = |figures| value(figures) + GAIN;
        let kept = self.figures.is_none_or(|figures| value(trial.figures) >= least(figures));
        let step = Step { change, trial, kept };
        (trials.progress)(&step);
        self.steps.push(step);
        if kept {
            self.figures = Some(trial.figures);
            self.best = features;
        }
        Ok(())
    }

    fn weightings(&mut self) -> Result<(), FeatureError> {
        for code in ["ltc", "lsc", "btc", "ntc", "bm25"] {
            for power in [0.5, 1.0, 1.5] {
                let weighting: Weighting = code.parse().expect("each is a weighting");
                let weighting = weighting
                    .with_idf_power(power)
                    .and_then(|w| w.with_chi2_power(self.best.weighting.chi2_power()));
                let Some(weighting) = weighting else { continue };
                let features = Features { weighting, ..self.best.clone() };
                self.try_out(format!("weighting {weighting}, idf power {power}"), features)?;
            }
        }
        Ok(())
    }

    fn chi2_powers(&mut self) -> Result<(), FeatureError> {
        for power in [0.0, 0.125, 0.25, 0.375, 0.5] {
            let Some(weighting) = self.best.weighting.with_chi2_power(power) else { continue };
            let features = Features { weighting, ..self.best.clone() };
            self.try_out(format!("chi2 power {power}"), features)?;
        }
        Ok(())
    }

    fn titles(&mut self) -> Result<(), FeatureError> {
        for boost in [1.0, 2.0, 3.0, 5.0] {
            let fields = Fields::FirstLine { boost };
            let features = Features { fields, ..self.best.clone() };
            self.try_out(format!("first line × {boost}"), features)?;
        }
        Ok(())
    }

    fn analyzers(&mut self) -> Result<(), FeatureError> {
        for other in [self.other_stems(), self.other_pairs()] {
            self.try_out(named("all", &other), other)?;
        }
        Ok(())
    }

    fn selections(&mut self, free: Free) -> Result<(), FeatureError> {
        // Stems and word pairs often help only together with term selection.
        let mut bases = vec![self.best.clone()];
        if free.analyzer {
            bases.extend([self.other_stems(), self.other_pairs()]);
        }
        for base in bases {
            let at = self.count(&base)?;
            let terms = self.counted[at].1.vocabulary.len();
            for count in [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000] {
                let Some(count) = NonZeroUsize::new(count).filter(|n| n.get() < terms) else {
                    continue;
                };
                let selection = Selection { criterion: Criterion::Chi2, terms: count };
                let features = Features { selection: Some(selection), ..base.clone() };
                self.try_out(named(&selection.to_string(), &features), features)?;
            }
        }
        Ok(())
    }

    /// The best features with stemming switched on or off.
    fn other_stems(&self) -> Features {
        let mut other = self.best.clone();
        if let Some(analyzer) = &mut other.analyzer {
            analyzer.stemmer = if analyzer.stemmer.is_some() { None } else { self.stemmer };
        }
        other
    }

    /// The best features with word pairs switched on or off.
    fn other_pairs(&self) -> Features {
        let mut other = self.best.clone();
        if let Some(analyzer) = &mut other.analyzer {
            let (words, pairs) = (NgramRange::new(1, 1), NgramRange::new(1, 2));
            analyzer.word_ngrams = if analyzer.word_ngrams == words { pairs } else { words };
        }
        other
    }
}

/// A description of the terms of features, after their number.
fn named(how_many: &str, features: &Features) -> String {
    let of = features.analyzer.as_ref().map_or("columns", |analyzer| {
        let pairs = analyzer.word_ngrams == NgramRange::new(1, 2);
        match (analyzer.stemmer.is_some(), pairs) {
            (false, false) => "words",
            (true, false) => "stems",
            (false, true) => "words and pairs",
            (true, true) => "stems and pairs",
        }
    });
    format!("{how_many} {of}")
}

/// The language whose stop words occur in the most documents, if there is a stemmer for it.
fn language(counts: &Counts) -> Option<Stemmer> {
    let documents = counts.documents() as f64;
    let frequencies = counts.vocabulary.document_frequencies();
    let share = |stemmer: Stemmer| -> f64 {
        let words = stop_words(stemmer.code()).unwrap_or_default();
        let ids = words.iter().filter_map(|word| counts.vocabulary.id(word));
        ids.map(|id| f64::from(frequencies[id as usize])).sum::<f64>() / documents
    };
    let best = Stemmer::all().map(|stemmer| (stemmer, share(stemmer)));
    let best = best.max_by(|a, b| a.1.total_cmp(&b.1))?;
    (best.1 >= 1.0).then_some(best.0)
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
