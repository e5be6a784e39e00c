//! Support vector machines of several labels, side by side.

use multiversion::multiversion;

use crate::matrix::{CsrView, prefetch, row};
use crate::random::Random;
use crate::vote::TrainingLabels;

/// Weights nearer to 0 are left out.
const LEAST: f32 = 0.005;
/// Coordinate descent stops if no gradient is larger than this, or after so many rounds.
const TOLERANCE: f32 = 0.2;
const ROUNDS: usize = 100;
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
    /// A term and its value.
    entries: Vec<(u32, f32)>,
    /// The square of the length of each, with 1 for the constant.
    squares: Vec<f32>,
    /// The number of terms of all rows.
    cols: usize,
}

impl Teachers {
    pub(super) fn new(rows: &CsrView<'_>, numbers: Vec<u32>) -> Self {
        let (mut starts, mut squares, mut entries) = (vec![0], Vec::new(), Vec::new());
        for &number in &numbers {
            let (terms, values) = row(rows, number as usize);
            entries.extend(terms.iter().copied().zip(values.iter().copied()));
            starts.push(entries.len());
            squares.push(1.0 + values.iter().map(|value| value * value).sum::<f32>());
        }
        Self { numbers, starts, entries, squares, cols: rows.cols() }
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
        let (weights, constants) = descend(self, &mut alphas);
        let plane = |lane: usize| {
            let of_lane = (0u32..).zip(weights.iter().map(|lanes| lanes[lane]));
            let weights = of_lane.filter(|(_, weight)| weight.abs() >= LEAST).collect();
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

/// Dual coordinate descent of all machines, from some values of the variables on: the weights of each term, and the constants. A
/// document that is beyond the margins of all labels is left out of the next rounds, until the others fit.
#[multiversion(targets("x86_64+avx2+fma", "aarch64+neon"))]
fn descend(machines: &Machines<'_>, alphas: &mut [Lanes]) -> (Vec<Lanes>, Lanes) {
    let Machines { teachers, labels, sides, diagonal } = machines;
    let mut weights = vec![[0.0f32; LANES]; teachers.cols];
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
    let mut active: Vec<usize> = (0..sides.len()).collect();
    let mut open = active.len();
    let mut random = Random::new(u64::from(labels[0]));
    let mut trained: [bool; LANES] = std::array::from_fn(|lane| lane < labels.len());
    // Slopes above these are beyond the margin.
    let mut limits = [f32::INFINITY; LANES];
    for _ in 0..ROUNDS {
        let whole = open == active.len() && limits.iter().all(|limit| limit.is_infinite());
        let (mut most, mut least) = ([f32::NEG_INFINITY; LANES], [f32::INFINITY; LANES]);
        for at in (1..open).rev() {
            active.swap(at, random.below(at + 1));
        }
        let mut next = 0;
        while next < open {
            let at = active[next];
            if let Some(&later) = active[..open].get(next + AHEAD[0]) {
                let entries = teachers.of(later);
                (0..entries.len()).step_by(8).for_each(|line| prefetch(entries, line));
                prefetch(sides, later);
                prefetch(alphas, later);
            }
            if let Some(&later) = active[..open].get(next + AHEAD[1]) {
                teachers.of(later).iter().for_each(|&(term, _)| prefetch(&weights, term as usize));
            }
            let entries = teachers.of(at);
            let sums = sums(entries, &weights, constants);
            let (square, diagonal) = (teachers.squares[at], diagonal[at]);
            let (sides, alphas) = (&sides[at], &mut alphas[at]);
            let (mut moved, mut moves, mut beyond) = ([0.0f32; LANES], false, true);
            for lane in 0..LANES {
                let (side, alpha) = (sides[lane], alphas[lane]);
                let slope = side * sums[lane] - 1.0 + alpha * diagonal;
                let out = !trained[lane] || (alpha <= 0.0 && slope > limits[lane]);
                let projected = if alpha <= 0.0 { slope.min(0.0) } else { slope };
                most[lane] = if out { most[lane] } else { most[lane].max(projected) };
                least[lane] = if out { least[lane] } else { least[lane].min(projected) };
                let stays = out || projected.abs() <= 1e-12;
                let better = (alpha - slope / (square + diagonal)).max(0.0);
                let better = if stays { alpha } else { better };
                moved[lane] = (better - alpha) * side;
                alphas[lane] = better;
                moves |= moved[lane] != 0.0;
                beyond &= out;
            }
            if beyond {
                open -= 1;
                active.swap(next, open);
                continue;
            }
            if moves {
                for &(term, value) in entries {
                    let weights = &mut weights[term as usize];
                    *weights = plus(*weights, &moved, value);
                }
                constants = plus(constants, &moved, 1.0);
            }
            next += 1;
        }
        let fits = |lane: usize| most[lane] - least[lane] <= TOLERANCE;
        if (0..LANES).all(|lane| !trained[lane] || fits(lane)) {
            if whole {
                break;
            }
            // What was left out may have changed.
            open = active.len();
            limits = [f32::INFINITY; LANES];
        } else {
            for lane in 0..LANES {
                trained[lane] &= !(whole && fits(lane));
                limits[lane] = if most[lane] > 0.0 { most[lane] } else { f32::INFINITY };
            }
        }
    }
    (weights, constants)
}
