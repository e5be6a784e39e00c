//! Feature selection by trial: weighting, stems, word pairs, title and term selection. Each is kept
//! if it improves a leave-one-out search of a sample.
//!
//! The search is greedy: one dimension after the other, keeping the best value of each; then once
//! more, because the best weighting changes when terms are dropped. The first time, the best cosine weighting
//! and BM25 are pursued apart, because stems and term selection help the one more than the other. Each trial weights all training
//! documents, searches the neighbors of left-out documents and re-votes a coarse grid. Most changes
//! are dropped after a fifth of the sample: those that are clearly worse there than the best
//! (successive halving, with two steps).

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use crate::search::{Engines, SearchError};
use crate::text::analyze::{AnalyzerSpec, NgramRange, Stemmer, stop_words};
use crate::text::corpus::CorpusError;
use crate::text::counts::{Counts, Fields};
use crate::text::select::{Criterion, Selection};
use crate::text::tfidf::Weighting;

use super::counted::{Counted, Features, LeaveOutSearch, TERM_STEPS};
use super::neighbors::{Exclusion, LeaveOneOut};
use super::thresholds::FOLDS;
use super::{Grid, Trial, tune_votes};
use crate::decide::objective::Figures;

/// Which features may be changed.
#[expect(clippy::struct_excessive_bools, reason = "six dimensions, each free or not")]
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
    /// Learned weights of terms.
    pub term_weights: bool,
}

/// A feature that was tried.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Step {
    /// The change.
    pub change: String,
    /// The leave-one-out figures of the best vote on the left-out documents.
    #[serde(flatten)]
    pub trial: Trial,
    /// The number of documents that were left out.
    pub documents: usize,
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

/// What all trials have in common.
#[derive(Debug, Clone, Copy)]
pub struct TrialSetup<'a> {
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
}

/// How to run the trials.
pub struct Trials<'a> {
    /// What they have in common.
    pub setup: TrialSetup<'a>,
    /// Counts the training documents again.
    pub recount: &'a mut Recount<'a>,
    /// Called after every trial.
    pub progress: &'a mut dyn FnMut(&Step),
}

impl std::fmt::Debug for Trials<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trials").field("setup", &self.setup).finish_non_exhaustive()
    }
}

/// A change is kept if it improves the objective by at least this much; less may be chance.
const GAIN: f64 = 0.001;
/// The same of a weighting with which no weights of terms and no prototypes can be learned, instead of one with
/// which they can: these usually gain as much.
const GAIN_WITHOUT_MORE: f64 = 0.01;
/// A change is tried on the whole sample if it is at most this much worse than the best on the
/// first fold.
const CLOSE: f64 = 0.01;
/// The numbers of selected terms that are tried first, and those that are tried beside the best of these.
const MANY_TERMS: [usize; 3] = [2_000, 8_000, 32_000];
const OTHERS: [usize; 4] = [500, 1_000, 4_000, 16_000];
/// BM25 is pursued apart if it is ahead of the cosine weightings by so much. (Where it was near them, it lost on all corpora of
/// docs/quality.md, and it is tried again with the features that they found.)
const AHEAD: f64 = GAIN_WITHOUT_MORE / 2.0;
/// Trials go up to this k at least.
const LEAST_LARGEST_K: NonZeroUsize = NonZeroUsize::new(60).unwrap();
/// The number of changes of one dimension that are tried on the whole sample.
const MOST: usize = 16;
/// The first fold decides only if it has at least this many documents.
const FEWEST: usize = 400;
/// Character n-grams are tried if documents have at most this many terms in total: of longer texts
/// they take long, and seldom help.
const MOST_FOR_CHARACTERS: usize = 300_000;

/// How documents become terms.
#[derive(Debug, PartialEq)]
struct Terms {
    analyzer: Option<AnalyzerSpec>,
    fields: Fields,
}

impl Terms {
    fn of(features: &Features) -> Self {
        // The boost is applied later, so fields are counted separately once.
        let fields = match features.fields {
            Fields::FirstLine { .. } => Fields::FirstLine { boost: 1.0 },
            ref fields => fields.clone(),
        };
        Self { analyzer: features.analyzer.clone(), fields }
    }
}

/// A change that takes part in the search.
struct Contestant {
    change: String,
    features: Features,
    /// Its counts, as an index.
    counted: usize,
    /// The neighbors of the documents left out so far.
    found: LeaveOneOut,
}

