//! Training: turns a corpus into a model, optionally tuned.
//!
//! ```text
//! documents ─▶ count ─▶ [tune: features, k, vote, thresholds, calibration] ─▶ weigh ─▶ Model
//! ```
//!
//! ```
//! use classify::corpus::{Corpus, ReadOptions};
//! use classify::search::Engines;
//! use classify::threads::Threads;
//! use classify::trainer::{TrainOptions, Trainer, TuneOptions};
//!
//! let mut lines = String::new();
//! for number in 0..40 {
//!     lines.push_str(&format!("{{\"text\": \"bake bread {number}\", \"label\": \"cooking\"}}\n"));
//!     lines.push_str(&format!("{{\"text\": \"tune guitar {number}\", \"label\": \"music\"}}\n"));
//! }
//! let mut corpus = Corpus::from_bytes("80 lines", lines.into(), ReadOptions::default())?;
//!
//! // k, vote and decision are chosen by leave-one-out; without `tuning` they have fixed defaults.
//! let tuning = TuneOptions { features: false, ..TuneOptions::default() };
//! let options = TrainOptions { tuning: Some(tuning), ..TrainOptions::default() };
//! let trainer = Trainer::new(options, Engines::cpu(&Threads::available()?));
//! let trained = trainer.train(&mut corpus, "80 lines", &|_| ())?;
//! assert_eq!(trained.model.labels().len(), 2);
//! assert!(trained.tuning.expect("it was tuned").figures.accuracy > 0.9);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::cell::RefCell;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

use crate::analyze::AnalyzerSpec;
use crate::calibrate::Abstention;
use crate::corpus::{Content, CorpusError, Document, Place, Problem};
use crate::counts::{ClassWeights, CorpusStatistics, Counts, Fields, Input, TermLimits};
use crate::decide::{Decision, DecisionError, DecisionOptions, shares};
use crate::hierarchy::Hierarchy;
use crate::model::{FeatureSpec, InputSpec, Model, TrainSettings, VectorSpec};
use crate::search::{Engines, SearchError};
use crate::select::Selection;
use crate::stages::Stage;
use crate::tfidf::Weighting;
use crate::tune::{
    Counted, FeatureError, Features, Grid, Objective, TrialSetup, Trials, TuningReport, Weighted,
    tune_features,
};
use crate::vote::Vote;

mod dense;
mod event;
mod reweigh;
mod votes;

pub use dense::{DenseOptions, DenseSource};
pub use event::Event;
pub use reweigh::{ReweighError, reweigh};

use dense::{GivenVectors, Terms};
use votes::{ByFold, Excluded, Learnt, TrainingRows, View};

/// A stream of documents.
pub type Documents<'a> = &'a mut (dyn Iterator<Item = Result<Document, CorpusError>> + Send);

/// Everything that determines the trained model.
#[derive(Debug, Clone)]
pub struct TrainOptions {
    /// How text becomes terms.
    pub analyzer: AnalyzerSpec,
    /// The fields of a text and their boosts.
    pub fields: Fields,
    /// How features are read, for a corpus of features.
    pub features: FeatureSpec,
    /// Dense vectors, if the model is to have them.
    pub dense: Option<DenseOptions>,
    /// Terms and dense vectors together: the share of the neighbors by vectors in the votes, from 0 to 1; `None`: a half, or
    /// chosen by tuning.
    pub dense_share: Option<f64>,
    /// How counts become weights.
    pub weighting: Weighting,
    /// Which terms enter the vocabulary.
    pub limits: TermLimits,
    /// Which of these terms are kept, by how informative they are about the labels.
    pub selection: Option<Selection>,
    /// The weight of each label's documents in a vote.
    pub class_weights: Option<ClassWeights>,
    /// The label hierarchy.
    pub hierarchy: Hierarchy,
    /// The number of neighbors that vote; `None`: 30, or chosen by tuning.
    pub k: Option<NonZeroUsize>,
    /// How votes are weighted; `None`: by similarity, or chosen by tuning.
    pub vote: Option<Vote>,
    /// How labels are chosen.
    pub decision: DecisionOptions,
    /// The target share of wrong labels, reached by abstaining; needs tuning.
    pub target_error: Option<f64>,
    /// The share of documents with known labels that may be refused as foreign: as having no label of
    /// the training documents. `None`: nothing is refused. Needs tuning.
    pub foreign: Option<f64>,
    /// What to choose by leave-one-out; `None`: nothing.
    pub tuning: Option<TuneOptions>,
    /// Whether the model keeps the texts of the documents.
    pub keep_text: bool,
    /// The terms of a whole corpus, of which the documents are a part: they then get the weights that they have there. The
    /// limits of terms are not applied.
    pub part_of: Option<Arc<CorpusStatistics>>,
}

