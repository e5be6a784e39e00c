//! Formats evaluations as text for a terminal, as Markdown, and as an HTML page.

use std::collections::HashMap;
use std::fmt::Write as _;

use classify::decide::objective::{ExpectedMetrics, Metrics};
use classify::evaluate::{Evaluation, Intervals, LabelResult, Prf};
use classify::printable::printable;
use classify::text::tfidf::Weighting;
use comfy_table::Table;

use crate::table::{self, decimal, label_or_none, one_line, plain, table};

mod html;

pub use html::html;

/// Maximum number of labels in a confusion matrix. With more labels, the most confused pairs are
/// shown instead.
const MATRIX_LABELS: usize = 12;
/// Maximum number of labels that the terminal output shows by default.
const TERMINAL_LABELS: usize = 30;

/// The name and the value of a metric.
type Line = (&'static str, String);

/// Formats the result for a terminal. With `all_labels`, the table of labels is complete and
/// followed by tables of reliability and coverage.
pub fn terminal(evaluation: &Evaluation, all_labels: bool) -> String {
    let mut text = String::new();
    for (name, value) in headline(evaluation) {
        let _ = writeln!(text, "{name:<16} {}", printable(value));
    }
    text.push('\n');
    text.push_str(&plain(averages(evaluation)));
    text.push('\n');
    let shown = if all_labels { usize::MAX } else { TERMINAL_LABELS };
    text.push_str(&plain(labels(evaluation, shown)));
    let hidden = evaluation.per_label.len().saturating_sub(shown);
    if hidden > 0 {
        let _ = writeln!(text, "({hidden} labels with less support not shown: -v shows all)");
    }
    if let Some(levels) = levels(evaluation) {
        text.push_str("\nlevels of the hierarchy\n");
        text.push_str(&plain(levels));
    }
    text.push('\n');
    match matrix(evaluation) {
        Some(matrix) => {
            text.push_str("confusion matrix (rows: the label, columns: the prediction)\n");
            text.push_str(&plain(matrix));
        }
        None if evaluation.most_confused.is_empty() => text.push_str("no confused labels\n"),
        None => {
            text.push_str("most confused labels\n");
            text.push_str(&plain(confused(evaluation)));
        }
    }
    if all_labels {
        text.push_str("\nreliability of the predicted labels\n");
        text.push_str(&plain(reliability(evaluation)));
        text.push_str("\nthe most confident predictions\n");
        text.push_str(&plain(coverage(evaluation)));
    }
    text.push('\n');
    text.push_str(&plain(stages(evaluation)));
    text
}

/// Formats the result as Markdown, with the table of all labels.
pub fn markdown(evaluation: &Evaluation) -> String {
    let mut text = "# Evaluation\n\n".to_owned();
    let mut head = table(&["measure", "value"], 2);
    for (name, value) in headline(evaluation) {
        head.add_row([name.to_owned(), printable(value).to_string()]);
    }
    let mut section = |title: &str, table: Table| {
        let _ = write!(text, "## {title}\n\n{}\n\n", table::markdown(table));
    };
    section("Headline metrics", head);
    section("Averages", averages(evaluation));
    section("Labels", labels(evaluation, usize::MAX));
    if let Some(levels) = levels(evaluation) {
        section("Levels of the hierarchy", levels);
    }
    match matrix(evaluation) {
        Some(matrix) => {
            section("Confusion matrix (rows: the label, columns: the prediction)", matrix);
        }
        None => section("Most confused labels", confused(evaluation)),
    }
    section("Reliability of the predicted labels", reliability(evaluation));
    section("Coverage and precision", coverage(evaluation));
    section("Stages", stages(evaluation));
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// Returns the method, the metrics and the document counts, one line each.
fn headline(evaluation: &Evaluation) -> Vec<Line> {
    let mut lines = method(evaluation);
    lines.extend(quality(evaluation));
    lines.extend(expected(evaluation));
    lines.extend(confidence(evaluation));
    lines.extend(ranking(evaluation));
    lines.extend(documents(evaluation));
    lines
}

/// Describes the training data and the model.
fn method(evaluation: &Evaluation) -> Vec<Line> {
    let Evaluation { documents, labels, method, .. } = evaluation;
    let mut lines = vec![
        ("documents", format!("{} training, {} test", documents.train, documents.test)),
        ("labels", format!("{} in training, {} in test", labels.train, labels.test)),
    ];
    // A model with only dense vectors has no terms.
    if method.terms > 0 || method.vectors.is_none() {
        lines.push(("terms", method.terms.to_string()));
        let formula = format!("{}: {}", weighting(&method.weighting), method.formula);
        lines.push(("weighting", formula));
    }
    if let Some(vectors) = &method.vectors {
        lines.push(("vectors", vectors.clone()));
    }
    let neighbors = format!("k = {}, vote {}, {}", method.k, method.vote, method.decision);
    lines.push(("neighbors", neighbors));
    lines
}

/// Returns the code of a weighting with its common name.
fn weighting(code: &str) -> String {
    code.parse().map_or_else(|_| code.to_owned(), |weighting: Weighting| weighting.name())
}

/// Returns accuracy and F1 with their intervals.
fn quality(evaluation: &Evaluation) -> Vec<Line> {
    let interval = |select: fn(&Intervals) -> [f64; 2]| match &evaluation.intervals {
        Some(intervals) => {
            let [low, high] = select(intervals);
            format!(" [{low:.4}, {high:.4}]")
        }
        None => String::new(),
    };
    let exact = |value: f64| decimal(value) + &interval(|intervals| intervals.accuracy);
    let mut lines = Vec::new();
    if let Some(accuracy) = evaluation.accuracy {
        lines.push(("accuracy", exact(accuracy)));
    }
    let macro_f1 = decimal(evaluation.macro_all.f1) + &interval(|intervals| intervals.macro_f1);
    lines.extend([
        ("micro F1", decimal(evaluation.micro.f1) + &interval(|intervals| intervals.micro_f1)),
        ("macro F1", format!("{macro_f1} over the training labels")),
        ("", format!("{} over the test labels", decimal(evaluation.macro_present.f1))),
    ]);
    if evaluation.accuracy.is_none() {
        lines.push(("subset accuracy", exact(evaluation.subset_accuracy)));
    }
    lines
}

/// Returns the metrics that tuning estimated for new documents, unless they may be optimistic.
fn expected(evaluation: &Evaluation) -> Vec<Line> {
    let Some(tuning) = &evaluation.tuning else { return Vec::new() };
    let with_interval = |metric: &str, value: f64, interval: [f64; 2]| {
        let [low, high] = interval;
        format!("{metric} {value:.4} [{low:.4}, {high:.4}]")
    };
    let describe = |metrics: Metrics, intervals: Intervals| {
        let first = match evaluation.accuracy {
            Some(_) => with_interval("accuracy", metrics.accuracy, intervals.accuracy),
            None => with_interval("micro F1", metrics.micro_f1, intervals.micro_f1),
        };
        let second = with_interval("macro F1", metrics.macro_f1, intervals.macro_f1);
        format!("{first}, {second}")
    };
    if let Some(ExpectedMetrics { metrics, intervals: Some(intervals) }) = tuning.cross_validated {
        let metrics = describe(metrics, intervals);
        return vec![("expected", format!("{metrics} by cross-validation of the training"))];
    }
    if !tuning.nested {
        return Vec::new();
    }
    let mut lines = Vec::new();
    if let Some(intervals) = tuning.intervals {
        let metrics = describe(tuning.metrics, intervals);
        let few = if tuning.is_optimistic() {
            "; optimistic, because the settings were chosen on these few documents"
        } else {
            ""
        };
        lines.push(("expected", format!("{metrics} on held-out training documents{few}")));
    }
    if let Some(ExpectedMetrics { metrics, intervals: Some(intervals) }) =
        tuning.with_near_duplicates
    {
        let metrics = describe(metrics, intervals);
        lines.push(("", format!("{metrics} if new documents have near-duplicates as often")));
    }
    lines
}

/// Returns the calibration error of the probabilities, and the share of documents with predicted
/// labels.
fn confidence(evaluation: &Evaluation) -> Vec<Line> {
    let mut lines = Vec::new();
    if let Some(error) = evaluation.calibration_error {
        lines.push(("calibration", format!("{error:.4} expected calibration error")));
    }
    if let Some(answered) = evaluation.answered {
        let coverage = decimal(answered.coverage);
        let error = decimal(answered.error);
        let answered = format!("{coverage} of the documents, {error} of their labels are wrong");
        lines.push(("answered", answered));
    }
    lines
}

/// Returns the Hamming loss and the metrics of the label ranking.
fn ranking(evaluation: &Evaluation) -> [Line; 3] {
    let at = evaluation.precision_at;
    let precision = [at.one, at.three, at.five].map(decimal).join(" ");
    [
        ("Hamming loss", format!("{:.5}", evaluation.hamming_loss)),
        ("P@1 P@3 P@5", precision),
        ("top-3 accuracy", decimal(evaluation.top_3_accuracy)),
    ]
}

/// Returns the numbers of documents without predicted labels, of ties and of unseen labels, and the
/// peak memory.
fn documents(evaluation: &Evaluation) -> Vec<Line> {
    let Evaluation { documents, labels, .. } = evaluation;
    let unanswered = documents.no_known_term
        + documents.no_neighbor
        + documents.no_label
        + documents.abstained
        + documents.out_of_distribution;
    let reasons = format!(
        "no known term {}, no neighbor {}, no labeled neighbor {}, low confidence {}, out of \
         distribution {}",
        documents.no_known_term,
        documents.no_neighbor,
        documents.no_label,
        documents.abstained,
        documents.out_of_distribution
    );
    let unseen = format!("{} in {} documents", labels.unseen.len(), labels.documents_with_unseen);
    let mut lines = vec![
        ("without answer", format!("{unanswered} ({reasons})")),
        ("ties at rank k", documents.tied_at_k.to_string()),
        ("unseen labels", unseen),
    ];
    if let Some(bytes) = evaluation.peak_memory_bytes {
        lines.push(("peak memory", format!("{:.1} MB", bytes as f64 / 1e6)));
    }
    lines
}

fn averages(evaluation: &Evaluation) -> Table {
    let mut table = table(&["average", "precision", "recall", "F1"], 1);
    for (name, Prf { precision, recall, f1 }) in [
        ("micro", evaluation.micro),
        ("macro (training labels)", evaluation.macro_all),
        ("macro (test labels)", evaluation.macro_present),
        ("weighted by support", evaluation.weighted),
        ("samples", evaluation.samples),
    ] {
        table.add_row([name.to_owned(), decimal(precision), decimal(recall), decimal(f1)]);
    }
    table
}

/// Returns the table of the `shown` labels with the most test documents.
fn labels(evaluation: &Evaluation, shown: usize) -> Table {
    let header = ["label", "training", "test", "predicted", "precision", "recall", "F1"];
    let mut table = table(&header, 1);
    for row in by_support(evaluation).into_iter().take(shown) {
        let counts = [row.train, row.support, row.predicted].map(|count| count.to_string());
        let metrics = [row.prf.precision, row.prf.recall, row.prf.f1].map(decimal);
        table.add_row([one_line(&row.label)].into_iter().chain(counts).chain(metrics));
    }
    table
}

/// Returns the labels, sorted by decreasing number of test documents, then by name.
fn by_support(evaluation: &Evaluation) -> Vec<&LabelResult> {
    let mut labels: Vec<&LabelResult> = evaluation.per_label.iter().collect();
    labels.sort_by(|a, b| b.support.cmp(&a.support).then(a.label.cmp(&b.label)));
    labels
}

/// The confusion matrix of a single-label evaluation.
struct ConfusionMatrix<'a> {
    /// The labels, ordered by name. The empty label stands for "no label".
    labels: Vec<&'a str>,
    counts: HashMap<(&'a str, &'a str), u64>,
}

impl<'a> ConfusionMatrix<'a> {
    /// Creates the matrix. Returns `None` if the evaluation is multi-label or has more than
    /// `max_labels` labels.
    fn new(evaluation: &'a Evaluation, max_labels: usize) -> Option<Self> {
        let pairs = evaluation.confusion.as_ref()?;
        let mut labels: Vec<&str> =
            pairs.iter().flat_map(|pair| [pair.label.as_str(), pair.predicted.as_str()]).collect();
        labels.sort_unstable();
        labels.dedup();
        if labels.len() > max_labels {
            return None;
        }
        let counts = pairs
            .iter()
            .map(|pair| ((pair.label.as_str(), pair.predicted.as_str()), pair.count))
            .collect();
        Some(Self { labels, counts })
    }

    /// Returns the number of documents with `label` for which `predicted` was predicted.
    fn count(&self, label: &str, predicted: &str) -> u64 {
        self.counts.get(&(label, predicted)).copied().unwrap_or(0)
    }
}

/// Returns the table of the confusion matrix if it is small enough.
fn matrix(evaluation: &Evaluation) -> Option<Table> {
    let matrix = ConfusionMatrix::new(evaluation, MATRIX_LABELS)?;
    let names: Vec<String> = matrix.labels.iter().map(|label| label_or_none(label)).collect();
    let header: Vec<&str> = [""].into_iter().chain(names.iter().map(String::as_str)).collect();
    let mut table = table(&header, 1);
    for (label, name) in matrix.labels.iter().zip(&names) {
        let cells = matrix.labels.iter().map(|predicted| match matrix.count(label, predicted) {
            0 => ".".to_owned(),
            count => count.to_string(),
        });
        table.add_row([name.clone()].into_iter().chain(cells));
    }
    Some(table)
}

fn levels(evaluation: &Evaluation) -> Option<Table> {
    let header = ["level", "labels", "micro P", "micro R", "micro F1", "macro F1"];
    let mut table = table(&header, 0);
    for level in &evaluation.levels {
        let Prf { precision, recall, f1 } = level.micro;
        let metrics = [precision, recall, f1, level.macro_all.f1].map(decimal);
        let counts = [level.level.to_string(), level.labels.to_string()];
        table.add_row(counts.into_iter().chain(metrics));
    }
    (!evaluation.levels.is_empty()).then_some(table)
}

fn reliability(evaluation: &Evaluation) -> Table {
    let confidence = if evaluation.calibration_error.is_some() {
        "mean probability"
    } else {
        "mean share of the vote"
    };
    let mut table = table(&["from", "to", "labels predicted", confidence, "correct"], 0);
    for bin in evaluation.reliability.iter().filter(|bin| bin.count > 0) {
        let ends = [bin.from, bin.to].map(|end| format!("{end:.1}"));
        let rest = [bin.count.to_string(), decimal(bin.confidence), decimal(bin.right)];
        table.add_row(ends.into_iter().chain(rest));
    }
    table
}

fn coverage(evaluation: &Evaluation) -> Table {
    let mut table = table(&["share of the predictions", "min confidence", "precision"], 0);
    for point in evaluation.coverage.iter().skip(1).step_by(2) {
        let share = format!("{:.1}", point.coverage);
        table.add_row([share, decimal(point.confidence), decimal(point.precision)]);
    }
    table
}

fn confused(evaluation: &Evaluation) -> Table {
    let mut table = table(&["label", "predicted instead", "documents"], 2);
    for pair in &evaluation.most_confused {
        let names = [&pair.label, &pair.predicted].map(|label| label_or_none(label));
        table.add_row(names.into_iter().chain([pair.count.to_string()]));
    }
    table
}

fn stages(evaluation: &Evaluation) -> Table {
    let mut table = table(&["stage", "seconds", "documents/s", "MB/s", "busy"], 1);
    for stage in &evaluation.stages {
        table.add_row([
            one_line(&stage.name),
            format!("{:.3}", stage.seconds),
            if stage.documents > 0 { format!("{:.0}", stage.rate()) } else { String::new() },
            stage.megabytes().map_or(String::new(), |megabytes| format!("{megabytes:.0}")),
            stage.busy.map_or(String::new(), |busy| format!("{:.0} %", busy * 100.0)),
        ]);
    }
    table
}
