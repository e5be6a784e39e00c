//! A model of the documents that are there.

use std::sync::Arc;

use super::Collection;
use super::piece::Lists;
use crate::decide::decision::{Decision, shares};
use crate::decide::vote::LearnedVotes;
use crate::model::joined::{Join, Joined, Places, each};
use crate::model::rows_by_id::RowsById;
use crate::model::{Arrays, Model, ModelCounts, Settings, Updates};
use crate::rows::dense::{DensePart, Vectors};
use crate::rows::matrix::row;
use crate::rows::strings::{Strings, StringsBuilder};

impl Collection {
    pub(super) fn make(&self) -> Model {
        // From numbers of the collection to numbers of the model, which are in byte order of the names.
        let mut order: Vec<u32> = (0..length_of(&self.labels)).collect();
        order.sort_unstable_by_key(|&label| &self.labels[label as usize]);
        let mut numbers = vec![0u32; order.len()];
        for (number, &label) in (0..).zip(&order) {
            numbers[label as usize] = number;
        }
        let renumbered = |labels: &[u32]| {
            let mut own: Vec<u32> = labels.iter().map(|&label| numbers[label as usize]).collect();
            own.sort_unstable();
            own
        };
        let mut ids = StringsBuilder::default();
        let mut labels = Lists::default();
        let (mut weights, mut nearest) = (Vec::new(), Vec::new());
        let mut worths = <(Lists, Vec<f32>)>::default();
        let (mut empty, mut nonzeros) = (0, 0);
        for piece in &self.pieces {
            let rows = piece.rows.view();
            each(piece.alive.len(), piece.kept(), |number| {
                ids.push(piece.ids.get(number).unwrap_or_default());
                labels.push(renumbered(piece.labels(number)));
                weights.push(piece.weights[number]);
                nearest.extend(piece.nearest.get(number));
                let mut own = piece.worths(number);
                for (label, _) in &mut own {
                    *label = numbers[*label as usize];
                }
                own.sort_unstable_by_key(|&(label, _)| label);
                worths.0.push(own.iter().map(|&(label, _)| label));
                worths.1.extend(own.iter().map(|&(_, worth)| worth));
                let terms = row(&rows, number).0.len() as u64;
                nonzeros += terms;
                empty += u64::from(terms == 0);
            });
        }
        let documents = weights.len();
        let unlabeled = labels.starts.windows(2).filter(|bounds| bounds[0] == bounds[1]).count();
        let arrays = self.arrays(ids.build(), labels, (weights, nearest, worths), &order);
        let label_sizes = arrays.label_sizes();
        let base = &self.base.settings;
        let before = base.updates.unwrap_or_else(|| Updates {
            weighed: base.part_of.unwrap_or(base.counts.documents),
            ..Updates::default()
        });
        let settings = Settings {
            decision: self.decision(&order, &shares(&label_sizes, documents)),
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

    fn arrays(
        &self,
        ids: Strings,
        labels: Lists,
        (weights, nearest, worths): (Vec<f32>, Vec<f32>, (Lists, Vec<f32>)),
        order: &[u32],
    ) -> Arrays {
        let base = &self.base.arrays;
        let kept = self.pieces.iter().map(|piece| (length_of(&piece.alive), piece.kept().clone()));
        let places = Arc::new(Places::new(kept));
        let rows = self.pieces.iter().map(|piece| Arc::clone(&piece.rows)).collect();
        let texts = base.texts.is_some().then(|| {
            let texts = self.pieces.iter().filter_map(|piece| piece.texts.clone()).collect();
            Joined::several(texts, Arc::clone(&places))
        });
        let dense = base.dense.clone().map(|part| {
            let all = self.pieces.iter().filter_map(|piece| {
                Some((Arc::clone(piece.vectors.as_ref()?), piece.kept().clone()))
            });
            let all: Vec<_> = all.collect();
            let vectors = match all.as_slice() {
                [(one, None)] => Arc::clone(one),
                several => Arc::new(Vectors::join(several)),
            };
            DensePart { vectors, ..part }
        });
        // Values of labels, of which the new ones have none yet.
        let by_label = |values: &[f32]| {
            let mean = values.iter().sum::<f32>() / values.len().max(1) as f32;
            let value = |&label: &u32| values.get(label as usize).copied().unwrap_or(mean);
            order.iter().map(value).collect::<Vec<f32>>()
        };
        let learned_votes = base.learned_votes.as_ref().map(|votes| LearnedVotes {
            starts: worths.0.starts.into(),
            labels: worths.0.values.into(),
            worths: worths.1.into(),
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
        let strangeness = base.strangeness.clone().map(|mut strangeness| {
            strangeness.nearest = nearest.into();
            strangeness
        });
        Arrays {
            vocabulary: Arc::clone(&base.vocabulary),
            idf: base.idf.clone(),
            term_factors: base.term_factors.clone(),
            rows: Joined::several(rows, places),
            label_names: order.iter().map(|&label| self.labels[label as usize].as_str()).collect(),
            label_indptr: labels.starts.into(),
            label_indices: labels.values.into(),
            ids,
            weights: weights.into(),
            texts,
            calibration,
            strangeness,
            learned_votes,
            prototypes,
            dense,
        }
    }

    /// The decision by numbers of the model.
    fn decision(&self, order: &[u32], shares: &[f64]) -> Decision {
        match &self.base.settings.decision {
            Decision::PerLabel { rule, thresholds, allow_none } => {
                let mut known: Vec<f64> = thresholds.iter().flatten().copied().collect();
                known.sort_by(f64::total_cmp);
                let median = known.get(known.len() / 2).copied();
                let own = |&label: &u32| thresholds.get(label as usize).copied().unwrap_or(median);
                let thresholds = order.iter().map(own).collect();
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
