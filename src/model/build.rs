//! Building models from term counts and learned parameters.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use super::rows_by_id::RowsById;
use super::segmented::Segmented;
use super::settings::{FORMAT, VERSION};
use super::{
    Arrays, InputSpec, Model, ModelCounts, Settings, TrainSettings, TuningSummary, Updates,
};
use crate::decide::calibrate::{
    Calibration, ConfidenceLimit, NoveltyLimit, NoveltyScore, TrainingProfile,
};
use crate::decide::decision::Decision;
use crate::decide::objective::ExpectedMetrics;
use crate::decide::vote::{LearnedVotes, PrototypeLearning, PrototypeTrainer, Vote};
use crate::rows::dense::DensePart;
use crate::rows::matrix::{Csr, csr};
use crate::text::counts::Counts;
use crate::text::select::all_term_weights;
use crate::text::tfidf::{RawRows, Side, TermWeights};
use crate::threads::Threads;

/// The parameters learned by [`learn`](crate::learn) that a model stores.
#[derive(Debug, Clone)]
pub(crate) struct Learned {
    /// The number of neighbors that vote.
    pub(crate) k: NonZeroUsize,
    /// The vote rule.
    pub(crate) vote: Vote,
    /// The rule that chooses labels by their scores.
    pub(crate) decision: Decision,
    /// The share of the votes for neighbors found by dense vectors, from 0 to 1.
    pub(crate) dense_share: f64,
    /// The summary of tuning that the model stores.
    pub(crate) summary: TuningSummary,
    /// The calibration from scores to probabilities.
    pub(crate) calibration: Calibration,
    /// The properties of held-out documents, with which new documents are compared.
    pub(crate) profile: Option<TrainingProfile>,
    /// The minimum confidence of an answer.
    pub(crate) abstention: Option<ConfidenceLimit>,
    /// The novelty score and its limit.
    pub(crate) novelty: Option<(NoveltyLimit, NoveltyScore)>,
    /// Learned vote weights, if the vote uses them.
    pub(crate) votes: Option<LearnedVotes>,
    /// The parameters for learning label prototypes, if they contribute to the scores.
    pub(crate) prototypes: Option<PrototypeLearning>,
}

impl Model {
    /// Weights the terms of counted documents and builds the model. Rows are weighted in place.
    ///
    /// # Panics
    /// Never panics: counts are valid by construction.
    pub fn of_counts(counts: Counts, settings: TrainSettings, threads: &Threads) -> Self {
        Self::with_term_factors(counts, settings, None, threads)
    }

    /// Like [`of_counts`](Self::of_counts), but multiplies term weights by learned factors.
    pub(crate) fn with_term_factors(
        mut counts: Counts,
        settings: TrainSettings,
        term_factors: Option<Vec<f32>>,
        threads: &Threads,
    ) -> Self {
        let documents = counts.documents();
        let weighting = settings.weighting;
        let mut idf = all_term_weights(&counts, weighting, threads);
        for (idf, &factor) in idf.iter_mut().zip(term_factors.iter().flatten()) {
            *idf *= f64::from(factor);
        }
        let mut rows = counts.take_rows(&settings.fields.boosts(), threads);
        let whole = counts.whole;
        let mean_length =
            whole.map_or_else(|| rows.mean_length(threads), |whole| whole.mean_length);
        let term_weights = TermWeights { idf: &idf, mean_length };
        rows.weigh(&weighting, Side::Document, term_weights, threads);
        rows.indices.shrink_to_fit();
        rows.data.shrink_to_fit();
        let RawRows { indptr, indices: terms, data } = rows;
        let empty = indptr.windows(2).filter(|bounds| bounds[0] == bounds[1]).count() as u64;
        let unlabeled =
            counts.label_indptr.windows(2).filter(|bounds| bounds[0] == bounds[1]).count();
        let columns = counts.vocabulary.len();
        let rows = threads.run(|| csr(columns, indptr, terms, data));
        let arrays = Arrays {
            rows: Segmented::one(rows.expect("rows in column order")),
            vocabulary: Arc::new(counts.vocabulary),
            idf: idf.into(),
            term_factors: term_factors.map(Into::into),
            label_names: counts.label_names.iter().collect(),
            label_indptr: counts.label_indptr.into(),
            label_indices: counts.label_indices.into(),
            ids: counts.ids,
            weights: counts.weights.into(),
            texts: counts.texts.map(Segmented::one),
            calibration: None,
            profile: None,
            novelty_score: None,
            learned_votes: None,
            prototypes: None,
            dense: None,
        };
        let counts = ModelCounts {
            documents: documents as u64,
            unlabeled: unlabeled as u64,
            empty,
            terms: columns as u64,
            labels: counts.label_names.len() as u64,
            nonzeros: arrays.rows.whole().nnz() as u64,
            mean_length,
        };
        let label_sizes = arrays.label_sizes();
        let model = Self {
            label_sizes,
            rows_by_id: RowsById::default(),
            settings: Settings {
                format: FORMAT.into(),
                version: VERSION,
                created_by: concat!("classify ", env!("CARGO_PKG_VERSION")).into(),
                input: settings.input,
                fields: settings.fields,
                weighting,
                formula: if arrays.term_factors.is_some() {
                    format!(
                        "{}; multiplied by the term's learned factor before normalization",
                        weighting.formula()
                    )
                } else {
                    weighting.formula()
                },
                k: settings.k,
                vote: settings.vote,
                decision: settings.decision,
                selection: settings.selection,
                tuning: settings.tuning,
                abstention: settings.abstention,
                novelty: None,
                hierarchy: settings.hierarchy,
                reading: settings.reading,
                dense: None,
                dense_share: 0.0,
                part_of: whole.map(|whole| whole.documents),
                updates: None,
                counts,
                checksums: BTreeMap::new(),
            },
            arrays,
        };
        // Dense vectors, vote weights and label prototypes are added later.
        let vote = model.settings.vote;
        let is_incomplete = vote.learned || vote.prototypes > 0.0;
        if !matches!(model.settings.input, InputSpec::Vectors(_)) && !is_incomplete {
            debug_assert_eq!(model.check().map_err(|problem| problem.to_string()), Ok(()));
        }
        model
    }

