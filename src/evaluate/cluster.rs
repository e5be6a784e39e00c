//! Clusters documents by similarity, without labels.
//!
//! The algorithm is spherical k-means (Dhillon and Modha 2001). Each document is assigned to the
//! cluster with the most similar center, and each center is the mean of its documents, scaled to
//! length 1. The two steps alternate until no document moves.
//!
//! The initial centers are chosen by k-means++ (Arthur and Vassilvitskii 2007) with several
//! candidates for each center. Documents are drawn with probabilities proportional to their
//! distance from earlier centers. The algorithm runs from several starts and returns the result
//! with the highest sum of similarities to the centers.
//!
//! ```
//! use std::num::NonZeroUsize;
//! use std::sync::Arc;
//! use classify::evaluate::cluster::{ClusterOptions, cluster};
//! use classify::rows::matrix::CsrBuilder;
//! use classify::search::Engines;
//! use classify::threads::Threads;
//!
//! let mut rows = CsrBuilder::default();
//! for (term, other) in [(0, 1), (3, 4), (1, 2), (4, 5)] {
//!     rows.push_row([(term, 0.6), (other, 0.8)]);
//! }
//! let options = ClusterOptions::new(NonZeroUsize::new(2).expect("above 0"));
//! let engines = Engines::cpu(&Threads::available()?);
//! let found = cluster(&Arc::new(rows.build(6)), options, &engines)?;
//! assert_eq!(found.cluster_of_row, [Some(0), Some(1), Some(0), Some(1)]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use rayon::prelude::*;

use crate::random::Random;
use crate::rows::matrix::{Csr, CsrBuilder, row};
use crate::search::{Engines, NeighborLists, Request, SearchError};

/// The options for clustering.
#[derive(Debug, Clone, Copy)]
pub struct ClusterOptions {
    /// Number of clusters, limited to the number of documents.
    pub clusters: NonZeroUsize,
    /// Number of starts with random initial centers.
    pub starts: NonZeroUsize,
    /// Maximum number of iterations per start.
    pub max_iterations: NonZeroUsize,
    /// The seed of the random initial centers.
    pub seed: u64,
}

impl ClusterOptions {
    /// Returns options with ten starts of at most 100 iterations.
    #[expect(clippy::missing_panics_doc, reason = "the numbers are above 0")]
    pub const fn new(clusters: NonZeroUsize) -> Self {
        let ten = NonZeroUsize::new(10).expect("above 0");
        let hundred = NonZeroUsize::new(100).expect("above 0");
        Self { clusters, starts: ten, max_iterations: hundred, seed: 0 }
    }
}

/// Clusters, numbered in the order of their first documents.
#[derive(Debug, Clone)]
pub struct Clusters {
    /// The cluster of each row; `None` if the row shares no term with any center.
    pub cluster_of_row: Vec<Option<u32>>,
    /// The similarity of each row to the center of its cluster; 0 if it has no cluster.
    pub similarities: Vec<f32>,
    /// The centers, as rows of length 1, in the order of the clusters.
    pub centers: Arc<Csr>,
    /// The sum of `similarities`.
    pub objective: f64,
    /// Number of iterations of the best start.
    pub iterations: usize,
}

