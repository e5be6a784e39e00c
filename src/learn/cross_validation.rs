//! Estimates the metrics of small corpora by cross-validation of the whole training.
//!
//! * Input: the training documents, in folds.
//! * Evaluation: each fold is predicted by a model that is trained and tuned on the other folds.
//! * Output: the metrics of all predictions, with intervals.
//!
//! Tuning chooses the best of many settings on held-out documents, and the metrics of the best are
//! too high by chance. With a hundred documents the excess is several points, with thousands it is
//! small. Cross-validation also covers the choice, because the held-out documents took no part in
//! it (Varma and Simon 2006, "nested" cross-validation). It trains several times, so only small
//! corpora are cross-validated.

use std::collections::{BTreeSet, HashMap};

use super::run::{Documents, Run};
use super::votes::Candidate;
use super::{Event, TrainError, TrainingResult, TuneScope};
use crate::classifier::Classifier;
use crate::decide::objective::{ExpectedMetrics, Metrics, Objective};
use crate::decide::outcomes::{HeadlineMetrics, Intervals, Outcomes};
use crate::text::corpus::{Content, CorpusError, Document};
use crate::text::hierarchy::Hierarchy;
use crate::threads::Threads;

/// Minimum number of documents for cross-validation.
const MIN_DOCUMENTS: usize = 20;
/// Maximum number of documents for cross-validation.
const MAX_DOCUMENTS: usize = 1_000;
/// Maximum size of the documents for cross-validation, in bytes.
const MAX_BYTES: usize = 8 << 20;
/// Minimum number of folds.
const MIN_FOLDS: usize = 5;
/// Maximum number of folds.
const MAX_FOLDS: usize = 20;
/// The number of documents that all folds together train on, if it allows [`MIN_FOLDS`]. Fewer
/// documents need more folds: a model learned from four fifths of them would be clearly worse.
const DOCUMENTS_OF_ALL_FOLDS: usize = 1_000;

/// The first documents of a corpus.
#[derive(Debug, Default)]
pub(super) struct FirstDocuments {
    pub(super) documents: Vec<Document>,
    /// Whether these are all documents of the corpus, and few enough for cross-validation.
    pub(super) is_whole: bool,
}

impl FirstDocuments {
    /// Reads the documents of a small corpus, or the first documents of a larger one.
    pub(super) fn read(corpus: Documents<'_>) -> Result<Self, CorpusError> {
        let mut documents = Vec::new();
        let mut bytes = 0;
        for document in corpus {
            let document = document?;
            bytes += size(&document);
            documents.push(document);
            if documents.len() > MAX_DOCUMENTS || bytes > MAX_BYTES {
                return Ok(Self { documents, is_whole: false });
            }
        }
        Ok(Self { documents, is_whole: true })
    }
}

/// Returns the approximate size of a document, in bytes.
fn size(document: &Document) -> usize {
    let features = match &document.content {
        Content::Features(features) => size_of_val(&**features),
        Content::Text(_) | Content::Fields(_) => 0,
    };
    document.content.text_bytes() + features + document.vector.as_ref().map_or(0, |v| 4 * v.len())
}

/// Trains a classifier on documents, with the options of a training run.
pub(super) type TrainClassifier<'a> = dyn Fn(Documents<'_>) -> Result<Classifier, TrainError> + 'a;