    /// Adds dense vectors and the share of votes for neighbors found by them.
    #[must_use]
    pub(crate) fn with_dense(mut self, dense: DensePart, dense_share: f64) -> Self {
        self.settings.dense = Some(dense.spec().clone());
        self.settings.dense_share = dense_share;
        self.arrays.dense = Some(dense);
        debug_assert_eq!(self.check().map_err(|problem| problem.to_string()), Ok(()));
        self
    }

    /// Replaces all learned parameters.
    ///
    /// # Panics
    /// Panics if the calibration has a different number of labels.
    #[must_use]
    pub(crate) fn with_learned(mut self, learned: Learned, threads: &Threads) -> Self {
        let labels = self.labels().len();
        assert_eq!(learned.calibration.check(labels), Ok(()), "one value per label");
        let (limit, novelty_score) = learned.novelty.unzip();
        self.settings.dense_share = learned.dense_share;
        self.settings.k = learned.k;
        self.settings.vote = learned.vote;
        self.settings.decision = learned.decision;
        self.settings.tuning = Some(learned.summary);
        self.settings.abstention = learned.abstention;
        self.settings.novelty = limit;
        // Everything was learned from the current documents.
        let weighed = self.settings.updates.map(|updates| updates.weighed);
        self.settings.updates = weighed.map(|weighed| Updates { weighed, ..Updates::default() });
        self.arrays.calibration = Some(learned.calibration);
        self.arrays.profile = learned.profile;
        self.arrays.novelty_score = novelty_score;
        self.arrays.learned_votes = learned.votes;
        self.with_prototypes(learned.prototypes, threads)
    }

    /// Adds the metrics that cross-validation found to the results of tuning.
    pub(crate) fn set_cross_validated(&mut self, expected: ExpectedMetrics) {
        if let Some(tuning) = &mut self.settings.tuning {
            tuning.cross_validated = Some(expected);
        }
    }

    /// Returns this model with the terms, term factors and rows of another model of the same
    /// documents. Label prototypes are removed. All other learned parameters are kept.
    pub(crate) fn with_terms_of(&self, other: Self) -> Self {
        let arrays = Arrays {
            label_names: self.arrays.label_names.clone(),
            label_indptr: self.arrays.label_indptr.clone(),
            label_indices: self.arrays.label_indices.clone(),
            ids: self.arrays.ids.clone(),
            weights: self.arrays.weights.clone(),
            calibration: self.arrays.calibration.clone(),
            profile: self.arrays.profile.clone(),
            novelty_score: self.arrays.novelty_score.clone(),
            learned_votes: self.arrays.learned_votes.clone(),
            prototypes: None,
            dense: self.arrays.dense.clone(),
            ..other.arrays
        };
        let updates = self.settings.updates.unwrap_or_default();
        let settings = Settings {
            formula: other.settings.formula,
            part_of: None,
            updates: Some(Updates { weighed: self.settings.counts.documents, ..updates }),
            counts: ModelCounts { labels: self.settings.counts.labels, ..other.settings.counts },
            ..self.settings.clone()
        };
        let label_sizes = self.label_sizes.clone();
        Self { settings, arrays, label_sizes, rows_by_id: RowsById::default() }
    }

    /// Learns label prototypes from the rows, or removes them if `learning` is `None`.
    #[must_use]
    pub(crate) fn with_prototypes(
        mut self,
        learning: Option<PrototypeLearning>,
        threads: &Threads,
    ) -> Self {
        self.arrays.prototypes = learning.map(|learning| {
            let no_terms;
            let terms = if self.prototype_terms() > 0 {
                self.rows().view()
            } else {
                no_terms = Csr::without_columns(self.rows().rows());
                no_terms.view()
            };
            let vectors = self.dense().filter(|_| learning.vector_scale > 0.0);
            let joined = vectors.map(|dense| {
                dense.vectors().view().append_to(&terms, learning.vector_scale, &|_| true)
            });
            let trainer = PrototypeTrainer {
                rows: &joined.as_ref().map_or(terms, Csr::view),
                labels: &self.training_labels(),
                learning,
                threads,
            };
            trainer.learn(|_| true)
        });
        self
    }
}