/// Clusters rows of length 1. The result depends only on the rows and the options, not on engines
/// or threads.
///
/// # Errors
/// Fails if a weight is not finite, or if there are too many rows.
#[expect(clippy::missing_panics_doc, reason = "there is at least one start")]
pub fn cluster(
    rows: &Arc<Csr>,
    options: ClusterOptions,
    engines: &Engines,
) -> Result<Clusters, SearchError> {
    let mut best: Option<Clusters> = None;
    for start in 0..options.starts.get() as u64 {
        let random = Random::new(options.seed ^ (start.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let found = run_start(rows, options, engines, random)?;
        if best.as_ref().is_none_or(|best| found.objective > best.objective) {
            best = Some(found);
        }
    }
    let mut best = best.expect("there is at least one start");
    best.renumber();
    Ok(best)
}

fn run_start(
    rows: &Arc<Csr>,
    options: ClusterOptions,
    engines: &Engines,
    mut random: Random,
) -> Result<Clusters, SearchError> {
    let mut centers = Arc::new(first_centers(rows, options.clusters.get(), engines, &mut random));
    let mut lists = NeighborLists::default();
    let mut cluster_of_row = vec![None; rows.rows()];
    for round in 1.. {
        let (nearest, similarities) = nearest(rows, &centers, engines, &mut lists)?;
        if nearest == cluster_of_row || round == options.max_iterations.get() {
            let objective = similarities.iter().map(|&similarity| f64::from(similarity)).sum();
            return Ok(Clusters {
                cluster_of_row: nearest,
                similarities,
                centers,
                objective,
                iterations: round,
            });
        }
        cluster_of_row = nearest;
        centers = Arc::new(means(rows, &cluster_of_row, &similarities, centers.rows(), engines));
    }
    unreachable!("the last round returns")
}

/// Maximum number of weights in the table of centers; they take 256 MiB.
const MAX_TABLE: usize = 1 << 26;

/// Returns the most similar center of each row, and the similarity.
///
/// A table of all centers is faster than a search engine, but takes more memory. Both give exactly
/// the same result.
fn nearest(
    rows: &Csr,
    centers: &Arc<Csr>,
    engines: &Engines,
    lists: &mut NeighborLists,
) -> Result<(Vec<Option<u32>>, Vec<f32>), SearchError> {
    let count = centers.rows();
    if rows.cols().saturating_mul(count) > MAX_TABLE {
        let engine = engines.engine(centers)?;
        let _ = engine.search(&Request::new(rows, NonZeroUsize::MIN), lists)?;
        let first = lists.iter().map(|list| list.first());
        return Ok(first
            .map(|first| (first.map(|near| near.row), first.map_or(0.0, |near| near.similarity)))
            .unzip());
    }
    // The weights of a term in all centers are adjacent.
    let mut table = vec![0f32; rows.cols() * count];
    for center in 0..count {
        let (terms, weights) = row(&centers.view(), center);
        for (&term, &weight) in terms.iter().zip(weights) {
            table[term as usize * count + center] = weight;
        }
    }
    let cluster_of_row = |sums: &mut Vec<f64>, at: usize| {
        sums.clear();
        sums.resize(count, 0.0);
        let (terms, weights) = row(&rows.view(), at);
        for (&term, &weight) in terms.iter().zip(weights) {
            let weights = &table[term as usize * count..][..count];
            for (sum, &center) in sums.iter_mut().zip(weights) {
                *sum += f64::from(weight) * f64::from(center);
            }
        }
        let mut best = (None, 0.0f32);
        for (center, &sum) in (0..).zip(&*sums) {
            #[expect(clippy::cast_possible_truncation, reason = "a similarity is rounded once")]
            let similarity = (sum as f32).min(f32::MAX);
            if similarity > best.1 {
                best = (Some(center), similarity);
            }
        }
        best
    };
    let numbers = (0..rows.rows()).into_par_iter().with_min_len(64);
    Ok(engines.threads().run(|| numbers.map_init(Vec::new, cluster_of_row).unzip()))
}

/// Draws rows as initial centers, with probabilities proportional to their distance from earlier
/// centers.
fn first_centers(rows: &Csr, count: usize, engines: &Engines, random: &mut Random) -> Csr {
    let nonempty: Vec<usize> =
        (0..rows.rows()).filter(|&at| !row(&rows.view(), at).0.is_empty()).collect();
    let mut chosen = Vec::new();
    // One minus the similarity to the nearest center.
    let mut distances = vec![1.0f32; nonempty.len()];
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a small logarithm"
    )]
    let candidates = 2 + libm::log(count as f64) as usize;
    let mut dense = vec![0f32; rows.cols()];
    for _ in 0..count.min(nonempty.len()) {
        let total: f64 = distances.iter().map(|&distance| f64::from(distance)).sum();
        if total <= 1e-9 && !chosen.is_empty() {
            // All other rows equal a center.
            break;
        }
        let mut best: Option<(f64, usize, Vec<f32>)> = None;
        for _ in 0..if chosen.is_empty() { 1 } else { candidates } {
            let mut remaining = random.unit() * total;
            let drawn = distances.iter().position(|&distance| {
                remaining -= f64::from(distance);
                remaining < 0.0
            });
            let drawn = drawn.unwrap_or(nonempty.len() - 1);
            let (terms, weights) = row(&rows.view(), nonempty[drawn]);
            for (&term, &weight) in terms.iter().zip(weights) {
                dense[term as usize] = weight;
            }
            let after = |(&number, &before): (&usize, &f32)| {
                let (terms, weights) = row(&rows.view(), number);
                let products =
                    terms.iter().zip(weights).map(|(&term, &w)| w * dense[term as usize]);
                before.min((1.0 - products.sum::<f32>()).max(0.0))
            };
            let after: Vec<f32> =
                engines.threads().run(|| nonempty.par_iter().zip(&distances).map(after).collect());
            for &term in terms {
                dense[term as usize] = 0.0;
            }
            let new_total = after.iter().map(|&distance| f64::from(distance)).sum();
            if best.as_ref().is_none_or(|(min, ..)| new_total < *min) {
                best = Some((new_total, drawn, after));
            }
        }
        let Some((_, drawn, after)) = best else { break };
        chosen.push(nonempty[drawn]);
        distances = after;
    }
    let mut centers = CsrBuilder::default();
    for at in chosen {
        let (terms, weights) = row(&rows.view(), at);
        centers.push_slices(terms, weights);
    }
    centers.build(rows.cols())
}

