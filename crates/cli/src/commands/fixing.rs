//! `classify check --fixes`: applies reviewed decisions to a corpus or to a model.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use array_file::output::Output;
use classify::check::{Action, Decision, FixError, Fixes};
use classify::model::UpdatedModel;
use classify::text::corpus::{Content, Document, LabelUse};
use serde::{Deserialize, Serialize};

use crate::commands::updating::read_text;
use crate::failure::Failure;
use crate::flags::reading::{ReadingFlags, read_all};
use crate::output::files::{Files, write};
use crate::output::progress::Verbosity;

/// Flags for applying reviewed decisions.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Corrections")]
pub(crate) struct FixingFlags {
    /// Check nothing, but apply the decisions of a reviewed list: the file of -o after `relabel`,
    /// `remove` or `keep` was written into its column `decision`. Needs --fixed or --model
    #[arg(
        long, value_name = "LIST",
        conflicts_with_all = ["output", "json", "html", "test", "against"]
    )]
    pub(super) fixes: Option<PathBuf>,
    /// Write the corrected corpus as JSONL (identifier, text, labels)
    #[arg(long, value_name = "FILE", requires = "fixes", conflicts_with = "model")]
    fixed: Option<PathBuf>,
    /// Correct the documents of this model
    #[arg(long, value_name = "MODEL", requires = "fixes", conflicts_with = "corpora")]
    model: Option<PathBuf>,
    /// Allow labels that no document has
    #[arg(long, requires = "fixes")]
    new_labels: bool,
}

/// A line of a reviewed list. Other columns are ignored.
#[derive(Debug, Deserialize)]
struct DecisionLine {
    id: String,
    #[serde(default)]
    decision: String,
    #[serde(default)]
    given: String,
    #[serde(default)]
    suggested: String,
}

/// A line of a corrected corpus.
#[derive(Serialize)]
struct CorpusLine<'a> {
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    features: Option<BTreeMap<u32, f32>>,
    labels: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    weight: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vector: Option<&'a [f32]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
}

impl<'a> CorpusLine<'a> {
    fn new(document: &'a Document) -> Self {
        let features = match &document.content {
            Content::Features(features) => Some(features.iter().copied().collect()),
            Content::Text(_) | Content::Fields(_) => None,
        };
        Self {
            id: &document.id,
            text: document.content.text(),
            features,
            labels: &document.labels,
            weight: Some(document.weight).filter(|weight| weight.to_bits() != 1f32.to_bits()),
            vector: document.vector.as_deref(),
            group: document.group.as_deref(),
        }
    }
}

impl FixingFlags {
    /// Applies the decisions, and says what changed.
    pub(super) fn apply(
        &self,
        decisions: &Path,
        corpora: &[PathBuf],
        reading: &ReadingFlags,
        verbosity: Verbosity,
    ) -> Result<(), Failure> {
        if self.fixed.is_none() && self.model.is_none() {
            let message = "--fixes needs --fixed FILE, for the corrected corpus, or --model MODEL";
            return Err(Failure::Usage(message.into()));
        }
        let refuse = |problem: String| Failure::Input {
            path: decisions.to_owned(),
            message: format!("{problem}; nothing was changed"),
        };
        let refused = |error: FixError| match error {
            FixError::NewLabel { .. } => refuse(format!("{error} (`--new-labels` allows it)")),
            error => refuse(error.to_string()),
        };
        let read = read_decisions(decisions)?;
        let fixes = Fixes::new(read, self.new_labels).map_err(refused)?;
        if fixes.is_empty() {
            let problem = "no line has `relabel` or `remove` in its column `decision`";
            return Err(refuse(problem.into()));
        }
        if let Some(path) = &self.model {
            let mut updated = UpdatedModel::open(path)?;
            let changes = fixes.changes(&updated.model()).map_err(refused)?;
            let done = updated.commit(changes)?;
            let documents = updated.collection().len();
            let counts = [done.relabeled, done.removed, documents as u64 - done.relabeled];
            report(path, counts, verbosity);
        } else if let Some(path) = &self.fixed {
            let inputs = Files::default().with_corpora(corpora, reading.format());
            let output = inputs.with_inputs([&decisions.to_owned()]).text(path)?;
            let mut options = reading.options(LabelUse::Optional, None)?;
            // Documents can consist of a vector.
            options.text_optional = true;
            let documents = read_all(corpora, options, verbosity)?;
            let corrected = fixes.apply(documents).map_err(refused)?;
            write_corpus(output, &corrected.documents)?;
            let kept = corrected.documents.len() as u64 - corrected.relabeled;
            report(path, [corrected.relabeled, corrected.removed, kept], verbosity);
        }
        Ok(())
    }
}

