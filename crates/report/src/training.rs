//! Describes the events of training and the results of tuning.

use std::fmt::Write as _;

use classify::decide::calibrate::{ConfidenceLimit, NoveltyLimit};
use classify::decide::objective::{ExpectedMetrics, Objective};
use classify::learn::{
    Candidate, Event, OrderComparison, Step, TimeOrder, Trial, TuneScope, TuningReport,
};

/// Describes an event. Returns `None` for events that only report the number of documents. For
/// [`Event::Tuned`], lists the best `settings` settings.
pub fn event(event: &Event<'_>, settings: usize) -> Option<String> {
    let text = match event {
        Event::TimeOrder(order) => format!("tuning: {}", time_order(order)),
        Event::NearDuplicates { documents, above } => format!(
            "tuning: {documents} documents have a near-duplicate (similarity above {above}), which \
             is not used as their neighbor"
        ),
        Event::Language(Some(name)) => {
            format!("tuning: the language of the texts is probably {name}")
        }
        Event::Language(None) => "tuning: the language of the texts was not recognized, so stems \
            and stop words are not tried; --stemmer and --stop-words set them"
            .to_owned(),
        Event::Dense { part, known } => {
            let spec = part.spec();
            let known = known.map_or(String::new(), |(known, terms)| {
                format!("; {known} of {terms} terms have a vector")
            });
            format!("vectors: {}, {} dimensions{known}", spec.features, spec.dimension)
        }
        Event::Step { step, objective } => describe_step(step, *objective),
        Event::CrossValidation { folds } => format!(
            "tuning: training again without each of {folds} folds, to estimate the metrics of new \
             documents (--no-cross-validation skips this)"
        ),
        Event::Abstention(limit) => format!("tuning: {}; {ANSWERS}", confidence_limit(limit)),
        Event::Novelty(limit) => format!("tuning: {}; {ANSWERS}", novelty_limit(limit)),
        Event::Tuned(report) => tuning(report, settings),
        _ => return None,
    };
    Some(text)
}

fn time_order(order: &TimeOrder) -> String {
    let TimeOrder { window, is_excluded, comparison } = order;
    let effect = if *is_excluded {
        "are not its neighbors, because they may report the same events"
    } else {
        "share its labels more often than others, but stay its neighbors"
    };
    let nearby =
        format!("documents up to {window} positions before and after a held-out document {effect}");
    let Some(OrderComparison { objective, documents, without_nearby, with_nearby }) = comparison
    else {
        return nearby;
    };
    let advice = if *is_excluded {
        "--time-order no if the corpus is not in chronological order"
    } else {
        "--time-order yes if the corpus is in chronological order"
    };
    format!(
        "{nearby}: settings chosen without them have {} {without_nearby:.3} on \
         {documents} of the latest documents, and {with_nearby:.3} with them ({advice})",
        objective.name()
    )
}

fn describe_step(step: &Step, objective: Objective) -> String {
    let Trial { k, vote, decision, metrics } = step.trial;
    format!(
        "tuning: {:.4} {} {} ({} documents, k = {k}, {vote}, {decision})",
        objective.of(metrics),
        if step.kept { "+" } else { " " },
        step.change,
        step.documents,
    )
}

/// Which model the metrics describe that are printed after the limits for abstaining.
const ANSWERS: &str = "the expected metrics are of a model that never abstains";

fn confidence_limit(limit: &ConfidenceLimit) -> String {
    let shares = [limit.target_error, limit.coverage, limit.error, limit.error_bound];
    let [target, coverage, error, bound] = shares.map(|share| share * 100.0);
    if limit.reaches_target() {
        return format!(
            "with a target of {target:.1} % wrong labels, {coverage:.1} % of the documents get \
             labels, of which {error:.1} % are wrong, at most {bound:.1} % at a confidence level \
             of 98 %"
        );
    }
    format!(
        "a target of {target:.1} % wrong labels is out of reach, so the model always abstains: \
         {error:.1} % of the labels are wrong for the most confident {coverage:.1} % of the \
         documents, at most {bound:.1} %; set a higher target"
    )
}

