//! Trains with tuning: chooses settings and runs the learners before it builds the model.

use std::cell::RefCell;
use std::time::Instant;

use super::characters::CharacterSearch;
use super::dense::{ProjectionInput, dense_part};
use super::features::{ChosenFeatures, FeatureSearch, FreeDimensions, TrialSetup, language};
use super::given_vectors::GivenVectors;
use super::held_out::{ExcludedNeighbors, Exclusion, InspectedRows, SearchableRows, draw_sample};
use super::held_out_corpus::{HeldOutCorpus, HeldOutRows};
use super::options::{DenseOptions, DenseSource, NearDuplicateLimit, TuneOptions, TuneScope};
use super::pipeline::{Pipeline, cap_k};
use super::run::{Documents, Run};
use super::time_order::find_exclusions;
use super::training_rows::{
    CountedDocuments, Features, FoldWeightedDocuments, IndexedRows, TrainingRows, VectorSearch,
    WeightedRows, labels_of,
};
use super::votes::{Grid, Rules};
use super::{Event, Step, TrainError, TrainingResult, TuningReport, term_weights};
use crate::decide::decision::Rule;
use crate::model::{InputSpec, Model, TrainSettings};
use crate::rows::dense::DensePart;
use crate::rows::matrix::Csr;
use crate::search::SearchError;
use crate::stages::Stage;
use crate::text::analyze::{AnalyzerSpec, stop_word_language_name};
use crate::text::corpus::{Document, Problem};
use crate::text::counts::{Counts, Fields};
use crate::text::tfidf::Weighting;

/// Counted documents with the features that were chosen for them.
struct PreparedCorpus {
    counted: CountedDocuments,
    features: Features,
    settings: TrainSettings,
    excluded: ExcludedNeighbors,
    multi_label: bool,
    /// The options for tuning, with a k that the corpus permits.
    tuning: TuneOptions,
    /// The feature changes that were tried.
    steps: Vec<Step>,
}

/// Minimum number of documents for quick tuning.
const MIN_DOCUMENTS: usize = 100;
/// Maximum number of documents for which features are compared with the threshold rule alone. With
/// few documents, some features are the best by chance with one of many rules.
const MAX_DOCUMENTS_FOR_ONE_RULE: usize = 1_000;
/// Maximum number of document-term pairs for which the feature search keeps all counts. Counts
/// take 15 bytes per pair and more, and word pairs have several times as many pairs.
const MAX_ENTRIES_TO_KEEP: usize = 1 << 18;
/// Maximum number of document-term pairs for quick tuning. Each pair needs about 20 bytes.
const MAX_ENTRIES: usize = 1 << 26;
/// Maximum number of multiplications in a dense search for quick tuning.
const MAX_PRODUCTS: usize = 20_000_000_000;
/// The assumed dimension of word vectors before their file is read.
const WORD_VECTOR_DIMENSION: usize = 300;

/// Trains with full tuning.
pub(super) fn train(
    run: &Run<'_>,
    documents: Documents<'_>,
    tuning: &TuneOptions,
) -> Result<TrainingResult, TrainError> {
    let begin = Instant::now();
    let (documents, given) = run.read_all(documents)?;
    let read = Stage::since("train: read", documents.len() as u64, begin);
    let begin = Instant::now();
    let count = documents.len() as u64;
    let prepared = prepare(run, &documents, tuning)?;
    // From here, only the counts are needed.
    drop(documents);
    let (model, report) = learn_and_build(run, prepared, given)?;
    let tuned = Stage::since("train: tune", count, begin);
    Ok(TrainingResult { model, tuning: Some(report), stages: vec![read, tuned] })
}

