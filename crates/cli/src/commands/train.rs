//! `classify train`

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use classify::learn::{DescriptionWeight, Event, TrainOptions, Trainer};
use classify::model::Model;
use classify::printable::printable;
use classify::stages::Stage;
use classify::text::corpus::{Document, IdUse, LabelUse, ReadOptions, closest_label};
use classify::text::counts::Fields;
use classify::threads::Threads;

use crate::commands::updating::lock_documents;
use crate::failure::Failure;
use crate::flags::reading::{ReadingFlags, name, open, read_all};
use crate::flags::searching::SearchFlags;
use crate::flags::training::TrainingFlags;
use crate::flags::tuning::TrainingProgress;
use crate::output::files::{Files, write_json};
use crate::output::progress::{Progress, Verbosity};

#[derive(Debug, clap::Args)]
pub(crate) struct Train {
    /// Corpora: files, folders, or - for standard input
    #[arg(required_unless_present = "label_descriptions", value_name = "CORPUS")]
    corpora: Vec<PathBuf>,
    /// The model file to write
    #[arg(short, long, value_name = "MODEL")]
    output: PathBuf,
    /// Store the texts of the documents in the model
    #[arg(long)]
    keep_text: bool,
    /// Descriptions of labels, with the fields label and text: documents whose weight is chosen on
    /// held-out documents. Without a corpus, the model consists of the descriptions
    #[arg(long, value_name = "FILE")]
    label_descriptions: Option<PathBuf>,
    #[command(flatten)]
    reading: ReadingFlags,
    #[command(flatten)]
    training: TrainingFlags,
    #[command(flatten)]
    searching: SearchFlags,
}

impl Train {
    pub(crate) fn run(self, threads: &Threads, verbosity: Verbosity) -> Result<(), Failure> {
        let start = Instant::now();
        let files = Files::default().with_corpora(&self.corpora, self.reading.format());
        let files = files.with_inputs(&self.label_descriptions);
        let mut files = files.with_inputs(self.reading.files()).with_inputs(self.training.files());
        let output = files.file(&self.output, "a model")?;
        let table = files.optional(self.training.tune_table())?;
        let journal_lock = lock_documents(&self.output)?;
        let reading = Progress::new(verbosity, "reading", &self.corpora);
        let mut read_options = self.reading.options(LabelUse::Required, Some(threads))?;
        let options = self.training.options(&read_options, self.keep_text)?;
        options.fields.read_apart(&mut read_options);
        read_options.text_optional = options.needs_no_text();
        let descriptions = self.descriptions(&read_options, &options, verbosity)?;
        let corpus = if self.corpora.is_empty() {
            None
        } else {
            Some(open(&self.corpora, read_options, verbosity, &reading)?)
        };
        let engines = self.training.engines(self.searching, threads, verbosity)?;
        self.training.return_memory();
        let training_progress = TrainingProgress::new(verbosity, reading);
        let on_event = |event: Event<'_>| training_progress.on_event(event);
        let builder = Trainer::builder().options(options).engines(engines);
        let sources = if self.corpora.is_empty() {
            self.label_descriptions.as_slice()
        } else {
            &self.corpora
        };
        let builder = builder.corpus_name(name(sources)).on_event(&on_event);
        let trainer = builder.build();
        let corpus = corpus.into_iter().flatten();
        let (result, described) = if descriptions.is_empty() {
            (trainer.train(corpus)?, Vec::new())
        } else {
            let documents: Vec<Document> = corpus.collect::<Result<_, _>>()?;
            let notes = description_notes(&documents, &descriptions);
            let (result, chosen) = trainer.train_with_descriptions(documents, &descriptions)?;
            let chosen = weight_line(&chosen, descriptions.len());
            (result, std::iter::once(chosen).chain(notes).collect())
        };
        drop(training_progress);
        if !self.corpora.is_empty() {
            self.reading.report(result.model.notes(), verbosity)?;
        }
        for line in described {
            verbosity.print(&line);
        }
        let saving = Instant::now();
        threads.run(|| match &journal_lock {
            Some(journal_lock) => result.model.save_locked(output, journal_lock),
            None => result.model.save_to(output),
        })?;
        let documents = result.model.settings().counts.documents;
        let saved = Stage::since("train: write the model", documents, saving);
        verbosity.stages(result.stages.iter().chain([&saved]));
        if let (Some(table), Some(report)) = (table, &result.tuning) {
            write_json(table, report)?;
        }
        verbosity.print(&summary(&result.model, &self.output, start));
        Ok(())
    }
}