impl Default for TrainOptions {
    fn default() -> Self {
        Self {
            analyzer: AnalyzerSpec::default(),
            fields: Fields::Whole,
            features: FeatureSpec { counts: false, first_column: 1 },
            dense: None,
            dense_share: None,
            weighting: Weighting::default(),
            limits: TermLimits::default(),
            selection: None,
            class_weights: None,
            hierarchy: Hierarchy::default(),
            k: None,
            vote: None,
            decision: DecisionOptions::default(),
            target_error: None,
            foreign: None,
            tuning: None,
            keep_text: false,
            part_of: None,
        }
    }
}

impl TrainOptions {
    /// Whether documents are dense vectors and nothing else, so that they need no text.
    pub fn has_no_terms(&self) -> bool {
        self.dense.as_ref().is_some_and(DenseOptions::is_alone)
    }
}

/// What tuning may choose, and how.
#[derive(Debug, Clone, Copy)]
pub struct TuneOptions {
    /// Whether to choose features too, not only k, vote and decision.
    pub features: bool,
    /// Which features may be changed.
    pub free: FreeFeatures,
    /// The number of documents left out to compare features.
    pub sample: usize,
    /// The objective to maximize.
    pub objective: Objective,
    /// The largest k to try; capped at the number of other documents.
    pub k_max: NonZeroUsize,
    /// Which documents are not neighbors of each other while tuning.
    pub near_duplicates: NearDuplicateLimit,
    /// Whether the documents are in the order of time; `None`: estimated from the data.
    pub time_order: Option<bool>,
}

impl Default for TuneOptions {
    fn default() -> Self {
        Self {
            features: true,
            free: FreeFeatures::default(),
            sample: 4_000,
            objective: Objective::default(),
            k_max: NonZeroUsize::new(200).expect("200 is not 0"),
            near_duplicates: NearDuplicateLimit::default(),
            time_order: None,
        }
    }
}

/// Which features tuning may change. By default all.
#[expect(clippy::struct_excessive_bools, reason = "four features, each free or not")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeFeatures {
    /// Stems and n-grams.
    pub analyzer: bool,
    /// The weighting and the exponent of the idf.
    pub weighting: bool,
    /// The exponent of χ².
    pub chi2_power: bool,
    /// The selection of terms.
    pub selection: bool,
}

impl Default for FreeFeatures {
    fn default() -> Self {
        Self { analyzer: true, weighting: true, chi2_power: true, selection: true }
    }
}

/// The cosine above which documents are near-duplicates.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum NearDuplicateLimit {
    /// Estimated from the data.
    #[default]
    Found,
    /// No documents are near-duplicates.
    Off,
    /// This cosine, from 0 to 1.
    Above(f32),
}

