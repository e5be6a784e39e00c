//! Corpus formats.

use std::fmt;

/// A corpus format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// One JSON object per line.
    Jsonl,
    /// A JSON array of objects, or JSON objects that span several lines.
    Json,
    /// Comma-separated values, by default with a header line.
    Csv,
    /// Tab-separated values, by default with a header line.
    Tsv,
    /// fastText lines: `__label__x __label__y text`.
    FastText,
    /// Annif lines: `text<TAB><uri> <uri>`.
    Annif,
    /// A folder of folders: each inner folder is a label, and each file in it a document.
    Folders,
    /// One document per line, without labels.
    Plain,
    /// svmlight / libsvm rows: `label,label column:value …`.
    Svmlight,
    /// Reuters-21578 SGML.
    Reuters,
    /// LYRL2004 token files: `.I id`, `.W`, lines of tokens.
    Lyrl2004Tokens,
    /// LYRL2004 vector files: `id  column:value …`.
    Lyrl2004Vectors,
}

impl Format {
    /// All formats, in the order of the documentation.
    pub const ALL: [Self; 12] = [
        Self::Jsonl,
        Self::Json,
        Self::Csv,
        Self::Tsv,
        Self::FastText,
        Self::Annif,
        Self::Folders,
        Self::Plain,
        Self::Svmlight,
        Self::Reuters,
        Self::Lyrl2004Tokens,
        Self::Lyrl2004Vectors,
    ];

    /// The name, such as `jsonl`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Json => "json",
            Self::Csv => "csv",
            Self::Tsv => "tsv",
            Self::FastText => "fasttext",
            Self::Annif => "annif",
            Self::Folders => "folders",
            Self::Plain => "plain",
            Self::Svmlight => "svmlight",
            Self::Reuters => "reuters",
            Self::Lyrl2004Tokens => "lyrl2004-tokens",
            Self::Lyrl2004Vectors => "lyrl2004-vectors",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
