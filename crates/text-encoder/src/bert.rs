//! BERT (Devlin et al. 2019), RoBERTa (Liu et al. 2019), XLM-RoBERTa (Conneau et al. 2020) and
//! DistilBERT (Sanh et al. 2019): transformer encoders that differ in their names of tensors, the
//! number of the first position, and the types of tokens.
//!
//! The tokens of several texts are rows of one matrix, one text after the other, without padding:
//! only attention looks at more than one row, and it looks at the rows of one text.

use std::ops::Range;

use serde::Deserialize;

use crate::error::{EncoderError, Problem};
use crate::linear::{Linear, View, multiply};
use crate::weights::Weights;

/// `config.json` of a model. The aliases are the names of DistilBERT.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct BertConfig {
    model_type: String,
    #[serde(default = "gelu_name", alias = "activation")]
    hidden_act: String,
    #[serde(alias = "dim")]
    hidden_size: usize,
    #[serde(alias = "hidden_dim")]
    intermediate_size: usize,
    #[serde(alias = "n_layers")]
    num_hidden_layers: usize,
    #[serde(alias = "n_heads")]
    num_attention_heads: usize,
    vocab_size: usize,
    max_position_embeddings: usize,
    #[serde(default = "default_epsilon")]
    layer_norm_eps: f32,
    #[serde(default = "absolute")]
    position_embedding_type: String,
    /// The number of the token that fills up texts.
    pad_token_id: Option<usize>,
}

fn gelu_name() -> String {
    "gelu".to_owned()
}

fn default_epsilon() -> f32 {
    1e-12
}

fn absolute() -> String {
    "absolute".to_owned()
}

impl BertConfig {
    /// Returns the settings that the shapes of the weights do not determine, as text.
    pub(crate) fn identity(&self) -> String {
        let identity =
            format!("heads={} epsilon={:e}", self.num_attention_heads, self.layer_norm_eps);
        match self.first_position() {
            0 => identity,
            first => format!("{identity} first={first}"),
        }
    }

    /// The maximum number of tokens of a text.
    pub(crate) fn max_tokens(&self) -> usize {
        self.max_position_embeddings.saturating_sub(self.first_position())
    }

    /// The position of the first token. Positions of RoBERTa begin after the number of the token
    /// that fills up texts.
    fn first_position(&self) -> usize {
        match &*self.model_type {
            "roberta" | "xlm-roberta" | "camembert" => {
                self.pad_token_id.unwrap_or(1).saturating_add(1)
            }
            _ => 0,
        }
    }

    fn names(&self) -> &'static Names {
        if self.model_type == "distilbert" { &DISTILBERT } else { &BERT }
    }

    /// Checks that the model is implemented here.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        let unsupported = |what: String| Err(Problem::Unsupported(what));
        if !MODEL_TYPES.contains(&&*self.model_type) {
            return unsupported(format!(
                "the model type `{}` is not supported, only static models and `{}`; compute \
                 embeddings elsewhere, and give them as a file of vectors",
                self.model_type,
                MODEL_TYPES.join("`, `")
            ));
        }
        if self.hidden_act != "gelu" {
            return unsupported(format!(
                "the activation `{}` is not supported, only `gelu`",
                self.hidden_act
            ));
        }
        if self.position_embedding_type != "absolute" {
            return unsupported(format!(
                "the position embeddings `{}` are not supported, only `absolute`",
                self.position_embedding_type
            ));
        }
        let sizes =
            [self.hidden_size, self.intermediate_size, self.num_attention_heads, self.max_tokens()];
        if sizes.contains(&0) {
            return unsupported("a size of the model is 0".to_owned());
        }
        if !self.hidden_size.is_multiple_of(self.num_attention_heads) {
            return unsupported("the hidden size is not a multiple of the number of heads".into());
        }
        Ok(())
    }
}

/// The values of `model_type` of the models that are implemented here.
const MODEL_TYPES: [&str; 5] = ["bert", "roberta", "xlm-roberta", "camembert", "distilbert"];

