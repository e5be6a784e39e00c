//! The model file: the golden one always loads, a damaged one never does.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use classify::classifier::{Classifier, Reason};
use classify::model::{Model, ModelProblem};
use classify::threads::Threads;
use testkit::{Folder, Program, text};

fn golden() -> PathBuf {
    testkit::model("golden-v1.model")
}

/// The program, started in the folder of the golden models.
fn program() -> Program {
    Program::new(env!("CARGO_BIN_EXE_classify")).within(&testkit::root().join("models"))
}

fn bytes() -> Vec<u8> {
    std::fs::read(golden()).unwrap()
}

#[test]
fn the_golden_model_loads_and_answers() {
    let model = Model::open(&golden()).unwrap();
    let counts = model.settings().counts;
    assert_eq!((counts.documents, counts.labels, counts.terms), (8, 3, 92));
    assert_eq!(model.texts().unwrap().get(6), Some("Crème brûlée: heat the cream, never boil it."));
    assert_eq!(model.document_labels(1), [1, 2]);
    let model = Arc::new(model);
    let classifier = Classifier::new(Arc::clone(&model), &Threads::available().unwrap()).unwrap();
    let predictions = classifier.classify_texts(&["bake bread with basil", "qwerty"]).unwrap();
    assert_eq!(predictions[0].labels, [1, 2]);
    let similarities: Vec<u32> =
        predictions[0].neighbors.iter().map(|neighbor| neighbor.similarity.to_bits()).collect();
    // These bits are guaranteed: the same on every machine and in every later version.
    assert_eq!(similarities, [0.286_753f32, 0.216_683_45, 0.060_927_562].map(f32::to_bits));
    assert!(predictions[1].labels.is_empty());
}

/// Fields, selected and weighted terms, thresholds, probabilities, limits and a hierarchy.
#[test]
fn the_golden_model_of_version_2_answers() {
    let path = testkit::model("golden-v2.model");
    let model = Model::open(&path).unwrap();
    let labels: Vec<&str> = model.labels().iter().collect();
    assert_eq!(labels, ["astronomy", "cooking", "gardening", "home"]);
    assert!(model.settings().abstention.is_some() && model.calibration().is_some());
    let model = Arc::new(model);
    let classifier = Classifier::new(Arc::clone(&model), &Threads::available().unwrap()).unwrap();
    let texts = ["bake bread with basil", "qwerty", "comet stars"];
    let predictions = classifier.classify_texts(&texts).unwrap();
    let answers: Vec<&[u32]> = predictions.iter().map(|p| &*p.labels).collect();
    assert_eq!(answers, [&[3, 1][..], &[], &[0]]);
    assert_eq!(predictions[0].probabilities.len(), predictions[0].scores.len());
    // Saving loses nothing of the original.
    let folder = Folder::new();
    let again = folder.at("again.model");
    model.save(&again).unwrap();
    assert_eq!(std::fs::read(&again).unwrap(), std::fs::read(&path).unwrap());
}

/// A model with dense vectors. Training it again gives the same bytes on every machine, with any
/// number of threads.
#[test]
fn the_golden_model_of_version_3_answers() {
    let path = testkit::model("golden-v3.model");
    let model = Arc::new(Model::open(&path).unwrap());
    assert_eq!(model.settings().dense_share.to_bits(), 0.4f64.to_bits());
    let dense = model.dense().unwrap();
    assert_eq!((dense.vectors().rows(), dense.vectors().dimension()), (8, 3));
    let classifier = Classifier::new(Arc::clone(&model), &Threads::available().unwrap()).unwrap();
    let predictions = classifier.classify_texts(&["bake the bread", "qwerty"]).unwrap();
    assert_eq!(predictions[0].neighbors.len(), 3);
    assert_eq!(predictions[0].by_vectors.len(), 3);
    assert_eq!(model.labels().get(predictions[0].labels[0] as usize), Some("cooking"));
    assert_eq!(predictions[1].reason, Some(Reason::NoKnownTerm));
    let folder = Folder::new();
    let again = folder.at("again.model");
    let golden = std::fs::read(&path).unwrap();
    model.save(&again).unwrap();
    assert!(std::fs::read(&again).unwrap() == golden);
    let train =
        "train golden.jsonl --features tfidf+lsa:3 --dense-share 0.4 -k 3 --mode multi -q -o";
    program().succeed(&train.split(' ').chain([text(&again)]).collect::<Vec<_>>());
    assert!(std::fs::read(&again).unwrap() == golden);
}

