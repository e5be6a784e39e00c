//! The functions of the fuzz targets. Each takes arbitrary bytes. `tests/fuzz_seeds.rs` replays the
//! seeds through the same functions.

use std::num::NonZeroUsize;
use std::sync::Arc;

use classify::classifier::Classifier;
use classify::decide::decision::DecisionOptions;
use classify::evaluate::{Comparison, SavedEvaluation, compare};
use classify::learn::{TrainOptions, Trainer, TuneOptions};
use classify::model::{Change, Collection, Model};
use classify::search::Engines;
use classify::text::analyze::{
    Analyzer, AnalyzerSpec, Case, CharScope, NgramRange, Normalization, Stemmer, Words,
};
use classify::text::corpus::{
    Content, Corpus, Document, Format, LabelFrequency, LabelUse, Notes, OnBadUtf8, Place, Qrels,
    Quoting, ReadOptions, Split, TableOptions, encoding_for_label, label_notes, normalized_label,
};
use classify::text::counts::ClassWeights;
use classify::text::hierarchy::Hierarchy;
use classify::text::word_vectors::WordVectors;
use classify::threads::Threads;
use serde_json::Value;

/// Runs every stemmer on the text. Compares the fast paths with the slow path, under settings that
/// the first byte selects.
pub(crate) fn analyze(data: &[u8]) {
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
    assert_eq!(analyzer.terms(&text), analyzer.reference_terms(&text));
}

/// Parses a hierarchy, and checks that every label has a level and that no label is its own
/// ancestor.
pub(crate) fn hierarchy(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(hierarchy) = Hierarchy::parse("fuzz", &text) else { return };
    for label in text.split(['\t', '\n', ' ', ':']).take(200) {
        assert!(!hierarchy.ancestors(label).contains(label));
        assert!(hierarchy.level(label) >= 1);
    }
}