/// The names of tensors. All but `layer` belong to a layer.
struct Names {
    layer: &'static str,
    query_key_value: [&'static str; 3],
    attention_output: &'static str,
    attention_norm: &'static str,
    intermediate: &'static str,
    output: &'static str,
    output_norm: &'static str,
    /// Whether tokens have types.
    has_types: bool,
}

/// The names of BERT and RoBERTa.
const BERT: Names = Names {
    layer: "encoder.layer",
    query_key_value: ["attention.self.query", "attention.self.key", "attention.self.value"],
    attention_output: "attention.output.dense",
    attention_norm: "attention.output.LayerNorm",
    intermediate: "intermediate.dense",
    output: "output.dense",
    output_norm: "output.LayerNorm",
    has_types: true,
};

const DISTILBERT: Names = Names {
    layer: "transformer.layer",
    query_key_value: ["attention.q_lin", "attention.k_lin", "attention.v_lin"],
    attention_output: "attention.out_lin",
    attention_norm: "sa_layer_norm",
    intermediate: "ffn.lin1",
    output: "ffn.lin2",
    output_norm: "output_layer_norm",
    has_types: false,
};

/// What may precede the names of tensors, in models that were saved with another layer.
const PREFIXES: [&str; 4] = ["", "bert.", "roberta.", "distilbert."];

/// A BERT model.
#[derive(Debug)]
pub(crate) struct Bert {
    hidden: usize,
    heads: usize,
    /// The vector of each token.
    words: Vec<f32>,
    /// The vector of each position, from the first that a token can have.
    positions: Vec<f32>,
    norm: LayerNorm,
    layers: Vec<Layer>,
}

/// A layer of the transformer.
#[derive(Debug)]
struct Layer {
    /// Queries, keys and values.
    query_key_value: Linear,
    attention_output: Linear,
    attention_norm: LayerNorm,
    intermediate: Linear,
    output: Linear,
    output_norm: LayerNorm,
}

/// Scales each row to mean 0 and variance 1, and then each column by a factor and an offset.
#[derive(Debug)]
struct LayerNorm {
    factors: Vec<f32>,
    offsets: Vec<f32>,
    epsilon: f32,
}

impl LayerNorm {
    fn new(file: &Weights<'_>, name: &str, config: &BertConfig) -> Result<Self, EncoderError> {
        Ok(Self {
            factors: file.values(&format!("{name}.weight"), &[config.hidden_size])?,
            offsets: file.values(&format!("{name}.bias"), &[config.hidden_size])?,
            epsilon: config.layer_norm_eps,
        })
    }

    fn apply(&self, rows: &mut [f32]) {
        let columns = self.factors.len();
        for row in rows.chunks_exact_mut(columns) {
            let mean = row.iter().sum::<f32>() / columns as f32;
            let squares = row.iter().map(|value| (value - mean) * (value - mean));
            let variance = squares.sum::<f32>() / columns as f32;
            let scale = 1.0 / (variance + self.epsilon).sqrt();
            for ((value, factor), offset) in row.iter_mut().zip(&self.factors).zip(&self.offsets) {
                *value = (*value - mean) * scale * factor + offset;
            }
        }
    }
}

impl Bert {
    /// Reads the weights of a model.
    pub(crate) fn new(file: &Weights<'_>, config: &BertConfig) -> Result<Self, EncoderError> {
        let has_words =
            |prefix: &&&str| file.contains(&format!("{prefix}embeddings.word_embeddings.weight"));
        let prefix = PREFIXES.iter().find(has_words).copied().unwrap_or("");
        let names = config.names();
        let hidden = config.hidden_size;
        let table = |name: &str, rows: usize| {
            file.values(&format!("{prefix}embeddings.{name}_embeddings.weight"), &[rows, hidden])
        };
        let mut positions = table("position", config.max_position_embeddings)?;
        positions.drain(..config.first_position() * hidden);
        if names.has_types {
            let types = format!("{prefix}embeddings.token_type_embeddings.weight");
            let (types, shape) = file.values_and_shape(&types)?;
            if shape.get(1) != Some(&hidden) {
                let what = format!("the token type embeddings have the shape {shape:?}");
                return Err(file.error(what));
            }
            for position in positions.chunks_exact_mut(hidden) {
                // All tokens are of the first type.
                position.iter_mut().zip(&types).for_each(|(value, of_type)| *value += of_type);
            }
        }
        let layer = |number: usize| {
            let name = |part: &str| format!("{prefix}{}.{number}.{part}", names.layer);
            let linear = |parts: &[&str], inputs, outputs| {
                let names: Vec<String> = parts.iter().map(|part| name(part)).collect();
                Linear::new(file, &names, inputs, outputs)
            };
            let norm = |part: &str| LayerNorm::new(file, &name(part), config);
            let inner = config.intermediate_size;
            Ok(Layer {
                query_key_value: linear(&names.query_key_value, hidden, hidden)?,
                attention_output: linear(&[names.attention_output], hidden, hidden)?,
                attention_norm: norm(names.attention_norm)?,
                intermediate: linear(&[names.intermediate], hidden, inner)?,
                output: linear(&[names.output], inner, hidden)?,
                output_norm: norm(names.output_norm)?,
            })
        };
        Ok(Self {
            hidden,
            heads: config.num_attention_heads,
            words: table("word", config.vocab_size)?,
            positions,
            norm: LayerNorm::new(file, &format!("{prefix}embeddings.LayerNorm"), config)?,
            layers: (0..config.num_hidden_layers).map(layer).collect::<Result<_, _>>()?,
        })
    }

    pub(crate) fn dimension(&self) -> usize {
        self.hidden
    }

    /// The number of tokens that have vectors.
    pub(crate) fn token_count(&self) -> usize {
        self.words.len() / self.hidden
    }

