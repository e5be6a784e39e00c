//! Recomputes the terms and term weights of a model from the texts that it stores.

use std::num::NonZeroU32;
use std::sync::Arc;

use crate::decide::vote::Prototypes;
use crate::model::{InputSpec, Model, TrainSettings};
use crate::text::corpus::{Content, CorpusError, Document, Place};
use crate::text::counts::{CountOptions, Counts, DfLimit, TermLimits};
use crate::threads::Threads;

/// An error that stopped reweighting.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReweighError {
    /// The model stores no texts.
    #[error("the model stores no texts to count terms in: train it again with stored texts")]
    NoText,
    /// The texts had several fields, which the model does not store separately.
    #[error("the model does not store the fields of texts separately: train it again")]
    Fields,
    /// The model's dense vectors are computed from its terms.
    #[error("the dense vectors are computed from the terms: train the model again")]
    Vectors,
    /// The texts have no terms.
    #[error(transparent)]
    Corpus(#[from] CorpusError),
}

/// Returns the documents of a model that stores their texts.
pub(super) fn stored_documents(model: &Model) -> impl Iterator<Item = Document> {
    let source: Arc<str> = "the model's texts".into();
    let label = |&label: &u32| model.label_name(label).to_owned();
    let count = u32::try_from(model.ids().len()).unwrap_or(u32::MAX);
    (0..count).map(move |row| Document {
        id: model.ids().get(row as usize).unwrap_or_default().to_owned(),
        content: Content::Text(model.text(row).unwrap_or_default().to_owned()),
        labels: model.document_labels(row).iter().map(label).collect(),
        weight: model.document_weights()[row as usize],
        vector: None,
        group: None,
        place: Place { source: Arc::clone(&source), line: None },
    })
}

/// Counts and weights the stored texts of a model again. The vocabulary, term weights and rows are
/// then the same as in a model trained on the current documents. Terms in fewer documents than the
/// rarest term of the model are still dropped, and a term selection is repeated. Everything else
/// that was learned stays: k, vote, decision, and term factors. New terms have no factor.
///
/// # Errors
/// Fails if the model stores no texts, or not all of the data from which terms are computed.
pub fn reweigh(model: &Model, threads: &Threads) -> Result<Model, ReweighError> {
    let settings = model.settings();
    if !model.keeps_texts() || !matches!(settings.input, InputSpec::Text(_)) {
        return Err(ReweighError::NoText);
    }
    if !settings.fields.columns().is_empty() {
        return Err(ReweighError::Fields);
    }
    if model.dense().is_some_and(|dense| dense.projection().is_some()) {
        return Err(ReweighError::Vectors);
    }
    let mut documents = stored_documents(model).map(Ok);
    let rarest = model.vocabulary().document_frequencies().iter().min().copied();
    let rarest = rarest.and_then(NonZeroU32::new).map_or(1, NonZeroU32::get);
    let limits = TermLimits { min_df: DfLimit::Count(rarest), ..TermLimits::default() };
    let anew = TrainSettings {
        fields: settings.fields.clone(),
        weighting: settings.weighting,
        selection: settings.selection,
        ..TrainSettings::new(settings.input.clone(), crate::decide::decision::Decision::Single)
    };
    let input = anew.input.counting(&anew.fields);
    let options = CountOptions { input: &input, limits, keep_text: true };
    let mut counts = Counts::read(&mut documents, &options, threads, &|_| ())?;
    if let Some(selection) = anew.selection {
        counts = selection.apply(counts, threads);
    }
    let factors = model.term_factors_of(&counts.vocabulary);
    let anew = Model::with_term_factors(counts, anew, factors, threads);
    let learning = model.prototypes().map(Prototypes::learning);
    Ok(model.with_terms_of(anew).with_prototypes(learning, threads))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::decision::Decision;
    use crate::model::{Change, Collection};
    use crate::text::counts::Fields;

    fn documents() -> Vec<Document> {
        let texts = [("oven bread", "food"), ("bread butter", "food"), ("guitar song", "music")];
        let document = |(number, &(text, label)): (usize, &(&str, &str))| Document {
            id: number.to_string(),
            content: Content::Text(text.into()),
            labels: vec![label.into()],
            weight: 1.0,
            vector: None,
            group: None,
            place: Place { source: "made".into(), line: None },
        };
        texts.iter().enumerate().map(document).collect()
    }

    /// Returns a model whose term factors are 1.5, 2.5, … in the order of its terms.
    fn made() -> Model {
        let threads = Threads::available().unwrap();
        let input = InputSpec::default().counting(&Fields::Whole);
        let mut documents = documents().into_iter().map(Ok);
        let how = CountOptions { keep_text: true, ..CountOptions::new(&input) };
        let counts = Counts::read(&mut documents, &how, &threads, &|_| ()).unwrap();
        let factors = (0..counts.vocabulary.len()).map(|term| term as f32 + 1.5).collect();
        let settings = TrainSettings::new(InputSpec::default(), Decision::Single);
        Model::with_term_factors(counts, settings, Some(factors), &threads)
    }

    #[test]
    fn learned_term_factors_are_kept() {
        let model = made();
        let threads = Threads::available().unwrap();
        let weight = |model: &Model, term: &str| {
            model.arrays.idf[model.vocabulary().id(term).unwrap() as usize]
        };
        // Two of the three documents contain `bread`, the first term; one contains `butter`, the
        // second.
        assert!((weight(&model, "bread") - 1.5 * libm::log(1.5)).abs() < 1e-12);
        assert!((weight(&model, "butter") - 2.5 * libm::log(3.0)).abs() < 1e-12);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.model");
        model.save(&path).unwrap();
        assert!(std::fs::read(&path).unwrap().windows(11).any(|bytes| bytes == b"version\\\":1"));
        let read = Model::open(&path).unwrap();
        assert!(read.learned_terms());
        assert_eq!(read.settings().formula, model.settings().formula);
        // One document fewer: one of two documents contains `bread`, and none contains `butter`.
        let mut collection = Collection::new(read.into());
        collection.apply(vec![Change::Remove { id: "1".into() }]).unwrap();
        let again = reweigh(&collection.model(), &threads).unwrap();
        assert!((weight(&again, "bread") - 1.5 * libm::log(2.0)).abs() < 1e-12);
        assert!(again.learned_terms() && again.vocabulary().id("butter").is_none());
        again.save(&path).unwrap();
        assert!(Model::open(&path).unwrap().learned_terms());
    }

    #[test]
    fn damaged_factors_are_rejected() {
        for factors in [vec![1.0], vec![0.0; 5], vec![f32::NAN; 5]] {
            let mut model = made();
            model.arrays.term_factors = Some(factors.into());
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.model");
            let refused = model.save(&path).unwrap_err().to_string();
            assert!(refused.contains("vocabulary.factors"), "{refused}");
        }
    }
}
