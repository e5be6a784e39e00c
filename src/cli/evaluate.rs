//! `classify evaluate`

use std::io::Write;
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::time::Instant;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use classify::classifier::{Classifier, Vectors};
use classify::corpus::preset::{Documents, Preset};
use classify::corpus::{CorpusError, Document, LabelUse, Place, Problem};
use classify::evaluate::{Evaluator, Stage, html, markdown, terminal};
use classify::model::Model;
use classify::search::{Engines, Neighbor};
use classify::threads::Threads;
use classify::vectors::{Labeled, StoredVectors, VectorsError, VectorsProblem};
use metric_index::output::write_atomically;

use super::arguments::{Reading, Training, batch_size, fit_to_model, name, not_an_input, open};
use super::failure::Failure;
use super::progress::{Progress, Talk};
use super::searching::Searching;

/// Batches that wait between two stages.
const QUEUE: usize = 2;

#[derive(Debug, clap::Args)]
#[command(override_usage = "classify evaluate [OPTIONS] MODEL CORPUS...
       classify evaluate [OPTIONS] --train CORPUS --test CORPUS
       classify evaluate [OPTIONS] --train CORPUS --holdout 20%
       classify evaluate [OPTIONS] --preset NAME FOLDER")]
pub(crate) struct Evaluate {
    /// A model and test corpora or a file of `classify vectorize`, or the folder of a preset
    #[arg(value_name = "MODEL CORPUS")]
    paths: Vec<PathBuf>,
    /// Train on these corpora instead of opening a model
    #[arg(long, value_name = "CORPUS", num_args = 1.., conflicts_with = "preset")]
    train: Vec<PathBuf>,
    /// Test on these corpora
    #[arg(long, value_name = "CORPUS", num_args = 1.., requires = "train")]
    test: Vec<PathBuf>,
    /// Test on this share of the training corpora, drawn by --seed and kept out of training
    #[arg(long, value_name = "SHARE", requires = "train", conflicts_with = "test", value_parser = percent)]
    holdout: Option<f64>,
    /// A benchmark whose files, split and labels are known
    #[arg(long, value_enum, value_name = "NAME")]
    preset: Option<PresetArgument>,
    /// Test on the first N test documents only
    #[arg(long, value_name = "N")]
    subset: Option<NonZeroUsize>,
    /// Write the result as JSON (schema classify.evaluation/1)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Put the decisions on every document into the JSON, for `classify compare`
    #[arg(long, requires = "json")]
    per_document: bool,
    /// Write the result as one HTML page with charts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the result as Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    training: Training,
    #[command(flatten)]
    searching: Searching,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|percent| percent.parse::<f64>().ok());
    let share = number.filter(|percent| *percent > 0.0 && *percent < 100.0);
    share.map(|percent| percent / 100.0).ok_or_else(|| "not a share like 20%".to_owned())
}

#[derive(Debug, Clone, Copy)]
struct PresetArgument(Preset);

const PRESETS: [PresetArgument; Preset::ALL.len()] = {
    let mut presets = [PresetArgument(Preset::Lyrl2004); Preset::ALL.len()];
    let mut index = 0;
    while index < presets.len() {
        presets[index] = PresetArgument(Preset::ALL[index]);
        index += 1;
    }
    presets
};

impl ValueEnum for PresetArgument {
    fn value_variants<'a>() -> &'a [Self] {
        &PRESETS
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()))
    }
}

impl Evaluate {
    pub(crate) fn run(self, threads: &Threads, seed: u64, talk: Talk) -> Result<(), Failure> {
        let inputs = || self.paths.iter().chain(&self.train).chain(&self.test);
        for output in self.json.iter().chain(&self.markdown).chain(&self.html) {
            not_an_input(output, inputs())?;
        }
        let mut stages = Stages::default();
        // A GPU that is not there is missed before anything is read.
        let engines = self.searching.engines(threads, talk)?;
        let (model, mut test) = self.model_and_test(&engines, seed, talk, &mut stages)?;
        test.limit(self.subset);
        let engine =
            stages.time("index", model.rows().rows() as u64, || engines.engine(model.rows()))?;
        let mut classifier = Classifier::with_engine(&model, engine, threads);
        let trained = self.preset.is_some() || !self.train.is_empty();
        if trained {
            self.training.deciding.change_trained(&mut classifier);
        } else {
            self.training.deciding.change(&mut classifier)?;
        }
        let mut evaluator = Evaluator::new(&classifier);
        if self.per_document {
            evaluator = evaluator.with_documents();
        }
        let stages = evaluate(&classifier, &mut evaluator, test, engines.batch(), stages, talk)?;
        let by = (classifier.k.get(), classifier.vote.to_string());
        let evaluation = evaluator.finish(by, seed, threads, stages);
        let report = terminal(&evaluation, talk.verbose);
        std::io::stdout().write_all(report.as_bytes()).map_err(Failure::stdout)?;
        if let Some(path) = &self.json {
            let mut json = serde_json::to_string_pretty(&evaluation)
                .map_err(|error| Failure::output(path)(error.into()))?;
            json.push('\n');
            write(path, &json)?;
        }
        if let Some(path) = &self.markdown {
            write(path, &markdown(&evaluation))?;
        }
        if let Some(path) = &self.html {
            let page = html(&evaluation).map_err(Failure::output(path))?;
            write(path, &page)?;
        }
        Ok(())
    }

