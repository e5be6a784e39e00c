//! The documents of a model, as they come and go.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::{Arc, OnceLock};

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use serde::{Deserialize, Serialize};

use super::Model;
use super::joined::{Joined, Kept};
use crate::rows::dense::{DensePart, GREATEST, Metric, Vectors};
use crate::rows::matrix::{Csr, CsrBuilder};
use crate::rows::strings::StringsBuilder;

mod piece;
mod snapshot;

use piece::{Lists, Piece};

/// A change of a model's documents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Change {
    /// A document is added, after all others; those with the same identifier are removed.
    Put(Box<NewDocument>),
    /// The documents with an identifier are removed.
    Remove {
        /// The identifier.
        id: String,
    },
    /// The documents with an identifier get other labels.
    Relabel {
        /// The identifier.
        id: String,
        /// All labels, without their ancestors in the model's hierarchy.
        labels: Vec<String>,
    },
}

/// A document, weighted as the model's documents are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewDocument {
    /// Its identifier.
    pub id: String,
    /// Its labels, without their ancestors in the model's hierarchy.
    pub labels: Vec<String>,
    /// The weight of its vote, above 0.
    pub weight: f32,
    /// The ids of its terms, increasing.
    pub terms: Vec<u32>,
    /// The weights of its terms.
    pub weights: Vec<f32>,
    /// Its dense vector, if the model has such vectors; of length 1 if the metric is angular.
    pub vector: Option<Vec<f32>>,
    /// Its text, if the model keeps texts.
    pub text: Option<String>,
    /// The similarity of its best neighbor, if the model refuses foreign documents.
    pub nearest: Option<f32>,
}

/// What a change cannot be made to.
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
        /// Its identifier.
        id: String,
        /// What does not fit.
        what: &'static str,
    },
    /// There would be more documents or labels than there are numbers for.
    #[error("a model has fewer than 2^32 documents and labels")]
    TooMany,
}

/// What some changes did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Changed {
    /// Documents that were added.
    pub added: u64,
    /// Documents that were removed because one with the same identifier was added.
    pub replaced: u64,
    /// Documents that were removed otherwise.
    pub removed: u64,
    /// Documents that got other labels.
    pub relabeled: u64,
}

/// A piece that is not so many times smaller than the one before it is put together with it, and so are all pieces if one has
/// lost such a share of its documents: this costs a change, and spares every search.
const SMALLER: u32 = 16;

/// A document's place: its piece, and its row there.
type Place = (u32, u32);

/// The documents of a model, as they come and go.
///
/// The vocabulary, the weights of its terms and everything that was learned stay as they are. Answers are, to the bit, those
/// of a model with the same vocabulary that was trained on the documents that are there: those that are left, in their
/// order, and then those that were added.
///
/// A label that no document had before is a label from then on, and one whose last document was
/// removed remains. If labels have thresholds, a new label gets the median threshold of the others.
/// The offset of its probability is the mean of theirs.
#[derive(Debug)]
pub struct Collection {
    /// The model without any change.
    base: Arc<Model>,
    pieces: Vec<Piece>,
    /// The labels; those of the base first.
    labels: Vec<String>,
    label_numbers: HashMap<String, u32>,
    /// The places of all documents, by identifier.
    places: HashTable<Place>,
    hasher: RandomState,
    changed: Changed,
    model: OnceLock<Arc<Model>>,
}

impl Collection {
    /// The documents of a model.
    pub fn new(model: Arc<Model>) -> Self {
        let labels: Vec<String> = model.labels().iter().map(str::to_owned).collect();
        let label_numbers = labels.iter().cloned().zip(0..).collect();
        let piece = Piece::of(&model);
        let mut collection = Self {
            base: Arc::clone(&model),
            pieces: Vec::new(),
            labels,
            label_numbers,
            places: HashTable::new(),
            hasher: RandomState::default(),
            changed: Changed::default(),
            model: OnceLock::from(model),
        };
        collection.push(piece);
        collection
    }

    /// How many documents there are.
    pub fn len(&self) -> usize {
        self.pieces.iter().map(|piece| piece.count as usize).sum()
    }

    /// Whether there are no documents.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a document has an identifier.
    pub fn contains(&self, id: &str) -> bool {
        let hash = self.hasher.hash_one(id);
        self.places.find(hash, |&place| self.id(place) == id).is_some()
    }

