//! Formats the settings and statistics of a model.

use std::fmt::{Display, Write as _};

use classify::decide::calibrate::ConfidenceLimit;
use classify::decide::objective::{ExpectedMetrics, Metrics};
use classify::decide::outcomes::Intervals;
use classify::model::{InputSpec, Model, TuningSummary, Updates};
use classify::printable::printable;
use classify::rows::dense::{DenseSpec, EncoderSpec, Metric};
use classify::text::analyze::{AnalyzerSpec, stop_word_list_name};
use classify::text::corpus::ReadingSpec;
use classify::text::counts::Fields;
use serde_json::Value;

use crate::training::novelty_limit;

/// Text lines that each consist of a name and a value.
struct Lines(String);

impl Lines {
    fn push(&mut self, name: &str, value: impl Display) {
        let _ = writeln!(self.0, "{name:<12} {}", printable(value));
    }
}

/// Formats the settings of a model and its `labels` most frequent labels. `file` is the text of the
/// first line: the path of the model and its size.
pub fn terminal(model: &Model, file: &str, labels: usize) -> String {
    let mut lines = Lines(String::new());
    lines.push("model", file);
    push_counts(&mut lines, model);
    push_features(&mut lines, model);
    push_decisions(&mut lines, model);
    let Lines(mut text) = lines;
    text.push_str(&frequent_labels(model, labels));
    text
}

fn push_counts(lines: &mut Lines, model: &Model) {
    let settings = model.settings();
    let counts = settings.counts;
    lines.push("trained by", &settings.created_by);
    let unlabeled = match counts.unlabeled {
        0 => String::new(),
        count => format!(", {count} without a label"),
    };
    let empty = if model.has_terms() { format!(", {} empty", counts.empty) } else { String::new() };
    lines.push("documents", format!("{}{unlabeled}{empty}", counts.documents));
    lines.push("labels", counts.labels);
    if model.has_terms() {
        lines.push("terms", format!("{} ({} weights)", counts.terms, counts.nonzeros));
    }
}

fn push_features(lines: &mut Lines, model: &Model) {
    let settings = model.settings();
    match &settings.input {
        InputSpec::Text(spec) => lines.push("analysis", analysis(spec)),
        InputSpec::Features(spec) if spec.counts => lines.push("features", "counts"),
        InputSpec::Features(_) => lines.push("features", "weights from the corpus"),
        InputSpec::Vectors(_) => lines.push("features", "dense vectors from the corpus"),
    }
    if !settings.reading.is_default() {
        lines.push("reading", reading(&settings.reading));
    }
    if let Some(dense) = &settings.dense {
        lines.push("vectors", vectors(dense, settings.dense_share));
        if let Some(EncoderSpec { folder, kind, hash }) = dense.encoder() {
            lines.push("encoder", format!("{kind}, hash {hash}, from {folder}"));
        }
    }
    if model.has_terms() {
        lines.push("weighting", format!("{}: {}", settings.weighting.name(), settings.formula));
        let weighted = settings.updates.map(|updates| updates.weighed).or(settings.part_of);
        let weighted = weighted.unwrap_or(settings.counts.documents);
        lines.push("", format!("N = {weighted} documents, df = documents with the term"));
    }
    if model.searches_terms() {
        let cosine = settings.weighting.is_cosine();
        lines.push("similarity", if cosine { "cosine" } else { "dot product" });
    }
}