    fn model_and_test(
        &self,
        engines: &Engines,
        seed: u64,
        talk: Talk,
        stages: &mut Stages,
    ) -> Result<(Model, Test), Failure> {
        let mut options = self.reading.options(LabelUse::Required)?;
        self.training.analysis.name_fields(&mut options);
        if let Some(PresetArgument(preset)) = self.preset {
            let [folder] = self.paths.as_slice() else {
                return Err(Failure::Usage("--preset NAME takes one folder".into()));
            };
            let mut sides = preset.open(folder, &options)?;
            talk.say(&format!("{}: {}", preset.name(), sides.note));
            // LYRL2004 columns are identifiers: any number is legal.
            let first_column = Some(0);
            let model =
                self.trained(&mut *sides.train, &[], first_column, engines, talk, stages)?;
            return Ok((
                model,
                Test {
                    source: Source::Documents(sides.test),
                    paths: Vec::new(),
                    name: name(&self.paths),
                },
            ));
        }
        if self.train.is_empty() {
            let [path, corpora @ ..] = self.paths.as_slice() else {
                let message = "give a MODEL and a CORPUS, or --train and --test, or --preset";
                return Err(Failure::Usage(message.into()));
            };
            if corpora.is_empty() {
                return Err(Failure::Usage("no test corpus after the model".into()));
            }
            self.training.refuse_beside_a_model()?;
            let start = Instant::now();
            let model = Model::open(path)?;
            stages.push("open the model", model.rows().rows() as u64, start);
            if let [vectors] = corpora
                && StoredVectors::is_at(vectors)
            {
                self.reading.refuse_beside_vectors()?;
                let start = Instant::now();
                let stored = StoredVectors::open(vectors, &model)?;
                if !stored.has_labels() {
                    let (path, problem) = (vectors.clone(), VectorsProblem::NoLabels);
                    return Err(VectorsError { path, problem }.into());
                }
                stages.push("open the vectors", stored.len() as u64, start);
                let source = Source::Vectors { count: stored.len(), stored: Box::new(stored) };
                return Ok((model, Test { source, paths: Vec::new(), name: name(corpora) }));
            }
            fit_to_model(&mut options, &model);
            let progress = Progress::new(talk, "testing", &[]);
            let documents = Box::new(open(corpora, options, talk, &progress)?);
            let source = Source::Documents(documents);
            return Ok((model, Test { source, paths: corpora.to_vec(), name: name(corpora) }));
        }
        let is_stdin = |path: &PathBuf| path.as_os_str() == "-";
        if self.train.iter().any(is_stdin)
            && (self.holdout.is_some() || self.test.iter().any(is_stdin))
        {
            return Err(Failure::Usage("standard input can be read only once".into()));
        }
        if !self.paths.is_empty() {
            return Err(Failure::Usage("--train takes the place of MODEL and CORPUS".into()));
        }
        let progress = Progress::new(talk, "training", &self.train);
        let first_column = options.first_column;
        let mut train: Documents = Box::new(open(&self.train, options.clone(), talk, &progress)?);
        let test: Documents = match self.holdout {
            Some(share) => {
                let test = open(&self.train, options, Talk { quiet: true, ..talk }, &progress)?;
                train = side(train, share, seed, false);
                side(Box::new(test), share, seed, true)
            }
            None if self.test.is_empty() => {
                return Err(Failure::Usage("--train needs --test or --holdout".into()));
            }
            None => Box::new(open(&self.test, options, talk, &progress)?),
        };
        drop(progress);
        let model = self.trained(&mut *train, &self.train, first_column, engines, talk, stages)?;
        let paths = if self.test.is_empty() { &self.train } else { &self.test };
        let source = Source::Documents(test);
        Ok((model, Test { source, paths: paths.clone(), name: name(paths) }))
    }