/// States the numbers of documents that were relabeled, removed and left unchanged.
fn report(path: &Path, [relabeled, removed, kept]: [u64; 3], verbosity: Verbosity) {
    verbosity.print(&format!(
        "{}: {relabeled} relabeled, {removed} removed, {kept} unchanged",
        path.display()
    ));
}

/// Writes a corpus as JSONL.
fn write_corpus(output: Output, documents: &[Document]) -> Result<(), Failure> {
    let mut text = Vec::new();
    for document in documents {
        serde_json::to_writer(&mut text, &CorpusLine::new(document))
            .map_err(|error| output.error(error.into()))?;
        text.push(b'\n');
    }
    write(output, &text)
}

/// Reads a reviewed list: JSONL, or CSV with commas or, as some spreadsheets write it, semicolons.
fn read_decisions(path: &Path) -> Result<Vec<Decision>, Failure> {
    let text = read_text(path)?;
    let failure = |line: u64, problem: String| Failure::Input {
        path: path.to_owned(),
        message: format!("line {line}: {problem}"),
    };
    let mut decisions = Vec::new();
    let mut push = |line: u64, found: DecisionLine| {
        let decision = decision(found).map_err(|problem| failure(line, problem))?;
        decisions.extend(decision);
        Ok::<(), Failure>(())
    };
    if text.trim_start().starts_with('{') {
        for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
            let found = serde_json::from_str(line);
            push(number, found.map_err(|error| failure(number, error.to_string()))?)?;
        }
        return Ok(decisions);
    }
    let header = text.lines().next().unwrap_or_default();
    let separator = if header.contains(',') { b',' } else { b';' };
    let mut reader = csv::ReaderBuilder::new().delimiter(separator).from_reader(text.as_bytes());
    let columns = reader.headers().map_err(|error| failure(1, error.to_string()))?.clone();
    for needed in ["id", "decision"] {
        if !columns.iter().any(|column| column == needed) {
            return Err(failure(1, format!("there is no column `{needed}`")));
        }
    }
    for record in reader.records() {
        let record = record.map_err(|error| {
            let line = error.position().map_or(1, csv::Position::line);
            failure(line, error.to_string())
        })?;
        let line = record.position().map_or(1, csv::Position::line);
        let found = record.deserialize(Some(&columns));
        push(line, found.map_err(|error| failure(line, error.to_string()))?)?;
    }
    Ok(decisions)
}

/// Returns the decision of a line; `None` if there is none yet.
fn decision(line: DecisionLine) -> Result<Option<Decision>, String> {
    let action = match &*line.decision.trim().to_lowercase() {
        "" => return Ok(None),
        "keep" => Action::Keep,
        "relabel" => Action::Relabel,
        "remove" => Action::Remove,
        other => {
            return Err(format!("the decision is `{other}`; expected relabel, remove or keep"));
        }
    };
    let label = |text: String| Some(text.trim().to_owned()).filter(|label| !label.is_empty());
    let DecisionLine { id, given, suggested, .. } = line;
    Ok(Some(Decision { id, action, given: label(given), suggested: label(suggested) }))
}
