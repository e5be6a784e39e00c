//! Documents of a collection that were added together, or put together since.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use crate::model::Model;
use crate::model::joined::{Join, Kept, each};
use crate::rows::dense::Vectors;
use crate::rows::matrix::Csr;
use crate::rows::strings::{Strings, StringsBuilder};

/// Documents that were added together, or put together since.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) rows: Arc<Csr>,
    pub(super) texts: Option<Arc<Strings>>,
    pub(super) vectors: Option<Arc<Vectors>>,
    pub(super) ids: Strings,
    /// By numbers of the collection.
    pub(super) labels: Lists,
    /// The labels of documents that got others.
    pub(super) relabeled: HashMap<u32, Vec<u32>>,
    pub(super) weights: Vec<f32>,
    /// The similarity of each document's best neighbor, if the model refuses foreign documents.
    pub(super) nearest: Vec<f32>,
    /// The worth of each document's vote for labels, if that was learned.
    pub(super) worths: Option<(Lists, Vec<f32>)>,
    pub(super) alive: Vec<bool>,
    pub(super) count: u32,
    pub(super) kept: OnceLock<Kept>,
}

/// A list of numbers for each row.
#[derive(Debug)]
pub(super) struct Lists {
    pub(super) starts: Vec<u64>,
    pub(super) values: Vec<u32>,
}

impl Default for Lists {
    fn default() -> Self {
        Self { starts: vec![0], values: Vec::new() }
    }
}

impl Lists {
    pub(super) fn push(&mut self, values: impl IntoIterator<Item = u32>) {
        self.values.extend(values);
        self.starts.push(self.values.len() as u64);
    }

    #[expect(clippy::cast_possible_truncation, reason = "bounds of a vector")]
    fn bounds(&self, row: usize) -> std::ops::Range<usize> {
        self.starts[row] as usize..self.starts[row + 1] as usize
    }

    pub(super) fn of(&self, row: usize) -> &[u32] {
        &self.values[self.bounds(row)]
    }
}

impl Piece {
    pub(super) fn kept(&self) -> &Kept {
        self.kept.get_or_init(|| {
            let all = self.count as usize == self.alive.len();
            let rows = || (0..).zip(&self.alive).filter(|&(_, &alive)| alive).map(|(row, _)| row);
            (!all).then(|| rows().collect())
        })
    }

    pub(super) fn labels(&self, row: usize) -> &[u32] {
        let other = u32::try_from(row).ok().and_then(|row| self.relabeled.get(&row));
        other.map_or(self.labels.of(row), Vec::as_slice)
    }

    /// What the vote of a document is worth for labels: 1 for its own, if it got other labels.
    pub(super) fn worths(&self, row: usize) -> Vec<(u32, f32)> {
        let Some((lists, worths)) = &self.worths else { return Vec::new() };
        if u32::try_from(row).is_ok_and(|row| self.relabeled.contains_key(&row)) {
            return self.labels(row).iter().map(|&label| (label, 1.0)).collect();
        }
        let labels = lists.of(row).iter().copied();
        labels.zip(worths[lists.bounds(row)].iter().copied()).collect()
    }

    pub(super) fn kill(&mut self, row: u32) {
        self.alive[row as usize] = false;
        self.count -= 1;
        self.kept.take();
    }

    /// The documents of several pieces that are left, in order.
    pub(super) fn join(pieces: &[Self]) -> Self {
        fn put<T: Join>(pieces: &[Piece], of: impl Fn(&Piece) -> Arc<T>) -> Arc<T> {
            let all: Vec<_> =
                pieces.iter().map(|piece| (of(piece), piece.kept().clone())).collect();
            Arc::new(T::join(&all))
        }
        let first = &pieces[0];
        let texts = first.texts.is_some().then(|| {
            put(pieces, |piece| Arc::clone(piece.texts.as_ref().expect("all pieces have texts")))
        });
        let vectors = first.vectors.is_some().then(|| {
            put(pieces, |piece| {
                Arc::clone(piece.vectors.as_ref().expect("all pieces have vectors"))
            })
        });
        let mut ids = StringsBuilder::default();
        let (mut labels, mut weights, mut nearest) = (Lists::default(), Vec::new(), Vec::new());
        let mut worths = first.worths.is_some().then(<(Lists, Vec<f32>)>::default);
        for piece in pieces {
            each(piece.alive.len(), piece.kept(), |row| {
                ids.push(piece.ids.get(row).unwrap_or_default());
                labels.push(piece.labels(row).iter().copied());
                weights.push(piece.weights[row]);
                nearest.extend(piece.nearest.get(row));
                if let Some((lists, values)) = &mut worths {
                    let own = piece.worths(row);
                    lists.push(own.iter().map(|&(label, _)| label));
                    values.extend(own.iter().map(|&(_, worth)| worth));
                }
            });
        }
        let count = weights.len();
        Self {
            rows: put(pieces, |piece| Arc::clone(&piece.rows)),
            texts,
            vectors,
            ids: ids.build(),
            labels,
            relabeled: HashMap::new(),
            weights,
            nearest,
            worths,
            alive: vec![true; count],
            count: u32::try_from(count).expect("checked when documents were added"),
            kept: OnceLock::new(),
        }
    }

    /// The documents of a model.
    pub(super) fn of(model: &Model) -> Self {
        let arrays = &model.arrays;
        let count = model.ids().len();
        let mut labels = Lists::default();
        for row in (0..).take(count) {
            labels.push(model.document_labels(row).iter().copied());
        }
        let worths = arrays.learned_votes.as_ref().map(|votes| {
            let lists = Lists { starts: votes.starts.to_vec(), values: votes.labels.to_vec() };
            (lists, votes.worths.to_vec())
        });
        Self {
            rows: Arc::clone(model.rows()),
            texts: arrays.texts.as_ref().map(|texts| Arc::clone(texts.whole())),
            vectors: arrays.dense.as_ref().map(|dense| Arc::clone(dense.vectors())),
            ids: model.ids().clone(),
            labels,
            relabeled: HashMap::new(),
            weights: model.document_weights().to_vec(),
            nearest: model
                .strangeness()
                .map_or(Vec::new(), |strangeness| strangeness.nearest.to_vec()),
            worths,
            alive: vec![true; count],
            count: u32::try_from(count).expect("a model has fewer than 2^32 documents"),
            kept: OnceLock::new(),
        }
    }
}

impl Join for Vectors {
    fn join(pieces: &[(Arc<Self>, Kept)]) -> Self {
        let dimension = pieces.first().map_or(1, |(vectors, _)| vectors.dimension());
        let mut values = Vec::new();
        for (vectors, kept) in pieces {
            each(vectors.rows(), kept, |number| values.extend_from_slice(vectors.row(number)));
        }
        Self::new(dimension, values).expect("whole rows")
    }
}