    fn trained(
        &self,
        documents: &mut (dyn Iterator<Item = Result<Document, CorpusError>> + Send),
        paths: &[PathBuf],
        first_column: Option<u32>,
        engines: &Engines,
        talk: Talk,
        stages: &mut Stages,
    ) -> Result<Model, Failure> {
        let progress = Progress::new(talk, "training", paths);
        let name = (&*name(paths), first_column);
        let start = Instant::now();
        let settled = self.training.settle(documents, name, false, engines, (&progress, talk))?;
        drop(progress);
        let trained = settled.counts.documents() as u64;
        stages.push("train: read, analyze", trained, start);
        Ok(stages.time("train: weigh", trained, || settled.model()))
    }
}

struct Test {
    source: Source,
    paths: Vec<PathBuf>,
    name: String,
}

/// Where test documents come from.
enum Source {
    Documents(Documents),
    /// The first `count` of a file.
    Vectors {
        stored: Box<StoredVectors>,
        count: usize,
    },
}

impl Test {
    /// Leaves out all but the first.
    fn limit(&mut self, most: Option<NonZeroUsize>) {
        let Some(most) = most else { return };
        match &mut self.source {
            Source::Documents(documents) => {
                let all = std::mem::replace(documents, Box::new(std::iter::empty()));
                *documents = Box::new(all.take(most.get()));
            }
            Source::Vectors { count, .. } => *count = most.get().min(*count),
        }
    }
}

/// A batch that was read.
enum Batch {
    Documents(Vec<Document>),
    Vectors(Vec<Labeled>, Vectors),
}

impl Batch {
    fn len(&self) -> usize {
        match self {
            Self::Documents(documents) => documents.len(),
            Self::Vectors(documents, _) => documents.len(),
        }
    }
}

/// The next batches of a source, of at most so many documents; none at the end.
fn batches(
    source: Source,
    most: usize,
) -> Box<dyn Iterator<Item = Result<Batch, CorpusError>> + Send> {
    match source {
        Source::Documents(mut documents) => Box::new(std::iter::from_fn(move || {
            let batch: Result<Vec<Document>, CorpusError> = documents.by_ref().take(most).collect();
            match batch {
                Ok(batch) if batch.is_empty() => None,
                batch => Some(batch.map(Batch::Documents)),
            }
        })),
        Source::Vectors { stored, count } => {
            let most = most.min(count).max(1);
            Box::new((0..count).step_by(most).map(move |start| {
                let (documents, vectors) = stored.batch(start..(start + most).min(count));
                Ok(Batch::Vectors(documents, vectors))
            }))
        }
    }
}

/// The documents that are held out, or those that are not: by a hash of the seed and the
/// document's number.
fn side(documents: Documents, share: f64, seed: u64, held_out: bool) -> Documents {
    let mut number = 0u64;
    Box::new(documents.filter(move |_| {
        number += 1;
        (unit(seed, number) < share) == held_out
    }))
}

