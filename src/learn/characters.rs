//! Tries character n-grams as additional terms, evaluated by the final scores.
//!
//! With many documents, character n-grams seldom help neighbors, but they help label prototypes on
//! short texts. The search for features compares neighbors only. So n-grams are tried after it,
//! with neighbors and prototypes together.

use std::sync::Arc;

use super::features::{
    ChosenFeatures, FreeDimensions, MAX_ENTRIES_FOR_CHARACTERS, Recount, TrialSetup,
    describe_characters,
};
use super::prototypes::{Precision, PrototypeTrials};
use super::run::Run;
use super::training_rows::{
    CountedDocuments, Features, FoldWeightedDocuments, TrainingRows, labels_of,
};
use super::votes::{Trial, search_grid};
use super::{Event, Step, TrainError};
use crate::text::analyze::{AnalyzerSpec, CharScope, NgramRange};
use crate::text::tfidf::Weighting;

/// Maximum product of the number of document-term pairs and the number of labels. The time for
/// learning prototypes is proportional to it.
const MAX_PRODUCTS: usize = 1 << 24;
/// The first n-grams to try: their lengths and scope.
const FIRST: ([usize; 2], CharScope) = ([2, 4], CharScope::Word);
/// The n-grams to try if the first ones help. Later ones need more memory.
const OTHERS: [([usize; 2], CharScope); 2] = [([3, 5], CharScope::Word), ([3, 5], CharScope::Text)];
/// Number of folds that are held out. On three corpora, holding out all five gave the same choice
/// and took longer.
const HELD_OUT_FOLDS: usize = 2;
/// Minimum number of documents in these folds; otherwise the whole sample is held out.
const MIN_DOCUMENTS: usize = 800;

/// The search for character n-grams.
pub(super) struct CharacterSearch<'a> {
    pub(super) run: &'a Run<'a>,
    /// The setup of the search for features.
    pub(super) setup: TrialSetup<'a>,
    /// The dimensions of the features that may be changed.
    pub(super) free: FreeDimensions,
}