/// Describes the stored options for reading a corpus.
fn reading(spec: &ReadingSpec) -> String {
    let list = |name: &str, columns: &[String]| {
        (!columns.is_empty()).then(|| format!("{name} {}", columns.join(", ")))
    };
    let single =
        |name: &str, value: &Option<String>| value.as_ref().map(|value| format!("{name} {value}"));
    let table = spec.table;
    let parts = [
        list("text", &spec.text_columns),
        list("labels", &spec.label_columns),
        single("identifier", &spec.id_column),
        single("weight", &spec.weight_column),
        single("group", &spec.group_column),
        spec.label_separator.as_ref().map(|separator| format!("labels separated by `{separator}`")),
        table
            .separator
            .map(|separator| format!("fields separated by `{}`", separator.escape_ascii())),
        table.quote.map(|quote| format!("quote {}", char::from(quote))),
        table.no_header.then(|| "no header".to_owned()),
        single("encoding", &spec.encoding),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn push_decisions(lines: &mut Lines, model: &Model) {
    let settings = model.settings();
    lines.push("neighbors", format!("k = {}, vote {}", settings.k, settings.vote));
    lines.push("decision", &settings.decision);
    if let Some(selection) = settings.selection {
        lines.push("selection", format!("{selection}: {} terms left", settings.counts.terms));
    }
    match &settings.fields {
        Fields::Whole => {}
        Fields::FirstLine { boost } => lines.push("fields", format!("first line × {boost}")),
        Fields::Columns(columns) => {
            let columns = columns.iter().map(|(name, boost)| format!("{name} × {boost}"));
            lines.push("fields", columns.collect::<Vec<_>>().join(", "));
        }
    }
    if let Some(tuning) = &settings.tuning {
        lines.push("tuned", describe_tuning(tuning));
    }
    if model.calibration().is_some() {
        lines.push("scores", "calibrated: predictions have probabilities");
    }
    if let Some(abstention) = &settings.abstention {
        lines.push("abstains", describe_abstention(*abstention));
    }
    if let Some(limit) = &settings.novelty {
        lines.push("refuses", novelty_limit(limit));
    }
    if let Some(updates) = settings.updates.filter(Updates::is_changed) {
        lines.push("changes", describe_updates(updates));
    }
    lines.push("texts", if model.keeps_texts() { "stored" } else { "not stored" });
}

/// Describes the changes since training and their effect.
fn describe_updates(updates: Updates) -> String {
    format!(
        "{} added, {} removed, {} relabeled since the model was trained or tuned: thresholds and \
         probabilities predate these changes; `classify tune` updates them",
        updates.added, updates.removed, updates.relabeled
    )
}

/// Lists the labels with the most documents and their counts.
fn frequent_labels(model: &Model, shown: usize) -> String {
    let mut counts = vec![0u64; model.labels().len()];
    for row in (0..).take(model.ids().len()) {
        for &label in model.document_labels(row) {
            counts[label as usize] += 1;
        }
    }
    let mut labels: Vec<(u64, &str)> = counts.into_iter().zip(model.labels().iter()).collect();
    labels.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
    let mut text = String::new();
    if shown > 0 && !labels.is_empty() {
        text.push_str("\ndocuments  label\n");
    }
    for (count, label) in labels.into_iter().take(shown) {
        let _ = writeln!(text, "{count:>9}  {}", printable(label));
    }
    text
}

/// Describes when a model abstains.
fn describe_abstention(limit: ConfidenceLimit) -> String {
    let ConfidenceLimit { target_error, coverage, error, error_bound, .. } = limit;
    let [target, answered, wrong, bound] =
        [target_error, coverage, error, error_bound].map(|share| share * 100.0);
    match limit.confidence {
        None => format!(
            "always: no confidence limit reaches the target share of wrong labels \
             ({target:.1} %)"
        ),
        Some(minimum) => format!(
            "if the confidence is below {minimum:.4}: predicts labels for {answered:.1} % of the \
             documents, with {wrong:.1} % wrong labels, at most {bound:.1} % (leave-one-out; \
             target {target:.1} %)"
        ),
    }
}

/// Describes dense vectors.
fn vectors(dense: &DenseSpec, share: f64) -> String {
    let DenseSpec { features, dimension, metric, scale, .. } = dense;
    let mut text = format!(
        "{features}: {dimension} dimensions, {metric}, {:.0} % of the votes",
        share * 100.0
    );
    if *metric != Metric::Angular {
        // The scale was computed as an f32, so only about seven digits are significant.
        let scale = format!("{scale:.6e}").parse().unwrap_or(*scale);
        let _ = write!(text, ", similarity {scale} / ({scale} + distance)");
    }
    text
}

/// Describes the analyzer: its settings, then the enabled options.
fn analysis(spec: &AnalyzerSpec) -> String {
    let name = |value: serde_json::Result<Value>| match value {
        Ok(Value::String(name)) => name,
        _ => String::new(),
    };
    let mut parts = vec![
        format!("{} words", name(serde_json::to_value(spec.words))),
        format!("case {}", name(serde_json::to_value(spec.case))),
        format!("normalization {}", name(serde_json::to_value(spec.normalization))),
    ];
    if spec.fold_accents {
        parts.push("accents folded".into());
    }
    if spec.min_length > 1 {
        parts.push(format!("at least {} characters", spec.min_length));
    }
    if !spec.stop_words.is_empty() {
        let language = stop_word_list_name(&spec.stop_words).unwrap_or("given");
        parts.push(format!("{} stop words ({language})", spec.stop_words.len()));
    }
    if let Some(stemmer) = spec.stemmer {
        parts.push(format!("stems: {}", stemmer.language()));
    }
    if let Some(range) = spec.word_ngrams {
        parts.push(format!("word n-grams {range}"));
    }
    if let Some(range) = spec.char_ngrams {
        let scope = name(serde_json::to_value(spec.char_scope));
        parts.push(format!("character n-grams {range} by {scope}"));
    }
    parts.join(", ")
}

/// Describes the objective of tuning and the resulting metrics.
fn describe_tuning(tuning: &TuningSummary) -> String {
    let TuningSummary { objective, metrics, intervals, nested, documents, .. } = tuning;
    let described = |metrics: &Metrics, intervals: Option<Intervals>| {
        let interval = |select: fn(&Intervals) -> [f64; 2]| {
            let ends = intervals.as_ref().map(select);
            ends.map_or(String::new(), |[low, high]| format!(" [{low:.4}, {high:.4}]"))
        };
        format!(
            "micro F1 {:.4}{}, macro F1 {:.4}{}, accuracy {:.4}{}",
            metrics.micro_f1,
            interval(|intervals| intervals.micro_f1),
            metrics.macro_f1,
            interval(|intervals| intervals.macro_f1),
            metrics.accuracy,
            interval(|intervals| intervals.accuracy),
        )
    };
    let by_ranks =
        |metrics: &Metrics| metrics.by_ranks.map_or(String::new(), |value| format!(" {value:.4}"));
    let objective = objective.name();
    if let Some(ExpectedMetrics { metrics, intervals }) = tuning.cross_validated {
        return format!(
            "for {objective}{}; cross-validation of the training on {documents} documents: {}",
            by_ranks(&metrics),
            described(&metrics, intervals),
        );
    }
    let caution = if !nested {
        "; the term weights were learned from held-out documents too, so the metrics are optimistic"
    } else if tuning.is_optimistic() {
        "; the settings were chosen on these few documents, so the metrics are optimistic"
    } else {
        ""
    };
    let near_duplicates = tuning.with_near_duplicates.map_or(String::new(), |near_duplicates| {
        let metrics = described(&near_duplicates.metrics, None);
        format!("; if new documents have near-duplicates as often: {metrics}")
    });
    format!(
        "for {objective}{}; leave-one-out on {documents} documents: \
         {}{near_duplicates}{caution}",
        by_ranks(metrics),
        described(metrics, *intervals),
    )
}
