//! Matrix products, and linear layers.

use crate::error::EncoderError;
use crate::weights::Weights;

/// Rows of numbers in a slice, or its transpose. Value (i, j) is at
/// `i * row_stride + j * column_stride`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) values: &'a [f32],
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) row_stride: usize,
    pub(crate) column_stride: usize,
}

impl<'a> View<'a> {
    /// Views `columns` values of each row of a matrix whose rows begin every `row_stride` values.
    pub(crate) fn rows(values: &'a [f32], rows: usize, columns: usize, row_stride: usize) -> Self {
        Self { values, rows, columns, row_stride, column_stride: 1 }
    }

    pub(crate) fn transposed(self) -> Self {
        Self {
            values: self.values,
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
        }
    }

    /// Returns the number of values up to the last one.
    fn extent(&self) -> usize {
        if self.rows == 0 || self.columns == 0 {
            return 0;
        }
        (self.rows - 1) * self.row_stride + (self.columns - 1) * self.column_stride + 1
    }
}

/// Writes `left` × `right` to `product`, whose rows begin every `row_stride` values.
///
/// # Panics
/// Panics if the shapes do not match, or a slice is too short.
pub(crate) fn multiply(left: View<'_>, right: View<'_>, product: &mut [f32], row_stride: usize) {
    let written = View::rows(product, left.rows, right.columns, row_stride);
    assert!(
        left.columns == right.rows
            && left.extent() <= left.values.len()
            && right.extent() <= right.values.len()
            && written.extent() <= product.len()
            && right.columns <= row_stride,
        "the shapes of the factors match, and all values are in the slices"
    );
    let stride = |stride: usize| isize::try_from(stride).expect("a matrix fits in memory");
    #[expect(unsafe_code, reason = "`gemm` takes raw pointers")]
    // SAFETY: as asserted above, all values that the shapes and strides address are in the slices.
    // The mutable borrow of `product` overlaps nothing.
    unsafe {
        gemm::gemm(
            left.rows,
            right.columns,
            left.columns,
            product.as_mut_ptr(),
            1,
            stride(row_stride),
            false,
            left.values.as_ptr(),
            stride(left.column_stride),
            stride(left.row_stride),
            right.values.as_ptr(),
            stride(right.column_stride),
            stride(right.row_stride),
            0.0,
            1.0,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

/// A linear layer: x · Wᵀ + b.
#[derive(Debug)]
pub(crate) struct Linear {
    /// W: one row per output.
    weights: Vec<f32>,
    bias: Vec<f32>,
    inputs: usize,
}

impl Linear {
    /// Reads the tensors `{name}.weight` and `{name}.bias` of several layers with the same inputs,
    /// as one layer with all their outputs.
    pub(crate) fn new(
        file: &Weights<'_>,
        names: &[String],
        inputs: usize,
        outputs: usize,
    ) -> Result<Self, EncoderError> {
        let mut layer = Self { weights: Vec::new(), bias: Vec::new(), inputs };
        for name in names {
            layer.weights.extend(file.values(&format!("{name}.weight"), &[outputs, inputs])?);
            layer.bias.extend(file.values(&format!("{name}.bias"), &[outputs])?);
        }
        Ok(layer)
    }

    /// The number of outputs.
    pub(crate) fn outputs(&self) -> usize {
        self.bias.len()
    }

    /// Returns the outputs for each row of inputs.
    pub(crate) fn apply(&self, rows: &[f32]) -> Vec<f32> {
        let row_count = rows.len() / self.inputs;
        let outputs = self.outputs();
        let mut result = vec![0.0; row_count * outputs];
        let weights = View::rows(&self.weights, outputs, self.inputs, self.inputs);
        let inputs = View::rows(rows, row_count, self.inputs, self.inputs);
        multiply(inputs, weights.transposed(), &mut result, outputs);
        for row in result.chunks_exact_mut(outputs) {
            row.iter_mut().zip(&self.bias).for_each(|(value, bias)| *value += bias);
        }
        result
    }
}
