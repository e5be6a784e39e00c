//! Applies reviewed decisions about labels to a corpus or to a model.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde::{Deserialize, Serialize};

use crate::model::{Change, Model};
use crate::text::corpus::{Document, closest_label, normalized_label};

/// What a reviewer decided about a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// The document is right as it is.
    Keep,
    /// One label is replaced, removed or added.
    Relabel,
    /// The document is removed.
    Remove,
}

/// A reviewed decision about a label of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The identifier of the document.
    pub id: String,
    /// What was decided.
    pub action: Action,
    /// For [`Action::Relabel`], the label that is removed; `None` if a label is only added.
    pub given: Option<String>,
    /// For [`Action::Relabel`], the label that is added; `None` if a label is only removed.
    pub suggested: Option<String>,
}

/// The decisions about documents, by identifier.
#[derive(Debug, Clone)]
pub struct Fixes {
    by_id: BTreeMap<String, Vec<Decision>>,
    /// Whether a label that no document has may be added.
    new_labels: bool,
}

/// The documents after decisions were applied.
#[derive(Debug, Clone, PartialEq)]
pub struct FixedCorpus {
    /// The remaining documents, in the order of the corpus.
    pub documents: Vec<Document>,
    /// The number of documents whose labels changed.
    pub relabeled: u64,
    /// The number of documents that were removed.
    pub removed: u64,
}

/// The reason why decisions cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FixError {
    /// No document has the identifier.
    #[error("no document has the identifier `{}`", crate::printable::printable(id))]
    NoSuchDocument {
        /// The identifier.
        id: String,
    },
    /// Several documents have the identifier.
    #[error("several documents have the identifier `{}`", crate::printable::printable(id))]
    SeveralDocuments {
        /// The identifier.
        id: String,
    },
    /// The document does not have the label that is to be removed.
    #[error(
        "document `{}` does not have the label `{}`; it may have changed since the review",
        crate::printable::printable(id),
        crate::printable::printable(label)
    )]
    NoSuchLabel {
        /// The identifier of the document.
        id: String,
        /// The label.
        label: String,
    },
    /// No document has the label that is to be added.
    #[error(
        "document `{}`: no document has the label `{}`{}",
        crate::printable::printable(id),
        crate::printable::printable(label),
        closest.as_ref().map_or(String::new(), |closest| {
            format!("; the closest is `{}`", crate::printable::printable(closest))
        })
    )]
    NewLabel {
        /// The identifier of the document.
        id: String,
        /// The label.
        label: String,
        /// The label of another document with the most similar spelling.
        closest: Option<String>,
    },
    /// A document is to be relabeled, but neither label is given.
    #[error(
        "document `{}` is to be relabeled, but there is neither a given nor a suggested label",
        crate::printable::printable(id)
    )]
    NoLabel {
        /// The identifier of the document.
        id: String,
    },
    /// The decisions about a document exclude each other.
    #[error(
        "the decisions about document `{}` contradict each other",
        crate::printable::printable(id)
    )]
    Contradiction {
        /// The identifier of the document.
        id: String,
    },
}

impl Fixes {
    /// Collects decisions. `new_labels` permits labels that no document has.
    ///
    /// # Errors
    /// Fails if a document is to be relabeled without labels, or to be removed and relabeled.
    pub fn new(
        decisions: impl IntoIterator<Item = Decision>,
        new_labels: bool,
    ) -> Result<Self, FixError> {
        let mut by_id: BTreeMap<String, Vec<Decision>> = BTreeMap::new();
        for decision in decisions.into_iter().filter(|one| one.action != Action::Keep) {
            if decision.action == Action::Relabel
                && decision.given.is_none()
                && decision.suggested.is_none()
            {
                return Err(FixError::NoLabel { id: decision.id });
            }
            let others = by_id.entry(decision.id.clone()).or_default();
            let contradicts = |other: &Decision| {
                let same_label = other.given.is_some() && other.given == decision.given;
                other.action != decision.action
                    || (same_label && other.suggested != decision.suggested)
            };
            if others.iter().any(contradicts) {
                return Err(FixError::Contradiction { id: decision.id });
            }
            if !others.contains(&decision) {
                others.push(decision);
            }
        }
        Ok(Self { by_id, new_labels })
    }

