//! Identical documents and near-duplicates.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::found_document::FoundDocument;
use crate::learn::HeldOutCorpus;
use crate::text::corpus::Document;

/// Identical documents and near-duplicates.
#[derive(Debug, Clone, Serialize)]
pub struct Duplicates {
    /// The cosine from which documents are near-duplicates: the cosine that separates them from
    /// other documents, if there is one, and at least 0.9. `None` if similarities are not cosines;
    /// then only identical documents are found.
    pub above: Option<f32>,
    /// The number of documents that could be removed: all but one of each cluster.
    pub superfluous: u64,
    /// Clusters with conflicting labels first, then by decreasing size.
    pub clusters: Vec<DuplicateCluster>,
}

/// Documents that are connected by being duplicates of each other.
#[derive(Debug, Clone, Serialize)]
pub struct DuplicateCluster {
    /// The documents, in the order of the corpus.
    pub documents: Vec<FoundDocument>,
    /// Whether all of them have the same content.
    pub identical: bool,
    /// Whether their labels differ.
    pub conflicting: bool,
}

/// Documents with a lower cosine are never near-duplicates.
const MIN_COSINE: f32 = 0.9;

impl Duplicates {
    pub(super) fn of(corpus: &HeldOutCorpus) -> Self {
        let mut connected = Connected::new(corpus.documents.len());
        let contents: Vec<u64> = corpus.documents.iter().map(Document::content_hash).collect();
        let mut first_with: HashMap<u64, usize> = HashMap::new();
        for (row, &content) in contents.iter().enumerate() {
            let first = *first_with.entry(content).or_insert(row);
            connected.connect(first, row);
        }
        let above = corpus.rows.near_duplicates_above.unwrap_or(MIN_COSINE).max(MIN_COSINE);
        let above = corpus.rows.is_cosine.then_some(above);
        for (row, nearest) in corpus.rows.nearest.iter().enumerate() {
            for near in nearest.iter().filter(|near| above.is_some_and(|at| near.similarity >= at))
            {
                connected.connect(row, near.row as usize);
            }
        }
        let mut clusters: Vec<Vec<usize>> = connected.components();
        clusters.retain(|rows| rows.len() > 1);
        let superfluous = clusters.iter().map(|rows| rows.len() as u64 - 1).sum();
        let labels = |row: usize| corpus.counts.labels(row);
        let conflicts = |rows: &[usize]| rows.iter().any(|&row| labels(row) != labels(rows[0]));
        clusters.sort_by_key(|rows| (!conflicts(rows), std::cmp::Reverse(rows.len()), rows[0]));
        let cluster = |rows: &Vec<usize>| DuplicateCluster {
            documents: rows.iter().map(|&row| FoundDocument::new(&corpus.documents[row])).collect(),
            identical: rows.iter().all(|&row| contents[row] == contents[rows[0]]),
            conflicting: conflicts(rows),
        };
        let clusters = clusters.iter().map(cluster).collect();
        Self { above, superfluous, clusters }
    }
}

/// The connected components of a graph (union–find, with path halving).
struct Connected(Vec<usize>);

impl Connected {
    fn new(count: usize) -> Self {
        Self((0..count).collect())
    }

    /// Returns the smallest element of a component.
    fn root(&mut self, mut of: usize) -> usize {
        while self.0[of] != of {
            self.0[of] = self.0[self.0[of]];
            of = self.0[of];
        }
        of
    }

    fn connect(&mut self, a: usize, b: usize) {
        let a = self.root(a);
        let b = self.root(b);
        self.0[a.max(b)] = a.min(b);
    }

    /// Returns the elements of each component, in increasing order.
    fn components(mut self) -> Vec<Vec<usize>> {
        let mut components: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for of in 0..self.0.len() {
            components.entry(self.root(of)).or_default().push(of);
        }
        components.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_are_connected_in_any_order() {
        let mut connected = Connected::new(6);
        for (a, b) in [(4, 2), (0, 5), (2, 1)] {
            connected.connect(a, b);
        }
        assert_eq!(connected.components(), [vec![0, 5], vec![1, 2, 4], vec![3]]);
    }
}
