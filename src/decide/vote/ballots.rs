//! The votes for each label while the neighbors of a document vote.

use std::cell::RefCell;

use super::{TrainingLabels, Voters};
use crate::search::Neighbor;

thread_local! {
    /// Kept for the next document.
    static BALLOTS: RefCell<Ballots> = const { RefCell::new(Ballots::new()) };
}

/// The votes for all labels, of which most have none.
///
/// Most neighbors have few labels, but not equally many: processors mispredict where a loop over them ends.
/// So votes are first [listed](Self::list), which takes no such loop, then counted one after another.
#[derive(Debug)]
pub(crate) struct Ballots {
    /// The labels voted for and the weights of the votes, in the order of the neighbors. Longer than `listed`.
    labels: Vec<u32>,
    weights: Vec<f64>,
    /// How many are listed.
    listed: usize,
    of_label: Vec<Ballot>,
    /// Begins with the labels that have votes, in the order of the first ones. One longer than the votes, so that a label can
    /// be written before it is known whether it counts.
    met: Vec<u32>,
    /// How many labels have votes.
    count: usize,
    /// Scores and places in `met`, to be sorted.
    ranking: Vec<u128>,
    /// Whether votes are being counted, or a panic ended that.
    busy: bool,
}

/// The votes for a label.
#[derive(Debug, Clone, Copy, Default)]
struct Ballot {
    /// The sums of the votes of each list of neighbors, added in the order of the neighbors.
    sums: [f64; 2],
    /// How many neighbors voted.
    voters: u32,
}

/// The number of labels copied at once. The last of them may belong to the next document.
const AT_ONCE: usize = 8;

impl Ballots {
    const fn new() -> Self {
        Self {
            labels: Vec::new(),
            weights: Vec::new(),
            listed: 0,
            of_label: Vec::new(),
            met: Vec::new(),
            count: 0,
            ranking: Vec::new(),
            busy: false,
        }
    }

    /// Counts the votes of all neighbors for their labels; `weight` gets the list, the rank and the neighbor
    /// and returns the weight of its votes.
    pub(crate) fn count(
        &mut self,
        voters: Voters<'_>,
        among: &TrainingLabels<'_>,
        mut weight: impl FnMut(usize, usize, &Neighbor) -> f64,
    ) {
        let labels = among.sizes.len();
        if self.of_label.len() < labels {
            self.of_label.resize(labels, Ballot::default());
            self.met.resize(labels + 1, 0);
        }
        match voters.lists() {
            [(list, _), (&[], _)] => {
                for (rank, neighbor) in list.iter().enumerate() {
                    self.list(among, neighbor.row, weight(0, rank, neighbor));
                }
                self.count_listed(0);
            }
            // By rank, as the order of the first votes wants it.
            _ => voters.each(|list, rank, neighbor| {
                self.list(among, neighbor.row, weight(list, rank, neighbor));
                self.count_listed(list);
            }),
        }
    }

    /// Lists the votes of a neighbor.
    #[inline]
    fn list(&mut self, among: &TrainingLabels<'_>, row: u32, weight: f64) {
        let own = among.own(row);
        let at = self.listed;
        self.listed += own.len();
        if self.listed + AT_ONCE > self.labels.len() {
            self.grow();
        }
        if let (Some(first), true) =
            (among.indices[own.start..].first_chunk::<AT_ONCE>(), own.len() <= AT_ONCE)
        {
            // The next neighbor overwrites what follows this one's labels.
            self.labels[at..at + AT_ONCE].copy_from_slice(first);
            self.weights[at..at + AT_ONCE].fill(weight);
        } else {
            self.labels[at..self.listed].copy_from_slice(&among.indices[own]);
            self.weights[at..self.listed].fill(weight);
        }
    }

    #[cold]
    fn grow(&mut self) {
        let length = (self.listed + AT_ONCE).next_power_of_two();
        self.labels.resize(length, 0);
        self.weights.resize(length, 0.0);
    }

    /// Counts what is listed.
    fn count_listed(&mut self, list: usize) {
        let (of_label, met) = (&mut self.of_label[..], &mut self.met[..]);
        let mut count = self.count;
        for (&label, weight) in self.labels[..self.listed].iter().zip(&self.weights) {
            let ballot = &mut of_label[label as usize];
            met[count] = label;
            count += usize::from(ballot.voters == 0);
            ballot.voters += 1;
            ballot.sums[list] += weight;
        }
        self.count = count;
        self.listed = 0;
    }

