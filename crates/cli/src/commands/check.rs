//! `classify check`

use std::path::PathBuf;
use std::sync::Arc;

use classify::check::{self, CheckOptions, Drift, SuspiciousLabel, find_leaks};
use classify::classifier::Classifier;
use classify::learn::{Event, Trainer};
use classify::text::corpus::{LabelUse, ReadOptions};
use classify::threads::Threads;
use classify_report::check::{html, terminal};
use serde::Serialize;

use crate::commands::fixing::FixingFlags;
use crate::failure::Failure;
use crate::flags::reading::{ReadingFlags, name, open, read_all};
use crate::flags::searching::SearchFlags;
use crate::flags::training::TrainingFlags;
use crate::flags::tuning::TrainingProgress;
use crate::output::files::{Files, write, write_json};
use crate::output::list::{ListFormat, write_list};
use crate::output::progress::{Progress, Verbosity};

#[derive(Debug, clap::Args)]
pub(crate) struct Check {
    /// Corpora: files, folders, or - for standard input
    #[arg(required_unless_present = "model", value_name = "CORPUS")]
    corpora: Vec<PathBuf>,
    /// Test corpora: find test documents that are also training documents
    #[arg(long, value_name = "CORPUS", num_args = 1..)]
    test: Vec<PathBuf>,
    /// Other documents, with or without labels: find how they differ from the corpus
    #[arg(long, value_name = "CORPUS", num_args = 1..)]
    against: Vec<PathBuf>,
    /// List labels that are wrong or missing with at least this probability, in percent
    #[arg(long, value_name = "PERCENT", default_value = "50%", value_parser = percent)]
    min_probability: f64,
    /// Write everything that was found as JSON (schema classify.check/1)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write an HTML page to filter and sort: at most 500 findings of each kind, with the
    /// beginnings of the texts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the suspicious labels to a file, one per line, to review them
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The format of --output [default: by the ending of the file]
    #[arg(long, value_enum, value_name = "FORMAT", requires = "output")]
    to: Option<ListFormat>,
    #[command(flatten)]
    fixing: FixingFlags,
    #[command(flatten)]
    reading: ReadingFlags,
    #[command(flatten)]
    training: TrainingFlags,
    #[command(flatten)]
    searching: SearchFlags,
}

/// A line of the list of suspicious labels.
#[derive(Serialize)]
struct Line<'a> {
    id: &'a str,
    /// Empty: the reviewer fills it in (see [`FixingFlags`]).
    decision: &'static str,
    given: &'a str,
    suggested: &'a str,
    probability: f64,
    labels: String,
    text: &'a str,
    place: &'a str,
    /// The identifiers of the documents that contradict the label.
    contradicted_by: String,
}

impl<'a> Line<'a> {
    fn new(suspicious: &'a SuspiciousLabel) -> Self {
        let SuspiciousLabel { document, given, suggested, probability, contradicted_by } =
            suspicious;
        let ids: Vec<&str> = contradicted_by.iter().map(|other| &*other.document.id).collect();
        Self {
            id: &document.id,
            decision: "",
            given: given.as_deref().unwrap_or_default(),
            suggested: suggested.as_deref().unwrap_or_default(),
            probability: *probability,
            labels: document.labels.join(";"),
            text: &document.text,
            place: &document.place,
            contradicted_by: ids.join(";"),
        }
    }
}

/// The JSON of a check.
#[derive(Serialize)]
struct CheckWithNotes<'a> {
    #[serde(flatten)]
    check: &'a check::Check,
    /// Notes on probable mistakes in the corpora.
    notes: Vec<String>,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse::<f64>().ok();
    let share = number.filter(|percent| (0.0..=100.0).contains(percent));
    let share = share.map(|percent| percent / 100.0);
    share.ok_or_else(|| "expected a percentage from 0% to 100%".to_owned())
}

impl Check {
    pub(crate) fn run(self, threads: &Threads, verbosity: Verbosity) -> Result<(), Failure> {
        if let Some(decisions) = &self.fixing.fixes {
            return self.fixing.apply(decisions, &self.corpora, &self.reading, verbosity);
        }
        if self.training.tune_table().is_some() {
            let message = "`check` compares no settings, so there is no --tune-table; `train \
                           --tune --tune-table FILE` writes one";
            return Err(Failure::Usage(message.into()));
        }
        let format = self.reading.format();
        let files = Files::default().with_corpora(&self.corpora, format);
        let files = files.with_corpora(&self.test, format).with_corpora(&self.against, format);
        let mut files = files.with_inputs(self.reading.files()).with_inputs(self.training.files());
        let json = files.optional(self.json.as_ref())?;
        let page = files.optional(self.html.as_ref())?;
        let list = files.optional(self.output.as_ref())?;
        let printed = files.report()?;
        let mut read_options = self.reading.options(LabelUse::Required, Some(threads))?;
        let options = self.training.options(&read_options, false)?;
        options.fields.read_apart(&mut read_options);
        read_options.text_optional = options.needs_no_text();
        let reading = Progress::new(verbosity, "reading", &self.corpora);
        let corpus = open(&self.corpora, read_options.clone(), verbosity, &reading)?;
        let test = read_all(&self.test, read_options.clone(), verbosity)?;
        let optional = ReadOptions { labels: LabelUse::Optional, ..read_options };
        let against = read_all(&self.against, optional, verbosity)?;
        let engines = self.training.engines(self.searching, threads, verbosity)?;
        self.training.return_memory();
        let trainer = || {
            let builder = Trainer::builder().options(options.clone()).engines(engines.clone());
            builder.corpus_name(name(&self.corpora))
        };
        let progress = TrainingProgress::new(verbosity, reading);
        let on_event = |event: Event<'_>| progress.on_event(event);
        let held_out = trainer().on_event(&on_event).build().hold_out(corpus)?;
        drop(progress);
        let notes = self.reading.report(held_out.notes(), verbosity)?;
        let mut check =
            check::Check::new(&held_out, CheckOptions { min_probability: self.min_probability });
        if !(test.is_empty() && against.is_empty()) {
            let model = trainer().build().train(&held_out.documents)?.model;
            let classifier = Classifier::new(Arc::new(model), threads)?;
            if !test.is_empty() {
                check.leaks = Some(find_leaks(&classifier, &test, check.duplicates.above)?);
            }
            if !against.is_empty() {
                let trainer = trainer().build();
                check.drift = Some(Drift::find(&trainer, &held_out, &against, &classifier)?);
            }
        }
        if let Some(printed) = printed {
            write(printed, terminal(&check).as_bytes())?;
        }
        if let Some((list, path)) = list.zip(self.output.as_deref()) {
            let lines = check.label_errors.suspicious.iter().map(Line::new);
            write_list(list, ListFormat::of(self.to, path), lines)?;
        }
        if let Some(page) = page {
            let rendered = html(&check).map_err(|error| page.error(error))?;
            write(page, rendered.as_bytes())?;
        }
        if let Some(json) = json {
            write_json(json, &CheckWithNotes { check: &check, notes })?;
        }
        Ok(())
    }
}