impl TrialSetup<'_> {
    /// The `k` leave-one-out neighbors of the sample's documents in some folds, of which so many are searched `at_once`.
    fn neighbors(
        &self,
        counted: &Counted,
        features: &Features,
        folds: Range<usize>,
        (k, at_once): (NonZeroUsize, usize),
    ) -> Result<LeaveOneOut, SearchError> {
        let Self { sample, exclusion, engines, .. } = *self;
        let (as_new, progress) = (false, &|_| ());
        let search = LeaveOutSearch { k, exclusion, engines, as_new, at_once, progress };
        counted.left_out(features, sample, folds, &search)
    }

    /// The best vote on the documents left out so far.
    fn trial(&self, counts: &Counts, found: &LeaveOneOut) -> Trial {
        let sizes = counts.label_sizes();
        let labels = counts.training_labels(&sizes);
        tune_votes(found, labels, self.grid, self.engines.threads()).best
    }
}

/// How far the greedy search got.
#[derive(Clone)]
struct Reached {
    features: Features,
    /// The figures on the first fold and on the whole sample.
    figures: Option<(Figures, Figures)>,
    /// The best k on the whole sample; 0 if nothing was tried.
    k: usize,
}

/// The weightings of cosine similarity to try, and the other.
const COSINE: [&str; 4] = ["ltc", "lsc", "btc", "ntc"];
const BM25: &str = "bm25";
/// Weightings that differ from `ltc` by the term frequency alone, which is 1 for given features that are all 1.
const ALIKE_IF_BINARY: [&str; 2] = ["btc", "ntc"];

/// The state of the greedy search.
struct GreedySearch<'t, 'a> {
    trials: &'t mut Trials<'a>,
    best: Reached,
    /// The counts for each combination of analyzer and fields that was requested.
    counted: Vec<(Terms, Counted)>,
    steps: Vec<Step>,
    tried: Vec<Features>,
    /// The objective of what was tried on the first fold, or on the whole sample if that has too few documents.
    on_first: Vec<(Features, f64)>,
    /// The stemmer for the corpus's language.
    stemmer: Option<Stemmer>,
}

/// The best features found from `start`, with which `counts` were counted; the counts of their
/// documents, before terms are selected; and all steps.
///
/// # Errors
/// If the documents cannot be counted or searched.
///
/// # Panics
/// Never: there is always a start.
pub fn tune_features(
    trials: &mut Trials<'_>,
    start: Features,
    counts: Counts,
    free: Free,
) -> Result<(Features, Counted, Vec<Step>), FeatureError> {
    let fields = start.fields.clone();
    let counted = Counted::new(counts, trials.setup.exclusion);
    let mut search = GreedySearch {
        trials,
        stemmer: language(counted.counts()),
        counted: vec![(Terms::of(&start), counted)],
        best: Reached { features: start, figures: None, k: 0 },
        steps: Vec::new(),
        tried: Vec::new(),
        on_first: Vec::new(),
    };
    let free = Free { title: free.title && fields == Fields::Whole, ..free };
    search.try_out(vec![("as given".to_owned(), search.best.features.clone())])?;
    if free.chi2_power {
        search.chi2_powers()?;
    }
    let mut starts = Vec::new();
    if free.weighting {
        let start = search.best.clone();
        for codes in [&COSINE[..], &[BM25]] {
            search.best = start.clone();
            search.weightings(codes)?;
            starts.push(search.best.clone());
        }
        starts.dedup_by(|a, b| a.features == b.features);
    } else {
        starts.push(search.best.clone());
    }
    let values: Vec<f64> = starts.iter().map(|start| search.value(start)).collect();
    let most = values.iter().copied().fold(0.0, f64::max);
    let mut best: Option<Reached> = None;
    for (number, start) in starts.into_iter().enumerate() {
        let least = if number == 0 { most - CLOSE } else { values[0] + AHEAD };
        if values[number] >= least {
            search.best = start;
            search.terms(free)?;
            let better = |best: &Reached| search.value(&search.best) > search.value(best);
            if best.as_ref().is_none_or(better) {
                best = Some(search.best.clone());
            }
        }
    }
    search.best = best.expect("the first start is near the best, or another is ahead of it");
    if free.chi2_power {
        search.chi2_powers()?;
    }
    if free.weighting {
        search.weightings(&COSINE)?;
        search.weightings(&[BM25])?;
    }
    search.terms(free)?;
    let weighting = search.best.features.weighting;
    if free.term_weights && weighting.is_cosine() && weighting.is_symmetric() {
        search.learned_terms()?;
    }
    let (best, steps) = (search.best.features.clone(), std::mem::take(&mut search.steps));
    let at = search.count(&best)?;
    let (_, counted) = search.counted.swap_remove(at);
    Ok((best, counted, steps))
}

