//! An evaluation as text for a terminal and as Markdown.

use std::collections::HashMap;
use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, presets};

use super::{Comparison, Evaluation, Intervals, LabelResult, Prf};
use crate::decide::objective::{Expected, Figures};
use crate::model::TuningSummary;
use crate::printable::printable;
use crate::text::tfidf::Weighting;

/// The largest confusion matrix that is shown; beyond, the most confused pairs are.
const MATRIX_LABELS: usize = 12;
/// How many labels a terminal shows unless all are asked for.
const TERMINAL_LABELS: usize = 30;

/// The result as text for a terminal. `all_labels`: the whole table of labels, however long.
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
        let _ = writeln!(text, "({hidden} labels of less support not shown: -v shows all)");
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
        text.push_str("\nreliability of the labels given\n");
        text.push_str(&plain(reliability(evaluation)));
        text.push_str("\nthe surest answers\n");
        text.push_str(&plain(coverage(evaluation)));
    }
    text.push('\n');
    text.push_str(&plain(stages(evaluation)));
    text
}

/// The result as Markdown, with the table of all labels.
pub fn markdown(evaluation: &Evaluation) -> String {
    let mut text = "# Evaluation\n\n".to_owned();
    let mut head = table(&["measure", "value"], 2);
    for (name, value) in headline(evaluation) {
        head.add_row([name.to_owned(), printable(value).to_string()]);
    }
    let mut section = |title: &str, table: Table| {
        let _ = write!(text, "## {title}\n\n{}\n\n", markdown_table(table));
    };
    section("Headline", head);
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
    section("Reliability of the labels given", reliability(evaluation));
    section("Coverage and precision", coverage(evaluation));
    section("Stages", stages(evaluation));
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

fn headline(evaluation: &Evaluation) -> Vec<(&'static str, String)> {
    let Evaluation { documents, labels, method, .. } = evaluation;
    let mut lines = vec![
        ("documents", format!("{} training, {} test", documents.train, documents.test)),
        ("labels", format!("{} in training, {} in test", labels.train, labels.test)),
    ];
    // Given vectors may be all that there is.
    if method.terms > 0 || method.vectors.is_none() {
        lines.push(("terms", method.terms.to_string()));
        let formula = format!("{}: {}", weighting(&method.weighting), method.formula);
        lines.push(("weighting", formula));
    }
    if let Some(vectors) = &method.vectors {
        lines.push(("vectors", vectors.clone()));
    }
    lines.push((
        "neighbors",
        format!("k = {}, vote {}, {}", method.k, method.vote, method.decision),
    ));
    let interval = |of: fn(&Intervals) -> [f64; 2]| match &evaluation.intervals {
        Some(intervals) => {
            let [low, high] = of(intervals);
            format!(" [{low:.4}, {high:.4}]")
        }
        None => String::new(),
    };
    if let Some(accuracy) = evaluation.accuracy {
        lines.push(("accuracy", figure(accuracy) + &interval(|i| i.accuracy)));
    }
    let macro_f1 = figure(evaluation.macro_all.f1) + &interval(|i| i.macro_f1);
    lines.extend([
        ("micro F1", figure(evaluation.micro.f1) + &interval(|i| i.micro_f1)),
        ("macro F1", format!("{macro_f1} over the labels of training")),
        ("", format!("{} over the labels of test", figure(evaluation.macro_present.f1))),
    ]);
    if evaluation.accuracy.is_none() {
        let interval = interval(|i| i.accuracy);
        lines.push(("subset accuracy", figure(evaluation.subset_accuracy) + &interval));
    }
    if let Some(tuning @ TuningSummary { nested: true, .. }) = &evaluation.tuning {
        let part = |name: &str, value: f64, [low, high]: [f64; 2]| {
            format!("{name} {} [{low:.4}, {high:.4}]", figure(value))
        };
        let mut add = |name, figures: Figures, intervals: Option<Intervals>, rest| {
            let Some(intervals) = intervals else { return };
            let first = match evaluation.accuracy {
                Some(_) => part("accuracy", figures.accuracy, intervals.accuracy),
                None => part("micro F1", figures.micro_f1, intervals.micro_f1),
            };
            let second = part("macro F1", figures.macro_f1, intervals.macro_f1);
            lines.push((name, format!("{first}, {second} {rest}")));
        };
        add("expected", tuning.figures, tuning.intervals, "by left-out training documents");
        if let Some(Expected { figures, intervals }) = tuning.with_near_duplicates {
            add("", figures, intervals, "if new documents have near-duplicates as often");
        }
    }
    if let Some(error) = evaluation.calibration_error {
        lines.push(("calibration", format!("{error:.4} expected error of probabilities")));
    }
    if let Some(answered) = evaluation.answered {
        let text = format!(
            "{} of the documents, {} of their labels wrong",
            figure(answered.coverage),
            figure(answered.error)
        );
        lines.push(("answered", text));
    }
    let at = evaluation.precision_at;
    lines.extend([
        ("Hamming loss", format!("{:.5}", evaluation.hamming_loss)),
        ("P@1 P@3 P@5", format!("{} {} {}", figure(at.one), figure(at.three), figure(at.five))),
        ("top-3 accuracy", figure(evaluation.top_3_accuracy)),
        (
            "without answer",
            format!(
                "{} (no known term {}, no neighbor {}, no labeled neighbor {}, unsure {}, foreign {})",
                documents.no_known_term
                    + documents.no_neighbor
                    + documents.no_label
                    + documents.abstained
                    + documents.foreign,
                documents.no_known_term,
                documents.no_neighbor,
                documents.no_label,
                documents.abstained,
                documents.foreign
            ),
        ),
        ("ties at rank k", documents.tied_at_k.to_string()),
        (
            "unseen labels",
            format!("{} in {} documents", labels.unseen.len(), labels.documents_with_unseen),
        ),
    ]);
    if let Some(bytes) = evaluation.peak_memory_bytes {
        lines.push(("peak memory", format!("{:.1} MB", bytes as f64 / 1e6)));
    }
    lines
}

/// A weighting's code with the name that it is known by.
fn weighting(code: &str) -> String {
    code.parse().map_or_else(|_| code.to_owned(), |weighting: Weighting| weighting.name())
}

/// Comparisons with the first evaluation as text for a terminal; `names` are those of the files.
pub fn compared(names: &[String], comparisons: &[Comparison]) -> String {
    let mut text = String::new();
    let baseline = names.first().map_or("", String::as_str);
    for (comparison, name) in comparisons.iter().zip(names.iter().skip(1)) {
        let (name, baseline) = (printable(name), printable(baseline));
        let _ = writeln!(text, "{name} against {baseline}, {} documents\n", comparison.documents);
        let header = [
            "figure",
            "first",
            "other",
            "difference",
            "95 % interval",
            "detectable",
            "p",
            "p adjusted",
        ];
        let mut figures = table(&header, 1);
        for (what, figure) in comparison.differences() {
            let [low, high] = figure.interval;
            figures.add_row([
                what.to_owned(),
                format!("{:.4}", figure.baseline),
                format!("{:.4}", figure.other),
                format!("{:+.4}", figure.difference),
                format!("[{low:+.4}, {high:+.4}]"),
                figure.detectable.map_or_else(|| "-".to_owned(), |least| format!("{least:.4}")),
                p_value(figure.p_value),
                p_value(figure.adjusted),
            ]);
        }
        text.push_str(&plain(figures));
        text.push('\n');
        let untold: Vec<&str> = comparison
            .differences()
            .iter()
            .filter(|(_, figure)| figure.adjusted >= 0.05)
            .map(|&(what, _)| what)
            .collect();
        if !untold.is_empty() {
            let _ = writeln!(
                text,
                "Not told from chance: {}. Of differences as large as \"detectable\", these documents would \
                 show 80 in 100 (at 5 %).\n",
                untold.join(", ")
            );
        }
        let mut tests = table(&["test", "p", "p adjusted", "of"], 1);
        for test in &comparison.tests {
            let adjusted = p_value(test.adjusted);
            tests.add_row([test.name.into(), p_value(test.p_value), adjusted, test.detail.clone()]);
        }
        text.push_str(&plain(tests));
        text.push('\n');
    }
    text
}

fn p_value(value: f64) -> String {
    if value < 0.0001 { format!("{value:.1e}") } else { format!("{value:.4}") }
}

fn figure(value: f64) -> String {
    format!("{value:.4}")
}

/// A table whose columns from `numbers` on are aligned right.
fn table(header: &[&str], numbers: usize) -> Table {
    let mut table = Table::new();
    table.set_header(header.to_vec());
    for column in table.column_iter_mut().skip(numbers) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn plain(mut table: Table) -> String {
    table.load_style(presets::NOTHING);
    let lines = table.lines().map(|line| line.trim_end().to_owned() + "\n");
    lines.collect()
}

fn markdown_table(mut table: Table) -> String {
    table.load_style(presets::ASCII_MARKDOWN);
    if let Some(header) = table.header() {
        let cells: Vec<String> = header.cell_iter().map(|cell| escaped(&cell.content())).collect();
        table.set_header(cells);
    }
    for row in table.row_iter_mut() {
        let cells: Vec<String> = row.cell_iter().map(|cell| escaped(&cell.content())).collect();
        *row = cells.into();
    }
    table.to_string()
}

/// Text in which Markdown and HTML find nothing to interpret. It holds no line breaks: labels went
/// through [`one_line`].
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\\' | '|' | '`' | '*' | '_' | '[' | ']' | '~' | '$' => escaped.extend(['\\', c]),
            c => escaped.push(c),
        }
    }
    escaped
}

fn averages(evaluation: &Evaluation) -> Table {
    let mut table = table(&["average", "precision", "recall", "F1"], 1);
    for (name, Prf { precision, recall, f1 }) in [
        ("micro", evaluation.micro),
        ("macro (labels of training)", evaluation.macro_all),
        ("macro (labels of test)", evaluation.macro_present),
        ("weighted by support", evaluation.weighted),
        ("samples", evaluation.samples),
    ] {
        table.add_row([name.to_owned(), figure(precision), figure(recall), figure(f1)]);
    }
    table
}

fn labels(evaluation: &Evaluation, shown: usize) -> Table {
    let mut rows: Vec<&LabelResult> = evaluation.per_label.iter().collect();
    rows.sort_by(|a, b| b.support.cmp(&a.support).then(a.label.cmp(&b.label)));
    let mut table =
        table(&["label", "training", "test", "predicted", "precision", "recall", "F1"], 1);
    for row in rows.into_iter().take(shown) {
        let counts = [row.train, row.support, row.predicted].map(|count| count.to_string());
        let figures = [row.prf.precision, row.prf.recall, row.prf.f1].map(figure);
        table.add_row([one_line(&row.label)].into_iter().chain(counts).chain(figures));
    }
    table
}

/// A single-label confusion matrix, if it is small enough to read.
fn matrix(evaluation: &Evaluation) -> Option<Table> {
    let pairs = evaluation.confusion.as_ref()?;
    let mut names: Vec<&str> =
        pairs.iter().flat_map(|pair| [pair.label.as_str(), pair.predicted.as_str()]).collect();
    names.sort_unstable();
    names.dedup();
    if names.len() > MATRIX_LABELS {
        return None;
    }
    let counts: HashMap<(&str, &str), u64> = pairs
        .iter()
        .map(|pair| ((pair.label.as_str(), pair.predicted.as_str()), pair.count))
        .collect();
    let shown = |name: &str| if name.is_empty() { "(none)".to_owned() } else { one_line(name) };
    let header: Vec<String> =
        [String::new()].into_iter().chain(names.iter().map(|name| shown(name))).collect();
    let mut table = table(&header.iter().map(String::as_str).collect::<Vec<_>>(), 1);
    for label in &names {
        let cells = names.iter().map(|predicted| {
            counts.get(&(*label, *predicted)).map_or(".".to_owned(), u64::to_string)
        });
        table.add_row([shown(label)].into_iter().chain(cells));
    }
    Some(table)
}

fn levels(evaluation: &Evaluation) -> Option<Table> {
    let header = ["level", "labels", "micro P", "micro R", "micro F1", "macro F1"];
    let mut table = table(&header, 0);
    for level in &evaluation.levels {
        let Prf { precision, recall, f1 } = level.micro;
        let figures = [precision, recall, f1, level.macro_all.f1].map(figure);
        let counts = [level.level.to_string(), level.labels.to_string()];
        table.add_row(counts.into_iter().chain(figures));
    }
    (!evaluation.levels.is_empty()).then_some(table)
}

fn reliability(evaluation: &Evaluation) -> Table {
    let confidence = if evaluation.calibration_error.is_some() {
        "mean probability"
    } else {
        "mean share of the vote"
    };
    let mut table = table(&["from", "to", "labels given", confidence, "right"], 0);
    for bin in evaluation.reliability.iter().filter(|bin| bin.count > 0) {
        let ends = [bin.from, bin.to].map(|end| format!("{end:.1}"));
        let rest = [bin.count.to_string(), figure(bin.confidence), figure(bin.right)];
        table.add_row(ends.into_iter().chain(rest));
    }
    table
}

fn coverage(evaluation: &Evaluation) -> Table {
    let mut table = table(&["share of the answers", "least confidence", "precision"], 0);
    for point in evaluation.coverage.iter().skip(1).step_by(2) {
        let share = format!("{:.1}", point.coverage);
        table.add_row([share, figure(point.confidence), figure(point.precision)]);
    }
    table
}

fn confused(evaluation: &Evaluation) -> Table {
    let mut table = table(&["label", "predicted instead", "documents"], 2);
    for pair in &evaluation.most_confused {
        let shown = |name: &str| if name.is_empty() { "(none)".into() } else { one_line(name) };
        table.add_row([shown(&pair.label), shown(&pair.predicted), pair.count.to_string()]);
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

/// Labels may contain line breaks and control characters, which would break a table.
fn one_line(label: &str) -> String {
    printable(label).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers() {
        assert_eq!([0.04999, 0.0001, 0.00009].map(p_value), ["0.0500", "0.0001", "9.0e-5"]);
        assert_eq!(one_line("a\nb\u{1b}c"), "a\\nb\\u{1b}c");
    }
}
