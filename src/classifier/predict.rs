//! Predicts labels: vectorizes documents, searches, votes and decides.

use super::{
    Classifier, ClassifyError, ClassifyOptions, DocumentVectors, FoundNeighbors, Prediction,
    Predictor, RawPrediction,
};
use crate::text::corpus::Document;

impl Classifier {
    /// Predicts the labels of a text with the model's default options. See the example in the
    /// [crate documentation](crate).
    ///
    /// # Errors
    /// Fails if the model was trained on features, or the search fails.
    ///
    /// # Panics
    /// Never panics: one text has one prediction.
    pub fn predict(&self, text: &str) -> Result<Prediction<'_>, ClassifyError> {
        Ok(self.predict_all(&[text])?.remove(0))
    }

    /// Predicts the labels of many texts, in order. This is faster than one text at a time.
    ///
    /// # Errors
    /// Fails if the model was trained on features, or the search fails.
    pub fn predict_all(
        &self,
        texts: &[impl AsRef<str>],
    ) -> Result<Vec<Prediction<'_>>, ClassifyError> {
        let document = |(number, text): (usize, &_)| {
            let text: &str = AsRef::as_ref(text);
            Document::text(number.to_string(), text)
        };
        let documents: Vec<Document> = (1..).zip(texts).map(document).collect();
        let predictions = self.predict_documents(&documents, &self.options())?;
        Ok(predictions.iter().map(|raw| raw.named(&self.model)).collect())
    }

    /// Predicts the labels of documents with given options.
    ///
    /// This is the advanced interface: documents can have features and vectors, and predictions
    /// contain label numbers. [`RawPrediction::named`] replaces them with names.
    ///
    /// # Errors
    /// Fails if a document has features but the model needs text, or vice versa. Also fails if the
    /// search fails.
    pub fn predict_documents(
        &self,
        documents: &[Document],
        options: &ClassifyOptions,
    ) -> Result<Vec<RawPrediction>, ClassifyError> {
        let vectors = self.vectorize(documents)?;
        let mut neighbors = FoundNeighbors::default();
        let _ = self.neighbors(&vectors, options, &mut neighbors)?;
        Ok(self.predict_from_neighbors(&vectors, &neighbors, options))
    }

    /// Predicts labels from the first `options.k` neighbors of each list. A decision that [needs
    /// the batch](crate::decide::decision::Decision::needs_batch) treats these documents as the
    /// whole batch.
    pub fn predict_from_neighbors(
        &self,
        vectors: &DocumentVectors,
        neighbors: &FoundNeighbors,
        options: &ClassifyOptions,
    ) -> Vec<RawPrediction> {
        self.threads.run(|| Predictor::new(self, vectors, neighbors, options).predict_all())
    }
}
