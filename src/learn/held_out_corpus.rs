//! A corpus whose documents were each compared with a model learned without them.

use super::TrainError;
use super::held_out::find_valley;
use super::label_errors::{self, LabelErrors, NEIGHBORS};
use super::pipeline::{Pipeline, cap_k};
use crate::search::Neighbor;
use crate::text::corpus::{Document, LabelFrequency, Note, label_notes, repeated_ids};

/// Documents, each compared with a model that was learned without it. Documents are identified by
/// their positions in `documents`, and labels by their positions in `label_names`.
#[derive(Debug, Clone)]
pub struct HeldOutCorpus {
    /// The documents, in the order of the corpus. Their vectors were moved into the model.
    pub documents: Vec<Document>,
    /// The names of the labels, in byte order.
    pub label_names: Vec<String>,
    /// The labels of each document, in increasing order, with their ancestors in the hierarchy.
    pub labels: Vec<Vec<u32>>,
    /// Whether documents can have several labels.
    pub multi_label: bool,
    /// The labels that are probably wrong.
    pub label_errors: LabelErrors,
    /// The nearest other documents of each document, nearest first: at most
    /// [`HeldOutCorpus::NEAREST`]. They may be duplicates of it.
    pub nearest: Vec<Vec<Neighbor>>,
    /// Whether similarities are cosines of terms.
    pub is_cosine: bool,
    /// The cosine above which documents are near-duplicates; `None` if no cosine separates them
    /// from other documents.
    pub near_duplicates_above: Option<f32>,
}

impl HeldOutCorpus {
    /// The maximum number of nearest documents that are kept for each document.
    pub const NEAREST: usize = 10;

    /// Notes on possible problems with the corpus.
    pub fn notes(&self) -> Vec<Note> {
        let mut sizes = vec![0; self.label_names.len()];
        for &label in self.labels.iter().flatten() {
            sizes[label as usize] += 1;
        }
        let labels = self.label_names.iter().zip(sizes);
        let frequencies: Vec<LabelFrequency<'_>> =
            labels.map(|(label, documents)| LabelFrequency { label, documents }).collect();
        let mut notes = label_notes(&frequencies, self.documents.len() as u64);
        notes.extend(repeated_ids(self.documents.iter().map(|document| &*document.id)));
        notes
    }

    /// Holds out every row of a pipeline. The caller adds the documents, their labels and the label
    /// names.
    pub(super) fn of(pipeline: &Pipeline<'_>) -> Result<Self, TrainError> {
        let Pipeline { run, rows, tuning, multi_label, excluded, .. } = *pipeline;
        let count = rows.labels.weights.len();
        let all: Vec<u32> = (0u32..).take(count).collect();
        let k = cap_k(tuning.k_max.min(NEIGHBORS), count);
        let exclusion = excluded.exclusion();
        let share = rows.share.unwrap_or(0.5);
        let found = pipeline.hold_out(&all, k, exclusion, share)?;
        let threads = run.threads();
        let prototypes = rows.prototypes(&found, multi_label, exclusion, threads)?;
        let prototypes = prototypes.as_ref();
        let label_errors =
            label_errors::learn(&found, rows.labels, prototypes, multi_label, threads);
        let nearest = |index: usize| {
            let (_, voters) = found.get(index);
            let nearest = voters.ranked().map(|(.., neighbor)| *neighbor);
            nearest.take(Self::NEAREST).collect()
        };
        let nearest: Vec<Vec<Neighbor>> = (0..count).map(nearest).collect();
        let is_cosine = rows.searches_cosines();
        let best = nearest.iter().filter_map(|nearest| nearest.first()).map(|best| best.similarity);
        let near_duplicates_above = if is_cosine { find_valley(best) } else { None };
        Ok(Self {
            documents: Vec::new(),
            label_names: Vec::new(),
            labels: Vec::new(),
            multi_label,
            label_errors,
            nearest,
            is_cosine,
            near_duplicates_above,
        })
    }
}