/// Compares each document with a model that was learned without it.
pub(super) fn hold_out(
    run: &Run<'_>,
    documents: Documents<'_>,
) -> Result<HeldOutCorpus, TrainError> {
    if run.options.part_of.is_some() {
        return Err(TrainError::PartNeedsWhole);
    }
    let mut vectors = Vec::new();
    let mut documents = documents.inspect(|document| {
        vectors.extend(document.as_ref().ok().map(|document| document.vector.clone()));
    });
    let (mut documents, given) = run.read_all(&mut documents)?;
    let tuning = run.options.tuning.unwrap_or_else(TuneOptions::quick);
    // Every document is held out, not only a sample.
    let scope = if tuning.scope == TuneScope::Quick { TuneScope::Votes } else { tuning.scope };
    // Documents from the same time and near-duplicates are evidence about a label.
    let near_duplicates = NearDuplicateLimit::Off;
    let tuning = TuneOptions { scope, time_order: Some(false), near_duplicates, ..tuning };
    let prepared = prepare(run, &documents, &tuning)?;
    let used = use_pipeline(run, prepared, given, |pipeline, _| HeldOutRows::of(pipeline))?;
    for (document, vector) in documents.iter_mut().zip(vectors) {
        document.vector = vector;
    }
    Ok(HeldOutCorpus { documents, rows: used.result, counts: used.counts })
}

/// Counts documents, and chooses the features if the scope of `tuning` includes them.
fn prepare(
    run: &Run<'_>,
    documents: &[Document],
    tuning: &TuneOptions,
) -> Result<PreparedCorpus, TrainError> {
    let options = run.options;
    let first = documents.first().ok_or_else(|| run.corpus_error(Problem::NoDocument))?;
    let mut settings = run.settings(first)?;
    let as_given = settings.input.clone();
    let unknown_label = RefCell::new(None);
    let mut recount = |analyzer: &Option<AnalyzerSpec>, fields: &Fields| {
        let input = analyzer.clone().map_or_else(|| as_given.clone(), InputSpec::Text);
        let input = input.counting(fields);
        let mut counts = run.count(&mut documents.iter().cloned().map(Ok), &input, &|_| ())?;
        if let Err(error) = run.apply_class_weights(&mut counts) {
            unknown_label.replace(Some(error));
        }
        Ok(counts)
    };
    let start = features_of(run, &settings);
    let counts = recount(&start.analyzer, &start.fields)?;
    if let Some(error) = unknown_label.take() {
        return Err(error);
    }
    let vectors_only = options.has_no_terms();
    if let InputSpec::Features(spec) = &mut settings.input
        && tuning.scope == TuneScope::All
        && tuning.free.weighting
        && counts.is_binary()
    {
        // Binary features can be weighted like words.
        spec.counts = true;
    }
    if counts.has_no_term() && !vectors_only {
        return Err(run.corpus_error(counts.no_term_problem()).into());
    }
    let tuning = &TuneOptions { k_max: cap_k(tuning.k_max, counts.documents()), ..*tuning };
    let multi_label = options.decision.is_multi_label(counts.has_several_labels());
    let (excluded, indexed) = exclusions(run, &counts, &start, tuning)?;
    let chosen = if tuning.scope == TuneScope::All && !vectors_only {
        drop(indexed);
        let sample = draw_sample(&excluded.hashes, tuning.sample.max(1));
        let grid = Grid::coarse(tuning.k_max, multi_label, tuning.objective);
        let is_small = counts.documents() <= MAX_DOCUMENTS_FOR_ONE_RULE;
        let rules = if is_small { Rules(Some(Rule::Threshold)) } else { Rules::default() };
        let grid = Grid { rules, ..grid };
        let free = FreeDimensions::for_corpus(tuning.free, &settings.input, &counts);
        // Vectors are computed from terms with their usual weights.
        let is_projected = options.dense.as_ref().is_some_and(DenseOptions::is_projected);
        let free = FreeDimensions { term_weights: !is_projected, ..free };
        let engines = run.engines.on_cpu();
        let setup = TrialSetup {
            sample: &sample,
            k_max: tuning.k_max,
            grid: &grid,
            exclusion: excluded.exclusion(),
            engines: &engines,
        };
        let language = language(&counts);
        if free.analyzer {
            run.report(Event::Language(language.and_then(stop_word_language_name)));
        }
        let mut search = FeatureSearch {
            setup,
            language,
            recount: &mut recount,
            max_entries_to_keep: MAX_ENTRIES_TO_KEEP,
            progress: &mut |step| run.report(Event::Step { step, objective: tuning.objective }),
        };
        let chosen = search.run(start, counts, free)?;
        if free.analyzer && !is_projected {
            CharacterSearch { run, setup, free }.run(chosen, &mut recount)?
        } else {
            chosen
        }
    } else {
        let counted = CountedDocuments::new(counts, excluded.exclusion()).with_index(indexed);
        ChosenFeatures { features: start, counted, steps: Vec::new() }
    };
    let ChosenFeatures { features, counted, steps } = chosen;
    match (&features.analyzer, &mut settings.input) {
        (Some(analyzer), input) => *input = InputSpec::Text(analyzer.clone()),
        (None, InputSpec::Features(spec)) if !options.features.counts => {
            spec.counts &= features.weighting != features.weighting.of_weights();
        }
        (None, _) => {}
    }
    let tuning = *tuning;
    Ok(PreparedCorpus { counted, features, settings, excluded, multi_label, tuning, steps })
}

