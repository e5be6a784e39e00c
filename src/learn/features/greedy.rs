//! The greedy search, which changes one dimension of the features at a time.

use std::cmp::Reverse;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use super::setup::{ChosenFeatures, FeatureError, FreeDimensions, Recount, Step, TrialSetup};
use crate::decide::objective::Metrics;
use crate::learn::held_out::{FOLDS, LeaveOneOut};
use crate::learn::training_rows::{CountedDocuments, Features, TERM_STEPS};
use crate::learn::votes::Trial;
use crate::search::SearchError;
use crate::text::analyze::{
    AnalyzerSpec, CharScope, NgramRange, Stemmer, stop_word_languages, stop_words,
};
use crate::text::corpus::CorpusError;
use crate::text::counts::{Counts, Fields};
use crate::text::select::{Criterion, Selection};
use crate::text::tfidf::Weighting;

/// The search for the best features.
pub(in crate::learn) struct FeatureSearch<'a> {
    /// The setup that all trials share.
    pub setup: TrialSetup<'a>,
    /// The code of the corpus's language, if it was recognized.
    pub language: Option<&'static str>,
    /// Counts the training documents with other features.
    pub recount: &'a mut Recount<'a>,
    /// Maximum number of document-term pairs, with the features at the start, for which all counts
    /// are kept. Documents of larger corpora are counted again when they are needed again.
    pub max_entries_to_keep: usize,
    /// The function to call after every trial.
    pub progress: &'a mut dyn FnMut(&Step),
}

impl std::fmt::Debug for FeatureSearch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FeatureSearch").field("setup", &self.setup).finish_non_exhaustive()
    }
}

/// Minimum gain in the objective for which a change is kept; a smaller gain may be noise.
const MIN_GAIN: f64 = 0.001;
/// Minimum gain of a weighting that excludes learned term weights and label prototypes, over one
/// that allows them. Learned term weights and label prototypes usually gain as much.
const MIN_GAIN_WITHOUT_LEARNERS: f64 = 0.01;
/// A change that loses more than this on the first fold, relative to the best change, is not tried
/// on the whole sample.
const MAX_LOSS_ON_FIRST_FOLD: f64 = 0.01;
/// The numbers of selected terms that are tried first.
const TERM_COUNTS: [usize; 3] = [2_000, 8_000, 32_000];
/// The numbers of selected terms that are tried around the best of [`TERM_COUNTS`].
const MORE_TERM_COUNTS: [usize; 4] = [500, 1_000, 4_000, 16_000];
/// Minimum lead over the cosine weightings for BM25 to be pursued separately. With a smaller lead,
/// BM25 lost on all corpora of docs/quality.md. In that case, BM25 is tried again with the
/// best features for the cosine weightings.
const MIN_BM25_LEAD: f64 = MIN_GAIN_WITHOUT_LEARNERS / 2.0;
/// Lower bound on the largest k of a trial, unless the limit of k is smaller.
const MIN_LARGEST_K: NonZeroUsize = NonZeroUsize::new(60).unwrap();
/// Maximum number of changes of one dimension that are tried on the whole sample.
const MAX_CONTESTANTS: usize = 16;
/// Minimum size of the first fold. If it is smaller, every change is tried on the whole sample.
const MIN_FIRST_FOLD: usize = 400;
/// Maximum number of document-term pairs for trying character n-grams. They are slow on longer
/// texts and seldom help there.
pub(in crate::learn) const MAX_ENTRIES_FOR_CHARACTERS: usize = 300_000;
/// Maximum number of documents for trying character n-grams together with other features. With few
/// documents, they help neighbors, too. With more, they are tried later.
const MAX_DOCUMENTS_FOR_CHARACTERS: usize = 1_000;

/// The settings that determine how documents are converted to terms.
#[derive(Debug, Clone, PartialEq)]
struct Terms {
    analyzer: Option<AnalyzerSpec>,
    fields: Fields,
}

impl Terms {
    fn of(features: &Features) -> Self {
        // The boost is applied after counting, so one count with separate fields serves all boosts.
        let fields = match features.fields {
            Fields::FirstLine { .. } => Fields::FirstLine { boost: 1.0 },
            ref fields => fields.clone(),
        };
        Self { analyzer: features.analyzer.clone(), fields }
    }
}

/// A change that has not been dropped yet.
struct Contestant {
    change: String,
    features: Features,
    /// The neighbors of the documents held out so far.
    found: LeaveOneOut,
}

