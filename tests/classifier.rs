//! Tests of the library's classifier: rejected documents, and streams that end early.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::io;
use std::sync::{Arc, mpsc};

use classify::classifier::stream::{Answers, Source, StreamError, classify_stream};
use classify::classifier::{Classifier, ClassifyError, RawPrediction};
use classify::decide::decision::Decision;
use classify::learn::Trainer;
use classify::model::{InputSpec, Model, TrainSettings};
use classify::search::Engines;
use classify::stages::PipelineProgress;
use classify::text::corpus::{Content, Corpus, CorpusError, Document, Place, Problem, ReadOptions};
use classify::text::counts::{CountOptions, Counts, Fields};
use classify::threads::Threads;

fn trained(name: &str, corpus: &str) -> Classifier {
    let threads = Threads::available().unwrap();
    let corpus = Corpus::from_bytes(name, corpus.into(), ReadOptions::default()).unwrap();
    let trainer = Trainer::builder().engines(Engines::cpu(&threads)).corpus_name(name).build();
    let model = trainer.train(corpus).unwrap().model;
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

/// Feature vectors that a caller can create but that no reader returns are rejected.
#[test]
fn invalid_features_are_rejected() {
    let classifier = trained("rows.svm", "1 1:0.6 3:0.8\n2 2:1\n");
    let problem = |features: Vec<(u32, f32)>| {
        let documents = [document(Content::Features(features))];
        match classifier.predict_documents(&documents, &classifier.options()) {
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

/// Chunks of a corpus are counted in any order. The first error in the corpus is reported, and
/// counts do not depend on the number of threads.
#[test]
fn counts_do_not_depend_on_threads() {
    let numbered = |number: usize, content: Content| Document {
        id: number.to_string(),
        labels: vec![["even", "odd"][number % 2].to_owned()],
        place: Place { source: "test".into(), line: u64::try_from(number).ok() },
        ..document(content)
    };
    let text =
        |number: usize| Content::Text(format!("word{} common word{}", number % 700, number % 97));
    let features = || Content::Features(vec![(1, 1.0)]);
    let read = |wrong: &[usize], unreadable: Option<usize>, threads: usize| {
        let mut documents = (0..9_000).map(|number| match unreadable {
            Some(end) if number == end => {
                let place = numbered(number, text(number)).place;
                Err(CorpusError { place, problem: Problem::NoDocument })
            }
            _ if wrong.contains(&number) => Ok(numbered(number, features())),
            _ => Ok(numbered(number, text(number))),
        });
        let input = InputSpec::default().counting(&Fields::Whole);
        let threads = Threads::new(threads.try_into().unwrap()).unwrap();
        let counts = Counts::read(&mut documents, &CountOptions::new(&input), &threads, &|_| ());
        counts.map(|counts| {
            let settings = TrainSettings::new(InputSpec::default(), Decision::Single);
            let model = Model::of_counts(counts, settings, &threads);
            let ids: Vec<String> = model.ids().iter().map(str::to_owned).collect();
            (ids, Arc::clone(model.rows()))
        })
    };
    let (ids, rows) = read(&[], None, 1).unwrap();
    assert!(ids.iter().map(|id| id.parse::<usize>().unwrap()).eq(0..9_000));
    for threads in [2, 3, 8] {
        let (other_ids, other_rows) = read(&[], None, threads).unwrap();
        assert!(other_ids == ids && other_rows == rows, "{threads} threads");
    }
    for threads in [1, 3, 8] {
        let line = |wrong: &[usize], unreadable| {
            read(wrong, unreadable, threads).unwrap_err().place.line.unwrap()
        };
        for _ in 0..5 {
            assert_eq!(line(&[8_000, 5_500, 6_000], None), 5_500, "{threads} threads");
            assert_eq!(line(&[4_100], Some(4_200)), 4_100, "{threads} threads");
            assert_eq!(line(&[4_100], Some(3_000)), 3_000, "{threads} threads");
        }
    }
}

#[derive(Default)]
struct CollectedAnswers(Vec<String>);

impl Answers for CollectedAnswers {
    type Error = io::Error;
    type Formatted = String;

    fn answer(&mut self, id: String) -> io::Result<()> {
        self.0.push(id);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A reader that panics causes an error instead of ending the stream.
#[test]
fn a_panicking_reader_is_an_error() {
    let classifier = trained(
        "two lines",
        "{\"text\": \"bake bread\", \"label\": \"a\"}\n{\"text\": \"guitar\", \"label\": \"b\"}\n",
    );
    let documents = |last: u32| {
        Source::Documents(Box::new((0..=last).map(move |number| {
            assert!(number < 5, "the reader panics");
            Ok(document(Content::Text("bread".to_owned())))
        })))
    };
    let options = classifier.options();
    let mut answers = CollectedAnswers::default();
    let id = |id: &str, _: &RawPrediction| id.to_owned();
    classify_stream(&classifier, &options, documents(4), id, &mut answers).unwrap();
    assert_eq!(answers.0.len(), 5);
    let mut answers = CollectedAnswers::default();
    let ended = classify_stream(&classifier, &options, documents(9), id, &mut answers);
    assert!(matches!(ended, Err(StreamError::Reader)), "{ended:?}");
    assert_eq!(answers.0.len(), 5, "documents read before the panic are answered");
}

/// Answers are created on all threads, and delivered in the order of the documents.
#[test]
fn answers_come_in_order() {
    let classifier = trained(
        "two lines",
        "{\"text\": \"bake bread\", \"label\": \"a\"}\n{\"text\": \"guitar\", \"label\": \"b\"}\n",
    );
    let documents = (0..5_000).map(|number: u32| {
        let text = if number.is_multiple_of(3) { "bread" } else { "guitar" };
        let content = Content::Text(text.to_owned());
        Ok(Document { id: number.to_string(), ..document(content) })
    });
    let line = |id: &str, prediction: &RawPrediction| format!("{id} {:?}", prediction.labels);
    let mut answers = CollectedAnswers::default();
    let documents = Source::Documents(Box::new(documents));
    classify_stream(&classifier, &classifier.options(), documents, line, &mut answers).unwrap();
    let expected = (0..5_000).map(|number| format!("{number} [{}]", u32::from(number % 3 > 0)));
    assert_eq!(answers.0, expected.collect::<Vec<_>>());
}

/// A panic while an answer is created ends the stream, even though the documents never end. Earlier
/// answers are delivered.
#[test]
fn a_panic_in_an_answer_is_an_error() {
    let classifier = trained(
        "two lines",
        "{\"text\": \"bake bread\", \"label\": \"a\"}\n{\"text\": \"guitar\", \"label\": \"b\"}\n",
    );
    for last in [0, 1, 30_000] {
        let documents = (0u32..).map(|number| {
            let content = Content::Text("bread".to_owned());
            Ok(Document { id: number.to_string(), ..document(content) })
        });
        let make = |id: &str, _: &RawPrediction| {
            assert_ne!(id, last.to_string(), "creating this answer fails");
            id.to_owned()
        };
        let mut answers = CollectedAnswers::default();
        let documents = Source::Documents(Box::new(documents));
        let ended =
            classify_stream(&classifier, &classifier.options(), documents, make, &mut answers);
        assert!(matches!(ended, Err(StreamError::Panicked("voting"))), "{ended:?}");
        let count = answers.0.len();
        assert!(count <= last && (last < 30_000 || count > 0), "{count} answers");
        assert!(answers.0.into_iter().eq((0..count).map(|id| id.to_string())));
    }
}

/// Sends the number of answers so far whenever the stream flushes them.
struct FlushedAnswers {
    flushed: mpsc::Sender<usize>,
    count: usize,
}

impl Answers for FlushedAnswers {
    type Error = io::Error;
    type Formatted = ();

    fn answer(&mut self, (): ()) -> io::Result<()> {
        self.count += 1;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = self.flushed.send(self.count);
        Ok(())
    }

    fn progress(&mut self, so_far: &PipelineProgress<'_>) {
        assert_eq!(so_far.documents, self.count as u64);
        let stages = ["read", "analyze, weigh", "search", "vote", "write"];
        assert!(stages.contains(&so_far.busiest) && so_far.busy > 0.0, "{so_far:?}");
        assert!(so_far.busy <= 1.0, "{so_far:?}");
    }
}

/// The source returns a document only after the previous document was answered.
#[test]
fn a_single_document_is_answered_immediately() {
    let classifier = trained("one line", "{\"text\": \"bake bread\", \"label\": \"a\"}\n");
    let (flushed, progress) = mpsc::channel();
    let mut sent = 0;
    let documents = std::iter::from_fn(move || {
        if sent > 0 {
            let minute = std::time::Duration::from_mins(1);
            assert_eq!(progress.recv_timeout(minute), Ok(sent), "it was answered");
        }
        sent += 1;
        (sent <= 20).then(|| Ok(document(Content::Text("bread".to_owned()))))
    });
    let documents = Source::Documents(Box::new(documents));
    let mut answers = FlushedAnswers { flushed, count: 0 };
    let make = |_: &str, _: &RawPrediction| ();
    classify_stream(&classifier, &classifier.options(), documents, make, &mut answers).unwrap();
    assert_eq!(answers.count, 20);
}

/// Documents before a document that does not match the model are answered. An answer that cannot be
/// delivered ends the stream.
#[test]
fn errors_end_a_stream_at_their_position() {
    let classifier = trained("one line", "{\"text\": \"bake bread\", \"label\": \"a\"}\n");
    let options = classifier.options();
    // Document `wrong` and all later documents have features instead of text.
    let documents = |wrong: usize| {
        Source::Documents(Box::new((0..20_000).map(move |number| {
            // The preceding documents take longer, so other threads encounter later errors first.
            let long = (number < wrong && number + 8 >= wrong).then_some(20_000);
            let text = Content::Text("bread ".repeat(long.unwrap_or(1)));
            let content = if number >= wrong { Content::Features(vec![(1, 1.0)]) } else { text };
            let place = Place { source: "in".into(), line: Some(number as u64) };
            Ok(Document { id: number.to_string(), place, ..document(content) })
        })))
    };
    let id = |id: &str, _: &RawPrediction| id.to_owned();
    for wrong in [0, 1, 7_777, 19_999] {
        let mut answers = CollectedAnswers::default();
        let ended = classify_stream(&classifier, &options, documents(wrong), id, &mut answers);
        let Err(StreamError::Corpus(error)) = ended else { panic!("{ended:?}") };
        assert_eq!(error.place.line, Some(wrong as u64), "the first error is reported");
        assert_eq!(answers.0, (0..wrong).map(|number| number.to_string()).collect::<Vec<_>>());
    }
    let mut full = BoundedAnswers(9_000);
    let ended = classify_stream(&classifier, &options, documents(20_000), id, &mut full);
    assert!(matches!(ended, Err(StreamError::Answer(_))), "{ended:?}");
}

/// Accepts a limited number of answers, then returns an error.
struct BoundedAnswers(usize);

impl Answers for BoundedAnswers {
    type Error = io::Error;
    type Formatted = String;

    fn answer(&mut self, _: String) -> io::Result<()> {
        self.0 = self.0.checked_sub(1).ok_or(io::ErrorKind::StorageFull)?;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A classifier shared between threads gives the same predictions in all of them.
#[test]
fn a_classifier_is_shared_between_threads() {
    let classifier = Arc::new(trained(
        "two lines",
        "{\"text\": \"bake bread\", \"label\": \"a\"}\n{\"text\": \"guitar\", \"label\": \"b\"}\n",
    ));
    let expected = classifier.predict_all(&["bread", "guitar"]).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    assert_eq!(classifier.predict_all(&["bread", "guitar"]).unwrap(), expected);
                }
            });
        }
    });
}
