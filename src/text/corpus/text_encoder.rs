//! Encoders: pretrained models that compute dense vectors from texts.

use std::borrow::Cow;
use std::fmt;

use super::document::Document;
use crate::rows::dense::EncoderSpec;

/// A pretrained model that computes the dense vector of a text. Corpora and servers call it while
/// they read documents ([`ReadOptions::encoder`](super::ReadOptions::encoder)).
///
/// ```
/// use std::borrow::Cow;
/// use std::sync::Arc;
///
/// use classify::rows::dense::EncoderSpec;
/// use classify::text::corpus::{Corpus, ReadOptions, TextEncoder};
///
/// /// The numbers of characters and of words.
/// #[derive(Debug)]
/// struct Lengths(EncoderSpec);
///
/// impl TextEncoder for Lengths {
///     fn spec(&self) -> &EncoderSpec {
///         &self.0
///     }
///
///     fn encode(&self, texts: &[Cow<'_, str>]) -> Vec<Vec<f32>> {
///         let lengths = |text: &Cow<'_, str>| {
///             vec![text.chars().count() as f32, text.split(' ').count() as f32]
///         };
///         texts.iter().map(lengths).collect()
///     }
/// }
///
/// let spec =
///     EncoderSpec { folder: "none".into(), kind: "lengths".into(), hash: "1".into() };
/// let options =
///     ReadOptions { encoder: Some(Arc::new(Lengths(spec))), ..ReadOptions::default() };
/// let line = br#"{"text": "bake it", "label": "x"}"#.to_vec();
/// let mut corpus = Corpus::from_bytes("lines", line, options)?;
/// let document = corpus.next().unwrap()?;
/// assert_eq!(document.vector, Some(vec![7.0, 2.0]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait TextEncoder: fmt::Debug + Send + Sync {
    /// What a model stores about the encoder.
    fn spec(&self) -> &EncoderSpec;

    /// Returns the vector of each text. All vectors have the same dimension.
    fn encode(&self, texts: &[Cow<'_, str>]) -> Vec<Vec<f32>>;
}

/// Replaces the vectors of documents with those of their texts.
pub(super) fn encode_documents(encoder: &dyn TextEncoder, documents: &mut [Document]) {
    let texts: Vec<Cow<'_, str>> =
        documents.iter().map(|document| document.content.text().unwrap_or_default()).collect();
    let vectors = encoder.encode(&texts);
    for (document, vector) in documents.iter_mut().zip(vectors) {
        document.vector = Some(vector);
    }
}
