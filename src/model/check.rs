//! Validation of a model: the properties that the rest of the program relies on but that types do
//! not guarantee.

use super::error::invalid;
use super::trained::bounds_of;
use super::{InputSpec, Model, ModelProblem, array_names};
use crate::decide::calibrate::{NoveltyScore, TrainingProfile};
use crate::decide::vote::Prototypes;
use crate::rows::dense::DenseFeatures;
use crate::rows::dense::Metric;
use crate::threads;

/// Number of weights per task.
const WEIGHTS_PER_TASK: usize = 1 << 14;

impl Model {
    /// Validates the model. The error names the first problem.
    pub(super) fn check(&self) -> Result<(), ModelProblem> {
        let Self { settings, arrays, .. } = self;
        let rows = arrays.rows.whole();
        let documents = rows.rows();
        let labels = arrays.label_names.len();
        let counts = &settings.counts;
        let claimed = [counts.documents, counts.terms, counts.labels, counts.nonzeros];
        let found = [documents, arrays.vocabulary.len(), labels, rows.nnz()];
        let reject = |array, what: &str| Err(invalid(array)(what.to_owned()));
        if claimed.iter().zip(found).any(|(&claimed, found)| claimed != found as u64) {
            return reject("settings", "the counts do not match the arrays");
        }
        if !(counts.mean_length.is_finite() && counts.mean_length >= 0.0) && documents > 0 {
            // Features may be negative, and so may their sum.
            if matches!(settings.input, InputSpec::Text(_)) || !counts.mean_length.is_finite() {
                return reject("settings", "the mean length is invalid");
            }
        }
        if let Err(what) = settings.decision.check(labels) {
            return reject("settings", what);
        }
        self.check_dense()?;
        self.check_learned()?;
        if !settings.hierarchy.is_valid() {
            return reject("settings", "a label is its own ancestor");
        }
        if !settings.fields.is_valid() {
            return reject("settings", "a field's boost is not above 0, or there are no fields");
        }
        if u32::try_from(documents).is_err() || u32::try_from(labels).is_err() {
            return reject("settings", "there are 2^32 or more documents or labels");
        }
        if arrays.idf.len() != arrays.vocabulary.len() {
            return reject(
                array_names::IDF,
                "the number of values differs from the number of terms",
            );
        }
        if arrays.idf.iter().any(|idf| !idf.is_finite() || *idf < 0.0) {
            return reject(array_names::IDF, "a value is negative or not finite");
        }
        // Counting is branchless, so the processor checks several weights at once.
        let is_invalid = |weight: &&f32| !weight.is_finite() || **weight == 0.0;
        let (chunks, _) = rows.data().as_chunks::<WEIGHTS_PER_TASK>();
        let rest = &rows.data()[chunks.len() * WEIGHTS_PER_TASK..];
        let is_valid = |weights: &[f32]| weights.iter().filter(is_invalid).count() == 0;
        if !threads::all(chunks.len(), |chunk| is_valid(&chunks[chunk])) || !is_valid(rest) {
            return reject(array_names::ROW_WEIGHTS, "a weight is 0 or not finite");
        }
        let frequencies = arrays.vocabulary.document_frequencies();
        let weighed = settings.updates.map(|updates| updates.weighed);
        let corpus_size = weighed.or(settings.part_of).unwrap_or(documents as u64);
        if weighed.is_none() && corpus_size < documents as u64 {
            return reject(
                "settings",
                "the model has more documents than the corpus that it is a part of",
            );
        }
        if frequencies.iter().any(|&df| df == 0 || u64::from(df) > corpus_size) {
            return reject(
                array_names::DOCUMENT_FREQUENCIES,
                "a value is not between 1 and the number of documents",
            );
        }
        let names = &arrays.label_names;
        let is_sorted = (1..labels).all(|label| names.bytes(label - 1) < names.bytes(label));
        if !is_sorted || (labels > 0 && names.bytes(0).is_empty()) {
            return reject(array_names::LABEL_OFFSETS, "a name is empty or out of order");
        }
        if arrays.ids.len() != documents || arrays.weights.len() != documents {
            return reject(
                array_names::DOCUMENT_WEIGHTS,
                "there is not exactly one identifier and one weight per document",
            );
        }
        if arrays.weights.iter().any(|weight| !(weight.is_finite() && *weight > 0.0)) {
            return reject(array_names::DOCUMENT_WEIGHTS, "a weight is not above 0");
        }
        if self.texts().is_some_and(|texts| texts.len() != documents) {
            return reject(array_names::TEXT_OFFSETS, "there is not exactly one text per document");
        }
        let bounds = &arrays.label_indptr;
        let has_valid_bounds = bounds.first() == Some(&0)
            && bounds.last() == Some(&(arrays.label_indices.len() as u64))
            && bounds.len() == documents + 1;
        if !has_valid_bounds || !bounds.is_sorted() {
            return reject(array_names::LABEL_BOUNDS, "the bounds do not span the labels");
        }
        let is_sorted = bounds.windows(2).all(|pair| {
            let labels = &arrays.label_indices[bounds_of(pair[0], pair[1])];
            labels.is_sorted_by(|a, b| a < b)
        });
        if !is_sorted || arrays.label_indices.iter().any(|&label| label as usize >= labels) {
            return reject(array_names::LABEL_NUMBERS, "a label is out of order or does not exist");
        }
        Ok(())
    }

