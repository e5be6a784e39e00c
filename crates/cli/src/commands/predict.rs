//! `classify predict`

use std::io::{IsTerminal, Write, stdin};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use array_file::output::Output;
use clap::ValueEnum;
use classify::classifier::answer::{Answer, Extras};
use classify::classifier::explain::{Explanation, explain};
use classify::classifier::stream::{Answers, Source, StreamError, StreamSummary, classify_stream};
use classify::classifier::vectors::StoredVectors;
use classify::classifier::{
    Classifier, ClassifyOptions, NamedNeighbor, Probabilities, RawPrediction, Searchers,
};
use classify::decide::vote::LearnedVotes;
use classify::model::Model;
use classify::stages::PipelineProgress;
use classify::text::corpus::{CorpusError, Document, LabelUse};
use classify::threads::Threads;

use crate::commands::explain::text_document;
use crate::failure::Failure;
use crate::flags::deciding::DecisionFlags;
use crate::flags::opening::OpeningFlags;
use crate::flags::reading::{ReadingFlags, apply_model_settings, open};
use crate::flags::searching::SearchFlags;
use crate::output::files::Files;
use crate::output::notes;
use crate::output::progress::{Progress, Verbosity};

#[derive(Debug, clap::Args)]
pub(crate) struct Predict {
    /// The model
    model: PathBuf,
    /// Documents: files, folders, a file written by `classify vectorize`, or - for standard input
    /// (plain lines or JSONL)
    #[arg(value_name = "CORPUS", default_value = "-")]
    corpora: Vec<PathBuf>,
    /// Predict the labels of this text
    #[arg(long, value_name = "TEXT", conflicts_with = "corpora")]
    text: Option<String>,
    /// Where to write the predictions [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The format of the predictions
    #[arg(long, value_enum, default_value_t = OutputFormat::Jsonl)]
    to: OutputFormat,
    /// Include the scores of the N best labels, predicted or not
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// The details to include for each document
    #[arg(long, value_enum, value_delimiter = ',', value_name = "DETAILS")]
    with: Vec<Extra>,
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
    /// One JSON object per document
    Jsonl,
    /// Comma-separated values with a header; labels are separated by semicolons
    Csv,
    /// Tab-separated values with a header; labels are separated by semicolons
    Tsv,
    /// One line `__label__x __label__y` per document, with _ for white space in labels
    Fasttext,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Extra {
    /// The training documents that voted, with their similarities and labels
    Neighbors,
    /// Each label's share of the vote
    Scores,
    /// The explanation of the prediction, as in `classify explain --to jsonl` (JSONL only)
    Explanation,
}

impl Predict {
    pub(crate) fn run(self, threads: &Threads, verbosity: Verbosity) -> Result<(), Failure> {
        if self.to == OutputFormat::Fasttext && (self.top.is_some() || !self.with.is_empty()) {
            let message = "--to fasttext conflicts with --top and --with: use --to jsonl";
            return Err(Failure::Usage(message.into()));
        }
        let explains = self.with.contains(&Extra::Explanation);
        if explains && self.to != OutputFormat::Jsonl {
            let message = "--with explanation needs --to jsonl";
            return Err(Failure::Usage(message.into()));
        }
        let files = Files::default().with_corpora(&self.corpora, self.reading.format());
        let mut files = files.with_inputs([&self.model]).with_inputs(self.reading.files());
        let out = files.text(self.output.as_deref().unwrap_or(Path::new("-")))?;
        let open_model = || Ok(self.opening.model_on(&self.model, threads)?);
        let (engines, _, model) = self.searching.engines_while(threads, open_model)?;
        SearchFlags::report(&engines, verbosity);
        let model = Arc::new(model);
        self.deciding.refuse_learning()?;
        let mut options = self.deciding.change(&model)?;
        if !self.shows_scores() && !explains {
            options.probabilities = Probabilities::Predicted;
        }
        let searchers = Searchers::of(&model, options.dense_share, &engines)?;
        let classifier = Classifier::with_searchers(Arc::clone(&model), searchers, threads);
        if self.text.is_none() && self.corpora == [Path::new("-")] && stdin().is_terminal() {
            verbosity.print("reading documents from the terminal, one per line, until Ctrl-D");
        }
        let progress = Progress::new(verbosity, "predicting", &self.corpora);
        let source = match self.corpora.as_slice() {
            [vectors] if StoredVectors::is_at(vectors) => {
                self.reading.refuse_with_vectors()?;
                Source::from(self.opening.vectors(vectors, &model)?)
            }
            corpora => {
                let mut read_options = self.reading.options(LabelUse::Optional, Some(threads))?;
                apply_model_settings(&model, options.dense_share, &mut read_options)?;
                Source::Documents(match &self.text {
                    Some(text) => Box::new(std::iter::once(Ok(text_document(text, &read_options)))),
                    None => Box::new(open(corpora, read_options, verbosity, &progress)?),
                })
            }
        };
        let learned = model.learned_votes().filter(|_| options.vote.learned);
        let formatter = Formatter { model: &model, learned, command: &self };
        let mut writer = LineWriter { progress: &progress, out, count: 0 };
        if explains {
            let Source::Documents(documents) = source else {
                let message = "--with explanation needs the documents: name the corpus instead of \
                               the vectors file";
                return Err(Failure::Usage(message.into()));
            };
            writer.explained(&formatter, &classifier, &options, documents)?;
            return Ok(writer.out.commit()?);
        }
        let line = |id: &str, prediction: &RawPrediction| formatter.line(id, prediction);
        let header = formatter.header().and_then(|header| writer.out.write_all(&header));
        let outcome = header
            .map_err(StreamError::Answer)
            .and_then(|()| classify_stream(&classifier, &options, source, line, &mut writer));
        match outcome {
            Ok(StreamSummary { stages, shift }) => {
                verbosity.stages(&stages);
                let _ = notes::report_shift(shift, verbosity);
                Ok(writer.out.commit()?)
            }
            Err(StreamError::Answer(error)) => Err(writer.out.error(error).into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the output includes the scores of labels that were not predicted.
    fn shows_scores(&self) -> bool {
        self.with.contains(&Extra::Scores) || self.top.is_some()
    }
}

/// Formats predictions as lines.
struct Formatter<'a> {
    model: &'a Model,
    /// The learned vote weights, if the vote uses them.
    learned: Option<&'a LearnedVotes>,
    command: &'a Predict,
}

/// Writes predictions as lines.
struct LineWriter<'a> {
    progress: &'a Progress,
    out: Output,
    count: u64,
}

impl Answers for LineWriter<'_> {
    type Error = std::io::Error;
    type Formatted = std::io::Result<Vec<u8>>;

