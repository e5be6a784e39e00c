//! Support vector machines of several labels, side by side.

use std::cmp::Reverse;

use multiversion::multiversion;

use crate::decide::vote::TrainingLabels;
use crate::random::Random;
use crate::rows::matrix::{CsrView, prefetch, row};

/// Weights nearer to 0 are left out.
const LEAST: f32 = 0.005;
/// Coordinate descent stops if no gradients of a label differ by more than this, or after so many rounds.
const TOLERANCE: f32 = 0.1;
/// The same for machines that begin with what others taught: these are near the best already.
const TOLERANCE_FROM_BEFORE: f32 = 0.5;
const ROUNDS: usize = 100;
/// A document at which nothing changes is left out of at most so many rounds in a row.
const REST: usize = 6;
/// While a document is read, the entries of a later one are on their way into the cache, and the weights of a nearer one.
const AHEAD: [usize; 2] = [6, 3];

/// The plane between the documents with a label and the others.
pub(super) struct Plane {
    /// By increasing term.
    pub(super) weights: Vec<(u32, f32)>,
    pub(super) constant: f32,
}

/// How much documents taught prototypes: the dual variable of each label and document, 0 for those that did not.
#[derive(Debug)]
pub(crate) struct Taught {
    rows: usize,
    /// By label, then by document.
    alphas: Vec<f32>,
}

impl Taught {
    pub(super) fn new(rows: usize, labels: usize) -> Self {
        Self { rows, alphas: vec![0.0; rows * labels] }
    }

    pub(super) fn set(&mut self, labels: &[u32], teachers: &[u32], alphas: &[Lanes]) {
        for (&row, lanes) in teachers.iter().zip(alphas) {
            for (&label, &alpha) in labels.iter().zip(lanes) {
                self.alphas[label as usize * self.rows + row as usize] = alpha;
            }
        }
    }

    /// The variables of some labels for a document.
    fn of(&self, labels: &[u32], row: u32) -> Lanes {
        let mut lanes = [0.0; LANES];
        for (lane, &label) in lanes.iter_mut().zip(labels) {
            let at = label as usize * self.rows + row as usize;
            *lane = self.alphas.get(at).copied().unwrap_or_default();
        }
        lanes
    }
}

/// The documents that teach, one after the other.
pub(super) struct Teachers {
    /// Their numbers among all rows.
    pub(super) numbers: Vec<u32>,
    /// The entries of teacher `i` are `starts[i]..starts[i + 1]`.
    starts: Vec<usize>,
    /// The place of a term in `terms`, and its value.
    entries: Vec<(u32, f32)>,
    /// The square of the length of each, with 1 for the constant.
    squares: Vec<f32>,
    /// The terms of the teachers, frequent ones first: their weights lie together, and so stay in the cache.
    terms: Vec<u32>,
}

impl Teachers {
    pub(super) fn new(rows: &CsrView<'_>, numbers: Vec<u32>) -> Self {
        let (mut starts, mut squares, mut entries) = (vec![0], Vec::new(), Vec::new());
        let mut counts = vec![0u32; rows.cols()];
        for &number in &numbers {
            let (terms, values) = row(rows, number as usize);
            for &term in terms {
                counts[term as usize] += 1;
            }
            entries.extend(terms.iter().copied().zip(values.iter().copied()));
            starts.push(entries.len());
            squares.push(1.0 + values.iter().map(|value| value * value).sum::<f32>());
        }
        let known = (0u32..).zip(&counts).filter(|&(_, &count)| count > 0);
        let mut terms: Vec<u32> = known.map(|(term, _)| term).collect();
        terms.sort_by_key(|&term| Reverse(counts[term as usize]));
        let mut places = counts;
        for (place, &term) in (0u32..).zip(&terms) {
            places[term as usize] = place;
        }
        for (term, _) in &mut entries {
            *term = places[*term as usize];
        }
        Self { numbers, starts, entries, squares, terms }
    }

    fn of(&self, at: usize) -> &[(u32, f32)] {
        &self.entries[self.starts[at]..self.starts[at + 1]]
    }
}

/// The labels whose machines are trained side by side: a document is read once for all of them, and the weights of a
/// term lie together.
pub(super) const LANES: usize = 8;

/// A number for each of these labels.
pub(super) type Lanes = [f32; LANES];

/// The support vector machines of some labels.
pub(super) struct Machines<'t> {
    teachers: &'t Teachers,
    /// At most [`LANES`].
    labels: &'t [u32],
    /// Of each teacher: 1 with the label, −1 without.
    sides: Vec<Lanes>,
    /// 1 / (2 C) of each teacher, by its weight.
    diagonal: Vec<f32>,
}

