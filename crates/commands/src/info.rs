//! `classify info`

use std::fmt::Write as _;
use std::path::PathBuf;

use classify::decide::calibrate::ConfidenceLimit;
use classify::decide::objective::Figures;
use classify::decide::outcomes::Intervals;
use classify::model::TuningSummary;
use classify::model::{InputSpec, Model};
use classify::printable::printable;
use classify::rows::dense::{DenseSpec, Metric};
use classify::text::analyze::AnalyzerSpec;
use classify::text::counts::Fields;

use super::failure::Failure;
use super::opening::Opening;
use super::outputs::print;

#[derive(Debug, clap::Args)]
pub(crate) struct Info {
    /// The model
    model: PathBuf,
    /// Print the settings as JSON
    #[arg(long)]
    json: bool,
    /// The number of most frequent labels to show
    #[arg(long, value_name = "N", default_value_t = 10)]
    labels: usize,
    #[command(flatten)]
    opening: Opening,
}

impl Info {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let model = self.opening.model(&self.model)?;
        let text = if self.json {
            let json = serde_json::to_string_pretty(model.settings());
            json.map_err(|error| Failure::stdout(error.into()))? + "\n"
        } else {
            self.text(&model)
        };
        print(text.as_bytes())
    }

    fn text(&self, model: &Model) -> String {
        let settings = model.settings();
        let counts = settings.counts;
        let mut text = String::new();
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "{name:<12} {}", printable(value));
        };
        let size = std::fs::metadata(&self.model).map_or(0, |metadata| metadata.len());
        line("model", format!("{} ({:.1} MB)", self.model.display(), size as f64 / 1e6));
        line("trained by", settings.created_by.clone());
        let unlabeled = match counts.unlabeled {
            0 => String::new(),
            count => format!(", {count} without a label"),
        };
        let empty =
            if model.has_terms() { format!(", {} empty", counts.empty) } else { String::new() };
        line("documents", format!("{}{unlabeled}{empty}", counts.documents));
        line("labels", counts.labels.to_string());
        if model.has_terms() {
            line("terms", format!("{} ({} weights)", counts.terms, counts.nonzeros));
        }
        match &settings.input {
            InputSpec::Text(spec) => line("analysis", analysis(spec)),
            InputSpec::Features(spec) if spec.counts => line("features", "counts".into()),
            InputSpec::Features(_) => line("features", "weights as given".into()),
            InputSpec::Vectors(_) => line("features", "dense vectors as given".into()),
        }
        if let Some(dense) = &settings.dense {
            line("vectors", vectors(dense, settings.dense_share));
        }
        if model.has_terms() {
            line("weighting", format!("{}: {}", settings.weighting.name(), settings.formula));
            let weighed = settings.updates.map(|updates| updates.weighed).or(settings.part_of);
            let weighed = weighed.unwrap_or(counts.documents);
            line("", format!("N = {weighed} documents, df = documents with the term"));
        }
        if model.searches_terms() {
            let similarity = if settings.weighting.is_cosine() { "cosine" } else { "dot product" };
            line("similarity", similarity.into());
        }
        line("neighbors", format!("k = {}, vote {}", settings.k, settings.vote));
        line("decision", settings.decision.to_string());
        if let Some(selection) = settings.selection {
            line("selection", format!("{selection}: {} terms left", counts.terms));
        }
        match &settings.fields {
            Fields::Whole => {}
            Fields::FirstLine { boost } => line("fields", format!("first line × {boost}")),
            Fields::Columns(columns) => {
                let columns = columns.iter().map(|(name, boost)| format!("{name} × {boost}"));
                line("fields", columns.collect::<Vec<_>>().join(", "));
            }
        }
        if let Some(tuning) = &settings.tuning {
            line("tuned", tuned(tuning));
        }
        if model.calibration().is_some() {
            line("scores", "calibrated: answers have probabilities".into());
        }
        if let Some(abstention) = &settings.abstention {
            line("abstains", abstains(*abstention));
        }
        if let Some(limit) = &settings.novelty {
            line("refuses", limit.text());
        }
        if let Some(note) = super::documents::note(model) {
            line("changes", note);
        }
        line("texts", if model.keeps_texts() { "kept" } else { "not kept" }.into());
        self.labels(model, &mut text);
        text
    }

    fn labels(&self, model: &Model, text: &mut String) {
        let mut counts = vec![0u64; model.labels().len()];
        for row in (0..).take(model.ids().len()) {
            for &label in model.document_labels(row) {
                counts[label as usize] += 1;
            }
        }
        let mut labels: Vec<(u64, &str)> = counts.into_iter().zip(model.labels().iter()).collect();
        labels.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
        if self.labels > 0 && !labels.is_empty() {
            let _ = writeln!(text, "\ndocuments  label");
        }
        for (count, label) in labels.into_iter().take(self.labels) {
            let _ = writeln!(text, "{count:>9}  {}", printable(label));
        }
    }
}