impl GreedySearch<'_, '_> {
    /// The objective of some features on the whole sample.
    fn value(&self, reached: &Reached) -> f64 {
        let objective = self.trials.setup.grid.objective;
        reached.figures.map_or(0.0, |(_, all)| objective.of(all))
    }

    /// Tries what terms are.
    fn terms(&mut self, free: Free) -> Result<(), FeatureError> {
        if free.title {
            self.titles()?;
        }
        if free.analyzer {
            self.analyzers()?;
        }
        if free.selection {
            self.selections(free)?;
        }
        Ok(())
    }

    /// The index of the counts for these features; counts if necessary.
    fn count(&mut self, features: &Features) -> Result<usize, CorpusError> {
        let terms = Terms::of(features);
        if let Some(at) = self.counted.iter().position(|(counted, _)| *counted == terms) {
            return Ok(at);
        }
        let counts = (self.trials.recount)(&terms.analyzer, &terms.fields)?;
        // The documents and their labels are always the same.
        let folds = Arc::clone(self.counted[0].1.folds());
        self.counted.push((terms, Counted::with_folds(counts, folds)));
        Ok(self.counted.len() - 1)
    }

    /// Tries changes of one dimension: all on the first fold, and those that are among the best
    /// there on the whole sample. Keeps the best of them if it is better than the best so far.
    fn try_out(&mut self, changes: Vec<(String, Features)>) -> Result<(), FeatureError> {
        let mut open = Vec::new();
        for (change, features) in changes {
            if !self.tried.contains(&features) {
                self.tried.push(features.clone());
                let counted = self.count(&features)?;
                open.push(Contestant { change, features, counted, found: LeaveOneOut::default() });
            }
        }
        let value = |figures: Figures| self.trials.setup.grid.objective.of(figures);
        let few = self.counted[0].1.in_folds(self.trials.setup.sample, &(0..1)).len() < FEWEST;
        let first = if few { 0..FOLDS } else { 0..1 };
        let on_first = self.left_out(&mut open, first.clone())?;
        let mut values: Vec<f64> = on_first.iter().map(|trial| value(trial.figures)).collect();
        let tried = open.iter().map(|open| open.features.clone());
        self.on_first.extend(tried.zip(values.iter().copied()));
        values.extend(self.best.figures.map(|(first, _)| value(first)));
        values.sort_by(|a, b| b.total_cmp(a));
        let least = values.first().map_or(0.0, |best| best - CLOSE);
        let least = values.get(MOST - 1).map_or(least, |&last| least.max(last));
        let (mut left, mut first_figures) = (Vec::new(), Vec::new());
        for (contestant, trial) in open.into_iter().zip(on_first) {
            if few || self.best.figures.is_none() || value(trial.figures) >= least {
                first_figures.push(trial.figures);
                left.push(contestant);
            } else {
                self.step(contestant.change, trial, contestant.found.len(), false);
            }
        }
        let trials = self.left_out(&mut left, first.end..FOLDS)?;
        for ((contestant, trial), first) in left.into_iter().zip(trials).zip(first_figures) {
            let value = |figures: Figures| self.trials.setup.grid.objective.of(figures);
            let has_more = |features: &Features| {
                features.weighting.is_cosine() && features.weighting.is_symmetric()
            };
            let loses = has_more(&self.best.features) && !has_more(&contestant.features);
            // More steps of learned weights are no other kind of features.
            let learns = |features: &Features| features.term_steps > 0;
            let gain = match (loses, learns(&self.best.features)) {
                (true, _) => GAIN_WITHOUT_MORE,
                (false, true) if learns(&contestant.features) => f64::EPSILON,
                (false, _) => GAIN,
            };
            let best = self.best.figures.map(|(_, all)| value(all) + gain);
            let kept = best.is_none_or(|least| value(trial.figures) >= least);
            if kept {
                let figures = Some((first, trial.figures));
                self.best = Reached { features: contestant.features, figures, k: trial.k };
            }
            self.step(contestant.change, trial, contestant.found.len(), kept);
        }
        Ok(())
    }

    fn step(&mut self, change: String, trial: Trial, documents: usize, kept: bool) {
        let step = Step { change, trial, documents, kept };
        (self.trials.progress)(&step);
        self.steps.push(step);
    }

