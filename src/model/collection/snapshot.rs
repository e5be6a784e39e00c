//! Building a model from the current documents of a collection.

use std::sync::Arc;

use super::Collection;
use super::segment::{LabelWeights, Lists};
use crate::decide::decision::{Decision, label_shares};
use crate::decide::vote::LearnedVotes;
use crate::model::rows_by_id::RowsById;
use crate::model::segmented::{LiveRows, Merge, SegmentIndex, Segmented};
use crate::model::{Arrays, Model, ModelCounts, Settings, Updates};
use crate::rows::dense::{DensePart, Vectors};
use crate::rows::matrix::Csr;
use crate::rows::strings::{Strings, StringsBuilder};

/// The data of the remaining documents that a model stores.
struct LiveDocuments {
    ids: Strings,
    labels: Lists,
    weights: Vec<f32>,
    nearest: Vec<f32>,
    vote_weights: LabelWeights,
}

impl Collection {
    /// Returns the rows of each segment and the numbers of its remaining rows.
    pub(crate) fn term_segments(&self) -> impl Iterator<Item = (&Arc<Csr>, LiveRows)> {
        self.segments.iter().map(|segment| (&segment.rows, segment.live().clone()))
    }

    /// Returns the dense vectors of each segment, if the model has them, and the numbers of its
    /// remaining rows.
    pub(crate) fn dense_segments(&self) -> impl Iterator<Item = (DensePart, LiveRows)> {
        self.segments.iter().filter_map(|segment| {
            let part = self.base.dense()?;
            let vectors = Arc::clone(segment.vectors.as_ref()?);
            Some((DensePart { vectors, ..part.clone() }, segment.live().clone()))
        })
    }

    /// Returns a model with the current documents. Rows and texts are not copied.
    pub fn model(&self) -> Arc<Model> {
        Arc::clone(self.model.get_or_init(|| Arc::new(self.build())))
    }

    /// Returns a model with the current documents in one segment, and frees everything else. If the
    /// model has other owners, it is returned as an error.
    pub(crate) fn into_model(self) -> Result<Model, Arc<Model>> {
        let model = self.model();
        drop(self);
        let mut model = Arc::try_unwrap(model)?;
        model.arrays.rows = model.arrays.rows.into_one();
        model.arrays.texts = model.arrays.texts.map(Segmented::into_one);
        Ok(model)
    }

    fn build(&self) -> Model {
        // The number in the collection of each label of the model, in byte order of label names.
        let mut order: Vec<u32> = (0..length_of(&self.labels)).collect();
        order.sort_unstable_by_key(|&label| &self.labels[label as usize]);
        let mut numbers = vec![0u32; order.len()];
        for (number, &label) in (0..).zip(&order) {
            numbers[label as usize] = number;
        }
        let mut ids = StringsBuilder::default();
        let mut labels = Lists::default();
        let mut weights = Vec::new();
        let mut nearest = Vec::new();
        let mut vote_weights = LabelWeights::default();
        let mut empty = 0;
        let mut nonzeros = 0;
        for segment in &self.segments {
            let rows = segment.rows.view();
            for range in segment.live_ranges() {
                ids.extend(&segment.ids, range.clone());
                weights.extend_from_slice(&segment.weights[range.clone()]);
                nearest.extend_from_slice(segment.nearest.get(range.clone()).unwrap_or_default());
                for number in range {
                    let start = labels.values.len();
                    labels
                        .push(segment.labels(number).iter().map(|&label| numbers[label as usize]));
                    labels.values[start..].sort_unstable();
                    let terms = rows.row(number).0.len() as u64;
                    nonzeros += terms;
                    empty += u64::from(terms == 0);
                    if segment.vote_weights.is_none() {
                        continue;
                    }
                    let mut document_weights = segment.vote_weights(number);
                    for (label, _) in &mut document_weights {
                        *label = numbers[*label as usize];
                    }
                    document_weights.sort_unstable_by_key(|&(label, _)| label);
                    vote_weights.push(document_weights);
                }
            }
        }
        let documents = weights.len();
        let unlabeled = labels.starts.windows(2).filter(|bounds| bounds[0] == bounds[1]).count();
        let live_documents =
            LiveDocuments { ids: ids.build(), labels, weights, nearest, vote_weights };
        let arrays = self.arrays(live_documents, &order);
        let label_sizes = arrays.label_sizes();
        let base = &self.base.settings;
        let before = base.updates.unwrap_or_else(|| Updates {
            weighed: base.part_of.unwrap_or(base.counts.documents),
            ..Updates::default()
        });
        let settings = Settings {
            decision: self.decision(&order, &label_shares(&label_sizes, documents)),
            updates: Some(Updates {
                weighed: before.weighed,
                added: before.added + self.changed.added,
                removed: before.removed + self.changed.removed + self.changed.replaced,
                relabeled: before.relabeled + self.changed.relabeled,
            }),
            counts: ModelCounts {
                documents: documents as u64,
                unlabeled: unlabeled as u64,
                empty,
                labels: order.len() as u64,
                nonzeros,
                ..base.counts
            },
            ..base.clone()
        };
        Model { settings, arrays, label_sizes, rows_by_id: RowsById::default() }
    }

