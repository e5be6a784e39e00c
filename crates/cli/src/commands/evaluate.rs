//! `classify evaluate`

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use array_file::output::Output;
use clap::ValueEnum;
use clap::builder::PossibleValue;
use classify::classifier::stream::Source;
use classify::classifier::vectors::{StoredVectors, VectorsError, VectorsProblem};
use classify::classifier::{Classifier, Searchers};
use classify::evaluate::{DocumentCounts, EvaluateOptions, Evaluation, tally};
use classify::learn::{Event, TrainOptions, Trainer};
use classify::model::Model;
use classify::search::Engines;
use classify::stages::{PipelineProgress, Stage};
use classify::text::corpus::preset::{Documents, Preset};
use classify::text::corpus::{
    CorpusError, Document, LabelUse, Note, ReadOptions, Side, VectorsFile, hold_out, unknown_labels,
};
use classify::threads::Threads;
use classify_report::evaluation::{html, markdown, terminal};
use process_setup::return_freed_memory_after;
use serde::Serialize;

use crate::failure::{Failure, is_text};
use crate::flags::opening::OpeningFlags;
use crate::flags::reading::{ReadingFlags, apply_model_settings, name, open};
use crate::flags::searching::SearchFlags;
use crate::flags::seed::SeedFlag;
use crate::flags::training::TrainingFlags;
use crate::flags::tuning::TrainingProgress;
use crate::output::files::{Files, write, write_json};
use crate::output::notes::report_shift;
use crate::output::progress::{Progress, Verbosity};

/// Delay before freed memory is returned to the system. Testing does not need the memory that
/// training freed. Short training runs end before the delay.
const RETURN_MEMORY_AFTER: Duration = Duration::from_millis(300);

#[derive(Debug, clap::Args)]
#[command(override_usage = "classify evaluate [OPTIONS] MODEL CORPUS...
       classify evaluate [OPTIONS] --train CORPUS --test CORPUS
       classify evaluate [OPTIONS] --train CORPUS --holdout 20%
       classify evaluate [OPTIONS] --preset NAME FOLDER")]
pub(crate) struct Evaluate {
    /// A model, and test corpora or a file written by `classify vectorize`; with --preset a folder
    #[arg(value_name = "MODEL CORPUS")]
    paths: Vec<PathBuf>,
    /// Train on these corpora instead of loading a model
    #[arg(long, value_name = "CORPUS", num_args = 1.., conflicts_with = "preset")]
    train: Vec<PathBuf>,
    /// Test on these corpora
    #[arg(long, value_name = "CORPUS", num_args = 1.., requires = "train")]
    test: Vec<PathBuf>,
    /// A file with the dense vectors of the training corpora; --vectors is for the test corpora
    #[arg(
        long, value_name = "FILE", requires = "train",
        conflicts_with_all = ["vector_field", "encoder"]
    )]
    train_vectors: Option<PathBuf>,
    /// The document identifiers of the rows of --train-vectors, one per line
    #[arg(long, value_name = "FILE", requires = "train_vectors")]
    train_vector_ids: Option<PathBuf>,
    /// Test on this share of the training corpora, drawn with --seed and excluded from training
    #[arg(
        long, value_name = "SHARE", requires = "train", conflicts_with = "test",
        value_parser = percent
    )]
    holdout: Option<f64>,
    /// Evaluate on a benchmark with known files, split and labels, in a folder
    #[arg(long, value_enum, value_name = "NAME")]
    preset: Option<PresetArgument>,
    /// Test only on the first N test documents
    #[arg(long, value_name = "N", value_parser = crate::flags::positive::positive)]
    subset: Option<NonZeroUsize>,
    /// Write the result as JSON (schema classify.evaluation/1)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Include the prediction for each document in the JSON, for `classify compare`
    #[arg(long, requires = "json")]
    per_document: bool,
    /// Write the result as an HTML page with charts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the result as Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    #[command(flatten)]
    seed: SeedFlag,
    #[command(flatten)]
    opening: OpeningFlags,
    #[command(flatten)]
    reading: ReadingFlags,
    #[command(flatten)]
    training: TrainingFlags,
    #[command(flatten)]
    searching: SearchFlags,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|percent| percent.parse::<f64>().ok());
    let share = number.filter(|percent| *percent > 0.0 && *percent < 100.0);
    share
        .map(|percent| percent / 100.0)
        .ok_or_else(|| "expected a percentage such as 20%".to_owned())
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

