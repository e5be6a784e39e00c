//! An evaluation as one HTML page: no network, no script, light and dark.

use askama::Template;

use super::plot::{Axis, Mark, Scale, plot};
use super::{Confusion, Evaluation, LabelResult, Prf, WorstError};

/// So many labels are shown before the fold.
const SHOWN: usize = 30;
/// A confusion matrix is shown up to so many labels.
const MATRIX_LABELS: usize = 25;

#[derive(Template)]
#[template(path = "evaluation.html")]
struct Page<'a> {
    evaluation: &'a Evaluation,
    tiles: Vec<Tile>,
    charts: Vec<Chart>,
    first_labels: Vec<&'a LabelResult>,
    other_labels: Vec<&'a LabelResult>,
    matrix: Option<Matrix<'a>>,
    confused: &'a [Confusion],
    errors: &'a [WorstError],
}

/// A headline figure.
struct Tile {
    id: &'static str,
    name: &'static str,
    value: f64,
    note: String,
}

struct Chart {
    title: &'static str,
    note: String,
    svg: String,
}

/// A confusion matrix: a row a label, a cell a prediction.
struct Matrix<'a> {
    names: Vec<&'a str>,
    rows: Vec<(&'a str, Vec<Cell>)>,
}

struct Cell {
    count: u64,
    /// From 0 to 100: how much of the row.
    share: u64,
    right: bool,
}

/// The result as an HTML page. The figures in it are those of the JSON, in `data` elements whose
/// `value` has all digits.
///
/// # Errors
/// None that is known: writing to memory does not fail.
pub fn html(evaluation: &Evaluation) -> std::io::Result<String> {
    let mut labels: Vec<&LabelResult> = evaluation.per_label.iter().collect();
    labels.sort_by(|a, b| b.support.cmp(&a.support).then(a.label.cmp(&b.label)));
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
    Ok(page.render()?)
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
            name: if evaluation.accuracy.is_some() { "accuracy" } else { "exactly right" },
            value: evaluation.subset_accuracy,
            note: interval(intervals.map(|intervals| intervals.accuracy)),
        },
        Tile {
            id: "precision_at_one",
            name: "first label right",
            value: evaluation.precision_at.one,
            note: "P@1".into(),
        },
    ];
    if let Some(value) = evaluation.calibration_error {
        let note = "of the probabilities of the labels given".into();
        tiles.push(Tile { id: "calibration_error", name: "calibration error", value, note });
    }
    if let Some(answered) = evaluation.answered {
        let note = format!("{:.2} % of the labels given are wrong", answered.error * 100.0);
        tiles.push(Tile { id: "answered", name: "answered", value: answered.coverage, note });
    }
    tiles
}

fn charts(evaluation: &Evaluation) -> Vec<Chart> {
    let mut charts = vec![by_frequency(evaluation), precision_recall(evaluation)];
    charts.push(by_threshold(evaluation));
    charts.push(reliability(evaluation));
    charts.push(coverage(evaluation));
    charts.extend(by_k(evaluation));
    charts
}

fn by_frequency(evaluation: &Evaluation) -> Chart {
    let trained = || evaluation.per_label.iter().filter(|label| label.train > 0);
    let points: Vec<(f64, f64, String)> = trained()
        .map(|label| {
            let says = format!(
                "{}: F1 {:.3}, {} in training, {} in test",
                label.label, label.prf.f1, label.train, label.support
            );
            (label.train as f64, label.prf.f1, says)
        })
        .collect();
    let most = points.iter().map(|point| point.0).fold(10.0, f64::max);
    let x = Axis { name: "training documents", from: 1.0, to: most, scale: Scale::Logarithmic };
    Chart {
        title: "F1 against training frequency",
        note: format!("a dot a label, {} labels", points.len()),
        svg: plot(
            "F1 of each label against its number of training documents",
            &x,
            &Axis::unit("F1"),
            &[Mark::Dots { class: 0, points }],
        ),
    }
}

fn curve(evaluation: &Evaluation, of: fn(&Prf) -> f64) -> Vec<(f64, f64)> {
    // Above the highest score nothing is given: there is no precision.
    let points = evaluation.curve.iter().filter(|point| point.prf.recall > 0.0);
    points.map(|point| (point.threshold, of(&point.prf))).collect()
}

fn precision_recall(evaluation: &Evaluation) -> Chart {
    let line = evaluation.curve.iter().filter(|point| point.prf.recall > 0.0);
    let line = line.map(|point| (point.prf.recall, point.prf.precision)).collect();
    let here = evaluation.micro;
    let says = format!("as decided: precision {:.4}, recall {:.4}", here.precision, here.recall);
    Chart {
        title: "Precision and recall",
        note:
            "over all decisions; the line is one threshold for all labels, the dot what was decided"
                .into(),
        svg: plot(
            "precision against recall",
            &Axis::unit("recall"),
            &Axis::unit("precision"),
            &[
                Mark::Line { class: 0, points: line, name: "" },
                Mark::Dots { class: 1, points: vec![(here.recall, here.precision, says)] },
            ],
        ),
    }
}

