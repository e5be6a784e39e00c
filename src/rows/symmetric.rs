//! Symmetric matrices: Cholesky factors and eigenvectors.
//!
//! Matrices are row-major. Sums are added in a fixed order, and every operation is rounded
//! according to IEEE 754, so the results have the same bits on every machine.

/// Replaces the lower half of a positive semidefinite matrix by its Cholesky factor L, where the
/// matrix is L Lᵀ. The upper half is not read.
///
/// `pivot` takes each column's index and pivot (the square of the factor's diagonal entry) and
/// returns the pivot to use. It can correct pivots that rounding made 0 or negative. An infinite
/// pivot excludes the column.
pub(crate) fn cholesky(matrix: &mut [f64], order: usize, mut pivot: impl FnMut(usize, f64) -> f64) {
    for column in 0..order {
        for row in column..order {
            let sum: f64 =
                (0..column).map(|k| matrix[row * order + k] * matrix[column * order + k]).sum();
            let remainder = matrix[row * order + column] - sum;
            matrix[row * order + column] = if row == column {
                pivot(column, remainder).sqrt()
            } else {
                remainder / matrix[column * order + column]
            };
        }
    }
}

/// Inverts a lower triangular matrix, given in the lower half of `matrix`. Rows with an infinite
/// diagonal entry become 0; they belong to columns that [`cholesky`] excluded.
pub(crate) fn invert_lower(matrix: &[f64], order: usize) -> Vec<f64> {
    let mut inverse = vec![0.0; order * order];
    for row in 0..order {
        let factors = &matrix[row * order..][..order];
        let (before, rest) = inverse.split_at_mut(row * order);
        let inverse_row = &mut rest[..order];
        for (k, &factor) in factors[..row].iter().enumerate() {
            for (sum, &value) in inverse_row.iter_mut().zip(&before[k * order..][..=k]) {
                *sum -= factor * value;
            }
        }
        inverse_row[row] = 1.0;
        inverse_row[..=row].iter_mut().for_each(|value| *value /= factors[row]);
    }
    inverse
}

/// The eigenvalues and eigenvectors of a matrix, in no particular order.
#[derive(Debug)]
pub(crate) struct Eigen {
    pub(crate) values: Vec<f64>,
    /// The eigenvectors, scaled to length 1 and concatenated in the order of the values.
    pub(crate) vectors: Vec<f64>,
}

/// Computes the eigenvectors of a positive semidefinite matrix by Jacobi rotations (Golub and Van
/// Loan 2013, algorithm 8.5.3). Each rotation sets two entries to 0 and reduces the sum of squares
/// off the diagonal, so the iteration terminates.
pub(crate) fn eigen(mut matrix: Vec<f64>, order: usize) -> Eigen {
    let mut vectors = vec![0.0; order * order];
    vectors.iter_mut().step_by(order + 1).for_each(|entry| *entry = 1.0);
    let trace: f64 = matrix.iter().step_by(order + 1).sum();
    // Smaller entries are within the rounding error of the diagonal.
    let negligible = f64::EPSILON * trace;
    let mut has_rotated = true;
    while has_rotated {
        has_rotated = false;
        for p in 0..order {
            for q in p + 1..order {
                let entry = matrix[p * order + q];
                if entry.abs() > negligible {
                    has_rotated = true;
                    let difference = matrix[q * order + q] - matrix[p * order + p];
                    let rotation = Rotation::zeroing(entry, difference);
                    rotation.turn_rows(&mut matrix, order, p, q);
                    rotation.turn_columns(&mut matrix, order, p, q);
                    rotation.turn_rows(&mut vectors, order, p, q);
                }
            }
        }
    }
    Eigen { values: matrix.iter().step_by(order + 1).copied().collect(), vectors }
}

/// A rotation in the plane of two axes.
struct Rotation {
    cosine: f64,
    sine: f64,
}

impl Rotation {
    /// Returns the smaller of the two rotations that set the off-diagonal `entry` to 0.
    /// `difference` is the difference of the two diagonal entries.
    fn zeroing(entry: f64, difference: f64) -> Self {
        let cotangent = difference / (2.0 * entry);
        let root = (cotangent * cotangent + 1.0).sqrt();
        let tangent = cotangent.signum() / (cotangent.abs() + root);
        let cosine = 1.0 / (tangent * tangent + 1.0).sqrt();
        Self { cosine, sine: tangent * cosine }
    }