/// The JSON of an evaluation.
#[derive(Serialize)]
struct EvaluationWithNotes<'a> {
    #[serde(flatten)]
    evaluation: &'a Evaluation,
    /// Notes on probable mistakes in the corpora.
    notes: Vec<String>,
}

impl Evaluate {
    pub(crate) fn run(self, threads: &Threads, verbosity: Verbosity) -> Result<(), Failure> {
        let seed = self.seed.value;
        self.training.return_memory();
        if !self.training.tunes() {
            return_freed_memory_after(RETURN_MEMORY_AFTER);
        }
        let mut files = self.files();
        let json = files.optional(self.json.as_ref())?;
        let page = files.optional(self.html.as_ref())?;
        let document = files.optional(self.markdown.as_ref())?;
        let mut run = Run::new(verbosity, seed);
        run.tune_table = files.optional(self.training.tune_table())?;
        let printed = files.report()?;
        let prepare = || self.prepare(threads, verbosity, seed);
        let (engines, start, prepared) = self.searching.engines_while(threads, prepare)?;
        SearchFlags::report(&engines, verbosity);
        run.stages.0.push(start);
        let (model, test) = match prepared {
            Preparation::Preset(preset) => self.preset_and_test(*preset, &engines, &mut run)?,
            Preparation::Model(model, stage) => {
                run.stages.0.push(stage);
                let test = self.test_of_model(&model, threads, &mut run)?;
                (*model, test)
            }
            Preparation::Nothing => self.train_and_test(&engines, &mut run)?,
        };
        let trained = if self.trains() { model.notes() } else { Vec::new() };
        let evaluation = self.evaluate(model, test, engines, run)?;
        let tested = unknown_labels_of(&evaluation).into_iter().chain(copies_in(&evaluation));
        let mut notes = self.reading.report(trained.into_iter().chain(tested), verbosity)?;
        notes.extend(report_shift(evaluation.shift, verbosity));
        verbosity.stages(&evaluation.stages);
        if let Some(printed) = printed {
            write(printed, terminal(&evaluation, verbosity.verbose).as_bytes())?;
        }
        if let Some(json) = json {
            write_json(json, &EvaluationWithNotes { evaluation: &evaluation, notes })?;
        }
        if let Some(document) = document {
            write(document, markdown(&evaluation).as_bytes())?;
        }
        if let Some(page) = page {
            let html = html(&evaluation).map_err(|error| page.error(error))?;
            write(page, html.as_bytes())?;
        }
        Ok(())
    }

    /// Classifies the test corpus and computes the metrics.
    fn evaluate(
        &self,
        model: Model,
        test: TestCorpus,
        engines: Engines,
        mut run: Run,
    ) -> Result<Evaluation, Failure> {
        let threads = engines.threads().clone();
        let source = match self.subset {
            Some(count) => test.source.first(count),
            None => test.source,
        };
        let options = if self.trains() {
            self.training.deciding.change_trained(&model)
        } else {
            self.training.deciding.change(&model)?
        };
        let searchers = run.stages.time("index", model.rows().rows() as u64, || {
            Searchers::of(&model, options.dense_share, &engines)
        })?;
        let classifier = Classifier::with_searchers(Arc::new(model), searchers, &threads);
        let setup = EvaluateOptions {
            name: test.name,
            batch: engines.batch(),
            per_document: self.per_document,
            seed: run.seed,
            stages: run.stages.0,
        };
        let progress = Progress::new(run.verbosity, "testing", &test.paths);
        let tick = |so_far: &PipelineProgress<'_>| progress.tick_stages(so_far);
        let tally = tally(&classifier, &options, source, setup, &tick)?;
        drop(progress);
        Ok(thread::scope(|scope| {
            // Closing a GPU is slow, so it runs in parallel.
            let close = move || drop((classifier, engines));
            let closing = thread::Builder::new().name("close".to_owned());
            let _ = closing.spawn_scoped(scope, close);
            tally.measure(&threads)
        }))
    }

