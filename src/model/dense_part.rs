//! Validation of the dense vectors of a model file.

use std::sync::Arc;

use super::error::invalid;
use super::{ModelProblem, array_names};
use crate::rows::dense::{
    DenseFeatures, DensePart, DenseSpec, MAX_ABS_VALUE, MAX_DIMENSIONS, Metric, Projection, Vectors,
};
use crate::rows::matrix::Array;

impl DensePart {
    /// Creates the dense part from the arrays of a model file.
    ///
    /// # Errors
    /// Fails if an array does not match the settings, or contains invalid values.
    pub(super) fn checked(
        spec: DenseSpec,
        documents: usize,
        values: Array<f32>,
        terms: usize,
        projection: Option<Array<f32>>,
    ) -> Result<Self, ModelProblem> {
        let invalid_vectors = |what: &str| invalid(array_names::DENSE_VECTORS)(what.to_owned());
        let invalid_settings = |what: &str| invalid("settings")(what.to_owned());
        let dimension = spec.dimension as usize;
        if dimension == 0 || dimension > MAX_DIMENSIONS {
            return Err(invalid_settings("the number of dimensions is not between 1 and 65536"));
        }
        if !(spec.scale.is_finite() && spec.scale > 0.0) {
            return Err(invalid_settings("the scale of the metric is not above 0"));
        }
        let rows = |values: Array<f32>, rows: usize| {
            Vectors::new(dimension, values).ok().filter(|vectors| vectors.rows() == rows)
        };
        let vectors = rows(values, documents)
            .ok_or_else(|| invalid_vectors("there is not exactly one vector per document"))?;
        if !vectors.values().iter().all(|value| value.abs() <= MAX_ABS_VALUE) {
            return Err(invalid_vectors("a value is not between -1e30 and 1e30"));
        }
        let is_unit = |row: &[f32]| {
            let square: f64 = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
            square == 0.0 || (square - 1.0).abs() < 1e-3
        };
        let mut row_numbers = 0..vectors.rows();
        if spec.metric == Metric::Angular && !row_numbers.all(|row| is_unit(vectors.row(row))) {
            return Err(invalid_vectors("the length of a vector is neither 1 nor 0"));
        }
        let invalid_projection =
            |what: &str| invalid(array_names::DENSE_PROJECTION)(what.to_owned());
        let projection = match (&spec.features, projection) {
            (DenseFeatures::Given { .. }, None) => None,
            (DenseFeatures::Given { .. }, Some(_)) => {
                return Err(invalid_projection(
                    "it is not used, because documents provide their own vectors",
                ));
            }
            (_, None) => return Err(invalid_projection("it is missing")),
            (features, Some(values)) => {
                let terms = rows(values, terms).ok_or_else(|| {
                    invalid_projection("there is not exactly one vector per term")
                })?;
                if !terms.values().iter().all(|value| value.abs() <= MAX_ABS_VALUE) {
                    return Err(invalid_projection("a value is not between -1e30 and 1e30"));
                }
                let is_mean = *features == DenseFeatures::WordVectors;
                Some(Projection { terms, is_mean })
            }
        };
        Ok(Self { spec, vectors: Arc::new(vectors), projection })
    }
}
