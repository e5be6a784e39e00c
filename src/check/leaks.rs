//! Test documents that are also training documents.

use serde::Serialize;

use super::found_document::FoundDocument;
use crate::classifier::Classifier;
use crate::classifier::stream::Source;
use crate::evaluate::{EvaluateError, EvaluateOptions, evaluate};
use crate::text::corpus::Document;

/// Test documents that are also training documents.
#[derive(Debug, Clone, Serialize)]
pub struct Leaks {
    /// The number of test documents.
    pub documents: u64,
    /// The test documents with a twin in the training corpus, in the order of the test corpus.
    pub leaks: Vec<Leak>,
    /// The micro F1 on all test documents.
    pub micro_f1: f64,
    /// The micro F1 on the test documents without a twin; `None` if there are none.
    pub micro_f1_without: Option<f64>,
}

/// A test document with a twin in the training corpus.
#[derive(Debug, Clone, Serialize)]
pub struct Leak {
    /// The test document.
    pub test: FoundDocument,
    /// The identifier of the most similar training document.
    pub training_id: String,
    /// The labels of that document.
    pub training_labels: Vec<String>,
    /// The similarity of the two.
    pub similarity: f32,
}

/// Training and test documents above this cosine are twins, if the training corpus does not
/// determine another limit.
const TWINS: f32 = 0.95;
/// Number of documents that are classified together.
const BATCH: usize = 4_096;

/// Finds the test documents that are also training documents, and evaluates the classifier with and
/// without them. `above` is the cosine above which documents are near-duplicates; `None` for 0.95.
/// Leaks are found only if the model's similarities are cosines.
///
/// # Errors
/// Fails if the test documents do not match the model, or there are none.
///
/// # Panics
/// Never panics: every document gets a prediction.
pub fn find_leaks(
    classifier: &Classifier,
    test: &[Document],
    above: Option<f32>,
) -> Result<Leaks, EvaluateError> {
    let options = classifier.options();
    let model = classifier.model();
    let weighting = model.settings().weighting;
    let finds = model.has_terms() && weighting.is_cosine() && weighting.is_symmetric();
    let predictions = classifier.predict_documents(test, &options)?;
    let mut leaks = Vec::new();
    let mut others = Vec::new();
    for (document, prediction) in test.iter().zip(predictions) {
        let nearest = prediction.neighbors.first();
        match nearest.filter(|nearest| finds && nearest.similarity >= above.unwrap_or(TWINS)) {
            None => others.push(document.clone()),
            Some(nearest) => {
                let labels = model.document_labels(nearest.row).iter();
                leaks.push(Leak {
                    test: FoundDocument::new(document),
                    training_id: model.ids().get(nearest.row as usize).unwrap_or_default().into(),
                    training_labels: labels.map(|&label| model.label_name(label).into()).collect(),
                    similarity: nearest.similarity,
                });
            }
        }
    }
    let micro_f1 = |documents: Vec<Document>| {
        let source = Source::Documents(Box::new(documents.into_iter().map(Ok)));
        let setup = EvaluateOptions { batch: BATCH, ..EvaluateOptions::default() };
        evaluate(classifier, &options, source, setup, &|_| ()).map(|found| found.micro.f1)
    };
    let without = if others.is_empty() { None } else { Some(micro_f1(others)?) };
    Ok(Leaks {
        documents: test.len() as u64,
        leaks,
        micro_f1: micro_f1(test.to_vec())?,
        micro_f1_without: without,
    })
}
