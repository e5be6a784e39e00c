//! The neighbors that vote on a document.

use crate::search::Neighbor;

/// The neighbors that vote on a document: found by its terms, by its dense vector, or both.
///
/// ```
/// use classify::search::Neighbor;
/// use classify::decide::vote::Voters;
///
/// let (near, far) = (Neighbor { row: 7, similarity: 0.5 }, Neighbor { row: 8, similarity: 0.1 });
/// let (terms, vectors) = ([near, far], [far]);
/// let voters = Voters::both(&terms, &vectors, 0.25);
/// assert_eq!(voters.first(1).lists(), [(&[near][..], 0.75), (&[far], 0.25)]);
/// assert_eq!(Voters::both(&terms, &[], 0.25).lists()[0].1, 1.0);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Voters<'a> {
    terms: &'a [Neighbor],
    vectors: &'a [Neighbor],
    dense_share: f64,
}

impl<'a> From<&'a [Neighbor]> for Voters<'a> {
    fn from(neighbors: &'a [Neighbor]) -> Self {
        Self::one(neighbors)
    }
}

impl<'a, const N: usize> From<&'a [Neighbor; N]> for Voters<'a> {
    fn from(neighbors: &'a [Neighbor; N]) -> Self {
        Self::one(neighbors)
    }
}

impl<'a> Voters<'a> {
    /// Creates voters from one list, best first.
    pub fn one(neighbors: &'a [Neighbor]) -> Self {
        Self { terms: neighbors, vectors: &[], dense_share: 0.0 }
    }

    /// Creates voters from two lists, best first. `dense_share` is the second list's share of the
    /// votes, from 0 to 1. A list whose share is 0 does not vote.
    pub fn both(terms: &'a [Neighbor], vectors: &'a [Neighbor], dense_share: f64) -> Self {
        let terms = if dense_share < 1.0 { terms } else { &[] };
        let vectors = if dense_share > 0.0 { vectors } else { &[] };
        Self { terms, vectors, dense_share }
    }

    /// Returns the first `k` neighbors of each list.
    #[must_use]
    pub fn first(self, k: usize) -> Self {
        let first = |list: &'a [Neighbor]| &list[..list.len().min(k)];
        Self { terms: first(self.terms), vectors: first(self.vectors), ..self }
    }

    /// Returns the neighbors found by terms and the neighbors found by vectors, with their shares
    /// of the votes. An empty list has share 0.
    pub fn lists(self) -> [(&'a [Neighbor], f64); 2] {
        let shares = match (self.terms.is_empty(), self.vectors.is_empty()) {
            (false, false) => [1.0 - self.dense_share, self.dense_share],
            (false, true) => [1.0, 0.0],
            (true, _) => [0.0, 1.0],
        };
        [(self.terms, shares[0]), (self.vectors, shares[1])]
    }

    /// Whether there are no voters.
    pub fn is_empty(self) -> bool {
        self.terms.is_empty() && self.vectors.is_empty()
    }

    /// Returns the length of the longer list.
    pub(crate) fn len(self) -> usize {
        self.terms.len().max(self.vectors.len())
    }

    /// Returns the total number of neighbors in both lists.
    pub(crate) fn count(self) -> usize {
        self.terms.len() + self.vectors.len()
    }

    /// Returns the similarity of the best neighbor. For two lists, this is the mean of their best
    /// similarities, weighted by their shares.
    pub(crate) fn best_similarity(self) -> f32 {
        self.best_similarity_where(&|_| true)
    }

    /// Like [`best_similarity`](Self::best_similarity), but considers only neighbors whose rows are
    /// eligible. Returns 0 if there are none.
    #[expect(clippy::cast_possible_truncation, reason = "between two f32")]
    pub(crate) fn best_similarity_where(self, is_eligible: &dyn Fn(u32) -> bool) -> f32 {
        let best = |(list, share): (&[Neighbor], f64)| {
            let first = list.iter().find(|neighbor| is_eligible(neighbor.row));
            share * first.map_or(0.0, |neighbor| f64::from(neighbor.similarity))
        };
        let [terms, vectors] = self.lists().map(best);
        (terms + vectors) as f32
    }

    /// Iterates over the list number, rank and neighbor of each entry, ordered by rank, then by
    /// list.
    pub(crate) fn ranked(self) -> impl Iterator<Item = (usize, usize, &'a Neighbor)> {
        self.ranked_from(0, usize::MAX)
    }

    /// Calls `visit` with the list number, rank and neighbor of each entry, in the order of
    /// [`ranked`](Self::ranked).
    #[inline]
    pub(crate) fn for_each_ranked(self, mut visit: impl FnMut(usize, usize, &'a Neighbor)) {
        for rank in 0..self.len() {
            for (list, neighbors) in [self.terms, self.vectors].into_iter().enumerate() {
                if let Some(neighbor) = neighbors.get(rank) {
                    visit(list, rank, neighbor);
                }
            }
        }
    }

    /// Like [`ranked`](Self::ranked), for ranks in `from..to`.
    pub(crate) fn ranked_from(
        self,
        from: usize,
        to: usize,
    ) -> impl Iterator<Item = (usize, usize, &'a Neighbor)> {
        (from..self.len().min(to)).flat_map(move |rank| {
            [self.terms, self.vectors]
                .into_iter()
                .enumerate()
                .filter_map(move |(list, neighbors)| Some((list, rank, neighbors.get(rank)?)))
        })
    }
}