/// A tuned model with learned votes, probabilities by evidence and a limit of confidence.
#[test]
fn the_golden_models_of_versions_4_and_9_answer() {
    let path = testkit::model("golden-v4.model");
    let model = Arc::new(Model::open(&path).unwrap());
    // Document 1 may also vote for the labels of documents near it.
    let vote_weights = model.learned_votes().unwrap().of(1);
    assert_eq!(vote_weights.map(|vote| vote.label).collect::<Vec<_>>(), [0, 1, 2]);
    let classifier = Classifier::new(Arc::clone(&model), &Threads::available().unwrap()).unwrap();
    let texts = ["bake the bread", "comet stars"];
    let predictions = classifier.classify_texts(&texts).unwrap();
    assert_eq!(predictions[0].scores[0].label, 1);
    // The target is out of reach for so few documents: nothing is answered.
    assert!(predictions.iter().all(|prediction| {
        prediction.probabilities.len() == prediction.scores.len()
            && prediction.confidence.is_some()
            && prediction.reason == Some(Reason::Unsure)
            && prediction.labels.is_empty()
    }));
    let folder = Folder::new();
    let again = folder.at("again.model");
    let golden = std::fs::read(&path).unwrap();
    model.save(&again).unwrap();
    assert!(std::fs::read(&again).unwrap() == golden);
    // Trained again, the probability of the answer has a regression of its own.
    let golden = std::fs::read(testkit::model("golden-v9.model")).unwrap();
    let train = "train golden.jsonl --tune=votes --vote learned --abstain target-error=50% -q -o";
    program().succeed(&train.split(' ').chain([text(&again)]).collect::<Vec<_>>());
    assert!(std::fs::read(&again).unwrap() == golden);
    let model = Arc::new(Model::open(&again).unwrap());
    let classifier = Classifier::new(model, &Threads::available().unwrap()).unwrap();
    let newer = classifier.classify_texts(&texts).unwrap();
    assert!(newer.iter().zip(&predictions).all(|(newer, older)| newer.scores == older.scores));
    assert!(newer.iter().all(|newer| newer.probabilities.iter().all(|p| (0.0..=1.0).contains(p))));
}

#[test]
fn saving_gives_the_same_bytes() {
    let folder = Folder::new();
    let path = folder.at("again.model");
    Model::open(&golden()).unwrap().save(&path).unwrap();
    let saved = std::fs::read(&path).unwrap();
    Model::open(&path).unwrap().save(&path).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), saved);
    // Saving an older model writes the current format, with the same arrays.
    let old = bytes();
    assert_eq!(old[old.len() - 1000..old.len() - 4], saved[saved.len() - 1000..saved.len() - 4]);
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "no temporary file is left");
}

#[test]
fn cut_at_any_byte() {
    let bytes = bytes();
    for length in 0..bytes.len() {
        assert!(Model::from_bytes(&bytes[..length]).is_err(), "cut to {length} bytes");
    }
    assert!(Model::from_bytes(&[&bytes[..], b"x"].concat()).is_err(), "a byte too many");
}

#[test]
fn any_flipped_bit() {
    let mut bytes = bytes();
    for index in 0..bytes.len() {
        let bit = 1 << (index % 8);
        bytes[index] ^= bit;
        assert!(Model::from_bytes(&bytes).is_err(), "bit {bit:#x} of byte {index}");
        bytes[index] ^= bit;
    }
    assert!(Model::from_bytes(&bytes).is_ok());
}

#[test]
fn errors_say_what_and_what_next() {
    let replace = |from: &str, to: &str| {
        let text = bytes();
        let at = text.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
        [&text[..at], to.as_bytes(), &text[at + from.len()..]].concat()
    };
    let error = |bytes: &[u8]| Model::from_bytes(bytes).unwrap_err();
    assert!(matches!(error(b"{}").problem, ModelProblem::NotSafetensors { .. }));
    let wrong = error(&replace("rows.data\":{\"dtype\":\"F32\"", "rows.data\":{\"dtype\":\"I32\""));
    assert!(matches!(wrong.problem, ModelProblem::WrongType { .. }), "{wrong}");
    let newer = error(&replace(
        "\\\"version\\\":1,\\\"created_by\\\":\\\"classify 0",
        "\\\"version\\\":10,\\\"created_by\\\":\\\"classify ",
    ));
    assert!(matches!(newer.problem, ModelProblem::Version { found: 10, .. }), "{newer}");
    assert!(newer.hint().unwrap().contains("retrain it"));
    let missing = error(&replace("\"rows.data\"", "\"rows.dada\""));
    assert!(matches!(missing.problem, ModelProblem::Missing { .. }), "{missing}");
    let last = bytes().len() - 1;
    let mut damaged = bytes();
    damaged[last] ^= 1;
    let damaged = error(&damaged);
    assert!(matches!(damaged.problem, ModelProblem::Checksum { .. }), "{damaged}");
    let nowhere = Model::open(Path::new("/no/such.model")).unwrap_err();
    assert!(matches!(nowhere.problem, ModelProblem::Read(_)));
}

/// An updated model, learned term weights, and label prototypes: versions 6, 7 and 8.
#[test]
fn the_golden_models_of_versions_6_to_8_answer() {
    let answer = |name: &str, text: &str| {
        let path = testkit::model(name);
        let model = Arc::new(Model::open(&path).unwrap());
        let folder = Folder::new();
        let again = folder.at("again.model");
        model.save(&again).unwrap();
        assert!(std::fs::read(&again).unwrap() == std::fs::read(&path).unwrap());
        let threads = Threads::available().unwrap();
        let classifier = Classifier::new(Arc::clone(&model), &threads).unwrap();
        let prediction = classifier.classify_texts(&[text]).unwrap().remove(0);
        let first = prediction.scores[0].label;
        (model.labels().get(first as usize).unwrap().to_owned(), model)
    };
    let (label, model) = answer("golden-v6.model", "bake the bread");
    assert_eq!(label, "cooking");
    let updates = model.settings().updates.unwrap();
    assert_eq!((updates.weighed, updates.removed, model.ids().len()), (8, 1, 7));
    let (label, model) = answer("golden-v7.model", "tighten the derailleur cable");
    assert_eq!(label, "cycling");
    assert!(model.learned_terms() && model.settings().tuning.is_some());
    let (label, model) = answer("golden-v8.model", "tighten the derailleur cable");
    assert_eq!(label, "cycling");
    assert!(model.prototypes().is_some() && model.settings().vote.prototypes > 0.0);
}