    /// Leaves out more documents for every contestant; returns the best vote of each. Several
    /// contestants are tried at a time if there are threads for them.
    fn left_out(
        &self,
        contestants: &mut [Contestant],
        folds: Range<usize>,
    ) -> Result<Vec<Trial>, SearchError> {
        let (setup, counted) = (self.trials.setup, &self.counted);
        let k = largest_k(self.best.k, setup.k_max, setup.grid.several);
        let threads = setup.engines.threads();
        let of = |contestant: &Contestant| counted[contestant.counted].1.at_once(setup.engines);
        let at_once = contestants.iter().map(of).min().unwrap_or(1);
        let together = at_once.min(contestants.len()).max(1);
        let folds_at_once = at_once / together;
        let try_one = |contestant: &mut Contestant| {
            let counted = &counted[contestant.counted].1;
            if !folds.is_empty() {
                let more = setup.neighbors(
                    counted,
                    &contestant.features,
                    folds.clone(),
                    (k, folds_at_once),
                )?;
                contestant.found.append(&more);
            }
            Ok(setup.trial(counted.counts(), &contestant.found))
        };
        if together == 1 || threads.count() == 1 {
            return contestants.iter_mut().map(try_one).collect();
        }
        // What several contestants need is computed before: one that waits for it while its threads
        // try another, which waits for the same, would wait forever.
        for contestant in &*contestants {
            let counted = &counted[contestant.counted].1;
            let exclusion = setup.exclusion;
            counted.prepare(&contestant.features, folds.clone(), exclusion, setup.engines)?;
        }
        let mut tried = Vec::new();
        for contestants in contestants.chunks_mut(together) {
            let results = || contestants.par_iter_mut().map(try_one).collect();
            let results: Result<Vec<Trial>, SearchError> = threads.run(results);
            tried.extend(results?);
        }
        Ok(tried)
    }

    fn weightings(&mut self, codes: &[&str]) -> Result<(), FeatureError> {
        let given = self.best.features.analyzer.is_none();
        let binary = given && self.counted[0].1.counts().is_binary();
        let start = self.best.features.clone();
        let with = |code: &str, power: f64| {
            let weighting: Weighting = code.parse().expect("each is a weighting");
            let weighting = weighting.with_idf_power(power)?;
            let weighting = weighting.with_chi2_power(start.weighting.chi2_power())?;
            let features = Features { weighting, ..start.clone() };
            Some((format!("weighting {weighting}, idf power {power}"), features))
        };
        let codes = codes.iter().filter(|code| !(binary && ALIKE_IF_BINARY.contains(code)));
        let changes = codes.clone().flat_map(|code| [0.5, 1.0].map(|power| with(code, power)));
        self.try_out(changes.flatten().collect())?;
        // More is not better where the half is as good.
        let on_first = |code, power| {
            let (_, features) = with(code, power)?;
            self.value_on_first(&features)
        };
        let more = codes.filter(|code| on_first(code, 1.0) > on_first(code, 0.5));
        let changes = more.filter_map(|code| with(code, 1.5)).collect();
        self.try_out(changes)
    }

    /// The objective of some features on the first fold, if they were tried.
    fn value_on_first(&self, features: &Features) -> Option<f64> {
        let tried = self.on_first.iter().find(|(other, _)| other == features);
        tried.map(|&(_, value)| value)
    }