    fn turn(&self, p: &mut f64, q: &mut f64) {
        let before = *p;
        *p = self.cosine * before - self.sine * *q;
        *q = self.sine * before + self.cosine * *q;
    }

    fn turn_rows(&self, matrix: &mut [f64], order: usize, p: usize, q: usize) {
        let (upper, lower) = matrix.split_at_mut(q * order);
        let row = upper[p * order..][..order].iter_mut();
        row.zip(&mut lower[..order]).for_each(|(p, q)| self.turn(p, q));
    }

    fn turn_columns(&self, matrix: &mut [f64], order: usize, p: usize, q: usize) {
        for row in matrix.chunks_exact_mut(order) {
            let (left, right) = row.split_at_mut(q);
            self.turn(&mut left[p], &mut right[0]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Returns `AᵀA` of random rows. With fewer rows than `order`, the matrix is singular.
    fn products(rows: usize, order: usize, seed: u64) -> Vec<f64> {
        let mut random = Random::new(seed);
        let values: Vec<f64> = (0..rows * order).map(|_| random.unit() - 0.5).collect();
        let entry = |i: usize, j: usize| -> f64 {
            values.chunks_exact(order).map(|row| row[i] * row[j]).sum()
        };
        (0..order * order).map(|index| entry(index / order, index % order)).collect()
    }

    #[test]
    fn cholesky_factors_reproduce_the_matrix() {
        for order in [0, 1, 2, 7, 30] {
            let matrix = products(2 * order + 1, order, 1);
            let mut lower = matrix.clone();
            cholesky(&mut lower, order, |_, pivot| pivot);
            let inverse = invert_lower(&lower, order);
            for i in 0..order {
                for j in 0..=i {
                    let product = |of: &[f64], by: &[f64], count: usize| -> f64 {
                        (0..count).map(|k| of[i * order + k] * by[j * order + k]).sum()
                    };
                    let found = product(&lower, &lower, j + 1);
                    assert!((found - matrix[i * order + j]).abs() < 1e-12, "{order}: {i} {j}");
                    let found: f64 =
                        (j..=i).map(|k| inverse[i * order + k] * lower[k * order + j]).sum();
                    let expected = f64::from(u8::from(i == j));
                    assert!((found - expected).abs() < 1e-9, "{order}: {i} {j}: {found}");
                }
            }
        }
    }

    #[test]
    fn columns_without_a_pivot_are_skipped() {
        // The second column is twice the first.
        let mut lower = vec![1.0, 2.0, 0.5, 2.0, 4.0, 1.0, 0.5, 1.0, 3.0];
        let mut skipped = Vec::new();
        cholesky(&mut lower, 3, |index, pivot| {
            if pivot > 1e-12 {
                return pivot;
            }
            skipped.push(index);
            f64::INFINITY
        });
        assert_eq!(skipped, [1]);
        let inverse = invert_lower(&lower, 3);
        assert_eq!(inverse[3..6], [0.0; 3]);
        assert_eq!(inverse[7..8], [0.0]);
        assert!(inverse.iter().all(|value| value.is_finite()));
    }

    #[test]
    fn eigenvectors_satisfy_the_eigenvalue_equation() {
        for (rows, order) in [(0, 0), (1, 1), (5, 2), (40, 20), (3, 20), (1, 9), (0, 4)] {
            let matrix = products(rows, order, 2);
            let Eigen { values, vectors } = eigen(matrix.clone(), order);
            for index in 0..order {
                let vector = &vectors[index * order..][..order];
                for (row, &entry) in matrix.chunks_exact(order).zip(vector) {
                    let product: f64 = row.iter().zip(vector).map(|(a, b)| a * b).sum();
                    assert!((product - values[index] * entry).abs() < 1e-12, "{rows} {order}");
                }
                for other in 0..order {
                    let other_vector = &vectors[other * order..][..order];
                    let product: f64 = vector.iter().zip(other_vector).map(|(a, b)| a * b).sum();
                    let expected = f64::from(u8::from(index == other));
                    assert!((product - expected).abs() < 1e-12, "{rows} {order}");
                }
            }
            let positive = values.iter().filter(|&&value| value > 1e-9).count();
            assert_eq!(positive, rows.min(order));
        }
    }
}