    /// What all changes so far did.
    pub fn changed(&self) -> Changed {
        self.changed
    }

    fn id(&self, (piece, row): Place) -> &str {
        self.pieces[piece as usize].ids.get(row as usize).unwrap_or_default()
    }

    /// Adds a piece and the places of its documents.
    fn push(&mut self, piece: Piece) {
        let number = u32::try_from(self.pieces.len()).expect("few pieces");
        let hasher = &self.hasher;
        self.pieces.push(piece);
        let pieces = &self.pieces;
        let hash = |&(piece, row): &Place| {
            hasher.hash_one(pieces[piece as usize].ids.get(row as usize).unwrap_or_default())
        };
        let piece = &pieces[number as usize];
        self.places.reserve(piece.count as usize, hash);
        for row in (0..).zip(&piece.alive).filter(|&(_, &alive)| alive).map(|(row, _)| row) {
            let place = (number, row);
            self.places.insert_unique(hash(&place), place, hash);
        }
    }

    /// Takes the last piece and the places of its documents away.
    fn pop(&mut self) -> Option<Piece> {
        let number = u32::try_from(self.pieces.len()).expect("few pieces").checked_sub(1)?;
        let piece = self.pieces.pop()?;
        for row in (0..).zip(&piece.alive).filter(|&(_, &alive)| alive).map(|(row, _)| row) {
            let hash = self.hasher.hash_one(piece.ids.get(row as usize).unwrap_or_default());
            if let Ok(entry) = self.places.find_entry(hash, |&place| place == (number, row)) {
                let _ = entry.remove();
            }
        }
        Some(piece)
    }

    /// The places of the documents with an identifier, which are not known any more afterwards.
    fn take(&mut self, id: &str) -> Vec<Place> {
        let hash = self.hasher.hash_one(id);
        let Self { places, pieces, .. } = self;
        let is_it =
            |&(piece, row): &Place| pieces[piece as usize].ids.get(row as usize) == Some(id);
        let mut taken = Vec::new();
        while let Ok(entry) = places.find_entry(hash, is_it) {
            taken.push(entry.remove().0);
        }
        taken
    }

    /// Makes changes, in order: all or none.
    ///
    /// # Errors
    /// If a document does not fit the model, or no document has an identifier.
    ///
    /// # Panics
    /// Never: all changes are checked first.
    pub fn apply(&mut self, changes: Vec<Change>) -> Result<Changed, ChangeError> {
        self.check(&changes)?;
        let mut done = Changed::default();
        // A piece of new documents ends where a change needs one of them.
        let mut new: Vec<NewDocument> = Vec::new();
        let mut in_new: HashSet<String> = HashSet::new();
        for change in changes {
            let id = match &change {
                Change::Put(document) => &document.id,
                Change::Remove { id } | Change::Relabel { id, .. } => id,
            };
            if in_new.contains(id) {
                in_new.clear();
                self.append(std::mem::take(&mut new));
            }
            match change {
                Change::Put(document) => {
                    for (piece, row) in self.take(&document.id) {
                        self.pieces[piece as usize].kill(row);
                        done.replaced += 1;
                    }
                    done.added += 1;
                    in_new.insert(document.id.clone());
                    new.push(*document);
                }
                Change::Remove { id } => {
                    for (piece, row) in self.take(&id) {
                        self.pieces[piece as usize].kill(row);
                        done.removed += 1;
                    }
                }
                Change::Relabel { id, labels } => {
                    let labels = self.closed(&labels);
                    for place in self.take(&id) {
                        let (piece, row) = place;
                        self.pieces[piece as usize].relabeled.insert(row, labels.clone());
                        done.relabeled += 1;
                        let (hasher, pieces) = (&self.hasher, &self.pieces);
                        let hash = |&(piece, row): &Place| {
                            let id = pieces[piece as usize].ids.get(row as usize);
                            hasher.hash_one(id.unwrap_or_default())
                        };
                        self.places.insert_unique(hash(&place), place, hash);
                    }
                }
            }
        }
        self.append(new);
        self.model.take();
        self.changed.added += done.added;
        self.changed.replaced += done.replaced;
        self.changed.removed += done.removed;
        self.changed.relabeled += done.relabeled;
        Ok(done)
    }

