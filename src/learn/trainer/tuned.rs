//! Tuned training: features, k, vote, thresholds and calibration are chosen before the model is made.

use std::cell::RefCell;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

use super::dense::{DenseSource, GivenVectors, Terms};
use super::excluded::Excluded;
use super::reweigh::kept_documents;
use super::training_rows::{ByFold, TrainingRows, View};
use super::votes::Learnt;
use super::{Documents, Event, OnEvent, TrainError, Trained, Trainer, TuneOptions, TuneScope, at};
use crate::classifier::{Classifier, DocumentVectors, Searchers};
use crate::decide::calibrate::Abstention;
use crate::decide::decision::Decision;
use crate::decide::vote::TrainingLabels;
use crate::learn::tune::{
    Counted, Exclusion, Features, Free, Grid, Indexed, Step, TrialSetup, Trials, TuningReport,
    Weighted, drawn, learned_terms, tune_features,
};
use crate::model::{InputSpec, Model, TrainSettings, TunedSettings};
use crate::rows::dense::{DensePart, Vectors};
use crate::rows::matrix::{Csr, csr};
use crate::search::SearchError;
use crate::stages::Stage;
use crate::text::analyze::AnalyzerSpec;
use crate::text::corpus::{Document, Problem};
use crate::text::counts::{Counts, Fields, Input};
use crate::text::tfidf::{Side, TermWeights, Weighting, counts_of};

/// The documents of a model as queries.
struct Queries {
    rows: Csr,
    dense: Option<Vectors>,
    /// Unit rows of the documents, if the counts are known.
    unit_rows: Option<Arc<Csr>>,
}

/// Counted documents whose features are chosen.
struct Chosen {
    counted: Counted,
    features: Features,
    settings: TrainSettings,
    excluded: Excluded,
}

/// The fewest documents of which some are left out to choose settings quickly.
const FEWEST: usize = 100;
/// The most pairs of a document and a term with which that is done: it needs about 20 bytes for each.
const MOST_ENTRIES: usize = 1 << 26;
/// The most products of a search by dense vectors for that.
const MOST_PRODUCTS: usize = 20_000_000_000;
/// The dimension of word vectors, unless their file has been read.
const WORD_VECTORS: usize = 300;

impl Trainer {
    /// Chooses k, vote and decision of an existing model, by leave-one-out on all its documents, whatever the scope
    /// of the options.
    ///
    /// # Errors
    /// If the model weights queries differently from documents, and neither its rows tell the counts nor does it keep the
    /// texts, the options conflict, or the search fails.
    ///
    /// # Panics
    /// Never: nobody else has the model.
    pub fn retune(&self, model: Model, on_event: OnEvent<'_>) -> Result<Trained, TrainError> {
        let begin = Instant::now();
        let model = Arc::new(model);
        let settings = model.settings();
        if settings.part_of.is_some() {
            return Err(TrainError::PartNeedsWhole);
        }
        let (share, free_share) = self.share(&model);
        let by_terms = model.searches_terms() && (free_share || share < 1.0);
        let derived = model.dense().is_some_and(|dense| dense.projection().is_some());
        let asked = if settings.weighting.is_symmetric() || !(by_terms || derived) {
            None
        } else {
            Some(self.queries(&model)?)
        };
        let tuning = self.options.tuning.unwrap_or_default();
        let scope = TuneScope::Votes;
        let tuning = TuneOptions { scope, ..tuning };
        let several = self.options.decision.several(settings.decision.is_multi());
        let rows = Arc::clone(model.rows());
        let terms = by_terms.then(|| self.engines.engine(&rows)).transpose()?;
        let dense = model.dense().filter(|_| free_share || share > 0.0);
        let vectors = dense.map(|dense| self.engines.dense(dense)).transpose()?;
        let training = TrainingRows {
            terms: terms.as_deref().map(|engine| {
                let queries = asked.as_ref().map_or(&*rows, |asked| &asked.rows).into();
                View { engine, queries }
            }),
            by_fold: None,
            vectors: vectors.as_deref().zip(dense).map(|(engine, dense)| {
                let asked = asked.as_ref().filter(|_| derived);
                let asked = asked.and_then(|asked| asked.dense.as_ref());
                View { engine, queries: asked.unwrap_or(dense.vectors()).view().into() }
            }),
            share: Some(share).filter(|_| !free_share),
            labels: model.training_labels(),
            unit_rows: Some(&rows).filter(|_| {
                let weighting = settings.weighting;
                by_terms && dense.is_none() && weighting.is_cosine() && weighting.is_symmetric()
            }),
            nested: settings.selection.is_none()
                && settings.weighting.chi2_power() <= 0.0
                && !model.learned_terms(),
        };
        let cosine = settings.weighting.is_cosine()
            && settings.weighting.chi2_power() <= 0.0
            && !model.learned_terms();
        let excluded = match asked.as_ref().and_then(|asked| asked.unit_rows.as_ref()) {
            Some(rows) => self.unlike(rows, model.training_labels(), &tuning, on_event)?,
            None => Excluded::find(
                &training,
                cosine,
                &tuning,
                Vec::new(),
                self.engines.threads(),
                on_event,
            )?,
        };
        // The model does not record how many terms were dropped, so unknown terms tell nothing.
        let unknown = |_: u32| 0.0;
        let learnt =
            self.votes(&training, &tuning, several, &excluded, &unknown, Vec::new(), on_event)?;
        let Learnt { decision, report, calibration, abstention, foreign, learned, prototypes } =
            learnt;
        let model = Arc::into_inner(model).expect("nobody else has the model");
        let model = model.retuned(TunedSettings {
            k: NonZeroUsize::new(report.best.k).unwrap_or(TrainSettings::K),
            vote: report.best.vote,
            decision,
            abstention,
            dense_share: report.dense_share.unwrap_or(0.0),
            summary: report.summary(),
        });
        let threads = self.engines.threads();
        let model = model.with_learned_votes(learned).with_prototypes(prototypes, threads);
        let model = model.calibrated(calibration).refusing(foreign);
        let stages = vec![Stage::since("tune", model.rows().rows() as u64, begin)];
        Ok(Trained { model, tuning: Some(report), stages })
    }