    /// Builds the arrays of the model. `order[i]` is the number in the collection of the model's
    /// label `i`.
    fn arrays(&self, documents: LiveDocuments, order: &[u32]) -> Arrays {
        let LiveDocuments { ids, labels, weights, nearest, vote_weights } = documents;
        let base = &self.base.arrays;
        let live =
            self.segments.iter().map(|segment| (length_of(&segment.alive), segment.live().clone()));
        let index = Arc::new(SegmentIndex::new(live));
        let rows = self.segments.iter().map(|segment| Arc::clone(&segment.rows)).collect();
        let texts = base.texts.is_some().then(|| {
            let texts = self.segments.iter().filter_map(|segment| segment.texts.clone()).collect();
            Segmented::many(texts, Arc::clone(&index))
        });
        let dense = base.dense.clone().map(|part| {
            let all = self.segments.iter().filter_map(|segment| {
                Some((Arc::clone(segment.vectors.as_ref()?), segment.live().clone()))
            });
            let all: Vec<_> = all.collect();
            let vectors = match all.as_slice() {
                [(one, None)] => Arc::clone(one),
                several => Arc::new(Vectors::merge(several)),
            };
            DensePart { vectors, ..part }
        });
        // Reorders values per label. A new label gets the mean of the other labels' values.
        let by_label = |values: &[f32]| {
            let mean = values.iter().sum::<f32>() / values.len().max(1) as f32;
            let value = |&label: &u32| values.get(label as usize).copied().unwrap_or(mean);
            order.iter().map(value).collect::<Vec<f32>>()
        };
        let learned_votes = base.learned_votes.as_ref().map(|votes| LearnedVotes {
            starts: vote_weights.labels.starts.into(),
            labels: vote_weights.labels.values.into(),
            vote_weights: vote_weights.weights.into(),
            offsets: if votes.offsets.is_empty() {
                votes.offsets.clone()
            } else {
                by_label(&votes.offsets).into()
            },
            scales: if votes.offsets.is_empty() {
                votes.scales.clone()
            } else {
                by_label(&votes.scales).into()
            },
        });
        let prototypes = base.prototypes.as_ref().map(|prototypes| prototypes.renumbered(order));
        let calibration = base.calibration.clone().map(|mut calibration| {
            let mut renumbered = Vec::new();
            for offsets in calibration.offsets_by_rank() {
                let mean = offsets.iter().sum::<f64>() / offsets.len().max(1) as f64;
                let value = |&label: &u32| offsets.get(label as usize).copied().unwrap_or(mean);
                renumbered.extend(order.iter().map(value));
            }
            calibration.offsets = renumbered.into();
            calibration
        });
        let novelty_score = base.novelty_score.clone().map(|mut novelty_score| {
            novelty_score.nearest = nearest.into();
            novelty_score
        });
        Arrays {
            vocabulary: Arc::clone(&base.vocabulary),
            idf: base.idf.clone(),
            term_factors: base.term_factors.clone(),
            rows: Segmented::many(rows, index),
            label_names: order.iter().map(|&label| self.labels[label as usize].as_str()).collect(),
            label_indptr: labels.starts.into(),
            label_indices: labels.values.into(),
            ids,
            weights: weights.into(),
            texts,
            calibration,
            profile: base.profile.clone(),
            novelty_score,
            learned_votes,
            prototypes,
            dense,
        }
    }

    /// Returns the decision with the model's label numbers.
    fn decision(&self, order: &[u32], shares: &[f64]) -> Decision {
        match &self.base.settings.decision {
            Decision::PerLabel { rule, thresholds, allow_none } => {
                let mut known: Vec<f64> = thresholds.iter().flatten().copied().collect();
                known.sort_by(f64::total_cmp);
                let median = known.get(known.len() / 2).copied();
                let threshold =
                    |&label: &u32| thresholds.get(label as usize).copied().unwrap_or(median);
                let thresholds = order.iter().map(threshold).collect();
                Decision::PerLabel { rule: *rule, thresholds, allow_none: *allow_none }
            }
            Decision::Proportional { factor, .. } => {
                Decision::Proportional { factor: *factor, shares: shares.to_vec() }
            }
            decision => decision.clone(),
        }
    }
}

fn length_of<T>(values: &[T]) -> u32 {
    u32::try_from(values.len()).expect("numbers of rows and labels have 32 bits")
}
