//! Detects that documents differ from the training documents.
//!
//! Expected metrics, probabilities and limits for abstaining assume that new documents are drawn
//! like the training documents. [`TrainingProfile`] stores what held-out training documents look
//! like, and [`ShiftMonitor`] compares classified documents with it by the two-sample
//! Kolmogorov–Smirnov test.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use super::quantiles::quantiles;
use crate::rows::matrix::Array;

/// A property of documents in which new documents can differ from the training documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Property {
    /// The similarity to the nearest training document: a cosine, or a BM25 score.
    Similarity,
    /// The share of the document's terms that the model does not know, from 0 to 1.
    UnknownTerms,
    /// The number of terms of the document, counting repetitions.
    Length,
}

/// The values of a document's properties, in the order of [`Property::ALL`].
pub(crate) type PropertyValues = [f32; Property::ALL.len()];

impl Property {
    /// All properties.
    pub(crate) const ALL: [Self; 3] = [Self::Similarity, Self::UnknownTerms, Self::Length];
}

/// Number of stored points of each distribution.
const POINTS: usize = 65;
/// Probability of reporting a shift if there is none; each property has an equal share.
const SIGNIFICANCE: f64 = 0.01;
/// Minimum Kolmogorov–Smirnov distance that is reported. Smaller differences between large sets of
/// documents are significant, but hardly matter.
const MIN_DISTANCE: f64 = 0.1;

/// The distribution of each [`Property`] among held-out training documents.
#[derive(Debug, Clone)]
pub(crate) struct TrainingProfile {
    /// For each property, its values at [`POINTS`] evenly spaced quantiles, in non-decreasing
    /// order.
    pub(crate) values: Array<f32>,
    /// For each of these values, the share of documents with at most that value.
    pub(crate) shares: Array<f32>,
    /// Number of held-out documents. The model file stores it with the results of tuning.
    pub(crate) documents: u64,
}

impl TrainingProfile {
    /// Returns the profile of held-out documents. `None` if there are none.
    pub(crate) fn of(documents: &[PropertyValues]) -> Option<Self> {
        if documents.is_empty() {
            return None;
        }
        let mut values = Vec::new();
        let mut shares = Vec::new();
        for property in 0..Property::ALL.len() {
            let mut of_documents: Vec<f32> =
                documents.iter().map(|values| values[property]).collect();
            of_documents.sort_by(f32::total_cmp);
            let count_up_to = |value: f32| of_documents.partition_point(|&other| other <= value);
            let points = with_points_below(&quantiles(of_documents.clone(), POINTS));
            let share = |&value: &f32| count_up_to(value) as f32 / of_documents.len() as f32;
            shares.extend(points.iter().map(share));
            values.extend(points);
        }
        let documents = documents.len() as u64;
        Some(Self { values: values.into(), shares: shares.into(), documents })
    }

    /// Returns the points of a property, with the share of documents up to each of them.
    fn points(&self, property: Property) -> (&[f32], &[f32]) {
        let start = property as usize * POINTS;
        (&self.values[start..start + POINTS], &self.shares[start..start + POINTS])
    }

    /// Checks the arrays. The error names the first problem.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let length = POINTS * Property::ALL.len();
        if self.values.len() != length || self.shares.len() != length {
            return Err("the profile of the training documents has a wrong length");
        }
        let is_valid = |property: Property| {
            let (values, shares) = self.points(property);
            let is_finite = values.iter().all(|value| value.is_finite());
            let are_shares = shares.iter().all(|share| (0.0..=1.0).contains(share));
            is_finite && are_shares && values.is_sorted() && shares.is_sorted()
        };
        if Property::ALL.into_iter().all(is_valid) {
            Ok(())
        } else {
            Err("a value of the profile of the training documents is not finite or out of order")
        }
    }
}

/// Replaces the first of several equal points, and the lowest point, by the next lower number.
/// Otherwise, documents below a value that many training documents have would not be noticed.
fn with_points_below(points: &[f32]) -> Vec<f32> {
    let is_first = |index: usize| index == 0 || points[index - 1] < points[index];
    let is_repeated = |index: usize| points.get(index + 1) == Some(&points[index]);
    let below = |(index, &point): (usize, &f32)| {
        let is_replaced = index == 0 || (is_first(index) && is_repeated(index));
        if is_replaced { point.next_down() } else { point }
    };
    points.iter().enumerate().map(below).collect()
}

/// A difference between the classified documents and the training documents.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Shift {
    /// The property that differs most.
    pub property: Property,
    /// The value of the property at which the shares below differ most.
    pub value: f32,
    /// The share of the classified documents with at most this value.
    pub share: f64,
    /// The share of held-out training documents with at most this value.
    pub training_share: f64,
    /// The number of classified documents.
    pub documents: u64,
}

impl Shift {
    /// Returns the Kolmogorov–Smirnov distance between the classified documents and the training
    /// documents, from 0 to 1.
    pub fn distance(&self) -> f64 {
        (self.share - self.training_share).abs()
    }
}

/// Counts the properties of classified documents, and compares them with those of the training
/// documents. Several threads can add documents.
#[derive(Debug)]
pub(crate) struct ShiftMonitor<'a> {
    profile: &'a TrainingProfile,
    /// For each property and point, the number of documents whose value is at most that of the
    /// point, but above that of the point before it. The last number of a property is of documents
    /// above all points.
    counts: Vec<AtomicU64>,
}

impl<'a> ShiftMonitor<'a> {
    pub(crate) fn new(profile: &'a TrainingProfile) -> Self {
        let counts = (0..Property::ALL.len() * (POINTS + 1)).map(|_| AtomicU64::new(0));
        Self { profile, counts: counts.collect() }
    }