/// Called while a model is trained.
pub type OnEvent<'a> = &'a (dyn Fn(Event<'_>) + Sync);

/// A trained model and the results of tuning.
#[derive(Debug)]
pub struct Trained {
    /// The model.
    pub model: Model,
    /// The results of tuning, if requested.
    pub tuning: Option<TuningReport>,
    /// How long each stage took.
    pub stages: Vec<Stage>,
}

/// Why training failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// The corpus cannot be read, or contains nothing to learn from.
    #[error(transparent)]
    Corpus(#[from] CorpusError),
    /// The search failed.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// Conflicting options of the decision.
    #[error(transparent)]
    Decision(#[from] DecisionError),
    /// Texts are to be kept, but the model has none.
    #[error("--keep-text: the model is made of features or vectors, not of text")]
    NoText,
    /// Word vectors were given for a corpus without words.
    #[error("--word-vectors: this corpus has features and no text")]
    WordVectorsWithoutText,
    /// Counts were requested for a corpus of texts.
    #[error("--features counts: this corpus has texts, whose terms are counted anyway")]
    NoFeatures,
    /// A class weight for a label that no document has.
    #[error("--class-weight: no document has the label `{0}`")]
    UnknownLabel(String),
    /// Abstaining requires tuning.
    #[error("--abstain learns its limits by tuning: it needs --tune or `classify tune MODEL`")]
    AbstainNeedsTuning,
    /// No documents become foreign by leaving their labels out.
    #[error(
        "--abstain foreign=…: fewer than 20 documents become foreign by leaving labels out: it needs \
         more documents, and several labels that do not go together"
    )]
    NoForeignDocuments,
    /// A part of a corpus does not tell what the whole does.
    #[error(
        "a part of a corpus is weighted by the document frequencies of the whole: tuning, term selection, χ² and dense \
         vectors need all documents"
    )]
    PartNeedsWhole,
    /// A part of a corpus has features.
    #[error("a part of a corpus of features cannot be weighted by the whole: only texts can")]
    PartOfFeatures,
    /// Learned votes require tuning.
    #[error("learned votes are learned by tuning: they need --tune or `classify tune MODEL`")]
    LearnedNeedsTuning,
    /// Learned votes conflict with deciding on whole batches.
    #[error("--vote learned conflicts with pcut: votes are learned for single documents")]
    LearnedByBatch,
    /// Abstaining conflicts with deciding on whole batches.
    #[error("--abstain conflicts with pcut: its limits apply to single documents")]
    AbstainByBatch,
    /// Label-size compensation conflicts with several labels.
    #[error("/size^ is for one label per document; label thresholds already account for sizes")]
    CompensationForSeveral,
    /// The model weights queries differently from documents.
    #[error(
        "{weighting} weights queries differently from documents: tune while training, with \
         `classify train --tune=votes`"
    )]
    NotSymmetric {
        /// The weighting.
        weighting: String,
    },
}

impl From<FeatureError> for TrainError {
    fn from(error: FeatureError) -> Self {
        match error {
            FeatureError::Corpus(error) => Self::Corpus(error),
            FeatureError::Search(error) => Self::Search(error),
        }
    }
}

/// Trains models.
#[derive(Debug, Clone)]
pub struct Trainer {
    options: TrainOptions,
    engines: Engines,
}

impl Trainer {
    /// Creates a trainer; `engines` search while it tunes.
    pub fn new(options: TrainOptions, engines: Engines) -> Self {
        Self { options, engines }
    }

    /// Trains a model on a corpus; `name` names the corpus in errors. The first document determines
    /// whether the corpus has text or features.
    ///
    /// # Errors
    /// The first error of the corpus; a corpus without documents or terms; options that conflict
    /// with each other or with the corpus.
    pub fn train(
        &self,
        documents: Documents<'_>,
        name: &str,
        on_event: OnEvent<'_>,
    ) -> Result<Trained, TrainError> {
        if self.options.part_of.is_some()
            && (self.options.tuning.is_some()
                || self.options.selection.is_some()
                || self.options.dense.is_some()
                || self.options.weighting.chi2_power() > 0.0)
        {
            return Err(TrainError::PartNeedsWhole);
        }
        match &self.options.tuning {
            None if self.options.target_error.is_some() || self.options.foreign.is_some() => {
                Err(TrainError::AbstainNeedsTuning)
            }
            None if self.options.vote.is_some_and(|vote| vote.learned) => {
                Err(TrainError::LearnedNeedsTuning)
            }
            None => self.plain(documents, name, on_event),
            Some(tuning) => self.tuned(documents, name, tuning, on_event),
        }
    }