/// The metrics of one set of features on the sample.
#[derive(Debug, Clone, Copy)]
struct SampleMetrics {
    first_fold: Metrics,
    whole_sample: Metrics,
}

/// The best features that the greedy search has found so far.
#[derive(Clone)]
struct BestFeatures {
    features: Features,
    /// The metrics on the sample; `None` if nothing was tried.
    metrics: Option<SampleMetrics>,
    /// The best k on the whole sample; 0 if nothing was tried.
    k: usize,
}

/// The cosine weightings to try.
const COSINE_WEIGHTINGS: [&str; 4] = ["ltc", "lsc", "btc", "ntc"];
/// The only weighting that is tried without cosine normalization.
const BM25: &str = "bm25";
/// Weightings that differ from `ltc` only in the term frequency, which is always 1 for binary
/// features.
const SAME_AS_LTC_IF_BINARY: [&str; 2] = ["btc", "ntc"];

/// The state of the greedy search.
struct GreedySearch<'t, 'a> {
    trials: &'t mut FeatureSearch<'a>,
    best: BestFeatures,
    /// The counts for some combinations of analyzer and fields: for those that were requested or,
    /// if the corpus is large, only for the best and the one in use.
    counted: Vec<(Terms, CountedDocuments)>,
    /// The size of the vocabulary for each combination that was counted.
    vocabulary_sizes: Vec<(Terms, usize)>,
    /// The number of document-term pairs of the features at the start.
    entries: usize,
    /// The fold of each document.
    folds: Arc<[u8]>,
    steps: Vec<Step>,
    tried: Vec<Features>,
    /// The objective of each change on the first fold, or on the whole sample if the first fold has
    /// too few documents.
    first_fold_values: Vec<(Features, f64)>,
}

impl FeatureSearch<'_> {
    /// Finds the best features, starting from `start`, with which `counts` were counted.
    ///
    /// # Errors
    /// Fails if the documents cannot be counted or searched.
    pub(in crate::learn) fn run(
        &mut self,
        start: Features,
        counts: Counts,
        free: FreeDimensions,
    ) -> Result<ChosenFeatures, FeatureError> {
        let fields = start.fields.clone();
        let counted = CountedDocuments::new(counts, self.setup.exclusion);
        let mut search = GreedySearch {
            trials: self,
            entries: counted.counts().entries(),
            folds: Arc::clone(counted.folds()),
            vocabulary_sizes: vec![(Terms::of(&start), counted.counts().vocabulary.len())],
            counted: vec![(Terms::of(&start), counted)],
            best: BestFeatures { features: start, metrics: None, k: 0 },
            steps: Vec::new(),
            tried: Vec::new(),
            first_fold_values: Vec::new(),
        };
        search.search(FreeDimensions { title: free.title && fields == Fields::Whole, ..free })?;
        let features = search.best.features.clone();
        let steps = std::mem::take(&mut search.steps);
        let index = search.count(&features)?;
        let (_, counted) = search.counted.swap_remove(index);
        Ok(ChosenFeatures { features, counted, steps })
    }
}

impl GreedySearch<'_, '_> {
    /// Tries one dimension after another.
    fn search(&mut self, free: FreeDimensions) -> Result<(), FeatureError> {
        self.try_out(vec![("as given".to_owned(), self.best.features.clone())])?;
        if free.chi2_power {
            self.try_chi2_powers()?;
        }
        let mut starts = Vec::new();
        if free.weighting {
            let start = self.best.clone();
            for codes in [&COSINE_WEIGHTINGS[..], &[BM25]] {
                self.best = start.clone();
                self.try_weightings(codes)?;
                starts.push(self.best.clone());
            }
            starts.dedup_by(|a, b| a.features == b.features);
        } else {
            starts.push(self.best.clone());
        }
        let values: Vec<f64> = starts.iter().map(|start| self.value(start)).collect();
        let max = values.iter().copied().fold(0.0, f64::max);
        let mut best: Option<BestFeatures> = None;
        for (number, start) in starts.into_iter().enumerate() {
            let min_value =
                if number == 0 { max - MAX_LOSS_ON_FIRST_FOLD } else { values[0] + MIN_BM25_LEAD };
            if values[number] >= min_value {
                self.best = start;
                self.try_terms(free)?;
                let is_better = |best: &BestFeatures| self.value(&self.best) > self.value(best);
                if best.as_ref().is_none_or(is_better) {
                    best = Some(self.best.clone());
                }
            }
        }
        self.best = best.expect("one of the starts is close to the best");
        if free.chi2_power {
            self.try_chi2_powers()?;
        }
        if free.weighting {
            self.try_weightings(&COSINE_WEIGHTINGS)?;
            self.try_weightings(&[BM25])?;
        }
        self.try_terms(free)?;
        let weighting = self.best.features.weighting;
        if free.term_weights && weighting.is_cosine() && weighting.is_symmetric() {
            self.try_term_weights()?;
        }
        Ok(())
    }

