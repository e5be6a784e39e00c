//! Splits texts into tokens.

use std::path::Path;

use tokenizers::{PostProcessor as _, Tokenizer, TruncationParams};

use crate::error::{EncoderError, Problem, at};

/// A tokenizer that cuts texts after a maximum number of tokens.
#[derive(Debug)]
pub(crate) struct Tokens {
    tokenizer: Tokenizer,
    /// Whether special tokens, such as `[CLS]`, are added.
    adds_special: bool,
}

impl Tokens {
    /// Reads `tokenizer.json`. The padding and truncation of the file are replaced.
    pub(crate) fn new(
        file: &Path,
        bytes: &[u8],
        max_tokens: Option<usize>,
        adds_special: bool,
    ) -> Result<Self, EncoderError> {
        let failed = |error: tokenizers::Error| {
            at(file)(Problem::Tokenizer(format!("not a tokenizer: {error}")))
        };
        let mut tokenizer = Tokenizer::from_bytes(bytes).map_err(failed)?;
        tokenizer.with_padding(None);
        let special = tokenizer.get_post_processor().map_or(0, |post| post.added_tokens(false));
        if let Some(limit) = max_tokens.filter(|&limit| limit <= special) {
            let what = format!("{special} special tokens leave no room for text in {limit} tokens");
            return Err(at(file)(Problem::Tokenizer(what)));
        }
        let truncation =
            max_tokens.map(|max_length| TruncationParams { max_length, ..Default::default() });
        tokenizer.with_truncation(truncation).map_err(failed)?;
        Ok(Self { tokenizer, adds_special })
    }

    /// Returns the tokens of a text. A text that cannot be split has no tokens.
    pub(crate) fn of(&self, text: &str) -> Vec<u32> {
        self.tokenizer
            .encode_fast(text, self.adds_special)
            .map_or_else(|_| Vec::new(), |encoding| encoding.get_ids().to_vec())
    }

    /// Returns the number of a token.
    pub(crate) fn number(&self, token: &str) -> Option<u32> {
        self.tokenizer.token_to_id(token)
    }

    /// Returns one more than the highest number of a token.
    pub(crate) fn count(&self) -> usize {
        let numbers = self.tokenizer.get_vocab(true);
        numbers.values().max().map_or(0, |&number| number as usize + 1)
    }

    /// Returns the median length of all tokens, in characters.
    pub(crate) fn median_length(&self) -> usize {
        let vocabulary = self.tokenizer.get_vocab(true);
        let mut lengths: Vec<usize> =
            vocabulary.keys().map(|token| token.chars().count()).collect();
        lengths.sort_unstable();
        match lengths.len() {
            0 => 1,
            count if count % 2 == 1 => lengths[count / 2],
            count => usize::midpoint(lengths[count / 2 - 1], lengths[count / 2]),
        }
    }
}
