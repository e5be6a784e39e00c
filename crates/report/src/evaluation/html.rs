//! Formats an evaluation as a self-contained HTML page without scripts, for light and dark
//! displays.

use askama::Template;
use classify::decide::objective::Metrics;
use classify::evaluate::{Confusion, Evaluation, LabelResult, Prf, WorstError};
use classify::printable::printable_lines;
use svg_chart::{Axis, Bar, Chart, Colors, Dot, Mark, Scale};

use super::{ConfusionMatrix, by_support};

/// Maximum number of labels that are shown; the other labels are collapsed.
const SHOWN: usize = 30;
/// Maximum number of labels in a confusion matrix.
const MATRIX_LABELS: usize = 25;

#[derive(Template)]
#[template(path = "evaluation.html")]
struct Page<'a> {
    evaluation: &'a Evaluation,
    tiles: Vec<Tile>,
    charts: Vec<Figure>,
    first_labels: Vec<&'a LabelResult>,
    other_labels: Vec<&'a LabelResult>,
    matrix: Option<Matrix<'a>>,
    confused: &'a [Confusion],
    errors: &'a [WorstError],
}

/// One of the main metrics, shown at the top.
struct Tile {
    id: &'static str,
    name: &'static str,
    value: f64,
    note: String,
}

/// A chart with its heading and caption.
struct Figure {
    title: &'static str,
    note: String,
    svg: String,
}

/// Returns the SVG of a chart.
fn plot(title: &str, x: Axis, y: Axis, marks: Vec<Mark>) -> String {
    Chart::new(title, x, y, marks).svg(Colors::Page)
}

/// A confusion matrix with one row per label and one cell per predicted label.
struct Matrix<'a> {
    names: Vec<&'a str>,
    rows: Vec<(&'a str, Vec<Cell>)>,
}

struct Cell {
    count: u64,
    /// Percentage of the documents in the row.
    share: u64,
    is_correct: bool,
}

/// Formats the result as an HTML page. Metrics are in `data` elements whose `value` attribute has
/// full precision, as in the JSON output.
///
/// # Errors
/// Fails if the template cannot be rendered; no input that causes this is known.
pub fn html(evaluation: &Evaluation) -> std::io::Result<String> {
    let mut labels = by_support(evaluation);
    let other_labels = labels.split_off(labels.len().min(SHOWN));
    let page = Page {
        evaluation,
        tiles: tiles(evaluation),
        charts: charts(evaluation),
        first_labels: labels,
        other_labels,
        matrix: matrix(evaluation),
        confused: &evaluation.most_confused,
        errors: &evaluation.worst_errors,
    };
    Ok(printable_lines(page.render()?).to_string())
}

fn tiles(evaluation: &Evaluation) -> Vec<Tile> {
    let interval = |ends: Option<[f64; 2]>| match ends {
        Some([low, high]) => format!("95 % interval {low:.4} to {high:.4}"),
        None => String::new(),
    };
    let intervals = evaluation.intervals.as_ref();
    let mut tiles = vec![
        Tile {
            id: "micro_f1",
            name: "micro F1",
            value: evaluation.micro.f1,
            note: interval(intervals.map(|intervals| intervals.micro_f1)),
        },
        Tile {
            id: "macro_f1",
            name: "macro F1",
            value: evaluation.macro_all.f1,
            note: interval(intervals.map(|intervals| intervals.macro_f1)),
        },
        Tile {
            id: "exact",
            name: if evaluation.accuracy.is_some() { "accuracy" } else { "exactly correct" },
            value: evaluation.subset_accuracy,
            note: interval(intervals.map(|intervals| intervals.accuracy)),
        },
        Tile {
            id: "precision_at_one",
            name: "first label correct",
            value: evaluation.precision_at.one,
            note: "P@1".into(),
        },
    ];
    if let Some(value) = evaluation.calibration_error {
        let note = "of the probabilities of the predicted labels".into();
        tiles.push(Tile { id: "calibration_error", name: "calibration error", value, note });
    }
    if let Some(answered) = evaluation.answered {
        let note = format!("{:.2} % of the predicted labels are wrong", answered.error * 100.0);
        tiles.push(Tile { id: "answered", name: "answered", value: answered.coverage, note });
    }
    tiles
}

fn charts(evaluation: &Evaluation) -> Vec<Figure> {
    let mut charts = vec![
        by_frequency(evaluation),
        precision_recall(evaluation),
        by_threshold(evaluation),
        reliability(evaluation),
        coverage(evaluation),
    ];
    charts.extend(by_k(evaluation));
    charts
}

fn by_frequency(evaluation: &Evaluation) -> Figure {
    let trained = || evaluation.per_label.iter().filter(|label| label.train > 0);
    let points: Vec<Dot> = trained()
        .map(|label| {
            let text = format!(
                "{}: F1 {:.3}, {} in training, {} in test",
                label.label, label.prf.f1, label.train, label.support
            );
            Dot { x: label.train as f64, y: label.prf.f1, text }
        })
        .collect();
    let max = points.iter().map(|point| point.x).fold(10.0, f64::max);
    let x = Axis::new("training documents", 1.0, max, Scale::Logarithmic);
    Figure {
        title: "F1 against training frequency",
        note: format!("one dot per label, {} labels", points.len()),
        svg: plot(
            "F1 of each label against its number of training documents",
            x,
            Axis::unit("F1"),
            vec![Mark::Dots { class: 0, points }],
        ),
    }
}