fn by_threshold(evaluation: &Evaluation) -> Chart {
    let line = |class, name, of| Mark::Line { class, points: curve(evaluation, of), name };
    Chart {
        title: "One threshold for all labels",
        note: "what each share of the vote would give".into(),
        svg: plot(
            "precision, recall and F1 by threshold",
            &Axis::unit("threshold"),
            &Axis::unit("micro"),
            &[
                line(0, "F1", |prf| prf.f1),
                line(1, "precision", |prf| prf.precision),
                line(2, "recall", |prf| prf.recall),
            ],
        ),
    }
}

fn reliability(evaluation: &Evaluation) -> Chart {
    let what =
        if evaluation.calibration_error.is_some() { "probability" } else { "share of the vote" };
    let bins = evaluation.reliability.iter().filter(|bin| bin.count > 0);
    let bars = bins.map(|bin| {
        let says = format!(
            "{} labels of a mean {what} of {:.3}: {:.1} % right",
            bin.count,
            bin.confidence,
            bin.right * 100.0
        );
        (bin.from, bin.to, bin.right, says)
    });
    let x =
        if evaluation.calibration_error.is_some() { "probability" } else { "share of the vote" };
    Chart {
        title: "Reliability",
        note: format!("of the labels given: {what} against the share that is right"),
        svg: plot(
            "reliability",
            &Axis::unit(x),
            &Axis::unit("right"),
            &[Mark::Bars { class: 0, bars: bars.collect() }, Mark::Diagonal],
        ),
    }
}

fn coverage(evaluation: &Evaluation) -> Chart {
    let points = evaluation.coverage.iter().map(|point| (point.coverage, point.precision));
    Chart {
        title: "Coverage and precision",
        note: "if only the surest answers were given".into(),
        svg: plot(
            "precision against coverage",
            &Axis::unit("share of the answers"),
            &Axis::unit("precision"),
            &[Mark::Line { class: 0, points: points.collect(), name: "" }],
        ),
    }
}

fn by_k(evaluation: &Evaluation) -> Option<Chart> {
    let by_k = &evaluation.tuning.as_ref()?.by_k;
    let most = by_k.iter().map(|&(k, _)| k).max().filter(|_| by_k.len() > 1)?;
    let line = |class, name, of: fn(&crate::tune::Figures) -> f64| {
        let points = by_k.iter().map(|(k, figures)| (*k as f64, of(figures))).collect();
        Mark::Line { class, points, name }
    };
    let x = Axis { name: "k", from: 1.0, to: most as f64, scale: Scale::Logarithmic };
    Some(Chart {
        title: "Neighbors",
        note: "leave-one-out on the training documents, with the vote and rule that were chosen"
            .into(),
        svg: plot(
            "leave-one-out figures by k",
            &x,
            &Axis::unit("leave-one-out"),
            &[
                line(0, "micro F1", |figures| figures.micro_f1),
                line(1, "macro F1", |figures| figures.macro_f1),
                line(2, "exact", |figures| figures.accuracy),
            ],
        ),
    })
}

fn matrix(evaluation: &Evaluation) -> Option<Matrix<'_>> {
    let pairs = evaluation.confusion.as_ref()?;
    let both = |pair: &'_ Confusion| [pair.label.clone(), pair.predicted.clone()];
    let mut all: Vec<String> = pairs.iter().flat_map(both).collect();
    all.sort();
    all.dedup();
    let names: Vec<&str> = all
        .iter()
        .filter_map(|name| {
            let named = |pair: &&Confusion| pair.label == *name || pair.predicted == *name;
            let pair = pairs.iter().find(named)?;
            Some(if pair.label == *name { pair.label.as_str() } else { pair.predicted.as_str() })
        })
        .collect();
    if names.len() > MATRIX_LABELS {
        return None;
    }
    let count = |label: &str, predicted: &str| {
        let pair = pairs.iter().find(|pair| pair.label == label && pair.predicted == predicted);
        pair.map_or(0, |pair| pair.count)
    };
    let rows = names.iter().map(|&label| {
        let counts: Vec<u64> = names.iter().map(|&predicted| count(label, predicted)).collect();
        let sum: u64 = counts.iter().sum();
        let cells = counts.into_iter().zip(&names).map(|(count, &predicted)| Cell {
            count,
            share: (count * 100).checked_div(sum).unwrap_or(0),
            right: label == predicted,
        });
        (label, cells.collect())
    });
    Some(Matrix { rows: rows.collect(), names })
}

/// Four digits. The template lends what it has.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "as templates call it")]
fn figure(value: &f64) -> String {
    format!("{value:.4}")
}

/// A label, or that there is none.
fn named(label: impl AsRef<str>) -> String {
    let label = label.as_ref();
    if label.is_empty() { "(none)".to_owned() } else { label.to_owned() }
}