    /// Returns whether there is nothing to change.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Applies the decisions to a corpus. No other document changes.
    ///
    /// ```
    /// use classify::check::{Action, Decision, Fixes};
    /// use classify::text::corpus::Document;
    ///
    /// let documents = ["a", "b"].map(|id| Document::text(id, "text").labels(["food"]));
    /// let other = Document::text("c", "text").labels(["music"]);
    /// let documents: Vec<Document> = documents.into_iter().chain([other]).collect();
    /// let relabel = Decision {
    ///     id: "b".into(),
    ///     action: Action::Relabel,
    ///     given: Some("food".into()),
    ///     suggested: Some("music".into()),
    /// };
    /// let fixed = Fixes::new([relabel], false)?.apply(documents)?;
    /// assert_eq!((fixed.relabeled, fixed.removed), (1, 0));
    /// assert_eq!(fixed.documents[1].labels, ["music"]);
    /// # Ok::<(), classify::check::FixError>(())
    /// ```
    ///
    /// # Errors
    /// Fails if a decision is about no document or several, a document lacks the label that is to
    /// be removed, or a label is new.
    pub fn apply(&self, documents: Vec<Document>) -> Result<FixedCorpus, FixError> {
        let known = documents.iter().flat_map(|document| &document.labels);
        let known: HashSet<String> = known.cloned().collect();
        let mut decided = BTreeSet::new();
        let mut fixed = FixedCorpus { documents: Vec::new(), relabeled: 0, removed: 0 };
        for mut document in documents {
            if let Some((id, decisions)) = self.by_id.get_key_value(&document.id) {
                if !decided.insert(id) {
                    return Err(FixError::SeveralDocuments { id: id.clone() });
                }
                let is_known = |label: &str| known.contains(label);
                self.check_new_labels(decisions, is_known, || known.iter().map(|one| &**one))?;
                let Some(labels) = new_labels(decisions, document.labels)? else {
                    fixed.removed += 1;
                    continue;
                };
                document.labels = labels;
                fixed.relabeled += 1;
            }
            fixed.documents.push(document);
        }
        let unknown = self.by_id.keys().find(|id| !decided.contains(id));
        match unknown {
            Some(id) => Err(FixError::NoSuchDocument { id: id.clone() }),
            None => Ok(fixed),
        }
    }

    /// Returns the changes that apply the decisions to a model.
    ///
    /// # Errors
    /// As for [`apply`](Self::apply).
    pub fn changes(&self, model: &Model) -> Result<Vec<Change>, FixError> {
        let known: HashSet<&str> = model.labels().iter().collect();
        let mut decided = BTreeSet::new();
        for id in model.ids().iter().filter(|&id| self.by_id.contains_key(id)) {
            if !decided.insert(id) {
                return Err(FixError::SeveralDocuments { id: id.to_owned() });
            }
        }
        let change = |(id, decisions): (&String, &Vec<Decision>)| {
            let row =
                model.row_of(id).ok_or_else(|| FixError::NoSuchDocument { id: id.clone() })?;
            self.check_new_labels(
                decisions,
                |label| known.contains(label),
                || model.labels().iter(),
            )?;
            let labels = model.document_labels(row).iter();
            let labels = labels.map(|&label| model.label_name(label).to_owned()).collect();
            let id = id.clone();
            Ok(match new_labels(decisions, labels)? {
                Some(labels) => Change::Relabel { id, labels },
                None => Change::Remove { id },
            })
        };
        self.by_id.iter().map(change).collect()
    }

    /// Fails if a label is new and new labels are not permitted.
    fn check_new_labels<'a, K: Iterator<Item = &'a str>>(
        &self,
        decisions: &[Decision],
        is_known: impl Fn(&str) -> bool,
        known: impl Fn() -> K,
    ) -> Result<(), FixError> {
        let added = decisions.iter().filter_map(|decision| decision.suggested.as_ref());
        let mut new = added.map(|label| normalized_label(label)).filter(|label| !is_known(label));
        match new.next() {
            Some(label) if !self.new_labels => {
                let closest = closest_label(&label, known().collect::<Vec<_>>());
                let closest = closest.map(str::to_owned);
                let id = decisions[0].id.clone();
                Err(FixError::NewLabel { id, label: label.into_owned(), closest })
            }
            _ => Ok(()),
        }
    }
}