    /// Whether the model is trained first.
    fn trains(&self) -> bool {
        self.preset.is_some() || !self.train.is_empty()
    }

    /// Registers all input files.
    fn files(&self) -> Files {
        let files =
            Files::default().with_inputs(self.reading.files()).with_inputs(self.training.files());
        let files = files.with_inputs(&self.train_vectors).with_inputs(&self.train_vector_ids);
        match self.paths.as_slice() {
            paths if self.preset.is_some() => {
                paths.iter().fold(files, |files, folder| files.with_preset(folder))
            }
            [] => {
                let format = self.reading.format();
                files.with_corpora(&self.train, format).with_corpora(&self.test, format)
            }
            [model, corpora @ ..] => {
                files.with_inputs([model]).with_corpora(corpora, self.reading.format())
            }
        }
    }

    /// Returns the read options that the flags set.
    fn read_options(&self, threads: &Threads) -> Result<ReadOptions, Failure> {
        let mut options = self.reading.options(LabelUse::Required, Some(threads))?;
        self.training.analysis.fields().read_apart(&mut options);
        Ok(options)
    }

    /// Does the work that does not need the GPU while it starts: opens a preset and trains on it,
    /// or opens the model.
    fn prepare(
        &self,
        threads: &Threads,
        verbosity: Verbosity,
        seed: u64,
    ) -> Result<Preparation, Failure> {
        if let Some(PresetArgument(preset)) = self.preset {
            let opened_preset = self.open_preset(preset, threads, Run::new(verbosity, seed))?;
            return Ok(Preparation::Preset(Box::new(opened_preset)));
        }
        if !self.train.is_empty() {
            return Ok(Preparation::Nothing);
        }
        let [path, corpora @ ..] = self.paths.as_slice() else {
            let message = "expected MODEL CORPUS, --train with --test or --holdout, or --preset \
                           NAME FOLDER";
            return Err(Failure::Usage(message.into()));
        };
        if corpora.is_empty() {
            let message = if is_text(path) {
                let path = path.display();
                format!(
                    "{path} is text, and no model is named: `classify evaluate MODEL CORPUS`; or \
                     `classify evaluate --train {path} --holdout 20%` trains on one part and tests \
                     on the other"
                )
            } else {
                "no test corpus after the model: `classify evaluate MODEL CORPUS`".to_owned()
            };
            return Err(Failure::Usage(message));
        }
        self.training.refuse_with_model()?;
        let start = Instant::now();
        let model = self.opening.model_on(path, threads)?;
        let stage = Stage::since("open the model", model.rows().rows() as u64, start);
        Ok(Preparation::Model(Box::new(model), stage))
    }

    /// Opens the corpora of a preset. Without `--tune`, also trains: the CPU searches the few
    /// held-out documents, so no other engine is needed.
    fn open_preset(
        &self,
        preset: Preset,
        threads: &Threads,
        mut run: Run,
    ) -> Result<OpenedPreset, Failure> {
        let [folder] = self.paths.as_slice() else {
            return Err(Failure::Usage("--preset NAME needs one folder".into()));
        };
        let options = self.read_options(threads)?;
        let opened_preset =
            run.stages.time("open the corpus", 0, || preset.open(folder, &options))?;
        run.verbosity.print(&format!("{}: {}", preset.name(), opened_preset.note));
        let mut train = opened_preset.train;
        let mut model = None;
        if !self.training.tunes() {
            let engines = self.searching.on_cpu(threads);
            model = Some(run.train(&mut *train, &[], self.preset_options(threads)?, &engines)?);
        }
        Ok(OpenedPreset { train, test: opened_preset.test, model, stages: run.stages })
    }

    /// The training options for a preset.
    fn preset_options(&self, threads: &Threads) -> Result<TrainOptions, Failure> {
        // LYRL2004 columns are identifiers: any number is valid.
        let read_options = ReadOptions { first_column: Some(0), ..self.read_options(threads)? };
        let mut options = self.training.options(&read_options, false)?;
        if let Some(PresetArgument(preset)) = self.preset
            && let Some(tuning) = &mut options.tuning
            && preset.is_chronological()
        {
            tuning.time_order = tuning.time_order.or(Some(true));
        }
        Ok(options)
    }

