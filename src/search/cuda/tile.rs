//! The inverted index of a tile of rows as `fused` reads it: fixed-point postings, dealt to the
//! banks of the shared memory.

use std::ops::Range;

use crate::matrix::{CsrView, row};

/// The greatest weight of a posting, which stands for the greatest weight of its list.
const STEPS: f64 = 8191.0;
/// Lanes of a warp, and banks of the shared memory.
const LANES: usize = 32;
/// Postings that a lane loads at once.
const PER_LANE: usize = 4;
/// The most rows that a posting can name.
pub(super) const MOST_ROWS: usize = 65_536;

/// Posting lists of the rows of a tile.
///
/// A posting is `weight << 17 | (row / 2) << 2 | row % 2`, the weight rounded up to steps of
/// 1/8191 of the list's greatest. Lists begin at multiples of four postings.
#[derive(Debug, PartialEq)]
pub(super) struct TileIndex {
    /// Where the list of each term begins, in units of four postings; one more at the end.
    pub(super) list_ptr: Vec<u32>,
    /// The greatest weight of each list; 0 for an empty one.
    pub(super) list_max: Vec<f32>,
    pub(super) postings: Vec<u32>,
    /// At least the greatest Euclidean length of a row.
    pub(super) longest: f64,
}

impl TileIndex {
    /// The lists of `rows`, at most 65,536, whose weights are not negative.
    pub(super) fn new(training: &CsrView<'_>, rows: Range<usize>) -> Self {
        let terms = training.cols();
        let mut starts = vec![0u32; terms + 1];
        let mut list_max = vec![0f32; terms];
        let mut longest = 0f64;
        for index in rows.clone() {
            let (columns, weights) = row(training, index);
            let mut squares = 0f64;
            for (&term, &weight) in columns.iter().zip(weights) {
                let term = term as usize;
                starts[term + 1] += 1;
                list_max[term] = list_max[term].max(weight);
                squares += f64::from(weight) * f64::from(weight);
            }
            longest = longest.max(squares.sqrt());
        }
        for term in 0..terms {
            starts[term + 1] += starts[term];
        }
        let mut next = starts.clone();
        let mut entries = vec![0u32; starts[terms] as usize];
        for (local, index) in (0u32..).zip(rows) {
            let (columns, weights) = row(training, index);
            for (&term, &weight) in columns.iter().zip(weights) {
                let term = term as usize;
                entries[next[term] as usize] = posting(local, weight, list_max[term]);
                next[term] += 1;
            }
        }
        let mut list_ptr = Vec::with_capacity(terms + 1);
        let mut end = 0;
        for list in starts.windows(2) {
            list_ptr.push(end);
            end += (list[1] - list[0]).div_ceil(4);
        }
        list_ptr.push(end);
        let mut postings = vec![0u32; end as usize * PER_LANE];
        let mut dealer = Dealer::default();
        for (term, list) in starts.windows(2).enumerate() {
            let (from, to) = (list_ptr[term] as usize, list_ptr[term + 1] as usize);
            let list = &entries[list[0] as usize..list[1] as usize];
            dealer.deal(list, &mut postings[from * PER_LANE..to * PER_LANE]);
        }
        Self { list_ptr, list_max, postings, longest: longest * (1.0 + 1e-9) }
    }
}

fn posting(row: u32, weight: f32, greatest: f32) -> u32 {
    let share = f64::from(weight) / f64::from(greatest);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 8191")]
    let steps = if weight > 0.0 { (share * STEPS).ceil().clamp(1.0, STEPS) as u32 } else { 0 };
    steps << 17 | (row / 2) << 2 | row % 2
}

/// The bank of the accumulator of a posting's row.
fn bank(posting: u32) -> usize {
    (posting >> 2) as usize % LANES
}

/// Arranges lists so that the lanes of one instruction meet different banks.
#[derive(Debug, Default)]
struct Dealer {
    by_bank: Vec<u32>,
    filled: Vec<usize>,
}

