//! Arrays of concatenated strings: the ids, labels, terms and texts of a model.

use std::ops::Range;

use array_file::FileProblem;
use array_file::container::Container;
use safetensors::Dtype;

use crate::rows::matrix::Array;

/// The key of the settings in this program's files.
pub(crate) const FILE_KEY: &str = "classify";

/// A list of strings, in memory or mapped from a file.
#[derive(Debug, Clone)]
pub struct Strings {
    text: Array<u8>,
    offsets: Array<u64>,
}

impl Strings {
    /// Creates a list in which string `i` is `text[offsets[i]..offsets[i + 1]]`.
    ///
    /// # Errors
    /// If the text is not UTF-8, the offsets do not increase from 0 to the end of the text, or an
    /// offset splits a character. The error describes the problem.
    pub fn new(text: impl Into<Array<u8>>, offsets: impl Into<Array<u64>>) -> Result<Self, String> {
        let text = text.into();
        let offsets = offsets.into();
        let checked =
            std::str::from_utf8(&text).map_err(|_| "text that is not UTF-8".to_owned())?;
        if offsets.first() != Some(&0) || offsets.last() != Some(&(text.len() as u64)) {
            return Err("offsets that do not span the text".to_owned());
        }
        if !offsets.is_sorted()
            || !offsets.iter().all(|&offset| checked.is_char_boundary(narrow(offset)))
        {
            return Err("offsets that decrease or split a character".to_owned());
        }
        Ok(Self { text, offsets })
    }

    /// Reads strings from two arrays of a file: the concatenated text and the offsets.
    pub(crate) fn read(
        file: &mut Container,
        text: &str,
        offsets: &str,
    ) -> Result<Self, FileProblem> {
        let bytes: Array<u8> = file.array(text, Dtype::U8)?;
        let offsets: Array<u64> = file.array(offsets, Dtype::U64)?;
        Self::new(bytes, offsets).map_err(|what| FileProblem::invalid(text, what))
    }

    /// The number of strings.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Returns whether there are no strings.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns string `index`, or `None` if there is no such string.
    pub fn get(&self, index: usize) -> Option<&str> {
        let end = *self.offsets.get(index.checked_add(1)?)?;
        std::str::from_utf8(&self.text[narrow(self.offsets[index])..narrow(end)]).ok()
    }

    /// Returns all strings in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.len()).map(|index| self.get(index).unwrap_or_default())
    }

    /// Returns the bytes of string `index`.
    ///
    /// # Panics
    /// If there is no such string.
    pub(crate) fn bytes(&self, index: usize) -> &[u8] {
        &self.text[narrow(self.offsets[index])..narrow(self.offsets[index + 1])]
    }

    pub(crate) fn parts(&self) -> (&[u8], &[u64]) {
        (&self.text, &self.offsets)
    }
}

impl<S: AsRef<str>> FromIterator<S> for Strings {
    fn from_iter<I: IntoIterator<Item = S>>(strings: I) -> Self {
        let mut builder = StringsBuilder::default();
        for string in strings {
            builder.push(string.as_ref());
        }
        builder.build()
    }
}

/// A builder that concatenates strings.
#[derive(Debug, Clone)]
pub(crate) struct StringsBuilder {
    text: Vec<u8>,
    offsets: Vec<u64>,
}

impl Default for StringsBuilder {
    fn default() -> Self {
        Self { text: Vec::new(), offsets: vec![0] }
    }
}

impl StringsBuilder {
    pub(crate) fn push(&mut self, string: &str) {
        self.text.extend_from_slice(string.as_bytes());
        self.offsets.push(self.text.len() as u64);
    }

    /// Appends the strings in a range of indices.
    pub(crate) fn extend(&mut self, strings: &Strings, range: Range<usize>) {
        let offsets = &strings.offsets[range.start..=range.end];
        let text = narrow(offsets[0])..narrow(offsets[range.len()]);
        let start = self.text.len() as u64;
        self.offsets.extend(offsets[1..].iter().map(|&end| start + (end - offsets[0])));
        self.text.extend_from_slice(&strings.text[text]);
    }

    pub(crate) fn build(self) -> Strings {
        Strings { text: self.text.into(), offsets: self.offsets.into() }
    }
}

/// Converts an offset. Offsets that do not fit become `usize::MAX`.
fn narrow(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}
