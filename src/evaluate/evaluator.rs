//! Accumulates predictions and computes their metrics.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::evaluation::Evaluation;
use super::part::{Counter, HashMap, PredictedDocument, RANKS, Tally, with_ancestors};
use super::result::{Method, PrecisionAt};
use super::summary::{LabelTable, LabelTally, confusions};
use crate::classifier::{ClassifyOptions, RawPrediction};
use crate::decide::outcomes::{Kind, Prf};
use crate::model::Model;
use crate::stages::Stage;
use crate::threads::Threads;

/// Accumulates predictions and computes their metrics.
#[derive(Debug)]
pub struct Evaluator {
    options: ClassifyOptions,
    /// The names of the training labels, followed by the names of new labels.
    names: Vec<String>,
    /// The numbers of the new labels.
    numbers: HashMap<String, u32>,
    train: Vec<u64>,
    tallies: Vec<LabelTally>,
    exact: u64,
    differences: u64,
    samples: Prf,
    pub(super) counter: Counter,
    all: Tally,
}

impl Evaluator {
    /// Creates an evaluator for the predictions of a model with these options.
    pub fn new(model: Arc<Model>, options: ClassifyOptions) -> Self {
        let names: Vec<String> = model.labels().iter().map(str::to_owned).collect();
        let train = model.label_sizes().iter().copied().map(u64::from).collect();
        let counter = Counter::new(model, &options);
        let mut all = counter.tally();
        all.documents.train = counter.model.settings().counts.documents;
        Self {
            options,
            tallies: vec![LabelTally::default(); names.len()],
            names,
            numbers: HashMap::default(),
            train,
            exact: 0,
            differences: 0,
            samples: Prf::default(),
            counter,
            all,
        }
    }

    /// Stores the prediction for every document, for [`Evaluation::per_document`].
    #[must_use]
    pub fn with_documents(mut self) -> Self {
        self.counter.keeps_documents = true;
        self.all.per_document = Some(Vec::new());
        self
    }

    /// Adds the prediction for a document with the given labels. `tied_at_k` is whether a further
    /// row, which is not a neighbor, has the same similarity as the last neighbor.
    pub fn add(
        &mut self,
        id: &str,
        labels: &[String],
        prediction: &RawPrediction,
        tied_at_k: bool,
    ) {
        self.add_all([PredictedDocument { id, labels, prediction, tied_at_k }].into_iter());
    }

    /// Adds documents. Their labels need not be in the training corpus.
    pub(super) fn add_all<'a>(&mut self, documents: impl Iterator<Item = PredictedDocument<'a>>) {
        let mut tally = self.counter.tally();
        for document in documents {
            let labels = with_ancestors(&self.counter.model, document.labels).into_owned();
            let numbers = labels.iter().map(|label| self.number(label)).collect();
            tally.add(&self.counter, &document, numbers);
        }
        self.append(tally);
    }

    pub(super) fn append(&mut self, tally: Tally) {
        for document in 0..tally.outcomes.len() {
            let mut counts = [0u64; 3];
            for (label, kind) in tally.outcomes.of(document) {
                counts[kind as usize] += 1;
                let label_tally = &mut self.tallies[label as usize];
                match kind {
                    Kind::Right => label_tally.tp += 1,
                    Kind::Wrong => label_tally.fp += 1,
                    Kind::Missed => label_tally.fnn += 1,
                }
            }
            let [right, wrong, missed] = counts;
            self.exact += u64::from(missed + wrong == 0);
            self.differences += missed + wrong;
            self.samples.add(Prf::of(right, wrong, missed), 1.0);
        }
        self.all.append(tally);
        if let Some(min) = self.all.min_error_score() {
            self.counter.min_error_score.store(min.to_bits(), Ordering::Relaxed);
        }
    }

    fn number(&mut self, label: &str) -> u32 {
        let known = self.counter.numbers.get(label).or_else(|| self.numbers.get(label));
        if let Some(&number) = known {
            return number;
        }
        let number = u32::try_from(self.names.len()).expect("fewer than 2^32 labels");
        self.names.push(label.to_owned());
        self.numbers.insert(label.to_owned(), number);
        self.tallies.push(LabelTally::default());
        number
    }

    fn label_table(&self) -> LabelTable<'_> {
        LabelTable {
            names: &self.names,
            train: &self.train,
            tallies: &self.tallies,
            documents_with_unseen: self.all.with_unseen,
            hierarchy: &self.counter.model.settings().hierarchy,
        }
    }

    /// Computes the metrics of all predictions. `seed` determines how documents are resampled for
    /// the intervals. The duration is appended to `stages`.
    pub fn finish(self, seed: u64, threads: &Threads, mut stages: Vec<Stage>) -> Evaluation {
        let start = Instant::now();
        let Tally { documents, confidences, outcomes, .. } = &self.all;
        let count = documents.test as f64;
        let mean = |sum: f64| if count > 0.0 { sum / count } else { 0.0 };
        // Intervals and all other metrics are computed concurrently.
        let mut intervals = None;
        let (summary, confusion, reliability, coverage, answered) = threads.scope(|scope| {
            scope.spawn(|_| intervals = outcomes.intervals(self.train.len(), seed));
            let coverage = threads.run(|| confidences.coverage());
            let answered = confidences.answered(documents);
            let summary = self.label_table().summary();
            let confusion = confusions(&self.names, &self.all.confused);
            (summary, confusion, confidences.reliability(), coverage, answered)
        });
        let is_single_label = !self.options.decision.is_multi();
        let most_confused =
            confusion.iter().filter(|pair| pair.label != pair.predicted).take(20).cloned();
        let [one, three, five] = std::array::from_fn(|index| {
            mean(self.all.right_at[index] as f64 / RANKS[index] as f64)
        });
        let mut evaluation = Evaluation {
            schema: "classify.evaluation/1",
            method: Method::of(&self.counter.model, &self.options),
            accuracy: is_single_label.then(|| mean(self.exact as f64)),
            subset_accuracy: mean(self.exact as f64),
            hamming_loss: mean(self.differences as f64) / self.names.len().max(1) as f64,
            micro: summary.sum.prf(),
            macro_all: summary.macro_all,
            macro_present: summary.macro_present,
            weighted: summary.weighted,
            samples: self.samples.divided(count),
            precision_at: PrecisionAt { one, three, five },
            top_3_accuracy: mean(self.all.in_top_3 as f64),
            labels: summary.labels,
            levels: summary.levels,
            per_label: summary.per_label,
            most_confused: most_confused.collect(),
            confusion: is_single_label.then_some(confusion),
            documents: *documents,
            intervals,
            answered,
            calibration_error: confidences.calibration_error(&reliability),
            reliability,
            coverage,
            curve: confidences.curve(summary.sum.support()),
            worst_errors: self.all.worst,
            tuning: self.counter.model.settings().tuning.clone(),
            novelty: self.options.novelty,
            shift: None,
            per_document: self.all.per_document,
            stages: Vec::new(),
            peak_memory_bytes: peak_memory(),
        };
        let documents = evaluation.documents.test;
        stages.push(Stage::since("measures, intervals", documents, start));
        evaluation.stages = stages;
        evaluation
    }
}

/// Returns the peak resident memory of this process in bytes, or `None` if `/proc` does not report
/// it.
pub fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}
