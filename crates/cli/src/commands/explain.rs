//! `classify explain`

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum;
use classify::classifier::explain::explain;
use classify::classifier::{Classifier, Searchers};
use classify::text::corpus::{
    Content, Corpus, CorpusError, Document, LabelUse, Place, ReadOptions,
};
use classify::threads::Threads;
use classify_report::explanation::{PAGE_TAIL, page_head, page_section, terminal};

use crate::failure::Failure;
use crate::flags::deciding::DecisionFlags;
use crate::flags::opening::OpeningFlags;
use crate::flags::reading::{ReadingFlags, apply_model_settings};
use crate::flags::searching::SearchFlags;
use crate::output::files::Files;

/// Number of documents explained per batch.
const BATCH: usize = 64;

#[derive(Debug, clap::Args)]
pub(crate) struct Explain {
    /// The model
    model: PathBuf,
    /// Documents: files, folders, or - for standard input (plain lines or JSONL)
    #[arg(value_name = "CORPUS", default_value = "-", conflicts_with = "text")]
    corpora: Vec<PathBuf>,
    /// Explain the prediction for this text
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
    /// Where to write the explanations [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The format of the explanations
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    to: OutputFormat,
    /// The number of neighbors to show (text and HTML)
    #[arg(long, value_name = "N", default_value_t = 5)]
    neighbors: usize,
    /// The number of terms for and against each label (JSONL)
    #[arg(long, value_name = "N", default_value_t = 20)]
    terms: usize,
    #[command(flatten)]
    reading: ReadingFlags,
    #[command(flatten)]
    opening: OpeningFlags,
    #[command(flatten)]
    deciding: DecisionFlags,
    #[command(flatten)]
    searching: SearchFlags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    /// Text for reading
    Text,
    /// One JSON object per document (schema classify.explanation/1)
    Jsonl,
    /// A page with the texts, in which shared terms are highlighted
    Html,
}

impl Explain {
    pub(crate) fn run(
        self,
        threads: &Threads,
        verbosity: crate::output::progress::Verbosity,
    ) -> Result<(), Failure> {
        let files = Files::default().with_corpora(&self.corpora, self.reading.format());
        let mut files = files.with_inputs([&self.model]).with_inputs(self.reading.files());
        let mut out = files.text(self.output.as_deref().unwrap_or(Path::new("-")))?;
        let model = Arc::new(self.opening.model_on(&self.model, threads)?);
        let engines = self.searching.engines(threads, verbosity)?;
        self.deciding.refuse_learning()?;
        let options = self.deciding.change(&model)?;
        if options.decision.needs_batch() {
            let message = "explain cannot explain the rule pcut, which decides on whole batches: \
                           choose another rule with --rule";
            return Err(Failure::Usage(message.to_owned()));
        }
        let searchers = Searchers::of(&model, options.dense_share, &engines)?;
        let classifier = Classifier::with_searchers(Arc::clone(&model), searchers, threads);
        let mut read_options = self.reading.options(LabelUse::Optional, Some(threads))?;
        apply_model_settings(&model, options.dense_share, &mut read_options)?;
        let mut documents: Box<dyn Iterator<Item = Result<Document, CorpusError>>> =
            if let Some(text) = &self.text {
                Box::new(std::iter::once(Ok(text_document(text, &read_options))))
            } else {
                Box::new(Corpus::open(&self.corpora, read_options)?)
            };
        let mut is_first = true;
        loop {
            let batch: Vec<Document> =
                documents.by_ref().take(BATCH).collect::<Result<_, CorpusError>>()?;
            if batch.is_empty() {
                break;
            }
            for (document, explanation) in batch.iter().zip(explain(&classifier, &batch, &options)?)
            {
                let written = match self.to {
                    OutputFormat::Jsonl => {
                        let json = explanation.json(&model, &document.id, self.terms);
                        writeln!(out, "{json}")
                    }
                    OutputFormat::Html => {
                        let text = match &document.content {
                            Content::Text(text) => text.clone(),
                            Content::Fields(fields) => fields.join("\n"),
                            Content::Features(_) => String::new(),
                        };
                        let head = if is_first { page_head(&model) } else { String::new() };
                        is_first = false;
                        let section =
                            page_section(&explanation, &model, &document.id, &text, self.neighbors);
                        write!(out, "{head}{section}")
                    }
                    OutputFormat::Text => {
                        let text = terminal(&explanation, &model, &document.id, self.neighbors);
                        let gap = if is_first { "" } else { "\n" };
                        is_first = false;
                        write!(out, "{gap}{text}")
                    }
                };
                written.map_err(|error| out.error(error))?;
            }
        }
        if self.to == OutputFormat::Html {
            let head = if is_first { page_head(&model) } else { String::new() };
            write!(out, "{head}{PAGE_TAIL}").map_err(|error| out.error(error))?;
        }
        Ok(out.commit()?)
    }
}

/// Wraps the text given with `--text` in a document, with its vector if there is an encoder.
pub(super) fn text_document(text: &str, read_options: &ReadOptions) -> Document {
    let encoder = read_options.encoder.as_ref();
    Document {
        id: "text".to_owned(),
        content: Content::Text(text.to_owned()),
        labels: Vec::new(),
        weight: 1.0,
        vector: encoder.and_then(|encoder| encoder.encode(&[text.into()]).pop()),
        group: None,
        place: Place { source: "--text".into(), line: None },
    }
}