/// Returns the options for quick tuning. `None` if the options leave nothing to choose, or if the
/// corpus has too few or too many documents or only one label.
pub(super) fn quick_options(
    run: &Run<'_>,
    counts: &Counts,
    given: &GivenVectors,
) -> Option<TuneOptions> {
    let options = run.options;
    let mut tuning = options.tuning.filter(|tuning| tuning.scope == TuneScope::Quick)?;
    let multi_label = options.decision.is_multi_label(counts.has_several_labels());
    let is_decided = options.decision.rule.is_some()
        || options.decision.threshold.is_some()
        || options.decision.allow_none
        || (multi_label && options.vote.is_some_and(|vote| vote.compensation > 0.0))
        || (!multi_label && options.k.is_some() && options.vote.is_some());
    let documents = counts.documents();
    if let Some(dense) = &options.dense {
        let dimension = match dense.source {
            DenseSource::Given { .. } => given.dimension(),
            DenseSource::Lsa { dimensions, .. } => dimensions,
            DenseSource::WordVectors(_) => WORD_VECTOR_DIMENSION,
        };
        let products = documents.saturating_mul(dimension).max(1);
        tuning.sample = tuning.sample.min(MAX_PRODUCTS / products);
    }
    let has_enough = run.is_without_fold || documents.min(tuning.sample) >= MIN_DOCUMENTS;
    let fits = has_enough && counts.entries() <= MAX_ENTRIES;
    let is_possible = options.part_of.is_none() && counts.label_names.len() > 1;
    tuning.k_max = cap_k(tuning.k_max, documents);
    (fits && is_possible && !is_decided).then_some(tuning)
}

/// Trains with settings that quick tuning chooses.
pub(super) fn train_quickly(
    run: &Run<'_>,
    counts: Counts,
    settings: TrainSettings,
    given: GivenVectors,
    tuning: &TuneOptions,
) -> Result<(Model, TuningReport), TrainError> {
    let features = features_of(run, &settings);
    let (excluded, indexed) = exclusions(run, &counts, &features, tuning)?;
    let multi_label = run.options.decision.is_multi_label(counts.has_several_labels());
    let counted = CountedDocuments::new(counts, excluded.exclusion()).with_index(indexed);
    let (tuning, steps) = (*tuning, Vec::new());
    let prepared =
        PreparedCorpus { counted, features, settings, excluded, multi_label, tuning, steps };
    learn_and_build(run, prepared, given)
}

