//! `classify remove`

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use classify::model::{Change, UpdatedModel};

use crate::commands::updating::{read_text, summary};
use crate::failure::Failure;
use crate::output::progress::Verbosity;

#[derive(Debug, clap::Args)]
pub(crate) struct Remove {
    /// The model
    model: PathBuf,
    /// The identifiers of the documents to remove
    #[arg(value_name = "ID", required_unless_present = "from")]
    ids: Vec<String>,
    /// A file of identifiers, one per line; - is standard input
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Ignore identifiers that are not in the model
    #[arg(long)]
    ignore_missing: bool,
}

impl Remove {
    pub(crate) fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        let mut ids = self.ids.clone();
        if let Some(from) = &self.from {
            let text = read_text(from)?;
            let lines = text.lines().map(str::trim);
            ids.extend(lines.filter(|line| !line.is_empty()).map(str::to_owned));
        }
        let mut updated = UpdatedModel::open(&self.model)?;
        let mut seen = BTreeSet::new();
        ids.retain(|id| seen.insert(id.clone()));
        let missing: Vec<&String> =
            ids.iter().filter(|id| !updated.collection().contains(id)).collect();
        if !missing.is_empty() && !self.ignore_missing {
            return Err(Failure::Input {
                path: self.model,
                message: unknown_ids_message(&missing),
            });
        }
        let count = missing.len();
        ids.retain(|id| updated.collection().contains(id));
        let changes = ids.into_iter().map(|id| Change::Remove { id }).collect();
        let done = updated.commit(changes)?;
        let mut text = summary(&self.model, &updated);
        let _ = write!(text, "{} removed", done.removed);
        if count > 0 {
            let _ = write!(text, "; {count} identifiers are not in the model");
        }
        verbosity.print(&text);
        Ok(())
    }
}

fn unknown_ids_message(ids: &[&String]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<String> = ids.iter().take(SHOWN).map(|id| format!("`{id}`")).collect();
    let more = ids.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} others") } else { String::new() };
    format!(
        "no document has the identifier {}{more}; nothing was removed (--ignore-missing skips \
         unknown identifiers)",
        shown.join(", ")
    )
}
