//! A trained model in memory, with access to its settings and arrays.

use std::ops::Range;
use std::sync::Arc;

use super::rows_by_id::RowsById;
use super::segmented::Segmented;
use super::{InputSpec, Settings};
use crate::decide::calibrate::{Calibration, NoveltyScore, TrainingProfile};
use crate::decide::decision::label_shares;
use crate::decide::vote::{LearnedVotes, Prototypes, TrainingLabels};
use crate::rows::dense::{DenseFeatures, DensePart, DenseSpec};
use crate::rows::matrix::{Array, Csr, row};
use crate::rows::strings::Strings;
use crate::text::analyze::Analyzer;
use crate::text::corpus::{
    LabelFrequency, Note, ReadOptions, label_notes, repeated_ids, unknown_names,
};
use crate::text::tfidf::TermWeights;
use crate::text::vocabulary::Vocabulary;

/// A trained model, in memory or memory-mapped.
#[derive(Debug)]
pub struct Model {
    pub(crate) settings: Settings,
    pub(crate) arrays: Arrays,
    /// The number of training documents with each label.
    pub(crate) label_sizes: Vec<u32>,
    pub(crate) rows_by_id: RowsById,
}

/// The arrays of a model.
#[derive(Debug)]
pub(crate) struct Arrays {
    pub(crate) vocabulary: Arc<Vocabulary>,
    /// The weight of each term, including its learned factor.
    pub(crate) idf: Array<f64>,
    /// The learned factor of each term, if term weights were learned.
    pub(crate) term_factors: Option<Array<f32>>,
    pub(crate) rows: Segmented<Csr>,
    pub(crate) label_names: Strings,
    pub(crate) label_indptr: Array<u64>,
    pub(crate) label_indices: Array<u32>,
    pub(crate) ids: Strings,
    pub(crate) weights: Array<f32>,
    pub(crate) texts: Option<Segmented<Strings>>,
    pub(crate) calibration: Option<Calibration>,
    pub(crate) profile: Option<TrainingProfile>,
    pub(crate) novelty_score: Option<NoveltyScore>,
    pub(crate) learned_votes: Option<LearnedVotes>,
    pub(crate) prototypes: Option<Prototypes>,
    pub(crate) dense: Option<DensePart>,
}

impl Model {
    /// Returns the label prototypes, if they contribute to the scores.
    pub fn prototypes(&self) -> Option<&Prototypes> {
        self.arrays.prototypes.as_ref()
    }

    /// Returns the learned vote weights, if the vote uses them.
    pub fn learned_votes(&self) -> Option<&LearnedVotes> {
        self.arrays.learned_votes.as_ref()
    }

    /// Returns the learned factor of each term of a vocabulary, or 1 for a new term.
    pub(crate) fn term_factors_of(&self, vocabulary: &Vocabulary) -> Option<Vec<f32>> {
        let factors = self.arrays.term_factors.as_ref()?;
        let factor = |term: &str| self.vocabulary().id(term).map_or(1.0, |id| factors[id as usize]);
        let terms = (0u32..).take(vocabulary.len());
        Some(terms.map(|id| vocabulary.term(id).map_or(1.0, factor)).collect())
    }

    /// Whether term weights have learned factors.
    pub fn learned_terms(&self) -> bool {
        self.arrays.term_factors.is_some()
    }

    /// Returns the novelty score, if the model refuses out-of-distribution documents.
    pub fn novelty_score(&self) -> Option<&NoveltyScore> {
        self.arrays.novelty_score.as_ref()
    }

    /// Returns the calibration from scores to probabilities, if the model is calibrated.
    pub fn calibration(&self) -> Option<&Calibration> {
        self.arrays.calibration.as_ref()
    }

