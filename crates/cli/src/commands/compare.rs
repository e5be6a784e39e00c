//! `classify compare`

use std::fs::File;
use std::path::PathBuf;

use classify::evaluate::{Comparison, SavedEvaluation, compare};
use classify::threads::Threads;
use classify_report::comparison::terminal;
use serde::Serialize;

use crate::failure::{Failure, compare_message};
use crate::flags::seed::SeedFlag;
use crate::output::files::{Files, write, write_json};

#[derive(Debug, clap::Args)]
pub(crate) struct Compare {
    /// The baseline evaluation, written by `evaluate --json FILE --per-document`
    baseline: PathBuf,
    /// Other evaluations of the same documents
    #[arg(required = true, value_name = "OTHER")]
    others: Vec<PathBuf>,
    /// Exit with code 6 if another evaluation is significantly worse than the baseline: lower micro
    /// F1, macro F1 or share of exactly labeled documents, with an adjusted p-value below --alpha
    #[arg(long)]
    fail_if_worse: bool,
    /// The significance level
    #[arg(long, value_name = "P", default_value_t = 0.05, value_parser = probability)]
    alpha: f64,
    /// Write the result as JSON (schema classify.comparison/1)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    seed: SeedFlag,
}

fn probability(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| *number > 0.0 && *number < 1.0);
    number.ok_or_else(|| "expected a number between 0 and 1".to_owned())
}

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    baseline: &'a str,
    comparisons: Vec<NamedComparison<'a>>,
}

#[derive(Serialize)]
struct NamedComparison<'a> {
    name: &'a str,
    #[serde(flatten)]
    comparison: &'a Comparison,
}

impl Compare {
    pub(crate) fn run(self, threads: &Threads) -> Result<(), Failure> {
        let paths: Vec<&PathBuf> = std::iter::once(&self.baseline).chain(&self.others).collect();
        let mut files = Files::default().with_inputs(paths.iter().copied());
        let json = files.optional(self.json.as_ref())?;
        let printed = files.report()?;
        let failed =
            |at: usize, message: String| Failure::Input { path: paths[at].clone(), message };
        let mut loaded = Vec::new();
        for (at, path) in paths.iter().enumerate() {
            let file = File::open(path).map_err(|error| failed(at, error.to_string()))?;
            let evaluation = SavedEvaluation::from_reader(file)
                .map_err(|error| failed(at, compare_message(&error)))?;
            loaded.push(evaluation);
        }
        let baseline = loaded.remove(0);
        let comparisons = compare(&baseline, &loaded, self.seed.value, self.alpha, threads)
            .map_err(|(at, error)| failed(at, compare_message(&error)))?;
        let names: Vec<String> =
            paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
        let text = terminal(&names, &comparisons);
        if let Some(printed) = printed {
            write(printed, text.as_bytes())?;
        }
        if let Some(json) = json {
            let pairs = names[1..].iter().zip(&comparisons);
            let comparisons =
                pairs.map(|(name, comparison)| NamedComparison { name, comparison }).collect();
            let report =
                Report { schema: "classify.comparison/1", baseline: &names[0], comparisons };
            write_json(json, &report)?;
        }
        let worse = comparisons.iter().position(|comparison| comparison.is_worse(self.alpha));
        match worse {
            Some(at) if self.fail_if_worse => Err(Failure::WorseThanBaseline(format!(
                "{} is worse than {}",
                names[at + 1],
                names[0]
            ))),
            _ => Ok(()),
        }
    }
}