    fn answer(&mut self, line: Self::Formatted) -> std::io::Result<()> {
        self.count += 1;
        self.out.write_all(&line?)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }

    fn progress(&mut self, so_far: &PipelineProgress<'_>) {
        self.progress.tick_stages(so_far);
    }
}

/// Maximum number of documents explained per batch.
const MAX_EXPLAINED: usize = 64;
/// Maximum number of terms for and against a label.
const TERMS: usize = 20;

impl LineWriter<'_> {
    /// Writes predictions with explanations.
    fn explained(
        &mut self,
        formatter: &Formatter<'_>,
        classifier: &Classifier,
        options: &ClassifyOptions,
        documents: impl Iterator<Item = Result<Document, CorpusError>> + Send,
    ) -> Result<(), Failure> {
        if options.decision.needs_batch() {
            let message = "--with explanation cannot explain the rule pcut, which decides on whole \
                           batches: choose another rule with --rule";
            return Err(Failure::Usage(message.into()));
        }
        // Documents that are read while a batch is explained form the next batch.
        std::thread::scope(|scope| {
            let (read, waiting) = sync_channel::<Result<Document, CorpusError>>(MAX_EXPLAINED);
            let reader = std::thread::Builder::new().name("reader".to_owned());
            let reader = reader.spawn_scoped(scope, move || {
                for document in documents {
                    if read.send(document).is_err() {
                        break;
                    }
                }
            });
            reader.map_err(Failure::Thread)?;
            while let Ok(first) = waiting.recv() {
                let mut batch = Vec::new();
                let mut failed = None;
                for document in std::iter::once(first).chain(waiting.try_iter().take(MAX_EXPLAINED))
                {
                    match document {
                        Ok(document) => batch.push(document),
                        Err(error) => failed = Some(error),
                    }
                }
                for (document, explanation) in
                    batch.iter().zip(explain(classifier, &batch, options)?)
                {
                    let line = formatter.explained(&document.id, &explanation);
                    self.answer(line).map_err(|error| self.out.error(error))?;
                }
                self.progress.tick(self.count);
                self.flush().map_err(|error| self.out.error(error))?;
                if let Some(error) = failed {
                    return Err(error.into());
                }
            }
            Ok(())
        })
    }
}

