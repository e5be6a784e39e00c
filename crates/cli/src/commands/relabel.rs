//! `classify relabel`

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use classify::model::{Change, ChangeError, UpdateError, UpdatedModel};
use classify::text::corpus::normalized_label;

use crate::commands::updating::{read_text, refuse_new_labels, summary};
use crate::failure::Failure;
use crate::output::progress::Verbosity;

#[derive(Debug, clap::Args)]
pub(crate) struct Relabel {
    /// The model
    model: PathBuf,
    /// The identifier of the document
    #[arg(required_unless_present = "from", conflicts_with = "from")]
    id: Option<String>,
    /// The new labels, which replace all old labels; without labels, the document has none
    labels: Vec<String>,
    /// Allow labels that no document of the model has
    #[arg(long)]
    new_labels: bool,
    /// A JSONL file with the fields `id` and `labels` (a list); - is standard input
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
}

/// A line of `relabel --from`.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RelabelLine {
    id: String,
    labels: Vec<String>,
}

impl Relabel {
    pub(crate) fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        let mut changes = Vec::new();
        if let Some(from) = &self.from {
            for (number, line) in (1..).zip(read_text(from)?.lines()) {
                if line.trim().is_empty() {
                    continue;
                }
                let read: Result<RelabelLine, _> = serde_json::from_str(line);
                let RelabelLine { id, labels } = read.map_err(|error| {
                    let message = format!(
                        "line {number}: {error}; expected {{\"id\": \"…\", \"labels\": [\"…\"]}}"
                    );
                    Failure::Input { path: from.clone(), message }
                })?;
                changes.push(Change::Relabel { id, labels: normalized(&labels) });
            }
        } else if let Some(id) = self.id {
            changes.push(Change::Relabel { id, labels: normalized(&self.labels) });
        }
        let mut updated = UpdatedModel::open(&self.model)?;
        if !self.new_labels {
            let labels = changes.iter().flat_map(|change| match change {
                Change::Relabel { labels, .. } => labels.as_slice(),
                _ => &[],
            });
            refuse_new_labels(&self.model, &updated.model(), labels)?;
        }
        let done = updated.commit(changes).map_err(|error| in_model(&self.model, error))?;
        let mut text = summary(&self.model, &updated);
        let _ = write!(text, "{} relabeled", done.relabeled);
        verbosity.print(&text);
        Ok(())
    }
}

fn normalized(labels: &[String]) -> Vec<String> {
    labels.iter().map(|label| normalized_label(label).into_owned()).collect()
}

/// Converts an update error to a failure. For an unknown identifier, the failure names the model.
fn in_model(path: &Path, error: UpdateError) -> Failure {
    match error {
        UpdateError::Change(error @ ChangeError::NoSuchDocument { .. }) => {
            Failure::Input { path: path.to_owned(), message: error.to_string() }
        }
        error => error.into(),
    }
}
