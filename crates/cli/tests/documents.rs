//! Documents that come and go: answers are, to the bit, those of a model trained on the documents that are there.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::num::NonZeroUsize;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use classify::classifier::{Classifier, Prediction, UpdatableEngines};
use classify::decide::decision::DecisionOptions;
use classify::learn::{TrainOptions, Trainer, TuneOptions, TuneScope, reweigh};
use classify::model::{
    Change, ChangeError, Collection, Model, NewDocument, UpdateError, UpdatedModel, journal_path,
};
use classify::random::Random;
use classify::search::{DeviceChoice, Engines};
use classify::text::corpus::{Content, Corpus, Document, Place, ReadOptions};
use classify::text::counts::CorpusStatistics;
use classify::threads::Threads;

const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpora/sample/train.jsonl");
const TEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpora/sample/test.jsonl");

fn read(path: &str) -> Vec<Document> {
    let corpus = Corpus::open(&[path.into()], ReadOptions::default()).unwrap();
    corpus.map(Result::unwrap).collect()
}

fn threads() -> Threads {
    Threads::available().unwrap()
}

fn trained(options: &TrainOptions, documents: &[Document]) -> Model {
    let mut documents = documents.iter().cloned().map(Ok);
    let trainer = Trainer::new(options.clone(), Engines::cpu(&threads()));
    trainer.train(&mut documents, "corpus", &|_| ()).unwrap().model
}

/// Everything about a prediction, with names and to the bit.
fn told(model: &Model, prediction: &Prediction) -> String {
    let name = |label: u32| model.labels().get(label as usize).unwrap();
    let scores = prediction.scores.iter().map(|s| (name(s.label), s.score.to_bits()));
    let near = prediction.neighbors.iter().map(|neighbor| {
        let id = model.ids().get(neighbor.row as usize).unwrap();
        let labels = model.document_labels(neighbor.row).iter().map(|&label| name(label));
        (id, neighbor.similarity.to_bits(), labels.collect::<Vec<_>>())
    });
    let labels: Vec<&str> = prediction.labels.iter().map(|&label| name(label)).collect();
    let (scores, near) = (scores.collect::<Vec<_>>(), near.collect::<Vec<_>>());
    format!("{labels:?} {scores:?} {near:?} {:?} {}", prediction.reason, prediction.unknown_terms)
}

fn answers(classifier: &Classifier, queries: &[Document]) -> Vec<String> {
    let options = classifier.options();
    let predictions = classifier.classify(queries, &options).unwrap();
    predictions.iter().map(|prediction| told(classifier.model(), prediction)).collect()
}

/// The vocabulary of a model, with the document frequencies that its weights were made of.
fn statistics(model: &Model) -> Arc<CorpusStatistics> {
    let vocabulary = model.vocabulary();
    let terms = (0..u32::try_from(vocabulary.len()).unwrap()).map(|term| vocabulary.term(term));
    let terms: Vec<&str> = terms.map(Option::unwrap).collect();
    let counts = model.settings().counts;
    let frequencies = vocabulary.document_frequencies().to_vec();
    Arc::new(
        CorpusStatistics::new(&terms, frequencies, counts.documents, counts.mean_length).unwrap(),
    )
}

/// What is there, kept in the simplest way.
struct There {
    documents: Vec<Document>,
    random: Random,
    fresh: usize,
}

impl There {
    fn below(&mut self, count: usize) -> usize {
        self.random.below(count)
    }

    /// A document of the first ones under another name, with the words of a second one.
    fn made(&mut self, from: &[Document]) -> Document {
        let (one, two) = (self.below(from.len()), self.below(from.len()));
        let text = |document: &Document| match &document.content {
            Content::Text(text) => text.clone(),
            _ => unreachable!("texts"),
        };
        self.fresh += 1;
        // Some texts are equal: ties.
        let content = match self.below(3) {
            0 => text(&from[one]),
            _ => format!("{} {}", text(&from[one]), text(&from[two])),
        };
        let mut labels = from[two].labels.clone();
        if self.below(20) == 0 {
            labels = vec![format!("label {}", self.below(5))];
        }
        Document {
            id: format!("new {}", self.fresh),
            content: Content::Text(content),
            labels,
            weight: if self.below(5) == 0 { 2.5 } else { 1.0 },
            vector: None,
            group: None,
            place: Place { source: "made".into(), line: None },
        }
    }
}