/// Returns the means of the clusters, scaled to length 1. An empty cluster gets the row that is
/// least similar to its center.
fn means(
    rows: &Csr,
    cluster_of_row: &[Option<u32>],
    similarities: &[f32],
    count: usize,
    engines: &Engines,
) -> Csr {
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (at, cluster) in cluster_of_row.iter().enumerate() {
        if let Some(cluster) = cluster {
            members[*cluster as usize].push(at);
        }
    }
    let empty = members.iter().filter(|members| members.is_empty()).count();
    if empty > 0 {
        let mut far: Vec<usize> =
            (0..cluster_of_row.len()).filter(|&at| !row(&rows.view(), at).0.is_empty()).collect();
        far.sort_by(|&a, &b| similarities[a].total_cmp(&similarities[b]).then(a.cmp(&b)));
        let mut far = far.into_iter();
        for members in members.iter_mut().filter(|members| members.is_empty()) {
            members.extend(far.next());
        }
    }
    let mean = |sums: &mut Vec<f64>, members: &Vec<usize>| {
        sums.resize(rows.cols(), 0.0);
        let mut used = Vec::new();
        for &at in members {
            let (terms, weights) = row(&rows.view(), at);
            for (&term, &weight) in terms.iter().zip(weights) {
                let sum = &mut sums[term as usize];
                if *sum == 0.0 {
                    used.push(term);
                }
                *sum += f64::from(weight);
            }
        }
        used.sort_unstable();
        // A sum can return to 0, so a term may have been added twice.
        used.dedup();
        let square = |&term: &u32| sums[term as usize] * sums[term as usize];
        let length = used.iter().map(square).sum::<f64>().sqrt();
        let mut mean = Vec::with_capacity(used.len());
        for term in used {
            let sum = std::mem::take(&mut sums[term as usize]);
            #[expect(clippy::cast_possible_truncation, reason = "rounded to f32")]
            let weight = (sum / length) as f32;
            if weight.is_finite() && weight != 0.0 {
                mean.push((term, weight));
            }
        }
        mean
    };
    let means: Vec<Vec<(u32, f32)>> =
        engines.threads().run(|| members.par_iter().map_init(Vec::new, mean).collect());
    let mut centers = CsrBuilder::default();
    for mean in means {
        centers.push_row(mean);
    }
    centers.build(rows.cols())
}