impl Train {
    /// Reads the descriptions of labels; none if there is no such flag.
    fn descriptions(
        &self,
        read_options: &ReadOptions,
        options: &TrainOptions,
        verbosity: Verbosity,
    ) -> Result<Vec<Document>, Failure> {
        let Some(path) = &self.label_descriptions else { return Ok(Vec::new()) };
        let refuse = |message: &str| Err(Failure::Usage(message.into()));
        if self.corpora.is_empty() && self.training.tunes() {
            return refuse("--tune needs labeled documents, not only --label-descriptions");
        }
        if !matches!(options.fields, Fields::Whole | Fields::FirstLine { .. }) {
            return refuse("--label-descriptions needs documents of one text field");
        }
        let read_options = ReadOptions {
            labels: LabelUse::Required,
            ids: IdUse::Prefixed { prefix: "description:".into(), after: 0 },
            vector_field: read_options.vector_field.clone(),
            encoder: read_options.encoder.clone(),
            label_separator: read_options.label_separator.clone(),
            text_optional: read_options.text_optional,
            ..ReadOptions::default()
        };
        let mut descriptions = read_all(std::slice::from_ref(path), read_options, verbosity)?;
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for description in &mut descriptions {
            let name = format!("description:{}", description.labels.join(";"));
            let count = counts.entry(name.clone()).or_default();
            *count += 1;
            description.id = if *count == 1 { name } else { format!("{name}:{count}") };
        }
        Ok(descriptions)
    }
}

/// Words the weight of descriptions, and what they gain.
fn weight_line(chosen: &DescriptionWeight, descriptions: usize) -> String {
    let DescriptionWeight { weight, held_out, .. } = chosen;
    if chosen.trials.is_empty() {
        return format!("the model consists of {descriptions} label descriptions");
    }
    if *held_out == 0 {
        return format!(
            "{descriptions} label descriptions with weight {weight}: there are too few documents \
             to choose it"
        );
    }
    let micro_f1 = |weight| chosen.micro_f1(weight).unwrap_or_default();
    let without = micro_f1(0.0);
    if *weight == 0.0 {
        let others = chosen.trials.iter().filter(|(weight, _)| *weight > 0.0);
        let best = others.map(|(_, micro_f1)| *micro_f1).fold(0.0, f64::max);
        return format!(
            "note: the label descriptions are not used: micro F1 is {without:.4} without them, and \
             at most {best:.4} with them, on {held_out} held-out documents"
        );
    }
    format!(
        "{descriptions} label descriptions with weight {weight}: micro F1 {:.4} instead of \
         {without:.4} on {held_out} held-out documents",
        micro_f1(*weight)
    )
}

/// Notes on labels that are only described, or not described.
fn description_notes(documents: &[Document], descriptions: &[Document]) -> Vec<String> {
    let labels = |documents: &[Document]| -> BTreeSet<String> {
        documents.iter().flat_map(|document| document.labels.iter().cloned()).collect()
    };
    let used = labels(documents);
    let described = labels(descriptions);
    let mut notes = Vec::new();
    if used.is_empty() {
        return notes;
    }
    let unused: Vec<&String> = described.difference(&used).collect();
    if let [first, ..] = &*unused {
        let closest = closest_label(first, used.iter().map(String::as_str));
        let closest = closest.map_or(String::new(), |closest| {
            format!("; the closest label is `{}`", printable(closest))
        });
        let (count, first) = (unused.len(), printable(first));
        notes.push(format!(
            "note: no document has {count} described labels, such as `{first}`{closest}"
        ));
    }
    let missing: Vec<&String> = used.difference(&described).collect();
    if let [first, ..] = &*missing {
        let (count, first) = (missing.len(), printable(first));
        notes.push(format!("note: {count} labels have no description, such as `{first}`"));
    }
    let mut documents_of = BTreeMap::<&str, usize>::new();
    for label in documents.iter().flat_map(|document| &document.labels) {
        *documents_of.entry(label).or_default() += 1;
    }
    let single = documents_of.values().filter(|&&count| count == 1).count();
    if 2 * single > documents_of.len() {
        notes.push(format!(
            "note: {single} of {} labels have one document, so held-out documents say little about \
             the weight of the descriptions, and even wrong ones seem to help; read the \
             descriptions, or label more documents",
            documents_of.len()
        ));
    }
    notes
}

/// Summarizes the size of the model and the time since `start`, with notes on documents without a
/// label or a weighted term.
fn summary(model: &Model, output: &Path, start: Instant) -> String {
    let settings = model.settings();
    let counts = settings.counts;
    let mut text = format!(
        "{}: {} documents, {} labels, {} terms, {:.1} s",
        output.display(),
        counts.documents,
        counts.labels,
        counts.terms,
        start.elapsed().as_secs_f64()
    );
    if let Some(dense) = &settings.dense {
        let _ = write!(text, "\nvectors: {} dimensions, {}", dense.dimension, dense.metric);
    }
    for (count, what) in [
        (counts.unlabeled, "documents without a label"),
        (counts.empty, "documents without a weighted term, which are never neighbors"),
    ] {
        // A model with only dense vectors needs no terms.
        let matters = model.has_terms() || count == counts.unlabeled;
        if count > 0 && matters {
            let _ = write!(text, "\nnote: {what}: {count}");
        }
    }
    text
}
