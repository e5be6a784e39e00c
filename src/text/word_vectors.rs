//! Reads word-vector files: word2vec (text and binary), `GloVe`, fastText's `.vec`.

use std::io::{BufRead, Read};
use std::path::Path;

use crate::limits::LimitedReader;
use crate::rows::dense::{MAX_ABS_VALUE, MAX_DIMENSIONS, Projection, Vectors};
use crate::text::analyze::Analyzer;
use crate::text::corpus::{CorpusError, Place, Problem, open_bytes, read_error};
use crate::text::vocabulary::Vocabulary;

/// The maximum number of bytes of a line, or of a word and its vector in a binary file.
const MAX_LINE_BYTES: u64 = 1 << 24;
/// The magic number of fastText model files.
const FAST_TEXT_MAGIC: u32 = 793_712_314;

/// The word vectors of a vocabulary's terms.
#[derive(Debug, Clone)]
pub struct WordVectors {
    /// The projection from term weights to the weighted mean of the word vectors. Terms without a
    /// vector are ignored.
    pub projection: Projection,
    /// The number of terms of the vocabulary that have a vector.
    pub known: usize,
}

impl WordVectors {
    /// Reads the vectors of the words that are in a vocabulary. The file may be compressed. A name
    /// that ends in `.bin` (or `.bin.gz`, …) indicates word2vec's binary format. All other files
    /// are text, optionally with the numbers of words and dimensions in the first line.
    ///
    /// A word is looked up unchanged, then after analysis (`Apple` → `apple`, stems). The vector of
    /// a word that equals the term takes precedence. Otherwise, the first matching word is used.
    ///
    /// # Errors
    /// If the file cannot be read or is invalid. The error contains the line or the number of the
    /// word.
    pub fn read(
        path: &Path,
        vocabulary: &Vocabulary,
        analyzer: &Analyzer,
    ) -> Result<Self, CorpusError> {
        let name = path.to_string_lossy();
        let is_binary = name.to_lowercase().split('.').rev().take(2).any(|ending| ending == "bin");
        Self::from_stream(&name, open_bytes(path)?, is_binary, vocabulary, analyzer)
    }

    /// Reads the vectors from an uncompressed stream. Error messages refer to it as `name`.
    ///
    /// # Errors
    /// See [`read`](Self::read).
    pub fn from_stream(
        name: &str,
        stream: impl BufRead,
        is_binary: bool,
        vocabulary: &Vocabulary,
        analyzer: &Analyzer,
    ) -> Result<Self, CorpusError> {
        let place = Place { source: name.into(), line: None };
        let file = LimitedReader::new(stream, "a line", MAX_LINE_BYTES);
        let mut reader = Reader { file, place, line: 0, bytes: Vec::new() };
        let mut table = VectorTable::new(vocabulary, analyzer);
        if is_binary {
            reader.read_binary(&mut table)?;
        } else {
            reader.read_text(&mut table)?;
        }
        let VectorTable { values, dimension, ranks, .. } = table;
        let known = ranks.iter().filter(|&&rank| rank > 0).count();
        let invalid = |what: String| Problem::WordVectors { what }.at(&reader.place);
        let terms = Vectors::new(dimension, values)
            .map_err(|_| invalid("the file contains no word vectors".to_owned()))?;
        if known == 0 {
            return Err(invalid("the file contains no words of this corpus".to_owned()));
        }
        Ok(Self { projection: Projection { terms, is_mean: true }, known })
    }
}

/// The vectors of terms found so far.
struct VectorTable<'a> {
    vocabulary: &'a Vocabulary,
    analyzer: &'a Analyzer,
    dimension: usize,
    /// The vector of each term, or zeros.
    values: Vec<f32>,
    /// The rank of each term's vector: 0 if it has none, 1 if its word was changed by the analyzer,
    /// 2 if its word equals the term.
    ranks: Vec<u8>,
}

impl<'a> VectorTable<'a> {
    fn new(vocabulary: &'a Vocabulary, analyzer: &'a Analyzer) -> Self {
        let ranks = vec![0; vocabulary.len()];
        Self { vocabulary, analyzer, dimension: 0, values: Vec::new(), ranks }
    }

    /// Sets the dimension of all vectors.
    fn set_dimension(&mut self, dimension: usize) -> Result<(), String> {
        if dimension == 0 || dimension > MAX_DIMENSIONS {
            return Err(format!(
                "vectors of {dimension} dimensions, expected 1 to {MAX_DIMENSIONS}"
            ));
        }
        self.dimension = dimension;
        self.values = vec![0.0; dimension * self.ranks.len()];
        Ok(())
    }

    /// Returns the term of a word and the rank of the match. Returns `None` if the word is not in
    /// the vocabulary or the term has a vector of at least this rank.
    fn find_term(&self, word: &str) -> Option<(u32, u8)> {
        let found = self.vocabulary.id(word).map(|term| (term, 2)).or_else(|| {
            let terms = self.analyzer.terms(word);
            let [term] = &terms[..] else { return None };
            Some((self.vocabulary.id(term)?, 1))
        });
        found.filter(|&(term, rank)| self.ranks[term as usize] < rank)
    }

