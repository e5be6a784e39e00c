//! `classify predict`

use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, sync_channel};

use clap::ValueEnum;
use classify::classifier::{Classifier, Prediction};
use classify::corpus::{Corpus, CorpusError, Document, LabelUse};
use classify::model::Model;
use classify::threads::Threads;
use classify::vectors::StoredVectors;
use classify::vote::LabelScore;
use metric_index::output::write_atomically;
use serde::Serialize;

use super::arguments::{Reading, batch_size, fit_to_model, not_an_input, open};
use super::deciding::Deciding;
use super::failure::Failure;
use super::progress::{Progress, Talk};
use super::searching::Searching;

/// Documents that are classified together when they come faster than one by one.
const BATCH: usize = 1_024;
/// Vectors from a file that are classified together.
const STORED_BATCH: usize = 16_384;

#[derive(Debug, clap::Args)]
pub(crate) struct Predict {
    /// The model
    model: PathBuf,
    /// Documents: files, folders, a file of `classify vectorize`, or - for standard input (plain lines or
    /// JSONL)
    #[arg(value_name = "CORPUS", default_value = "-")]
    corpora: Vec<PathBuf>,
    /// Where the answers are written [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The form of the answers
    #[arg(long, value_enum, default_value_t = Form::Jsonl)]
    to: Form,
    /// Give the N best labels with their scores, decided for or not
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// What else to give for each document
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT")]
    with: Vec<Extra>,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    deciding: Deciding,
    #[command(flatten)]
    searching: Searching,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// One JSON object a document
    Jsonl,
    /// Comma-separated values with a header; labels are separated by semicolons
    Csv,
    /// Tab-separated values with a header; labels are separated by semicolons
    Tsv,
    /// `__label__x __label__y` a line; white space in labels becomes _
    Fasttext,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Extra {
    /// The training documents that voted, with similarity and labels
    Neighbors,
    /// The labels' shares of the vote
    Scores,
}

impl Predict {
    pub(crate) fn run(self, threads: &Threads, talk: Talk) -> Result<(), Failure> {
        if self.to == Form::Fasttext && (self.top.is_some() || !self.with.is_empty()) {
            let message = "fastText lines have no place for --top and --with";
            return Err(Failure::Usage(message.into()));
        }
        let output = self.output.as_deref().filter(|path| path.as_os_str() != "-");
        if let Some(path) = output {
            not_an_input(path, std::iter::once(&self.model).chain(&self.corpora))?;
        }
        let model = Model::open(&self.model)?;
        let engines = self.searching.engines(threads, talk)?;
        let engine = engines.engine(model.rows())?;
        let mut classifier = Classifier::with_engine(&model, engine, threads);
        self.deciding.refuse_learning()?;
        self.deciding.change(&mut classifier)?;
        let progress = Progress::new(talk, "predicting", &self.corpora);
        let source = match self.corpora.as_slice() {
            [vectors] if StoredVectors::is_at(vectors) => {
                self.reading.refuse_beside_vectors()?;
                Source::Vectors(Box::new(StoredVectors::open(vectors, &model)?))
            }
            corpora => {
                let mut options = self.reading.options(LabelUse::Optional)?;
                fit_to_model(&mut options, &model);
                Source::Corpus(open(corpora, options, talk, &progress)?)
            }
        };
        let answers = Answers { classifier: &classifier, command: &self, progress: &progress };
        match output {
            Some(path) => {
                let mut failure = None;
                let written = write_atomically(path, |out| {
                    answers.give(source, out).map_err(|error| match error {
                        Failure::Output { error, .. } => error,
                        other => {
                            failure = Some(other);
                            std::io::Error::other("the corpus failed")
                        }
                    })
                });
                match failure {
                    Some(failure) => Err(failure),
                    None => written.map_err(Failure::output(path)),
                }
            }
            None => answers.give(source, BufWriter::new(std::io::stdout().lock())),
        }
    }
}

struct Answers<'a> {
    classifier: &'a Classifier<'a>,
    command: &'a Predict,
    progress: &'a Progress,
}

type Read = Result<Document, CorpusError>;