    /// Returns the vectors of the last layer for the tokens of several texts, one row per token.
    pub(crate) fn encode(&self, texts: &[Vec<u32>]) -> Vec<f32> {
        let hidden = self.hidden;
        let mut rows = Vec::with_capacity(texts.iter().map(Vec::len).sum::<usize>() * hidden);
        let mut ranges: Vec<Range<usize>> = Vec::with_capacity(texts.len());
        for tokens in texts {
            let start = rows.len() / hidden;
            for (&token, position) in tokens.iter().zip(self.positions.chunks_exact(hidden)) {
                let word = &self.words[token as usize * hidden..][..hidden];
                rows.extend(word.iter().zip(position).map(|(word, position)| word + position));
            }
            ranges.push(start..rows.len() / hidden);
        }
        self.norm.apply(&mut rows);
        for layer in &self.layers {
            let attended = self.attend(&layer.query_key_value.apply(&rows), &ranges);
            add(&mut rows, &layer.attention_output.apply(&attended));
            layer.attention_norm.apply(&mut rows);
            let mut inner = layer.intermediate.apply(&rows);
            for value in &mut inner {
                *value = gelu(*value);
            }
            add(&mut rows, &layer.output.apply(&inner));
            layer.output_norm.apply(&mut rows);
        }
        rows
    }

    /// Returns the means of the values of each text, weighted by the similarity of queries and keys
    /// (Vaswani et al. 2017, §3.2). A row of `query_key_value` contains the query, key and value of
    /// a token for all heads.
    fn attend(&self, query_key_value: &[f32], texts: &[Range<usize>]) -> Vec<f32> {
        let hidden = self.hidden;
        let stride = 3 * hidden;
        let width = hidden / self.heads;
        let scale = 1.0 / (width as f32).sqrt();
        let mut means = vec![0.0; query_key_value.len() / 3];
        let mut weights = Vec::new();
        for text in texts.iter().filter(|text| !text.is_empty()) {
            let length = text.len();
            weights.resize(length * length, 0.0);
            for head in 0..self.heads {
                let part = |part: usize| {
                    let start = text.start * stride + part * hidden + head * width;
                    View::rows(&query_key_value[start..], length, width, stride)
                };
                multiply(part(0), part(1).transposed(), &mut weights, length);
                weights.chunks_exact_mut(length).for_each(|row| softmax(row, scale));
                let weights = View::rows(&weights, length, length, length);
                let start = text.start * hidden + head * width;
                multiply(weights, part(2), &mut means[start..], hidden);
            }
        }
        means
    }
}

fn add(rows: &mut [f32], others: &[f32]) {
    rows.iter_mut().zip(others).for_each(|(value, other)| *value += other);
}

/// Replaces x by exp(scale · x), divided by the sum of these values.
fn softmax(row: &mut [f32], scale: f32) {
    let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    for value in &mut *row {
        *value = exp_of_negative((*value - max) * scale);
    }
    let sum: f32 = row.iter().sum();
    for value in row {
        *value /= sum;
    }
}

/// The Gaussian error linear unit x · Φ(x), with the approximation of erf by Abramowitz and Stegun
/// (1964), 7.1.26. Its absolute error is at most 1.5e-7.
fn gelu(x: f32) -> f32 {
    let z = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * z);
    let polynomial = ((((1.061_405_4 * t - 1.453_152) * t + 1.421_413_7) * t - 0.284_496_74) * t
        + 0.254_829_6)
        * t;
    let erf = 1.0 - polynomial * exp_of_negative(-z * z);
    0.5 * x * (1.0 + erf.copysign(x))
}

/// Returns exp(x) for x ≤ 0, and exp(-87) for smaller x. The relative error is at most 2.5e-7.
///
/// Most of the time of a naive implementation is spent here, so there are no branches, which lets
/// the compiler compute several values at a time: x = n · ln 2 + r with |r| ≤ ln 2 / 2, exp(r) is a
/// Taylor polynomial, and 2ⁿ is made from its bits.
fn exp_of_negative(x: f32) -> f32 {
    /// Adding 1.5 · 2²³ rounds to an integer, which is then in the lowest bits.
    const ROUNDS: f32 = 12_582_912.0;
    /// The sum of both parts is ln 2. The product of the first with n is exact.
    const LN_2: [f32; 2] = [0.693_359_4, -0.000_212_194_44];
    let x = x.max(-87.0);
    let shifted = x * std::f32::consts::LOG2_E + ROUNDS;
    let n = shifted - ROUNDS;
    let r = x - n * LN_2[0] - n * LN_2[1];
    let polynomial = [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0]
        .iter()
        .fold(0.0, |sum, coefficient| sum * r + coefficient);
    polynomial * f32::from_bits(shifted.to_bits().wrapping_add(127) << 23)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_function() {
        for step in 0..=870_000u32 {
            let x = -f64::from(step) / 10_000.0;
            #[expect(clippy::cast_possible_truncation, reason = "the input has 32 bits")]
            let x = x as f32;
            let expected = libm::exp(f64::from(x));
            let error = (f64::from(exp_of_negative(x)) - expected) / expected;
            assert!(error.abs() <= 2.5e-7, "{x}: {error:e}");
        }
        assert!(exp_of_negative(f32::NEG_INFINITY) < 1e-37);
    }
}
