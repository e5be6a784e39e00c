//! Reads tensors of a `model.safetensors` file.

use std::path::Path;

use half::{bf16, f16};
use safetensors::{Dtype, SafeTensors};

use crate::error::{EncoderError, Problem, at};

/// The tensors of a model.
pub(crate) struct Weights<'a> {
    tensors: SafeTensors<'a>,
    file: &'a Path,
}

impl<'a> Weights<'a> {
    /// Reads the header of the file `file` with the content `bytes`.
    pub(crate) fn new(file: &'a Path, bytes: &'a [u8]) -> Result<Self, EncoderError> {
        let tensors = SafeTensors::deserialize(bytes)
            .map_err(|error| at(file)(Problem::Weights(error.to_string())))?;
        Ok(Self { tensors, file })
    }

    /// Whether the file contains a tensor.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.tensors.tensor(name).is_ok()
    }

    /// Whether the values of a tensor have 16 bits.
    pub(crate) fn is_half(&self, name: &str) -> bool {
        self.tensors.tensor(name).is_ok_and(|tensor| tensor.dtype() == Dtype::F16)
    }

    /// Returns an error about the file.
    pub(crate) fn error(&self, what: String) -> EncoderError {
        at(self.file)(Problem::Weights(what))
    }

    /// Returns the values of a tensor of `shape`, in row-major order.
    pub(crate) fn values(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, EncoderError> {
        let (values, found) = self.values_and_shape(name)?;
        if found == shape {
            Ok(values)
        } else {
            Err(self.error(format!("the tensor {name} has the shape {found:?}, not {shape:?}")))
        }
    }

    /// Returns the values of a tensor, in row-major order, and its shape.
    pub(crate) fn values_and_shape(
        &self,
        name: &str,
    ) -> Result<(Vec<f32>, Vec<usize>), EncoderError> {
        let tensor = self
            .tensors
            .tensor(name)
            .map_err(|_| self.error(format!("there is no tensor {name}")))?;
        let bytes = tensor.data();
        let values = match tensor.dtype() {
            Dtype::F64 => numbers(bytes, |bytes| {
                #[expect(clippy::cast_possible_truncation, reason = "f32 is precise enough")]
                let value = f64::from_le_bytes(bytes) as f32;
                value
            }),
            Dtype::F32 => numbers(bytes, f32::from_le_bytes),
            Dtype::F16 => numbers(bytes, |bytes| f16::from_le_bytes(bytes).to_f32()),
            Dtype::BF16 => numbers(bytes, |bytes| bf16::from_le_bytes(bytes).to_f32()),
            Dtype::I8 => numbers(bytes, |bytes| f32::from(i8::from_le_bytes(bytes))),
            other => return Err(self.error(format!("the tensor {name} has the type {other}"))),
        };
        Ok((values, tensor.shape().to_vec()))
    }

    /// Returns the values of a one-dimensional tensor of 64-bit integers.
    pub(crate) fn integers(&self, name: &str) -> Result<Vec<i64>, EncoderError> {
        match self.tensors.tensor(name) {
            Ok(tensor) if tensor.dtype() == Dtype::I64 => {
                Ok(numbers(tensor.data(), i64::from_le_bytes))
            }
            Ok(_) => Err(self.error(format!("the tensor {name} does not contain integers"))),
            Err(_) => Err(self.error(format!("there is no tensor {name}"))),
        }
    }
}

/// Converts bytes to numbers of `N` bytes.
fn numbers<T, const N: usize>(bytes: &[u8], convert: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks::<N>().0.iter().map(|&bytes| convert(bytes)).collect()
}
