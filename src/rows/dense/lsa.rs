//! Latent semantic analysis: the directions in which the training rows vary most.
//!
//! The rows X (documents × terms) are approximated by a truncated singular value decomposition X ≈
//! U Σ Vᵀ (Deerwester et al. 1990). V is the [`Projection`]: a document's vector is its row times
//! V. V is computed by subspace iteration from a random start (Halko, Martinsson & Tropp 2011,
//! algorithms 4.4 and 5.3): V ← orth(XᵀXV), followed by a rotation onto the eigenvectors of
//! (XV)ᵀ(XV).
//!
//! The same rows and seed give the same bits on every machine and for any number of threads. Sums
//! are added in a fixed order, and no operation depends on the instructions of the processor.

use multiversion::multiversion;
use rayon::prelude::*;

use super::projection::Projection;
use super::rows::Vectors;
use crate::random;
use crate::rows::matrix::{CsrView, row};
use crate::rows::symmetric::{cholesky, eigen, invert_lower};
use crate::threads::Threads;

/// The number of additional directions, which improve the accuracy of the requested directions.
const OVERSAMPLING: usize = 10;
/// The number of times that the subspace is multiplied by `XᵀX`.
const ITERATIONS: usize = 5;
/// Eigenvalues below this fraction of the largest eigenvalue count as 0.
const MIN_EIGENVALUE_SHARE: f64 = 1e-10;
/// The minimum fraction of a column's squared length that is orthogonal to earlier columns. Below
/// this value, the column counts as dependent, because the fraction is mostly rounding error.
const MIN_INDEPENDENT_SHARE: f64 = 1e-12;
/// The maximum number of partial sums, which does not depend on the number of threads.
const MAX_PARTIAL_SUMS: usize = 32;

/// Computes the projection of latent semantic analysis to `dimensions` dimensions, or fewer if the
/// rows have a lower rank. Returns `None` if `dimensions` is 0 or no weight is nonzero.
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
    let width = dimensions.saturating_add(OVERSAMPLING).min(terms).min(rows.rows());
    if width == 0 || dimensions == 0 || rows.nnz() == 0 {
        return None;
    }
    threads.run(|| {
        // Scale the largest weight to 1, to avoid overflow and underflow.
        let largest = rows.data().iter().fold(0.0f32, |max, weight| max.max(weight.abs()));
        let unit = 1.0 / f64::from(largest);
        let columns = Columns::new(rows);
        #[expect(clippy::cast_possible_truncation, reason = "a random direction")]
        let start = |seed: u64, index: usize| (random::unit(seed, index as u64) * 2.0 - 1.0) as f32;
        let mut basis: Vec<f32> = (0..terms * width).map(|index| start(seed, index)).collect();
        let multiply = |basis: &[f32]| {
            let basis = Dense { values: basis, width };
            basis.sparse_product(rows.rows(), unit, |index| row(rows, index))
        };
        for iteration in 1..=ITERATIONS {
            let documents = multiply(&basis);
            let documents = Dense { values: &documents, width };
            basis = documents.sparse_product(terms, unit, |term| columns.get(term));
            let dependent = orthonormalize(&mut basis, width);
            if iteration == ITERATIONS {
                // A second pass removes the rounding errors of the first.
                orthonormalize(&mut basis, width);
                break;
            }
            // A new random start may find a direction that is still missing.
            for column in dependent {
                let seed = seed.wrapping_add(iteration as u64);
                for index in (column..terms * width).step_by(width) {
                    basis[index] = start(seed, index);
                }
            }
        }
        let eigen = eigen(gram(&multiply(&basis), width), width);
        let mut order: Vec<usize> = (0..width).collect();
        order.sort_by(|&a, &b| eigen.values[b].total_cmp(&eigen.values[a]));
        let min_eigenvalue = eigen.values[order[0]] * MIN_EIGENVALUE_SHARE;
        order.retain(|&index| eigen.values[index] > min_eigenvalue);
        order.truncate(dimensions);
        if order.is_empty() {
            return None;
        }
        let entry = |index: usize, to: usize| eigen.vectors[order[to] * width + index];
        let rotated = rotate(&basis, width, entry, order.len());
        let terms = Vectors::new(order.len(), with_fixed_signs(rotated, order.len())).ok()?;
        Some(Projection { terms, is_mean: false })
    })
}

