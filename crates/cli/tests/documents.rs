//! Tests of model updates: the answers equal, bit for bit, the answers of a model trained on the
//! same documents.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::num::NonZeroUsize;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use classify::classifier::{Classifier, RawPrediction, UpdatableEngines};
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
use testkit::{Folder, text};

const SAMPLE: &str = "train.jsonl";
const TEST: &str = "test.jsonl";

/// Reads a file of the sample corpus.
fn read(name: &str) -> Vec<Document> {
    let corpus = Corpus::open(&[testkit::sample(name)], ReadOptions::default()).unwrap();
    corpus.map(Result::unwrap).collect()
}

fn threads() -> Threads {
    Threads::available().unwrap()
}

fn train_model(options: &TrainOptions, documents: &[Document]) -> Model {
    let trainer =
        Trainer::builder().options(options.clone()).engines(Engines::cpu(&threads())).build();
    trainer.train(documents).unwrap().model
}

/// Formats a complete prediction, with label names and the exact bits of its numbers.
fn describe(model: &Model, prediction: &RawPrediction) -> String {
    let name = |label: u32| model.label_name(label);
    let scores = prediction.scores.iter().map(|s| (name(s.label), s.score.to_bits()));
    let near = prediction.neighbors.iter().map(|neighbor| {
        let id = model.ids().get(neighbor.row as usize).unwrap();
        let labels = model.document_labels(neighbor.row).iter().map(|&label| name(label));
        (id, neighbor.similarity.to_bits(), labels.collect::<Vec<_>>())
    });
    let labels: Vec<&str> = prediction.labels.iter().map(|&label| name(label)).collect();
    let scores: Vec<_> = scores.collect();
    let near: Vec<_> = near.collect();
    format!("{labels:?} {scores:?} {near:?} {:?} {}", prediction.reason, prediction.unknown_terms)
}

fn answers(classifier: &Classifier, queries: &[Document]) -> Vec<String> {
    let options = classifier.options();
    let predictions = classifier.predict_documents(queries, &options).unwrap();
    predictions.iter().map(|prediction| describe(classifier.model(), prediction)).collect()
}

/// Returns the vocabulary of a model, with the document frequencies behind its weights.
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

/// Documents that a model should contain, as a plain list.
struct Expected {
    documents: Vec<Document>,
    random: Random,
    fresh: usize,
}

impl Expected {
    fn below(&mut self, count: usize) -> usize {
        self.random.below(count)
    }

