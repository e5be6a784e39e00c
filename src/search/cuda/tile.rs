//! The inverted index of a tile, in the format of `fused`: fixed-point postings, arranged by bank
//! of shared memory.

use std::ops::Range;

use rayon::prelude::*;

use crate::rows::matrix::{CsrView, row};

/// Fixed-point value that represents the largest weight of a posting list.
const MAX_FIXED_WEIGHT: f64 = 8191.0;
/// Number of lanes per warp, and of banks of shared memory.
const LANES: usize = 32;
/// Number of postings that a lane loads at once.
const POSTINGS_PER_LANE: usize = 4;
/// Maximum number of rows of a tile. Postings could address 65,536 rows, but the kernels count the
/// tasks of 1,024 terms in 16 bits.
pub(super) const MAX_TILE_ROWS: usize = 32_000;

/// The posting lists of the rows of a tile.
///
/// A posting is `weight << 17 | (row / 2) << 2 | row % 2`. The weight is in units of 1/8191 of the
/// list's maximum, rounded up. A vector contains four postings, either of even or of odd rows. A
/// list alternates between even and odd vectors, and ends with the remaining vectors of the more
/// frequent kind.
#[derive(Debug, PartialEq)]
pub(super) struct TileIndex {
    /// For each term, the start and length of its list in vectors, and the bits of its maximum
    /// weight.
    pub(super) lists: Vec<[u32; 4]>,
    pub(super) postings: Vec<u32>,
    /// An upper bound on the Euclidean length of a row.
    pub(super) longest: f32,
    pub(super) tasks: TaskCounts,
}

/// Mean and maximum number of tasks per posting list.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TaskCounts {
    /// The mean, in which each list is weighted by its number of entries.
    pub(super) mean: f64,
    /// The maximum.
    pub(super) max: usize,
}

/// Returns the number of tasks of a list of `vectors` vectors (`large_task_count` and
/// `small_task_count` of kernels/fused.cuh).
fn task_count(vectors: u32) -> u32 {
    (vectors / 32).div_ceil(4) + (vectors % 32).div_ceil(8)
}