    /// Returns the objective of the given features on the whole sample.
    fn value(&self, best: &BestFeatures) -> f64 {
        let objective = self.trials.setup.grid.objective;
        best.metrics.map_or(0.0, |metrics| objective.of(metrics.whole_sample))
    }

    /// Tries title boosts, analyzers and selections.
    fn try_terms(&mut self, free: FreeDimensions) -> Result<(), FeatureError> {
        if free.title {
            self.try_titles()?;
        }
        if free.analyzer {
            self.try_analyzers()?;
        }
        if free.selection {
            self.try_selections(free)?;
        }
        Ok(())
    }

    /// Returns the index of the counts for these features. Counts the documents if necessary.
    fn count(&mut self, features: &Features) -> Result<usize, CorpusError> {
        let terms = Terms::of(features);
        if !self.keeps_all_counts() {
            let best = Terms::of(&self.best.features);
            self.counted.retain(|(counted, _)| *counted == terms || *counted == best);
        }
        if let Some(at) = self.counted.iter().position(|(counted, _)| *counted == terms) {
            return Ok(at);
        }
        let counts = (self.trials.recount)(&terms.analyzer, &terms.fields)?;
        self.vocabulary_sizes.push((terms.clone(), counts.vocabulary.len()));
        // The documents and their labels do not change, so the folds do not either.
        let counted = CountedDocuments::with_folds(counts, Arc::clone(&self.folds));
        self.counted.push((terms, counted));
        Ok(self.counted.len() - 1)
    }

    /// Returns the number of terms without selection.
    fn vocabulary_size(&mut self, features: &Features) -> Result<usize, CorpusError> {
        let terms = Terms::of(features);
        if let Some(&(_, size)) = self.vocabulary_sizes.iter().find(|(other, _)| *other == terms) {
            return Ok(size);
        }
        let at = self.count(features)?;
        Ok(self.counted[at].1.counts().vocabulary.len())
    }

    fn keeps_all_counts(&self) -> bool {
        self.entries <= self.trials.max_entries_to_keep
    }

    /// Tries changes of one dimension: all of them on the first fold, and the best of these on the
    /// whole sample. Keeps the best change if it improves the objective.
    fn try_out(&mut self, changes: Vec<(String, Features)>) -> Result<(), FeatureError> {
        let mut open = Vec::new();
        for (change, features) in changes {
            if !self.tried.contains(&features) {
                self.tried.push(features.clone());
                open.push(Contestant { change, features, found: LeaveOneOut::default() });
            }
        }
        let value = |metrics: Metrics| self.trials.setup.grid.objective.of(metrics);
        let is_in_first = |&&row: &&u32| self.folds[row as usize] == 0;
        let few = self.trials.setup.sample.iter().filter(is_in_first).count() < MIN_FIRST_FOLD;
        let first = if few { 0..FOLDS } else { 0..1 };
        let first_fold_values = self.hold_out(&mut open, first.clone())?;
        let mut values: Vec<f64> =
            first_fold_values.iter().map(|trial| value(trial.metrics)).collect();
        let tried = open.iter().map(|open| open.features.clone());
        self.first_fold_values.extend(tried.zip(values.iter().copied()));
        values.extend(self.best.metrics.map(|metrics| value(metrics.first_fold)));
        values.sort_by(|a, b| b.total_cmp(a));
        let min_value = values.first().map_or(0.0, |best| best - MAX_LOSS_ON_FIRST_FOLD);
        let min_value =
            values.get(MAX_CONTESTANTS - 1).map_or(min_value, |&last| min_value.max(last));
        let mut left = Vec::new();
        let mut first_metrics = Vec::new();
        for (contestant, trial) in open.into_iter().zip(first_fold_values) {
            if few || self.best.metrics.is_none() || value(trial.metrics) >= min_value {
                first_metrics.push(trial.metrics);
                left.push(contestant);
            } else {
                self.record_step(contestant.change, trial, contestant.found.len(), false);
            }
        }
        let trials = self.hold_out(&mut left, first.end..FOLDS)?;
        for ((contestant, trial), first) in left.into_iter().zip(trials).zip(first_metrics) {
            let value = |metrics: Metrics| self.trials.setup.grid.objective.of(metrics);
            let allows_learners = |features: &Features| {
                features.weighting.is_cosine() && features.weighting.is_symmetric()
            };
            let rules_out_learners =
                allows_learners(&self.best.features) && !allows_learners(&contestant.features);
            // If only the number of steps changes, any gain suffices.
            let learns = |features: &Features| features.term_steps > 0;
            let gain = match (rules_out_learners, learns(&self.best.features)) {
                (true, _) => MIN_GAIN_WITHOUT_LEARNERS,
                (false, true) if learns(&contestant.features) => f64::EPSILON,
                (false, _) => MIN_GAIN,
            };
            let best = self.best.metrics.map(|metrics| value(metrics.whole_sample) + gain);
            let kept = best.is_none_or(|min_value| value(trial.metrics) >= min_value);
            if kept {
                let whole_sample = trial.metrics;
                let metrics = Some(SampleMetrics { first_fold: first, whole_sample });
                self.best = BestFeatures { features: contestant.features, metrics, k: trial.k };
            }
            self.record_step(contestant.change, trial, contestant.found.len(), kept);
        }
        Ok(())
    }

