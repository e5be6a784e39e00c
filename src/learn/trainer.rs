//! The entry point of training: runs plain, quick or full training.

use std::sync::Arc;
use std::time::Instant;

use super::cross_validation::{FirstDocuments, cross_validate};
use super::dense::{ProjectionInput, dense_part};
use super::given_vectors::GivenVectors;
use super::options::{DenseSource, TuneOptions, TuneScope};
use super::retune::retune;
use super::run::{Documents, OnEvent, Run};
use super::tuned_training;
use super::{Event, HeldOutCorpus, TrainError, TrainOptions, TrainingResult};
use crate::classifier::{Classifier, Searchers};
use crate::decide::decision::{DecisionOptions, label_shares};
use crate::decide::vote::Vote;
use crate::model::Model;
use crate::search::Engines;
use crate::stages::Stage;
use crate::text::corpus::{CorpusError, Document, Problem};
use crate::text::hierarchy::Hierarchy;
use crate::threads::Threads;

/// The labels of documents of a first and a second corpus, in byte order.
const ORIGINS: [&str; 2] = ["1", "2"];

/// Trains models.
///
/// ```
/// use classify::learn::Trainer;
/// use classify::text::corpus::Document;
///
/// let documents = [
///     Document::text("a", "bake the bread").labels(["cooking"]),
///     Document::text("b", "tune the guitar").labels(["music"]),
/// ];
/// let trainer = Trainer::builder().build();
/// let trained = trainer.train(&documents)?;
/// assert_eq!(trained.model.labels().len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Trainer<'a> {
    options: TrainOptions,
    engines: Option<Engines>,
    corpus_name: String,
    on_event: OnEvent<'a>,
    /// The number of documents at the end of the corpus that are never held out.
    never_held_out: usize,
    /// Whether the documents are those of a corpus without a fold.
    is_without_fold: bool,
}

impl std::fmt::Debug for Trainer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trainer").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Builds a [`Trainer`]. Every field is optional.
#[derive(Debug, Clone)]
pub struct TrainerBuilder<'a>(Trainer<'a>);

impl<'a> TrainerBuilder<'a> {
    /// Sets the options that determine the model. The default is [`TrainOptions::default`].
    #[must_use]
    pub fn options(self, options: TrainOptions) -> Self {
        Self(Trainer { options, ..self.0 })
    }

    /// Sets the engines that search during tuning. By default, the CPU searches with all threads.
    #[must_use]
    pub fn engines(self, engines: Engines) -> Self {
        Self(Trainer { engines: Some(engines), ..self.0 })
    }

    /// Sets the corpus name in errors about the whole corpus. The default is `corpus`.
    #[must_use]
    pub fn corpus_name(self, name: impl Into<String>) -> Self {
        Self(Trainer { corpus_name: name.into(), ..self.0 })
    }

    /// Sets the function to call with each event. By default, events are ignored.
    #[must_use]
    pub fn on_event(self, on_event: OnEvent<'a>) -> Self {
        Self(Trainer { on_event, ..self.0 })
    }

    /// Returns the trainer.
    pub fn build(self) -> Trainer<'a> {
        self.0
    }
}