/// Returns the labels of a document after some decisions; `None` if it is removed.
fn new_labels(
    decisions: &[Decision],
    mut labels: Vec<String>,
) -> Result<Option<Vec<String>>, FixError> {
    if decisions.iter().any(|decision| decision.action == Action::Remove) {
        return Ok(None);
    }
    for Decision { id, given, suggested, .. } in decisions {
        let suggested = suggested.as_ref().map(|label| normalized_label(label).into_owned());
        let suggested = suggested.filter(|label| !labels.contains(label));
        match given.as_ref().map(|label| normalized_label(label)) {
            None => labels.extend(suggested),
            Some(given) => {
                let at = labels.iter().position(|label| *label == given);
                let at = at.ok_or_else(|| FixError::NoSuchLabel {
                    id: id.clone(),
                    label: given.into_owned(),
                })?;
                labels.splice(at..=at, suggested);
            }
        }
    }
    Ok(Some(labels))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn corpus() -> Vec<Document> {
        let labels = [("a", vec!["x", "y"]), ("b", vec!["y"]), ("c", vec!["z"]), ("c", vec!["z"])];
        labels.into_iter().map(|(id, labels)| Document::text(id, id).labels(labels)).collect()
    }

    fn decide(id: &str, action: Action, given: &str, suggested: &str) -> Decision {
        let some = |label: &str| (!label.is_empty()).then(|| label.to_owned());
        Decision { id: id.into(), action, given: some(given), suggested: some(suggested) }
    }

    #[test]
    fn decisions_change_only_their_documents() {
        let decisions = [
            decide("a", Action::Relabel, "x", "z"),
            decide("a", Action::Relabel, "y", ""),
            decide("b", Action::Remove, "y", "x"),
            decide("c", Action::Keep, "z", "x"),
        ];
        let fixed = Fixes::new(decisions, false).unwrap().apply(corpus()).unwrap();
        let labels: Vec<_> = fixed.documents.iter().map(|one| (&*one.id, &*one.labels)).collect();
        let z = ["z".to_owned()];
        assert_eq!(labels, [("a", &z[..]), ("c", &z[..]), ("c", &z[..])]);
        assert_eq!((fixed.relabeled, fixed.removed), (1, 1));
    }

    #[test]
    fn wrong_decisions_are_refused() {
        let relabel = Action::Relabel;
        let refused = |decisions: &[Decision]| {
            let fixes = Fixes::new(decisions.to_vec(), false);
            fixes.and_then(|fixes| fixes.apply(corpus())).unwrap_err()
        };
        let id = |id: &str| id.to_owned();
        assert_eq!(
            refused(&[decide("d", Action::Remove, "", "")]),
            FixError::NoSuchDocument { id: id("d") }
        );
        assert_eq!(
            refused(&[decide("c", relabel, "z", "x")]),
            FixError::SeveralDocuments { id: id("c") }
        );
        assert_eq!(
            refused(&[decide("b", relabel, "z", "x")]),
            FixError::NoSuchLabel { id: id("b"), label: "z".into() }
        );
        assert_eq!(refused(&[decide("b", relabel, "", "")]), FixError::NoLabel { id: id("b") });
        let both = [decide("b", relabel, "y", "x"), decide("b", Action::Remove, "y", "x")];
        assert_eq!(refused(&both), FixError::Contradiction { id: id("b") });
        assert!(matches!(
            refused(&[decide("b", relabel, "y", "w")]),
            FixError::NewLabel { label, .. } if label == "w"
        ));
        let new = Fixes::new([decide("b", relabel, "y", "w")], true).unwrap();
        assert_eq!(new.apply(corpus()).unwrap().documents[1].labels, ["w"]);
    }
}
