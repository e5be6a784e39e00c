//! `classify evaluate`

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use array_file::command::return_freed_memory_after;
use array_file::output::Output;
use clap::ValueEnum;
use clap::builder::PossibleValue;
use classify::classifier::stream::Source;
use classify::classifier::vectors::{StoredVectors, VectorsError, VectorsProblem};
use classify::classifier::{Classifier, Searchers};
use classify::evaluate::{EvaluateOptions, html, markdown, tally, terminal};
use classify::learn::trainer::{Event, TrainOptions, Trainer};
use classify::model::Model;
use classify::search::Engines;
use classify::stages::{SoFar, Stage};
use classify::text::corpus::preset::{Documents, Preset};
use classify::text::corpus::{
    CorpusError, Document, LabelUse, ReadOptions, Side, VectorsBeside, hold_out,
};
use classify::threads::Threads;

use crate::failure::Failure;
use crate::flags::opening::Opening;
use crate::flags::reading::{Reading, fit, name, open};
use crate::flags::searching::Searching;
use crate::flags::training::Training;
use crate::flags::tuning::Told;
use crate::output::files::{Files, write, write_json};
use crate::output::progress::{Progress, Talk};

/// Training may take less than a second, and testing does not need the memory that it freed.
const RETURN_MEMORY_AFTER: Duration = Duration::from_millis(300);

#[derive(Debug, clap::Args)]
#[command(override_usage = "classify evaluate [OPTIONS] MODEL CORPUS...
       classify evaluate [OPTIONS] --train CORPUS --test CORPUS
       classify evaluate [OPTIONS] --train CORPUS --holdout 20%
       classify evaluate [OPTIONS] --preset NAME FOLDER")]