    /// Chooses k, vote and decision of an existing model, by leave-one-out on its documents.
    ///
    /// # Errors
    /// If the model weights queries differently from documents, the options conflict, or the search
    /// fails.
    pub fn retune(&self, model: Model, on_event: OnEvent<'_>) -> Result<Trained, TrainError> {
        let begin = Instant::now();
        let settings = model.settings();
        if settings.part_of.is_some() {
            return Err(TrainError::PartNeedsWhole);
        }
        let (share, free_share) = self.share(&model);
        let by_terms = model.searches_terms() && (free_share || share < 1.0);
        let derived = model.dense().is_some_and(|dense| dense.projection().is_some());
        if !settings.weighting.is_symmetric() && (by_terms || derived) {
            let weighting = settings.weighting.to_string();
            return Err(TrainError::NotSymmetric { weighting });
        }
        let tuning = self.options.tuning.unwrap_or_default();
        let several = self.options.decision.several(settings.decision.is_multi());
        let rows = Arc::clone(model.rows());
        let terms = by_terms.then(|| self.engines.engine(&rows)).transpose()?;
        let dense = model.dense().filter(|_| free_share || share > 0.0);
        let vectors = dense.map(|dense| self.engines.dense(dense)).transpose()?;
        let training = TrainingRows {
            terms: terms.as_deref().map(|engine| View { engine, queries: (&*rows).into() }),
            by_fold: None,
            vectors: vectors
                .as_deref()
                .zip(dense)
                .map(|(engine, dense)| View { engine, queries: dense.vectors().view().into() }),
            share: Some(share).filter(|_| !free_share),
            labels: model.training_labels(),
            nested: settings.selection.is_none() && settings.weighting.chi2_power() <= 0.0,
        };
        let cosine = settings.weighting.is_cosine() && settings.weighting.chi2_power() <= 0.0;
        let excluded = Excluded::find(&training, cosine, &tuning, Vec::new(), on_event)?;
        // The model does not record how many terms were dropped, so unknown terms tell nothing.
        let unknown = |_: u32| 0.0;
        let learnt =
            self.votes(&training, &tuning, several, &excluded, &unknown, Vec::new(), on_event)?;
        let Learnt { decision, report, calibration, abstention, foreign, learned } = learnt;
        let tuned = (report.summary(), abstention);
        let share = report.dense_share.unwrap_or(0.0);
        let model = model.retuned(&report.best, decision, tuned, share);
        let model = model.with_learned_votes(learned).calibrated(calibration).refusing(foreign);
        let stages = vec![Stage::since("tune", model.rows().rows() as u64, begin)];
        Ok(Trained { model, tuning: Some(report), stages })
    }

    /// The share of the neighbors by dense vectors of an existing model, and whether tuning may change it.
    fn share(&self, model: &Model) -> (f64, bool) {
        let settings = model.settings();
        match self.options.dense_share {
            _ if !model.searches_both() => (settings.dense_share, false),
            Some(share) => (share, false),
            None => (settings.dense_share, true),
        }
    }

    fn plain(
        &self,
        documents: Documents<'_>,
        name: &str,
        on_event: OnEvent<'_>,
    ) -> Result<Trained, TrainError> {
        let first = documents.next().transpose()?.ok_or_else(|| at(name, Problem::NoDocument))?;
        let mut settings = self.settings(&first)?;
        let mut given = GivenVectors::new(self.options.features.first_column);
        let takes = self.takes_vectors();
        let mut documents = std::iter::once(Ok(first)).chain(documents).map(|document| {
            let mut document = document?;
            if takes {
                given.take(&mut document)?;
            }
            Ok(document)
        });
        let input = Input::new(&settings.input, &settings.fields);
        let mut counts =
            self.count(&mut documents, &input, &|count| on_event(Event::Read(count)))?;
        if let Some(whole) = &self.options.part_of {
            if counts.is_of_features() {
                return Err(TrainError::PartOfFeatures);
            }
            counts = counts.under(whole);
        }
        if counts.has_no_term() && !self.options.has_no_terms() {
            return Err(at(name, Problem::NoTerm).into());
        }
        self.weigh_classes(&mut counts)?;
        if let Some(selection) = self.options.selection {
            counts = counts.select(selection, self.engines.threads());
        }
        let shares = || shares(&counts.label_sizes(), counts.documents());
        settings.decision = self.options.decision.decision(counts.has_several_labels(), shares)?;
        let mut stages = std::mem::take(&mut counts.stages);
        let (documents, start) = (counts.documents() as u64, Instant::now());
        let mut model = Model::of_counts(counts, settings, self.engines.threads());
        stages.push(Stage::since("train: weigh", documents, start));
        if let Some(options) = &self.options.dense {
            let start = Instant::now();
            let input = &model.settings().input;
            let terms = Terms { rows: model.rows().view(), vocabulary: model.vocabulary(), input };
            let part = self.dense_part(options, given, terms, name, on_event)?;
            let share = self.options.dense_share.unwrap_or(0.5);
            model = model.with_dense(part, if options.with_terms { share } else { 1.0 });
            stages.push(Stage::since("train: make the vectors", documents, start));
        }
        Ok(Trained { model, tuning: None, stages })
    }

