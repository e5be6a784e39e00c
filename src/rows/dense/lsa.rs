//! Latent semantic analysis: the directions in which the training rows vary most.
//!
//! The rows X (documents × terms) are approximated by a truncated singular value decomposition X ≈ U Σ Vᵀ
//! (Deerwester et al. 1990). V is the [`Projection`]: a document's vector is its row times V. V is found by
//! subspace iteration from a random start (Halko, Martinsson & Tropp 2011, algorithms 4.4 and 5.3): V ← orth(XᵀX V), and at
//! the end the eigenvectors of (X V)ᵀ(X V).
//!
//! The same rows and seed give the same bits on every machine and with any number of threads: sums are added in a fixed
//! order, and no operation depends on the instructions of the processor.

use multiversion::multiversion;
use nalgebra::DMatrix;
use rayon::prelude::*;

use super::{Projection, Vectors};
use crate::random;
use crate::rows::matrix::{CsrView, row};
use crate::threads::Threads;

/// Directions beyond those asked for, which make the last of these better.
const MORE: usize = 10;
/// How often the subspace is multiplied by `XᵀX`.
const ITERATIONS: usize = 5;
/// Eigenvalues below this share of the largest one are taken as 0.
const LEAST: f64 = 1e-10;
/// Sums are added up in at most this many parts, whatever the number of threads.
const PARTS: usize = 32;

/// The projection of latent semantic analysis onto at most `dimensions` dimensions: fewer if the rows have a lower rank.
/// `None` if there is no row with a weight.
///
/// ```
/// use classify::rows::dense::lsa;
/// use classify::rows::matrix::CsrBuilder;
/// use classify::threads::Threads;
///
/// let mut rows = CsrBuilder::default();
/// rows.push_row([(0, 2.0)]);
/// rows.push_row([(1, 1.0)]);
/// rows.push_row([(0, 1.0)]);
/// let rows = rows.build(2);
/// let projection = lsa(&rows.view(), 1, 0, &Threads::available()?).expect("there are weights");
/// // Most of the variation is along term 0.
/// assert!((projection.terms().row(0)[0] - 1.0).abs() < 1e-6);
/// assert!(projection.terms().row(1)[0].abs() < 1e-6);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn lsa(
    rows: &CsrView<'_>,
    dimensions: usize,
    seed: u64,
    threads: &Threads,
) -> Option<Projection> {
    let terms = rows.cols();
    let width = dimensions.saturating_add(MORE).min(terms).min(rows.rows());
    if width == 0 || dimensions == 0 || rows.nnz() == 0 {
        return None;
    }
    threads.run(|| {
        // The largest weight counts as 1, so that nothing overflows or vanishes.
        let largest = rows.data().iter().fold(0.0f32, |most, weight| most.max(weight.abs()));
        let unit = 1.0 / f64::from(largest);
        let columns = Columns::of(rows);
        #[expect(clippy::cast_possible_truncation, reason = "a random direction")]
        let start = |at: usize| (random::unit(seed, at as u64) * 2.0 - 1.0) as f32;
        let mut basis: Vec<f32> = (0..terms * width).map(start).collect();
        for iteration in 0..ITERATIONS {
            let documents = product(rows.rows(), (width, unit), &basis, |at| row(rows, at));
            basis = product(terms, (width, unit), &documents, |term| columns.get(term));
            orthonormalize(&mut basis, width);
            if iteration + 1 == ITERATIONS {
                // Once more, against the rounding of the first time.
                orthonormalize(&mut basis, width);
            }
        }
        let documents = product(rows.rows(), (width, unit), &basis, |at| row(rows, at));
        let eigen = gram(&documents, width).symmetric_eigen();
        let mut order: Vec<usize> = (0..width).collect();
        order.sort_by(|&a, &b| eigen.eigenvalues[b].total_cmp(&eigen.eigenvalues[a]));
        let least = eigen.eigenvalues[order[0]] * LEAST;
        order.retain(|&at| eigen.eigenvalues[at] > least);
        order.truncate(dimensions);
        if order.is_empty() {
            return None;
        }
        let turned =
            rotate(&basis, width, |at, to| eigen.eigenvectors[(at, order[to])], order.len());
        let terms = Vectors::new(order.len(), signed(turned, order.len())).ok()?;
        Some(Projection { terms, is_mean: false })
    })
}

/// The rows by column.
struct Columns {
    starts: Vec<usize>,
    rows: Vec<u32>,
    values: Vec<f32>,
}

