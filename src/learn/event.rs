//! Events that are reported while a model is trained.

use super::features::Step;
use super::report::TuningReport;
use crate::decide::calibrate::{ConfidenceLimit, NoveltyLimit};
use crate::decide::objective::Objective;
use crate::rows::dense::DensePart;

/// An event during training.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The number of documents read so far.
    Read(u64),
    /// Settings are compared without this many documents before and after each.
    Window(u32),
    /// Near-duplicates were found.
    NearDuplicates {
        /// The number of documents that have one.
        documents: usize,
        /// The cosine above which documents are near-duplicates.
        above: f32,
    },
    /// A feature was tried.
    Step {
        /// The feature and its figures.
        step: &'a Step,
        /// The objective to maximize.
        objective: Objective,
    },
    /// The dense vectors of the training documents were made.
    Dense {
        /// The dense part of the model.
        part: &'a DensePart,
        /// How many of how many terms have a word vector, if the vectors are made of these.
        known: Option<(usize, usize)>,
    },
    /// Number of documents held out so far.
    LeftOut(u64),
    /// The limit for abstaining was learned.
    Abstention(&'a ConfidenceLimit),
    /// The limit of the novelty score was learned.
    Foreign(&'a NoveltyLimit),
    /// Tuning is done.
    Tuned(&'a TuningReport),
}

impl Event<'_> {
    /// Describes the event in words; `None` for the progress of reading and tuning. Of the settings
    /// that tuning tried, the best `shown` are listed.
    pub fn text(&self, shown: usize) -> Option<String> {
        Some(match self {
            Event::Read(_) | Event::LeftOut(_) => return None,
            Event::Window(window) => format!(
                "tuning: settings are compared without the {window} documents before and after \
                 each, which may report the same events"
            ),
            Event::NearDuplicates { documents, above } => format!(
                "tuning: {documents} documents have a near-duplicate (similarity above {above}), \
                 which is not used as their neighbor"
            ),
            Event::Dense { part, known } => {
                let spec = part.spec();
                let known = known.map_or(String::new(), |(known, terms)| {
                    format!("; {known} of {terms} terms have a vector")
                });
                format!("vectors: {}, {} dimensions{known}", spec.features, spec.dimension)
            }
            Event::Step { step, objective } => step_text(step, *objective),
            Event::Abstention(limit) => abstention_text(limit),
            Event::Foreign(limit) => format!("tuning: {}", limit.text()),
            Event::Tuned(report) => report.text(shown),
        })
    }
}

fn step_text(step: &Step, objective: Objective) -> String {
    format!(
        "tuning: {:.4} {} {} ({} documents, k = {}, {}, {})",
        objective.of(step.trial.figures),
        if step.kept { "+" } else { " " },
        step.change,
        step.documents,
        step.trial.k,
        step.trial.vote,
        step.trial.decision
    )
}

fn abstention_text(limit: &ConfidenceLimit) -> String {
    let shares = [limit.target_error, limit.coverage, limit.error, limit.error_bound];
    let [target, coverage, error, bound] = shares.map(|share| share * 100.0);
    if limit.reaches_target() {
        return format!(
            "tuning: with a target of {target:.1} % wrong labels, {coverage:.1} % of the documents \
             are answered, with {error:.1} % wrong labels, at most {bound:.1} % by a bound that \
             fails in 2 of 100 cases"
        );
    }
    format!(
        "tuning: a target of {target:.1} % wrong labels is out of reach, so the model answers \
         nothing: of the most confident {coverage:.1} % of the documents, {error:.1} % of \
         the labels are wrong, at most {bound:.1} %; set a higher target"
    )
}