    fn record_step(&mut self, change: String, trial: Trial, documents: usize, kept: bool) {
        let step = Step { change, trial, documents, kept };
        (self.trials.progress)(&step);
        self.steps.push(step);
    }

    /// Holds out more documents for every contestant, and returns the best vote of each.
    fn hold_out(
        &mut self,
        contestants: &mut [Contestant],
        folds: Range<usize>,
    ) -> Result<Vec<Trial>, FeatureError> {
        if self.keeps_all_counts() {
            return self.hold_out_together(contestants, folds);
        }
        let mut trials = Vec::new();
        let share_counts =
            |a: &Contestant, b: &Contestant| Terms::of(&a.features) == Terms::of(&b.features);
        for group in contestants.chunk_by_mut(share_counts) {
            trials.extend(self.hold_out_together(group, folds.clone())?);
        }
        Ok(trials)
    }

    /// Like [`hold_out`](Self::hold_out), with the counts of all contestants in memory. Tries
    /// several contestants concurrently if there are enough threads.
    fn hold_out_together(
        &mut self,
        contestants: &mut [Contestant],
        folds: Range<usize>,
    ) -> Result<Vec<Trial>, FeatureError> {
        for contestant in &*contestants {
            self.count(&contestant.features)?;
        }
        let counted = |contestant: &Contestant| {
            let terms = Terms::of(&contestant.features);
            let counted = self.counted.iter().find(|(counted, _)| *counted == terms);
            &counted.expect("they were counted above").1
        };
        let setup = self.trials.setup;
        let k = largest_k(self.best.k, setup.k_max, setup.grid.multi_label);
        let threads = setup.engines.threads();
        let of = |contestant: &Contestant| counted(contestant).max_concurrent(setup.engines);
        let max_concurrent = contestants.iter().map(of).min().unwrap_or(1);
        let together = max_concurrent.min(contestants.len()).max(1);
        let concurrent_folds = max_concurrent / together;
        let try_one = |contestant: &mut Contestant| {
            let counted = counted(contestant);
            if !folds.is_empty() {
                let features = &contestant.features;
                let more =
                    setup.neighbors(counted, features, folds.clone(), k, concurrent_folds)?;
                contestant.found.append(&more);
            }
            Ok(setup.trial(counted.counts(), &contestant.found))
        };
        if together == 1 || threads.count() == 1 {
            let trials: Result<_, SearchError> = contestants.iter_mut().map(try_one).collect();
            return Ok(trials?);
        }
        // Values that several contestants need are computed first, to avoid a deadlock. Otherwise a
        // contestant could wait for a value while its threads try another contestant that also
        // waits.
        for contestant in &*contestants {
            let exclusion = setup.exclusion;
            let folds = folds.clone();
            counted(contestant).prepare(&contestant.features, folds, exclusion, setup.engines)?;
        }
        let mut tried = Vec::new();
        for contestants in contestants.chunks_mut(together) {
            let results = || contestants.par_iter_mut().map(try_one).collect();
            let results: Result<Vec<Trial>, SearchError> = threads.run(results);
            tried.extend(results?);
        }
        Ok(tried)
    }

