//! `classify predict`

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use array_file::output::Output;
use clap::ValueEnum;
use classify::classifier::{Classifier, Prediction, Searchers};
use classify::corpus::{Corpus, LabelUse};
use classify::model::Model;
use classify::search::Neighbor;
use classify::stream::{Answers, StreamError, classify_stream, classify_vectors};
use classify::threads::Threads;
use classify::vectors::StoredVectors;
use classify::vote::{LabelScore, LearnedVotes};
use serde::Serialize;

use super::deciding::Deciding;
use super::failure::Failure;
use super::opening::Opening;
use super::outputs::Files;
use super::progress::{Progress, Talk};
use super::reading::{Reading, fit, open};
use super::searching::Searching;

#[derive(Debug, clap::Args)]
pub(crate) struct Predict {
    /// The model
    model: PathBuf,
    /// Documents: files, folders, a file written by `classify vectorize`, or - for standard input
    /// (plain lines or JSONL)
    #[arg(value_name = "CORPUS", default_value = "-")]
    corpora: Vec<PathBuf>,
    /// Where to write the predictions [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The format of the predictions
    #[arg(long, value_enum, default_value_t = Form::Jsonl)]
    to: Form,
    /// Include the N best labels with their scores, assigned or not
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// What else to include for each document
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT")]
    with: Vec<Extra>,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    opening: Opening,
    #[command(flatten)]
    deciding: Deciding,
    #[command(flatten)]
    searching: Searching,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// One JSON object per document
    Jsonl,
    /// Comma-separated values with a header; labels are separated by semicolons
    Csv,
    /// Tab-separated values with a header; labels are separated by semicolons
    Tsv,
    /// One line `__label__x __label__y` per document; white space in labels becomes _
    Fasttext,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Extra {
    /// The training documents that voted, with similarities and labels
    Neighbors,
    /// Each label's share of the vote
    Scores,
}

impl Predict {
    pub(crate) fn run(self, threads: &Threads, talk: Talk) -> Result<(), Failure> {
        if self.to == Form::Fasttext && (self.top.is_some() || !self.with.is_empty()) {
            let message = "fastText lines have no place for --top and --with";
            return Err(Failure::Usage(message.into()));
        }
        let files = Files::default().reads_corpora(&self.corpora, self.reading.format());
        let mut files = files.reads([&self.model]).reads(self.reading.files());
        let out = files.text(self.output.as_deref().unwrap_or(Path::new("-")))?;
        let model = Arc::new(self.opening.model(&self.model)?);
        let engines = self.searching.engines(threads, talk)?;
        self.deciding.refuse_learning()?;
        let options = self.deciding.change(&model)?;
        let searchers = Searchers::of(&model, options.dense_share, &engines)?;
        let classifier = Classifier::with_searchers(Arc::clone(&model), searchers, threads);
        let progress = Progress::new(talk, "predicting", &self.corpora);
        let source = match self.corpora.as_slice() {
            [vectors] if StoredVectors::is_at(vectors) => {
                self.reading.refuse_beside_vectors()?;
                Source::Vectors(Box::new(self.opening.vectors(vectors, &model)?))
            }
            corpora => {
                let mut read = self.reading.options(LabelUse::Optional)?;
                read.threads = Some(threads.clone());
                fit(&model, options.dense_share, &mut read)?;
                Source::Corpus(open(corpora, read, talk, &progress)?)
            }
        };
        let learned = model.learned_votes().filter(|_| options.vote.learned);
        let mut written =
            Written { model: &model, learned, command: &self, progress: &progress, out, count: 0 };
        let given = written.header().map_err(StreamError::Answer).and_then(|()| match source {
            Source::Corpus(corpus) => classify_stream(&classifier, &options, corpus, &mut written),
            Source::Vectors(stored) => {
                classify_vectors(&classifier, &options, &stored, &mut written)
            }
        });
        match given {
            Ok(stages) => {
                talk.stages(&stages);
                Ok(written.out.commit()?)
            }
            Err(StreamError::Answer(error)) => Err(written.out.error(error).into()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Where the documents come from.
enum Source {
    Corpus(Corpus),
    Vectors(Box<StoredVectors>),
}

/// Writes predictions.
struct Written<'a> {
    model: &'a Model,
    /// What votes are worth, if learned votes are counted.
    learned: Option<&'a LearnedVotes>,
    command: &'a Predict,
    progress: &'a Progress,
    out: Output,
    count: u64,
}

impl Answers for Written<'_> {
    type Error = std::io::Error;

    fn answer(&mut self, id: &str, prediction: &Prediction) -> std::io::Result<()> {
        self.count += 1;
        self.write(id, prediction)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.progress.tick(self.count);
        self.out.flush()
    }
}

impl Written<'_> {
    fn has(&self, extra: Extra) -> bool {
        self.command.with.contains(&extra)
    }

    fn separator(&self) -> u8 {
        if self.command.to == Form::Tsv { b'\t' } else { b',' }
    }

    fn record(&mut self, fields: &[String]) -> std::io::Result<()> {
        let separator = self.separator();
        let mut csv = csv::WriterBuilder::new().delimiter(separator).from_writer(&mut self.out);
        csv.write_record(fields)?;
        csv.flush()
    }

    fn header(&mut self) -> std::io::Result<()> {
        if !matches!(self.command.to, Form::Csv | Form::Tsv) {
            return Ok(());
        }
        let mut names = vec!["id", "labels", "score", "probability", "confidence", "reason"];
        if self.has(Extra::Scores) || self.command.top.is_some() {
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

    fn write(&mut self, id: &str, prediction: &Prediction) -> std::io::Result<()> {
        let answer = self.in_words(id, prediction);
        match self.command.to {
            Form::Jsonl => {
                serde_json::to_writer(&mut self.out, &answer)?;
                self.out.write_all(b"\n")
            }
            Form::Fasttext => {
                let labels: Vec<String> = answer
                    .labels
                    .iter()
                    .map(|label| format!("__label__{}", label.replace(char::is_whitespace, "_")))
                    .collect();
                writeln!(self.out, "{}", labels.join(" "))
            }
            Form::Csv | Form::Tsv => {
                let mut fields = vec![
                    answer.id.to_owned(),
                    answer.labels.join(";"),
                    answer.score.map_or(String::new(), |score| score.to_string()),
                    answer.probability.map_or(String::new(), |share| share.to_string()),
                    answer.confidence.map_or(String::new(), |share| share.to_string()),
                    answer.reason.unwrap_or_default().to_owned(),
                ];
                if let Some(scores) = &answer.scores {
                    let scores = scores.iter().map(|s| format!("{}={}", s.label, s.score));
                    fields.push(scores.collect::<Vec<_>>().join(";"));
                }
                let joined = |neighbors: &[Near<'_>]| {
                    let near =
                        |n: &Near<'_>| format!("{}={}[{}]", n.id, n.similarity, n.labels.join(","));
                    neighbors.iter().map(near).collect::<Vec<_>>().join(";")
                };
                if let Some(neighbors) = &answer.neighbors {
                    fields.push(joined(neighbors));
                    if self.model.searches_both() {
                        fields.push(joined(answer.by_vectors.as_deref().unwrap_or_default()));
                    }
                }
                self.record(&fields)
            }
        }
    }

    fn in_words<'a>(&self, id: &'a str, prediction: &'a Prediction) -> Answer<'a>
    where
        Self: 'a,
    {
        let model = self.model;
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
        let near = |neighbors: &[Neighbor]| {
            let near = |neighbor: &Neighbor| Near {
                id: model.ids().get(neighbor.row as usize).unwrap_or_default(),
                similarity: neighbor.similarity,
                labels: model.document_labels(neighbor.row).iter().map(|&l| label(l)).collect(),
                worth: self.learned.map(|votes| {
                    let worth = votes.of(neighbor.row).map(|of| (label(of.label), of.worth));
                    worth.filter(|(_, worth)| *worth != 0.0).collect()
                }),
            };
            neighbors.iter().map(near).collect()
        };
        let neighbors = self.has(Extra::Neighbors).then(|| near(&prediction.neighbors));
        let by_vectors = neighbors.is_some() && !prediction.by_vectors.is_empty();
        let by_vectors = by_vectors.then(|| near(&prediction.by_vectors));
        Answer {
            id,
            labels: prediction.labels.iter().map(|&l| label(l)).collect(),
            score: prediction.scores.first().map(|score| score.score),
            probability: prediction.probabilities.first().copied(),
            confidence: prediction.confidence,
            reason: prediction.reason.map(classify::classifier::Reason::name),
            scores,
            neighbors,
            by_vectors,
        }
    }
}

/// One line of the output.
#[derive(Serialize)]
struct Answer<'a> {
    id: &'a str,
    labels: Vec<&'a str>,
    /// The share of the vote of the best label.
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f64>,
    /// The probability that the best label is right; only if the model is calibrated.
    #[serde(skip_serializing_if = "Option::is_none")]
    probability: Option<f64>,
    /// The share of the labels given that should be right; only if the model is calibrated.
    #[serde(skip_serializing_if = "Option::is_none")]
    confidence: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scores: Option<Vec<Scored<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    neighbors: Option<Vec<Near<'a>>>,
    /// The neighbors by dense vectors, beside those by terms.
    #[serde(skip_serializing_if = "Option::is_none")]
    by_vectors: Option<Vec<Near<'a>>>,
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
    /// What the neighbor's vote is worth for labels, if that was learned.
    #[serde(skip_serializing_if = "Option::is_none")]
    worth: Option<BTreeMap<&'a str, f32>>,
}
