//! Maps characters to bytes for kernels that compare words.

use std::collections::HashMap;

use crate::points::Points;

/// The code shared by the rarest characters.
const RARE_CODE: u8 = 254;
/// The code of characters that occur in no stored word.
const UNKNOWN_CODE: u8 = 255;

/// A mapping from the characters of a set of words to one-byte codes. The most frequent characters
/// have the lowest codes.
///
/// If there are more than 255 different characters, the rarest share one code. Stored words are
/// never compared with each other, so only a query with the shared code is ambiguous.
/// [`encode_query`](Self::encode_query) rejects such queries.
///
/// ```
/// use metric_index::gpu::Alphabet;
/// use metric_index::points::Strings;
///
/// let words: Strings = ["casa", "pez"].into_iter().collect();
/// let alphabet = Alphabet::of_words(&words);
/// assert_eq!(alphabet.encode("aa"), [0, 0]);
/// assert_eq!(alphabet.encode_query("casa", 4), Some(alphabet.encode("casa")));
/// assert_eq!(alphabet.encode_query("casas", 4), None);
/// ```
#[derive(Debug)]
pub struct Alphabet {
    /// The codes of the characters below 2^16.
    basic: Vec<u8>,
    others: HashMap<char, u8>,
    /// Whether several characters share the code [`RARE_CODE`].
    is_shared: bool,
}

impl Alphabet {
    /// Assigns codes to the characters of the words.
    ///
    /// # Panics
    /// Panics if there are 2^32 words or more.
    pub fn of_words<S: Points<Point = str>>(words: &S) -> Self {
        let count = u32::try_from(words.len()).expect("fewer than 2^32 words");
        let mut frequencies: HashMap<char, u64> = HashMap::new();
        for word in 0..count {
            for character in words.point(word).chars() {
                *frequencies.entry(character).or_default() += 1;
            }
        }
        let mut all: Vec<(char, u64)> = frequencies.into_iter().collect();
        all.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        let is_shared = all.len() > usize::from(RARE_CODE) + 1;
        let mut alphabet =
            Self { basic: vec![UNKNOWN_CODE; 1 << 16], others: HashMap::new(), is_shared };
        for (rank, (character, _)) in all.into_iter().enumerate() {
            let code = u8::try_from(rank).unwrap_or(RARE_CODE).min(RARE_CODE);
            match alphabet.basic.get_mut(character as usize) {
                Some(basic) => *basic = code,
                None => {
                    alphabet.others.insert(character, code);
                }
            }
        }
        alphabet
    }

    fn code(&self, character: char) -> u8 {
        match self.basic.get(character as usize) {
            Some(&code) => code,
            None => self.others.get(&character).copied().unwrap_or(UNKNOWN_CODE),
        }
    }

    /// Encodes a word, one code per character.
    pub fn encode(&self, word: &str) -> Vec<u8> {
        word.chars().map(|character| self.code(character)).collect()
    }

    /// Encodes a query. Returns `None` if the query has more than `max_length` characters, or a
    /// character whose code is shared.
    pub fn encode_query(&self, text: &str, max_length: usize) -> Option<Vec<u8>> {
        let mut codes = Vec::with_capacity(text.len().min(max_length));
        for character in text.chars() {
            let code = self.code(character);
            // A shared code is ambiguous.
            if codes.len() == max_length || (code == RARE_CODE && self.is_shared) {
                return None;
            }
            codes.push(code);
        }
        Some(codes)
    }
}