    fn try_weightings(&mut self, codes: &[&str]) -> Result<(), FeatureError> {
        let start = self.best.features.clone();
        let at = self.count(&start)?;
        let binary = start.analyzer.is_none() && self.counted[at].1.counts().is_binary();
        let with = |code: &str, power: f64| {
            let weighting: Weighting = code.parse().expect("every code is a weighting");
            let weighting = weighting.with_idf_power(power)?;
            let weighting = weighting.with_chi2_power(start.weighting.chi2_power())?;
            let features = Features { weighting, ..start.clone() };
            Some((format!("weighting {weighting}, idf power {power}"), features))
        };
        let codes = codes.iter().filter(|code| !(binary && SAME_AS_LTC_IF_BINARY.contains(code)));
        let changes = codes.clone().flat_map(|code| [0.5, 1.0].map(|power| with(code, power)));
        self.try_out(changes.flatten().collect())?;
        // A higher power is tried only if 1 is better than 0.5.
        let first_fold_values = |code, power| {
            let (_, features) = with(code, power)?;
            self.value_on_first(&features)
        };
        let more = codes.filter(|code| first_fold_values(code, 1.0) > first_fold_values(code, 0.5));
        let changes = more.filter_map(|code| with(code, 1.5)).collect();
        self.try_out(changes)
    }

    /// Returns the objective of the given features on the first fold, if they were tried.
    fn value_on_first(&self, features: &Features) -> Option<f64> {
        let tried = self.first_fold_values.iter().find(|(other, _)| other == features);
        tried.map(|&(_, value)| value)
    }

    /// Tries exponents next to the best so far, and continues while they improve the objective.
    fn try_chi2_powers(&mut self) -> Result<(), FeatureError> {
        loop {
            let start = self.best.features.clone();
            let change = |step: f64| {
                let power = start.weighting.chi2_power() + step;
                let weighting = start.weighting.with_chi2_power(power)?;
                let features = Features { weighting, ..start.clone() };
                (0.0..=0.5).contains(&power).then(|| (format!("chi2 power {power}"), features))
            };
            self.try_out([-0.125, 0.125].into_iter().filter_map(change).collect())?;
            if self.best.features == start {
                return Ok(());
            }
        }
    }

    /// Tries learned term weights with decreasing numbers of steps, until a smaller number no
    /// longer improves on one that was kept.
    fn try_term_weights(&mut self) -> Result<(), FeatureError> {
        let start = self.best.features.clone();
        for term_steps in TERM_STEPS.into_iter().rev() {
            let before = self.best.features.term_steps;
            let features = Features { term_steps, ..start.clone() };
            let change = format!("learned term weights, {term_steps} steps");
            self.try_out(vec![(change, features)])?;
            if before > 0 && self.best.features.term_steps == before {
                break;
            }
        }
        Ok(())
    }

    fn try_titles(&mut self) -> Result<(), FeatureError> {
        let change = |boost| {
            let fields = Fields::FirstLine { boost };
            let features = Features { fields, ..self.best.features.clone() };
            (format!("first line × {boost}"), features)
        };
        self.try_out([1.0, 2.0, 3.0, 5.0].map(change).into())
    }

    fn try_analyzers(&mut self) -> Result<(), FeatureError> {
        let mut others = vec![
            self.with_stemming_toggled(),
            self.with_word_pairs_toggled(),
            self.with_stop_words_toggled(),
        ];
        if self.folds.len() <= MAX_DOCUMENTS_FOR_CHARACTERS
            && self.entries <= MAX_ENTRIES_FOR_CHARACTERS
        {
            others.push(self.with_char_ngrams_toggled());
        }
        self.try_out(
            others.into_iter().map(|other| (describe_terms("all", &other), other)).collect(),
        )
    }