/// Changes at random, made to a collection and to a list of documents.
fn operations(count: usize, check_every: usize, engines: &Engines) {
    let documents = read(SAMPLE);
    let queries = &read(TEST)[..40];
    for options in [
        TrainOptions { tuning: None, ..TrainOptions::default() },
        TrainOptions {
            tuning: None,
            weighting: "kkn.nnn".parse().unwrap(),
            k: NonZeroUsize::new(5),
            vote: Some("similarity/size^0.5".parse().unwrap()),
            decision: DecisionOptions { several: Some(true), ..DecisionOptions::default() },
            ..TrainOptions::default()
        },
    ] {
        let base = trained(&options, &documents);
        let under = TrainOptions { part_of: Some(statistics(&base)), ..options };
        let mut collection = Collection::new(Arc::new(base));
        let mut kept = UpdatableEngines::new(engines.clone());
        let mut there = There { documents: documents.clone(), random: Random::new(7), fresh: 0 };
        let mut classifier = Classifier::new(collection.model(), &threads()).unwrap();
        let mut changes = Vec::new();
        for operation in 1..=count {
            let full = there.documents.len() >= documents.len();
            let kind = if full { 3 } else { there.below(6) };
            let at = there.below(there.documents.len());
            match kind {
                0 | 1 => {
                    let document = there.made(&documents);
                    changes.push(document.clone());
                    there.documents.push(document);
                }
                2 => {
                    // A document with the identifier of another one takes its place, at the end.
                    let mut document = there.made(&documents);
                    document.id = there.documents.remove(at).id;
                    changes.push(document.clone());
                    there.documents.push(document);
                }
                _ => {}
            }
            let mut made = classifier.additions(&changes).unwrap().changes;
            changes.clear();
            if kind > 2 {
                let id = there.documents[at].id.clone();
                if kind == 3 {
                    there.documents.remove(at);
                    made.push(Change::Remove { id });
                } else {
                    let label = format!("label {}", there.below(7));
                    let labels = if kind == 4 { vec![] } else { vec![label] };
                    there.documents[at].labels.clone_from(&labels);
                    made.push(Change::Relabel { id, labels });
                }
            }
            collection.apply(made).unwrap();
            if operation % check_every == 0 || operation == count {
                let dense_share = collection.model().settings().dense_share;
                let searchers = kept.searchers(&collection, dense_share).unwrap();
                classifier = Classifier::with_searchers(collection.model(), searchers, &threads());
                let expected = trained(&under, &there.documents);
                let expected = Classifier::new(expected.into(), &threads()).unwrap();
                assert_eq!(collection.len(), there.documents.len());
                let (found, wanted) = (answers(&classifier, queries), answers(&expected, queries));
                assert_eq!(found, wanted, "after {operation} changes");
                // A file of the model, in one piece, says the same.
                let bytes = collection.model().to_bytes().unwrap();
                let again = Classifier::new(Model::from_bytes(&bytes).unwrap().into(), &threads());
                assert_eq!(answers(&again.unwrap(), queries), wanted);
            }
        }
    }
}

#[test]
fn random_changes() {
    operations(2_000, 200, &Engines::cpu(&threads()));
}

#[test]
#[ignore = "takes minutes: run by hand, or nightly"]
fn many_random_changes() {
    operations(100_000, 1_000, &Engines::cpu(&threads()));
}

#[test]
#[ignore = "needs a GPU"]
fn random_changes_on_a_gpu() {
    let engines = DeviceChoice::AnyGpu.open(None, &threads()).unwrap();
    operations(2_000, 100, &engines);
}

/// A model of the sample in a folder of its own.
fn saved(folder: &Path, options: &TrainOptions) -> std::path::PathBuf {
    let path = folder.join("a.model");
    trained(options, &read(SAMPLE)).save(&path).unwrap();
    path
}

fn remove(id: &str) -> Vec<Change> {
    vec![Change::Remove { id: id.to_owned() }]
}

