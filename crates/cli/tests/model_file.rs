//! Tests of the model file: golden models always load, and damaged models never do.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use classify::classifier::{Classifier, RawPrediction, Reason};
use classify::model::{Model, ModelProblem};
use classify::text::corpus::Document;
use classify::threads::Threads;
use testkit::{Folder, Program};

/// A golden model, with the commands that write it to FILE, one per line.
struct Golden {
    name: &'static str,
    commands: &'static str,
}

/// The golden models of `models/README.md`.
const MODELS: [Golden; 7] = [
    Golden {
        name: "golden-v1",
        commands: "train golden.jsonl -o FILE --stem english --word-ngrams 1-2 --fold-accents \
                   --keep-text --no-tune",
    },
    Golden {
        name: "golden-v1-rules",
        commands: "train golden.jsonl -o FILE --tune=votes --k-max 5 --abstain target-error=95% \
                   --title-boost 2 --select chi2:40 --chi2-power 0.5 --hierarchy golden.tsv \
                   --rule scut-smoothed",
    },
    Golden {
        name: "golden-v1-dense",
        commands: "train golden.jsonl -o FILE --features tfidf+lsa:3 --dense-share 0.4 -k 3 \
                   --mode multi",
    },
    Golden {
        name: "golden-v1-votes",
        commands: "train golden.jsonl -o FILE --tune=votes --vote learned \
                   --abstain target-error=50%",
    },
    Golden {
        name: "golden-v1-terms",
        commands: "train golden.jsonl -o FILE --tune --vote similarity --weighting btc \
                   --chi2-power 0",
    },
    Golden {
        name: "golden-v1-prototypes",
        commands: "train ../corpora/sample/train.jsonl -o FILE --tune=votes \
                   --abstain foreign=20% --select chi2:300 -k 5",
    },
    Golden {
        name: "golden-v1-updated",
        commands: "train golden.jsonl -o FILE --keep-text --no-tune\n\
                   remove FILE g3\n\
                   compact FILE",
    },
];

fn golden(name: &str) -> PathBuf {
    testkit::model(name).with_extension("model")
}

fn bytes() -> Vec<u8> {
    std::fs::read(golden("golden-v1")).unwrap()
}

fn open_golden(name: &str) -> Arc<Model> {
    Arc::new(Model::open(&golden(name)).unwrap())
}

fn predictions(model: &Arc<Model>, texts: &[&str]) -> Vec<RawPrediction> {
    let classifier = Classifier::new(Arc::clone(model), &Threads::available().unwrap()).unwrap();
    let documents: Vec<Document> = texts.iter().map(|text| Document::text("", *text)).collect();
    classifier.predict_documents(&documents, &classifier.options()).unwrap()
}

/// Returns the name of the label with the highest score.
fn best<'a>(model: &'a Model, prediction: &RawPrediction) -> &'a str {
    model.label_name(prediction.scores[0].label)
}

/// Golden models are written again with the same bytes, by their commands and by saving them, on
/// every machine and with any number of threads. `WRITE_GOLDEN` replaces them.
#[test]
fn golden_models_are_written_again() {
    let folder = Folder::new();
    let program =
        Program::new(env!("CARGO_BIN_EXE_classify")).within(&testkit::root().join("models"));
    let path = folder.path().join("again.model");
    for Golden { name, commands } in MODELS {
        for command in commands.lines() {
            let file = path.to_str().unwrap();
            let arguments = command.split_whitespace().chain(["-q"]).map(|word| match word {
                "FILE" => file,
                word => word,
            });
            program.succeed(&arguments.collect::<Vec<_>>());
        }
        if std::env::var_os("WRITE_GOLDEN").is_some() {
            std::fs::copy(&path, golden(name)).unwrap();
        }
        let expected = std::fs::read(golden(name)).unwrap();
        assert!(std::fs::read(&path).unwrap() == expected, "{name}: other bytes by {commands}");
        open_golden(name).save(&path).unwrap();
        assert!(std::fs::read(&path).unwrap() == expected, "{name}: other bytes when saved");
    }
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "no temporary file is left");
}

#[test]
fn the_golden_model_answers() {
    let model = open_golden("golden-v1");
    let counts = model.settings().counts;
    assert_eq!((counts.documents, counts.labels, counts.terms), (8, 3, 92));
    assert_eq!(model.texts().unwrap().get(6), Some("Crème brûlée: heat the cream, never boil it."));
    assert_eq!(model.document_labels(1), [1, 2]);
    let predictions = predictions(&model, &["bake bread with basil", "qwerty"]);
    assert_eq!(predictions[0].labels, [1, 2]);
    let similarities: Vec<u32> =
        predictions[0].neighbors.iter().map(|neighbor| neighbor.similarity.to_bits()).collect();
    // These bits are guaranteed to be equal on every machine.
    assert_eq!(similarities, [0.286_753f32, 0.216_683_45, 0.060_927_562].map(f32::to_bits));
    assert!(predictions[1].labels.is_empty());
}