    /// Returns the settings of the training run and the size of the model.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the vocabulary.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.arrays.vocabulary
    }

    /// Returns the weighted training rows: documents × terms.
    pub fn rows(&self) -> &Arc<Csr> {
        self.arrays.rows.whole()
    }

    /// Returns the dense vectors, if the model has them.
    pub fn dense(&self) -> Option<&DensePart> {
        self.arrays.dense.as_ref()
    }

    /// Returns the number of the first column of features.
    pub(crate) fn first_column(&self) -> u32 {
        match &self.settings.input {
            InputSpec::Text(_) => 1,
            InputSpec::Features(spec) => spec.first_column,
            InputSpec::Vectors(spec) => spec.first_column,
        }
    }

    /// Whether documents have terms; false for [dense vectors only](InputSpec::Vectors).
    pub fn has_terms(&self) -> bool {
        !matches!(self.settings.input, InputSpec::Vectors(_))
    }

    /// Whether terms are searched rather than only projected to vectors.
    pub fn searches_terms(&self) -> bool {
        self.has_terms() && self.dense().is_none_or(|dense| !dense.spec().alone)
    }

    /// Whether predictions need the dense vectors of documents: vectors have a share of the votes,
    /// or the label prototypes use them.
    pub fn needs_vectors(&self, dense_share: f64) -> bool {
        let of_prototypes = self.prototypes().is_some_and(Prototypes::use_vectors);
        self.dense().is_some() && (dense_share > 0.0 || of_prototypes)
    }

    /// The number of columns of terms from which label prototypes are learned.
    pub(crate) fn prototype_terms(&self) -> usize {
        if self.settings.prototypes_use_terms() { self.vocabulary().len() } else { 0 }
    }

    /// Whether both terms and dense vectors are searched and share the votes.
    pub fn searches_both(&self) -> bool {
        self.searches_terms() && self.dense().is_some()
    }

    /// Returns a checksum of everything that a document's vector depends on: analysis, vocabulary,
    /// weighting and projection.
    pub(crate) fn fingerprint(&self) -> String {
        let Settings { input, fields, weighting, .. } = &self.settings;
        let mut hasher = crc32fast::Hasher::new();
        let (terms, offsets) = self.vocabulary().terms().parts();
        let settings = serde_json::to_vec(&(input, fields, weighting));
        hasher.update(&settings.expect("settings were read from JSON or will be written as JSON"));
        hasher.update(&self.settings.counts.mean_length.to_le_bytes());
        hasher.update(terms);
        hasher.update(bytemuck::cast_slice(offsets));
        hasher.update(bytemuck::cast_slice(&self.arrays.idf));
        if let Some(dense) = self.dense() {
            let spec = serde_json::to_vec(dense.spec());
            hasher.update(&spec.expect("settings were read from JSON or will be written as JSON"));
            let terms =
                dense.projection().map_or(&[][..], |projection| projection.terms().values());
            hasher.update(bytemuck::cast_slice(terms));
        }
        format!("{:08x}", hasher.finalize())
    }

    /// Returns the term weights for queries.
    pub(crate) fn term_weights(&self) -> TermWeights<'_> {
        let mean_length = self.settings.counts.mean_length;
        TermWeights { idf: &self.arrays.idf, mean_length }
    }

    /// Returns the label names by number, in byte order.
    pub fn labels(&self) -> &Strings {
        &self.arrays.label_names
    }

    /// Returns the name of a label.
    ///
    /// # Panics
    /// Panics if the model has no such label.
    pub fn label_name(&self, label: u32) -> &str {
        self.labels().get(label as usize).expect("a label of this model")
    }

    /// Returns the labels of training document `row`, in increasing order.
    ///
    /// # Panics
    /// Panics if there is no such document.
    pub fn document_labels(&self, row: u32) -> &[u32] {
        let row = row as usize;
        let bounds = &self.arrays.label_indptr[row..=row + 1];
        &self.arrays.label_indices[bounds_of(bounds[0], bounds[1])]
    }

    /// Returns the identifiers of the training documents.
    pub fn ids(&self) -> &Strings {
        &self.arrays.ids
    }

    /// Returns the row of the training document with the given identifier, or the first such row if
    /// there are several.
    ///
    /// The first call indexes the identifiers of all documents.
    pub fn row_of(&self, id: &str) -> Option<u32> {
        self.rows_by_id.row(self.ids(), id)
    }

    /// Returns the weights of the training documents' votes.
    pub fn document_weights(&self) -> &[f32] {
        &self.arrays.weights
    }

    /// Returns the number of training documents with each label.
    pub fn label_sizes(&self) -> &[u32] {
        &self.label_sizes
    }

    /// Returns the share of the training documents with each label.
    pub fn label_shares(&self) -> Vec<f64> {
        label_shares(&self.label_sizes, self.ids().len())
    }

    /// Returns every label with the number of training documents that have it, in order of label
    /// numbers.
    pub fn label_frequencies(&self) -> Vec<LabelFrequency<'_>> {
        let sizes = self.label_sizes.iter().map(|&size| u64::from(size));
        let labels = self.labels().iter().zip(sizes);
        labels.map(|(label, documents)| LabelFrequency { label, documents }).collect()
    }

    /// Returns notes on possible problems with the corpus on which the model was trained.
    pub fn notes(&self) -> Vec<Note> {
        let labels: Vec<&str> = self.labels().iter().collect();
        let documents = self.settings.counts.documents;
        let mut notes = label_notes(&self.label_frequencies(), documents);
        notes.extend(unknown_names(self.settings.hierarchy.children(), &labels));
        notes.extend(repeated_ids(self.ids().iter()));
        notes.extend(self.short_texts());
        notes
    }

    /// Returns a note if at least 5 % of the training texts have fewer than two terms. After term
    /// selection, this is expected and not noted.
    fn short_texts(&self) -> Option<Note> {
        let is_text = matches!(self.settings.input, InputSpec::Text(_));
        if !is_text || self.settings.selection.is_some() {
            return None;
        }
        let documents = self.rows().rows();
        let is_short = |row: &usize| self.rows().row(*row).0.len() < 2;
        let mut short = (0..documents).filter(is_short);
        let first = short.next()?;
        let short = 1 + short.count();
        let example = || self.ids().get(first).unwrap_or_default().to_owned();
        (short * 20 >= documents).then(|| Note::ShortTexts { short, documents, example: example() })
    }

    /// Returns the labels and weights of the training documents, for voting.
    pub fn training_labels(&self) -> TrainingLabels<'_> {
        TrainingLabels {
            indptr: &self.arrays.label_indptr,
            indices: &self.arrays.label_indices,
            weights: &self.arrays.weights,
            sizes: &self.label_sizes,
        }
    }

    /// Returns the texts of the training documents, if they were kept.
    pub fn texts(&self) -> Option<&Strings> {
        self.arrays.texts.as_ref().map(|texts| &**texts.whole())
    }

    /// Returns the text of training document `row`, if it was kept.
    ///
    /// # Panics
    /// Panics if there is no such document.
    pub fn text(&self, row: u32) -> Option<&str> {
        let (texts, local) = self.arrays.texts.as_ref()?.locate(row);
        texts.get(local)
    }

    /// Whether the texts of the training documents were kept.
    pub fn keeps_texts(&self) -> bool {
        self.arrays.texts.is_some()
    }

    /// Adjusts reading options so that documents are read as the model requires. Explicit options
    /// are kept.
    pub fn fit_read_options(&self, options: &mut ReadOptions) {
        match self.settings.input {
            InputSpec::Text(_) => options.text_only = true,
            InputSpec::Features(spec) => {
                options.first_column = options.first_column.or(Some(spec.first_column));
            }
            InputSpec::Vectors(spec) => {
                options.first_column = options.first_column.or(Some(spec.first_column));
                let encoder = self.settings.dense.as_ref().and_then(DenseSpec::encoder);
                options.text_optional = encoder.is_none();
            }
        }
        if let Some(DenseFeatures::Given { field, .. }) =
            self.settings.dense.as_ref().map(|dense| &dense.features)
            && options.vector_field.is_none()
            && options.vectors_beside.is_none()
            && options.encoder.is_none()
        {
            options.vector_field.clone_from(field);
        }
        if options.text_columns.is_empty() {
            self.settings.fields.read_apart(options);
        }
    }

    /// Returns the analyzer, if the model was trained on text.
    pub fn analyzer(&self) -> Option<Analyzer> {
        match &self.settings.input {
            InputSpec::Text(spec) => Some(Analyzer::new(spec.clone())),
            InputSpec::Features(_) | InputSpec::Vectors(_) => None,
        }
    }

    /// Returns the terms and weights of training document `row`, in order of terms.
    ///
    /// # Panics
    /// Panics if there is no such document.
    pub fn document_terms(&self, row_number: u32) -> (&[u32], &[f32]) {
        let (rows, local) = self.arrays.rows.locate(row_number);
        row(&rows.view(), local)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "checked against arrays in memory")]
pub(super) fn bounds_of(start: u64, end: u64) -> Range<usize> {
    start as usize..end as usize
}

impl Arrays {
    pub(crate) fn label_sizes(&self) -> Vec<u32> {
        let mut sizes = vec![0; self.label_names.len()];
        for &label in &*self.label_indices {
            // A damaged file may contain invalid labels, which are rejected later.
            if let Some(size) = sizes.get_mut(label as usize) {
                *size += 1;
            }
        }
        sizes
    }
}