    /// Creates a document with words of one or two of the given documents.
    fn random_document(&mut self, from: &[Document]) -> Document {
        let one = self.below(from.len());
        let two = self.below(from.len());
        let text = |document: &Document| match &document.content {
            Content::Text(text) => text.clone(),
            _ => unreachable!("texts"),
        };
        self.fresh += 1;
        // Some texts are equal, so that there are ties.
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

/// Applies random changes to a collection and to a list of documents, and compares their answers.
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
            decision: DecisionOptions { multi_label: Some(true), ..DecisionOptions::default() },
            ..TrainOptions::default()
        },
    ] {
        let base = train_model(&options, &documents);
        let under = TrainOptions { part_of: Some(statistics(&base)), ..options };
        let mut collection = Collection::new(Arc::new(base));
        let mut kept = UpdatableEngines::new(engines.clone());
        let mut list = Expected { documents: documents.clone(), random: Random::new(7), fresh: 0 };
        let mut classifier = Classifier::new(collection.model(), &threads()).unwrap();
        let mut changes = Vec::new();
        for operation in 1..=count {
            let full = list.documents.len() >= documents.len();
            let kind = if full { 3 } else { list.below(6) };
            let at = list.below(list.documents.len());
            match kind {
                0 | 1 => {
                    let document = list.random_document(&documents);
                    changes.push(document.clone());
                    list.documents.push(document);
                }
                2 => {
                    // A document with the identifier of another document replaces it, at the end.
                    let mut document = list.random_document(&documents);
                    document.id = list.documents.remove(at).id;
                    changes.push(document.clone());
                    list.documents.push(document);
                }
                _ => {}
            }
            let mut made = classifier.additions(&changes).unwrap().changes;
            changes.clear();
            if kind > 2 {
                let id = list.documents[at].id.clone();
                if kind == 3 {
                    list.documents.remove(at);
                    made.push(Change::Remove { id });
                } else {
                    let label = format!("label {}", list.below(7));
                    let labels = if kind == 4 { vec![] } else { vec![label] };
                    list.documents[at].labels.clone_from(&labels);
                    made.push(Change::Relabel { id, labels });
                }
            }
            collection.apply(made).unwrap();
            if operation % check_every == 0 || operation == count {
                let dense_share = collection.model().settings().dense_share;
                let searchers = kept.searchers(&collection, dense_share).unwrap();
                classifier = Classifier::with_searchers(collection.model(), searchers, &threads());
                let expected = train_model(&under, &list.documents);
                let expected = Classifier::new(expected.into(), &threads()).unwrap();
                assert_eq!(collection.len(), list.documents.len());
                let wanted = answers(&expected, queries);
                assert_eq!(answers(&classifier, queries), wanted, "after {operation} changes");
                // A model that was written and read again gives the same answers.
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

/// Saves a model of the sample corpus in a folder.
fn save_model(folder: &Path, options: &TrainOptions) -> std::path::PathBuf {
    let path = folder.join("a.model");
    train_model(options, &read(SAMPLE)).save(&path).unwrap();
    path
}

fn remove(id: &str) -> Vec<Change> {
    vec![Change::Remove { id: id.to_owned() }]
}

#[test]
fn one_process_changes_a_model_and_others_read_it() {
    let folder = Folder::new();
    let path = save_model(folder.path(), &TrainOptions::default());
    let ids: Vec<String> = read(SAMPLE).into_iter().map(|document| document.id).collect();
    let mut updated = UpdatedModel::open(&path).unwrap();
    assert!(matches!(UpdatedModel::open(&path), Err(UpdateError::Locked { .. })));
    assert_eq!(updated.commit(remove(&ids[3])).unwrap().removed, 1);
    assert_eq!(Model::open(&path).unwrap().ids().len(), ids.len() - 1);
    // Either all changes are made, or none.
    let some = [remove(&ids[4]), remove("no such document")].concat();
    let refused = updated.commit(some).unwrap_err();
    let missing = ChangeError::NoSuchDocument { id: "no such document".into() };
    assert!(matches!(refused, UpdateError::Change(error) if error == missing));
    #[expect(unsafe_code, reason = "maps a file")]
    // SAFETY: the file is in a private folder, and is only replaced by renames.
    let mapped = unsafe { Model::map(&path) };
    assert_eq!(mapped.unwrap().ids().len(), ids.len() - 1);
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
    let folder = Folder::new();
    let path = save_model(folder.path(), &TrainOptions::default());
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
    // Training a model again removes its changes.
    save_model(folder.path(), &TrainOptions::default());
    assert!(!journal_path(&path).exists());
    assert_eq!(Model::open(&path).unwrap().ids().len(), count);
}

/// The journal may contain texts, so it has the permissions of the model.
#[test]
fn a_journal_is_as_secret_as_its_model() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    for mode in [0o600, 0o640, 0o664] {
        let path = save_model(folder.path(), &TrainOptions::default());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let mut updated = UpdatedModel::open(&path).unwrap();
        updated.commit(remove(&read(SAMPLE)[0].id)).unwrap();
        let journal = std::fs::metadata(journal_path(&path)).unwrap();
        assert_eq!(journal.permissions().mode() & 0o777, mode);
    }
}

/// A process that opened a model cannot change another model that replaced it.
#[test]
fn a_replaced_model_cannot_be_changed() {
    let folder = Folder::new();
    let path = save_model(folder.path(), &TrainOptions::default());
    let ids: Vec<String> = read(SAMPLE).into_iter().map(|document| document.id).collect();
    let mut updated = UpdatedModel::open(&path).unwrap();
    updated.commit(remove(&ids[0])).unwrap();
    // Saving requires the lock; a rename does not.
    assert!(train_model(&TrainOptions::default(), &read(SAMPLE)).save(&path).is_err());
    std::fs::copy(&path, folder.path().join("copy")).unwrap();
    std::fs::rename(folder.path().join("copy"), &path).unwrap();
    assert!(matches!(updated.commit(remove(&ids[1])), Err(UpdateError::Replaced { .. })));
    drop(updated);
    let updated = UpdatedModel::open(&path).unwrap();
    assert!(updated.collection().contains(&ids[1]));
}

/// Updates keep the label prototypes. A new label only has votes, until `reweigh` learns term
/// weights and prototypes again.
#[test]
fn updates_keep_prototypes() {
    let tuning = TuneOptions { scope: TuneScope::Votes, ..TuneOptions::default() };
    let options = TrainOptions {
        tuning: Some(tuning),
        k: NonZeroUsize::new(5),
        keep_text: true,
        ..TrainOptions::default()
    };
    let documents = read(SAMPLE);
    let model = train_model(&options, &documents);
    assert!(model.settings().vote.prototypes > 0.0);
    let before = Classifier::new(Arc::new(model), &threads()).unwrap();
    let queries = read(TEST);
    let mut collection = Collection::new(Arc::clone(before.model()));
    // The name of the new label sorts first, so all other labels get new numbers.
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
    let scores_of = |classifier: &Classifier| {
        let mut options = classifier.options();
        options.k = NonZeroUsize::MIN;
        let predictions = classifier.predict_documents(&queries, &options).unwrap();
        let name = |label: u32| classifier.model().label_name(label).to_owned();
        let scores = |p: &RawPrediction| {
            p.scores.iter().map(|s| (name(s.label), s.score.to_bits())).collect::<Vec<_>>()
        };
        predictions.iter().map(scores).collect::<Vec<_>>()
    };
    let mut same = 0;
    for (old, new) in scores_of(&before).iter().zip(&scores_of(&again)) {
        if new.iter().all(|(label, _)| label != "airships") {
            assert_eq!(old, new);
            same += 1;
        }
    }
    assert!(same > 70, "{same}");
    // The terms of the new label are not in the vocabulary yet.
    let anew = reweigh(&grown, &threads()).unwrap();
    let anew = Classifier::new(Arc::new(anew), &threads()).unwrap();
    let found = anew.predict("an airship above its hangar, a zeppelin with a gondola").unwrap();
    assert_eq!(found.scores[0].label, "airships");
}

#[test]
fn a_model_without_documents_answers_nothing() {
    let folder = Folder::new();
    let single = DecisionOptions { multi_label: Some(false), ..DecisionOptions::default() };
    let documents: Vec<Document> =
        read(SAMPLE).into_iter().filter(|document| document.labels.len() == 1).collect();
    let path = folder.path().join("a.model");
    train_model(&TrainOptions { decision: single, ..TrainOptions::default() }, &documents)
        .save(&path)
        .unwrap();
    let mut updated = UpdatedModel::open(&path).unwrap();
    let all = documents.iter().flat_map(|document| remove(&document.id)).collect();
    updated.commit(all).unwrap();
    let classifier = Classifier::new(updated.model(), &threads()).unwrap();
    let prediction = classifier.predict("milk and sugar").unwrap();
    assert!(prediction.labels.is_empty() && updated.collection().is_empty());
    updated.compact().unwrap();
    assert_eq!(Model::open(&path).unwrap().ids().len(), 0);
}

/// The golden journal can be read, and is written again with the same bytes. `WRITE_GOLDEN`
/// replaces it.
#[test]
fn golden_journal() {
    let folder = Folder::new();
    let path = folder.path().join("a.model");
    std::fs::copy(testkit::model("golden-v1.model"), &path).unwrap();
    let before = Model::open(&path).unwrap();
    if std::env::var_os("WRITE_GOLDEN").is_some() {
        let mut updated = UpdatedModel::open(&path).unwrap();
        for commit in golden_commits(&before) {
            updated.commit(commit).unwrap();
        }
        std::fs::copy(journal_path(&path), testkit::model("golden-v1.journal")).unwrap();
    }
    std::fs::copy(testkit::model("golden-v1.journal"), journal_path(&path)).unwrap();
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
        labels.map(|&label| model.label_name(label)).collect()
    };
    assert_eq!(labels("new 1"), ["odd"]);
    assert_eq!(labels("new 2"), ["cooking", "odd"]);
    assert!(!model.document_terms(row("new 1")).0.is_empty());
    // The same changes give the same bytes.
    std::fs::remove_file(journal_path(&path)).unwrap();
    let mut updated = UpdatedModel::open(&path).unwrap();
    for commit in golden_commits(&before) {
        updated.commit(commit).unwrap();
    }
    drop(updated);
    let written = std::fs::read(journal_path(&path)).unwrap();
    assert_eq!(written, std::fs::read(testkit::model("golden-v1.journal")).unwrap());
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
    let folder = Folder::new();
    let path = save_model(folder.path(), &TrainOptions::default());
    drop(UpdatedModel::open(&path).unwrap());
    assert!(!journal_path(&path).exists());
    assert!(UpdatedModel::open(&folder.path().join("none")).is_err());
    std::fs::write(&path, "no model").unwrap();
    assert!(UpdatedModel::open(&path).is_err());
    assert!(!journal_path(&path).exists());
}

/// A command that is killed at any of its system calls leaves the old model or the new model.
#[test]
#[ignore = "needs strace"]
fn killed_at_any_system_call() {
    let folder = Folder::new();
    let program = env!("CARGO_BIN_EXE_classify");
    let start = folder.path().join("start.model");
    train_model(&TrainOptions { keep_text: true, ..TrainOptions::default() }, &read(SAMPLE))
        .save(&start)
        .unwrap();
    let path = folder.path().join("a.model");
    let journal = journal_path(&folder.path().canonicalize().unwrap().join("a.model"));
    let first = read(SAMPLE)[0].id.clone();
    let name = text(&path);
    let test = testkit::sample(TEST);
    let commands: [&[&str]; 4] = [
        &["add", name, text(&test)],
        &["remove", name, &first],
        &["compact", name],
        &["compact", name, "--reweigh"],
    ];
    for command in commands {
        let reset = || {
            let _ = std::fs::remove_file(&journal);
            std::fs::copy(&start, &path).unwrap();
            // The journal already has content.
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
        // Only calls that affect files can leave something behind.
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