    fn try_selections(&mut self, free: FreeDimensions) -> Result<(), FeatureError> {
        // Stemming and word pairs often help only together with term selection.
        let mut bases = vec![self.best.features.clone()];
        if free.analyzer {
            bases.extend([self.with_stemming_toggled(), self.with_word_pairs_toggled()]);
        }
        // Try the coarse term counts first, then the counts next to the best count of each base.
        for counts in [&TERM_COUNTS[..], &MORE_TERM_COUNTS] {
            let mut changes = Vec::new();
            for base in &bases {
                let terms = self.vocabulary_size(base)?;
                let selected = |count: usize| {
                    let terms = NonZeroUsize::new(count).filter(|_| count < terms)?;
                    Some(Selection { criterion: Criterion::Chi2, terms })
                };
                let with = |selection| Features { selection: Some(selection), ..base.clone() };
                let first_fold_values = |&count: &usize| {
                    let value = self.value_on_first(&with(selected(count)?))?;
                    Some((value, count))
                };
                let best = TERM_COUNTS.iter().filter_map(first_fold_values);
                let best = best.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, count)| count);
                // The vocabulary may be smaller than the first count.
                let is_open = |count: usize| best.is_none_or(|best| is_next_to(count, best));
                let counts = counts.iter().copied();
                let counts = counts.filter(|&count| TERM_COUNTS.contains(&count) || is_open(count));
                for selection in counts.filter_map(selected) {
                    let features = with(selection);
                    changes.push((describe_terms(&selection.to_string(), &features), features));
                }
            }
            self.try_out(changes)?;
        }
        Ok(())
    }

    /// Returns the best features with stemming switched on or off.
    fn with_stemming_toggled(&self) -> Features {
        let mut other = self.best.features.clone();
        if let Some(analyzer) = &mut other.analyzer {
            let stemmer =
                Stemmer::all().find(|stemmer| Some(stemmer.code()) == self.trials.language);
            analyzer.stemmer = if analyzer.stemmer.is_some() { None } else { stemmer };
        }
        other
    }

    /// Returns the best features with the stop words of the corpus's language dropped or kept.
    fn with_stop_words_toggled(&self) -> Features {
        let mut other = self.best.features.clone();
        if let Some(analyzer) = &mut other.analyzer {
            let list = self.trials.language.and_then(stop_words);
            let words = list.unwrap_or_default().iter().map(|&word| word.to_owned());
            let none = Vec::new();
            analyzer.stop_words =
                if analyzer.stop_words.is_empty() { words.collect() } else { none };
        }
        other
    }

    /// Returns the best features with character n-grams of length two to four switched on or off.
    fn with_char_ngrams_toggled(&self) -> Features {
        let mut other = self.best.features.clone();
        if let Some(analyzer) = &mut other.analyzer {
            let range = NgramRange::new(2, 4);
            analyzer.char_ngrams = if analyzer.char_ngrams.is_some() { None } else { range };
        }
        other
    }

    /// Returns the best features with word pairs switched on or off.
    fn with_word_pairs_toggled(&self) -> Features {
        let mut other = self.best.features.clone();
        if let Some(analyzer) = &mut other.analyzer {
            let words = NgramRange::new(1, 1);
            let pairs = NgramRange::new(1, 2);
            analyzer.word_ngrams = if analyzer.word_ngrams == words { pairs } else { words };
        }
        other
    }
}

/// Returns the largest k to try after a trial whose best k was `best` (0: no trial yet). In
/// single-label mode, twice `best` is enough. In multi-label mode, the best k of one trial says
/// little about others.
fn largest_k(best: usize, k_max: NonZeroUsize, multi_label: bool) -> NonZeroUsize {
    match NonZeroUsize::new(2 * best) {
        Some(twice) if !multi_label => twice.max(MIN_LARGEST_K).min(k_max),
        _ => k_max,
    }
}

/// Whether a term count is adjacent to the best one, and should therefore be tried.
fn is_next_to(count: usize, best: usize) -> bool {
    let is_smallest = best == TERM_COUNTS[0];
    count == 2 * best || count == best / 2 || (is_smallest && count < best)
}

/// Describes the terms that `features` produces. The description starts with `count`.
fn describe_terms(count: &str, features: &Features) -> String {
    let Some(analyzer) = &features.analyzer else { return format!("{count} columns") };
    let words = if analyzer.stemmer.is_some() { "stems" } else { "words" };
    let pairs = analyzer.word_ngrams == NgramRange::new(1, 2);
    let mut name = format!("{count} {words}");
    for (is_in, what) in
        [(pairs, " and pairs"), (!analyzer.stop_words.is_empty(), " without stop words")]
    {
        name.push_str(if is_in { what } else { "" });
    }
    if analyzer.char_ngrams.is_some() {
        name.push_str(" and ");
        name.push_str(&describe_characters(analyzer));
    }
    name
}