#[test]
fn one_process_changes_a_model_and_others_read_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = saved(folder.path(), &TrainOptions::default());
    let ids: Vec<String> = read(SAMPLE).into_iter().map(|document| document.id).collect();
    let mut updated = UpdatedModel::open(&path).unwrap();
    assert!(matches!(UpdatedModel::open(&path), Err(UpdateError::Locked { .. })));
    assert_eq!(updated.commit(remove(&ids[3])).unwrap().removed, 1);
    assert_eq!(Model::open(&path).unwrap().ids().len(), ids.len() - 1);
    // All or nothing.
    let some = [remove(&ids[4]), remove("no such document")].concat();
    let refused = updated.commit(some).unwrap_err();
    let missing = ChangeError::NoSuchDocument { id: "no such document".into() };
    assert!(matches!(refused, UpdateError::Change(error) if error == missing));
    assert_eq!(Model::map(&path).unwrap().ids().len(), ids.len() - 1);
    drop(updated);
    let mut updated = UpdatedModel::open(&path).unwrap();
    assert!(!updated.collection().contains(&ids[3]) && updated.collection().contains(&ids[4]));
    updated.commit(remove(&ids[4])).unwrap();
    let before = updated.model().to_bytes().unwrap();
    updated.compact().unwrap();
    assert!(!journal_path(&path).exists());
    assert_eq!(Model::open(&path).unwrap().to_bytes().unwrap(), before);
    let since = Model::open(&path).unwrap().settings().updates.unwrap();
    assert_eq!((since.weighed, since.removed, since.added), (ids.len() as u64, 2, 0));
}

#[test]
fn journals_of_other_models_are_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let path = saved(folder.path(), &TrainOptions::default());
    let id = read(SAMPLE)[0].id.clone();
    let mut updated = UpdatedModel::open(&path).unwrap();
    updated.commit(remove(&id)).unwrap();
    drop(updated);
    let journal = std::fs::read(journal_path(&path)).unwrap();
    // A process that compacts is killed before it can remove the journal.
    UpdatedModel::open(&path).unwrap().compact().unwrap();
    std::fs::write(journal_path(&path), &journal).unwrap();
    let count = read(SAMPLE).len();
    assert_eq!(Model::open(&path).unwrap().ids().len(), count - 1);
    let mut updated = UpdatedModel::open(&path).unwrap();
    updated.commit(remove(&read(SAMPLE)[1].id)).unwrap();
    drop(updated);
    assert_eq!(Model::open(&path).unwrap().ids().len(), count - 2);
    // A model that is trained again has no changes.
    saved(folder.path(), &TrainOptions::default());
    assert!(!journal_path(&path).exists());
    assert_eq!(Model::open(&path).unwrap().ids().len(), count);
}

/// Whoever may read the model may read its journal, which may hold texts, and no one else.
#[test]
fn a_journal_is_as_secret_as_its_model() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    for mode in [0o600, 0o640, 0o664] {
        let path = saved(folder.path(), &TrainOptions::default());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let mut updated = UpdatedModel::open(&path).unwrap();
        updated.commit(remove(&read(SAMPLE)[0].id)).unwrap();
        let journal = std::fs::metadata(journal_path(&path)).unwrap();
        assert_eq!(journal.permissions().mode() & 0o777, mode);
    }
}

/// A model that was replaced by another one is not changed by whoever opened the old one.
#[test]
fn replaced_behind_its_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = saved(folder.path(), &TrainOptions::default());
    let ids: Vec<String> = read(SAMPLE).into_iter().map(|document| document.id).collect();
    let mut updated = UpdatedModel::open(&path).unwrap();
    updated.commit(remove(&ids[0])).unwrap();
    // Saving asks for the lock; a rename does not.
    assert!(trained(&TrainOptions::default(), &read(SAMPLE)).save(&path).is_err());
    std::fs::copy(&path, folder.path().join("copy")).unwrap();
    std::fs::rename(folder.path().join("copy"), &path).unwrap();
    assert!(matches!(updated.commit(remove(&ids[1])), Err(UpdateError::Replaced { .. })));
    drop(updated);
    let updated = UpdatedModel::open(&path).unwrap();
    assert!(updated.collection().contains(&ids[1]));
}

