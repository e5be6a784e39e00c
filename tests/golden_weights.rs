//! Compares `--weighting sklearn` with the results of scikit-learn (`golden/make.py`).

use classify::learn::{TrainOptions, Trainer};
use classify::text::analyze::{AnalyzerSpec, Case, Normalization, Words};
use classify::text::corpus::{Corpus, ReadOptions};
use serde_json::Value;

#[test]
fn weights_equal_scikit_learn() {
    let golden: Vec<Value> = serde_json::from_str(include_str!("golden/sklearn.json")).unwrap();
    let lines: Vec<String> = golden
        .iter()
        .map(|row| serde_json::json!({ "text": row["text"], "labels": [] }).to_string())
        .collect();
    let corpus =
        Corpus::from_bytes("golden", lines.join("\n").into(), ReadOptions::default()).unwrap();
    // The settings of `classify train --weighting sklearn`.
    let analyzer = AnalyzerSpec {
        words: Words::WordCharacters,
        case: Case::Lower,
        normalization: Normalization::None,
        min_length: 2,
        ..AnalyzerSpec::default()
    };
    let options = TrainOptions {
        analyzer,
        weighting: "sklearn".parse().unwrap(),
        tuning: None,
        ..TrainOptions::default()
    };
    let model = Trainer::builder().options(options).build().train(corpus).unwrap().model;
    assert_eq!(model.rows().rows(), golden.len());
    for (row, expected) in (0..).zip(&golden) {
        let (terms, weights) = model.document_terms(row);
        let found: Vec<(&str, f32)> = terms
            .iter()
            .zip(weights)
            .map(|(&term, &weight)| (model.vocabulary().term(term).unwrap(), weight))
            .collect();
        let expected: Vec<(&str, f64)> = expected["weights"]
            .as_array()
            .unwrap()
            .iter()
            .map(|pair| (pair[0].as_str().unwrap(), pair[1].as_f64().unwrap()))
            .collect();
        assert_eq!(
            found.iter().map(|pair| pair.0).collect::<Vec<_>>(),
            expected.iter().map(|pair| pair.0).collect::<Vec<_>>(),
            "terms of document {row}"
        );
        for (&(term, weight), &(_, golden)) in found.iter().zip(&expected) {
            assert!((f64::from(weight) - golden).abs() < 1e-6, "{term} in document {row}");
        }
    }
}