impl<'t> Machines<'t> {
    pub(super) fn new(
        teachers: &'t Teachers,
        among: &TrainingLabels<'_>,
        labels: &'t [u32],
        cost: f32,
    ) -> Self {
        let sides = |&row: &u32| {
            let mut sides = [-1.0; LANES];
            for (side, label) in sides.iter_mut().zip(labels) {
                if among.labels(row).binary_search(label).is_ok() {
                    *side = 1.0;
                }
            }
            sides
        };
        let diagonal = |&row: &u32| 0.5 / (cost * among.weights[row as usize]);
        Self {
            teachers,
            labels,
            sides: teachers.numbers.iter().map(sides).collect(),
            diagonal: teachers.numbers.iter().map(diagonal).collect(),
        }
    }

    /// The plane of each label, and the dual variables of each teacher. A plane has the weights of terms that are not nearly 0,
    /// and the constant.
    pub(super) fn planes(&self, before: Option<&Taught>) -> (Vec<Plane>, Vec<Lanes>) {
        let alphas = |&row: &u32| before.map_or([0.0; LANES], |taught| taught.of(self.labels, row));
        let mut alphas: Vec<Lanes> = self.teachers.numbers.iter().map(alphas).collect();
        let tolerance = if before.is_some() { TOLERANCE_FROM_BEFORE } else { TOLERANCE };
        let (weights, constants) = descend(self, &mut alphas, tolerance);
        let plane = |lane: usize| {
            let terms = self.teachers.terms.iter().copied();
            let of_lane = terms.zip(weights.iter().map(|lanes| lanes[lane]));
            let kept = of_lane.filter(|(_, weight)| weight.abs() >= LEAST);
            let mut weights: Vec<(u32, f32)> = kept.collect();
            weights.sort_unstable_by_key(|&(term, _)| term);
            Plane { weights, constant: constants[lane] }
        };
        ((0..self.labels.len()).map(plane).collect(), alphas)
    }
}

/// `lanes` and `others` times `factor`.
#[expect(clippy::inline_always, reason = "to be compiled for the instructions of its caller")]
#[inline(always)]
fn plus(mut lanes: Lanes, others: &Lanes, factor: f32) -> Lanes {
    for (lane, other) in lanes.iter_mut().zip(others) {
        *lane += other * factor;
    }
    lanes
}

/// The products of a row and the weights of each machine, and the constants. Two sums in turn: one would wait for each
/// addition.
#[expect(clippy::inline_always, reason = "to be compiled for the instructions of its caller")]
#[inline(always)]
fn sums(entries: &[(u32, f32)], weights: &[Lanes], constants: Lanes) -> Lanes {
    let (pairs, last) = entries.as_chunks::<2>();
    let (mut even, mut odd) = (constants, [0.0; LANES]);
    for &[(first, first_value), (second, second_value)] in pairs {
        even = plus(even, &weights[first as usize], first_value);
        odd = plus(odd, &weights[second as usize], second_value);
    }
    for &(term, value) in last {
        even = plus(even, &weights[term as usize], value);
    }
    plus(even, &odd, 1.0)
}