    /// Whether documents bring dense vectors along.
    fn takes_vectors(&self) -> bool {
        let dense = self.options.dense.as_ref();
        dense.is_some_and(|dense| matches!(dense.source, DenseSource::Given { .. }))
    }

    /// All documents, and the vectors that they bring along.
    fn read_all(
        &self,
        documents: Documents<'_>,
        on_event: OnEvent<'_>,
    ) -> Result<(Vec<Document>, GivenVectors), CorpusError> {
        let mut given = GivenVectors::new(self.options.features.first_column);
        let mut all = Vec::new();
        for (document, count) in documents.zip(1..) {
            on_event(Event::Read(count));
            let mut document = document?;
            if self.takes_vectors() {
                given.take(&mut document)?;
            }
            all.push(document);
        }
        Ok((all, given))
    }

    fn tuned(
        &self,
        documents: Documents<'_>,
        name: &str,
        tuning: &TuneOptions,
        on_event: OnEvent<'_>,
    ) -> Result<Trained, TrainError> {
        self.options.decision.tuned_rule()?;
        let begin = Instant::now();
        let (documents, given) = self.read_all(documents, on_event)?;
        let read = Stage::since("train: read", documents.len() as u64, begin);
        let begin = Instant::now();
        let (model, report) = self.tuned_on(&documents, given, name, tuning, on_event)?;
        let tuned = Stage::since("train: tune", documents.len() as u64, begin);
        Ok(Trained { model, tuning: Some(report), stages: vec![read, tuned] })
    }

