//! Findings to review: labels of the model's documents that are probably wrong, and duplicate
//! documents.

use classify::check::{Check, CheckOptions, DuplicateCluster, SuspiciousLabel};
use classify::learn::Trainer;
use classify::model::Model;
use classify::propose::options_like;
use classify::search::Engines;
use classify::text::corpus::Document;
use serde::Serialize;

use super::decisions::DecisionState;
use crate::live::LiveModel;

/// A probable problem in the documents of the model, for a person to review.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(crate) enum Finding {
    /// A label that is probably wrong or missing.
    Label {
        id: String,
        /// The label that is probably wrong; `null` if a label is probably missing.
        given: Option<String>,
        /// The label that is probably right; `null` if a label is superfluous.
        suggested: Option<String>,
        /// The probability that the label is wrong or missing, from 0 to 1.
        probability: f64,
        /// The documents that contradict the label, most similar first.
        contradicted_by: Vec<SimilarId>,
    },
    /// Identical documents or near-duplicates.
    Copies {
        ids: Vec<String>,
        /// Whether their texts are the same.
        identical: bool,
        /// Whether their labels differed when they were checked.
        conflicting: bool,
    },
}

/// A similar document.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub(crate) struct SimilarId {
    id: String,
    /// The cosine similarity.
    similarity: f32,
}

impl Finding {
    /// Returns the documents of the finding.
    pub(crate) fn ids(&self) -> &[String] {
        match self {
            Self::Label { id, .. } => std::slice::from_ref(id),
            Self::Copies { ids, .. } => ids,
        }
    }

    /// Returns the documents that are shown as evidence.
    pub(crate) fn similar_ids(&self) -> impl Iterator<Item = &str> {
        let similar = match self {
            Self::Label { contradicted_by, .. } => &**contradicted_by,
            Self::Copies { .. } => &[],
        };
        similar.iter().map(|similar| &*similar.id)
    }

    /// Whether the finding is still true, and nobody has decided on it.
    pub(crate) fn is_open(&self, model: &Model, decided: &DecisionState) -> bool {
        let labels = |id: &String| {
            let row = model.row_of(id).filter(|_| decided.mark(id).is_none())?;
            Some(model.document_labels(row))
        };
        match self {
            Self::Label { id, given, suggested, .. } => labels(id).is_some_and(|labels| {
                let has = |name: &Option<String>| {
                    let name = name.as_deref();
                    labels.iter().any(|&label| Some(model.label_name(label)) == name)
                };
                if given.is_some() { has(given) } else { !has(suggested) }
            }),
            Self::Copies { ids, conflicting, .. } => {
                let labels: Vec<&[u32]> = ids.iter().filter_map(labels).collect();
                labels.len() > 1 && (!conflicting || labels.iter().any(|other| *other != labels[0]))
            }
        }
    }

    fn of_label(found: SuspiciousLabel) -> Self {
        let SuspiciousLabel { document, given, suggested, probability, contradicted_by } = found;
        let similar = contradicted_by.into_iter();
        let similar = similar
            .map(|similar| SimilarId { id: similar.document.id, similarity: similar.similarity });
        let contradicted_by = similar.collect();
        Self::Label { id: document.id, given, suggested, probability, contradicted_by }
    }

    fn of_copies(cluster: DuplicateCluster) -> Self {
        let DuplicateCluster { documents, identical, conflicting } = cluster;
        let ids = documents.into_iter().map(|document| document.id).collect();
        Self::Copies { ids, identical, conflicting }
    }
}

/// Returns the reason why the documents of a model cannot be reviewed, if any.
pub(crate) fn unreviewable_reason(live: &LiveModel) -> Option<&'static str> {
    if !live.accepts_plain_text {
        Some("only documents of one text can be reviewed here; use `classify check`")
    } else if !live.model().keeps_texts() {
        Some("the model does not store the texts of its documents; train it with --keep-text")
    } else {
        None
    }
}

/// Checks the documents of a model: duplicates with conflicting labels first, then labels that are
/// probably wrong, then other duplicates.
pub(crate) fn find(live: &LiveModel, engines: &Engines) -> Result<Vec<Finding>, String> {
    let model = live.model();
    let ids = (0u32..).zip(model.ids().iter());
    let documents = ids.map(|(row, id)| {
        Document::text(id, model.text(row).unwrap_or_default()).labels(live.label_names(row))
    });
    let documents: Vec<Document> = documents.collect();
    let trainer = Trainer::builder().options(options_like(model)).engines(engines.clone()).build();
    let held_out = trainer.hold_out(&documents).map_err(|error| error.to_string())?;
    let check = Check::new(&held_out, CheckOptions::default());
    let (conflicting, others): (Vec<_>, Vec<_>) =
        check.duplicates.clusters.into_iter().partition(|cluster| cluster.conflicting);
    let copies = |clusters: Vec<DuplicateCluster>| clusters.into_iter().map(Finding::of_copies);
    let suspicious = check.label_errors.suspicious.into_iter().map(Finding::of_label);
    Ok(copies(conflicting).chain(suspicious).chain(copies(others)).collect())
}
