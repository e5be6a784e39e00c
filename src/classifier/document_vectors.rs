//! Documents as rows of weighted terms and dense vectors.

use std::borrow::Cow;

use crate::decide::vote::Prototypes;
use crate::model::Model;
use crate::rows::dense::{Metric, Vectors, normalize, scaled_entries};
use crate::rows::matrix::Csr;

/// Documents converted to query rows.
#[derive(Debug)]
pub struct DocumentVectors {
    /// The weighted rows: documents × terms of the model.
    pub rows: Csr,
    /// The numbers of known and unknown terms of each document.
    pub terms: Vec<TermUse>,
    /// The dense vectors, if the model has them.
    pub dense: Option<Vectors>,
}

/// A document as label prototypes see it: its terms, and the values of its vector if the prototypes
/// use vectors.
pub(crate) struct PrototypeRow<'a> {
    pub(crate) columns: Cow<'a, [u32]>,
    pub(crate) values: Cow<'a, [f32]>,
}

impl DocumentVectors {
    /// Returns a document as the prototypes of `model` see it.
    pub(crate) fn prototype_row(
        &self,
        document: usize,
        model: &Model,
        prototypes: &Prototypes,
    ) -> PrototypeRow<'_> {
        let (columns, values) =
            if model.prototype_terms() > 0 { self.rows.row(document) } else { Default::default() };
        let vectors = self.dense.as_ref().zip(model.dense()).filter(|_| prototypes.use_vectors());
        let Some((vectors, part)) = vectors else {
            return PrototypeRow { columns: columns.into(), values: values.into() };
        };
        let mut vector = vectors.row(document).to_vec();
        if part.spec().metric == Metric::Angular {
            normalize(&mut vector);
        }
        let first = u32::try_from(model.prototype_terms()).expect("fewer than 2^32 terms");
        let of_vector = scaled_entries(&vector, first, prototypes.vector_scale);
        let terms = columns.iter().copied().zip(values.iter().copied());
        let (columns, values): (Vec<u32>, Vec<f32>) = terms.chain(of_vector).unzip();
        PrototypeRow { columns: columns.into(), values: values.into() }
    }
}

/// The numbers of terms of a document, counting repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TermUse {
    /// Number of terms in the vocabulary.
    pub known: usize,
    /// Number of terms not in the vocabulary.
    pub unknown: usize,
}

impl TermUse {
    /// Returns the share of the terms that are not in the vocabulary; 0 without terms.
    pub(crate) fn unknown_share(self) -> f64 {
        self.unknown as f64 / (self.known + self.unknown).max(1) as f64
    }
}
