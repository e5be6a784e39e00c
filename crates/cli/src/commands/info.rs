//! `classify info`

use std::path::PathBuf;

use classify_report::model::terminal;

use crate::failure::Failure;
use crate::flags::opening::OpeningFlags;
use crate::output::files::print;

#[derive(Debug, clap::Args)]
pub(crate) struct Info {
    /// The model
    model: PathBuf,
    /// Print the settings as JSON
    #[arg(long)]
    json: bool,
    /// The number of labels to show, the most frequent first
    #[arg(long, value_name = "N", default_value_t = 10)]
    labels: usize,
    #[command(flatten)]
    opening: OpeningFlags,
}

impl Info {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let model = self.opening.model(&self.model)?;
        let text = if self.json {
            let json = serde_json::to_string_pretty(model.settings());
            json.map_err(|error| Failure::stdout(error.into()))? + "\n"
        } else {
            let size = std::fs::metadata(&self.model).map_or(0, |metadata| metadata.len());
            let file = format!("{} ({:.1} MB)", self.model.display(), size as f64 / 1e6);
            terminal(&model, &file, self.labels)
        };
        print(text.as_bytes())
    }
}