/// Compares two evaluations, which are separated by a NUL byte. An evaluation does not differ from
/// itself. For two evaluations of the same documents, every interval contains its difference.
pub(crate) fn comparison(data: &[u8]) {
    let mut files = data.splitn(2, |&byte| byte == 0);
    let Some(Ok(first)) = files.next().map(SavedEvaluation::from_json) else { return };
    let threads = Threads::new(NonZeroUsize::MIN).expect("a thread");
    let others = [first.clone()];
    let compared = compare(&first, &others, 0, 0.05, &threads).expect("the same documents");
    assert!(!compared[0].is_worse(0.999));
    assert!(compared[0].tests.iter().all(|test| test.p_value >= 1.0), "{:?}", compared[0]);
    for (_, result) in compared[0].differences() {
        assert!(result.interval.iter().all(|end| *end == 0.0) && result.p_value >= 1.0);
    }
    let Some(Ok(second)) = files.next().map(SavedEvaluation::from_json) else { return };
    let others = [second, first.clone()];
    let Ok(compared) = compare(&first, &others, 0, 0.05, &threads) else { return };
    for (_, result) in compared.iter().flat_map(Comparison::differences) {
        let [low, high] = result.interval;
        assert!(low <= result.difference && result.difference <= high, "{result:?}");
        assert!((0.0..=1.0).contains(&result.p_value) && result.adjusted >= result.p_value);
    }
    for test in compared.iter().flat_map(|comparison| &comparison.tests) {
        assert!((0.0..=1.0).contains(&test.p_value), "{test:?}");
    }
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

pub(crate) fn jsonl(data: &[u8]) {
    read_as(data, Format::Jsonl);
    let text_columns = vec!["title".into(), "body".into()];
    let label_separator = Some(",".into());
    let format = Some(Format::Jsonl);
    let fields = data.len().is_multiple_of(2);
    read(
        data,
        ReadOptions { format, text_columns, fields, label_separator, ..ReadOptions::default() },
    );
}

pub(crate) fn delimited(data: &[u8]) {
    read_as(data, Format::Csv);
    read_as(data, Format::Tsv);
}

/// Reads a table in the dialect that the first two bytes select, and collects the notes.
pub(crate) fn table(data: &[u8]) {
    let Some((&[dialect, columns], data)) = data.split_first_chunk() else { return };
    let bit = |n: u8| columns >> n & 1 == 1;
    let name = |name: &str| vec![name.to_owned()];
    let options = ReadOptions {
        format: [None, Some(Format::Csv), Some(Format::Tsv)][usize::from(dialect % 3)],
        table: TableOptions {
            separator: [None, Some(b';'), Some(b'|'), Some(b'\t')][usize::from(dialect >> 2 & 3)],
            quoting: [Quoting::Auto, Quoting::Csv, Quoting::Backslash, Quoting::None]
                [usize::from(dialect >> 4 & 3)],
            quote: [None, Some(b'\'')][usize::from(dialect >> 6 & 1)],
            no_header: dialect >> 7 == 1,
        },
        text_columns: if bit(0) { name("1") } else { Vec::new() },
        label_columns: match (bit(1), bit(2)) {
            (true, true) => vec!["2".to_owned(), "3".to_owned()],
            (true, false) => name("label"),
            (false, _) => Vec::new(),
        },
        id_column: bit(3).then(|| "1".to_owned()),
        weight_column: bit(4).then(|| "weight".to_owned()),
        label_separator: bit(5).then(|| ";".to_owned()),
        labels: [LabelUse::Required, LabelUse::Optional][usize::from(bit(6))],
        on_bad_utf8: OnBadUtf8::Replace,
        ..ReadOptions::default()
    };
    read_with_notes(data, options);
}

/// Reads JSON arrays and objects that span several lines, with nested fields.
pub(crate) fn json(data: &[u8]) {
    read_as(data, Format::Json);
    let options = ReadOptions {
        format: Some(Format::Json),
        text_columns: vec!["doc.body".to_owned()],
        label_columns: vec!["subjects.uri".to_owned()],
        ..ReadOptions::default()
    };
    read_with_notes(data, options);
}

pub(crate) fn annif(data: &[u8]) {
    read_as(data, Format::Annif);
}

fn read_with_notes(data: &[u8], options: ReadOptions) {
    let notes = Arc::new(Notes::default());
    let documents = read(data, ReadOptions { notes: Some(Arc::clone(&notes)), ..options });
    let labels = documents.iter().flat_map(|document| &document.labels);
    let labels: Vec<LabelFrequency<'_>> =
        labels.map(|label| LabelFrequency { label, documents: 1 }).collect();
    let documents = documents.len() as u64;
    for note in notes.take().into_iter().chain(label_notes(&labels, documents)) {
        assert!(!note.to_string().is_empty());
    }
}

/// Trains on a few documents with varying settings, and checks that the model can be saved, opened
/// and used. The first byte selects the settings. Each line is a document or a line of the
/// hierarchy.
pub(crate) fn training(data: &[u8]) {
    let Some((&settings, text)) = data.split_first() else { return };
    let bit = |n: u8| settings >> n & 1 == 1;
    let text = String::from_utf8_lossy(text);
    let mut documents = Vec::new();
    let mut hierarchy = String::new();
    for line in text.lines().take(40) {
        match line.split_once('\t') {
            Some((labels, text)) => documents.push(
                Document::text(documents.len().to_string(), text)
                    .labels(labels.split(',').take(20).map(normalized_label)),
            ),
            None => hierarchy += &line.replacen(' ', "\t", 1),
        }
        hierarchy.push('\n');
    }
    let Ok(hierarchy) = Hierarchy::parse("fuzz", &hierarchy) else { return };
    let options = TrainOptions {
        hierarchy,
        tuning: bit(0).then(TuneOptions::quick),
        decision: DecisionOptions {
            multi_label: bit(1).then_some(bit(2)),
            ..DecisionOptions::default()
        },
        novelty: bit(3).then_some(0.1),
        keep_text: bit(4),
        class_weights: bit(5).then_some(ClassWeights::Balanced),
        ..TrainOptions::default()
    };
    let threads = Threads::new(NonZeroUsize::MIN).expect("one thread");
    let trainer = Trainer::builder().options(options).engines(Engines::cpu(&threads)).build();
    let Ok(result) = trainer.train(&documents) else { return };
    model(&result.model.to_bytes().expect("a model of a few documents"));
}

/// Applies changes to a model's documents, and checks that the changed model can be saved and
/// opened.
pub(crate) fn changes(data: &[u8]) {
    let Ok(changes) = serde_json::from_slice::<Vec<Change>>(data) else { return };
    let golden = include_bytes!("../models/golden-v1.model");
    let mut collection = Collection::new(Arc::new(Model::from_bytes(golden).expect("a model")));
    for change in changes {
        let _ = collection.apply(vec![change]);
    }
    model(&collection.model().to_bytes().expect("a model of a few documents"));
}

pub(crate) fn fasttext(data: &[u8]) {
    read_as(data, Format::FastText);
}

/// Reads plain text, in which every line is one document.
pub(crate) fn plain(data: &[u8]) {
    let format = Some(Format::Plain);
    let labels = LabelUse::Optional;
    let on_bad_utf8 = OnBadUtf8::Replace;
    let options = ReadOptions { format, labels, on_bad_utf8, ..ReadOptions::default() };
    read(data, options);
}

pub(crate) fn svmlight(data: &[u8]) {
    read_as(data, Format::Svmlight);
    let options = |first| ReadOptions {
        format: Some(Format::Svmlight),
        first_column: Some(first),
        ..ReadOptions::default()
    };
    read(data, options(0));
}

pub(crate) fn reuters(data: &[u8]) {
    read_as(data, Format::Reuters);
    for (split, fields) in [(Split::Train, false), (Split::Test, true)] {
        let format = Some(Format::Reuters);
        let text_columns = vec!["title".into(), "body".into()];
        read(data, ReadOptions { format, split, fields, text_columns, ..ReadOptions::default() });
    }
}

pub(crate) fn lyrl2004(data: &[u8]) {
    read_as(data, Format::Lyrl2004Tokens);
    read_as(data, Format::Lyrl2004Vectors);
    if let Ok(qrels) = Qrels::from_bytes("fuzz", data.to_vec()) {
        let qrels = Some(Arc::new(qrels));
        let format = Some(Format::Lyrl2004Vectors);
        read(data, ReadOptions { format, qrels, ..ReadOptions::default() });
    }
}

/// Runs decompression, decoding and detection. The first byte selects the encoding.
pub(crate) fn source(data: &[u8]) {
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

/// Reads vector files in every format.
pub(crate) fn vector_files(data: &[u8]) {
    use vector_file::Format;
    for format in [Format::Npy, Format::Fvecs, Format::Bvecs, Format::Idx] {
        if let Ok(rows) = vector_file::read(data, format) {
            assert!(rows.dimension > 0 && rows.values.len() == rows.len() * rows.dimension);
        }
    }
}

/// Reads word vectors as text and as binary data, for the vocabulary of a small model.
pub(crate) fn word_vectors(data: &[u8]) {
    let golden = include_bytes!("../models/golden-v1.model");
    let model = Model::from_bytes(golden).expect("a good model");
    let analyzer = model.analyzer().expect("a model of text");
    for is_binary in [false, true] {
        let vocabulary = model.vocabulary();
        let found = WordVectors::from_stream("fuzz", data, is_binary, vocabulary, &analyzer);
        if let Ok(found) = found {
            assert!(found.known > 0 && found.projection.terms().rows() == model.vocabulary().len());
        }
    }
}

/// Opens the bytes as a model, and classifies with it if it is valid.
pub(crate) fn model(data: &[u8]) {
    let Ok(model) = Model::from_bytes(data) else { return };
    let threads = Threads::new(NonZeroUsize::MIN).expect("one thread");
    let model = Arc::new(model);
    let classifier = Classifier::new(Arc::clone(&model), &threads).expect("a checked model");
    let _ = classifier.predict_all(&["bake the bread", "Saturn's rings", ""]);
    if let Some(dense) = model.dense() {
        let vector = vec![0.5; dense.vectors().dimension()];
        let place = Place { source: "fuzz".into(), line: None };
        let document = Document {
            id: String::new(),
            content: Content::Text("bake the bread".to_owned()),
            labels: Vec::new(),
            weight: 1.0,
            vector: Some(vector),
            group: None,
            place,
        };
        let _ = classifier.predict_documents(&[document], &classifier.options());
    }
    for row in (0..).take(model.ids().len()) {
        let _ = (model.document_labels(row), model.document_terms(row), model.ids().get(0));
    }
}

/// Corrects the checksums and opens the bytes as a model, to test damage that checksums do not
/// detect.
pub(crate) fn model_with_checksums(data: &[u8]) {
    if let Some(bytes) = with_checksums(data) {
        model(&bytes);
    }
}

pub(crate) fn with_checksums(data: &[u8]) -> Option<Vec<u8>> {
    let length = usize::try_from(u64::from_le_bytes(*data.first_chunk()?)).ok()?;
    let header: Value = serde_json::from_slice(data.get(8..length.checked_add(8)?)?).ok()?;
    let arrays = data.get(8 + length..)?;
    let mut header = header.as_object()?.clone();
    let text = header.get("__metadata__")?.get("classify")?.as_str()?;
    let mut settings: Value = serde_json::from_str(text).ok()?;
    let mut sums = serde_json::Map::new();
    let mut crc_at = None;
    for (name, info) in header.iter().filter(|(name, _)| *name != "__metadata__") {
        let offsets = info.get("data_offsets")?;
        let bound = |index: usize| usize::try_from(offsets.get(index)?.as_u64()?).ok();
        if name == "settings.crc32" {
            crc_at = bound(0);
        } else {
            let bytes = arrays.get(bound(0)?..bound(1)?)?;
            sums.insert(name.clone(), format!("{:08x}", crc32fast::hash(bytes)).into());
        }
    }
    settings.as_object_mut()?.insert("checksums".into(), sums.into());
    let text = settings.to_string();
    let mut arrays = arrays.to_vec();
    let crc = crc32fast::hash(text.as_bytes()).to_le_bytes();
    arrays.get_mut(crc_at?..crc_at? + 4)?.copy_from_slice(&crc);
    header.insert("__metadata__".into(), serde_json::json!({ "classify": text }));
    let mut bytes = serde_json::to_vec(&header).ok()?;
    bytes.resize((bytes.len() + 8).next_multiple_of(64) - 8, b' ');
    Some([&(bytes.len() as u64).to_le_bytes()[..], &bytes, &arrays].concat())
}
