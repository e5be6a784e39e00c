//! The encoder: from a folder to a function of texts.

use std::borrow::Cow;
use std::fmt;
use std::fs;
use std::path::Path;

use rayon::prelude::*;

use crate::bert::Bert;
use crate::error::{EncoderError, Problem, at};
use crate::folder::{Architecture, Folder, Pooling, Settings};
use crate::static_model::StaticModel;
use crate::tokens::Tokens;
use crate::weights::Weights;

/// The number of tokens whose vectors are computed together. One text at a time would take twice as
/// long; larger groups are not faster, and keep fewer threads busy.
const TOKENS_TOGETHER: usize = 256;

/// The kind of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A table of token vectors.
    Static,
    /// A transformer.
    Bert,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Static => "static",
            Self::Bert => "bert",
        })
    }
}

/// A pretrained model that computes embeddings of texts.
///
/// The same list of texts has the same embeddings, to the last bit, with any number of threads.
/// With BERT, the last bits can depend on the texts that are encoded together and on the processor.
#[derive(Debug)]
pub struct Encoder {
    tokens: Tokens,
    network: Network,
    settings: Settings,
    hash: String,
}

#[derive(Debug)]
enum Network {
    Static(StaticModel),
    Bert { model: Bert, pooling: Pooling },
}

impl Encoder {
    /// Opens the model in a folder; see the [crate] for the files.
    ///
    /// # Errors
    /// If a file is missing or damaged, or the model is of a kind that is not implemented.
    pub fn open(path: &Path) -> Result<Self, EncoderError> {
        let folder = Folder::read(path)?;
        let settings = folder.settings;
        let read = |file: &Path| fs::read(file).map_err(|error| at(file)(error.into()));
        let tokenizer = read(&folder.tokenizer)?;
        let weights = read(&folder.weights)?;
        let is_bert = matches!(settings.architecture, Architecture::Bert { .. });
        let tokens = Tokens::new(&folder.tokenizer, &tokenizer, settings.max_tokens, is_bert)?;
        let file = Weights::new(&folder.weights, &weights)?;
        let network = match &settings.architecture {
            Architecture::Static { tensor } => {
                let mut model = StaticModel::new(&file, tensor, &tokens)?;
                if settings.is_model2vec {
                    model.unknown = unknown_token(&folder.tokenizer, &tokenizer, &tokens)?;
                    model.max_chars = settings
                        .max_tokens
                        .map(|count| count.saturating_mul(tokens.median_length()));
                }
                Network::Static(model)
            }
            Architecture::Bert { config, pooling } => {
                let model = Bert::new(&file, config)?;
                let known = model.token_count();
                let needed = tokens.count();
                if known < needed {
                    let what = format!("{known} tokens have vectors, of {needed} of the tokenizer");
                    return Err(file.error(what));
                }
                Network::Bert { model, pooling: *pooling }
            }
        };
        let identity = settings.identity();
        let parts = [&*tokenizer, &*weights, identity.as_bytes()];
        let hash = parts.map(|part| format!("{:08x}", crc32fast::hash(part))).concat();
        Ok(Self { tokens, network, settings, hash })
    }

    /// The kind of the model.
    pub fn kind(&self) -> Kind {
        match self.network {
            Network::Static(_) => Kind::Static,
            Network::Bert { .. } => Kind::Bert,
        }
    }

    /// The number of values of an embedding.
    pub fn dimension(&self) -> usize {
        match &self.network {
            Network::Static(model) => model.dimension(),
            Network::Bert { model, .. } => model.dimension(),
        }
    }

    /// A hash of the tokenizer, the weights and the settings, as hexadecimal digits. It detects a
    /// different model, but no manipulation.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Returns the embeddings of texts, one after the other, computed on the caller's thread pool.
    /// A text without a known token has the embedding 0.
    pub fn encode<T: AsRef<str> + Sync>(&self, texts: &[T]) -> Vec<f32> {
        let dimension = self.dimension();
        let mut embeddings = vec![0.0; texts.len() * dimension];
        let rows = embeddings.par_chunks_exact_mut(dimension).zip(texts);
        match &self.network {
            Network::Static(model) => rows.for_each(|(row, text)| {
                model.encode(&self.tokens, &self.prepared(text.as_ref()), row);
            }),
            Network::Bert { model, pooling } => {
                let tokens: Vec<Vec<u32>> = texts
                    .par_iter()
                    .map(|text| self.tokens.of(&self.prepared(text.as_ref())))
                    .collect();
                let mut groups = Vec::new();
                let mut rows = &mut *embeddings;
                for group in groups_of(&tokens) {
                    let (group_rows, rest) = rows.split_at_mut(group.len() * dimension);
                    groups.push((group, group_rows));
                    rows = rest;
                }
                groups.into_par_iter().for_each(|(group, rows)| {
                    pool(*pooling, group, &model.encode(group), rows, dimension);
                });
            }
        }
        if self.settings.normalizes {
            let rounded = |value| match &self.network {
                Network::Static(model) => model.rounded(value),
                Network::Bert { .. } => value,
            };
            let scale = |embedding: &mut [f32]| normalize(embedding, rounded);
            embeddings.par_chunks_exact_mut(dimension).for_each(scale);
        }
        embeddings
    }

    fn prepared<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        if !self.settings.prompt.is_empty() {
            text = Cow::Owned(format!("{}{text}", self.settings.prompt));
        }
        if self.settings.lowercases {
            text = Cow::Owned(text.to_lowercase());
        }
        text
    }
}

/// Divides texts into groups of at most [`TOKENS_TOGETHER`] tokens, or of one text.
fn groups_of(texts: &[Vec<u32>]) -> Vec<&[Vec<u32>]> {
    let mut groups = Vec::new();
    let mut start = 0;
    let mut total = 0;
    for (number, tokens) in texts.iter().enumerate() {
        if number > start && total + tokens.len() > TOKENS_TOGETHER {
            groups.push(&texts[start..number]);
            start = number;
            total = 0;
        }
        total += tokens.len();
    }
    if start < texts.len() {
        groups.push(&texts[start..]);
    }
    groups
}

/// Writes one vector per text of a group. `vectors` contains one row per token.
fn pool(pooling: Pooling, group: &[Vec<u32>], vectors: &[f32], rows: &mut [f32], dimension: usize) {
    let mut rest = vectors;
    for (tokens, row) in group.iter().zip(rows.chunks_exact_mut(dimension)) {
        let vectors;
        (vectors, rest) = rest.split_at(tokens.len() * dimension);
        let used = if pooling == Pooling::FirstToken { 1 } else { tokens.len() };
        for vector in vectors.chunks_exact(dimension).take(used) {
            row.iter_mut().zip(vector).for_each(|(sum, value)| *sum += value / used as f32);
        }
    }
}

/// Scales a vector to length 1, and rounds its values.
fn normalize(vector: &mut [f32], rounded: impl Fn(f32) -> f32) {
    let norm = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    if norm > 0.0 {
        for value in vector {
            *value = rounded(*value / norm);
        }
    }
}

/// Returns the token of unknown text, which a tokenizer names or numbers.
fn unknown_token(file: &Path, bytes: &[u8], tokens: &Tokens) -> Result<Option<u32>, EncoderError> {
    let json: serde_json::Value =
        serde_json::from_slice(bytes).map_err(|error| at(file)(Problem::Json(error)))?;
    let model = &json["model"];
    Ok(match model["unk_token"].as_str() {
        Some(token) => tokens.number(token),
        None => model["unk_id"].as_u64().and_then(|number| u32::try_from(number).ok()),
    })
}