impl Columns {
    fn of(matrix: &CsrView<'_>) -> Self {
        let mut starts = vec![0usize; matrix.cols() + 1];
        for &column in matrix.indices() {
            starts[column as usize + 1] += 1;
        }
        for column in 0..matrix.cols() {
            starts[column + 1] += starts[column];
        }
        let mut next = starts.clone();
        let (mut rows, mut values) = (vec![0; matrix.nnz()], vec![0.0; matrix.nnz()]);
        for (number, at) in (0u32..).zip(0..matrix.rows()) {
            let (columns, weights) = row(matrix, at);
            for (&column, &weight) in columns.iter().zip(weights) {
                let next = &mut next[column as usize];
                (rows[*next], values[*next]) = (number, weight);
                *next += 1;
            }
        }
        Self { starts, rows, values }
    }

    fn get(&self, column: usize) -> (&[u32], &[f32]) {
        let bounds = self.starts[column]..self.starts[column + 1];
        (&self.rows[bounds.clone()], &self.values[bounds])
    }
}

/// A sparse matrix of `rows` rows, times `unit`, times a dense matrix of `width` columns.
fn product<'a>(
    rows: usize,
    (width, unit): (usize, f64),
    dense: &[f32],
    row: impl Fn(usize) -> (&'a [u32], &'a [f32]) + Sync,
) -> Vec<f32> {
    let mut result = vec![0.0; rows * width];
    result.par_chunks_mut(width).enumerate().with_min_len(64).for_each_init(
        || vec![0.0; width],
        |sums, (number, result)| {
            sums.fill(0.0);
            let (indices, values) = row(number);
            for (&index, &value) in indices.iter().zip(values) {
                add_scaled(
                    sums,
                    f64::from(value) * unit,
                    &dense[index as usize * width..][..width],
                );
            }
            narrow(sums, result);
        },
    );
    result
}

#[multiversion(targets("x86_64+avx512f", "x86_64+avx2", "aarch64+neon"))]
fn add_scaled(sums: &mut [f64], factor: f64, vector: &[f32]) {
    for (sum, &value) in sums.iter_mut().zip(vector) {
        *sum += factor * f64::from(value);
    }
}

#[expect(clippy::cast_possible_truncation, reason = "stored as f32")]
fn narrow(sums: &[f64], into: &mut [f32]) {
    for (value, &sum) in into.iter_mut().zip(sums) {
        *value = sum as f32;
    }
}

/// `AᵀA` of a matrix of `width` columns, row after row.
fn gram(matrix: &[f32], width: usize) -> DMatrix<f64> {
    let part = (matrix.len() / width).div_ceil(PARTS).max(1) * width;
    let parts: Vec<Vec<f64>> = matrix
        .par_chunks(part)
        .map(|part| {
            let mut sums = vec![0.0; width * width];
            let mut rows = part.chunks_exact(4 * width);
            for four in &mut rows {
                add_products(&mut sums, four, width);
            }
            for one in rows.remainder().chunks_exact(width) {
                add_products(&mut sums, one, width);
            }
            sums
        })
        .collect();
    let mut all = vec![0.0; width * width];
    for part in parts {
        all.iter_mut().zip(part).for_each(|(sum, value)| *sum += value);
    }
    DMatrix::from_fn(width, width, |i, j| all[i.min(j) * width + i.max(j)])
}

/// Adds the products of all pairs of columns of a few rows, above the diagonal.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2", "aarch64+neon"))]
fn add_products(sums: &mut [f64], rows: &[f32], width: usize) {
    for (i, sums) in sums.chunks_exact_mut(width).enumerate() {
        let sums = &mut sums[i..];
        if let [a, b, c, d] = [0, 1, 2, 3].map(|at| rows.get(at * width..(at + 1) * width))
            && let (Some(a), Some(b), Some(c), Some(d)) = (a, b, c, d)
        {
            let [fa, fb, fc, fd] = [a, b, c, d].map(|row| f64::from(row[i]));
            let (a, b, c, d) = (&a[i..], &b[i..], &c[i..], &d[i..]);
            for ((((sum, &a), &b), &c), &d) in sums.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                *sum +=
                    fa * f64::from(a) + fb * f64::from(b) + fc * f64::from(c) + fd * f64::from(d);
            }
        } else {
            for row in rows.chunks_exact(width) {
                let factor = f64::from(row[i]);
                for (sum, &value) in sums.iter_mut().zip(&row[i..]) {
                    *sum += factor * f64::from(value);
                }
            }
        }
    }
}

/// Makes the columns orthonormal: divides by the Cholesky factor of `AᵀA`. Directions that the matrix does not have become small.
fn orthonormalize(matrix: &mut Vec<f32>, width: usize) {
    let mut square = gram(matrix, width);
    let shift = square.trace() / width as f64 * 1e-13 + f64::MIN_POSITIVE;
    for at in 0..width {
        square[(at, at)] += shift;
    }
    let Some(cholesky) = square.cholesky() else { return };
    // A = Q Lᵀ, so Q = A L⁻ᵀ.
    let Some(inverse) = cholesky.l().try_inverse() else { return };
    *matrix = rotate(matrix, width, |from, to| inverse[(to, from)], width);
}