/// Prototypes stay when documents come and go; a label without one is judged by votes alone until the terms are weighed
/// anew, which also learns the prototypes again.
#[test]
fn prototypes_of_a_model_that_grows() {
    let tuning = TuneOptions { scope: TuneScope::Votes, ..TuneOptions::default() };
    let options = TrainOptions {
        tuning: Some(tuning),
        k: NonZeroUsize::new(5),
        keep_text: true,
        ..TrainOptions::default()
    };
    let documents = read(SAMPLE);
    let model = trained(&options, &documents);
    assert!(model.settings().vote.prototypes > 0.0);
    let before = Classifier::new(Arc::new(model), &threads()).unwrap();
    let queries = read(TEST);
    let mut collection = Collection::new(Arc::clone(before.model()));
    // The name of the new label comes before all others, so these get other numbers.
    let texts = ["zeppelin airship gondola", "airship zeppelin hangar", "gondola zeppelin airship"];
    let new: Vec<Document> = (texts.iter().zip(1..))
        .map(|(text, number)| Document {
            id: format!("new{number}"),
            content: Content::Text(format!("{text} the sky")),
            labels: vec!["airships".to_owned()],
            ..documents[0].clone()
        })
        .collect();
    collection.apply(before.additions(&new).unwrap().changes).unwrap();
    let grown = collection.model();
    assert_eq!(grown.labels().get(0), Some("airships"));
    let again = Classifier::new(Arc::clone(&grown), &threads()).unwrap();
    let said = |classifier: &Classifier| {
        let mut options = classifier.options();
        options.k = NonZeroUsize::MIN;
        let predictions = classifier.classify(&queries, &options).unwrap();
        let name = |label: u32| classifier.model().labels().get(label as usize).unwrap().to_owned();
        let scores = |p: &Prediction| {
            p.scores.iter().map(|s| (name(s.label), s.score.to_bits())).collect::<Vec<_>>()
        };
        predictions.iter().map(scores).collect::<Vec<_>>()
    };
    let mut same = 0;
    for (old, new) in said(&before).iter().zip(&said(&again)) {
        if new.iter().all(|(label, _)| label != "airships") {
            assert_eq!(old, new);
            same += 1;
        }
    }
    assert!(same > 70, "{same}");
    // The terms of the new label are not in the vocabulary yet.
    let anew = reweigh(&grown, &threads()).unwrap();
    let anew = Classifier::new(Arc::new(anew), &threads()).unwrap();
    let found = &anew
        .classify_texts(&["an airship above its hangar, a zeppelin with a gondola"])
        .unwrap()[0];
    let label = anew.model().labels().get(found.scores[0].label as usize);
    assert_eq!(label, Some("airships"));
}

#[test]
fn a_model_without_documents_answers_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let single = DecisionOptions { several: Some(false), ..DecisionOptions::default() };
    let documents: Vec<Document> =
        read(SAMPLE).into_iter().filter(|document| document.labels.len() == 1).collect();
    let path = folder.path().join("a.model");
    trained(&TrainOptions { decision: single, ..TrainOptions::default() }, &documents)
        .save(&path)
        .unwrap();
    let mut updated = UpdatedModel::open(&path).unwrap();
    let all = documents.iter().flat_map(|document| remove(&document.id)).collect();
    updated.commit(all).unwrap();
    let classifier = Classifier::new(updated.model(), &threads()).unwrap();
    let predictions = classifier.classify_texts(&["milk and sugar"]).unwrap();
    assert!(predictions[0].labels.is_empty() && updated.collection().is_empty());
    updated.compact().unwrap();
    assert_eq!(Model::open(&path).unwrap().ids().len(), 0);
}

/// A journal that an earlier version of the program wrote.
#[test]
fn golden_journal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.model");
    std::fs::copy("../../models/golden-v1.model", &path).unwrap();
    let before = Model::open(&path).unwrap();
    if std::env::var_os("WRITE_GOLDEN").is_some() {
        let mut updated = UpdatedModel::open(&path).unwrap();
        for commit in golden_commits(&before) {
            updated.commit(commit).unwrap();
        }
        std::fs::copy(journal_path(&path), "../../models/golden-v1.journal").unwrap();
    }
    std::fs::copy("../../models/golden-v1.journal", journal_path(&path)).unwrap();
    let model = Model::open(&path).unwrap();
    let since = model.settings().updates.unwrap();
    assert_eq!((since.added, since.removed, since.relabeled), (2, 1, 1));
    assert_eq!(model.ids().len(), before.ids().len() + 1);
    let row = |id: &str| {
        let row = model.ids().iter().position(|own| own == id);
        u32::try_from(row.unwrap()).unwrap()
    };
    let labels = |id: &str| -> Vec<&str> {
        let labels = model.document_labels(row(id)).iter();
        labels.map(|&label| model.labels().get(label as usize).unwrap()).collect()
    };
    assert_eq!((labels("new 1"), labels("new 2")), (vec!["odd"], vec!["cooking", "odd"]));
    assert!(!model.document_terms(row("new 1")).0.is_empty());
    // What is written now is what was written then.
    std::fs::remove_file(journal_path(&path)).unwrap();
    let mut updated = UpdatedModel::open(&path).unwrap();
    for commit in golden_commits(&before) {
        updated.commit(commit).unwrap();
    }
    drop(updated);
    let written = std::fs::read(journal_path(&path)).unwrap();
    assert_eq!(written, std::fs::read("../../models/golden-v1.journal").unwrap());
}

