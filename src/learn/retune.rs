//! Tunes an existing model: chooses k, vote and decision again, and repeats all learning from
//! held-out documents.

use std::sync::Arc;
use std::time::Instant;

use super::held_out::{InspectedRows, SearchableRows};
use super::options::{TuneOptions, TuneScope};
use super::pipeline::Pipeline;
use super::reweight::stored_documents;
use super::run::Run;
use super::time_order::find_exclusions;
use super::training_rows::{TrainingRows, prototype_vectors};
use super::{TrainError, TrainingResult};
use crate::classifier::{Classifier, DocumentVectors, Searchers};
use crate::model::Model;
use crate::rows::dense::{DensePart, Vectors};
use crate::rows::matrix::{Csr, csr};
use crate::search::SearchError;
use crate::stages::Stage;
use crate::text::corpus::Document;
use crate::text::tfidf::{Side, TermWeights, Weighting, counts_of};

/// The documents of a model as queries.
struct Queries {
    rows: Csr,
    dense: Option<Vectors>,
    /// Unit rows of the documents, if the counts are known.
    unit_rows: Option<Arc<Csr>>,
}

/// See [`Trainer::retune`](super::Trainer::retune).
pub(super) fn retune(run: &Run<'_>, model: Model) -> Result<TrainingResult, TrainError> {
    let begin = Instant::now();
    let options = run.options;
    let threads = run.threads();
    let model = Arc::new(model);
    let settings = model.settings();
    if settings.part_of.is_some() {
        return Err(TrainError::PartNeedsWhole);
    }
    let is_share_free = model.searches_both() && options.dense_share.is_none();
    let share = options.dense_share.filter(|_| model.searches_both());
    let share = share.unwrap_or(settings.dense_share);
    let by_terms = model.searches_terms() && (is_share_free || share < 1.0);
    let is_projected = model.dense().is_some_and(|dense| dense.projection().is_some());
    let asymmetric = !settings.weighting.is_symmetric() && (by_terms || is_projected);
    let queries = if asymmetric { Some(queries(run, &model)?) } else { None };
    let tuning = options.tuning.unwrap_or_default();
    let tuning = TuneOptions { scope: TuneScope::Votes, ..tuning };
    let rows = Arc::clone(model.rows());
    let terms = by_terms.then(|| run.engines.engine(&rows)).transpose()?;
    let dense = model.dense().filter(|_| is_share_free || share > 0.0);
    let vectors = dense.map(|dense| run.engines.dense(dense)).transpose()?;
    let is_symmetric_cosine = settings.weighting.is_cosine() && settings.weighting.is_symmetric();
    let has_label_weights = settings.weighting.chi2_power() > 0.0 || model.learned_terms();
    let training = TrainingRows {
        terms: terms.as_deref().map(|engine| {
            let queries = queries.as_ref().map_or(&*rows, |queries| &queries.rows).into();
            SearchableRows { engine, queries }
        }),
        by_fold: None,
        vectors: vectors.as_deref().zip(dense).map(|(engine, dense)| {
            let projected = queries.as_ref().filter(|_| is_projected);
            let projected = projected.and_then(|queries| queries.dense.as_ref());
            SearchableRows { engine, queries: projected.unwrap_or(dense.vectors()).view().into() }
        }),
        share: Some(share).filter(|_| !is_share_free),
        labels: model.training_labels(),
        unit_rows: Some(&rows).filter(|_| model.searches_terms() && is_symmetric_cosine),
        prototype_vectors: model
            .dense()
            .filter(|_| !(is_projected && asymmetric))
            .and_then(prototype_vectors),
        nested: settings.selection.is_none() && !has_label_weights,
    };
    let unit_rows = queries.as_ref().and_then(|queries| queries.unit_rows.as_ref());
    let unit_engine = unit_rows.map(|rows| run.engines.engine(rows)).transpose()?;
    let inspected = InspectedRows {
        terms: training.terms,
        vectors: training.vectors,
        labels: training.labels,
        is_cosine: settings.weighting.is_cosine() && !has_label_weights,
        groups: Vec::new(),
    };
    let inspected = match (&unit_engine, unit_rows) {
        (Some(engine), Some(rows)) => {
            let view = SearchableRows { engine: &**engine, queries: (&**rows).into() };
            InspectedRows { terms: Some(view), vectors: None, is_cosine: true, ..inspected }
        }
        _ => inspected,
    };
    let multi_label = options.decision.is_multi_label(settings.decision.is_multi());
    let excluded = find_exclusions(run, inspected, &tuning, multi_label)?;
    drop(unit_engine);
    let pipeline = Pipeline {
        run,
        rows: &training,
        tuning: &tuning,
        multi_label,
        excluded: &excluded,
        // The model does not store how many terms were dropped, so the share of unknown terms is
        // not available.
        unknown_share: &|_| 0.0,
        lengths: None,
    };
    let (learned, report) = pipeline.learn(Vec::new())?;
    let model = Arc::into_inner(model).expect("no other reference to the model exists");
    let model = model.with_learned(learned, threads);
    let stages = vec![Stage::since("tune", model.rows().rows() as u64, begin)];
    Ok(TrainingResult { model, tuning: Some(report), stages })
}

/// Returns the documents of a model as queries. They come from the rows if the counts can be
/// recovered from them, and otherwise from the stored texts.
fn queries(run: &Run<'_>, model: &Arc<Model>) -> Result<Queries, TrainError> {
    let settings = model.settings();
    let threads = run.threads();
    let weighting = settings.weighting;
    if let Some(counts) = counts_of(&weighting, model.rows(), model.term_weights(), threads) {
        let weigh = |weighting: Weighting, side, terms: TermWeights<'_>| {
            let mut rows = counts.clone();
            rows.weigh(&weighting, side, terms, threads);
            let columns = model.vocabulary().len();
            let rows = threads.run(|| csr(columns, rows.indptr, rows.indices, rows.data));
            rows.expect("rows are in column order")
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
    let mut documents: Vec<Document> = stored_documents(model).collect();
    // Vectors that were given with the documents are searched unchanged.
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