impl Clusters {
    /// Numbers the clusters in the order of their first documents. Empty clusters come last.
    fn renumber(&mut self) {
        let mut numbers: Vec<Option<u32>> = vec![None; self.centers.rows()];
        let mut order = Vec::new();
        let all =
            self.cluster_of_row.iter().flatten().copied().chain(0..to_u32(self.centers.rows()));
        for cluster in all {
            let number = &mut numbers[cluster as usize];
            if number.is_none() {
                *number = Some(to_u32(order.len()));
                order.push(cluster);
            }
        }
        for cluster in self.cluster_of_row.iter_mut().flatten() {
            *cluster = numbers[*cluster as usize].expect("every cluster has a number");
        }
        let mut centers = CsrBuilder::default();
        for cluster in order {
            let (terms, weights) = row(&self.centers.view(), cluster as usize);
            centers.push_slices(terms, weights);
        }
        self.centers = Arc::new(centers.build(self.centers.cols()));
    }

    /// Returns the number of rows of each cluster.
    pub fn sizes(&self) -> Vec<usize> {
        let mut sizes = vec![0; self.centers.rows()];
        for cluster in self.cluster_of_row.iter().flatten() {
            sizes[*cluster as usize] += 1;
        }
        sizes
    }

    /// Returns the `count` most characteristic terms of each cluster, best first. These are the
    /// terms whose weight in the center most exceeds the mean weight over all centers.
    pub fn best_terms(&self, count: usize) -> Vec<Vec<u32>> {
        let view = self.centers.view();
        let clusters = self.centers.rows();
        let mut means: BTreeMap<u32, f64> = BTreeMap::new();
        for cluster in 0..clusters {
            let (terms, weights) = row(&view, cluster);
            for (&term, &weight) in terms.iter().zip(weights) {
                *means.entry(term).or_default() += f64::from(weight) / clusters as f64;
            }
        }
        let best = |cluster| {
            let (terms, weights) = row(&view, cluster);
            let above = |(&term, &weight): (&u32, &f32)| (term, f64::from(weight) - means[&term]);
            let mut best: Vec<(u32, f64)> = terms.iter().zip(weights).map(above).collect();
            best.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            best.into_iter().take(count).map(|(term, _)| term).collect()
        };
        (0..clusters).map(best).collect()
    }
}

fn to_u32(count: usize) -> u32 {
    u32::try_from(count).expect("row numbers are 32-bit")
}

/// Metrics of the agreement between two groupings of the same items.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Agreement {
    /// Normalized mutual information, divided by the mean of the two entropies: 1 for equal
    /// groupings, 0 for independent groupings.
    pub nmi: f64,
    /// The adjusted Rand index (Hubert and Arabie 1985): 1 for equal groupings; the expected value
    /// for random groupings is 0.
    pub ari: f64,
}