pub(crate) struct Evaluate {
    /// A model and test corpora or a file written by `classify vectorize`; with --preset a folder
    #[arg(value_name = "MODEL CORPUS")]
    paths: Vec<PathBuf>,
    /// Train on these corpora instead of loading a model
    #[arg(long, value_name = "CORPUS", num_args = 1.., conflicts_with = "preset")]
    train: Vec<PathBuf>,
    /// Test on these corpora
    #[arg(long, value_name = "CORPUS", num_args = 1.., requires = "train")]
    test: Vec<PathBuf>,
    /// The dense vectors of the training corpora; --vectors holds those of the test corpora
    #[arg(long, value_name = "FILE", requires = "train", conflicts_with = "vector_field")]
    train_vectors: Option<PathBuf>,
    /// The identifiers of the documents of --train-vectors, one per line
    #[arg(long, value_name = "FILE", requires = "train_vectors")]
    train_vector_ids: Option<PathBuf>,
    /// Test on this share of the training corpora, drawn with --seed and excluded from training
    #[arg(long, value_name = "SHARE", requires = "train", conflicts_with = "test", value_parser = percent)]
    holdout: Option<f64>,
    /// A benchmark with known files, split and labels
    #[arg(long, value_enum, value_name = "NAME")]
    preset: Option<PresetArgument>,
    /// Test only on the first N test documents
    #[arg(long, value_name = "N", value_parser = crate::flags::positive::positive)]
    subset: Option<NonZeroUsize>,
    /// Write the result as JSON (schema classify.evaluation/1)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Include the decision on each document in the JSON, for `classify compare`
    #[arg(long, requires = "json")]
    per_document: bool,
    /// Write the result as an HTML page with charts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the result as Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    #[command(flatten)]
    opening: Opening,
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
    share.map(|percent| percent / 100.0).ok_or_else(|| "not a percentage such as 20%".to_owned())
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
        self.training.keep_memory();
        if !self.training.tunes() {
            return_freed_memory_after(RETURN_MEMORY_AFTER);
        }
        let mut files = self.files();
        let json = files.optional(self.json.as_ref())?;
        let page = files.optional(self.html.as_ref())?;
        let document = files.optional(self.markdown.as_ref())?;
        let mut table = files.optional(self.training.tune_table())?;
        let printed = files.report()?;
        let mut stages = Stages::default();
        let (engines, start, first) =
            self.searching.beside(threads, || self.first(threads, talk))?;
        Searching::say(&engines, talk);
        stages.0.push(start);
        let (model, test) =
            self.model_and_test(&engines, first, seed, talk, &mut stages, &mut table)?;
        let set = match self.subset {
            Some(most) => test.set.first(most),
            None => test.set,
        };
        let trained = self.preset.is_some() || !self.train.is_empty();
        let options = if trained {
            self.training.deciding.change_trained(&model)
        } else {
            self.training.deciding.change(&model)?
        };
        let searchers = stages.time("index", model.rows().rows() as u64, || {
            Searchers::of(&model, options.dense_share, &engines)
        })?;
        let classifier = Classifier::with_searchers(Arc::new(model), searchers, threads);
        let how = EvaluateOptions {
            name: test.name,
            batch: engines.batch(),
            per_document: self.per_document,
            seed,
            stages: stages.0,
        };
        let progress = Progress::new(talk, "testing", &test.paths);
        let tick = |so_far: &SoFar<'_>| progress.side_by_side(so_far);
        let tallied = tally(&classifier, &options, set, how, &tick)?;
        drop(progress);
        let evaluation = thread::scope(|scope| {
            // Closing a GPU takes a while.
            let close = move || drop((classifier, engines));
            let closing = thread::Builder::new().name("close".to_owned());
            let _ = closing.spawn_scoped(scope, close);
            tallied.measure(threads)
        });
        talk.stages(&evaluation.stages);
        if let Some(printed) = printed {
            write(printed, terminal(&evaluation, talk.verbose).as_bytes())?;
        }
        if let Some(json) = json {
            write_json(json, &evaluation)?;
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

    /// All input files.
    fn files(&self) -> Files {
        let files = Files::default().reads(self.reading.files()).reads(self.training.files());
        let files = files.reads(&self.train_vectors).reads(&self.train_vector_ids);
        match self.paths.as_slice() {
            paths if self.preset.is_some() => {
                paths.iter().fold(files, |files, folder| files.reads_preset(folder))
            }
            [] => {
                let format = self.reading.format();
                files.reads_corpora(&self.train, format).reads_corpora(&self.test, format)
            }
            [model, corpora @ ..] => {
                files.reads([model]).reads_corpora(corpora, self.reading.format())
            }
        }
    }

    /// The options of reading on these threads.
    fn read_options(&self, threads: &Threads) -> Result<ReadOptions, Failure> {
        let mut options = self.reading.options(LabelUse::Required, Some(threads))?;
        self.training.analysis.fields().read_apart(&mut options);
        Ok(options)
    }

    /// What can be made while a GPU starts: the corpora of a preset and its model, or the model that is given.
    fn first(&self, threads: &Threads, talk: Talk) -> Result<First, Failure> {
        if let Some(PresetArgument(preset)) = self.preset {
            return Ok(First::Preset(Box::new(self.open_preset(preset, threads, talk)?)));
        }
        if !self.train.is_empty() {
            return Ok(First::Nothing);
        }
        let [path, corpora @ ..] = self.paths.as_slice() else {
            let message = "give a MODEL and a CORPUS, or --train and --test, or --preset";
            return Err(Failure::Usage(message.into()));
        };
        if corpora.is_empty() {
            return Err(Failure::Usage("no test corpus after the model".into()));
        }
        self.training.refuse_beside_a_model()?;
        let start = Instant::now();
        let model = self.opening.model_on(path, threads)?;
        let stage = Stage::since("open the model", model.rows().rows() as u64, start);
        Ok(First::Model(Box::new(model), stage))
    }

    /// Opens the corpora of a preset. Unless `--tune` needs the engines, trains too: the engine of the CPU searches the
    /// few documents that are left out.
    fn open_preset(
        &self,
        preset: Preset,
        threads: &Threads,
        talk: Talk,
    ) -> Result<OpenedPreset, Failure> {
        let [folder] = self.paths.as_slice() else {
            return Err(Failure::Usage("--preset NAME takes one folder".into()));
        };
        let mut stages = Stages::default();
        let options = self.read_options(threads)?;
        let sides = stages.time("open the corpus", 0, || preset.open(folder, &options))?;
        talk.say(&format!("{}: {}", preset.name(), sides.note));
        let (mut train, mut model) = (sides.train, None);
        if !self.training.tunes() {
            let engines = self.searching.on_cpu(threads);
            let options = self.preset_options(threads)?;
            let train = &mut *train;
            model = Some(trained(train, (&[], options), &engines, talk, &mut stages, &mut None)?);
        }
        Ok(OpenedPreset { train, test: sides.test, model, stages })
    }

    /// The options to train on a preset.
    fn preset_options(&self, threads: &Threads) -> Result<TrainOptions, Failure> {
        // LYRL2004 columns are identifiers: any number is valid.
        let read = ReadOptions { first_column: Some(0), ..self.read_options(threads)? };
        self.training.options(&read, false)
    }

    fn model_and_test(
        &self,
        engines: &Engines,
        first: First,
        seed: u64,
        talk: Talk,
        stages: &mut Stages,
        table: &mut Option<Output>,
    ) -> Result<(Model, Test), Failure> {
        if let First::Preset(preset) = first {
            let OpenedPreset { mut train, test, model, stages: opened } = *preset;
            stages.0.extend(opened.0);
            let model = if let Some(model) = model {
                model
            } else {
                let options = self.preset_options(engines.threads())?;
                trained(&mut *train, (&[], options), engines, talk, stages, table)?
            };
            let (set, name) = (Source::Documents(test), name(&self.paths));
            return Ok((model, Test { set, paths: Vec::new(), name }));
        }
        let mut options = self.read_options(engines.threads())?;
        if let First::Model(model, opened) = first {
            let (model, corpora) = (*model, &self.paths[1..]);
            stages.0.push(opened);
            if let [vectors] = corpora
                && StoredVectors::is_at(vectors)
            {
                self.reading.refuse_beside_vectors()?;
                let start = Instant::now();
                let stored = self.opening.vectors(vectors, &model)?;
                if !stored.has_labels() {
                    let (path, problem) = (vectors.clone(), VectorsProblem::NoLabels);
                    return Err(VectorsError { path, problem }.into());
                }
                stages.push("open the vectors", stored.len() as u64, start);
                let set = Source::from(stored);
                return Ok((model, Test { set, paths: Vec::new(), name: name(corpora) }));
            }
            let share = self.training.deciding.dense_share();
            fit(&model, share.unwrap_or(model.settings().dense_share), &mut options)?;
            let progress = Progress::new(talk, "testing", &[]);
            let documents = Box::new(open(corpora, options, talk, &progress)?);
            let set = Source::Documents(documents);
            return Ok((model, Test { set, paths: corpora.to_vec(), name: name(corpora) }));
        }
        let is_stdin = |path: &PathBuf| path.as_os_str() == "-";
        if self.train.iter().any(is_stdin)
            && (self.holdout.is_some() || self.test.iter().any(is_stdin))
        {
            return Err(Failure::Usage("standard input can be read only once".into()));
        }
        if !self.paths.is_empty() {
            return Err(Failure::Usage("--train replaces MODEL and CORPUS".into()));
        }
        let progress = Progress::new(talk, "training", &self.train);
        let mut read = options.clone();
        if let Some(path) = &self.train_vectors {
            if self.holdout.is_some() {
                let message = "with --holdout, --vectors names the vectors of the training corpora";
                return Err(Failure::Usage(message.into()));
            }
            let beside = VectorsBeside::read(path, self.train_vector_ids.as_deref())?;
            read.vectors_beside = Some(Arc::new(beside));
        } else if self.holdout.is_none() && options.vectors_beside.is_some() {
            let message = "--vectors holds those of the test corpora; --train-vectors names those of \
                           the training corpora";
            return Err(Failure::Usage(message.into()));
        }
        let how = self.training.options(&read, false)?;
        read.text_optional = how.has_no_terms();
        options.text_optional = read.text_optional;
        let mut train: Documents = Box::new(open(&self.train, read, talk, &progress)?);
        let test: Documents = match self.holdout {
            Some(share) => {
                let test = open(&self.train, options, Talk { quiet: true, ..talk }, &progress)?;
                train = Box::new(hold_out(train, share, seed, Side::Training));
                Box::new(hold_out(test, share, seed, Side::HeldOut))
            }
            None if self.test.is_empty() => {
                return Err(Failure::Usage("--train needs --test or --holdout".into()));
            }
            None => Box::new(open(&self.test, options, talk, &progress)?),
        };
        drop(progress);
        let model = trained(&mut *train, (&self.train, how), engines, talk, stages, table)?;
        let paths = if self.test.is_empty() { &self.train } else { &self.test };
        let set = Source::Documents(test);
        Ok((model, Test { set, paths: paths.clone(), name: name(paths) }))
    }
}

fn trained(
    documents: &mut (dyn Iterator<Item = Result<Document, CorpusError>> + Send),
    (paths, options): (&[PathBuf], TrainOptions),
    engines: &Engines,
    talk: Talk,
    stages: &mut Stages,
    table: &mut Option<Output>,
) -> Result<Model, Failure> {
    let told = Told::new(talk, Progress::new(talk, "training", paths));
    let start = Instant::now();
    let on_event = |event: Event<'_>| told.on_event(event);
    let trained =
        Trainer::new(options, engines.clone()).train(documents, &name(paths), &on_event)?;
    drop(told);
    if let (Some(table), Some(report)) = (table.take(), &trained.tuning) {
        write_json(table, report)?;
    }
    stages.0.extend(trained.stages);
    stages.push("train: all of it", trained.model.settings().counts.documents, start);
    Ok(trained.model)
}

/// What was made while a GPU started.
enum First {
    Preset(Box<OpenedPreset>),
    Model(Box<Model>, Stage),
    Nothing,
}

/// The corpora of a preset, and the model if it is trained already.
struct OpenedPreset {
    train: Documents,
    test: Documents,
    model: Option<Model>,
    stages: Stages,
}

struct Test {
    set: Source,
    paths: Vec<PathBuf>,
    name: String,
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