    #[expect(clippy::too_many_lines, reason = "the whole way from documents to a tuned model")]
    fn tuned_on(
        &self,
        documents: &[Document],
        given: GivenVectors,
        name: &str,
        tuning: &TuneOptions,
        on_event: OnEvent<'_>,
    ) -> Result<(Model, TuningReport), TrainError> {
        let threads = self.engines.threads();
        let first = documents.first().ok_or_else(|| at(name, Problem::NoDocument))?;
        let mut settings = self.settings(first)?;
        let spec = match &settings.input {
            InputSpec::Text(spec) => Some(spec.clone()),
            InputSpec::Features(_) | InputSpec::Vectors(_) => None,
        };
        let as_given = settings.input.clone();
        let unknown_label = RefCell::new(None);
        let mut recount = |analyzer: &Option<AnalyzerSpec>, fields: &Fields| {
            let input = analyzer.clone().map_or_else(|| as_given.clone(), InputSpec::Text);
            let input = Input::new(&input, fields);
            let mut counts = self.count(&mut documents.iter().cloned().map(Ok), &input, &|_| ())?;
            if let Err(error) = self.weigh_classes(&mut counts) {
                unknown_label.replace(Some(error));
            }
            Ok(counts)
        };
        let start = Features {
            analyzer: spec,
            fields: settings.fields.clone(),
            weighting: settings.weighting,
            selection: self.options.selection,
        };
        let counts = recount(&start.analyzer, &start.fields)?;
        if let Some(error) = unknown_label.take() {
            return Err(error);
        }
        let alone = self.options.has_no_terms();
        if let InputSpec::Features(spec) = &mut settings.input
            && tuning.features
            && tuning.free.weighting
            && counts.is_binary()
        {
            // What a document has or has not can be weighted like words.
            spec.counts = true;
        }
        if counts.has_no_term() && !alone {
            return Err(at(name, Problem::NoTerm).into());
        }
        let tuning = &TuneOptions { k_max: cut(tuning.k_max, counts.documents()), ..*tuning };
        let several = self.options.decision.several(counts.has_several_labels());
        // Without terms, near-duplicates are found by the dense vectors, below.
        let mut excluded = if alone {
            Excluded::default()
        } else {
            self.excluded(&counts, &start, tuning, on_event)?
        };
        let (features, counted, steps) = if tuning.features && !alone {
            let sample = sample(counts.documents(), tuning.sample);
            let grid = Grid::coarse(tuning.k_max, several, tuning.objective);
            let free = tuning.free.for_corpus(&settings.input, &counts);
            let setup = TrialSetup {
                sample: &sample,
                k_max: tuning.k_max,
                grid: &grid,
                exclusion: excluded.exclusion(),
                engines: &self.engines,
            };
            let mut trials = Trials {
                setup,
                recount: &mut recount,
                progress: &mut |step| on_event(Event::Step { step, objective: tuning.objective }),
            };
            tune_features(&mut trials, start, counts, free)?
        } else {
            (start, Counted::new(counts, excluded.exclusion()), Vec::new())
        };
        match (&features.analyzer, &mut settings.input) {
            (Some(analyzer), input) => *input = InputSpec::Text(analyzer.clone()),
            (None, InputSpec::Features(spec)) if !self.options.features.counts => {
                spec.counts &= features.weighting != features.weighting.of_weights();
            }
            (None, _) => {}
        }
        let selected = |counted: Counted| match features.selection {
            Some(selection) => counted.into_counts().select(selection, threads),
            None => counted.into_counts(),
        };
        let (learnt, counts, part) = if self.options.dense.is_none() {
            let sizes = counted.counts().label_sizes();
            let labels = counted.counts().training_labels(&sizes);
            let by_fold = ByFold { counted: &counted, features: &features, engines: &self.engines };
            let training = TrainingRows::by_fold(by_fold, labels);
            let unknown = counted.unknown_shares(&features, threads);
            let unknown = |row: u32| unknown[row as usize];
            let learnt =
                self.votes(&training, tuning, several, &excluded, &unknown, steps, on_event)?;
            (learnt, selected(counted), None)
        } else {
            let told = counted.is_told_by_labels(&features);
            let counts = selected(counted);
            let weighted = Weighted::new(&counts, &features.fields, features.weighting, threads);
            let (rows, vocabulary) = (weighted.documents().view(), &counts.vocabulary);
            let terms = Terms { rows, vocabulary, input: &settings.input };
            let dense = self.options.dense.as_ref();
            let part = dense.map(|dense| self.dense_part(dense, given, terms, name, on_event));
            let part = part.transpose()?;
            let sizes = counts.label_sizes();
            let labels = counts.training_labels(&sizes);
            let nested = !told;
            let prepared = self.prepared(&weighted, features.weighting, part.as_ref(), nested)?;
            let training = prepared.rows(labels, self.options.dense_share);
            if alone {
                let groups = counts.groups().to_vec();
                excluded = Excluded::find(&training, false, tuning, groups, on_event)?;
            }
            let unknown = |row: u32| counts.unknown_share(row as usize);
            let learnt =
                self.votes(&training, tuning, several, &excluded, &unknown, steps, on_event)?;
            drop(prepared);
            (learnt, counts, part)
        };
        let Learnt { decision, report, calibration, abstention, foreign, learned } = learnt;
        let settings = TrainSettings {
            fields: features.fields,
            weighting: features.weighting,
            selection: features.selection,
            ..voting(settings, &report, decision, abstention)
        };
        let mut model = Model::of_counts(counts, settings, threads).with_learned_votes(learned);
        if let Some(part) = part {
            model = model.with_dense(part, report.dense_share.unwrap_or(1.0));
        }
        let model = model.calibrated(calibration).refusing(foreign);
        Ok((model, report))
    }

