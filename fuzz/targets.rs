//! What each fuzz target does with its bytes. `tests/fuzz_seeds.rs` replays the seeds through
//! the same functions.

use std::sync::Arc;

use classify::analyze::{
    Analyzer, AnalyzerSpec, Case, CharScope, NgramRange, Normalization, Stemmer, Words,
};
use classify::corpus::{
    Corpus, Document, Format, LabelUse, OnBadUtf8, Qrels, ReadOptions, Split, encoding_for_label,
};

/// Every stemmer on the text; the fast paths against the slow one under the settings that the
/// first byte picks.
pub fn analyze(data: &[u8]) {
    let Some((&settings, text)) = data.split_first() else { return };
    let text = String::from_utf8_lossy(text);
    for stemmer in Stemmer::all() {
        for word in text.split_whitespace() {
            let _ = stemmer.stem(word);
            let _ = stemmer.stem(&word.to_lowercase());
        }
    }
    let bit = |n: u8| settings >> n & 1 == 1;
    let spec = AnalyzerSpec {
        normalization: [Normalization::Nfkc, Normalization::None][usize::from(bit(0))],
        case: [Case::Fold, Case::Lower, Case::Keep][usize::from(settings >> 1 & 3) % 3],
        words: [Words::Unicode, Words::WordCharacters, Words::Whitespace]
            [usize::from(settings >> 3 & 3) % 3],
        fold_accents: bit(5),
        stemmer: bit(6).then(|| Stemmer::all().nth(text.len() % 18)).flatten(),
        word_ngrams: NgramRange::new(1, 1 + usize::from(bit(7))),
        char_ngrams: NgramRange::new(2, 3).filter(|_| bit(7)),
        char_scope: CharScope::Word,
        ..AnalyzerSpec::default()
    };
    let analyzer = Analyzer::new(spec);
    assert_eq!(analyzer.terms(&text), analyzer.terms_slowly(&text));
}

fn read(data: &[u8], options: ReadOptions) -> Vec<Document> {
    let Ok(corpus) = Corpus::from_bytes("fuzz", data.to_vec(), options) else { return Vec::new() };
    let mut documents = Vec::new();
    for document in corpus {
        match document {
            Ok(document) => documents.push(document),
            Err(error) => {
                assert!(!error.to_string().is_empty());
                break;
            }
        }
    }
    documents
}

fn read_as(data: &[u8], format: Format) {
    for labels in [LabelUse::Required, LabelUse::Optional] {
        for on_bad_utf8 in [OnBadUtf8::Error, OnBadUtf8::Replace] {
            let format = Some(format);
            read(data, ReadOptions { format, labels, on_bad_utf8, ..ReadOptions::default() });
        }
    }
}

pub fn jsonl(data: &[u8]) {
    read_as(data, Format::Jsonl);
    let text_columns = vec!["title".into(), "body".into()];
    let label_separator = Some(",".into());
    let format = Some(Format::Jsonl);
    read(data, ReadOptions { format, text_columns, label_separator, ..ReadOptions::default() });
}

pub fn delimited(data: &[u8]) {
    read_as(data, Format::Csv);
    read_as(data, Format::Tsv);
}

pub fn fasttext(data: &[u8]) {
    read_as(data, Format::FastText);
}

/// One document a line, whatever the line.
pub fn plain(data: &[u8]) {
    let format = Some(Format::Plain);
    let labels = LabelUse::Optional;
    let on_bad_utf8 = OnBadUtf8::Replace;
    let options = ReadOptions { format, labels, on_bad_utf8, ..ReadOptions::default() };
    read(data, options);
}

pub fn svmlight(data: &[u8]) {
    read_as(data, Format::Svmlight);
    let options = |first| ReadOptions {
        format: Some(Format::Svmlight),
        first_column: Some(first),
        ..ReadOptions::default()
    };
    read(data, options(0));
}

pub fn reuters(data: &[u8]) {
    read_as(data, Format::Reuters);
    for split in [Split::Train, Split::Test] {
        let format = Some(Format::Reuters);
        read(data, ReadOptions { format, split, ..ReadOptions::default() });
    }
}

pub fn lyrl2004(data: &[u8]) {
    read_as(data, Format::Lyrl2004Tokens);
    read_as(data, Format::Lyrl2004Vectors);
    if let Ok(qrels) = Qrels::from_bytes("fuzz", data.to_vec()) {
        let qrels = Some(Arc::new(qrels));
        let format = Some(Format::Lyrl2004Vectors);
        read(data, ReadOptions { format, qrels, ..ReadOptions::default() });
    }
}

/// Decompression, encodings and detection: the first byte picks the encoding.
pub fn source(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else { return };
    let labels = ["utf-8", "latin-1", "utf-16le", "utf-16be", "shift_jis", "gb18030", "euc-kr"];
    let encoding = encoding_for_label(labels[usize::from(choice) % labels.len()]);
    for on_bad_utf8 in [OnBadUtf8::Error, OnBadUtf8::Replace] {
        for use_of_labels in [LabelUse::Required, LabelUse::Optional] {
            let options = ReadOptions {
                encoding,
                on_bad_utf8,
                labels: use_of_labels,
                ..ReadOptions::default()
            };
            read(data, options);
        }
    }
}

/// Opens the bytes as a model and, if they are one, classifies with it.
pub fn model(_data: &[u8]) {
}