/// Describes the effect of the limit for out-of-distribution documents.
pub(crate) fn novelty_limit(limit: &NoveltyLimit) -> String {
    let shares = [limit.target, limit.known_refused, limit.novel_refused];
    let [target, known, novel] = shares.map(|share| share * 100.0);
    if limit.max_score.is_none() {
        return format!(
            "too few documents to learn which out-of-distribution documents to refuse (target \
             {target:.1} %): none are refused"
        );
    }
    format!(
        "{novel:.1} % of the out-of-distribution documents are refused ({} held-out documents \
         whose labels were held out, too), and {known:.1} % of the documents with known labels \
         (target {target:.1} %)",
        limit.novel_documents
    )
}

/// Describes the settings that tuning chose, lists the best `settings` settings that it tried, and
/// says what to expect of new documents.
pub fn tuning(report: &TuningReport, settings: usize) -> String {
    let TuningReport { objective, documents, best, .. } = report;
    let name = objective.name();
    if report.scope == TuneScope::Quick {
        let Trial { k, vote, decision, metrics } = best;
        let value = objective.of(*metrics);
        let expectation = expectation(report).map_or(String::new(), |line| format!("\n{line}"));
        return format!(
            "k = {k}, {vote}, {decision}: chosen on {documents} held-out documents ({name} \
             {value:.3}); --tune tries more settings{expectation}"
        );
    }
    let mut text = format!(
        "tuning: {} settings tried on {documents} held-out documents; the best by {name}:",
        report.trials.len(),
    );
    let mut others: Vec<&Trial> = report.trials.iter().filter(|trial| *trial != best).collect();
    others.sort_by(|a, b| objective.of(b.metrics).total_cmp(&objective.of(a.metrics)));
    let listed = [best].into_iter().chain(others).take(settings);
    for (number, Trial { k, vote, decision, metrics }) in listed.enumerate() {
        let _ = write!(
            text,
            "\n  micro F1 {:.4}  macro F1 {:.4}  accuracy {:.4}  k = {k}, {vote}, {decision}{}",
            metrics.micro_f1,
            metrics.macro_f1,
            metrics.accuracy,
            if number == 0 { " (chosen)" } else { "" },
        );
    }
    if let Some(line) = expectation(report) {
        let _ = write!(text, "\ntuning: {line}");
    }
    let is_above =
        |expected: &ExpectedMetrics| objective.of(best.metrics) > objective.of(expected.metrics);
    if report.cross_validated.as_ref().is_some_and(is_above) {
        text.push_str(
            "; the metrics in the list are too high, because the best was chosen by them",
        );
    }
    text
}

/// Below this number of documents, there is no cross-validation.
const FEW: u64 = 20;
/// The width of an interval above which the documents are called too few.
const WIDE: f64 = 0.2;

/// Describes what to expect of new documents. `None` if the corpus is not small.
fn expectation(report: &TuningReport) -> Option<String> {
    let documents = report.documents;
    let Some(ExpectedMetrics { metrics, intervals }) = &report.cross_validated else {
        let line = if documents < FEW {
            "are too few to estimate how good the model is"
        } else {
            "are few, so the best of many settings seems better than it is"
        };
        let line = format!("{documents} documents {line}; evaluate the model on other documents");
        return report.summary().is_optimistic().then_some(line);
    };
    let is_single = report.best.decision == Candidate::Single;
    let intervals = intervals.as_ref()?;
    let (name, value, [low, high]) = if is_single {
        ("accuracy", metrics.accuracy, intervals.accuracy)
    } else {
        ("micro F1", metrics.micro_f1, intervals.micro_f1)
    };
    let mut line =
        format!("expected of new documents: {name} {value:.3}, between {low:.3} and {high:.3}");
    if let Some(value) = metrics.by_ranks {
        let _ = write!(line, ", {} {value:.3}", report.objective.name());
    }
    if high - low > WIDE {
        let _ = write!(line, "; {documents} documents are too few for a more precise estimate");
    }
    Some(line)
}