    /// How many neighbors voted for a label.
    pub(crate) fn voters(&self, label: u32) -> u32 {
        self.of_label.get(label as usize).map_or(0, |ballot| ballot.voters)
    }

    /// The labels that have votes, by decreasing score, then in the order of the first votes. `score` gets a label and its
    /// votes by list.
    pub(crate) fn ranked(
        &mut self,
        score: impl Fn(u32, [f64; 2]) -> f64,
    ) -> impl ExactSizeIterator<Item = Ranked> {
        let Self { of_label, met, count, ranking, .. } = self;
        let met = &met[..*count];
        ranking.extend((0u128..).zip(met).map(|(place, &label)| {
            let score = score(label, of_label[label as usize].sums);
            u128::from(falling(score)) << 64 | place
        }));
        // No two are equal.
        ranking.sort_unstable();
        ranking.iter().map(|&key| {
            let (score, place) = ((key >> 64) as u64, key as usize);
            let label = met[place];
            Ranked { label, score: of_falling(score), voters: of_label[label as usize].voters }
        })
    }

    fn clear(&mut self) {
        for &label in &self.met[..self.count] {
            self.of_label[label as usize] = Ballot::default();
        }
        self.count = 0;
        self.ranking.clear();
        self.busy = false;
    }
}

/// A label with its score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ranked {
    pub(crate) label: u32,
    pub(crate) score: f64,
    /// How many neighbors have the label.
    pub(crate) voters: u32,
}

/// Falls as the number rises in the order of [`f64::total_cmp`].
fn falling(number: f64) -> u64 {
    let bits = number.to_bits();
    if bits >> 63 == 0 { !bits ^ (1 << 63) } else { bits }
}

/// The number.
fn of_falling(falling: u64) -> f64 {
    let bits = if falling >> 63 == 0 { !falling ^ (1 << 63) } else { falling };
    f64::from_bits(bits)
}

/// Calls `work` with ballots without votes. Must not be called by `work`.
pub(crate) fn with_ballots<R>(work: impl FnOnce(&mut Ballots) -> R) -> R {
    BALLOTS.with_borrow_mut(|ballots| {
        if ballots.busy {
            *ballots = Ballots::new();
        }
        ballots.busy = true;
        let result = work(ballots);
        ballots.clear();
        result
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_use_begins_anew() {
        // Lists of labels that end just where all do, and before.
        let among = TrainingLabels {
            indptr: &[0, 2, 2, 7, 9],
            indices: &[2, 7, 0, 1, 3, 4, 7, 0, 7],
            weights: &[1.0; 4],
            sizes: &[1; 8],
        };
        let lists = [[3, 0], [1, 2]].map(|rows| rows.map(|row| Neighbor { row, similarity: 0.5 }));
        let voters = Voters::both(&lists[0], &lists[1], 0.5);
        let weight = |list: usize, rank: usize, _: &Neighbor| [1.0, 4.0][list] * (rank + 1) as f64;
        for _ in 0..2 {
            // A panic leaves no votes behind.
            let panics = || {
                with_ballots(|ballots| {
                    ballots.count(voters, &among, weight);
                    panic!("on purpose")
                })
            };
            assert!(std::panic::catch_unwind(panics).is_err());
            with_ballots(|ballots| {
                ballots.count(voters, &among, weight);
                assert_eq!([7, 2, 5, 99].map(|label| ballots.voters(label)), [3, 1, 0, 0]);
                let found = ballots.ranked(|label, [a, b]| if label == 2 { 9.0 } else { a + b });
                let found: Vec<_> =
                    found.map(|Ranked { label, score, voters }| (label, score, voters)).collect();
                // Of equal ones that with the first vote.
                let expected =
                    [(7, 11.0, 3), (0, 9.0, 2), (2, 9.0, 1), (1, 8.0, 1), (3, 8.0, 1), (4, 8.0, 1)];
                assert_eq!(found, expected);
            });
        }
    }

    #[test]
    fn keys_order_as_numbers_do() {
        let numbers =
            [f64::INFINITY, 1.5, 1.0, f64::MIN_POSITIVE, 5e-324, 0.0, -0.0, -5e-324, -1.0, -1e300];
        let keys = numbers.map(falling);
        assert!(keys.is_sorted(), "{keys:?}");
        assert_eq!(keys.map(|key| of_falling(key).to_bits()), numbers.map(f64::to_bits));
        assert!(falling(f64::NAN) < falling(f64::INFINITY));
    }
}
