//! Flags that choose the features: weighted terms, dense vectors, or both.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use classify::learn::{DenseOptions, DenseSource};
use classify::rows::dense::{MAX_DIMENSIONS, Metric};
use classify::text::corpus::ReadOptions;

use crate::failure::Failure;

/// Flags that choose the features by which documents are compared.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Features")]
pub(crate) struct Features {
    /// The features by which documents are compared: tfidf (weighted terms; values in svmlight
    /// files are weights), counts (values in svmlight files are counts), dense (dense vectors of
    /// the corpus), lsa:N (N dimensions computed from the weighted terms), words (the mean of
    /// --word-vectors), encoder (embeddings of the texts by --encoder), or terms and vectors, such
    /// as tfidf+lsa:300 [default: tfidf; dense, words or tfidf+encoder if their flags are set]
    #[arg(long = "features", value_name = "FEATURES")]
    kinds: Option<FeaturesArgument>,
    /// A file of word vectors: word2vec (text or .bin), `GloVe`, or fastText (.vec). The vector of
    /// a document is the mean of the vectors of its words, weighted by the weights of the terms
    #[arg(long, value_name = "FILE")]
    word_vectors: Option<PathBuf>,
    /// The distance between dense vectors: angular, euclidean or manhattan [default: angular]
    #[arg(long, value_name = "METRIC")]
    metric: Option<Metric>,
}

/// The value of `--features`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FeaturesArgument {
    /// Whether terms are searched.
    terms: bool,
    /// Whether the feature values of the corpus are counts.
    counts: bool,
    dense: Option<DenseArgument>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DenseArgument {
    Given,
    Encoder,
    Lsa(usize),
    Words,
}

impl fmt::Display for DenseArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given => f.write_str("dense"),
            Self::Encoder => f.write_str("encoder"),
            Self::Lsa(dimensions) => write!(f, "lsa:{dimensions}"),
            Self::Words => f.write_str("words"),
        }
    }
}

impl FromStr for FeaturesArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected tfidf, counts, dense, lsa:N, words, encoder, or terms and vectors \
                        such as tfidf+lsa:300";
        let dense = |name: &str| match name.split_once(':') {
            None if name == "dense" => Ok(DenseArgument::Given),
            None if name == "encoder" => Ok(DenseArgument::Encoder),
            None if name == "words" => Ok(DenseArgument::Words),
            Some(("lsa", number)) => match number.parse() {
                Ok(dimensions @ 1..=MAX_DIMENSIONS) => Ok(DenseArgument::Lsa(dimensions)),
                _ => Err(format!("lsa:N takes 1 to {MAX_DIMENSIONS} dimensions")),
            },
            _ => Err(expected.to_owned()),
        };
        let is_terms = |name: &str| matches!(name, "tfidf" | "counts");
        let (terms, vectors) = match text.split_once('+') {
            Some((terms, vectors)) if is_terms(terms) => (Some(terms), Some(vectors)),
            None if is_terms(text) => (Some(text), None),
            None => (None, Some(text)),
            Some(_) => return Err(expected.to_owned()),
        };
        Ok(Self {
            terms: terms.is_some(),
            counts: terms == Some("counts"),
            dense: vectors.map(dense).transpose()?,
        })
    }
}

impl Features {
    /// Returns the input files that the flags name.
    pub(crate) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.word_vectors.iter()
    }

    /// Whether the feature values of the corpus are counts.
    pub(crate) fn counts(&self) -> bool {
        self.kinds.is_some_and(|features| features.counts)
    }

    /// Returns the options of the dense vectors, if the flags request any. `share` is the vector
    /// neighbors' share of the votes.
    pub(crate) fn dense(
        &self,
        read_options: &ReadOptions,
        share: Option<f64>,
    ) -> Result<Option<DenseOptions>, Failure> {
        let usage = |message: String| Err(Failure::Usage(message));
        let is_given = read_options.vector_field.is_some() || read_options.vectors_beside.is_some();
        let encoder = read_options.encoder.as_ref();
        let default = match () {
            () if self.word_vectors.is_some() => Some(DenseArgument::Words),
            () if is_given => Some(DenseArgument::Given),
            () if encoder.is_some() => Some(DenseArgument::Encoder),
            () => None,
        };
        let with_terms = matches!(default, None | Some(DenseArgument::Encoder));
        let (terms, dense) =
            self.kinds.map_or((with_terms, default), |given| (given.terms, given.dense));
        let shown = dense.map_or("terms".to_owned(), |dense| dense.to_string());
        if self.word_vectors.is_some() && dense != Some(DenseArgument::Words) {
            return usage(format!("--word-vectors needs --features words instead of {shown}"));
        }
        if is_given && dense != Some(DenseArgument::Given) {
            return usage(format!(
                "--vector-field and --vectors need --features dense or tfidf+dense, not {shown}"
            ));
        }
        if encoder.is_some() && dense != Some(DenseArgument::Encoder) {
            return usage(format!(
                "--encoder needs --features encoder or tfidf+encoder, not {shown}"
            ));
        }
        let Some(dense) = dense else {
            if self.metric.is_some() {
                return usage("--metric needs dense vectors: see --features".to_owned());
            }
            if share.is_some() {
                return usage("--dense-share needs dense vectors: see --features".to_owned());
            }
            return Ok(None);
        };
        if share.is_some() && !terms {
            return usage(format!(
                "--dense-share divides the votes between terms and vectors: use --features \
                 tfidf+{dense}"
            ));
        }
        let source = match dense {
            DenseArgument::Given => {
                DenseSource::Given { field: read_options.vector_field.clone(), encoder: None }
            }
            DenseArgument::Encoder => match encoder {
                Some(encoder) => {
                    DenseSource::Given { field: None, encoder: Some(encoder.spec().clone()) }
                }
                None => return usage("--features encoder needs --encoder FOLDER".to_owned()),
            },
            DenseArgument::Lsa(dimensions) => DenseSource::Lsa { dimensions, seed: 0 },
            DenseArgument::Words => match &self.word_vectors {
                Some(path) => DenseSource::WordVectors(path.clone()),
                None => return usage("--features words needs --word-vectors FILE".to_owned()),
            },
        };
        let metric = self.metric.unwrap_or_default();
        Ok(Some(DenseOptions { source, metric, with_terms: terms }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_by_name() {
        let parsed = |text: &str| text.parse::<FeaturesArgument>();
        let lsa = Some(DenseArgument::Lsa(300));
        let argument = |terms, counts, dense| FeaturesArgument { terms, counts, dense };
        assert_eq!(parsed("tfidf"), Ok(argument(true, false, None)));
        assert_eq!(parsed("counts"), Ok(argument(true, true, None)));
        assert_eq!(parsed("lsa:300"), Ok(argument(false, false, lsa)));
        assert_eq!(parsed("counts+lsa:300"), Ok(argument(true, true, lsa)));
        assert_eq!(parsed("dense"), Ok(argument(false, false, Some(DenseArgument::Given))));
        assert_eq!(parsed("encoder"), Ok(argument(false, false, Some(DenseArgument::Encoder))));
        for bad in
            ["", "lsa", "lsa:0", "lsa:x", "lsa:70000", "dense+tfidf", "tfidf+", "tfidf+tfidf"]
        {
            assert!(parsed(bad).is_err(), "{bad}");
        }
    }
}