/// Where documents come from.
enum Source {
    Corpus(Corpus),
    Vectors(Box<StoredVectors>),
}

impl Answers<'_> {
    fn give(&self, source: Source, mut out: impl Write) -> Result<(), Failure> {
        self.header(&mut out).map_err(Failure::stdout)?;
        match source {
            Source::Corpus(corpus) => self.stream(corpus, out),
            Source::Vectors(stored) => self.answer_stored(&stored, &mut out),
        }
    }

    fn answer_stored(&self, stored: &StoredVectors, out: &mut impl Write) -> Result<(), Failure> {
        let (classifier, count) = (self.classifier, stored.len());
        let whole = classifier.decision.needs_batch();
        let batch = if whole { count.max(1) } else { batch_size(STORED_BATCH, classifier.k) };
        for start in (0..count).step_by(batch) {
            let end = (start + batch).min(count);
            let (documents, vectors) = stored.batch(start..end);
            let neighbors = classifier.neighbors(&vectors, classifier.k)?;
            let predictions = classifier.predict(&vectors, neighbors);
            for (document, prediction) in documents.iter().zip(&predictions) {
                self.write(out, &document.id, prediction).map_err(Failure::stdout)?;
            }
            self.progress.tick(end as u64);
        }
        out.flush().map_err(Failure::stdout)
    }

    /// Reads, classifies and writes: documents that are there already go together, so that a
    /// slow source gets each answer at once and a fast one full batches.
    fn stream(&self, corpus: Corpus, mut out: impl Write) -> Result<(), Failure> {
        let (sender, receiver) = sync_channel::<Read>(BATCH / 4);
        // Not joined: a reader that waits for input must not hold up the end after a failure.
        std::thread::spawn(move || {
            for document in corpus {
                if sender.send(document).is_err() {
                    break;
                }
            }
        });
        self.answer_all(&receiver, &mut out)
    }

    fn answer_all(&self, receiver: &Receiver<Read>, out: &mut impl Write) -> Result<(), Failure> {
        let mut answered = 0;
        let batch = batch_size(BATCH, self.classifier.k);
        let whole = self.classifier.decision.needs_batch();
        while let Ok(first) = receiver.recv() {
            let mut documents = Vec::new();
            let mut failed = None;
            // Some rules decide on all documents together: they are waited for.
            let more: &mut dyn Iterator<Item = Read> =
                if whole { &mut receiver.iter() } else { &mut receiver.try_iter().take(batch - 1) };
            for read in std::iter::once(first).chain(more) {
                match read {
                    Ok(document) => documents.push(document),
                    Err(error) => failed = Some(Failure::from(error)),
                }
            }
            let predictions = match self.classifier.classify(&documents) {
                Ok(predictions) => predictions,
                Err(error) => {
                    // The answers before the document that does not fit are given.
                    documents.truncate(self.fitting(&documents));
                    failed = failed.map_or(Some(Failure::from(error)), Some);
                    self.classifier.classify(&documents)?
                }
            };
            for (document, prediction) in documents.iter().zip(&predictions) {
                self.write(out, &document.id, prediction).map_err(Failure::stdout)?;
            }
            out.flush().map_err(Failure::stdout)?;
            answered += documents.len() as u64;
            self.progress.tick(answered);
            if let Some(failure) = failed {
                return Err(failure);
            }
        }
        Ok(())
    }

    /// How many of the first documents can be classified.
    fn fitting(&self, documents: &[Document]) -> usize {
        let fits =
            |document: &Document| self.classifier.vectorize(std::slice::from_ref(document)).is_ok();
        documents.iter().take_while(|document| fits(document)).count()
    }

    fn has(&self, extra: Extra) -> bool {
        self.command.with.contains(&extra)
    }

    fn separator(&self) -> u8 {
        if self.command.to == Form::Tsv { b'\t' } else { b',' }
    }

    fn record(&self, out: &mut impl Write, fields: &[String]) -> std::io::Result<()> {
        let mut csv = csv::WriterBuilder::new().delimiter(self.separator()).from_writer(out);
        csv.write_record(fields)?;
        csv.flush()
    }

    fn header(&self, out: &mut impl Write) -> std::io::Result<()> {
        if !matches!(self.command.to, Form::Csv | Form::Tsv) {
            return Ok(());
        }
        let mut names = vec!["id", "labels", "score", "probability", "reason"];
        if self.has(Extra::Scores) || self.command.top.is_some() {
            names.push("scores");
        }
        if self.has(Extra::Neighbors) {
            names.push("neighbors");
        }
        self.record(out, &names.into_iter().map(str::to_owned).collect::<Vec<_>>())
    }

    fn write(
        &self,
        out: &mut impl Write,
        id: &str,
        prediction: &Prediction,
    ) -> std::io::Result<()> {
        let answer = self.answer(id, prediction);
        match self.command.to {
            Form::Jsonl => {
                serde_json::to_writer(&mut *out, &answer)?;
                out.write_all(b"\n")
            }
            Form::Fasttext => {
                let labels: Vec<String> = answer
                    .labels
                    .iter()
                    .map(|label| format!("__label__{}", label.replace(char::is_whitespace, "_")))
                    .collect();
                writeln!(out, "{}", labels.join(" "))
            }
            Form::Csv | Form::Tsv => {
                let mut fields = vec![
                    answer.id.to_owned(),
                    answer.labels.join(";"),
                    answer.score.map_or(String::new(), |score| score.to_string()),
                    answer.probability.map_or(String::new(), |share| share.to_string()),
                    answer.reason.unwrap_or_default().to_owned(),
                ];
                if let Some(scores) = &answer.scores {
                    let scores = scores.iter().map(|s| format!("{}={}", s.label, s.score));
                    fields.push(scores.collect::<Vec<_>>().join(";"));
                }
                if let Some(neighbors) = &answer.neighbors {
                    let neighbors = neighbors
                        .iter()
                        .map(|n| format!("{}={}[{}]", n.id, n.similarity, n.labels.join(",")));
                    fields.push(neighbors.collect::<Vec<_>>().join(";"));
                }
                self.record(out, &fields)
            }
        }
    }

    fn answer<'a>(&'a self, id: &'a str, prediction: &'a Prediction) -> Answer<'a> {
        let model = self.classifier.model();
        let label = |label: u32| model.labels().get(label as usize).unwrap_or_default();
        let scores = (self.has(Extra::Scores) || self.command.top.is_some()).then(|| {
            let shown = self.command.top.unwrap_or(usize::MAX);
            let shown = prediction.scores.iter().take(shown).enumerate();
            let scored = |(at, s): (usize, &LabelScore)| {
                let probability = prediction.probabilities.get(at).copied();
                Scored { label: label(s.label), score: s.score, probability }
            };
            shown.map(scored).collect()
        });
        let neighbors = self.has(Extra::Neighbors).then(|| {
            let neighbors = prediction.neighbors.iter().map(|neighbor| Near {
                id: model.ids().get(neighbor.row as usize).unwrap_or_default(),
                similarity: neighbor.similarity,
                labels: model.document_labels(neighbor.row).iter().map(|&l| label(l)).collect(),
            });
            neighbors.collect()
        });
        Answer {
            id,
            labels: prediction.labels.iter().map(|&l| label(l)).collect(),
            score: prediction.scores.first().map(|score| score.score),
            probability: prediction.probabilities.first().copied(),
            reason: prediction.reason.map(classify::classifier::Reason::name),
            scores,
            neighbors,
        }
    }
}

/// One line of the output.
#[derive(Serialize)]
struct Answer<'a> {
    id: &'a str,
    labels: Vec<&'a str>,
    /// The best label's share of the vote.
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f64>,
    /// The probability that the best label is right, of a calibrated model.
    #[serde(skip_serializing_if = "Option::is_none")]
    probability: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scores: Option<Vec<Scored<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    neighbors: Option<Vec<Near<'a>>>,
}

#[derive(Serialize)]
struct Scored<'a> {
    label: &'a str,
    score: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    probability: Option<f64>,
}

#[derive(Serialize)]
struct Near<'a> {
    id: &'a str,
    similarity: f32,
    labels: Vec<&'a str>,
}