    fn set(
        &mut self,
        term: u32,
        rank: u8,
        vector: impl Iterator<Item = Result<f32, String>>,
    ) -> Result<(), String> {
        let term = term as usize;
        self.ranks[term] = rank;
        let slot = &mut self.values[term * self.dimension..][..self.dimension];
        for (number, (value, slot)) in (1..).zip(vector.zip(slot)) {
            let value = value?;
            if !value.is_finite() || value.abs() > MAX_ABS_VALUE {
                let problem = Problem::VectorValue { number, value };
                return Err(problem.to_string());
            }
            *slot = value;
        }
        Ok(())
    }
}

struct Reader<B> {
    file: LimitedReader<B>,
    place: Place,
    line: u64,
    bytes: Vec<u8>,
}

impl<B: BufRead> Reader<B> {
    fn invalid(&self, what: String) -> CorpusError {
        let line = (self.line > 0).then_some(self.line);
        Problem::WordVectors { what }.at(&Place { line, ..self.place.clone() })
    }

    /// Reads the next line and strips trailing whitespace. Returns false at the end of the file.
    fn next_line(&mut self) -> Result<bool, CorpusError> {
        self.bytes.clear();
        self.file.restart(0);
        self.line += 1;
        let read = self.file.read_until(b'\n', &mut self.bytes);
        let place = || Place { line: Some(self.line), ..self.place.clone() };
        let read = read.map_err(|error| read_error(error, &place()))?;
        while self.bytes.last().is_some_and(u8::is_ascii_whitespace) {
            self.bytes.pop();
        }
        Ok(read > 0)
    }

    fn read_text(&mut self, table: &mut VectorTable<'_>) -> Result<(), CorpusError> {
        let mut words = 0u64;
        let mut declared_words = None;
        while self.next_line()? {
            if self.line == 1 && self.bytes.len() >= 3 {
                self.reject_fast_text_model()?;
                if let Some((count, dimension)) = parse_header(&self.bytes) {
                    table.set_dimension(dimension).map_err(|what| self.invalid(what))?;
                    declared_words = Some(count);
                    continue;
                }
            }
            if self.bytes.is_empty() {
                continue;
            }
            let outcome = read_text_line(&self.bytes, table);
            outcome.map_err(|what| self.invalid(what))?;
            words += 1;
        }
        self.line = 0;
        match declared_words {
            _ if words == 0 => Err(self.invalid("the file contains no word vectors".to_owned())),
            Some(declared_words) if words < declared_words => {
                let what = format!(
                    "the file ends after {words} words; the first line declares {declared_words}"
                );
                Err(self.invalid(what))
            }
            _ => Ok(()),
        }
    }

    fn reject_fast_text_model(&self) -> Result<(), CorpusError> {
        if self.bytes.starts_with(&FAST_TEXT_MAGIC.to_le_bytes()) {
            let what = "this is a fastText model, which is not supported; use its .vec file";
            return Err(self.invalid(what.to_owned()));
        }
        Ok(())
    }

    fn read_binary(&mut self, table: &mut VectorTable<'_>) -> Result<(), CorpusError> {
        self.next_line()?;
        self.reject_fast_text_model()?;
        let Some((words, dimension)) = parse_header(&self.bytes) else {
            let what = "the first line is not `WORDS DIMENSIONS` of word2vec's binary format";
            return Err(self.invalid(what.to_owned()));
        };
        table.set_dimension(dimension).map_err(|what| self.invalid(what))?;
        self.line = 0;
        let mut vector = vec![0; dimension * 4];
        for number in 1..=words {
            self.file.restart(0);
            self.bytes.clear();
            let read = self.file.read_until(b' ', &mut self.bytes);
            let read = read.and_then(|_| self.file.read_exact(&mut vector));
            if let Err(error) = read {
                let what = format!("the file ends at word {number} of {words}: {error}");
                return Err(self.invalid(what));
            }
            // word2vec writes a line end after each vector; other programs do not.
            let word = self.bytes.strip_prefix(b"\n").unwrap_or(&self.bytes);
            let word = word.strip_suffix(b" ").unwrap_or(word);
            let found = std::str::from_utf8(word).ok().and_then(|word| table.find_term(word));
            if let Some((term, rank)) = found {
                let values = vector
                    .chunks_exact(4)
                    .map(|four| Ok(f32::from_le_bytes([four[0], four[1], four[2], four[3]])));
                let set = table.set(term, rank, values);
                set.map_err(|what| self.invalid(format!("word {number}: {what}")))?;
            }
        }
        Ok(())
    }
}

/// Parses a header, which contains only the numbers of words and dimensions.
fn parse_header(line: &[u8]) -> Option<(u64, usize)> {
    let line = std::str::from_utf8(line).ok()?;
    let mut numbers = line.split_ascii_whitespace();
    let header = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
    numbers.next().is_none().then_some(header)
}