impl Agreement {
    /// Computes the agreement of two groupings: `a` and `b` contain the group of each item.
    ///
    /// ```
    /// use classify::evaluate::cluster::Agreement;
    ///
    /// let same = Agreement::of(&[0, 0, 1, 2], &[5, 5, 3, 9]);
    /// assert!((same.nmi - 1.0).abs() < 1e-12 && (same.ari - 1.0).abs() < 1e-12);
    /// let crossed = Agreement::of(&[0, 0, 1, 1], &[0, 1, 0, 1]);
    /// assert!(crossed.nmi.abs() < 1e-12 && crossed.ari < 0.0);
    /// ```
    ///
    /// # Panics
    /// Panics if the groupings have different lengths.
    pub fn of(a: &[u32], b: &[u32]) -> Self {
        assert_eq!(a.len(), b.len(), "both groupings have the same items");
        let count = |groups: &mut dyn Iterator<Item = (u32, u32)>| {
            let mut counts: BTreeMap<(u32, u32), f64> = BTreeMap::new();
            groups.for_each(|group| *counts.entry(group).or_default() += 1.0);
            counts
        };
        let both = count(&mut a.iter().copied().zip(b.iter().copied()));
        let of_a = count(&mut a.iter().map(|&group| (group, 0)));
        let of_b = count(&mut b.iter().map(|&group| (group, 0)));
        let n = (a.len() as f64).max(1.0);
        let entropy = |counts: &BTreeMap<(u32, u32), f64>| -> f64 {
            counts.values().map(|&count| -count / n * libm::log(count / n)).sum()
        };
        let mutual: f64 = both
            .iter()
            .map(|(&(a_group, b_group), &count)| {
                let expected = of_a[&(a_group, 0)] * of_b[&(b_group, 0)] / n;
                count / n * libm::log(count / expected)
            })
            .sum();
        let mean = f64::midpoint(entropy(&of_a), entropy(&of_b));
        let pairs = |counts: &BTreeMap<(u32, u32), f64>| -> f64 {
            counts.values().map(|&count| count * (count - 1.0) / 2.0).sum()
        };
        let in_both = pairs(&both);
        let in_a = pairs(&of_a);
        let in_b = pairs(&of_b);
        let all = (n * (n - 1.0) / 2.0).max(1.0);
        let expected = in_a * in_b / all;
        let max = f64::midpoint(in_a, in_b);
        // If both groupings consist of one group, or both of single items, they are equal.
        let ari = if max > expected { (in_both - expected) / (max - expected) } else { 1.0 };
        Self { nmi: if mean > 0.0 { (mutual / mean).clamp(0.0, 1.0) } else { 1.0 }, ari }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::Threads;

    fn rows(count: usize) -> Arc<Csr> {
        let mut random = Random::new(5);
        let mut rows = CsrBuilder::default();
        for number in 0..count {
            let mut terms: Vec<u32> = (0..6)
                .map(|_| u32::try_from(number % 4 * 10 + random.below(14)).unwrap_or(0))
                .collect();
            terms.sort_unstable();
            terms.dedup();
            // Some rows are empty.
            terms.truncate(if number % 17 == 3 { 0 } else { 6 });
            let weight = 1.0 / (terms.len() as f32).sqrt();
            rows.push_row(terms.into_iter().map(|term| (term, weight)));
        }
        Arc::new(rows.build(50))
    }

    #[test]
    fn the_table_equals_an_engine() {
        let engines = Engines::cpu(&Threads::available().expect("threads"));
        let rows = rows(300);
        let centers = Arc::new(first_centers(&rows, 7, &engines, &mut Random::new(1)));
        let mut lists = NeighborLists::default();
        let (found, similarities) = nearest(&rows, &centers, &engines, &mut lists).expect("found");
        let engine = engines.engine(&centers).expect("the centers can be indexed");
        let request = Request::new(&*rows, NonZeroUsize::MIN);
        let _ = engine.search(&request, &mut lists).expect("found");
        for (at, list) in lists.iter().enumerate() {
            assert_eq!(found[at], list.first().map(|near| near.row));
            assert_eq!(
                similarities[at].to_bits(),
                list.first().map_or(0.0, |near| near.similarity).to_bits()
            );
        }
    }

    #[test]
    fn clusters_of_few_documents_and_of_copies() {
        let engines = Engines::cpu(&Threads::available().expect("threads"));
        let cluster_into = |rows: &Arc<Csr>, count| {
            let options = ClusterOptions::new(NonZeroUsize::new(count).expect("above 0"));
            cluster(rows, options, &engines).expect("clusters")
        };
        let found = cluster_into(&rows(60), 4);
        assert_eq!(found.centers.rows(), 4);
        assert_eq!(found.cluster_of_row[3], None);
        assert_eq!(
            found.sizes().iter().sum::<usize>(),
            60 - found.cluster_of_row.iter().filter(|c| c.is_none()).count()
        );
        // More clusters than documents, identical rows only, and no rows.
        assert!(cluster_into(&rows(3), 10).centers.rows() <= 3);
        let mut copies = CsrBuilder::default();
        for _ in 0..5 {
            copies.push_row([(0, 1.0)]);
        }
        assert_eq!(cluster_into(&Arc::new(copies.build(1)), 3).cluster_of_row, [Some(0); 5]);
        let none = cluster_into(&Arc::new(CsrBuilder::default().build(3)), 2);
        assert!(none.cluster_of_row.is_empty() && none.centers.rows() == 0);
    }
}