    /// Appends documents, and puts small pieces together: there are at most as many as the logarithm of the number of
    /// documents.
    fn append(&mut self, documents: Vec<NewDocument>) {
        if !documents.is_empty() {
            let piece = self.piece(documents);
            self.push(piece);
        }
        // Rows that do not count any more cost a search, too.
        let dead = |piece: &Piece| piece.alive.len() - piece.count as usize;
        if self.pieces.iter().any(|piece| dead(piece) * SMALLER as usize > piece.alive.len()) {
            self.join();
        }
        loop {
            let joins = match self.pieces.as_slice() {
                [.., before, last] => before.count / SMALLER <= last.count,
                _ => false,
            };
            if !joins {
                break;
            }
            let last = self.pop().expect("there are two");
            let before = self.pop().expect("there are two");
            self.push(Piece::join(&[before, last]));
        }
    }

    /// Puts all documents into one piece, which is searched fastest.
    pub(crate) fn join(&mut self) {
        let is_one = matches!(self.pieces.as_slice(), [] | [_]);
        if !is_one || self.pieces.iter().any(|piece| piece.kept().is_some()) {
            let pieces: Vec<Piece> = std::mem::take(&mut self.pieces);
            self.places.clear();
            self.push(Piece::join(&pieces));
            self.model.take();
        }
    }

