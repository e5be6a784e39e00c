//! Tests that vectors files are read correctly, and that damaged files are always rejected.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::sync::Arc;

use classify::classifier::vectors::{StoredVectors, VectorsProblem, VectorsWriter};
use classify::classifier::{Classifier, DocumentVectors};
use classify::model::Model;
use classify::text::corpus::{Corpus, Document, ReadOptions};
use classify::threads::Threads;

fn model(name: &str) -> Arc<Model> {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("models");
    Arc::new(Model::open(&models.join(name)).unwrap())
}

const LINES: &str = r#"{"id": "a", "text": "bake bread with basil", "labels": ["cooking", "home"]}
{"id": "b", "text": "qwerty", "labels": []}
{"id": "ü", "text": "comet stars, stars and bread", "labels": ["home"]}"#;

fn vectorized(model: &Arc<Model>) -> (Vec<Document>, DocumentVectors, VectorsWriter) {
    let corpus = Corpus::from_bytes("lines", LINES.into(), ReadOptions::default()).unwrap();
    let documents: Vec<Document> = corpus.collect::<Result<_, _>>().unwrap();
    let classifier = Classifier::new(Arc::clone(model), &Threads::available().unwrap()).unwrap();
    let vectors = classifier.vectorize(&documents).unwrap();
    let mut writer = VectorsWriter::new(model);
    // The documents are written in two batches.
    for some in [&documents[..1], &documents[1..]] {
        writer.push(some, &classifier.vectorize(some).unwrap());
    }
    (documents, vectors, writer)
}

#[test]
fn written_vectors_are_read_in_any_batches() {
    let model = model("golden-v1.model");
    let (documents, vectors, writer) = vectorized(&model);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.vectors");
    assert_eq!(writer.len(), 3);
    writer.save(&path).unwrap();
    assert!(StoredVectors::is_at(&path));
    assert!(!StoredVectors::is_at(folder.path()) && !StoredVectors::is_at(Path::new("Cargo.toml")));
    let stored = StoredVectors::open(&path, &model).unwrap();
    for cut in 0..=3 {
        let mut number = 0;
        for range in [0..cut, cut..3] {
            let (labeled, some) = stored.batch(range);
            for (row, (document, terms)) in some.rows.iter().zip(labeled.iter().zip(&some.terms)) {
                assert_eq!(row, vectors.rows.row(number));
                assert_eq!(*terms, vectors.terms[number]);
                assert_eq!(
                    (&document.id, &document.labels),
                    (&documents[number].id, &documents[number].labels)
                );
                number += 1;
            }
        }
        assert_eq!(number, 3);
    }
    let first = std::fs::read(&path).unwrap();
    vectorized(&model).2.save(&path).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), first, "the same vectors give the same bytes");
}

#[test]
fn other_models_and_damaged_files_are_rejected() {
    let own_model = model("golden-v1.model");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.vectors");
    vectorized(&own_model).2.save(&path).unwrap();
    let other = StoredVectors::open(&path, &model("golden-v1-rules.model")).unwrap_err();
    assert!(matches!(other.problem, VectorsProblem::OtherModel), "{other}");
    let sound = std::fs::read(&path).unwrap();
    for at in 0..sound.len() {
        let mut damaged = sound.clone();
        damaged[at] ^= 1 << (at % 8);
        std::fs::write(&path, &damaged).unwrap();
        // A space in the padding of the header may become another white-space character. Every
        // other change is detected.
        if let Ok(stored) = StoredVectors::open(&path, &own_model) {
            assert!(sound[at] == b' ' && stored.len() == 3, "byte {at}");
        }
    }
    for length in (0..sound.len()).step_by(7) {
        std::fs::write(&path, &sound[..length]).unwrap();
        StoredVectors::open(&path, &own_model).unwrap_err();
    }
}
