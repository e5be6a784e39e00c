//! The library's classifier: what it rejects, and streams that end early.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::io;
use std::sync::Arc;

use classify::classifier::{Classifier, ClassifyError, Prediction};
use classify::corpus::{Content, Corpus, Document, Place, Problem, ReadOptions};
use classify::search::Engines;
use classify::stream::{Answers, StreamError, classify_stream};
use classify::threads::Threads;
use classify::trainer::{TrainOptions, Trainer};

fn trained(name: &str, corpus: &str) -> Classifier {
    let threads = Threads::available().unwrap();
    let mut corpus = Corpus::from_bytes(name, corpus.into(), ReadOptions::default()).unwrap();
    let trainer = Trainer::new(TrainOptions::default(), Engines::cpu(&threads));
    let model = trainer.train(&mut corpus, name, &|_| ()).unwrap().model;
    Classifier::new(model.into(), &threads).unwrap()
}

fn document(content: Content) -> Document {
    Document {
        id: "1".to_owned(),
        content,
        labels: Vec::new(),
        weight: 1.0,
        vector: None,
        group: None,
        place: Place { source: "test".into(), line: Some(7) },
    }
}

/// Features that no reader produces, but any caller can.
#[test]
fn features_out_of_order_or_not_finite_are_refused() {
    let classifier = trained("rows.svm", "1 1:0.6 3:0.8\n2 2:1\n");
    let problem = |features: Vec<(u32, f32)>| {
        let documents = [document(Content::Features(features))];
        match classifier.classify(&documents, &classifier.options()) {
            Err(ClassifyError::Document(error)) => error.problem,
            other => panic!("{other:?}"),
        }
    };
    assert!(matches!(
        problem(vec![(3, 0.5), (1, 0.5)]),
        Problem::ColumnOrder { column: 1, before: 3 }
    ));
    assert!(matches!(problem(vec![(1, 0.5), (1, 0.5)]), Problem::ColumnOrder { .. }));
    assert!(matches!(problem(vec![(1, f32::NAN)]), Problem::NotFinite { column: 1, .. }));
    assert!(matches!(problem(vec![(1, f32::INFINITY)]), Problem::NotFinite { .. }));
}

#[derive(Default)]
struct Collected(Vec<String>);

impl Answers for Collected {
    type Error = io::Error;

    fn answer(&mut self, id: &str, _: &Prediction) -> io::Result<()> {
        self.0.push(id.to_owned());
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A reader that panics is an error, not the end of its documents.
#[test]
fn a_reader_that_panics_is_no_end_of_input() {
    let classifier = trained(
        "two lines",
        "{\"text\": \"bake bread\", \"label\": \"a\"}\n{\"text\": \"guitar\", \"label\": \"b\"}\n",
    );
    let documents = |last: u32| {
        (0..=last).map(move |number| {
            assert!(number < 5, "the reader dies");
            Ok(document(Content::Text("bread".to_owned())))
        })
    };
    let options = classifier.options();
    let mut answers = Collected::default();
    classify_stream(&classifier, &options, documents(4), &mut answers).unwrap();
    assert_eq!(answers.0.len(), 5);
    let mut answers = Collected::default();
    let ended = classify_stream(&classifier, &options, documents(9), &mut answers);
    assert!(matches!(ended, Err(StreamError::Reader)), "{ended:?}");
    assert_eq!(answers.0.len(), 5, "what was read before is answered");
}

/// One classifier used by many threads gives the same predictions.
#[test]
fn a_classifier_is_shared_between_threads() {
    let classifier = Arc::new(trained(
        "two lines",
        "{\"text\": \"bake bread\", \"label\": \"a\"}\n{\"text\": \"guitar\", \"label\": \"b\"}\n",
    ));
    let expected = classifier.classify_texts(&["bread", "guitar"]).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    assert_eq!(classifier.classify_texts(&["bread", "guitar"]).unwrap(), expected);
                }
            });
        }
    });
}
