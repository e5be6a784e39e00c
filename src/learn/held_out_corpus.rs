//! A corpus whose documents were each compared with a model learned without them.

use super::TrainError;
use super::held_out::find_valley;
use super::label_errors::{self, LabelErrors, NEIGHBORS};
use super::pipeline::{Pipeline, cap_k};
use super::prototypes::Precision;
use crate::search::Neighbor;
use crate::text::corpus::{Document, LabelFrequency, Note, label_notes, repeated_ids};
use crate::text::counts::Counts;

/// Documents, each compared with a model that was learned without it. Documents are identified by
/// their positions in `documents`, and labels by their positions in `label_names()`.
#[derive(Debug, Clone)]
pub struct HeldOutCorpus {
    /// The documents, in the order of the corpus.
    pub documents: Vec<Document>,
    /// What was learned about each document.
    pub rows: HeldOutRows,
    /// The terms and labels of the documents.
    pub(crate) counts: Counts,
}

/// What was learned about each document of a corpus by comparing it with a model that was learned
/// without it.
#[derive(Debug, Clone)]
pub struct HeldOutRows {
    /// Whether documents can have several labels.
    pub multi_label: bool,
    /// The labels that are probably wrong.
    pub label_errors: LabelErrors,
    /// The nearest other documents of each document, nearest first: at most
    /// [`HeldOutRows::NEAREST`]. They may be duplicates of it.
    pub nearest: Vec<Vec<Neighbor>>,
    /// Whether similarities are cosines of terms.
    pub is_cosine: bool,
    /// The cosine above which documents are near-duplicates; `None` if no cosine separates them
    /// from other documents.
    pub near_duplicates_above: Option<f32>,
}

impl HeldOutCorpus {
    /// The names of the labels, in byte order.
    pub fn label_names(&self) -> &[String] {
        &self.counts.label_names
    }

    /// The labels of a document, in increasing order, with their ancestors in the hierarchy.
    ///
    /// # Panics
    /// If there is no such document.
    pub fn labels(&self, row: u32) -> &[u32] {
        self.counts.labels(row as usize)
    }

    /// Notes on possible problems with the corpus.
    pub fn notes(&self) -> Vec<Note> {
        let sizes = self.counts.label_sizes();
        let labels = self.label_names().iter().zip(sizes);
        let frequencies: Vec<LabelFrequency<'_>> =
            labels.map(|(label, size)| LabelFrequency { label, documents: size.into() }).collect();
        let mut notes = label_notes(&frequencies, self.documents.len() as u64);
        notes.extend(repeated_ids(self.documents.iter().map(|document| &*document.id)));
        notes
    }
}

impl HeldOutRows {
    /// The maximum number of nearest documents that are kept for each document.
    pub const NEAREST: usize = 10;

    /// Holds out every row of a pipeline.
    pub(super) fn of(pipeline: &Pipeline<'_>) -> Result<Self, TrainError> {
        let Pipeline { run, rows, tuning, multi_label, excluded, .. } = *pipeline;
        let count = rows.labels.weights.len();
        let all: Vec<u32> = (0u32..).take(count).collect();
        let k = cap_k(tuning.k_max.min(NEIGHBORS), count);
        let exclusion = excluded.exclusion();
        let share = rows.share.unwrap_or(0.5);
        let found = pipeline.hold_out(&all, k, exclusion, share)?;
        let threads = run.threads();
        let prototypes =
            rows.prototypes(&found, multi_label, exclusion, Precision::Full, threads)?;
        let prototypes = prototypes.as_ref();
        let label_errors =
            label_errors::learn(&found, rows.labels, prototypes, multi_label, threads);
        let mut nearest = vec![Vec::new(); count];
        for index in 0..found.len() {
            let (row, voters) = found.get(index);
            let neighbors = voters.ranked().map(|(.., neighbor)| *neighbor);
            nearest[row as usize] = neighbors.take(Self::NEAREST).collect::<Vec<Neighbor>>();
        }
        let is_cosine = rows.searches_cosines();
        let best = nearest.iter().filter_map(|nearest| nearest.first()).map(|best| best.similarity);
        let near_duplicates_above = if is_cosine { find_valley(best) } else { None };
        Ok(Self { multi_label, label_errors, nearest, is_cosine, near_duplicates_above })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::{DenseOptions, DenseSource, TrainOptions, Trainer};
    use crate::rows::dense::Metric;
    use crate::text::select::{Criterion, Selection};

    /// If terms are selected by labels, each fold of documents is searched separately.
    #[test]
    fn nearest_documents_belong_to_their_document() {
        let mut random = crate::random::Random::new(4);
        let mut words = |label: usize| -> String {
            let words: Vec<String> =
                (0..6).map(|_| format!("l{label}w{}", random.below(30))).collect();
            words.join(" ")
        };
        let mut texts: Vec<String> = (0..60).map(|n| words(n % 3)).collect();
        texts[59] = texts[0].clone();
        let document = |(n, text): (u8, String)| {
            let document = Document::text(n.to_string(), text).labels([format!("l{}", n % 3)]);
            Document { vector: Some(vec![n.into(), 1.0]), ..document }
        };
        let documents: Vec<Document> = (0..).zip(texts).map(document).collect();
        let terms = std::num::NonZeroUsize::new(80).unwrap();
        let selection = Selection { criterion: Criterion::Chi2, terms };
        let dense = DenseOptions {
            source: DenseSource::Given { field: None, encoder: None },
            metric: Metric::Angular,
            with_terms: true,
        };
        for dense in [None, Some(dense)] {
            let dense_share = dense.as_ref().map(|_| 0.0);
            let selection = Some(selection);
            let options = TrainOptions { dense, dense_share, selection, ..TrainOptions::default() };
            let trainer = Trainer::builder().options(options).build();
            let held_out = trainer.hold_out(&documents).unwrap();
            let first = |document: usize| held_out.rows.nearest[document][0];
            assert_eq!((first(0).row, first(59).row), (59, 0));
            assert!(first(0).similarity > 0.99, "{:?}", first(0));
        }
    }

    /// A model can be trained on the documents afterwards.
    #[test]
    fn documents_keep_their_vectors() {
        let dense = DenseOptions {
            source: DenseSource::Given { field: None, encoder: None },
            metric: Metric::Euclidean,
            with_terms: true,
        };
        let options = TrainOptions { dense: Some(dense), ..TrainOptions::default() };
        let documents: Vec<Document> = (0..20u8)
            .map(|n| {
                let label = if n % 2 == 0 { "even" } else { "odd" };
                let document = Document::text(n.to_string(), format!("{label} {n}"));
                let vector = Some(vec![f32::from(n % 2), f32::from(n)]);
                Document { vector, ..document.labels([label]) }
            })
            .collect();
        let trainer = Trainer::builder().options(options).build();
        let held_out = trainer.hold_out(&documents).unwrap();
        assert_eq!(held_out.documents, documents);
        assert!(trainer.train(&held_out.documents).unwrap().model.dense().is_some());
    }
}