    /// Adds a document.
    pub(crate) fn add(&self, values: PropertyValues) {
        for (property, value) in Property::ALL.into_iter().zip(values) {
            let (points, _) = self.profile.points(property);
            let point = points.partition_point(|&point| point < value);
            self.counts_of(property)[point].fetch_add(1, Ordering::Relaxed);
        }
    }

    fn counts_of(&self, property: Property) -> &[AtomicU64] {
        let start = property as usize * (POINTS + 1);
        &self.counts[start..=start + POINTS]
    }

    /// Returns the property that differs most, if a difference is significant and large.
    pub(crate) fn shift(&self) -> Option<Shift> {
        let shifts = Property::ALL.into_iter().filter_map(|property| self.shift_of(property));
        shifts.max_by(|a, b| a.distance().total_cmp(&b.distance()))
    }

    fn shift_of(&self, property: Property) -> Option<Shift> {
        let counts = self.counts_of(property).iter().map(|count| count.load(Ordering::Relaxed));
        let up_to: Vec<u64> = counts
            .scan(0, |sum, count| {
                *sum += count;
                Some(*sum)
            })
            .collect();
        let documents = up_to.last().copied().filter(|&documents| documents > 0)?;
        let (points, shares) = self.profile.points(property);
        let at_point = |((&value, &training), &count): ((&f32, &f32), &u64)| {
            let share = count as f64 / documents.max(1) as f64;
            let training_share = training.into();
            Shift { property, value, share, training_share, documents }
        };
        let at_points = points.iter().zip(shares).zip(&up_to).map(at_point);
        let most = at_points.max_by(|a, b| a.distance().total_cmp(&b.distance()))?;
        let sizes = [self.profile.documents, documents].map(|size| size as f64);
        let p_value = kolmogorov_smirnov_p_value(most.distance(), sizes);
        let is_significant = p_value <= SIGNIFICANCE / Property::ALL.len() as f64;
        (most.distance() >= MIN_DISTANCE && is_significant).then_some(most)
    }
}

/// Returns the asymptotic p-value of the two-sample Kolmogorov–Smirnov test, with the correction
/// for small samples by Stephens (1970).
fn kolmogorov_smirnov_p_value(distance: f64, [first, second]: [f64; 2]) -> f64 {
    let root = libm::sqrt(first * second / (first + second).max(1.0));
    let lambda = (root + 0.12 + 0.11 / root.max(1e-9)) * distance;
    if lambda < 0.3 {
        return 1.0;
    }
    let term = |j: i32| {
        let sign = if j % 2 == 1 { 2.0 } else { -2.0 };
        sign * libm::exp(-2.0 * f64::from(j * j) * lambda * lambda)
    };
    (1..=100).map(term).sum::<f64>().clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Documents whose similarities are uniform from 0 to `max`.
    fn documents(count: usize, max: f32, seed: u64) -> Vec<PropertyValues> {
        let mut random = Random::new(seed);
        (0..count)
            .map(|_| {
                let similarity = random.unit_f32() * max;
                [similarity, 0.0, random.below(20) as f32]
            })
            .collect()
    }

    fn shift_of(training: &[PropertyValues], new: &[PropertyValues]) -> Option<Shift> {
        let profile = TrainingProfile::of(training).expect("there are documents");
        assert_eq!(profile.check(), Ok(()));
        let monitor = ShiftMonitor::new(&profile);
        for &values in new {
            monitor.add(values);
        }
        monitor.shift()
    }

    #[test]
    fn documents_of_the_same_distribution_have_no_shift() {
        let has_shift = |&number: &usize| {
            let seed = 2 * number as u64;
            let training = documents(100 + 10 * number, 1.0, seed);
            shift_of(&training, &documents(50 + 7 * number, 1.0, seed + 1)).is_some()
        };
        let reported = (0..200).filter(has_shift).count();
        assert!(reported <= 4, "{reported} of 200");
    }

    #[test]
    fn less_similar_documents_are_a_shift() {
        let training = documents(1_000, 1.0, 0);
        let shift = shift_of(&training, &documents(200, 0.6, 1)).expect("they differ");
        assert_eq!((shift.property, shift.documents), (Property::Similarity, 200));
        assert!((shift.distance() - 0.4).abs() < 0.05, "{shift:?}");
        assert!((shift.value - 0.6).abs() < 0.05 && shift.share > 0.95, "{shift:?}");
        // All training documents have the same length, and the others are shorter.
        let [long, short] = [10.0, 5.0].map(|length| vec![[0.5, 0.0, length]; 100]);
        assert_eq!(shift_of(&long, &short).expect("they differ").property, Property::Length);
        assert_eq!(shift_of(&long, &long), None);
        assert_eq!(shift_of(&training, &[]), None);
        // A few documents prove nothing.
        assert_eq!(shift_of(&training, &documents(5, 0.6, 1)), None);
        // Values that no training document has.
        let unknown: Vec<PropertyValues> =
            training.iter().map(|&[similarity, _, length]| [similarity, 0.5, length]).collect();
        let shift = shift_of(&training, &unknown).expect("they differ");
        assert_eq!(shift.property, Property::UnknownTerms);
    }

    /// Values of the Kolmogorov distribution from Smirnov (1948).
    #[test]
    fn p_values_are_those_of_the_kolmogorov_distribution() {
        let many = 1e12;
        for (lambda, p_value) in [(1.36, 0.0495), (1.63, 0.0098), (1.0, 0.27)] {
            let distance = lambda / libm::sqrt(many / 2.0);
            let found = kolmogorov_smirnov_p_value(distance, [many, many]);
            assert!((found - p_value).abs() < 0.001, "{lambda}: {found}");
        }
        assert!((kolmogorov_smirnov_p_value(0.0, [10.0, 10.0]) - 1.0).abs() < 1e-12);
    }
}