/// Returns the features that the options request.
fn features_of(run: &Run<'_>, settings: &TrainSettings) -> Features {
    let analyzer = match &settings.input {
        InputSpec::Text(spec) => Some(spec.clone()),
        InputSpec::Features(_) | InputSpec::Vectors(_) => None,
    };
    Features {
        analyzer,
        fields: settings.fields.clone(),
        weighting: settings.weighting,
        selection: run.options.selection,
        term_steps: 0,
    }
}

/// Runs the learners on chosen features, and builds the model.
fn learn_and_build(
    run: &Run<'_>,
    prepared: PreparedCorpus,
    given: GivenVectors,
) -> Result<(Model, TuningReport), TrainError> {
    let learn = |pipeline: &Pipeline<'_>, steps| pipeline.learn(steps);
    let Used { result, counts, part, features, settings, excluded } =
        use_pipeline(run, prepared, given, learn)?;
    let (learned, report) = result;
    let threads = run.threads();
    let settings = TrainSettings {
        decision: learned.decision.clone(),
        fields: features.fields,
        weighting: features.weighting,
        selection: features.selection,
        ..settings
    };
    let factors = match features.term_steps {
        0 => None,
        steps => Some(term_factors(run, &counts, &settings, steps, excluded.exclusion())?),
    };
    let mut model = Model::with_term_factors(counts, settings, factors, threads);
    if let Some(part) = part {
        model = model.with_dense(part, learned.dense_share);
    }
    Ok((model.with_learned(learned, threads), report))
}

/// The result of [`use_pipeline`], and the data that it consumed.
struct Used<R> {
    result: R,
    /// The counts of the selected terms.
    counts: Counts,
    part: Option<DensePart>,
    features: Features,
    settings: TrainSettings,
    excluded: ExcludedNeighbors,
}