    /// Returns the model of a preset, trained now if necessary, and its test corpus.
    fn preset_and_test(
        &self,
        preset: OpenedPreset,
        engines: &Engines,
        run: &mut Run,
    ) -> Result<(Model, TestCorpus), Failure> {
        let OpenedPreset { mut train, test, model, stages } = preset;
        run.stages.0.extend(stages.0);
        let model = if let Some(model) = model {
            model
        } else {
            let options = self.preset_options(engines.threads())?;
            run.train(&mut *train, &[], options, engines)?
        };
        let source = Source::Documents(test);
        Ok((model, TestCorpus { source, paths: Vec::new(), name: name(&self.paths) }))
    }

    /// Opens the test corpus for a stored model.
    fn test_of_model(
        &self,
        model: &Model,
        threads: &Threads,
        run: &mut Run,
    ) -> Result<TestCorpus, Failure> {
        let mut options = self.read_options(threads)?;
        let corpora = &self.paths[1..];
        if let [vectors] = corpora
            && StoredVectors::is_at(vectors)
        {
            self.reading.refuse_with_vectors()?;
            let start = Instant::now();
            let stored = self.opening.vectors(vectors, model)?;
            if !stored.has_labels() {
                let path = vectors.clone();
                return Err(VectorsError { path, problem: VectorsProblem::NoLabels }.into());
            }
            run.stages.push("open the vectors", stored.len() as u64, start);
            let source = Source::from(stored);
            return Ok(TestCorpus { source, paths: Vec::new(), name: name(corpora) });
        }
        let share = self.training.deciding.dense_share();
        apply_model_settings(model, share.unwrap_or(model.settings().dense_share), &mut options)?;
        let progress = Progress::new(run.verbosity, "testing", &[]);
        let documents = open(corpora, options, run.verbosity, &progress)?;
        let source = Source::Documents(Box::new(documents));
        Ok(TestCorpus { source, paths: corpora.to_vec(), name: name(corpora) })
    }

    /// Trains on the corpora of `--train`, and opens the test corpus.
    fn train_and_test(
        &self,
        engines: &Engines,
        run: &mut Run,
    ) -> Result<(Model, TestCorpus), Failure> {
        let mut options = self.read_options(engines.threads())?;
        let is_stdin = |path: &PathBuf| path.as_os_str() == "-";
        if self.train.iter().any(is_stdin)
            && (self.holdout.is_some() || self.test.iter().any(is_stdin))
        {
            return Err(Failure::Usage(
                "standard input (-) can be read only once: name a file for one of the corpora"
                    .into(),
            ));
        }
        if !self.paths.is_empty() {
            return Err(Failure::Usage(
                "--train conflicts with MODEL CORPUS: name the test corpus with --test".into(),
            ));
        }
        let verbosity = run.verbosity;
        let progress = Progress::new(verbosity, "training", &self.train);
        let mut read_options = self.read_options_of_training(&options)?;
        let train_options = self.training.options(&read_options, false)?;
        read_options.text_optional = train_options.needs_no_text();
        options.text_optional = read_options.text_optional;
        let mut train: Documents = Box::new(open(&self.train, read_options, verbosity, &progress)?);
        let test: Documents = match self.holdout {
            Some(share) => {
                let quiet = Verbosity { quiet: true, ..verbosity };
                let test = open(&self.train, options, quiet, &progress)?;
                train = Box::new(hold_out(train, share, run.seed, Side::Training));
                Box::new(hold_out(test, share, run.seed, Side::HeldOut))
            }
            None if self.test.is_empty() => {
                return Err(Failure::Usage("--train needs --test CORPUS or --holdout 20%".into()));
            }
            None => Box::new(open(&self.test, options, verbosity, &progress)?),
        };
        drop(progress);
        let model = run.train(&mut *train, &self.train, train_options, engines)?;
        let paths = if self.test.is_empty() { &self.train } else { &self.test };
        let source = Source::Documents(test);
        Ok((model, TestCorpus { source, paths: paths.clone(), name: name(paths) }))
    }