    /// Validates everything that was learned.
    fn check_learned(&self) -> Result<(), ModelProblem> {
        let Self { settings, arrays, .. } = self;
        let documents = arrays.ids.len();
        let labels = arrays.label_names.len();
        let reject = |array, what: &str| Err(invalid(array)(what.to_owned()));
        if let Some(Err(what)) = settings.abstention.map(|abstention| abstention.check()) {
            return reject("settings", what);
        }
        if let Some(Err(what)) = settings.novelty.map(|limit| limit.check()) {
            return reject("settings", what);
        }
        let novelty_score = arrays.novelty_score.as_ref();
        if let Some(Err(what)) = novelty_score.map(|novelty_score| novelty_score.check(documents)) {
            return reject(array_names::NOVELTY_WEIGHTS, what);
        }
        if novelty_score.is_some_and(NoveltyScore::needs_margins) && arrays.prototypes.is_none() {
            return reject(
                array_names::NOVELTY_WEIGHTS,
                "the novelty score needs prototypes that are missing",
            );
        }
        if novelty_score.is_some() && arrays.calibration.is_none() {
            return reject(
                array_names::NOVELTY_WEIGHTS,
                "the novelty score needs a calibration that is missing",
            );
        }
        if settings.novelty.is_some() != novelty_score.is_some() {
            return reject(
                "settings",
                "there is a novelty limit without a novelty score, or a score without a limit",
            );
        }
        let calibration = arrays.calibration.as_ref();
        if let Some(Err(what)) = calibration.map(|calibration| calibration.check(labels)) {
            return reject(array_names::CALIBRATION_WEIGHTS, what);
        }
        if let Some(Err(what)) = arrays.profile.as_ref().map(TrainingProfile::check) {
            return reject(array_names::PROFILE_VALUES, what);
        }
        if let Some(factors) = &arrays.term_factors {
            if factors.len() != arrays.vocabulary.len() {
                return reject(
                    array_names::TERM_FACTORS,
                    "there is not exactly one factor per term",
                );
            }
            if !factors.iter().all(|factor| factor.is_finite() && *factor > 0.0) {
                return reject(array_names::TERM_FACTORS, "a factor is not above 0");
            }
        }
        let votes = arrays.learned_votes.as_ref();
        if let Some(Err(what)) = votes.map(|votes| votes.check(documents, labels)) {
            return reject(array_names::VOTE_STARTS, what);
        }
        let prototypes = arrays.prototypes.as_ref();
        let terms = if settings.prototypes_use_terms() { arrays.vocabulary.len() } else { 0 };
        let angular = settings.dense.as_ref().filter(|dense| dense.metric == Metric::Angular);
        let dimension = angular.map_or(0, |dense| dense.dimension as usize);
        if prototypes.is_some_and(Prototypes::use_vectors) && dimension == 0 {
            return reject(
                array_names::PROTOTYPE_VECTOR_SCALE,
                "the prototypes use vectors, but the model has none with the metric angular",
            );
        }
        let columns =
            |prototypes: &Prototypes| terms + if prototypes.use_vectors() { dimension } else { 0 };
        if let Some(Err(what)) =
            prototypes.map(|prototypes| prototypes.check(columns(prototypes), labels))
        {
            return reject(array_names::PROTOTYPE_STARTS, what);
        }
        if (settings.vote.prototypes > 0.0) != prototypes.is_some() {
            return reject(
                "settings",
                "the label prototypes are missing, or they have no share of the scores",
            );
        }
        if settings.vote.learned != votes.is_some() {
            return reject(
                "settings",
                "the learned vote weights are missing, or the vote does not use them",
            );
        }
        Ok(())
    }

    /// Validates that the dense vectors, their share of the votes and the input match.
    fn check_dense(&self) -> Result<(), ModelProblem> {
        let settings = &self.settings;
        let share = settings.dense_share;
        let is_consistent = match (&settings.dense, self.has_terms()) {
            (None, true) => share.to_bits() == 0,
            (None, false) => false,
            (Some(dense), false) => {
                dense.alone && matches!(dense.features, DenseFeatures::Given { .. })
            }
            (Some(dense), true) => {
                (0.0..=1.0).contains(&share)
                    && (dense.features != DenseFeatures::WordVectors
                        || matches!(settings.input, InputSpec::Text(_)))
            }
        };
        let is_alone = settings.dense.as_ref().is_some_and(|dense| dense.alone);
        let is_consistent = is_consistent && (!is_alone || share.to_bits() == 1f64.to_bits());
        if !is_consistent || (!self.has_terms() && !self.arrays.vocabulary.is_empty()) {
            return Err(invalid("settings")("the dense vectors do not match the input".to_owned()));
        }
        Ok(())
    }
}