/// When a model abstains, in words.
fn abstains(limit: ConfidenceLimit) -> String {
    let ConfidenceLimit { target_error, coverage, error, error_bound, .. } = limit;
    let [target, answered, wrong, bound] =
        [target_error, coverage, error, error_bound].map(|share| share * 100.0);
    match limit.confidence {
        None => format!(
            "always: no confidence was shown to keep the share of wrong labels low enough \
             (target {target:.1} %)"
        ),
        Some(least) => format!(
            "where the confidence is below {least:.4}: answers {answered:.1} % of the documents, \
             with {wrong:.1} % wrong labels, at most {bound:.1} % (leave-one-out; target \
             {target:.1} %)"
        ),
    }
}

/// Dense vectors in words.
fn vectors(dense: &DenseSpec, share: f64) -> String {
    let DenseSpec { features, dimension, metric, scale, .. } = dense;
    let mut text = format!(
        "{features}: {dimension} dimensions, {metric}, {:.0} % of the votes",
        share * 100.0
    );
    if *metric != Metric::Angular {
        // Its digits are those of an f32.
        let scale = format!("{scale:.6e}").parse().unwrap_or(*scale);
        let _ = write!(text, ", similarity {scale} / ({scale} + distance)");
    }
    text
}

/// The analyzer's settings in words: first its choices, then the options that are on.
fn analysis(spec: &AnalyzerSpec) -> String {
    let name = |value: serde_json::Result<serde_json::Value>| match value {
        Ok(serde_json::Value::String(name)) => name,
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
        parts.push(format!("{} stop words", spec.stop_words.len()));
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

/// The objective and the figures of tuning.
fn tuned(tuning: &TuningSummary) -> String {
    let TuningSummary { objective, figures, intervals, nested, documents, .. } = tuning;
    let ends = |of: fn(&Intervals) -> [f64; 2]| {
        let ends = intervals.as_ref().map(of);
        ends.map_or(String::new(), |[low, high]| format!(" [{low:.4}, {high:.4}]"))
    };
    let good = if *nested {
        ""
    } else {
        "; terms knew the labels of left-out documents, so the figures are too good"
    };
    let with = tuning.with_near_duplicates.map_or(String::new(), |with| {
        let Figures { micro_f1, macro_f1, accuracy, .. } = with.figures;
        format!(
            "; if new documents have near-duplicates as often: micro F1 {micro_f1:.4}, macro F1 {macro_f1:.4}, accuracy {accuracy:.4}"
        )
    });
    let by_ranks = figures.by_ranks.map_or(String::new(), |value| format!(" {value:.4}"));
    format!(
        "for {}{by_ranks}; leave-one-out on {documents} documents: micro F1 {:.4}{}, macro F1 {:.4}{}, accuracy \
         {:.4}{}{with}{good}",
        objective.name(),
        figures.micro_f1,
        ends(|intervals| intervals.micro_f1),
        figures.macro_f1,
        ends(|intervals| intervals.macro_f1),
        figures.accuracy,
        ends(|intervals| intervals.accuracy),
    )
}