    /// The read options of the training corpora, which can have a separate vectors file.
    fn read_options_of_training(&self, options: &ReadOptions) -> Result<ReadOptions, Failure> {
        let mut read_options = options.clone();
        if let Some(path) = &self.train_vectors {
            if self.holdout.is_some() {
                let message = "--train-vectors conflicts with --holdout: name the vectors of the \
                               training corpora with --vectors";
                return Err(Failure::Usage(message.into()));
            }
            let vectors = VectorsFile::read(path, self.train_vector_ids.as_deref())?;
            read_options.vectors_beside = Some(Arc::new(vectors));
        } else if self.holdout.is_none() && options.vectors_beside.is_some() {
            let message = "--vectors is for the test corpora: name the vectors of the training \
                           corpora with --train-vectors";
            return Err(Failure::Usage(message.into()));
        }
        Ok(read_options)
    }
}

/// The note on test documents that are in the training corpus, if there are many.
fn copies_in(evaluation: &Evaluation) -> Option<Note> {
    const MIN_COPIES: u64 = 3;
    let DocumentCounts { copies, test: documents, .. } = evaluation.documents;
    let are_many = copies >= MIN_COPIES && copies * 10 >= documents;
    are_many.then_some(Note::CopiesOfTraining { copies, documents })
}

/// The note on labels of the test corpus that the model does not have.
fn unknown_labels_of(evaluation: &Evaluation) -> Option<Note> {
    let labels = &evaluation.per_label;
    let tested = labels.iter().filter(|label| label.support > 0);
    let known = labels.iter().filter(|label| label.train > 0).map(|label| label.label.as_str());
    unknown_labels(tested.map(|label| label.label.as_str()), &known.collect::<Vec<_>>())
}

/// The model or corpora opened while a GPU starts.
enum Preparation {
    Preset(Box<OpenedPreset>),
    Model(Box<Model>, Stage),
    Nothing,
}

/// The corpora of a preset, and the model if it is already trained.
struct OpenedPreset {
    train: Documents,
    test: Documents,
    model: Option<Model>,
    stages: Stages,
}

struct TestCorpus {
    source: Source,
    paths: Vec<PathBuf>,
    name: String,
}

/// The state of a run of the command.
struct Run {
    verbosity: Verbosity,
    seed: u64,
    stages: Stages,
    /// The output for the results of tuning.
    tune_table: Option<Output>,
}

impl Run {
    fn new(verbosity: Verbosity, seed: u64) -> Self {
        Self { verbosity, seed, stages: Stages::default(), tune_table: None }
    }

    /// Trains a model on documents read from `paths`.
    fn train(
        &mut self,
        documents: &mut (dyn Iterator<Item = Result<Document, CorpusError>> + Send),
        paths: &[PathBuf],
        options: TrainOptions,
        engines: &Engines,
    ) -> Result<Model, Failure> {
        let reading = Progress::new(self.verbosity, "training", paths);
        let progress = TrainingProgress::new(self.verbosity, reading);
        let start = Instant::now();
        let on_event = |event: Event<'_>| progress.on_event(event);
        let builder = Trainer::builder().options(options).engines(engines.clone());
        let builder = builder.corpus_name(name(paths)).on_event(&on_event);
        let trained = builder.build().train(documents)?;
        drop(progress);
        if let Some(report) = &trained.tuning
            && let Some(table) = self.tune_table.take()
        {
            write_json(table, report)?;
        }
        self.stages.0.extend(trained.stages);
        let documents = trained.model.settings().counts.documents;
        self.stages.push("train: all of it", documents, start);
        Ok(trained.model)
    }
}

/// The duration of each stage.
#[derive(Default)]
struct Stages(Vec<Stage>);

impl Stages {
    fn push(&mut self, name: &str, documents: u64, start: Instant) {
        self.0.push(Stage::since(name, documents, start));
    }

    fn time<R>(&mut self, name: &str, documents: u64, work: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let result = work();
        self.push(name, documents, start);
        result
    }
}