/// The matrix times another one, given by its entries, of `columns` columns.
fn rotate(
    matrix: &[f32],
    width: usize,
    entry: impl Fn(usize, usize) -> f64,
    columns: usize,
) -> Vec<f32> {
    #[expect(clippy::cast_possible_truncation, reason = "an entry of a rotation")]
    let turn: Vec<f32> =
        (0..width * columns).map(|at| entry(at / columns, at % columns) as f32).collect();
    let all: Vec<u32> = (0u32..).take(width).collect();
    product(matrix.len() / width, (columns, 1.0), &turn, |row| {
        (&all, &matrix[row * width..][..width])
    })
}

/// Turns each column so that its entry of the greatest size is positive.
fn signed(mut matrix: Vec<f32>, width: usize) -> Vec<f32> {
    for column in 0..width {
        let entries = matrix.iter().skip(column).step_by(width);
        let greatest = entries.fold(0.0f32, |most, &x| if x.abs() > most.abs() { x } else { most });
        if greatest < 0.0 {
            matrix.iter_mut().skip(column).step_by(width).for_each(|x| *x = -*x);
        }
    }
    matrix
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::matrix::CsrBuilder;
    use std::num::NonZeroUsize;

    /// Rows of a known decomposition: two orthogonal topics of sizes 3 and 2, and a little of a third.
    fn rows() -> crate::rows::matrix::Csr {
        let mut rows = CsrBuilder::default();
        for number in 0..60 {
            match number % 3 {
                0 => rows.push_row([(0, 3.0), (1, 3.0)]),
                1 => rows.push_row([(2, 2.0), (3, -2.0)]),
                _ => rows.push_row([(4, 0.5)]),
            }
        }
        rows.push_row([]);
        rows.build(6)
    }

    fn threads(count: usize) -> Threads {
        Threads::new(NonZeroUsize::new(count).unwrap()).unwrap()
    }

    #[test]
    fn directions_by_falling_variation() {
        let rows = rows();
        let found = lsa(&rows.view(), 2, 7, &threads(2)).unwrap();
        let half = 0.5f32.sqrt();
        let expected = [[half, 0.0], [half, 0.0], [0.0, half], [0.0, -half], [0.0; 2], [0.0; 2]];
        for (term, expected) in expected.iter().enumerate() {
            for (found, expected) in found.terms().row(term).iter().zip(expected) {
                assert!((found - expected).abs() < 1e-5, "term {term}: {found} for {expected}");
            }
        }
        let vectors = found.project_all(&rows.view(), &threads(2));
        assert!((vectors[0] - 3.0 * 2f32.sqrt()).abs() < 1e-4);
        assert_eq!(vectors[vectors.len() - 2..], [0.0, 0.0], "of the empty row");
    }

    #[test]
    fn rank_limits_the_dimensions() {
        let rows = rows();
        assert_eq!(lsa(&rows.view(), 300, 0, &threads(1)).unwrap().dimension(), 3);
        let none = CsrBuilder::default().build(5);
        assert!(lsa(&none.view(), 3, 0, &threads(1)).is_none());
        let mut empty = CsrBuilder::default();
        empty.push_row([]);
        assert!(lsa(&empty.build(5).view(), 3, 0, &threads(1)).is_none());
    }

    /// Weights as large and as small as they can be.
    #[test]
    fn scale_changes_nothing_but_the_vectors() {
        for weight in [f32::MAX, 1e20, 1e-20, 1e-45] {
            let mut rows = CsrBuilder::default();
            for number in 0..9 {
                rows.push_row([(number % 3, weight)]);
            }
            let rows = rows.build(3);
            let found = lsa(&rows.view(), 2, 0, &threads(1)).unwrap();
            assert!(found.terms().values().iter().all(|value| value.abs() <= 1.01), "{weight}");
            let vectors = found.project_all(&rows.view(), &threads(1));
            assert!(vectors.iter().all(|value| value.abs() <= super::super::GREATEST));
        }
    }

    #[test]
    fn threads_change_no_bit() {
        let rows = rows();
        let one = lsa(&rows.view(), 3, 1, &threads(1)).unwrap();
        let four = lsa(&rows.view(), 3, 1, &threads(4)).unwrap();
        let bits = |found: &Projection| {
            found.terms().values().iter().map(|x| x.to_bits()).collect::<Vec<_>>()
        };
        assert_eq!(bits(&one), bits(&four));
    }
}
