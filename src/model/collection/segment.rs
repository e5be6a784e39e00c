//! Segments of a collection.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::model::Model;
use crate::model::segmented::{LiveRows, Merge, for_each_live};
use crate::rows::dense::Vectors;
use crate::rows::matrix::Csr;
use crate::rows::strings::{Strings, StringsBuilder};

/// A segment: documents that were added together, or merged later.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) rows: Arc<Csr>,
    pub(super) texts: Option<Arc<Strings>>,
    pub(super) vectors: Option<Arc<Vectors>>,
    pub(super) ids: Strings,
    /// The labels, numbered as in the collection.
    pub(super) labels: Lists,
    /// The new labels of relabeled documents, by row.
    pub(super) relabeled: HashMap<u32, Vec<u32>>,
    pub(super) weights: Vec<f32>,
    /// The similarity of each document's best neighbor, if the model has a novelty score.
    pub(super) nearest: Vec<f32>,
    /// The learned vote weights of the documents, if the model has them.
    pub(super) vote_weights: Option<LabelWeights>,
    /// Whether each row remains.
    pub(super) alive: Vec<bool>,
    /// The number of remaining rows.
    pub(super) count: u32,
    pub(super) live: OnceLock<LiveRows>,
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
    fn bounds(&self, row: usize) -> Range<usize> {
        self.starts[row] as usize..self.starts[row + 1] as usize
    }

    pub(super) fn get(&self, row: usize) -> &[u32] {
        &self.values[self.bounds(row)]
    }
}

/// The learned vote weights of each row, by label.
#[derive(Debug, Default)]
pub(super) struct LabelWeights {
    pub(super) labels: Lists,
    pub(super) weights: Vec<f32>,
}

impl LabelWeights {
    pub(super) fn push(&mut self, weights: impl IntoIterator<Item = (u32, f32)>) {
        let labels = weights.into_iter().map(|(label, weight)| {
            self.weights.push(weight);
            label
        });
        self.labels.push(labels);
    }

    fn get(&self, row: usize) -> Vec<(u32, f32)> {
        let labels = self.labels.get(row).iter().copied();
        labels.zip(self.weights[self.labels.bounds(row)].iter().copied()).collect()
    }
}

impl Segment {
    pub(super) fn live(&self) -> &LiveRows {
        self.live.get_or_init(|| {
            let is_complete = self.count as usize == self.alive.len();
            let rows = || (0..).zip(&self.alive).filter(|&(_, &alive)| alive).map(|(row, _)| row);
            (!is_complete).then(|| rows().collect())
        })
    }

    /// Returns the rows that were not removed, as ranges.
    pub(super) fn live_ranges(&self) -> impl Iterator<Item = Range<usize>> {
        let mut end = 0;
        self.alive.chunk_by(|a, b| a == b).filter_map(move |equal| {
            let start = end;
            end += equal.len();
            equal[0].then_some(start..end)
        })
    }

    pub(super) fn labels(&self, row: usize) -> &[u32] {
        let new_labels = u32::try_from(row).ok().and_then(|row| self.relabeled.get(&row));
        new_labels.map_or(self.labels.get(row), Vec::as_slice)
    }

    /// Returns the vote weights of a document. If the document was relabeled, they are 1 for each
    /// of its labels.
    pub(super) fn vote_weights(&self, row: usize) -> Vec<(u32, f32)> {
        let Some(vote_weights) = &self.vote_weights else { return Vec::new() };
        if u32::try_from(row).is_ok_and(|row| self.relabeled.contains_key(&row)) {
            return self.labels(row).iter().map(|&label| (label, 1.0)).collect();
        }
        vote_weights.get(row)
    }

    pub(super) fn remove(&mut self, row: u32) {
        self.alive[row as usize] = false;
        self.count -= 1;
        self.live.take();
    }

    /// Merges the remaining documents of several segments, in order.
    pub(super) fn merge(segments: &[Self]) -> Self {
        fn merge_arrays<T: Merge>(
            segments: &[Segment],
            array: impl Fn(&Segment) -> Arc<T>,
        ) -> Arc<T> {
            let all: Vec<_> =
                segments.iter().map(|segment| (array(segment), segment.live().clone())).collect();
            Arc::new(T::merge(&all))
        }
        let first = &segments[0];
        let texts = first.texts.is_some().then(|| {
            merge_arrays(segments, |segment| {
                Arc::clone(segment.texts.as_ref().expect("all segments have texts"))
            })
        });
        let vectors = first.vectors.is_some().then(|| {
            merge_arrays(segments, |segment| {
                Arc::clone(segment.vectors.as_ref().expect("all segments have vectors"))
            })
        });
        let mut ids = StringsBuilder::default();
        let mut labels = Lists::default();
        let mut weights = Vec::new();
        let mut nearest = Vec::new();
        let mut vote_weights = first.vote_weights.is_some().then(LabelWeights::default);
        for segment in segments {
            for_each_live(segment.alive.len(), segment.live(), |row| {
                ids.push(segment.ids.get(row).unwrap_or_default());
                labels.push(segment.labels(row).iter().copied());
                weights.push(segment.weights[row]);
                nearest.extend(segment.nearest.get(row));
                if let Some(vote_weights) = &mut vote_weights {
                    vote_weights.push(segment.vote_weights(row));
                }
            });
        }
        let count = weights.len();
        Self {
            rows: merge_arrays(segments, |segment| Arc::clone(&segment.rows)),
            texts,
            vectors,
            ids: ids.build(),
            labels,
            relabeled: HashMap::new(),
            weights,
            nearest,
            vote_weights,
            alive: vec![true; count],
            count: u32::try_from(count).expect("checked when documents were added"),
            live: OnceLock::new(),
        }
    }

    /// Creates a segment of a model's documents.
    pub(super) fn from_model(model: &Model) -> Self {
        let arrays = &model.arrays;
        let count = model.ids().len();
        let mut labels = Lists::default();
        for row in (0..).take(count) {
            labels.push(model.document_labels(row).iter().copied());
        }
        let vote_weights = arrays.learned_votes.as_ref().map(|votes| {
            let labels = Lists { starts: votes.starts.to_vec(), values: votes.labels.to_vec() };
            LabelWeights { labels, weights: votes.vote_weights.to_vec() }
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
                .novelty_score()
                .map_or(Vec::new(), |novelty_score| novelty_score.nearest.to_vec()),
            vote_weights,
            alive: vec![true; count],
            count: u32::try_from(count).expect("a model has fewer than 2^32 documents"),
            live: OnceLock::new(),
        }
    }
}

impl Merge for Vectors {
    fn merge(segments: &[(Arc<Self>, LiveRows)]) -> Self {
        let dimension = segments.first().map_or(1, |(vectors, _)| vectors.dimension());
        let mut values = Vec::new();
        for (vectors, live) in segments {
            for_each_live(vectors.rows(), live, |number| {
                values.extend_from_slice(vectors.row(number));
            });
        }
        Self::new(dimension, values).expect("whole rows")
    }
}