    /// Near-duplicates and the window, determined with the vectors that tuning starts from.
    fn excluded(
        &self,
        counts: &Counts,
        start: &Features,
        tuning: &TuneOptions,
        on_event: OnEvent<'_>,
    ) -> Result<Excluded, SearchError> {
        // Terms weighted by labels make documents with the same label nearly equal.
        let weighting = start.weighting.with_chi2_power(0.0).unwrap_or(start.weighting);
        let plain = Weighted::new(counts, &start.fields, weighting, self.engines.threads());
        let engine = self.engines.engine(plain.documents())?;
        let sizes = counts.label_sizes();
        let labels = counts.training_labels(&sizes);
        let view = View { engine: &*engine, queries: (&**plain.queries()).into() };
        let training = TrainingRows {
            terms: Some(view),
            by_fold: None,
            vectors: None,
            share: None,
            labels,
            nested: true,
        };
        let cosine = start.weighting.is_cosine();
        let groups = counts.groups().to_vec();
        Excluded::find(&training, cosine, tuning, groups, on_event)
    }

    /// Counts a corpus and adds the ancestors of its labels.
    fn count(
        &self,
        documents: Documents<'_>,
        input: &Input,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Counts, CorpusError> {
        let TrainOptions { limits, keep_text, hierarchy, .. } = &self.options;
        let threads = self.engines.threads();
        let mut counts = Counts::read(documents, input, *limits, *keep_text, threads, progress)?;
        counts.close_labels(hierarchy);
        Ok(counts)
    }

    fn weigh_classes(&self, counts: &mut Counts) -> Result<(), TrainError> {
        let Some(weights) = &self.options.class_weights else { return Ok(()) };
        counts.weigh_classes(weights).map_err(TrainError::UnknownLabel)
    }

    /// The settings for a corpus, except the decision, which depends on the whole corpus.
    fn settings(&self, first: &Document) -> Result<TrainSettings, TrainError> {
        let options = &self.options;
        let mut weighting = options.weighting;
        let input = match &first.content {
            _ if self.options.has_no_terms() => {
                if options.keep_text {
                    return Err(TrainError::NoText);
                }
                InputSpec::Vectors(VectorSpec { first_column: options.features.first_column })
            }
            Content::Text(_) | Content::Fields(_) if options.features.counts => {
                return Err(TrainError::NoFeatures);
            }
            Content::Text(_) | Content::Fields(_) => InputSpec::Text(options.analyzer.clone()),
            Content::Features(_) if options.keep_text => return Err(TrainError::NoText),
            Content::Features(_) => {
                if !options.features.counts {
                    weighting = weighting.of_weights();
                }
                InputSpec::Features(options.features)
            }
        };
        if !options.hierarchy.is_empty() {
            options.decision.refuse_single("--hierarchy")?;
        }
        Ok(TrainSettings {
            input,
            fields: options.fields.clone(),
            weighting,
            k: options.k.unwrap_or(TrainSettings::K),
            vote: options.vote.unwrap_or_default(),
            decision: Decision::Single,
            selection: options.selection,
            tuning: None,
            abstention: None,
            hierarchy: options.hierarchy.clone(),
        })
    }
}

/// Settings with the tuned vote and decision.
fn voting(
    settings: TrainSettings,
    report: &TuningReport,
    decision: Decision,
    abstention: Option<Abstention>,
) -> TrainSettings {
    TrainSettings {
        k: NonZeroUsize::new(report.best.k).unwrap_or(TrainSettings::K),
        vote: report.best.vote,
        decision,
        tuning: Some(report.summary()),
        abstention,
        ..settings
    }
}

fn at(name: &str, problem: Problem) -> CorpusError {
    CorpusError { place: Place { source: name.into(), line: None }, problem }
}

/// Caps `k_max` at the number of other documents.
fn cut(k_max: NonZeroUsize, documents: usize) -> NonZeroUsize {
    let others = NonZeroUsize::new(documents.saturating_sub(1)).unwrap_or(NonZeroUsize::MIN);
    k_max.min(others)
}

/// At most `count` of `rows` row numbers, evenly spaced.
fn sample(rows: usize, count: usize) -> Vec<u32> {
    let count = count.clamp(1, rows.max(1)).min(rows);
    (0..count).filter_map(|at| u32::try_from(at * rows / count).ok()).collect()
}
