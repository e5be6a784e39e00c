//! The documents of a model, in segments that can be updated.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::{Arc, OnceLock};

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use serde::{Deserialize, Serialize};

use super::Model;
use crate::rows::dense::{MAX_ABS_VALUE, Metric, Vectors};
use crate::rows::matrix::CsrBuilder;
use crate::rows::strings::StringsBuilder;

mod segment;
mod snapshot;

use segment::{LabelWeights, Lists, Segment};

/// A change to a model's documents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Change {
    /// Adds a document after all others, and removes earlier documents with the same identifier.
    Put(Box<NewDocument>),
    /// Removes all documents with the given identifier.
    Remove {
        /// The identifier.
        id: String,
    },
    /// Replaces the labels of all documents with the given identifier.
    Relabel {
        /// The identifier.
        id: String,
        /// The new labels, without their ancestors in the model's hierarchy.
        labels: Vec<String>,
    },
}

/// A document to add, weighted like the model's documents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewDocument {
    /// The identifier of the document.
    pub id: String,
    /// The labels, without their ancestors in the model's hierarchy.
    pub labels: Vec<String>,
    /// The weight of the document's vote, above 0.
    pub weight: f32,
    /// The ids of the terms, in increasing order.
    pub terms: Vec<u32>,
    /// The weights of the terms, in the same order.
    pub weights: Vec<f32>,
    /// The dense vector, if the model has dense vectors; of length 1 or 0 if the metric is angular.
    pub vector: Option<Vec<f32>>,
    /// The text, if the model keeps texts.
    pub text: Option<String>,
    /// The similarity of the document's best neighbor, if the model has a novelty score.
    pub nearest: Option<f32>,
}

impl NewDocument {
    /// Returns a stored document of a model, which [`Change::Put`] can add again after it was
    /// removed. Returns `None` if the model has dense vectors.
    ///
    /// # Panics
    /// Panics if there is no such document.
    pub fn stored_in(model: &Model, row: u32) -> Option<Self> {
        let index = row as usize;
        let (terms, weights) = model.document_terms(row);
        let labels = model.document_labels(row).iter();
        model.dense().is_none().then(|| Self {
            id: model.ids().get(index).unwrap_or_default().to_owned(),
            labels: labels.map(|&label| model.label_name(label).to_owned()).collect(),
            weight: model.document_weights()[index],
            terms: terms.to_vec(),
            weights: weights.to_vec(),
            vector: None,
            text: model.text(row).map(str::to_owned),
            nearest: model.novelty_score().and_then(|novelty| novelty.nearest.get(index)).copied(),
        })
    }
}

/// The reason a change cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// No document has the identifier.
    #[error("no document of the model is called `{}`", crate::printable::printable(id))]
    NoSuchDocument {
        /// The identifier.
        id: String,
    },
    /// A document does not fit the model.
    #[error("document `{}`: {what}", crate::printable::printable(id))]
    Document {
        /// The identifier of the document.
        id: String,
        /// The reason.
        what: &'static str,
    },
    /// There would be 2^32 or more documents or labels.
    #[error("a model has fewer than 2^32 documents and labels")]
    TooMany,
}

/// The numbers of documents affected by changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChangeCounts {
    /// Number of documents added.
    pub added: u64,
    /// Number of documents removed because a document with the same identifier was added.
    pub replaced: u64,
    /// Number of documents removed by request.
    pub removed: u64,
    /// Number of relabeled documents.
    pub relabeled: u64,
}

/// A segment is merged with the previous one unless it is at least this many times smaller. All
/// segments are merged if a segment has lost more than one document in this many. A merge slows
/// down one change but speeds up all later searches.
const MERGE_FACTOR: u32 = 16;

/// The location of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Location {
    segment: u32,
    row: u32,
}

/// Returns the identifier of a document.
fn id_at(segments: &[Segment], location: Location) -> &str {
    segments[location.segment as usize].ids.get(location.row as usize).unwrap_or_default()
}

/// The documents of a model, which can be added, removed and relabeled.
///
/// The vocabulary, its term weights and everything that was learned do not change. Answers are
/// bit-identical to the answers of a model with the same vocabulary that was trained on the current
/// documents. These are the remaining documents in their original order, followed by the added
/// documents.
///
/// A label that no document had before becomes a label of the model. A label whose last document
/// was removed remains. If labels have thresholds, a new label gets the median threshold of the
/// other labels. Its probability offset is the mean of their offsets.
#[derive(Debug)]
pub struct Collection {
    /// The model before any changes.
    base: Arc<Model>,
    segments: Vec<Segment>,
    /// The labels. The labels of the base model come first.
    labels: Vec<String>,
    label_numbers: HashMap<String, u32>,
    /// The locations of all documents, by identifier.
    locations: HashTable<Location>,
    hasher: RandomState,
    changed: ChangeCounts,
    model: OnceLock<Arc<Model>>,
}

