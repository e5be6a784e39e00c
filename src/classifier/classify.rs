//! Classifies documents: vectorizes, searches and predicts.

use super::{
    Classifier, ClassifyError, ClassifyOptions, DocumentVectors, FoundNeighbors, Prediction,
    Predictor,
};
use crate::text::corpus::{Content, Document, Place};

impl Classifier {
    /// Classifies documents.
    ///
    /// # Errors
    /// If a document has features but the model needs text, or vice versa; or the search fails.
    pub fn classify(
        &self,
        documents: &[Document],
        options: &ClassifyOptions,
    ) -> Result<Vec<Prediction>, ClassifyError> {
        let vectors = self.vectorize(documents)?;
        let mut neighbors = FoundNeighbors::default();
        let _ = self.neighbors(&vectors, options, &mut neighbors)?;
        Ok(self.predict(&vectors, &neighbors, options))
    }

    /// Classifies texts with the model's default options.
    ///
    /// # Errors
    /// If the model was trained on features.
    pub fn classify_texts(&self, texts: &[&str]) -> Result<Vec<Prediction>, ClassifyError> {
        let place = Place { source: "<text>".into(), line: None };
        let document = |(text, number): (&&str, u64)| Document {
            id: number.to_string(),
            content: Content::Text((*text).to_owned()),
            labels: Vec::new(),
            weight: 1.0,
            vector: None,
            group: None,
            place: Place { line: Some(number), ..place.clone() },
        };
        let documents: Vec<Document> = texts.iter().zip(1..).map(document).collect();
        self.classify(&documents, &self.options())
    }

    /// Predicts labels from the first `k` neighbors of each list. A decision that [needs the
    /// batch](crate::decide::decision::Decision::needs_batch) treats these documents as the whole
    /// batch.
    pub fn predict(
        &self,
        vectors: &DocumentVectors,
        neighbors: &FoundNeighbors,
        options: &ClassifyOptions,
    ) -> Vec<Prediction> {
        self.threads.run(|| Predictor::new(self, vectors, neighbors, options).predict_all())
    }
}
