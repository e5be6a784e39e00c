//! Training: turns a corpus into a model, optionally tuned.
//!
//! ```text
//! documents ─▶ count ─▶ [tune: features, k, vote, thresholds, calibration] ─▶ weigh ─▶ Model
//! ```
//!
//! ```
//! use classify::text::corpus::{Corpus, ReadOptions};
//! use classify::search::Engines;
//! use classify::threads::Threads;
//! use classify::learn::trainer::{TrainOptions, Trainer, TuneOptions, TuneScope};
//!
//! let mut lines = String::new();
//! for number in 0..40 {
//!     lines.push_str(&format!("{{\"text\": \"bake bread {number}\", \"label\": \"cooking\"}}\n"));
//!     lines.push_str(&format!("{{\"text\": \"tune guitar {number}\", \"label\": \"music\"}}\n"));
//! }
//! let mut corpus = Corpus::from_bytes("80 lines", lines.into(), ReadOptions::default())?;
//!
//! // k, vote and decision are chosen by leave-one-out, from all documents.
//! let tuning = TuneOptions { scope: TuneScope::Votes, ..TuneOptions::default() };
//! let options = TrainOptions { tuning: Some(tuning), ..TrainOptions::default() };
//! let trainer = Trainer::new(options, Engines::cpu(&Threads::available()?));
//! let trained = trainer.train(&mut corpus, "80 lines", &|_| ())?;
//! assert_eq!(trained.model.labels().len(), 2);
//! assert!(trained.tuning.expect("it was tuned").figures.accuracy > 0.9);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::time::Instant;

use crate::decide::decision::{Decision, DecisionError, MultiLabelOption, shares};
use crate::learn::tune::{FeatureError, TuningReport};
use crate::model::{InputSpec, Model, TrainSettings, VectorSpec};
use crate::search::{Engines, SearchError};
use crate::stages::Stage;
use crate::text::corpus::{Content, CorpusError, Document, Place, Problem};
use crate::text::counts::{Counts, Input};

mod dense;
mod event;
mod excluded;
mod options;
mod reweigh;
mod training_rows;
mod tuned;
mod votes;

pub use dense::{DenseOptions, DenseSource};
pub use event::Event;
pub use options::{FreeFeatures, NearDuplicateLimit, TrainOptions, TuneOptions, TuneScope};
pub use reweigh::{ReweighError, reweigh};

use dense::{GivenVectors, Terms};

/// A stream of documents.
pub type Documents<'a> = &'a mut (dyn Iterator<Item = Result<Document, CorpusError>> + Send);

/// Called while a model is trained.
pub type OnEvent<'a> = &'a (dyn Fn(Event<'_>) + Sync);

/// A trained model and the results of tuning.
#[derive(Debug)]
pub struct Trained {
    /// The model.
    pub model: Model,
    /// The results of tuning, if anything was chosen.
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
    /// Prototypes cannot be asked for.
    #[error("the share of prototypes is chosen by --tune: leave /prototypes out of --vote")]
    PrototypesAreTuned,
    /// Learned votes conflict with deciding on whole batches.
    #[error("--vote learned conflicts with pcut: votes are learned for single documents")]
    LearnedByBatch,
    /// Abstaining conflicts with deciding on whole batches.
    #[error("--abstain conflicts with pcut: its limits apply to single documents")]
    AbstainByBatch,
    /// Label-size compensation conflicts with several labels.
    #[error("/size^ is for one label per document; label thresholds already account for sizes")]
    CompensationForSeveral,
    /// The model weights queries differently from documents, and has no texts to make queries of.
    #[error(
        "{weighting} weights queries differently from documents, and the model keeps no texts that queries could \
         be made of: train it with --keep-text and without --field, or tune while training, with \
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
        let tuning = self.options.tuning.filter(|tuning| tuning.scope != TuneScope::Quick);
        if self.options.part_of.is_some()
            && (tuning.is_some()
                || self.options.selection.is_some()
                || self.options.dense.is_some()
                || self.options.weighting.chi2_power() > 0.0)
        {
            return Err(TrainError::PartNeedsWhole);
        }
        if self.options.vote.is_some_and(|vote| vote.prototypes > 0.0) {
            return Err(TrainError::PrototypesAreTuned);
        }
        match &tuning {
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
        let mut stages = std::mem::take(&mut counts.stages);
        if let Some(tuning) = self.quick(&counts, &given) {
            let (documents, start) = (counts.documents() as u64, Instant::now());
            let (model, report) =
                self.quickly_tuned(counts, settings, given, name, &tuning, on_event)?;
            stages.push(Stage::since("train: choose k and vote, weigh", documents, start));
            return Ok(Trained { model, tuning: Some(report), stages });
        }
        if let Some(selection) = self.options.selection {
            counts = counts.select(selection, self.engines.threads());
        }
        let shares = || shares(&counts.label_sizes(), counts.documents());
        settings.decision = self.options.decision.decision(counts.has_several_labels(), shares)?;
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
            options.decision.refuse_single(MultiLabelOption::Hierarchy)?;
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

fn at(name: &str, problem: Problem) -> CorpusError {
    CorpusError { place: Place { source: name.into(), line: None }, problem }
}