    /// The numbers of labels and of their ancestors, each once, in order; new labels get a number.
    fn closed(&mut self, labels: &[String]) -> Vec<u32> {
        let base = Arc::clone(&self.base);
        let hierarchy = &base.settings.hierarchy;
        let mut numbers = Vec::new();
        for label in labels {
            numbers.push(self.number(label));
            for ancestor in hierarchy.ancestors(label) {
                numbers.push(self.number(ancestor));
            }
        }
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    fn number(&mut self, label: &str) -> u32 {
        if let Some(&number) = self.label_numbers.get(label) {
            return number;
        }
        let number = u32::try_from(self.labels.len()).expect("checked before");
        self.labels.push(label.to_owned());
        self.label_numbers.insert(label.to_owned(), number);
        number
    }

    fn piece(&mut self, documents: Vec<NewDocument>) -> Piece {
        let base = Arc::clone(&self.base);
        let mut rows = CsrBuilder::default();
        let mut ids = StringsBuilder::default();
        let mut texts = base.arrays.texts.as_ref().map(|_| StringsBuilder::default());
        let mut values = base.arrays.dense.as_ref().map(|_| Vec::new());
        let mut worths = base.arrays.learned_votes.as_ref().map(|_| <(Lists, Vec<f32>)>::default());
        let (mut labels, mut weights, mut nearest) = (Lists::default(), Vec::new(), Vec::new());
        let count = documents.len();
        for document in documents {
            rows.push_slices(&document.terms, &document.weights);
            ids.push(&document.id);
            let own = self.closed(&document.labels);
            if let Some((lists, values)) = &mut worths {
                values.extend(own.iter().map(|_| 1.0));
                lists.push(own.iter().copied());
            }
            labels.push(own);
            weights.push(document.weight);
            if base.strangeness().is_some() {
                nearest.push(document.nearest.unwrap_or(0.0));
            }
            if let Some(texts) = &mut texts {
                texts.push(document.text.as_deref().unwrap_or_default());
            }
            if let (Some(values), Some(own)) = (&mut values, document.vector) {
                values.extend(own);
            }
        }
        let vectors = values.zip(base.dense()).map(|(values, dense)| {
            let dimension = dense.vectors().dimension();
            Arc::new(Vectors::new(dimension, values).expect("checked before"))
        });
        Piece {
            rows: Arc::new(rows.build(base.vocabulary().len())),
            texts: texts.map(|texts| Arc::new(texts.build())),
            vectors,
            ids: ids.build(),
            labels,
            relabeled: HashMap::new(),
            weights,
            nearest,
            worths,
            alive: vec![true; count],
            count: u32::try_from(count).expect("checked before"),
            kept: OnceLock::new(),
        }
    }

    /// Checks changes, none of which is made yet.
    pub(super) fn check(&self, changes: &[Change]) -> Result<(), ChangeError> {
        // What changes before add and remove.
        let mut there: HashMap<&str, bool> = HashMap::new();
        let mut labels = self.labels.len();
        let named = |labels: &[String]| labels.iter().all(|label| !label.is_empty());
        let unnamed =
            |id: &str| ChangeError::Document { id: id.to_owned(), what: "a label is empty" };
        for change in changes {
            let id = match change {
                Change::Put(document) => {
                    self.check_document(document)?;
                    labels += document.labels.len();
                    there.insert(&document.id, true);
                    continue;
                }
                Change::Remove { id } => id,
                Change::Relabel { id, labels: own } => {
                    if !named(own) {
                        return Err(unnamed(id));
                    }
                    labels += own.len();
                    id
                }
            };
            let known = there.get(&**id).copied().unwrap_or_else(|| self.contains(id));
            if !known {
                return Err(ChangeError::NoSuchDocument { id: id.clone() });
            }
            if matches!(change, Change::Remove { .. }) {
                there.insert(id, false);
            }
        }
        // Every number of a label, and of a row of any piece, has 32 bits, whatever is new among them.
        let rows: usize = self.pieces.iter().map(|piece| piece.alive.len()).sum();
        let most = (u32::MAX / 4) as usize;
        if labels > most || rows + changes.len() > most * 2 {
            return Err(ChangeError::TooMany);
        }
        Ok(())
    }

    fn check_document(&self, document: &NewDocument) -> Result<(), ChangeError> {
        let wrong = |what| Err(ChangeError::Document { id: document.id.clone(), what });
        let NewDocument { labels, weight, terms, weights, vector, .. } = document;
        let columns = self.base.vocabulary().len();
        if labels.iter().any(String::is_empty) {
            return wrong("a label is empty");
        }
        if !(weight.is_finite() && *weight > 0.0) {
            return wrong("its weight is not above 0");
        }
        let in_order = terms.is_sorted_by(|a, b| a < b);
        if !in_order || terms.last().is_some_and(|&last| last as usize >= columns) {
            return wrong("its terms are out of order, or not in the vocabulary");
        }
        let weighted = weights.iter().all(|weight| weight.is_finite() && *weight != 0.0);
        if terms.len() != weights.len() || !weighted {
            return wrong("not one weight per term, finite and not 0");
        }
        if document.text.is_some() != self.base.keeps_texts() {
            return wrong("it has a text and the model keeps none, or the other way round");
        }
        if document.nearest.is_some_and(|similarity| !similarity.is_finite()) {
            return wrong("the similarity of its best neighbor is not finite");
        }
        match (vector, self.base.dense()) {
            (None, None) => Ok(()),
            (Some(vector), Some(dense)) if vector.len() == dense.vectors().dimension() => {
                let square: f64 = vector.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
                let is_unit = square == 0.0 || (square - 1.0).abs() < 1e-3;
                let is_small = vector.iter().all(|value| value.abs() <= GREATEST);
                if is_small && (is_unit || dense.spec().metric != Metric::Angular) {
                    Ok(())
                } else {
                    wrong("its vector has a value that is too large, or is not of length 1")
                }
            }
            _ => wrong("its dense vector has another dimension than the model's"),
        }
    }

    /// The rows of each piece and those that count.
    pub(crate) fn term_pieces(&self) -> impl Iterator<Item = (&Arc<Csr>, Kept)> {
        self.pieces.iter().map(|piece| (&piece.rows, piece.kept().clone()))
    }

    /// The dense vectors of each piece and the rows that count, if the model has vectors.
    pub(crate) fn dense_pieces(&self) -> impl Iterator<Item = (DensePart, Kept)> {
        self.pieces.iter().filter_map(|piece| {
            let part = self.base.dense()?;
            let vectors = Arc::clone(piece.vectors.as_ref()?);
            Some((DensePart { vectors, ..part.clone() }, piece.kept().clone()))
        })
    }

    /// The model with the documents that are there now. Rows and texts are not copied.
    pub fn model(&self) -> Arc<Model> {
        Arc::clone(self.model.get_or_init(|| Arc::new(self.make())))
    }

    /// The model with the documents that are there now, in one piece, and nothing else in memory.
    pub(crate) fn into_model(self) -> Result<Model, Arc<Model>> {
        let model = self.model();
        drop(self);
        let mut model = Arc::try_unwrap(model)?;
        model.arrays.rows = model.arrays.rows.into_one();
        model.arrays.texts = model.arrays.texts.map(Joined::into_one);
        Ok(model)
    }
}