impl Collection {
    /// Creates a collection of a model's documents.
    pub fn new(model: Arc<Model>) -> Self {
        let labels: Vec<String> = model.labels().iter().map(str::to_owned).collect();
        let label_numbers = labels.iter().cloned().zip(0..).collect();
        let segment = Segment::from_model(&model);
        let mut collection = Self {
            base: Arc::clone(&model),
            segments: Vec::new(),
            labels,
            label_numbers,
            locations: HashTable::new(),
            hasher: RandomState::default(),
            changed: ChangeCounts::default(),
            model: OnceLock::from(model),
        };
        collection.push(segment);
        collection
    }

    /// Number of documents.
    pub fn len(&self) -> usize {
        self.segments.iter().map(|segment| segment.count as usize).sum()
    }

    /// Whether there are no documents.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a document has the given identifier.
    pub fn contains(&self, id: &str) -> bool {
        let hash = self.hasher.hash_one(id);
        self.locations.find(hash, |&location| self.id(location) == id).is_some()
    }

    /// Returns the identifiers of all documents, in no particular order.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.locations.iter().map(|&location| self.id(location))
    }

    /// Returns the numbers of documents affected by all changes so far.
    pub fn changed(&self) -> ChangeCounts {
        self.changed
    }

    fn id(&self, location: Location) -> &str {
        id_at(&self.segments, location)
    }

    /// Adds a segment and the locations of its documents.
    fn push(&mut self, segment: Segment) {
        let number = u32::try_from(self.segments.len()).expect("few segments");
        let hasher = &self.hasher;
        self.segments.push(segment);
        let segments = &self.segments;
        let hash = |&location: &Location| hasher.hash_one(id_at(segments, location));
        let segment = &segments[number as usize];
        self.locations.reserve(segment.count as usize, hash);
        for row in (0..).zip(&segment.alive).filter(|&(_, &alive)| alive).map(|(row, _)| row) {
            let location = Location { segment: number, row };
            self.locations.insert_unique(hash(&location), location, hash);
        }
    }

    /// Removes the last segment and the locations of its documents.
    fn pop(&mut self) -> Option<Segment> {
        let number = u32::try_from(self.segments.len()).expect("few segments").checked_sub(1)?;
        let segment = self.segments.pop()?;
        for row in (0..).zip(&segment.alive).filter(|&(_, &alive)| alive).map(|(row, _)| row) {
            let hash = self.hasher.hash_one(segment.ids.get(row as usize).unwrap_or_default());
            if let Ok(entry) =
                self.locations.find_entry(hash, |&found| found == Location { segment: number, row })
            {
                let _ = entry.remove();
            }
        }
        Some(segment)
    }

    /// Removes and returns the locations of the documents with the given identifier.
    fn take(&mut self, id: &str) -> Vec<Location> {
        let hash = self.hasher.hash_one(id);
        let Self { locations, segments, .. } = self;
        let has_id = |&location: &Location| id_at(segments, location) == id;
        let mut removed = Vec::new();
        while let Ok(entry) = locations.find_entry(hash, has_id) {
            removed.push(entry.remove().0);
        }
        removed
    }

    /// Applies changes in order, either all or none.
    ///
    /// # Errors
    /// Fails if a document does not fit the model, or if no document has the identifier of a
    /// change. Also fails if there would be too many documents or labels.
    ///
    /// # Panics
    /// Never panics, because all changes are checked first.
    pub fn apply(&mut self, changes: Vec<Change>) -> Result<ChangeCounts, ChangeError> {
        self.check(&changes)?;
        let mut counts = ChangeCounts::default();
        // New documents are collected into a segment until a change refers to one of them.
        let mut new: Vec<NewDocument> = Vec::new();
        let mut new_ids: HashSet<String> = HashSet::new();
        for change in changes {
            let id = match &change {
                Change::Put(document) => &document.id,
                Change::Remove { id } | Change::Relabel { id, .. } => id,
            };
            if new_ids.contains(id) {
                new_ids.clear();
                self.append(std::mem::take(&mut new));
            }
            match change {
                Change::Put(document) => {
                    for Location { segment, row } in self.take(&document.id) {
                        self.segments[segment as usize].remove(row);
                        counts.replaced += 1;
                    }
                    counts.added += 1;
                    new_ids.insert(document.id.clone());
                    new.push(*document);
                }
                Change::Remove { id } => {
                    for Location { segment, row } in self.take(&id) {
                        self.segments[segment as usize].remove(row);
                        counts.removed += 1;
                    }
                }
                Change::Relabel { id, labels } => {
                    let labels = self.with_ancestors(&labels);
                    for location in self.take(&id) {
                        let Location { segment, row } = location;
                        self.segments[segment as usize].relabeled.insert(row, labels.clone());
                        counts.relabeled += 1;
                        let hasher = &self.hasher;
                        let segments = &self.segments;
                        let hash =
                            |&location: &Location| hasher.hash_one(id_at(segments, location));
                        self.locations.insert_unique(hash(&location), location, hash);
                    }
                }
            }
        }
        self.append(new);
        self.model.take();
        self.changed.added += counts.added;
        self.changed.replaced += counts.replaced;
        self.changed.removed += counts.removed;
        self.changed.relabeled += counts.relabeled;
        Ok(counts)
    }

    /// Appends documents and merges small segments, so that the number of segments is at most
    /// logarithmic in the number of documents.
    fn append(&mut self, documents: Vec<NewDocument>) {
        if !documents.is_empty() {
            let segment = self.build_segment(documents);
            self.push(segment);
        }
        // Removed rows also slow down searches.
        let removed_count = |segment: &Segment| segment.alive.len() - segment.count as usize;
        if self
            .segments
            .iter()
            .any(|segment| removed_count(segment) * MERGE_FACTOR as usize > segment.alive.len())
        {
            self.merge();
        }
        loop {
            let is_small = match self.segments.as_slice() {
                [.., before, last] => before.count / MERGE_FACTOR <= last.count,
                _ => false,
            };
            if !is_small {
                break;
            }
            let last = self.pop().expect("at least two segments");
            let before = self.pop().expect("at least two segments");
            self.push(Segment::merge(&[before, last]));
        }
    }

    /// Merges all documents into one segment, which is fastest to search.
    pub(crate) fn merge(&mut self) {
        let is_merged = matches!(self.segments.as_slice(), [] | [_]);
        if !is_merged || self.segments.iter().any(|segment| segment.live().is_some()) {
            let segments: Vec<Segment> = std::mem::take(&mut self.segments);
            self.locations.clear();
            self.push(Segment::merge(&segments));
            self.model.take();
        }
    }

    /// Returns the numbers of labels and their ancestors, sorted and without duplicates. Numbers
    /// new labels.
    fn with_ancestors(&mut self, labels: &[String]) -> Vec<u32> {
        let base = Arc::clone(&self.base);
        let hierarchy = &base.settings.hierarchy;
        let mut numbers = Vec::new();
        for label in labels {
            numbers.push(self.label_number(label));
            for ancestor in hierarchy.ancestors(label) {
                numbers.push(self.label_number(ancestor));
            }
        }
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    fn label_number(&mut self, label: &str) -> u32 {
        if let Some(&number) = self.label_numbers.get(label) {
            return number;
        }
        let number = u32::try_from(self.labels.len()).expect("checked before");
        self.labels.push(label.to_owned());
        self.label_numbers.insert(label.to_owned(), number);
        number
    }

    fn build_segment(&mut self, documents: Vec<NewDocument>) -> Segment {
        let base = Arc::clone(&self.base);
        let mut rows = CsrBuilder::default();
        let mut ids = StringsBuilder::default();
        let mut texts = base.arrays.texts.as_ref().map(|_| StringsBuilder::default());
        let mut values = base.arrays.dense.as_ref().map(|_| Vec::new());
        let mut vote_weights = base.arrays.learned_votes.as_ref().map(|_| LabelWeights::default());
        let mut labels = Lists::default();
        let mut weights = Vec::new();
        let mut nearest = Vec::new();
        let count = documents.len();
        for document in documents {
            rows.push_slices(&document.terms, &document.weights);
            ids.push(&document.id);
            let numbers = self.with_ancestors(&document.labels);
            if let Some(vote_weights) = &mut vote_weights {
                vote_weights.push(numbers.iter().map(|&label| (label, 1.0)));
            }
            labels.push(numbers);
            weights.push(document.weight);
            if base.novelty_score().is_some() {
                nearest.push(document.nearest.unwrap_or(0.0));
            }
            if let Some(texts) = &mut texts {
                texts.push(document.text.as_deref().unwrap_or_default());
            }
            if let (Some(values), Some(vector)) = (&mut values, document.vector) {
                values.extend(vector);
            }
        }
        let vectors = values.zip(base.dense()).map(|(values, dense)| {
            let dimension = dense.vectors().dimension();
            Arc::new(Vectors::new(dimension, values).expect("checked before"))
        });
        Segment {
            rows: Arc::new(rows.build(base.vocabulary().len())),
            texts: texts.map(|texts| Arc::new(texts.build())),
            vectors,
            ids: ids.build(),
            labels,
            relabeled: HashMap::new(),
            weights,
            nearest,
            vote_weights,
            alive: vec![true; count],
            count: u32::try_from(count).expect("checked before"),
            live: OnceLock::new(),
        }
    }

    /// Checks all changes before any of them is applied.
    pub(super) fn check(&self, changes: &[Change]) -> Result<(), ChangeError> {
        // Documents that earlier changes added (true) or removed (false).
        let mut is_present: HashMap<&str, bool> = HashMap::new();
        let mut labels = self.labels.len();
        let are_named = |labels: &[String]| labels.iter().all(|label| !label.is_empty());
        let empty_label =
            |id: &str| ChangeError::Document { id: id.to_owned(), what: "a label is empty" };
        for change in changes {
            let id = match change {
                Change::Put(document) => {
                    self.check_document(document)?;
                    labels += document.labels.len();
                    is_present.insert(&document.id, true);
                    continue;
                }
                Change::Remove { id } => id,
                Change::Relabel { id, labels: new_labels } => {
                    if !are_named(new_labels) {
                        return Err(empty_label(id));
                    }
                    labels += new_labels.len();
                    id
                }
            };
            let is_known = is_present.get(&**id).copied().unwrap_or_else(|| self.contains(id));
            if !is_known {
                return Err(ChangeError::NoSuchDocument { id: id.clone() });
            }
            if matches!(change, Change::Remove { .. }) {
                is_present.insert(id, false);
            }
        }
        // Label numbers and the row numbers of any segment must fit into 32 bits, even if
        // everything in the changes is new.
        let rows: usize = self.segments.iter().map(|segment| segment.alive.len()).sum();
        let max_labels = (u32::MAX / 4) as usize;
        if labels > max_labels || rows + changes.len() > max_labels * 2 {
            return Err(ChangeError::TooMany);
        }
        Ok(())
    }

    fn check_document(&self, document: &NewDocument) -> Result<(), ChangeError> {
        let reject = |what| Err(ChangeError::Document { id: document.id.clone(), what });
        let NewDocument { labels, weight, terms, weights, vector, .. } = document;
        let columns = self.base.vocabulary().len();
        if labels.iter().any(String::is_empty) {
            return reject("a label is empty");
        }
        if !(weight.is_finite() && *weight > 0.0) {
            return reject("its weight is not above 0");
        }
        let is_sorted = terms.is_sorted_by(|a, b| a < b);
        if !is_sorted || terms.last().is_some_and(|&last| last as usize >= columns) {
            return reject("its terms are out of order, or not in the vocabulary");
        }
        let has_valid_weights = weights.iter().all(|weight| weight.is_finite() && *weight != 0.0);
        if terms.len() != weights.len() || !has_valid_weights {
            return reject("it does not have exactly one finite, nonzero weight per term");
        }
        if document.text.is_some() != self.base.keeps_texts() {
            return reject("it has a text that the model does not keep, or lacks one that it does");
        }
        if document.nearest.is_some_and(|similarity| !similarity.is_finite()) {
            return reject("the similarity of its best neighbor is not finite");
        }
        match (vector, self.base.dense()) {
            (None, None) => Ok(()),
            (Some(vector), Some(dense)) if vector.len() == dense.vectors().dimension() => {
                let square: f64 = vector.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
                let is_unit = square == 0.0 || (square - 1.0).abs() < 1e-3;
                let is_small = vector.iter().all(|value| value.abs() <= MAX_ABS_VALUE);
                if is_small && (is_unit || dense.spec().metric != Metric::Angular) {
                    Ok(())
                } else {
                    reject("its vector has a value that is too large, or is not of length 1")
                }
            }
            _ => reject("its dense vector does not have the dimension of the model's vectors"),
        }
    }
}