impl TileIndex {
    /// Builds the posting lists of `rows`, in the current thread pool. There must be at most
    /// `MAX_TILE_ROWS` rows, and their weights must be nonnegative.
    pub(super) fn new(training: &CsrView<'_>, rows: Range<usize>) -> Self {
        let terms = training.cols();
        let mut starts = vec![0u32; terms + 1];
        let mut odd = vec![0u32; terms];
        let mut list_max = vec![0f32; terms];
        let mut longest = 0f64;
        for (local, index) in (0u32..).zip(rows.clone()) {
            let (columns, weights) = row(training, index);
            let mut squares = 0f64;
            for (&term, &weight) in columns.iter().zip(weights) {
                let term = term as usize;
                starts[term + 1] += 1;
                odd[term] += local % 2;
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
        let mut lists = Vec::with_capacity(terms);
        let mut end = 0;
        let mut weighted = 0f64;
        let mut max = 0;
        for ((list, greatest), &odd) in starts.windows(2).zip(&list_max).zip(&odd) {
            let length = list[1] - list[0];
            let vectors = (length - odd).div_ceil(4) + odd.div_ceil(4);
            lists.push([end, vectors, greatest.to_bits(), 0]);
            end += vectors;
            weighted += f64::from(task_count(vectors)) * f64::from(length);
            max = max.max(task_count(vectors) as usize);
        }
        let mut postings = vec![0u32; end as usize * POSTINGS_PER_LANE];
        distribute_all(&entries, &starts, &lists, &mut postings);
        #[expect(clippy::cast_possible_truncation, reason = "rounded up right after")]
        let longest = (longest * (1.0 + 1e-6)) as f32;
        let tasks = TaskCounts { mean: weighted / (entries.len() as f64).max(1.0), max };
        Self { lists, postings, longest: longest.next_up(), tasks }
    }
}

/// Distributes the entries of all terms over the vectors of `postings`. Term `t` has the entries
/// `entries[starts[t]..starts[t + 1]]`.
fn distribute_all(entries: &[u32], starts: &[u32], lists: &[[u32; 4]], mut postings: &mut [u32]) {
    /// Number of terms per task.
    const TERMS_PER_TASK: usize = 256;
    let mut chunks = Vec::new();
    for (starts, lists) in (0..lists.len())
        .step_by(TERMS_PER_TASK)
        .map(|first| &starts[first..])
        .zip(lists.chunks(TERMS_PER_TASK))
    {
        let vectors: u32 = lists.iter().map(|list| list[1]).sum();
        let (slots, rest) = postings.split_at_mut(vectors as usize * POSTINGS_PER_LANE);
        chunks.push((starts, lists, slots));
        postings = rest;
    }
    chunks.into_par_iter().for_each_init(
        BankBalancer::default,
        |balancer, (starts, lists, mut slots)| {
            for (bounds, list) in starts.windows(2).zip(lists) {
                let (list_slots, rest) = slots.split_at_mut(list[1] as usize * POSTINGS_PER_LANE);
                balancer.distribute(&entries[bounds[0] as usize..bounds[1] as usize], list_slots);
                slots = rest;
            }
        },
    );
}

fn posting(row: u32, weight: f32, greatest: f32) -> u32 {
    let share = f64::from(weight) / f64::from(greatest);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 8191")]
    let steps = if weight > 0.0 {
        (share * MAX_FIXED_WEIGHT).ceil().clamp(1.0, MAX_FIXED_WEIGHT) as u32
    } else {
        0
    };
    (steps << 17) | ((row / 2) << 2) | (row % 2)
}

/// Returns the bank of the accumulator of a posting's row.
fn bank(posting: u32) -> usize {
    (posting >> 2) as usize % LANES
}

/// Arranges lists so that the lanes of an instruction rarely access the same bank.
///
/// A warp loads 32 vectors. One instruction adds the first posting of each vector, the next adds
/// the second, and so on. The memory serves each bank once per cycle, so an instruction takes as
/// many cycles as its fullest bank has postings. A list therefore takes at least as many cycles as
/// its fullest bank has postings. The balancer approaches this minimum. It assigns an equal share
/// of these cycles to each instruction, and fills the instruction from the banks with the most
/// postings left. Vectors of even and of odd rows alternate, so that both halves of a bank are
/// distributed together.
#[derive(Debug, Default)]
struct BankBalancer {
    /// Postings of each bank that have no slot yet, for even and for odd rows.
    banks: [[Vec<u32>; 2]; LANES],
    /// The kind of rows in each vector of the list: 0 for even, 1 for odd.
    halves: Vec<usize>,
}

impl BankBalancer {
    /// Distributes the postings of `list` over `slots`.
    fn distribute(&mut self, list: &[u32], slots: &mut [u32]) {
        let mut counts = [0usize; 2];
        for &posting in list {
            let half = posting as usize % 2;
            self.banks[bank(posting)][half].push(posting);
            counts[half] += 1;
        }
        let mut vectors = counts.map(|count| count.div_ceil(POSTINGS_PER_LANE));
        self.halves.clear();
        for index in 0..slots.len() / POSTINGS_PER_LANE {
            let half = if vectors[index % 2] > 0 { index % 2 } else { 1 - index % 2 };
            vectors[half] -= 1;
            self.halves.push(half);
        }
        slots.fill(FREE_SLOT);
        let warps = self.halves.len().div_ceil(LANES);
        let mut remaining = warps * POSTINGS_PER_LANE;
        let mut order: [usize; LANES] = std::array::from_fn(|bank| bank);
        for warp in 0..warps {
            let lanes = warp * LANES..((warp + 1) * LANES).min(self.halves.len());
            for instruction in 0..POSTINGS_PER_LANE {
                let size = |bank: usize| self.banks[bank][0].len() + self.banks[bank][1].len();
                order.sort_by_key(|&bank| std::cmp::Reverse(size(bank)));
                let cycles = size(order[0]).div_ceil(remaining).max(1);
                let mut next = [lanes.start, lanes.start];
                for &bank in &order {
                    for _ in 0..cycles {
                        let [even, odd] = &self.banks[bank];
                        // Take from the half with more postings left, if it has a free lane.
                        let first = usize::from(odd.len() > even.len());
                        let Some((half, lane)) = [first, 1 - first].into_iter().find_map(|half| {
                            let lane = (next[half]..lanes.end).find(|&l| self.halves[l] == half)?;
                            (!self.banks[bank][half].is_empty()).then_some((half, lane))
                        }) else {
                            break;
                        };
                        next[half] = lane + 1;
                        let posting = self.banks[bank][half].pop().expect("not empty");
                        slots[lane * POSTINGS_PER_LANE + instruction] = posting;
                    }
                }
                remaining -= 1;
            }
        }
        // If the last warp is small, some postings may remain. They take any free slot of their
        // half. A slot that stays free adds 0 to the row of the previous slot of its lane. A fixed
        // row for all free slots would overload one bank.
        let mut rest = [0, 1].map(|half| {
            let remaining: Vec<u32> =
                self.banks.iter_mut().flat_map(|bank| bank[half].drain(..)).collect();
            remaining.into_iter()
        });
        let (vectors, _) = slots.as_chunks_mut::<POSTINGS_PER_LANE>();
        for (vector, &half) in vectors.iter_mut().zip(&self.halves) {
            let mut previous = u32::from(half == 1);
            for slot in vector {
                if *slot == FREE_SLOT {
                    *slot = rest[half].next().unwrap_or(previous & 0x1_ffff);
                }
                previous = *slot;
            }
        }
    }
}

/// Marks a free slot. As a posting, its row would be the last of 65,536.
const FREE_SLOT: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::matrix::CsrBuilder;

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
    fn postings_match_the_rows() {
        let weight = |row: usize, term: u32| match (row + term as usize) % (term as usize + 2) {
            0 => (row % 7 + 1) as f32 / 8.0,
            _ => 0.0,
        };
        let (tile, nonzeros) = index(1_000, 9, weight);
        let mut seen = 0;
        for term in 0..9u32 {
            let [start, vectors, greatest, _] = tile.lists[term as usize];
            let greatest = f64::from(f32::from_bits(greatest));
            for &posting in &tile.postings[4 * start as usize..4 * (start + vectors) as usize] {
                if posting >> 17 == 0 {
                    continue;
                }
                seen += 1;
                let row = (posting >> 2 & 0x7fff) as usize * 2 + (posting & 1) as usize;
                let real = f64::from(weight(row, term));
                let step = greatest / MAX_FIXED_WEIGHT;
                let stored = f64::from(posting >> 17) * step;
                assert!(real > 0.0 && stored >= real * (1.0 - 1e-12) && stored < real + step);
            }
        }
        assert_eq!(seen, nonzeros);
    }

    #[test]
    fn lanes_of_an_instruction_use_different_banks() {
        // The list contains every row once, so each bank and half has the same number of postings
        // and no conflict is necessary.
        let (tile, _) = index(4_096, 1, |_, _| 1.0);
        for vectors in tile.postings.chunks(LANES * POSTINGS_PER_LANE) {
            for instruction in 0..POSTINGS_PER_LANE {
                let mut banks: Vec<usize> = vectors
                    .iter()
                    .skip(instruction)
                    .step_by(POSTINGS_PER_LANE)
                    .map(|&p| bank(p))
                    .collect();
                banks.sort_unstable();
                banks.dedup();
                assert_eq!(banks.len(), LANES);
            }
        }
    }

    /// Checks the bound proved in kernels/fused.cuh with its constants. Sums in units of `scale`
    /// are never below the similarity, are at most `error` above it, and fit in 16 bits.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "small, not negative"
    )]
    #[test]
    fn sums_exceed_similarities_by_less_than_the_error() {
        let mut generator = crate::random::Random::new(7);
        let mut random = move || generator.unit();
        // With a single term, a step of a weight is eight units, so product rounding does not mask
        // weight rounding.
        for (sharpness, max_terms) in [(0.2, 40), (1.0, 40), (6.0, 40), (30.0, 40), (1.0, 1)] {
            let rows = 300usize;
            let terms = 40u32;
            let mut draw = |share: f64| -> Vec<(u32, f32)> {
                let entry = |term| {
                    (random() < share).then(|| (term, libm::pow(random(), sharpness) as f32))
                };
                (0..terms).filter_map(entry).collect()
            };
            let training: Vec<Vec<(u32, f32)>> = (0..rows).map(|_| draw(0.4)).collect();
            let mut query = draw(0.7);
            query.truncate(max_terms);
            let mut builder = CsrBuilder::default();
            for row in &training {
                builder.push_row(row.iter().copied());
            }
            let tile = TileIndex::new(&builder.build(terms as usize).view(), 0..rows);
            let greatest = |term: u32| f64::from(f32::from_bits(tile.lists[term as usize][2]));
            let products: f64 = query.iter().map(|&(t, w)| f64::from(w) * greatest(t)).sum();
            let squares: f64 = query.iter().map(|&(_, w)| f64::from(w) * f64::from(w)).sum();
            let max_sum = (squares.sqrt() * f64::from(tile.longest)).min(products);
            let count = query.len() as f64;
            let scale = (65_530.0 - 1.25 * count) / ((max_sum + products / 8_190.0) * 1.000_002);
            let error = scale * products / 8_190.0 + 1.1875 * count;
            let mut sums = vec![0u32; rows];
            for &(term, weight) in &query {
                let mult = (f64::from(weight) * greatest(term) * scale * 65_536.0
                    / MAX_FIXED_WEIGHT)
                    .ceil() as u32;
                let [start, vectors, ..] = tile.lists[term as usize];
                for &posting in &tile.postings[4 * start as usize..4 * (start + vectors) as usize] {
                    let row = (posting >> 2 & 0x7fff) as usize * 2 + (posting & 1) as usize;
                    sums[row] += ((posting >> 17) * mult + 0xffff) >> 16;
                }
            }
            for (row, &sum) in training.iter().zip(&sums) {
                let weight = |term| query.iter().find(|entry| entry.0 == term).map_or(0.0, |e| e.1);
                let similarity: f64 =
                    row.iter().map(|&(term, w)| f64::from(w) * f64::from(weight(term))).sum();
                let sum = f64::from(sum);
                let exact = similarity * scale;
                assert!(
                    sum >= exact && sum <= exact + error && sum < 65_536.0,
                    "{sum} {exact} {error}"
                );
            }
        }
    }

    #[test]
    fn longest_is_an_upper_bound_on_row_lengths() {
        let (tile, _) = index(3, 2, |row, _| if row == 1 { 3.0 } else { 0.5 });
        assert!(tile.longest >= 18f32.sqrt() && tile.longest < 18f32.sqrt() + 1e-4);
    }
}