/// Repeats the training that led to `result` without each fold of its documents, and returns the
/// metrics of the predictions for the folds. `None` if nothing was tuned, if the decision applies
/// to a whole batch, or if there are too few documents to train without a fold.
pub(super) fn cross_validate(
    run: &Run<'_>,
    documents: &[Document],
    result: &TrainingResult,
    train: &TrainClassifier<'_>,
) -> Result<Option<ExpectedMetrics>, TrainError> {
    let Some(report) = &result.tuning else { return Ok(None) };
    let (documents, always_trained) = documents.split_at(documents.len() - run.never_held_out);
    let is_by_batch = matches!(report.best.decision, Candidate::Proportional { .. });
    let window = report.window as usize;
    let folds = folds(documents, window > 0);
    let count = folds.iter().max().map_or(0, |last| last + 1);
    if documents.len() < MIN_DOCUMENTS || count < 2 || is_by_batch {
        return Ok(None);
    }
    if report.scope != TuneScope::Quick {
        run.report(Event::CrossValidation { folds: count });
    }
    let mut predicted = PredictedFolds {
        label_ids: result.model.labels().iter().zip(0..).collect(),
        hierarchy: &run.options.hierarchy,
        objective: report.objective,
        outcomes: Outcomes::default(),
        by_ranks: 0.0,
    };
    for fold in 0..count {
        let rows_where = |condition: &dyn Fn(usize) -> bool| -> Vec<Document> {
            let rows = (0..documents.len()).filter(|&row| condition(row));
            rows.map(|row| documents[row].clone()).collect()
        };
        let held_out = rows_where(&|row| folds[row] == fold);
        // In a chronological corpus, documents next to the fold may report the same events.
        let is_near = |row: usize| {
            let near = row.saturating_sub(window)..(row + window + 1).min(folds.len());
            folds[near].contains(&fold)
        };
        let others = rows_where(&|row| folds[row] != fold && (window == 0 || !is_near(row)));
        let mut others = others.into_iter().chain(always_trained.iter().cloned()).map(Ok);
        let classifier = match train(&mut others) {
            Ok(classifier) => classifier,
            Err(error @ (TrainError::Search(_) | TrainError::Thread(_))) => return Err(error),
            // The other documents lack something, such as terms or a second label.
            Err(_) => return Ok(None),
        };
        predicted.add(&classifier, &held_out)?;
    }
    Ok(Some(predicted.expected(count, run.threads())))
}

/// The predictions for the folds, compared with the labels of their documents.
struct PredictedFolds<'a> {
    /// The label numbers of the model that is trained on all documents.
    label_ids: HashMap<&'a str, u32>,
    hierarchy: &'a Hierarchy,
    objective: Objective,
    outcomes: Outcomes,
    /// The sum of the objective over the documents, if it depends on the ranking of labels.
    by_ranks: f64,
}

impl PredictedFolds<'_> {
    /// Predicts the labels of held-out documents.
    fn add(&mut self, classifier: &Classifier, held_out: &[Document]) -> Result<(), TrainError> {
        let model = classifier.model();
        let id = |name: &&str| self.label_ids.get(name).copied();
        for (prediction, document) in
            classifier.predict_documents(held_out, &classifier.options())?.iter().zip(held_out)
        {
            let labels = document.labels.iter().map(String::as_str);
            let given = with_ancestors(labels, self.hierarchy);
            let labels = prediction.labels.iter().map(|&label| model.label_name(label));
            let predicted = with_ancestors(labels, self.hierarchy);
            let gold: Vec<u32> = given.iter().filter_map(id).collect();
            self.outcomes.push(&gold, &predicted.iter().filter_map(id).collect::<Vec<u32>>());
            let best = prediction.scores.iter().take(self.objective.best_labels().unwrap_or(0));
            let names = best.map(|score| model.label_name(score.label));
            let right = names.filter(|name| given.contains(name)).count();
            self.by_ranks += self.objective.of_ranking(right);
        }
        Ok(())
    }

    /// Returns the metrics of all predictions, with intervals.
    fn expected(&self, folds: usize, threads: &Threads) -> ExpectedMetrics {
        let labels = self.label_ids.len();
        let count = self.outcomes.len();
        let metrics = self.outcomes.metrics(0..count, labels);
        let intervals = threads.run(|| self.outcomes.intervals(labels, 0));
        ExpectedMetrics {
            metrics: Metrics {
                micro_f1: metrics.micro_f1,
                macro_f1: metrics.macro_f1,
                accuracy: metrics.accuracy,
                by_ranks: self.objective.best_labels().map(|_| self.by_ranks / count as f64),
            },
            intervals: intervals.map(|intervals| widened(intervals, metrics, folds)),
        }
    }
}

/// Widens intervals from resampled predictions. Another training set would give another model, and
/// the folds share most of their training documents, so the metrics vary more than the predictions
/// of one model would. Nadeau and Bengio (2003, section 3) correct the variance for this.
fn widened(intervals: Intervals, metrics: HeadlineMetrics, folds: usize) -> Intervals {
    let factor = libm::sqrt(1.0 + folds as f64 / (folds - 1) as f64);
    let widen = |ends: [f64; 2], value: f64| {
        ends.map(|end| (value + (end - value) * factor).clamp(0.0, 1.0))
    };
    Intervals {
        micro_f1: widen(intervals.micro_f1, metrics.micro_f1),
        macro_f1: widen(intervals.macro_f1, metrics.macro_f1),
        accuracy: widen(intervals.accuracy, metrics.accuracy),
        ..intervals
    }
}

