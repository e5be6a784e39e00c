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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{Corpus, CorpusError, Problem, ReadOptions};
    use super::*;

    /// Returns the number that a text consists of.
    #[derive(Debug)]
    struct Number(EncoderSpec);

    impl TextEncoder for Number {
        fn spec(&self) -> &EncoderSpec {
            &self.0
        }

        fn encode(&self, texts: &[Cow<'_, str>]) -> Vec<Vec<f32>> {
            let number = |text: &Cow<'_, str>| text.parse().expect("the text is a number");
            texts.iter().map(|text| vec![number(text)]).collect()
        }
    }

    fn read(lines: &str) -> Vec<Result<Document, CorpusError>> {
        let spec = EncoderSpec { folder: "f".into(), kind: "k".into(), hash: "h".into() };
        let encoder: Arc<dyn TextEncoder> = Arc::new(Number(spec));
        let options = ReadOptions { encoder: Some(encoder), ..ReadOptions::default() };
        Corpus::from_bytes("lines", lines.into(), options).expect("it opens").collect()
    }

    #[test]
    fn documents_keep_their_order_in_batches() {
        let line = |number: usize| format!("{{\"text\": \"{number}\", \"label\": \"x\"}}\n");
        let lines: String = (0..2500).map(line).collect();
        let documents = read(&lines);
        assert_eq!(documents.len(), 2500);
        for (number, document) in documents.into_iter().enumerate() {
            let document = document.expect("the line is a document");
            assert_eq!(document.vector, Some(vec![number as f32]));
            assert_eq!(document.id, (number + 1).to_string());
        }
    }

    #[test]
    fn an_error_follows_the_documents_before_it_and_ends_the_corpus() {
        let documents = read("{\"text\": \"7\", \"label\": \"x\"}\nno JSON\n{\"text\": \"8\"}\n");
        assert_eq!(documents.len(), 2);
        let first = documents[0].as_ref().expect("the first line is a document");
        assert_eq!(first.vector, Some(vec![7.0]));
        assert_eq!(documents[1].as_ref().map_err(|error| error.place.line), Err(Some(2)));

        let features = read("1 3:1 4:2\n");
        assert!(
            matches!(&*features, [Err(CorpusError { problem: Problem::NoTextToEncode, .. })]),
            "{features:?}"
        );
    }
}