fn curve(evaluation: &Evaluation, metric: fn(&Prf) -> f64) -> Vec<(f64, f64)> {
    // No label is predicted above the highest score, so there is no precision.
    let points = evaluation.curve.iter().filter(|point| point.prf.recall > 0.0);
    points.map(|point| (point.threshold, metric(&point.prf))).collect()
}

fn precision_recall(evaluation: &Evaluation) -> Figure {
    let line = evaluation.curve.iter().filter(|point| point.prf.recall > 0.0);
    let line = line.map(|point| (point.prf.recall, point.prf.precision)).collect();
    let Prf { precision, recall, .. } = evaluation.micro;
    let text = format!("decision rule: precision {precision:.4}, recall {recall:.4}");
    let dot = Dot { x: recall, y: precision, text };
    Figure {
        title: "Precision and recall",
        note:
            "over all decisions; the line is one threshold for all labels, the dot is the decision \
             rule"
                .into(),
        svg: plot(
            "precision against recall",
            Axis::unit("recall"),
            Axis::unit("precision"),
            vec![
                Mark::Line { class: 0, points: line, name: String::new() },
                Mark::Dots { class: 1, points: vec![dot] },
            ],
        ),
    }
}

fn by_threshold(evaluation: &Evaluation) -> Figure {
    let line = |class, name: &str, metric| {
        let points = curve(evaluation, metric);
        Mark::Line { class, points, name: name.into() }
    };
    Figure {
        title: "One threshold for all labels",
        note: "metrics for each threshold of the share of the vote".into(),
        svg: plot(
            "precision, recall and F1 by threshold",
            Axis::unit("threshold"),
            Axis::unit("micro"),
            vec![
                line(0, "F1", |prf| prf.f1),
                line(1, "precision", |prf| prf.precision),
                line(2, "recall", |prf| prf.recall),
            ],
        ),
    }
}

fn reliability(evaluation: &Evaluation) -> Figure {
    let what =
        if evaluation.calibration_error.is_some() { "probability" } else { "share of the vote" };
    let bins = evaluation.reliability.iter().filter(|bin| bin.count > 0);
    let bars = bins.map(|bin| {
        let text = format!(
            "{} labels with a mean {what} of {:.3}: {:.1} % correct",
            bin.count,
            bin.confidence,
            bin.right * 100.0
        );
        Bar { from: bin.from, to: bin.to, height: bin.right, text }
    });
    Figure {
        title: "Reliability",
        note: format!("predicted labels: {what} against the share of correct labels"),
        svg: plot(
            "reliability",
            Axis::unit(what),
            Axis::unit("share of correct labels"),
            vec![
                Mark::Bars { class: 0, bars: bars.collect(), name: String::new() },
                Mark::Diagonal,
            ],
        ),
    }
}

fn coverage(evaluation: &Evaluation) -> Figure {
    let points = evaluation.coverage.iter().map(|point| (point.coverage, point.precision));
    Figure {
        title: "Coverage and precision",
        note: "precision if labels are predicted only for the most confident documents".into(),
        svg: plot(
            "precision against coverage",
            Axis::unit("share of the predictions"),
            Axis::unit("precision"),
            vec![Mark::Line { class: 0, points: points.collect(), name: String::new() }],
        ),
    }
}

fn by_k(evaluation: &Evaluation) -> Option<Figure> {
    let by_k = &evaluation.tuning.as_ref()?.by_k;
    let max = by_k.iter().map(|&(k, _)| k).max().filter(|_| by_k.len() > 1)?;
    let line = |class, name: &str, metric: fn(&Metrics) -> f64| {
        let points = by_k.iter().map(|(k, metrics)| (*k as f64, metric(metrics))).collect();
        Mark::Line { class, points, name: name.into() }
    };
    let x = Axis::new("k", 1.0, max as f64, Scale::Logarithmic);
    Some(Figure {
        title: "Neighbors",
        note: "leave-one-out on the training documents, with the chosen vote and rule".into(),
        svg: plot(
            "leave-one-out metrics by k",
            x,
            Axis::unit("leave-one-out"),
            vec![
                line(0, "micro F1", |metrics| metrics.micro_f1),
                line(1, "macro F1", |metrics| metrics.macro_f1),
                line(2, "exact", |metrics| metrics.accuracy),
            ],
        ),
    })
}

fn matrix(evaluation: &Evaluation) -> Option<Matrix<'_>> {
    let matrix = ConfusionMatrix::new(evaluation, MATRIX_LABELS)?;
    let rows = matrix.labels.iter().map(|&label| {
        let counts = matrix.labels.iter().map(|predicted| matrix.count(label, predicted));
        let sum: u64 = counts.clone().sum();
        let cells = matrix.labels.iter().zip(counts).map(|(&predicted, count)| Cell {
            count,
            share: (count * 100).checked_div(sum).unwrap_or(0),
            is_correct: label == predicted,
        });
        (label, cells.collect())
    });
    Some(Matrix { rows: rows.collect(), names: matrix.labels })
}

/// Formats a metric with four decimal places.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the template passes references")]
fn format_metric(value: &f64) -> String {
    format!("{value:.4}")
}

/// Returns the label, or `(none)` if it is empty.
fn label_or_none(label: impl AsRef<str>) -> String {
    let label = label.as_ref();
    if label.is_empty() { "(none)".to_owned() } else { label.to_owned() }
}