/// Describes the character n-grams of an analyzer.
pub(in crate::learn) fn describe_characters(analyzer: &AnalyzerSpec) -> String {
    let range = analyzer.char_ngrams.map_or(String::new(), |range| format!(" {range}"));
    let scope = if analyzer.char_scope == CharScope::Text { " across words" } else { "" };
    format!("character n-grams{range}{scope}")
}

/// Returns the code of the language with the most stop words among the corpus's frequent words.
/// `None` if they are at most a third of the frequent words: the corpus is in another language, or
/// is not text.
pub(in crate::learn) fn language(counts: &Counts) -> Option<&'static str> {
    const FREQUENT_WORDS: usize = 40;
    let frequencies = counts.vocabulary.document_frequencies();
    let mut terms: Vec<u32> = (0..).take(frequencies.len()).collect();
    terms.sort_unstable_by_key(|&term| (Reverse(frequencies[term as usize]), term));
    terms.truncate(FREQUENT_WORDS);
    let hits = |code: &&&'static str| {
        let words = stop_words(code).unwrap_or_default();
        let ids = words.iter().filter_map(|word| counts.vocabulary.id(word));
        ids.filter(|id| terms.contains(id)).count()
    };
    // In a tie, the first language wins.
    let best = stop_word_languages().iter().rev().max_by_key(hits)?;
    (hits(&best) * 3 > terms.len()).then_some(*best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::held_out::Exclusion;
    use crate::learn::tests::{corpus, counted};
    use crate::learn::votes::{Grid, Rules};
    use crate::model::InputSpec;
    use crate::search::Engines;
    use crate::text::counts::CountOptions;
    use crate::threads::Threads;

    #[test]
    fn counting_again_changes_no_result() {
        let documents = corpus(300, false);
        let threads = Threads::new(NonZeroUsize::new(2).unwrap()).unwrap();
        let engines = Engines::cpu(&threads);
        let sample: Vec<u32> = (0..300).collect();
        let k_max = NonZeroUsize::new(20).unwrap();
        let grid = Grid::coarse(k_max, false, crate::decide::objective::Objective::Accuracy);
        let grid = Grid { rules: Rules::default(), ..grid };
        let run = |max_entries_to_keep| {
            let mut counts = 0;
            let mut recount = |analyzer: &Option<AnalyzerSpec>, fields: &Fields| {
                counts += 1;
                let input = InputSpec::Text(analyzer.clone().unwrap()).counting(fields);
                let mut documents = documents.iter().cloned().map(Ok);
                Counts::read(&mut documents, &CountOptions::new(&input), &threads, &|_| ())
            };
            let mut search = FeatureSearch {
                setup: TrialSetup {
                    sample: &sample,
                    k_max,
                    grid: &grid,
                    exclusion: Exclusion::default(),
                    engines: &engines,
                },
                language: Some("en"),
                recount: &mut recount,
                max_entries_to_keep,
                progress: &mut |_| (),
            };
            let start = Features {
                analyzer: Some(AnalyzerSpec::default()),
                fields: Fields::Whole,
                weighting: Weighting::default(),
                selection: None,
                term_steps: 0,
            };
            let free = FreeDimensions {
                analyzer: true,
                title: false,
                weighting: false,
                chi2_power: false,
                selection: true,
                term_weights: true,
            };
            let chosen = search.run(start, counted(&documents, &threads), free).unwrap();
            (chosen.features, chosen.steps, counts)
        };
        let (features, steps, counts) = run(usize::MAX);
        let (same_features, same_steps, more_counts) = run(0);
        assert_eq!((features, steps), (same_features, same_steps));
        assert!(more_counts > counts, "{more_counts} and {counts}");
    }

    #[test]
    fn largest_k_follows_the_best() {
        let largest = |best, k_max, several| {
            largest_k(best, NonZeroUsize::new(k_max).unwrap(), several).get()
        };
        assert_eq!(
            [0, 1, 30, 31, 100, 200].map(|best| largest(best, 200, false)),
            [200, 60, 60, 62, 200, 200]
        );
        assert_eq!([0, 1, 100].map(|best| largest(best, 200, true)), [200, 200, 200]);
        assert_eq!([0, 1, 10].map(|best| largest(best, 10, false)), [10, 10, 10]);
    }
}