impl<'a> Trainer<'a> {
    /// Returns a builder with the default options.
    pub fn builder() -> TrainerBuilder<'a> {
        TrainerBuilder(Self {
            options: TrainOptions::default(),
            engines: None,
            corpus_name: "corpus".to_owned(),
            on_event: &|_| (),
            never_held_out: 0,
            is_without_fold: false,
        })
    }

    /// Trains a model on documents: a slice, a `Vec`, any other iterator of [`Document`], or a
    /// fallible stream such as a [`Corpus`](crate::text::corpus::Corpus). The first document
    /// determines whether the corpus has text or features.
    ///
    /// # Errors
    /// Returns the first error of the corpus. Fails if the corpus has no documents or no terms, and
    /// if options conflict with each other or with the corpus.
    pub fn train<D: Into<Result<Document, CorpusError>>>(
        &self,
        documents: impl IntoIterator<Item = D, IntoIter: Send>,
    ) -> Result<TrainingResult, TrainError> {
        self.train_stream(&mut documents.into_iter().map(Into::into))
    }

    /// Trains, and estimates the metrics of a small corpus by cross-validation.
    fn train_stream(&self, documents: Documents<'_>) -> Result<TrainingResult, TrainError> {
        self.check_options()?;
        let first = if self.cross_validates() {
            FirstDocuments::read(documents)?
        } else {
            FirstDocuments::default()
        };
        let FirstDocuments { documents: first, is_whole } = first;
        let trained = if is_whole {
            let mut trained = self.train_once(&mut first.iter().cloned().map(Ok))?;
            let engines = self.engines()?;
            let of_fold = self.for_one_fold();
            let train =
                |documents: Documents<'_>| of_fold.classifier(of_fold.train_once(documents)?);
            let expected = cross_validate(&self.run(&engines), &first, &trained, &train)?;
            if let Some(expected) = expected {
                trained.set_cross_validated(expected);
            }
            trained
        } else {
            self.train_once(&mut first.into_iter().map(Ok).chain(documents))?
        };
        if let Some(report) = &trained.tuning {
            (self.on_event)(Event::Tuned(report));
        }
        Ok(trained)
    }

    /// Whether small corpora are cross-validated. Word vectors are not read again for each fold.
    fn cross_validates(&self) -> bool {
        let source = self.options.dense.as_ref().map(|dense| &dense.source);
        self.options.tuning.is_some_and(|tuning| tuning.cross_validate)
            && !matches!(source, Some(DenseSource::WordVectors(_)))
    }

    /// The options for full tuning, if they request it.
    fn full_tuning(&self) -> Option<TuneOptions> {
        self.options.tuning.filter(|tuning| tuning.scope != TuneScope::Quick)
    }

    /// Checks, before the corpus is read, that the options do not conflict.
    fn check_options(&self) -> Result<(), TrainError> {
        let options = &self.options;
        let tuning = self.full_tuning();
        if options.part_of.is_some()
            && (tuning.is_some()
                || options.selection.is_some()
                || options.dense.is_some()
                || options.weighting.chi2_power() > 0.0)
        {
            return Err(TrainError::PartNeedsWhole);
        }
        if options.vote.is_some_and(|vote| vote.prototypes > 0.0) {
            return Err(TrainError::PrototypesAreTuned);
        }
        if tuning.is_some() {
            options.decision.tuned_rule(true)?;
        } else if options.target_error.is_some() || options.novelty.is_some() {
            return Err(TrainError::AbstainNeedsTuning);
        } else if options.vote.is_some_and(|vote| vote.learned) {
            return Err(TrainError::LearnedNeedsTuning);
        }
        Ok(())
    }

    /// Trains without cross-validation, and without reporting [`Event::Tuned`].
    fn train_once(&self, documents: Documents<'_>) -> Result<TrainingResult, TrainError> {
        let engines = self.engines()?;
        let run = self.run(&engines);
        match &self.full_tuning() {
            None => train_plainly(&run, documents),
            Some(tuning) => tuned_training::train(&run, documents, tuning),
        }
    }

    /// Chooses k, vote and decision of an existing model by leave-one-out on all its documents,
    /// regardless of the tuning scope in the options.
    ///
    /// # Errors
    /// Fails if the options conflict or the search fails. Also fails if the model weights queries
    /// differently from documents, stores no texts, and its counts cannot be recovered from its
    /// rows.
    pub fn retune(&self, model: Model) -> Result<TrainingResult, TrainError> {
        let engines = self.engines()?;
        let trained = retune(&self.run(&engines), model)?;
        if let Some(report) = &trained.tuning {
            (self.on_event)(Event::Tuned(report));
        }
        Ok(trained)
    }

    /// Compares each document with a model that was learned without it. If the options request full
    /// tuning, it chooses the features; no other setting is tuned.
    ///
    /// ```
    /// use classify::learn::Trainer;
    /// use classify::text::corpus::Document;
    ///
    /// let texts = ["bake the bread", "bake a cake", "tune the guitar", "play the guitar"];
    /// let labels = ["food", "food", "music", "music"];
    /// let documents: Vec<Document> = (0..200)
    ///     .map(|n| (n, format!("{} {n}", texts[n % 4])))
    ///     .map(|(n, text)| Document::text(n.to_string(), text).labels([labels[n % 4]]))
    ///     .chain([Document::text("wrong", "play the guitar well").labels(["food"])])
    ///     .collect();
    /// let held_out = Trainer::builder().build().hold_out(&documents)?;
    /// let suspect = held_out.rows.label_errors.suspects[0];
    /// assert_eq!(held_out.documents[suspect.row as usize].id, "wrong");
    /// let suggested = suspect.suggested.expect("each document has one label");
    /// assert_eq!(held_out.label_names()[suggested as usize], "music");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`train`](Self::train).
    pub fn hold_out<D: Into<Result<Document, CorpusError>>>(
        &self,
        documents: impl IntoIterator<Item = D, IntoIter: Send>,
    ) -> Result<HeldOutCorpus, TrainError> {
        let engines = self.engines()?;
        let run = self.run(&engines);
        tuned_training::hold_out(&run, &mut documents.into_iter().map(Into::into))
    }

    /// Compares each document of two corpora with the other documents of both. Its label is the
    /// [origin](ORIGINS): the corpus from which it comes. Documents are weighted as in the options,
    /// but nothing depends on their labels.
    ///
    /// # Errors
    /// As for [`train`](Self::train).
    pub(crate) fn hold_out_origins(
        &self,
        corpora: [&[Document]; 2],
    ) -> Result<HeldOutCorpus, TrainError> {
        let trainer = self.without_labels();
        let documents = corpora.into_iter().zip(ORIGINS).flat_map(|(documents, origin)| {
            // Groups are within a corpus, so they would show the origin.
            documents
                .iter()
                .map(move |document| Document { group: None, ..document.clone().labels([origin]) })
        });
        trainer.hold_out(documents)
    }

    /// Returns a trainer of documents whose labels do not matter: with the features that these
    /// options give without labels, and without tuning.
    pub(crate) fn without_labels(&self) -> Self {
        let weighting = self.options.weighting;
        let options = TrainOptions {
            weighting: weighting.with_chi2_power(0.0).unwrap_or(weighting),
            selection: None,
            class_weights: None,
            hierarchy: Hierarchy::default(),
            decision: DecisionOptions::default(),
            tuning: None,
            ..self.options.clone()
        };
        Trainer { options, ..self.clone() }
    }

    /// Returns a trainer with the same options, but without tuning and what needs it.
    pub(super) fn untuned(&self) -> Self {
        let is_plain = |vote: &Vote| !vote.learned && vote.prototypes == 0.0;
        let options = TrainOptions {
            tuning: None,
            target_error: None,
            novelty: None,
            vote: self.options.vote.filter(is_plain),
            ..self.options.clone()
        };
        Trainer { options, ..self.clone() }
    }

    /// Returns a trainer that reports no events and does not learn when to abstain.
    fn for_one_fold(&self) -> Self {
        let options = TrainOptions { target_error: None, novelty: None, ..self.options.clone() };
        Trainer { options, on_event: &|_| (), is_without_fold: true, ..self.clone() }
    }

    /// Returns a trainer that never holds out the last documents of the corpus.
    pub(super) fn with_last_never_held_out(&self, count: usize) -> Self {
        Trainer { never_held_out: count, ..self.clone() }
    }

    /// Returns a classifier with the trainer's engines.
    pub(super) fn classifier(&self, trained: TrainingResult) -> Result<Classifier, TrainError> {
        let engines = self.engines()?;
        let model = Arc::new(trained.model);
        let searchers = Searchers::of(&model, model.settings().dense_share, &engines)?;
        Ok(Classifier::with_searchers(model, searchers, engines.threads()))
    }

    pub(crate) fn engines(&self) -> Result<Engines, TrainError> {
        match &self.engines {
            Some(engines) => Ok(engines.clone()),
            None => Ok(Engines::cpu(&Threads::available()?)),
        }
    }

    fn run<'b>(&'b self, engines: &'b Engines) -> Run<'b> {
        Run {
            options: &self.options,
            engines,
            corpus_name: &self.corpus_name,
            on_event: self.on_event,
            never_held_out: self.never_held_out,
            is_without_fold: self.is_without_fold,
        }
    }
}

