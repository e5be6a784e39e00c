//! The names of the arrays in files of models and of vectors.

/// The terms, one after the other, as UTF-8.
pub(crate) const TERMS: &str = "vocabulary.text";
/// Where each term begins, and where the last one ends.
pub(crate) const TERM_OFFSETS: &str = "vocabulary.offsets";
/// How many documents have each term.
pub(crate) const DOCUMENT_FREQUENCIES: &str = "vocabulary.document_frequencies";
/// The weight of each term.
pub(crate) const IDF: &str = "vocabulary.idf";
/// The learned factor of each term, a part of its weight.
pub(crate) const TERM_FACTORS: &str = "vocabulary.factors";
/// Where each document's terms begin, and where the last one's end.
pub(crate) const ROW_BOUNDS: &str = "rows.indptr";
/// The terms of each document.
pub(crate) const ROW_TERMS: &str = "rows.indices";
/// Their weights.
pub(crate) const ROW_WEIGHTS: &str = "rows.data";
/// The names of the labels.
pub(crate) const LABELS: &str = "labels.text";
/// Where each name begins.
pub(crate) const LABEL_OFFSETS: &str = "labels.offsets";
/// The ids of the documents.
pub(crate) const IDS: &str = "documents.id_text";
/// Where each id begins.
pub(crate) const ID_OFFSETS: &str = "documents.id_offsets";
/// Where each document's labels begin, and where the last one's end.
pub(crate) const LABEL_BOUNDS: &str = "documents.label_indptr";
/// The labels of each document.
pub(crate) const LABEL_NUMBERS: &str = "documents.label_indices";
/// The weight of each document's vote.
pub(crate) const DOCUMENT_WEIGHTS: &str = "documents.weights";
/// How many terms of each document the model knows.
pub(crate) const KNOWN_TERMS: &str = "documents.known_terms";
/// How many it does not know.
pub(crate) const UNKNOWN_TERMS: &str = "documents.unknown_terms";
/// The texts of the documents.
pub(crate) const TEXTS: &str = "documents.text";
/// Where each text begins.
pub(crate) const TEXT_OFFSETS: &str = "documents.text_offsets";
/// The dense vectors of the documents, one after the other.
pub(crate) const DENSE_VECTORS: &str = "dense.vectors";
/// The dense vectors of the terms, one after the other.
pub(crate) const DENSE_PROJECTION: &str = "dense.projection";
/// Where the worths of each document's votes begin, and where the last one's end.
pub(crate) const VOTE_STARTS: &str = "votes.starts";
/// The label of each worth.
pub(crate) const VOTE_LABELS: &str = "votes.labels";
/// What the votes are worth.
pub(crate) const VOTE_WEIGHTS: &str = "votes.vote_weights";
/// The offset of each label's score.
pub(crate) const VOTE_OFFSETS: &str = "votes.offsets";
/// The scale of each label's score, or of all.
pub(crate) const VOTE_SCALES: &str = "votes.scales";
/// Where each term's weights in prototypes begin.
pub(crate) const PROTOTYPE_STARTS: &str = "prototypes.starts";
/// The label of each weight.
pub(crate) const PROTOTYPE_LABELS: &str = "prototypes.labels";
/// The weights.
pub(crate) const PROTOTYPE_WEIGHTS: &str = "prototypes.weights";
/// The constant of each label.
pub(crate) const PROTOTYPE_OFFSETS: &str = "prototypes.offsets";
/// How margins become scores.
pub(crate) const PROTOTYPE_LINK: &str = "prototypes.link";
/// The weights of the logistic regressions of probabilities.
pub(crate) const CALIBRATION_WEIGHTS: &str = "calibration.weights";
/// The offset of each label in these regressions.
pub(crate) const CALIBRATION_OFFSETS: &str = "calibration.offsets";
/// Quantiles of the best similarity of held-out documents.
pub(crate) const CALIBRATION_SIMILARITIES: &str = "calibration.similarities";
/// The weights of what tells that a document is foreign.
pub(crate) const NOVELTY_WEIGHTS: &str = "foreign.weights";
/// Quantiles of the best similarity.
pub(crate) const NOVELTY_BEST: &str = "foreign.best_similarities";
/// Quantiles of the mean similarity.
pub(crate) const NOVELTY_MEAN: &str = "foreign.mean_similarities";
/// The similarity of each document's best neighbor.
pub(crate) const NOVELTY_NEAREST: &str = "foreign.nearest";