fn golden_commits(model: &Model) -> [Vec<Change>; 3] {
    let new = |id: &str, labels: &[&str], terms: &[u32]| {
        Change::Put(Box::new(NewDocument {
            id: id.to_owned(),
            labels: labels.iter().map(|&label| label.to_owned()).collect(),
            weight: 1.5,
            terms: terms.to_vec(),
            weights: vec![0.5; terms.len()],
            vector: None,
            text: model.keeps_texts().then(|| "text".to_owned()),
            nearest: None,
        }))
    };
    let id = |row: usize| model.ids().get(row).unwrap().to_owned();
    [
        vec![new("new 1", &["odd"], &[0, 3, 20]), new("new 2", &["cooking", "odd"], &[])],
        vec![Change::Remove { id: id(2) }],
        vec![Change::Relabel { id: id(0), labels: vec!["odd".to_owned()] }],
    ]
}

#[test]
fn an_open_model_leaves_no_empty_journal() {
    let folder = tempfile::tempdir().unwrap();
    let path = saved(folder.path(), &TrainOptions::default());
    drop(UpdatedModel::open(&path).unwrap());
    assert!(!journal_path(&path).exists());
    assert!(UpdatedModel::open(&folder.path().join("none")).is_err());
    std::fs::write(&path, "no model").unwrap();
    assert!(UpdatedModel::open(&path).is_err());
    assert!(!journal_path(&path).exists());
}

/// The command, killed at each of its system calls: the model is as before, or as after.
#[test]
#[ignore = "needs strace"]
fn killed_at_any_system_call() {
    let folder = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_classify");
    let start = folder.path().join("start.model");
    trained(&TrainOptions { keep_text: true, ..TrainOptions::default() }, &read(SAMPLE))
        .save(&start)
        .unwrap();
    let path = folder.path().join("a.model");
    let journal = journal_path(&folder.path().canonicalize().unwrap().join("a.model"));
    let first = read(SAMPLE)[0].id.clone();
    let name = path.to_str().unwrap();
    let commands: [&[&str]; 4] = [
        &["add", name, TEST],
        &["remove", name, &first],
        &["compact", name],
        &["compact", name, "--reweigh"],
    ];
    for command in commands {
        let reset = || {
            let _ = std::fs::remove_file(&journal);
            std::fs::copy(&start, &path).unwrap();
            // Something is in the journal already.
            let mut updated = UpdatedModel::open(&path).unwrap();
            updated.commit(remove(&read(SAMPLE)[5].id)).unwrap();
        };
        let state = || Model::open(&path).unwrap().to_bytes().unwrap();
        reset();
        let before = state();
        let whole = Command::new(program).args(command).args(["-q", "-j1"]).status().unwrap();
        assert!(whole.success());
        let after = state();
        let mut killed = 0;
        // Only calls that touch files can leave something behind.
        for calls in [
            "openat",
            "write",
            "ftruncate",
            "fsync,fdatasync",
            "rename",
            "unlink",
            "flock",
            "close",
        ] {
            for number in 1.. {
                reset();
                let inject = format!("inject={calls}:signal=KILL:when={number}");
                let mut traced = Command::new("strace");
                traced.args([
                    "-f",
                    "-qq",
                    "-o",
                    "/dev/null",
                    "-e",
                    &format!("trace={calls}"),
                    "-e",
                    &inject,
                ]);
                let status =
                    traced.arg(program).args(command).args(["-q", "-j1"]).status().unwrap();
                let found = state();
                assert!(
                    found == before || found == after,
                    "{command:?} killed at {calls} {number}"
                );
                if status.success() {
                    assert!(found == after);
                    break;
                }
                killed += 1;
            }
        }
        println!("{}: killed {killed} times", command[0]);
        assert!(killed > 20);
    }
}