impl CharacterSearch<'_> {
    /// Adds character n-grams to the features if they improve the final scores by more than half a
    /// standard error of the objective, as a proportion of the documents. The other n-grams must be
    /// better than the first ones by as much.
    pub(super) fn run(
        &self,
        chosen: ChosenFeatures,
        recount: &mut Recount<'_>,
    ) -> Result<ChosenFeatures, TrainError> {
        let Some(analyzer) = chosen.features.analyzer.clone() else { return Ok(chosen) };
        let counts = chosen.counted.counts();
        let products = counts.entries().saturating_mul(counts.label_names.len());
        let is_slow = counts.entries() > MAX_ENTRIES_FOR_CHARACTERS || products > MAX_PRODUCTS;
        if is_slow || analyzer.char_ngrams.is_some() {
            return Ok(chosen);
        }
        let ChosenFeatures { features: mut plain, counted, mut steps } = chosen;
        let objective = self.setup.grid.objective;
        let held_out = self.held_out(&counted);
        let mut record = |change: String, trial: Trial, kept: bool| {
            let step = Step { change, trial, documents: held_out.len(), kept };
            self.run.report(Event::Step { step: &step, objective });
            steps.push(step);
        };
        let start = self.trial(&plain, &counted, &held_out)?;
        let has_cosines = plain.weighting.is_cosine() && plain.weighting.is_symmetric();
        record((if has_cosines { "with prototypes" } else { "as chosen" }).to_owned(), start, true);
        let value = |trial: &Trial| objective.of(trial.metrics);
        let share = value(&start);
        let error = libm::sqrt(share * (1.0 - share) / held_out.len().max(1) as f64);
        let min_gain = error / 2.0;
        let mut best_value = share;
        let mut features = plain.clone();
        if !has_cosines {
            // The search for features preferred BM25, which excludes prototypes.
            if !self.free.weighting {
                return Ok(ChosenFeatures { features, counted, steps });
            }
            let cosine = Weighting::default();
            let chi2_power = plain.weighting.chi2_power();
            let weighting = cosine.with_chi2_power(chi2_power).unwrap_or(cosine);
            plain = Features { weighting, term_steps: 0, ..plain };
            let trial = self.trial(&plain, &counted, &held_out)?;
            let kept = value(&trial) > best_value + min_gain;
            record(format!("with prototypes and weighting {weighting}"), trial, kept);
            if kept {
                best_value = value(&trial);
                features = plain.clone();
            }
        }
        let mut best = (features, counted);
        for ([min, max], char_scope) in std::iter::once(FIRST).chain(OTHERS) {
            let char_ngrams = NgramRange::new(min, max);
            let analyzer = AnalyzerSpec { char_ngrams, char_scope, ..analyzer.clone() };
            let change = format!("with prototypes and {}", describe_characters(&analyzer));
            let analyzer = Some(analyzer);
            let counts = recount(&analyzer, &plain.fields)?;
            let counted = CountedDocuments::with_folds(counts, Arc::clone(best.1.folds()));
            // The number of selected terms was chosen for words. Learned term weights take long and
            // are tried later.
            let selection = plain.selection.filter(|_| !self.free.selection);
            let features = Features { analyzer, selection, term_steps: 0, ..plain.clone() };
            let trial = self.trial(&features, &counted, &held_out)?;
            let kept = value(&trial) > best_value + min_gain;
            record(change, trial, kept);
            if kept {
                best_value = value(&trial);
                best = (features, counted);
            } else if best.0.analyzer == plain.analyzer {
                break;
            }
        }
        let (mut features, counted) = best;
        if features.term_steps < plain.term_steps {
            let term_steps = plain.term_steps;
            let learned = Features { term_steps, ..features.clone() };
            let trial = self.trial(&learned, &counted, &held_out)?;
            let kept = value(&trial) > best_value;
            let change = format!("with prototypes and learned term weights, {term_steps} steps");
            record(change, trial, kept);
            if kept {
                features = learned;
            }
        }
        Ok(ChosenFeatures { features, counted, steps })
    }

    /// Returns the documents to hold out. With fewer folds, prototypes are learned less often, but
    /// decisions on several labels are learned from the other folds.
    fn held_out(&self, counted: &CountedDocuments) -> Vec<u32> {
        let count = counted.folds().len() - self.run.never_held_out;
        let all: Vec<u32> = (0u32..).take(count).collect();
        let first = counted.in_folds(&all, &(0..HELD_OUT_FOLDS));
        if first.len() >= MIN_DOCUMENTS && !self.setup.grid.multi_label {
            return first;
        }
        let sample = self.setup.sample;
        sample[..sample.partition_point(|&row| (row as usize) < count)].to_vec()
    }

    /// Returns the best vote on held-out documents, with or without prototypes.
    fn trial(
        &self,
        features: &Features,
        counted: &CountedDocuments,
        held_out: &[u32],
    ) -> Result<Trial, TrainError> {
        let TrialSetup { k_max, grid, exclusion, engines, .. } = self.setup;
        let threads = engines.threads();
        let sizes = counted.counts().label_sizes();
        let labels = labels_of(counted.counts(), &sizes);
        let by_fold = FoldWeightedDocuments { counted, features, engines };
        let rows = TrainingRows::by_fold(by_fold, labels);
        let found = rows.leave_one_out(held_out, k_max, exclusion, 0.0, &|_| ())?;
        let tuned = search_grid(&found, labels, grid, threads);
        let multi_label = grid.multi_label;
        let prototypes =
            rows.prototypes(&found, multi_label, exclusion, Precision::Quick, threads)?;
        let Some(prototypes) = prototypes else { return Ok(tuned.best) };
        let trials =
            PrototypeTrials { found: &found, labels, grid, prototypes: &prototypes, threads };
        let trials = trials.run(&tuned, None);
        let value = |trial: &Trial| grid.objective.of(trial.metrics);
        let best = trials.first().map_or(tuned.best, |&(trial, _)| trial);
        Ok(if value(&best) > value(&tuned.best) { best } else { tuned.best })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::{TrainOptions, Trainer, TuneOptions};
    use crate::model::InputSpec;
    use crate::random::Random;
    use crate::text::corpus::Document;

    /// Texts of eight words. Half of them begin with a root of the document's label, followed by
    /// `suffix` random letters.
    fn documents(suffix: usize) -> Vec<Document> {
        const ROOTS: [&str; 4] = ["karm", "belt", "soni", "tuve"];
        let mut random = Random::new(5);
        let document = |number: usize| {
            let label = number % 4;
            let words: Vec<String> = (0..8)
                .map(|_| {
                    let root = if random.unit() < 0.5 { label } else { random.below(4) };
                    let letter = |_| char::from(b"aeioudlnrst"[random.below(11)]);
                    let letters: String = (0..suffix).map(letter).collect();
                    format!("{}{letters}", ROOTS[root])
                })
                .collect();
            Document::text(number.to_string(), words.join(" ")).labels([format!("l{label}")])
        };
        (0..1_200).map(document).collect()
    }

    /// Returns the character n-grams that tuning chooses, and the changes that were tried with
    /// prototypes.
    fn chosen(suffix: usize) -> (Option<NgramRange>, Vec<String>) {
        let tuning = TuneOptions { cross_validate: false, ..TuneOptions::default() };
        let options = TrainOptions { tuning: Some(tuning), ..TrainOptions::default() };
        let trainer = Trainer::builder().options(options).build();
        let result = trainer.train(documents(suffix).into_iter().map(Ok)).unwrap();
        let InputSpec::Text(analyzer) = &result.model.settings().input else { unreachable!() };
        let steps = result.tuning.unwrap().features.into_iter().map(|step| step.change);
        (analyzer.char_ngrams, steps.filter(|step| step.starts_with("with prototypes")).collect())
    }

    #[test]
    fn characters_are_chosen_if_words_are_seldom_repeated() {
        let (ngrams, steps) = chosen(5);
        assert!(ngrams.is_some(), "{steps:?}");
        assert_eq!(steps[1], "with prototypes and character n-grams 2-4");
        assert_eq!(steps[3], "with prototypes and character n-grams 3-5 across words");
    }

    #[test]
    fn characters_are_not_chosen_if_they_repeat_the_words() {
        let (ngrams, steps) = chosen(0);
        assert_eq!((ngrams, steps.len()), (None, 2), "{steps:?}");
    }
}