/// Returns the labels and their ancestors.
fn with_ancestors<'l>(
    labels: impl Iterator<Item = &'l str>,
    hierarchy: &'l Hierarchy,
) -> BTreeSet<&'l str> {
    let mut all = BTreeSet::new();
    for label in labels {
        all.insert(label);
        all.extend(hierarchy.ancestors(label));
    }
    all
}

/// Returns the fold of each document, from 0. Documents of a group are in the same fold, and so are
/// copies. Groups are assigned to the folds in turn, ordered by their labels, so each label is
/// spread evenly. In a chronological corpus without groups, a fold is a contiguous block of
/// documents.
fn folds(documents: &[Document], is_chronological: bool) -> Vec<usize> {
    let has_groups = documents.iter().any(|document| document.group.is_some());
    if is_chronological && !has_groups {
        let fold = |row: usize| row * MIN_FOLDS / documents.len();
        return (0..documents.len()).map(fold).collect();
    }
    let unit = |document: &Document| match &document.group {
        Some(group) => Document::text("", &**group).content_hash(),
        None => document.content_hash(),
    };
    let mut first_of_unit = HashMap::new();
    for document in documents {
        let labels = &document.labels;
        let first = first_of_unit.entry(unit(document)).or_insert(labels);
        *first = labels.min(first);
    }
    let mut units: Vec<(&Vec<String>, u64)> =
        first_of_unit.into_iter().map(|(unit, labels)| (labels, unit)).collect();
    units.sort_unstable();
    let wanted = DOCUMENTS_OF_ALL_FOLDS / documents.len().max(1);
    let count = wanted.clamp(MIN_FOLDS, MAX_FOLDS).min(units.len());
    let numbered = units.into_iter().enumerate();
    let fold_of_unit: HashMap<u64, usize> =
        numbered.map(|(position, (_, unit))| (unit, position % count)).collect();
    documents.iter().map(|document| fold_of_unit[&unit(document)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::{TrainOptions, Trainer, TuneOptions};
    use crate::random::Random;

    fn trained(documents: &[Document], tuning: TuneOptions) -> TrainingResult {
        let options = TrainOptions { tuning: Some(tuning), ..TrainOptions::default() };
        Trainer::builder().options(options).build().train(documents).unwrap()
    }

    /// Documents of random words, whose labels are random, too.
    fn noise(count: usize) -> Vec<Document> {
        let mut random = Random::new(5);
        let document = |number: usize| {
            let words: Vec<String> = (0..8).map(|_| format!("w{}", random.below(60))).collect();
            let label = ["a", "b"][random.below(2)];
            Document::text(number.to_string(), words.join(" ")).labels([label])
        };
        (0..count).map(document).collect()
    }

    /// Nothing can be learned from noise, but the best of many settings seems to be good.
    #[test]
    fn chance_is_not_expected_of_new_documents() {
        let result = trained(&noise(60), TuneOptions::default());
        let report = result.tuning.unwrap();
        let expected = report.cross_validated.unwrap();
        assert!(report.metrics.accuracy > 0.6, "{:?}", report.metrics);
        assert!(expected.metrics.accuracy < 0.56, "{expected:?}");
        let [low, high] = expected.intervals.unwrap().accuracy;
        assert!(low < 0.5 && 0.5 < high, "{low} {high}");
        assert_eq!(
            result.model.settings().tuning.as_ref().unwrap().cross_validated,
            Some(expected)
        );
    }

    #[test]
    fn few_and_many_documents_are_not_cross_validated() {
        for count in [MIN_DOCUMENTS - 1, MAX_DOCUMENTS + 1] {
            let result = trained(&noise(count), TuneOptions::quick());
            assert!(result.tuning.is_none_or(|report| report.cross_validated.is_none()));
        }
        let mut large = noise(150);
        large[0].content = Content::Text("word ".repeat(MAX_BYTES / 5 + 1));
        let report = trained(&large, TuneOptions::quick()).tuning.unwrap();
        assert!(report.cross_validated.is_none());
    }

    /// Copies are in the same fold, so noise remains noise.
    #[test]
    fn copies_are_not_expected() {
        let mut documents = noise(30);
        for copy in 1..4 {
            documents.extend(
                noise(30)
                    .into_iter()
                    .map(|document| Document { id: format!("{copy}-{}", document.id), ..document }),
            );
        }
        let expected = trained(&documents, TuneOptions::quick()).tuning.unwrap();
        assert!(
            expected.cross_validated.unwrap().metrics.accuracy < 0.65,
            "{:?}",
            expected.cross_validated
        );
    }

    /// 18 adjacent documents report the same event, whose label is random, and no other document
    /// says anything about it. Every fold begins and ends in the middle of an event, and documents
    /// of the same event outside the fold would double the accuracy.
    #[test]
    fn adjacent_documents_of_a_chronological_corpus_do_not_help() {
        let mut random = Random::new(8);
        let labels: Vec<&str> = (0..11).map(|_| ["a", "b"][random.below(2)]).collect();
        let document = |number: usize| {
            let event = (number + 9) / 18;
            let text = format!("event{event} place{event} word{} word{}", number % 5, number % 7);
            Document::text(number.to_string(), text).labels([labels[event]])
        };
        let documents: Vec<Document> = (0..180).map(document).collect();
        let scope = TuneScope::Votes;
        let tuning = TuneOptions { scope, time_order: Some(true), ..TuneOptions::default() };
        let report = trained(&documents, tuning).tuning.unwrap();
        assert!(report.window > 0);
        let expected = report.cross_validated.unwrap().metrics.accuracy;
        assert!(expected < 0.35, "{expected}");
    }

    /// With five folds, the factor is √(1 + 5/4) = 1.5.
    #[test]
    fn intervals_are_widened_around_the_metric() {
        let metrics = HeadlineMetrics { micro_f1: 0.8, macro_f1: 0.5, accuracy: 0.9 };
        let before = Intervals {
            level: 0.95,
            replicates: 1_000,
            seed: 0,
            micro_f1: [0.7, 0.84],
            macro_f1: [0.5, 0.5],
            accuracy: [0.8, 0.98],
        };
        let Intervals { micro_f1, macro_f1, accuracy, .. } = widened(before, metrics, 5);
        for (found, expected) in
            [(micro_f1, [0.65, 0.86]), (macro_f1, [0.5, 0.5]), (accuracy, [0.75, 1.0])]
        {
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?}");
        }
    }

    #[test]
    fn labels_of_one_document_may_have_a_class_weight() {
        let mut documents = noise(110);
        documents[7].labels = vec!["rare".to_owned()];
        let weights = [("rare".to_owned(), 2.0)].into_iter().collect();
        let class_weights = Some(crate::text::counts::ClassWeights::Given(weights));
        let options = TrainOptions { class_weights, ..TrainOptions::default() };
        let result = Trainer::builder().options(options).build().train(&documents).unwrap();
        assert!(result.tuning.unwrap().cross_validated.is_some());
    }

    #[test]
    fn one_group_and_decisions_on_batches_are_not_cross_validated() {
        let mut documents = noise(60);
        for document in &mut documents {
            document.group = Some("all".to_owned());
        }
        let scope = TuneScope::Votes;
        let votes = TuneOptions { scope, ..TuneOptions::default() };
        let report = trained(&documents, votes).tuning.unwrap();
        assert_eq!(report.cross_validated, None);
        let mut options = TrainOptions { tuning: Some(votes), ..TrainOptions::default() };
        options.decision.rule = "pcut".parse().ok();
        options.decision.multi_label = Some(true);
        let result = Trainer::builder().options(options).build().train(noise(60)).unwrap();
        assert_eq!(result.tuning.unwrap().cross_validated, None);
    }

    #[test]
    fn folds_spread_labels_and_keep_groups_together() {
        let mut documents = noise(100);
        for (number, document) in documents.iter_mut().enumerate() {
            document.labels = vec![if number < 20 { "rare" } else { "frequent" }.to_owned()];
        }
        let found = folds(&documents, false);
        for fold in 0..10 {
            assert_eq!((0..20).filter(|&number| found[number] == fold).count(), 2);
        }
        let backwards: Vec<Document> = documents.iter().rev().cloned().collect();
        assert!(folds(&backwards, false).into_iter().rev().eq(found));
        for (number, document) in documents.iter_mut().enumerate() {
            document.group = Some((number % 30).to_string());
        }
        let found = folds(&documents, false);
        assert!((0..70).all(|number| found[number] == found[number + 30]));
        for document in &mut documents {
            document.group = None;
        }
        assert_eq!(folds(&documents, true)[18..23], [0, 0, 1, 1, 1]);
    }
}
