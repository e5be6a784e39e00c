//! Builds the dense vectors of a model: given with the documents, or projected from their terms.

use super::given_vectors::GivenVectors;
use super::options::{DenseOptions, DenseSource};
use super::run::Run;
use super::{Event, TrainError};
use crate::model::InputSpec;
use crate::rows::dense::{DenseFeatures, DensePart, DenseSpec, Projection, lsa};
use crate::rows::matrix::CsrView;
use crate::search::{SearchError, learn_scale};
use crate::text::analyze::Analyzer;
use crate::text::corpus::Problem;
use crate::text::vocabulary::Vocabulary;
use crate::text::word_vectors::WordVectors;

/// The terms from which a projection is learned.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProjectionInput<'a> {
    /// The weighted training rows; not used if vectors are given.
    pub(super) rows: CsrView<'a>,
    pub(super) vocabulary: &'a Vocabulary,
    pub(super) input: &'a InputSpec,
}

/// Builds the dense part of a model.
pub(super) fn dense_part(
    run: &Run<'_>,
    options: &DenseOptions,
    given: GivenVectors,
    terms: ProjectionInput<'_>,
) -> Result<DensePart, TrainError> {
    let threads = run.threads();
    let no_term = || run.corpus_error(Problem::NoTerm);
    let mut known = None;
    let (features, projection): (_, Option<Projection>) = match &options.source {
        DenseSource::Given { field, encoder } => {
            let features = DenseFeatures::Given { field: field.clone(), encoder: encoder.clone() };
            (features, None)
        }
        &DenseSource::Lsa { dimensions, seed } => {
            let projection = lsa(&terms.rows, dimensions, seed, threads).ok_or_else(no_term)?;
            (DenseFeatures::Lsa { seed }, Some(projection))
        }
        DenseSource::WordVectors(path) => {
            let InputSpec::Text(spec) = terms.input else {
                return Err(TrainError::WordVectorsWithoutText);
            };
            let analyzer = Analyzer::new(spec.clone());
            let found = WordVectors::read(path, terms.vocabulary, &analyzer)?;
            known = Some(found.known);
            (DenseFeatures::WordVectors, Some(found.projection))
        }
    };
    let (values, dimension) = match &projection {
        None => given.finish(),
        Some(projection) => (projection.project_all(&terms.rows, threads), projection.dimension()),
    };
    let spec = DenseSpec {
        features,
        dimension: u32::try_from(dimension).unwrap_or(u32::MAX),
        metric: options.metric,
        scale: 1.0,
        alone: !options.with_terms,
    };
    let part = DensePart::new(spec, values, projection).map_err(SearchError::from)?;
    let scale = learn_scale(part.vectors(), options.metric, threads)?;
    let part = part.with_scale(scale);
    let terms = terms.vocabulary.len();
    run.report(Event::Dense { part: &part, known: known.map(|known| (known, terms)) });
    Ok(part)
}