    /// The documents of a model as queries, made of its rows if these tell the counts, or of the texts that it keeps.
    fn queries(&self, model: &Arc<Model>) -> Result<Queries, TrainError> {
        let settings = model.settings();
        let threads = self.engines.threads();
        let weighting = settings.weighting;
        if let Some(counts) = counts_of(&weighting, model.rows(), model.term_weights(), threads) {
            let weigh = |weighting: Weighting, side, terms: TermWeights<'_>| {
                let mut rows = counts.clone();
                rows.weigh(&weighting, side, terms, threads);
                let columns = model.vocabulary().len();
                let rows = threads.run(|| csr(columns, rows.indptr, rows.indices, rows.data));
                rows.expect("rows in column order")
            };
            let rows = weigh(weighting, Side::Query, model.term_weights());
            let projection = model.dense().and_then(DensePart::projection);
            let dense = projection.map(|projection| {
                let values = projection.project_all(&rows.view(), threads);
                Vectors::new(projection.dimension(), values)
            });
            let dense = dense.transpose().map_err(SearchError::from)?;
            let frequencies = model.vocabulary().document_frequencies();
            let documents = u32::try_from(rows.rows()).unwrap_or(u32::MAX);
            let documents = frequencies.iter().copied().fold(documents, u32::max);
            let unit = Weighting::default();
            let idf = |&df: &u32| unit.idf(df, documents.into());
            let idf: Vec<f64> = frequencies.iter().map(idf).collect();
            let terms = TermWeights { idf: &idf, ..model.term_weights() };
            let unit_rows = Some(Arc::new(weigh(unit, Side::Document, terms)));
            return Ok(Queries { rows, dense, unit_rows });
        }
        if !model.keeps_texts() || !settings.fields.columns().is_empty() {
            return Err(TrainError::NotSymmetric { weighting: weighting.to_string() });
        }
        let mut documents: Vec<Document> = kept_documents(model).collect();
        // Vectors that documents brought along are searched as they are.
        if let Some(given) = model.dense().filter(|dense| dense.projection().is_none()) {
            for (document, vector) in documents.iter_mut().zip(given.vectors().view().iter()) {
                document.vector = Some(vector.to_vec());
            }
        }
        let searchers = Searchers::default();
        let classifier = Classifier::with_searchers(Arc::clone(model), searchers, threads);
        let DocumentVectors { rows, dense, .. } = classifier.vectorize(&documents)?;
        Ok(Queries { rows, dense, unit_rows: None })
    }

    /// What is excluded among documents without groups, by their unit rows.
    fn unlike(
        &self,
        rows: &Arc<Csr>,
        labels: TrainingLabels<'_>,
        tuning: &TuneOptions,
        on_event: OnEvent<'_>,
    ) -> Result<Excluded, SearchError> {
        let engine = self.engines.engine(rows)?;
        let view = View { engine: &*engine, queries: (&**rows).into() };
        let training = TrainingRows::by_terms(view, labels);
        Excluded::find(&training, true, tuning, Vec::new(), self.engines.threads(), on_event)
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

    pub(super) fn tuned(
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

    fn tuned_on(
        &self,
        documents: &[Document],
        given: GivenVectors,
        name: &str,
        tuning: &TuneOptions,
        on_event: OnEvent<'_>,
    ) -> Result<(Model, TuningReport), TrainError> {
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
            term_steps: 0,
        };
        let counts = recount(&start.analyzer, &start.fields)?;
        if let Some(error) = unknown_label.take() {
            return Err(error);
        }
        let alone = self.options.has_no_terms();
        if let InputSpec::Features(spec) = &mut settings.input
            && tuning.scope == TuneScope::All
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
        let (excluded, indexed) = if alone {
            (Excluded::default(), None)
        } else {
            self.excluded(&counts, &start, tuning, on_event)?
        };
        let (features, counted, steps) = if tuning.scope == TuneScope::All && !alone {
            drop(indexed);
            let sample = drawn(&excluded.hashes, tuning.sample.max(1));
            let grid = Grid::coarse(tuning.k_max, several, tuning.objective);
            let free = tuning.free.for_corpus(&settings.input, &counts);
            let free = Free { term_weights: self.options.dense.is_none(), ..free };
            let engines = self.engines.on_cpu();
            let setup = TrialSetup {
                sample: &sample,
                k_max: tuning.k_max,
                grid: &grid,
                exclusion: excluded.exclusion(),
                engines: &engines,
            };
            let mut trials = Trials {
                setup,
                recount: &mut recount,
                progress: &mut |step| on_event(Event::Step { step, objective: tuning.objective }),
            };
            tune_features(&mut trials, start, counts, free)?
        } else {
            (start, Counted::new(counts, excluded.exclusion()).with_index(indexed), Vec::new())
        };
        match (&features.analyzer, &mut settings.input) {
            (Some(analyzer), input) => *input = InputSpec::Text(analyzer.clone()),
            (None, InputSpec::Features(spec)) if !self.options.features.counts => {
                spec.counts &= features.weighting != features.weighting.of_weights();
            }
            (None, _) => {}
        }
        let chosen = Chosen { counted, features, settings, excluded };
        let order = (several, steps);
        self.with_votes(chosen, given, name, tuning, order, on_event)
    }

    /// How settings are chosen quickly; `None`: they are not, because options set them, or because there are
    /// too few or too many documents.
    pub(super) fn quick(&self, counts: &Counts, given: &GivenVectors) -> Option<TuneOptions> {
        let options = &self.options;
        let mut tuning = options.tuning.filter(|tuning| tuning.scope == TuneScope::Quick)?;
        let several = options.decision.several(counts.has_several_labels());
        let decided = options.decision.rule.is_some()
            || options.decision.threshold.is_some()
            || options.decision.allow_none
            || (several && options.vote.is_some_and(|vote| vote.compensation > 0.0))
            || (!several && options.k.is_some() && options.vote.is_some());
        let documents = counts.documents();
        if let Some(dense) = &options.dense {
            let dimension = match dense.source {
                DenseSource::Given { .. } => given.dimension(),
                DenseSource::Lsa { dimensions, .. } => dimensions,
                DenseSource::WordVectors(_) => WORD_VECTORS,
            };
            let products = documents.saturating_mul(dimension).max(1);
            tuning.sample = tuning.sample.min(MOST_PRODUCTS / products);
        }
        let fits = documents.min(tuning.sample) >= FEWEST && counts.entries() <= MOST_ENTRIES;
        let possible = options.part_of.is_none() && counts.label_names.len() > 1;
        tuning.k_max = cut(tuning.k_max, documents);
        (fits && possible && !decided).then_some(tuning)
    }

    /// A model with settings that are chosen quickly.
    pub(super) fn quickly_tuned(
        &self,
        counts: Counts,
        settings: TrainSettings,
        given: GivenVectors,
        name: &str,
        tuning: &TuneOptions,
        on_event: OnEvent<'_>,
    ) -> Result<(Model, TuningReport), TrainError> {
        let analyzer = match &settings.input {
            InputSpec::Text(spec) => Some(spec.clone()),
            InputSpec::Features(_) | InputSpec::Vectors(_) => None,
        };
        let features = Features {
            analyzer,
            fields: settings.fields.clone(),
            weighting: settings.weighting,
            selection: self.options.selection,
            term_steps: 0,
        };
        let (excluded, indexed) = if self.options.has_no_terms() {
            (Excluded::default(), None)
        } else {
            self.excluded(&counts, &features, tuning, on_event)?
        };
        let several = self.options.decision.several(counts.has_several_labels());
        let counted = Counted::new(counts, excluded.exclusion()).with_index(indexed);
        let chosen = Chosen { counted, features, settings, excluded };
        self.with_votes(chosen, given, name, tuning, (several, Vec::new()), on_event)
    }

    /// A model with the k, vote, decision and calibration that leave-one-out chooses, and what it found.
    /// `steps` were taken to choose the features.
    fn with_votes(
        &self,
        chosen: Chosen,
        given: GivenVectors,
        name: &str,
        tuning: &TuneOptions,
        (several, steps): (bool, Vec<Step>),
        on_event: OnEvent<'_>,
    ) -> Result<(Model, TuningReport), TrainError> {
        let Chosen { counted, features, settings, mut excluded } = chosen;
        let threads = self.engines.threads();
        let alone = self.options.has_no_terms();
        let selected = |counted: Counted| match features.selection {
            Some(selection) => selection.apply(counted.into_counts(), threads),
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
                excluded = Excluded::find(
                    &training,
                    false,
                    tuning,
                    groups,
                    self.engines.threads(),
                    on_event,
                )?;
            }
            let unknown = |row: u32| counts.unknown_share(row as usize);
            let learnt =
                self.votes(&training, tuning, several, &excluded, &unknown, steps, on_event)?;
            drop(prepared);
            (learnt, counts, part)
        };
        let Learnt { decision, report, calibration, abstention, foreign, learned, prototypes } =
            learnt;
        let settings = TrainSettings {
            fields: features.fields,
            weighting: features.weighting,
            selection: features.selection,
            ..voting(settings, &report, decision, abstention)
        };
        let factors = match features.term_steps {
            0 => None,
            steps => {
                let exclusion = excluded.exclusion();
                Some(self.term_factors(&counts, &settings, steps, exclusion)?)
            }
        };
        let mut model = Model::with_term_factors(counts, settings, factors, threads)
            .with_learned_votes(learned)
            .with_prototypes(prototypes, threads);
        if let Some(part) = part {
            model = model.with_dense(part, report.dense_share.unwrap_or(1.0));
        }
        let model = model.calibrated(calibration).refusing(foreign);
        Ok((model, report))
    }

    /// The learned factors of terms, by the labels of all documents.
    fn term_factors(
        &self,
        counts: &Counts,
        settings: &TrainSettings,
        steps: u32,
        exclusion: Exclusion<'_>,
    ) -> Result<Vec<f32>, SearchError> {
        let (fields, weighting) = (&settings.fields, settings.weighting);
        let weighted = Weighted::new(counts, fields, weighting, self.engines.threads());
        let sizes = counts.label_sizes();
        let among = counts.training_labels(&sizes);
        let documents = weighted.documents();
        let factors = learned_terms(documents, &among, exclusion, &[steps], &self.engines)?;
        Ok(factors.into_iter().flatten().collect())
    }

    /// Near-duplicates and the window, determined with the vectors that tuning starts from; and these vectors.
    fn excluded(
        &self,
        counts: &Counts,
        start: &Features,
        tuning: &TuneOptions,
        on_event: OnEvent<'_>,
    ) -> Result<(Excluded, Option<Indexed>), SearchError> {
        // Only cosines tell near-duplicates.
        let weighting = match start.weighting {
            weighting if weighting.is_cosine() => weighting,
            weighting if weighting == weighting.of_weights() => Weighting::default().of_weights(),
            _ => Weighting::default(),
        };
        // Terms weighted by labels make documents with the same label nearly equal.
        let weighting = weighting.with_chi2_power(0.0).unwrap_or(weighting);
        let plain = Indexed::new(counts, &start.fields, weighting, &self.engines)?;
        let sizes = counts.label_sizes();
        let labels = counts.training_labels(&sizes);
        let view = View { engine: plain.engine(), queries: (&**plain.weighted().queries()).into() };
        let training = TrainingRows::by_terms(view, labels);
        let groups = counts.groups().to_vec();
        let excluded =
            Excluded::find(&training, true, tuning, groups, self.engines.threads(), on_event)?;
        Ok((excluded, Some(plain)))
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

/// Caps `k_max` at the number of other documents.
pub(super) fn cut(k_max: NonZeroUsize, documents: usize) -> NonZeroUsize {
    let others = NonZeroUsize::new(documents.saturating_sub(1)).unwrap_or(NonZeroUsize::MIN);
    k_max.min(others)
}