/// A number in [0, 1) for each number: the finalizer of `SplitMix64` (Steele, Lea and Flood 2014).
fn unit(seed: u64, number: u64) -> f64 {
    let mut x = seed.wrapping_add(number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((x ^ (x >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

/// A batch on its way: documents, what they became, their neighbors.
type Found = (Vec<Labeled>, Vectors, Vec<Vec<Neighbor>>);

/// Reads, vectorizes, searches and votes, each on a thread of its own, so that none waits for another
/// but the slowest: a GPU searches while the next documents are parsed.
fn evaluate(
    classifier: &Classifier<'_>,
    evaluator: &mut Evaluator<'_>,
    test: Test,
    batch: usize,
    mut stages: Stages,
    talk: Talk,
) -> Result<Vec<Stage>, Failure> {
    let start = Instant::now();
    let progress = Progress::new(talk, "testing", &test.paths);
    let mut vote = Stage::empty("test: vote");
    // One neighbor more than vote shows whether the last one is tied.
    let one_more = classifier.k.saturating_add(1);
    let whole = classifier.decision.needs_batch();
    let batch_size = if whole { usize::MAX } else { batch_size(batch, one_more) };
    let (to_vectorize, read) = sync_channel::<Result<Batch, Failure>>(QUEUE);
    let mut source = batches(test.source, batch_size);
    // Not of the scope: a reader that waits for input must not hold up the end after a failure.
    let reading = std::thread::spawn(move || {
        let mut stage = Stage::empty("test: read");
        loop {
            let start = Instant::now();
            let batch = source.next();
            let count = batch.as_ref().map_or(0, |batch| batch.as_ref().map_or(0, Batch::len));
            stage.add(count as u64, start);
            let Some(batch) = batch else { return stage };
            let failed = batch.is_err();
            if to_vectorize.send(batch.map_err(Failure::from)).is_err() || failed {
                return stage;
            }
        }
    });
    let tested = std::thread::scope(|scope| {
        let (to_search, vectorized) =
            sync_channel::<Result<(Vec<Labeled>, Vectors), Failure>>(QUEUE);
        let vectorizing = scope.spawn(move || {
            let mut stage = Stage::empty("test: analyze, weigh");
            for batch in read {
                let start = Instant::now();
                let made = batch.and_then(|batch| {
                    let made = match batch {
                        Batch::Documents(documents) => {
                            let vectors = classifier.vectorize(&documents)?;
                            (documents.into_iter().map(Labeled::from).collect(), vectors)
                        }
                        Batch::Vectors(documents, vectors) => (documents, vectors),
                    };
                    stage.add(made.0.len() as u64, start);
                    Ok(made)
                });
                let failed = made.is_err();
                if to_search.send(made).is_err() || failed {
                    break;
                }
            }
            stage
        });
        let (to_vote, found) = sync_channel::<Result<Found, Failure>>(QUEUE);
        let searching = scope.spawn(move || {
            let mut stage = Stage::empty("test: search");
            for batch in vectorized {
                let start = Instant::now();
                let made = batch.and_then(|(batch, vectors)| {
                    let neighbors = classifier.neighbors(&vectors, one_more)?;
                    stage.add(batch.len() as u64, start);
                    Ok((batch, vectors, neighbors))
                });
                let failed = made.is_err();
                if to_vote.send(made).is_err() || failed {
                    break;
                }
            }
            stage
        });
        let mut outcome = Ok(());
        for batch in &found {
            let (batch, vectors, mut neighbors) = match batch {
                Ok(batch) => batch,
                Err(failure) => {
                    outcome = Err(failure);
                    break;
                }
            };
            let start = Instant::now();
            let tied: Vec<bool> =
                neighbors.iter_mut().map(|found| cut(found, classifier.k)).collect();
            let predictions = classifier.predict(&vectors, neighbors);
            for ((document, prediction), tied) in batch.iter().zip(&predictions).zip(tied) {
                evaluator.add(&document.id, &document.labels, prediction, tied);
            }
            vote.add(batch.len() as u64, start);
            progress.tick(vote.documents);
        }
        // Threads that wait to hand something over end.
        drop(found);
        let ended = [vectorizing.join(), searching.join()];
        let ended = ended.map(|stage| stage.unwrap_or_else(|panic| resume_unwind(panic)));
        outcome.map(|()| ended)
    })?;
    // Nothing came any more: the reader has ended.
    let reading = reading.join().unwrap_or_else(|panic| resume_unwind(panic));
    if vote.documents == 0 {
        let place = Place { source: test.name.as_str().into(), line: None };
        return Err(CorpusError { place, problem: Problem::NoDocument }.into());
    }
    let count = vote.documents;
    stages.0.push(reading);
    stages.0.extend(tested);
    stages.0.push(vote);
    stages.push("test: all of it, stages side by side", count, start);
    Ok(stages.0)
}

/// Leaves the first `k` neighbors; whether one was cut off that is as similar as the last.
fn cut(neighbors: &mut Vec<Neighbor>, k: NonZeroUsize) -> bool {
    let k = k.get();
    let tied = neighbors
        .get(k)
        .is_some_and(|cut| cut.similarity.to_bits() == neighbors[k - 1].similarity.to_bits());
    neighbors.truncate(k);
    tied
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    write_atomically(path, |out| out.write_all(text.as_bytes())).map_err(Failure::output(path))
}

/// Times of stages.
#[derive(Default)]
struct Stages(Vec<Stage>);

impl Stages {
    fn push(&mut self, name: &str, documents: u64, start: Instant) {
        let mut stage = Stage::empty(name);
        stage.add(documents, start);
        self.0.push(stage);
    }

    fn time<R>(&mut self, name: &str, documents: u64, work: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let result = work();
        self.push(name, documents, start);
        result
    }
}