impl Formatter<'_> {
    fn explained(&self, id: &str, explanation: &Explanation) -> std::io::Result<Vec<u8>> {
        let mut answer = self.answer(id, &explanation.prediction);
        answer.explanation = Some(explanation.named(self.model, id, TERMS));
        json(&answer)
    }

    fn has(&self, extra: Extra) -> bool {
        self.command.with.contains(&extra)
    }

    fn separator(&self) -> u8 {
        if self.command.to == OutputFormat::Tsv { b'\t' } else { b',' }
    }

    fn record(&self, fields: &[String]) -> std::io::Result<Vec<u8>> {
        let mut line = Vec::new();
        let separator = self.separator();
        let mut csv = csv::WriterBuilder::new().delimiter(separator).from_writer(&mut line);
        csv.write_record(fields)?;
        csv.flush()?;
        drop(csv);
        Ok(line)
    }

    fn header(&self) -> std::io::Result<Vec<u8>> {
        if !matches!(self.command.to, OutputFormat::Csv | OutputFormat::Tsv) {
            return Ok(Vec::new());
        }
        let mut names = vec!["id", "labels", "score", "probability", "confidence", "reason"];
        if self.command.shows_scores() {
            names.push("scores");
        }
        if self.has(Extra::Neighbors) {
            names.push("neighbors");
            if self.model.searches_both() {
                names.push("by_vectors");
            }
        }
        self.record(&names.into_iter().map(str::to_owned).collect::<Vec<_>>())
    }

    /// Joins labels into one field. The separator is `;`, but if any label of the model contains
    /// `;`, the field is a JSON list.
    fn joined_labels(&self, labels: &[&str]) -> std::io::Result<String> {
        if self.model.labels().iter().any(|label| label.contains(';')) {
            Ok(serde_json::to_string(labels)?)
        } else {
            Ok(labels.join(";"))
        }
    }

    fn line(&self, id: &str, prediction: &RawPrediction) -> std::io::Result<Vec<u8>> {
        let answer = self.answer(id, prediction);
        match self.command.to {
            OutputFormat::Jsonl => json(&answer),
            OutputFormat::Fasttext => {
                let labels: Vec<String> = answer
                    .labels
                    .iter()
                    .map(|label| format!("__label__{}", label.replace(char::is_whitespace, "_")))
                    .collect();
                Ok(format!("{}\n", labels.join(" ")).into_bytes())
            }
            OutputFormat::Csv | OutputFormat::Tsv => {
                let mut fields = vec![
                    answer.id.to_owned(),
                    self.joined_labels(&answer.labels)?,
                    answer.score.map_or(String::new(), |score| score.to_string()),
                    answer.probability.map_or(String::new(), |share| share.to_string()),
                    answer.confidence.map_or(String::new(), |share| share.to_string()),
                    answer.reason.unwrap_or_default().to_owned(),
                ];
                if let Some(scores) = &answer.scores {
                    let scores = scores.iter().map(|s| format!("{}={}", s.label, s.score));
                    fields.push(scores.collect::<Vec<_>>().join(";"));
                }
                let format_neighbors = |neighbors: &[NamedNeighbor<'_>]| {
                    let format_neighbor = |n: &NamedNeighbor<'_>| {
                        format!("{}={}[{}]", n.id, n.similarity, n.labels.join(","))
                    };
                    neighbors.iter().map(format_neighbor).collect::<Vec<_>>().join(";")
                };
                if let Some(neighbors) = &answer.neighbors {
                    fields.push(format_neighbors(neighbors));
                    if self.model.searches_both() {
                        fields.push(format_neighbors(
                            answer.by_vectors.as_deref().unwrap_or_default(),
                        ));
                    }
                }
                self.record(&fields)
            }
        }
    }

    fn answer<'a>(&'a self, id: &'a str, prediction: &RawPrediction) -> Answer<'a> {
        let extras = Extras {
            scores: self.command.shows_scores().then(|| self.command.top.unwrap_or(usize::MAX)),
            neighbors: self.has(Extra::Neighbors),
            texts: false,
            learned: self.learned,
        };
        Answer::new(self.model, id, prediction, extras)
    }
}

/// Formats a prediction as a line of JSON.
fn json(answer: &Answer<'_>) -> std::io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    Ok(line)
}