/// Reads a word and its vector. Words may contain spaces, so the numbers are counted from the end
/// of the line.
fn read_text_line(line: &[u8], table: &mut VectorTable<'_>) -> Result<(), String> {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    if table.dimension == 0 {
        let items = line.split(is_blank).filter(|item| !item.is_empty()).count();
        table.set_dimension(items.saturating_sub(1))?;
    }
    let mut start = line.len();
    for number in 0..table.dimension {
        let Some(blank) = line[..start].iter().rposition(is_blank) else {
            return Err(format!("{number} numbers after a word, expected {}", table.dimension));
        };
        // Skip repeated blanks.
        let last_byte = line[..blank].iter().rposition(|byte| !is_blank(byte));
        start = last_byte.map_or(0, |index| index + 1);
    }
    let (word, numbers) = line.split_at(start);
    // Words that are not UTF-8, which some files contain, never match.
    let Some((term, rank)) = std::str::from_utf8(word).ok().and_then(|word| table.find_term(word))
    else {
        return Ok(());
    };
    let numbers = numbers.split(is_blank).filter(|number| !number.is_empty()).map(|number| {
        let number = String::from_utf8_lossy(number);
        number.parse().map_err(|_| format!("`{number}` is not a number"))
    });
    table.set(term, rank, numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::strings::Strings;
    use crate::text::analyze::AnalyzerSpec;
    use crate::text::vocabulary::TermKind;

    fn read(name: &str, bytes: &[u8]) -> Result<WordVectors, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let terms: Strings = ["apple", "bread", "stone"].into_iter().collect();
        let vocabulary = Vocabulary::new(TermKind::Text, terms, vec![1u32; 3].into()).unwrap();
        let analyzer = Analyzer::new(AnalyzerSpec::default());
        let read = WordVectors::read(&path, &vocabulary, &analyzer);
        read.map_err(|error| error.to_string().rsplit_once('/').unwrap().1.to_owned())
    }

    fn rows(found: &WordVectors) -> Vec<&[f32]> {
        (0..3).map(|row| found.projection.terms().row(row)).collect()
    }

    #[test]
    fn every_format() {
        // `Apple` is first, but `apple` equals the term.
        let text = "Apple 9 9\nBREAD  1 2\napple 0.5 -1e-1\n. . 7 7\nbread 3 4\nBread 8 8\n\n";
        let with_header = format!("6 2\n{}", text.replace('\n', " \n"));
        let mut binary = b"3 2\n".to_vec();
        for (word, vector) in [("apple", [0.5f32, -0.1]), ("x y", [1.0; 2]), ("bread", [3.0, 4.0])]
        {
            let word = word.replace(' ', "\u{a0}");
            binary.extend_from_slice(word.as_bytes());
            binary.push(b' ');
            for x in vector {
                binary.extend_from_slice(&x.to_le_bytes());
            }
            binary.push(b'\n');
        }
        let without_newline: Vec<u8> =
            [&b"1 2\nbread "[..], &3f32.to_le_bytes(), &4f32.to_le_bytes()].concat();
        for (name, bytes) in [
            ("glove.txt", text.as_bytes()),
            ("wiki.vec", with_header.as_bytes()),
            ("w.bin", &binary),
        ] {
            let found = read(name, bytes).unwrap();
            assert_eq!(rows(&found), [&[0.5, -0.1][..], &[3.0, 4.0], &[0.0, 0.0]], "{name}");
            assert_eq!(found.known, 2);
        }
        assert_eq!(read("one.bin", &without_newline).unwrap().known, 1);
    }

    #[test]
    fn errors_are_explained() {
        for (name, bytes, message) in [
            ("a.txt", &b"bread 1 2\nstone 1\n"[..], "a.txt:2: 1 numbers after a word, expected 2"),
            ("a.txt", b"bread 1 2\nstone 1 x\n", "a.txt:2: `x` is not a number"),
            ("a.txt", b"bread 1 nan\n", "a.txt:1: value 2 of the vector is NaN"),
            ("a.txt", b"bread 1 1e38\n", "a.txt:1: value 2 of the vector is"),
            ("a.txt", b"", "a.txt: the file contains no word vectors"),
            ("a.txt", b"5 2\n", "a.txt: the file contains no word vectors"),
            (
                "a.txt",
                b"3 2\nbread 1 2\nwood 1 2\n",
                "the file ends after 2 words; the first line declares 3",
            ),
            ("a.txt", b"1 3\nbread 1 2\n", "a.txt:2: 2 numbers after a word, expected 3"),
            ("a.txt", b"wood 1 2\n", "a.txt: the file contains no words of this corpus"),
            ("a.txt", b"bread\n", "a.txt:1: vectors of 0 dimensions"),
            ("a.txt", b"\xba\x16\x4f\x2f\0\0", "fastText model"),
            ("model.bin", b"\xba\x16\x4f\x2f\0\0\n", "fastText model"),
            ("a.bin", b"words and no numbers\n", "a.bin:1: the first line"),
            ("a.bin", b"2 2\nbread 12345678", "the file ends at word 2 of 2"),
            ("a.bin", b"2 99999999999\n", "dimensions, expected 1 to"),
            ("a.bin", b"18446744073709551615 4\nbread 12", "the file ends at word 1"),
        ] {
            let error = read(name, bytes).unwrap_err();
            assert!(error.contains(message), "{error} for {message}");
        }
    }
}