/// Covers fields, selected and weighted terms, thresholds, probabilities, an abstention limit and a
/// hierarchy.
#[test]
fn the_golden_model_with_rules_answers() {
    let model = open_golden("golden-v1-rules");
    let labels: Vec<&str> = model.labels().iter().collect();
    assert_eq!(labels, ["astronomy", "cooking", "gardening", "home"]);
    assert!(model.settings().abstention.is_some_and(|limit| limit.reaches_target()));
    let texts = ["bake bread with basil", "qwerty", "comet stars"];
    let predictions = predictions(&model, &texts);
    let answers: Vec<&[u32]> = predictions.iter().map(|p| &*p.labels).collect();
    assert_eq!(answers, [&[1, 2, 3][..], &[], &[0]]);
    assert_eq!(predictions[0].probabilities.len(), predictions[0].scores.len());
}

#[test]
fn the_golden_model_with_dense_vectors_answers() {
    let model = open_golden("golden-v1-dense");
    assert_eq!(model.settings().dense_share.to_bits(), 0.4f64.to_bits());
    let dense = model.dense().unwrap();
    assert_eq!((dense.vectors().rows(), dense.vectors().dimension()), (8, 3));
    let predictions = predictions(&model, &["bake the bread", "qwerty"]);
    assert_eq!(predictions[0].neighbors.len(), 3);
    assert_eq!(predictions[0].by_vectors.len(), 3);
    assert_eq!(model.label_name(predictions[0].labels[0]), "cooking");
    assert_eq!(predictions[1].reason, Some(Reason::NoKnownTerm));
}

/// Covers learned votes, probabilities, and an abstention limit that is out of reach.
#[test]
fn the_golden_model_with_learned_votes_answers() {
    let model = open_golden("golden-v1-votes");
    let weights: Vec<_> = model.learned_votes().unwrap().of(1).collect();
    // Document 1 may also vote for the label of nearby documents.
    assert_eq!(weights.iter().map(|weight| weight.label).collect::<Vec<_>>(), [0, 1, 2]);
    let predictions = predictions(&model, &["bake the bread", "comet stars"]);
    assert_eq!(predictions[0].scores[0].label, 1);
    // The target is out of reach with so few documents, so nothing is answered.
    assert!(predictions.iter().all(|prediction| {
        prediction.probabilities.len() == prediction.scores.len()
            && prediction.probabilities.iter().all(|p| (0.0..=1.0).contains(p))
            && prediction.confidence.is_some()
            && prediction.reason == Some(Reason::LowConfidence)
            && prediction.labels.is_empty()
    }));
}

#[test]
fn the_golden_models_with_learned_terms_and_prototypes_answer() {
    let model = open_golden("golden-v1-terms");
    assert_eq!(best(&model, &predictions(&model, &["bake the bread"])[0]), "cooking");
    assert!(model.learned_terms() && model.settings().tuning.is_some());
    let model = open_golden("golden-v1-prototypes");
    let text = "the tire of the bicycle";
    assert_eq!(best(&model, &predictions(&model, &[text])[0]), "cycling");
    assert!(model.prototypes().is_some() && model.settings().vote.prototypes > 0.0);
    assert!(model.novelty_score().is_some() && model.settings().novelty.is_some());
}

#[test]
fn the_golden_model_with_updates_answers() {
    let model = open_golden("golden-v1-updated");
    assert_eq!(best(&model, &predictions(&model, &["bake the bread"])[0]), "cooking");
    let updates = model.settings().updates.unwrap();
    assert_eq!((updates.weighed, updates.removed, model.ids().len()), (8, 1, 7));
}

#[test]
fn truncated_models_are_refused() {
    let bytes = bytes();
    for length in 0..bytes.len() {
        assert!(Model::from_bytes(&bytes[..length]).is_err(), "cut to {length} bytes");
    }
    assert!(Model::from_bytes(&[&bytes[..], b"x"].concat()).is_err(), "a byte too many");
}

#[test]
fn flipped_bits_are_detected() {
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
fn errors_explain_the_next_step() {
    let replace = |from: &str, to: &str| {
        let text = bytes();
        let at = text.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
        [&text[..at], to.as_bytes(), &text[at + from.len()..]].concat()
    };
    let error = |bytes: &[u8]| Model::from_bytes(bytes).unwrap_err();
    assert!(matches!(error(b"{}").problem, ModelProblem::NotSafetensors { .. }));
    let wrong = error(&replace("rows.data\":{\"dtype\":\"F32\"", "rows.data\":{\"dtype\":\"I32\""));
    assert!(matches!(wrong.problem, ModelProblem::WrongType { .. }), "{wrong}");
    let other = error(&replace("\\\"version\\\":1", "\\\"version\\\":9"));
    assert!(matches!(other.problem, ModelProblem::Version { found: 9, supported: 1, .. }));
    assert!(other.to_string().ends_with("a model of version 9; this build reads version 1"));
    assert!(other.hint().unwrap().starts_with("train the model again"));
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