/// A sparse matrix, stored by column.
struct Columns {
    starts: Vec<usize>,
    rows: Vec<u32>,
    values: Vec<f32>,
}

impl Columns {
    fn new(matrix: &CsrView<'_>) -> Self {
        let mut starts = vec![0usize; matrix.cols() + 1];
        for &column in matrix.indices() {
            starts[column as usize + 1] += 1;
        }
        for column in 0..matrix.cols() {
            starts[column + 1] += starts[column];
        }
        let mut next = starts.clone();
        let mut rows = vec![0; matrix.nnz()];
        let mut values = vec![0.0; matrix.nnz()];
        for (number, index) in (0u32..).zip(0..matrix.rows()) {
            let (columns, weights) = row(matrix, index);
            for (&column, &weight) in columns.iter().zip(weights) {
                let next = &mut next[column as usize];
                rows[*next] = number;
                values[*next] = weight;
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

/// A dense row-major matrix.
struct Dense<'a> {
    values: &'a [f32],
    width: usize,
}

impl Dense<'_> {
    /// Multiplies a sparse matrix of `rows` rows by `unit` and by this matrix.
    fn sparse_product<'a>(
        &self,
        rows: usize,
        unit: f64,
        row: impl Fn(usize) -> (&'a [u32], &'a [f32]) + Sync,
    ) -> Vec<f32> {
        let &Self { values: dense, width } = self;
        let mut result = vec![0.0; rows * width];
        result.par_chunks_mut(width).enumerate().with_min_len(64).for_each_init(
            || vec![0.0; width],
            |sums, (number, result)| {
                sums.fill(0.0);
                let (indices, values) = row(number);
                for (&index, &value) in indices.iter().zip(values) {
                    let vector = &dense[index as usize * width..][..width];
                    add_scaled(sums, f64::from(value) * unit, vector);
                }
                narrow(sums, result);
            },
        );
        result
    }
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

/// Computes `AᵀA` of a row-major matrix with `width` columns.
fn gram(matrix: &[f32], width: usize) -> Vec<f64> {
    let part = (matrix.len() / width).div_ceil(MAX_PARTIAL_SUMS).max(1) * width;
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
    for i in 0..width {
        for j in 0..i {
            all[i * width + j] = all[j * width + i];
        }
    }
    all
}

/// Adds the dot product of each pair of columns, over the given rows, to the entries of `sums` on
/// and above the diagonal.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2", "aarch64+neon"))]
fn add_products(sums: &mut [f64], rows: &[f32], width: usize) {
    for (i, sums) in sums.chunks_exact_mut(width).enumerate() {
        let sums = &mut sums[i..];
        if let [a, b, c, d] = [0, 1, 2, 3].map(|index| rows.get(index * width..(index + 1) * width))
            && let (Some(a), Some(b), Some(c), Some(d)) = (a, b, c, d)
        {
            let [fa, fb, fc, fd] = [a, b, c, d].map(|row| f64::from(row[i]));
            let a = &a[i..];
            let b = &b[i..];
            let c = &c[i..];
            let d = &d[i..];
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

/// Makes the columns orthonormal by dividing them by the Cholesky factor of `AᵀA`. Sets columns
/// that depend on earlier columns to 0, and returns their indices.
fn orthonormalize(matrix: &mut Vec<f32>, width: usize) -> Vec<usize> {
    let mut square = gram(matrix, width);
    let squares: Vec<f64> = square.iter().step_by(width + 1).copied().collect();
    let mut dependent = Vec::new();
    cholesky(&mut square, width, |index, pivot| {
        if pivot > MIN_INDEPENDENT_SHARE * squares[index] {
            return pivot;
        }
        dependent.push(index);
        f64::INFINITY
    });
    // A = Q Lᵀ, so Q = A L⁻ᵀ.
    let inverse = invert_lower(&square, width);
    *matrix = rotate(matrix, width, |from, to| inverse[to * width + from], width);
    dependent
}

/// Multiplies a matrix by a second matrix with `columns` columns, given by its entries.
fn rotate(
    matrix: &[f32],
    width: usize,
    entry: impl Fn(usize, usize) -> f64,
    columns: usize,
) -> Vec<f32> {
    #[expect(clippy::cast_possible_truncation, reason = "an entry of a rotation")]
    let rotation: Vec<f32> =
        (0..width * columns).map(|index| entry(index / columns, index % columns) as f32).collect();
    let all: Vec<u32> = (0u32..).take(width).collect();
    let rotation = Dense { values: &rotation, width: columns };
    rotation
        .sparse_product(matrix.len() / width, 1.0, |row| (&all, &matrix[row * width..][..width]))
}

/// Flips the signs of columns to make the entry with the largest absolute value positive.
fn with_fixed_signs(mut matrix: Vec<f32>, width: usize) -> Vec<f32> {
    for column in 0..width {
        let entries = matrix.iter().skip(column).step_by(width);
        let greatest = entries.fold(0.0f32, |max, &x| if x.abs() > max.abs() { x } else { max });
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

    /// Returns rows with a known decomposition: three orthogonal topics, the third of which is
    /// small.
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
    fn directions_are_sorted_by_variation() {
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

    /// Tests weights near the limits of `f32`.
    #[test]
    fn scaling_weights_scales_the_vectors_only() {
        for weight in [f32::MAX, 1e20, 1e-20, 1e-45] {
            let mut rows = CsrBuilder::default();
            for number in 0..9 {
                rows.push_row([(number % 3, weight)]);
            }
            let rows = rows.build(3);
            let found = lsa(&rows.view(), 2, 0, &threads(1)).unwrap();
            assert!(found.terms().values().iter().all(|value| value.abs() <= 1.01), "{weight}");
            let vectors = found.project_all(&rows.view(), &threads(1));
            assert!(vectors.iter().all(|value| value.abs() <= crate::rows::dense::MAX_ABS_VALUE));
        }
    }

    /// Tests two equal columns among many empty columns. Without the tolerance, the rounding of
    /// their products would determine whether they seem independent.
    #[test]
    fn dependent_columns_become_zero() {
        let width = 200;
        for seed in 0..40 {
            let mut random = random::Random::new(seed);
            let mut matrix = vec![0.0; 3 * width];
            for values in matrix.chunks_exact_mut(width) {
                let value = (1 + random.below(1 << 20)) as f32 / 1e6;
                values[..2].fill(value);
            }
            let dependent = orthonormalize(&mut matrix, width);
            assert!(dependent.into_iter().eq(1..width), "{seed}");
            let products = gram(&matrix, width);
            for (index, product) in products.into_iter().enumerate() {
                let expected = f64::from(u8::from(index == 0));
                assert!((product - expected).abs() < 1e-6, "{seed}: {index}: {product}");
            }
        }
    }

    /// Tests rows with fewer directions than requested, of very different sizes.
    #[test]
    fn rank_deficient_rows_have_fewer_directions() {
        for count in [2usize, 5] {
            let mut rows = CsrBuilder::default();
            for number in 0..400u32 {
                let topic = number % u32::try_from(count).unwrap();
                let weight = 1.0 / (1 << (3 * topic)) as f32;
                rows.push_row((0..40).map(|term| (40 * topic + term, weight)));
            }
            let rows = rows.build(40 * count);
            let found = lsa(&rows.view(), 60, 3, &threads(2)).unwrap();
            assert_eq!(found.dimension(), count);
            let products = gram(found.terms().values(), count);
            for (index, product) in products.into_iter().enumerate() {
                let expected = f64::from(u8::from(index % (count + 1) == 0));
                assert!((product - expected).abs() < 1e-5, "{count}: {index}: {product}");
            }
        }
    }

    #[test]
    fn results_do_not_depend_on_threads() {
        let rows = rows();
        let one = lsa(&rows.view(), 3, 1, &threads(1)).unwrap();
        let four = lsa(&rows.view(), 3, 1, &threads(4)).unwrap();
        let bits = |found: &Projection| {
            found.terms().values().iter().map(|x| x.to_bits()).collect::<Vec<_>>()
        };
        assert_eq!(bits(&one), bits(&four));
    }
}