    /// Tries the exponents beside the best so far, and as long as they get better, those beyond.
    fn chi2_powers(&mut self) -> Result<(), FeatureError> {
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

    /// Tries learned weights of terms with as many steps as possible, and with fewer as long as these are better.
    fn learned_terms(&mut self) -> Result<(), FeatureError> {
        let start = self.best.features.clone();
        for term_steps in TERM_STEPS.into_iter().rev() {
            let before = self.best.features.term_steps;
            let features = Features { term_steps, ..start.clone() };
            let change = format!("learned weights of terms, {term_steps} steps");
            self.try_out(vec![(change, features)])?;
            if before > 0 && self.best.features.term_steps == before {
                break;
            }
        }
        Ok(())
    }

    fn titles(&mut self) -> Result<(), FeatureError> {
        let change = |boost| {
            let fields = Fields::FirstLine { boost };
            let features = Features { fields, ..self.best.features.clone() };
            (format!("first line × {boost}"), features)
        };
        self.try_out([1.0, 2.0, 3.0, 5.0].map(change).into())
    }

    fn analyzers(&mut self) -> Result<(), FeatureError> {
        let mut others = vec![self.other_stems(), self.other_pairs(), self.other_stop_words()];
        if self.counted[0].1.counts().entries() <= MOST_FOR_CHARACTERS {
            others.push(self.other_characters());
        }
        self.try_out(others.into_iter().map(|other| (named("all", &other), other)).collect())
    }

    fn selections(&mut self, free: Free) -> Result<(), FeatureError> {
        // Stems and word pairs often help only together with term selection.
        let mut bases = vec![self.best.features.clone()];
        if free.analyzer {
            bases.extend([self.other_stems(), self.other_pairs()]);
        }
        // Every other number of terms, and then those beside the best of each base.
        for counts in [&MANY_TERMS[..], &OTHERS] {
            let mut changes = Vec::new();
            for base in &bases {
                let at = self.count(base)?;
                let terms = self.counted[at].1.counts().vocabulary.len();
                let selected = |count: usize| {
                    let terms = NonZeroUsize::new(count).filter(|_| count < terms)?;
                    Some(Selection { criterion: Criterion::Chi2, terms })
                };
                let with = |selection| Features { selection: Some(selection), ..base.clone() };
                let on_first = |&count: &usize| {
                    let value = self.value_on_first(&with(selected(count)?))?;
                    Some((value, count))
                };
                let best = MANY_TERMS.iter().filter_map(on_first);
                let best = best.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, count)| count);
                // A vocabulary may be too small for the first.
                let is_open = |count: usize| best.is_none_or(|best| is_beside(count, best));
                let counts = counts.iter().copied();
                let counts = counts.filter(|&count| MANY_TERMS.contains(&count) || is_open(count));
                for selection in counts.filter_map(selected) {
                    let features = with(selection);
                    changes.push((named(&selection.to_string(), &features), features));
                }
            }
            self.try_out(changes)?;
        }
        Ok(())
    }

    /// The best features with stemming switched on or off.
    fn other_stems(&self) -> Features {
        let mut other = self.best.features.clone();
        if let Some(analyzer) = &mut other.analyzer {
            analyzer.stemmer = if analyzer.stemmer.is_some() { None } else { self.stemmer };
        }
        other
    }

    /// The best features with the stop words of the corpus's language dropped or kept.
    fn other_stop_words(&self) -> Features {
        let mut other = self.best.features.clone();
        if let Some(analyzer) = &mut other.analyzer {
            let list = self.stemmer.and_then(|stemmer| stop_words(stemmer.code()));
            let words = list.unwrap_or_default().iter().map(|&word| word.to_owned());
            let none = Vec::new();
            analyzer.stop_words =
                if analyzer.stop_words.is_empty() { words.collect() } else { none };
        }
        other
    }

    /// The best features with n-grams of two to four characters of words switched on or off.
    fn other_characters(&self) -> Features {
        let mut other = self.best.features.clone();
        if let Some(analyzer) = &mut other.analyzer {
            let range = NgramRange::new(2, 4);
            analyzer.char_ngrams = if analyzer.char_ngrams.is_some() { None } else { range };
        }
        other
    }

    /// The best features with word pairs switched on or off.
    fn other_pairs(&self) -> Features {
        let mut other = self.best.features.clone();
        if let Some(analyzer) = &mut other.analyzer {
            let (words, pairs) = (NgramRange::new(1, 1), NgramRange::new(1, 2));
            analyzer.word_ngrams = if analyzer.word_ngrams == words { pairs } else { words };
        }
        other
    }
}

/// The largest k to try after a trial for which `best` was the best k (0: no trial yet). With one label a document, twice
/// `best` is enough; with several, the best k of one trial says little about the others.
fn largest_k(best: usize, k_max: NonZeroUsize, several: bool) -> NonZeroUsize {
    match NonZeroUsize::new(2 * best) {
        Some(twice) if !several => twice.max(LEAST_LARGEST_K).min(k_max),
        _ => k_max,
    }
}

/// Whether a number of selected terms is tried because another one is the best.
fn is_beside(count: usize, best: usize) -> bool {
    let is_least = best == MANY_TERMS[0];
    count == 2 * best || count == best / 2 || (is_least && count < best)
}

/// A description of the terms of features, after their number.
fn named(how_many: &str, features: &Features) -> String {
    let Some(analyzer) = &features.analyzer else { return format!("{how_many} columns") };
    let words = if analyzer.stemmer.is_some() { "stems" } else { "words" };
    let pairs = analyzer.word_ngrams == NgramRange::new(1, 2);
    let mut name = format!("{how_many} {words}");
    for (is_in, what) in [
        (pairs, " and pairs"),
        (analyzer.char_ngrams.is_some(), " and character n-grams"),
        (!analyzer.stop_words.is_empty(), " without stop words"),
    ] {
        name.push_str(if is_in { what } else { "" });
    }
    name
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

#[cfg(test)]
mod tests {
    use super::*;

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
