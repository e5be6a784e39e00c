//! Static models: the mean of token vectors, as model2vec computes it.

use half::f16;

use crate::error::EncoderError;
use crate::tokens::Tokens;
use crate::weights::Weights;

/// A table of token vectors.
#[derive(Debug)]
pub(crate) struct StaticModel {
    dimension: usize,
    /// The vectors, row by row.
    vectors: Vec<f32>,
    /// Whether the vectors are stored in 16 bits. Their mean is then rounded to 16 bits, as
    /// model2vec does.
    is_half: bool,
    /// The weight of each token.
    weights: Option<Vec<f32>>,
    /// The row of each token. `None` if it is the number of the token.
    rows: Option<Vec<usize>>,
    /// A token to leave out, which stands for unknown text.
    pub(crate) unknown: Option<u32>,
    /// The maximum number of characters of a text; further characters are ignored.
    pub(crate) max_chars: Option<usize>,
}

impl StaticModel {
    /// Reads the table of a model whose tokens are `tokens`.
    pub(crate) fn new(
        file: &Weights<'_>,
        tensor: &str,
        tokens: &Tokens,
    ) -> Result<Self, EncoderError> {
        let (vectors, shape) = file.values_and_shape(tensor)?;
        let &[row_count, dimension] = &*shape else {
            return Err(file.error(format!("the tensor {tensor} is not a table, but {shape:?}")));
        };
        if dimension == 0 {
            return Err(file.error(format!("the vectors of the tensor {tensor} are empty")));
        }
        let is_half = file.is_half(tensor);
        let count = tokens.count();
        let is_in_table = |row: &i64| usize::try_from(*row).is_ok_and(|row| row < row_count);
        let rows = if file.contains("mapping") {
            let rows = file.integers("mapping")?;
            if rows.len() < count || !rows.iter().all(is_in_table) {
                let what = "the tensor mapping does not give each token a row of the table";
                return Err(file.error(what.to_owned()));
            }
            Some(rows.iter().filter_map(|&row| usize::try_from(row).ok()).collect())
        } else if row_count < count {
            return Err(file.error(format!(
                "the tensor {tensor} has {row_count} rows, but the tokenizer has {count} tokens"
            )));
        } else {
            None
        };
        let weights = if file.contains("weights") {
            let (weights, shape) = file.values_and_shape("weights")?;
            if weights.len() < count {
                return Err(file.error(format!("the tensor weights has the shape {shape:?}")));
            }
            Some(weights)
        } else {
            None
        };
        Ok(Self { dimension, vectors, is_half, weights, rows, unknown: None, max_chars: None })
    }

    pub(crate) fn dimension(&self) -> usize {
        self.dimension
    }

    /// Returns a value of an embedding with the precision of the table.
    pub(crate) fn rounded(&self, value: f32) -> f32 {
        if self.is_half { f16::from_f32(value).to_f32() } else { value }
    }

    /// Adds the mean vector of the tokens of `text` to `mean`, which is zero.
    pub(crate) fn encode(&self, tokens: &Tokens, text: &str, mean: &mut [f32]) {
        let end = self.max_chars.and_then(|max| text.char_indices().nth(max));
        let text = end.map_or(text, |(end, _)| &text[..end]);
        let mut count = 0f32;
        for token in tokens.of(text).into_iter().filter(|&token| Some(token) != self.unknown) {
            let token = token as usize;
            let row = self.rows.as_ref().map_or(token, |rows| rows[token]);
            let weight = self.weights.as_ref().map_or(1.0, |weights| weights[token]);
            let vector = &self.vectors[row * self.dimension..][..self.dimension];
            mean.iter_mut().zip(vector).for_each(|(sum, value)| *sum += value * weight);
            count += 1.0;
        }
        if count > 0.0 {
            for sum in mean {
                *sum = self.rounded(*sum / count);
            }
        }
    }
}