impl Dealer {
    /// Deals `list` into `places`. A warp loads 32 lanes of four postings and adds first the first
    /// posting of every lane, then the second: each is an instruction. Postings are sorted by bank and
    /// dealt to the instructions in turn, so that those of one bank go to different ones.
    fn deal(&mut self, list: &[u32], places: &mut [u32]) {
        let mut starts = [0usize; LANES + 1];
        for &posting in list {
            starts[bank(posting) + 1] += 1;
        }
        for at in 0..LANES {
            starts[at + 1] += starts[at];
        }
        self.by_bank.clear();
        self.by_bank.resize(list.len(), 0);
        for &posting in list {
            let at = &mut starts[bank(posting)];
            self.by_bank[*at] = posting;
            *at += 1;
        }
        let lanes = places.len() / PER_LANE;
        let instructions = lanes.div_ceil(LANES) * PER_LANE;
        self.filled.clear();
        self.filled.resize(instructions, 0);
        let mut turn = 0;
        for &posting in &self.by_bank {
            loop {
                let first = turn / PER_LANE * LANES;
                let room = (lanes - first).min(LANES);
                let lane = self.filled[turn];
                let part = turn % PER_LANE;
                if lane < room {
                    self.filled[turn] += 1;
                    places[(first + lane) * PER_LANE + part] = posting;
                }
                turn = (turn + 1) % instructions;
                if lane < room {
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::CsrBuilder;

    fn index(rows: usize, terms: u32, weight: impl Fn(usize, u32) -> f32) -> (TileIndex, usize) {
        let mut builder = CsrBuilder::default();
        for row in 0..rows {
            let weights = (0..terms).map(|term| (term, weight(row, term)));
            builder.push_row(weights.filter(|entry| entry.1 != 0.0));
        }
        let matrix = builder.build(terms as usize);
        (TileIndex::new(&matrix.view(), 0..rows), matrix.nnz())
    }

    #[test]
    fn postings_are_those_of_the_rows() {
        let weight = |row: usize, term: u32| match (row + term as usize) % (term as usize + 2) {
            0 => (row % 7 + 1) as f32 / 8.0,
            _ => 0.0,
        };
        let (tile, nonzeros) = index(1_000, 9, weight);
        let mut seen = 0;
        for term in 0..9u32 {
            let list = tile.list_ptr[term as usize] as usize..tile.list_ptr[term as usize + 1] as usize;
            let greatest = f64::from(tile.list_max[term as usize]);
            for &posting in &tile.postings[4 * list.start..4 * list.end] {
                if posting == 0 {
                    continue;
                }
                seen += 1;
                let row = (posting >> 2 & 0x7fff) as usize * 2 + (posting & 1) as usize;
                let real = f64::from(weight(row, term));
                let step = greatest / STEPS;
                let stored = f64::from(posting >> 17) * step;
                assert!(real > 0.0 && stored >= real * (1.0 - 1e-12) && stored < real + step);
            }
        }
        assert_eq!(seen, nonzeros);
    }

    #[test]
    fn lanes_of_an_instruction_meet_different_banks() {
        // Every row: as many rows in each bank, so no two need meet.
        let (tile, _) = index(4_096, 1, |_, _| 1.0);
        for vectors in tile.postings.chunks(LANES * PER_LANE) {
            for part in 0..PER_LANE {
                let mut banks: Vec<usize> =
                    vectors.iter().skip(part).step_by(PER_LANE).map(|&p| bank(p)).collect();
                banks.sort_unstable();
                banks.dedup();
                assert_eq!(banks.len(), LANES);
            }
        }
    }

    #[test]
    fn a_row_is_at_most_as_long_as_the_longest() {
        let (tile, _) = index(3, 2, |row, _| if row == 1 { 3.0 } else { 0.5 });
        assert!(tile.longest >= 18f64.sqrt() && tile.longest < 18f64.sqrt() + 1e-6);
    }
}