/// Trains with the settings of the options, or with a k and a vote that are chosen quickly.
fn train_plainly(run: &Run<'_>, documents: Documents<'_>) -> Result<TrainingResult, TrainError> {
    let options = run.options;
    let threads = run.threads();
    let first = documents.next().transpose()?;
    let first = first.ok_or_else(|| run.corpus_error(Problem::NoDocument))?;
    let mut settings = run.settings(&first)?;
    let mut given = GivenVectors::new(options.features.first_column);
    let takes = run.has_given_vectors();
    let mut documents = std::iter::once(Ok(first)).chain(documents).map(|document| {
        let mut document = document?;
        if takes {
            given.take(&mut document)?;
        }
        Ok(document)
    });
    let input = settings.input.counting(&settings.fields);
    let mut counts = run.count(&mut documents, &input, &|count| run.report(Event::Read(count)))?;
    if let Some(whole) = &options.part_of {
        if counts.is_of_features() {
            return Err(TrainError::PartOfFeatures);
        }
        counts = counts.under(whole);
    }
    if counts.has_no_term() && !options.has_no_terms() {
        return Err(run.corpus_error(counts.no_term_problem()).into());
    }
    run.apply_class_weights(&mut counts)?;
    let mut stages = std::mem::take(&mut counts.stages);
    let documents = counts.documents() as u64;
    if let Some(tuning) = tuned_training::quick_options(run, &counts, &given) {
        let start = Instant::now();
        let (model, report) = tuned_training::train_quickly(run, counts, settings, given, &tuning)?;
        stages.push(Stage::since("train: choose k and vote, weigh", documents, start));
        return Ok(TrainingResult { model, tuning: Some(report), stages });
    }
    if let Some(selection) = options.selection {
        counts = selection.apply(counts, threads);
    }
    let shares = || label_shares(&counts.label_sizes(), counts.documents());
    settings.decision = options.decision.decision(counts.has_several_labels(), shares)?;
    let start = Instant::now();
    let mut model = Model::of_counts(counts, settings, threads);
    stages.push(Stage::since("train: weigh", documents, start));
    if let Some(dense) = &options.dense {
        let start = Instant::now();
        let input = &model.settings().input;
        let terms =
            ProjectionInput { rows: model.rows().view(), vocabulary: model.vocabulary(), input };
        let part = dense_part(run, dense, given, terms)?;
        let share = options.dense_share.unwrap_or(0.5);
        model = model.with_dense(part, if dense.with_terms { share } else { 1.0 });
        stages.push(Stage::since("train: make the vectors", documents, start));
    }
    Ok(TrainingResult { model, tuning: None, stages })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 110 documents are enough for quick tuning. Without a fold they are fewer than 100, but are
    /// tuned, too.
    #[test]
    fn documents_without_a_fold_are_tuned_like_the_corpus() {
        let documents: Vec<Document> = (0..99)
            .map(|number| {
                let label = ["a", "b", "c"][number % 3];
                Document::text(number.to_string(), format!("{label} {number}")).labels([label])
            })
            .collect();
        let trainer = Trainer::builder().build();
        let is_tuned = |trainer: &Trainer<'_>| {
            let result = trainer.train_once(&mut documents.iter().cloned().map(Ok));
            result.unwrap().tuning.is_some()
        };
        assert!(!is_tuned(&trainer) && is_tuned(&trainer.for_one_fold()));
    }
}