/// Builds the pipeline over the rows of a prepared corpus, and calls `work` with it and with the
/// steps by which the features were chosen.
fn use_pipeline<R>(
    run: &Run<'_>,
    prepared: PreparedCorpus,
    given: GivenVectors,
    work: impl FnOnce(&Pipeline<'_>, Vec<Step>) -> Result<R, TrainError>,
) -> Result<Used<R>, TrainError> {
    let PreparedCorpus {
        mut counted,
        features,
        settings,
        mut excluded,
        multi_label,
        tuning,
        steps,
    } = prepared;
    counted.release_unused(&features);
    let tuning = &tuning;
    let threads = run.threads();
    let select = |counted: CountedDocuments| match features.selection {
        Some(selection) => selection.apply(counted.into_counts(), threads),
        None => counted.into_counts(),
    };
    let (result, counts, part) = if let Some(dense) = &run.options.dense {
        let with_terms = dense.with_terms;
        let is_projected = dense.is_projected();
        // Projections are computed from terms that may depend on all labels.
        let depends_on_labels = counted.depends_on_labels(&features);
        let nested = !depends_on_labels || (with_terms && !is_projected);
        let selection = features.selection.filter(|_| is_projected);
        let selected =
            selection.map(|selection| selection.apply(counted.counts().clone(), threads));
        let counts = selected.as_ref().unwrap_or(counted.counts());
        let projected = is_projected
            .then(|| WeightedRows::new(counts, &features.fields, features.weighting, threads));
        let no_rows = Csr::without_columns(0);
        let rows = projected.as_ref().map_or(no_rows.view(), |rows| rows.documents().view());
        let vocabulary = &counts.vocabulary;
        let terms = ProjectionInput { rows, vocabulary, input: &settings.input };
        let part = dense_part(run, dense, given, terms)?;
        let sizes = counted.counts().label_sizes();
        let labels = labels_of(counted.counts(), &sizes);
        let by_vectors = VectorSearch::new(run, projected.as_ref(), features.weighting, &part)?;
        let by_fold =
            FoldWeightedDocuments { counted: &counted, features: &features, engines: run.engines };
        let training = TrainingRows {
            terms: None,
            by_fold: with_terms.then_some(by_fold),
            vectors: Some(by_vectors.rows()),
            share: run.options.dense_share,
            labels,
            unit_rows: None,
            prototype_vectors: by_vectors.prototype_vectors(),
            nested,
        };
        let unknown = counted.unknown_shares(&features, threads);
        if run.options.has_no_terms() {
            // Without terms, near-duplicates are found by dense vectors.
            let inspected = InspectedRows {
                terms: None,
                vectors: training.vectors,
                labels,
                is_cosine: false,
                groups: counted.counts().groups().to_vec(),
            };
            excluded = find_exclusions(run, inspected, tuning, multi_label)?;
        }
        let pipeline = Pipeline {
            run,
            rows: &training,
            tuning,
            multi_label,
            excluded: &excluded,
            unknown_share: &|row| unknown[row as usize],
            // Projected vectors depend on the held-out document, and those of new documents do not.
            lengths: run.options.has_no_terms().then_some(&*counted.counts().lengths),
        };
        let result = work(&pipeline, steps)?;
        drop(by_vectors);
        drop(projected);
        (result, select(counted), Some(part))
    } else {
        let sizes = counted.counts().label_sizes();
        let labels = labels_of(counted.counts(), &sizes);
        let by_fold =
            FoldWeightedDocuments { counted: &counted, features: &features, engines: run.engines };
        let unknown = counted.unknown_shares(&features, threads);
        let pipeline = Pipeline {
            run,
            rows: &TrainingRows::by_fold(by_fold, labels),
            tuning,
            multi_label,
            excluded: &excluded,
            unknown_share: &|row| unknown[row as usize],
            lengths: Some(&*counted.counts().lengths),
        };
        let result = work(&pipeline, steps)?;
        (result, select(counted), None)
    };
    Ok(Used { result, counts, part, features, settings, excluded })
}

/// Returns the learned factors of terms, from the labels of all documents.
fn term_factors(
    run: &Run<'_>,
    counts: &Counts,
    settings: &TrainSettings,
    steps: u32,
    exclusion: Exclusion<'_>,
) -> Result<Vec<f32>, SearchError> {
    let weighted = WeightedRows::new(counts, &settings.fields, settings.weighting, run.threads());
    let sizes = counts.label_sizes();
    let labels = labels_of(counts, &sizes);
    let rows = weighted.documents();
    let factors = term_weights::learn(rows, &labels, exclusion, &[steps], run.engines)?;
    Ok(factors.into_iter().flatten().collect())
}

/// Determines the near-duplicates and the time window from the rows with which tuning starts, and
/// returns these rows too. Without terms, both are empty.
fn exclusions(
    run: &Run<'_>,
    counts: &Counts,
    start: &Features,
    tuning: &TuneOptions,
) -> Result<(ExcludedNeighbors, Option<IndexedRows>), SearchError> {
    if run.options.has_no_terms() {
        return Ok((ExcludedNeighbors::default(), None));
    }
    // Near-duplicates can be recognized only by cosines.
    let weighting = match start.weighting {
        weighting if weighting.is_cosine() => weighting,
        weighting if weighting == weighting.of_weights() => Weighting::default().of_weights(),
        _ => Weighting::default(),
    };
    // Weights based on labels make documents with the same label nearly equal.
    let weighting = weighting.with_chi2_power(0.0).unwrap_or(weighting);
    let plain = IndexedRows::new(counts, &start.fields, weighting, run.engines)?;
    let sizes = counts.label_sizes();
    let queries = (&**plain.weighted().queries()).into();
    let inspected = InspectedRows {
        terms: Some(SearchableRows { engine: plain.engine(), queries }),
        vectors: None,
        labels: labels_of(counts, &sizes),
        is_cosine: true,
        groups: counts.groups().to_vec(),
    };
    let multi_label = run.options.decision.is_multi_label(counts.has_several_labels());
    let excluded = find_exclusions(run, inspected, tuning, multi_label)?;
    Ok((excluded, Some(plain)))
}