/// Dual coordinate descent of all machines, from some values of the variables on, until gradients differ by no more than
/// `tolerance`: the weights of each term, and the constants. A document at which nothing changes rests: it is left out until the
/// others fit, or of the next [`REST`] rounds.
#[multiversion(targets("x86_64+avx2+fma", "aarch64+neon"))]
fn descend(machines: &Machines<'_>, alphas: &mut [Lanes], tolerance: f32) -> (Vec<Lanes>, Lanes) {
    let Machines { teachers, labels, sides, diagonal } = machines;
    let mut weights = vec![[0.0f32; LANES]; teachers.terms.len()];
    let mut constants = [0.0f32; LANES];
    for (at, (alphas, sides)) in alphas.iter().zip(sides).enumerate() {
        if alphas.iter().any(|&alpha| alpha > 0.0) {
            let moved = std::array::from_fn(|lane| alphas[lane] * sides[lane]);
            for &(term, value) in teachers.of(at) {
                let weights = &mut weights[term as usize];
                *weights = plus(*weights, &moved, value);
            }
            constants = plus(constants, &moved, 1.0);
        }
    }
    // The first `open` do not rest.
    let mut order: Vec<usize> = (0..sides.len()).collect();
    let mut open = order.len();
    let mut random = Random::new(u64::from(labels[0]));
    let mut trained: [bool; LANES] = std::array::from_fn(|lane| lane < labels.len());
    let mut without_all = 0;
    for _ in 0..ROUNDS {
        let whole = open == order.len();
        let (mut most, mut least) = ([f32::NEG_INFINITY; LANES], [f32::INFINITY; LANES]);
        for at in (1..open).rev() {
            order.swap(at, random.below(at + 1));
        }
        let mut next = 0;
        while next < open {
            let at = order[next];
            if let Some(&later) = order[..open].get(next + AHEAD[0]) {
                let entries = teachers.of(later);
                (0..entries.len()).step_by(8).for_each(|line| prefetch(entries, line));
                prefetch(sides, later);
                prefetch(alphas, later);
            }
            if let Some(&later) = order[..open].get(next + AHEAD[1]) {
                teachers.of(later).iter().for_each(|&(term, _)| prefetch(&weights, term as usize));
            }
            let entries = teachers.of(at);
            let sums = sums(entries, &weights, constants);
            let (square, diagonal) = (teachers.squares[at], diagonal[at]);
            let (sides, alphas) = (&sides[at], &mut alphas[at]);
            let (mut moved, mut moves) = ([0.0f32; LANES], false);
            for lane in 0..LANES {
                let (side, alpha) = (sides[lane], alphas[lane]);
                let slope = side * sums[lane] - 1.0 + alpha * diagonal;
                let projected = if alpha <= 0.0 { slope.min(0.0) } else { slope };
                most[lane] = most[lane].max(projected);
                least[lane] = least[lane].min(projected);
                let stays = !trained[lane] || projected.abs() <= 1e-12;
                let better = (alpha - slope / (square + diagonal)).max(0.0);
                let better = if stays { alpha } else { better };
                moved[lane] = (better - alpha) * side;
                alphas[lane] = better;
                moves |= moved[lane] != 0.0;
            }
            if moves {
                for &(term, value) in entries {
                    let weights = &mut weights[term as usize];
                    *weights = plus(*weights, &moved, value);
                }
                constants = plus(constants, &moved, 1.0);
                next += 1;
            } else {
                open -= 1;
                order.swap(next, open);
            }
        }
        let fits = |lane: usize| !trained[lane] || most[lane] - least[lane] <= tolerance;
        let all_fit = (0..LANES).all(fits);
        if whole {
            if all_fit {
                break;
            }
            trained = std::array::from_fn(|lane| !fits(lane));
        }
        without_all = if whole { 0 } else { without_all + 1 };
        if all_fit || without_all >= REST {
            open = order.len();
        }
    }
    (weights, constants)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::matrix::CsrBuilder;

    /// Where the descent ends, each document fits: those that rested, too.
    #[test]
    fn documents_that_rested_fit() {
        const ROWS: u32 = 600;
        let mut random = Random::new(8);
        let mut number = |limit: usize| u32::try_from(random.below(limit)).unwrap();
        let (mut rows, mut of) = (CsrBuilder::default(), Vec::new());
        for _ in 0..ROWS {
            let label = number(10);
            let own = (0..3).map(|_| label * 4 + number(6));
            let mut terms: Vec<u32> = own.collect();
            terms.extend((0..5).map(|_| number(46)));
            terms.sort_unstable();
            terms.dedup();
            let weight = 1.0 / (terms.len() as f32).sqrt();
            rows.push_row(terms.into_iter().map(|term| (term, weight)));
            of.push(label);
        }
        let rows = rows.build(46);
        let indptr: Vec<u64> = (0..=u64::from(ROWS)).collect();
        let among = TrainingLabels {
            indptr: &indptr,
            indices: &of,
            weights: &vec![1.0; of.len()],
            sizes: &[60; 10],
        };
        let teachers = Teachers::new(&rows.view(), (0..ROWS).collect());
        for labels in [[0, 1, 2, 3, 4, 5, 6, 7].as_slice(), &[8, 9]] {
            let machines = Machines::new(&teachers, &among, labels, 4.0);
            let (planes, alphas) = machines.planes(None);
            for (lane, (plane, label)) in planes.iter().zip(labels).enumerate() {
                let mut weights = [0.0; 46];
                plane.weights.iter().for_each(|&(term, weight)| weights[term as usize] = weight);
                for (document, own) in of.iter().enumerate() {
                    let view = rows.view();
                    let (terms, values) = row(&view, document);
                    let products = terms.iter().zip(values).map(|(&t, v)| weights[t as usize] * v);
                    let margin = products.sum::<f32>() + plane.constant;
                    let (side, alpha) =
                        (if own == label { 1.0 } else { -1.0 }, alphas[document][lane]);
                    let slope = side * margin - 1.0 + alpha * machines.diagonal[document];
                    let open = if alpha > 0.0 { slope.abs() } else { -slope };
                    assert!(open < 2.0 * TOLERANCE, "label {label}, document {document}: {open}");
                }
            }
        }
    }
}
