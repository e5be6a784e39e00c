//! The names of the arrays in model files and vectors files.

/// The concatenated terms, as UTF-8.
pub(crate) const TERMS: &str = "vocabulary.text";
/// The offset of each term and the end of the last term.
pub(crate) const TERM_OFFSETS: &str = "vocabulary.offsets";
/// The number of documents that contain each term.
pub(crate) const DOCUMENT_FREQUENCIES: &str = "vocabulary.document_frequencies";
/// The weight of each term.
pub(crate) const IDF: &str = "vocabulary.idf";
/// The learned factor of each term, which is included in its weight.
pub(crate) const TERM_FACTORS: &str = "vocabulary.factors";
/// The offset of each document's terms and the end of the last document's terms.
pub(crate) const ROW_BOUNDS: &str = "rows.indptr";
/// The terms of each document.
pub(crate) const ROW_TERMS: &str = "rows.indices";
/// The weights of each document's terms.
pub(crate) const ROW_WEIGHTS: &str = "rows.data";
/// The concatenated names of the labels.
pub(crate) const LABELS: &str = "labels.text";
/// The offset of each label name.
pub(crate) const LABEL_OFFSETS: &str = "labels.offsets";
/// The concatenated identifiers of the documents.
pub(crate) const IDS: &str = "documents.id_text";
/// The offset of each identifier.
pub(crate) const ID_OFFSETS: &str = "documents.id_offsets";
/// The offset of each document's labels and the end of the last document's labels.
pub(crate) const LABEL_BOUNDS: &str = "documents.label_indptr";
/// The labels of each document.
pub(crate) const LABEL_NUMBERS: &str = "documents.label_indices";
/// The weight of each document's vote.
pub(crate) const DOCUMENT_WEIGHTS: &str = "documents.weights";
/// The number of each document's terms that the model knows.
pub(crate) const KNOWN_TERMS: &str = "documents.known_terms";
/// The number of each document's terms that the model does not know.
pub(crate) const UNKNOWN_TERMS: &str = "documents.unknown_terms";
/// The concatenated texts of the documents.
pub(crate) const TEXTS: &str = "documents.text";
/// The offset of each text.
pub(crate) const TEXT_OFFSETS: &str = "documents.text_offsets";
/// The dense vectors of the documents, row by row.
pub(crate) const DENSE_VECTORS: &str = "dense.vectors";
/// The dense vectors of the terms, row by row.
pub(crate) const DENSE_PROJECTION: &str = "dense.projection";
/// The offset of each document's vote weights and the end of the last document's vote weights.
pub(crate) const VOTE_STARTS: &str = "votes.starts";
/// The label of each vote weight.
pub(crate) const VOTE_LABELS: &str = "votes.labels";
/// The vote weights.
pub(crate) const VOTE_WEIGHTS: &str = "votes.weights";
/// The offset of each label's logistic function; empty in single-label mode.
pub(crate) const VOTE_OFFSETS: &str = "votes.offsets";
/// The scale of each label's logistic function, or the single scale of the softmax.
pub(crate) const VOTE_SCALES: &str = "votes.scales";
/// The offset of each term's weights in label prototypes.
pub(crate) const PROTOTYPE_STARTS: &str = "prototypes.starts";
/// The label of each prototype weight.
pub(crate) const PROTOTYPE_LABELS: &str = "prototypes.labels";
/// The prototype weights.
pub(crate) const PROTOTYPE_WEIGHTS: &str = "prototypes.weights";
/// The constant of each label prototype.
pub(crate) const PROTOTYPE_OFFSETS: &str = "prototypes.offsets";
/// The SVM cost and the parameters that convert margins to scores.
pub(crate) const PROTOTYPE_LINK: &str = "prototypes.link";
/// The factor of dense vectors in prototypes.
pub(crate) const PROTOTYPE_VECTOR_SCALE: &str = "prototypes.vector_scale";
/// The weights of the logistic regressions for probabilities.
pub(crate) const CALIBRATION_WEIGHTS: &str = "calibration.weights";
/// The constant of each label in these regressions.
pub(crate) const CALIBRATION_OFFSETS: &str = "calibration.offsets";
/// Quantiles of the best similarity of held-out documents.
pub(crate) const CALIBRATION_SIMILARITIES: &str = "calibration.similarities";
/// The values of the properties of held-out documents at evenly spaced quantiles.
pub(crate) const PROFILE_VALUES: &str = "profile.values";
/// The share of held-out documents with at most each of these values.
pub(crate) const PROFILE_SHARES: &str = "profile.shares";
/// The weights of the novelty score.
pub(crate) const NOVELTY_WEIGHTS: &str = "foreign.weights";
/// The similarity of each document's best neighbor, for the novelty score.
pub(crate) const NOVELTY_NEAREST: &str = "foreign.nearest";
