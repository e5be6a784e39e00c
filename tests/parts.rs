//! Tests that a corpus can be trained in parts: each document gets exactly the weights that it has
//! in the whole corpus.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;

use classify::learn::{TrainError, TrainOptions, Trainer, TuneOptions};
use classify::model::{InputSpec, Model};
use classify::search::Engines;
use classify::text::corpus::{Corpus, Document, ReadOptions};
use classify::text::counts::{CorpusStatistics, CountOptions, Counts, TermFrequency};
use classify::threads::Threads;

const SAMPLE: &str = "corpora/sample/train.jsonl";

fn sample() -> Vec<Document> {
    let corpus = Corpus::open(&[SAMPLE.into()], ReadOptions::default()).unwrap();
    corpus.map(Result::unwrap).collect()
}

fn trained(options: &TrainOptions, documents: &[Document]) -> Result<Model, TrainError> {
    let engines = Engines::cpu(&Threads::available().unwrap());
    let trainer = Trainer::builder().options(options.clone()).engines(engines).build();
    Ok(trainer.train(documents)?.model)
}

/// Returns the sum of the term statistics of all parts.
fn statistics(options: &TrainOptions, parts: &[&[Document]]) -> CorpusStatistics {
    let threads = Threads::available().unwrap();
    let input = InputSpec::Text(options.analyzer.clone()).counting(&options.fields);
    let mut all: Vec<TermFrequency> = Vec::new();
    for part in parts {
        let mut documents = part.iter().cloned().map(Ok);
        let counts =
            Counts::read(&mut documents, &CountOptions::new(&input), &threads, &|_| ()).unwrap();
        all.extend(counts.term_frequencies(&options.fields.boosts()));
    }
    all.sort_by(|a, b| a.term.cmp(&b.term));
    let documents: usize = parts.iter().map(|part| part.len()).sum();
    let mut terms = Vec::new();
    let mut frequencies = Vec::new();
    let mut length = 0.0;
    for same in all.chunk_by(|a, b| a.term == b.term) {
        terms.push(same[0].term.clone());
        frequencies.push(same.iter().map(|part| part.documents).sum());
        length += same.iter().map(|part| part.occurrences).sum::<f64>();
    }
    let documents = documents as u64;
    CorpusStatistics::new(&terms, frequencies, documents, length / documents as f64).unwrap()
}

#[test]
fn rows_of_parts_equal_the_whole() {
    let documents = sample();
    for weighting in ["ltc", "kkn.nnn", "Lsc", "nsc"] {
        let options =
            TrainOptions { weighting: weighting.parse().unwrap(), ..TrainOptions::default() };
        let whole = trained(&options, &documents).unwrap();
        for cuts in [vec![0, 248], vec![0, 1, 100, 248], vec![0, 62, 124, 186, 248]] {
            let parts: Vec<&[Document]> =
                cuts.windows(2).map(|pair| &documents[pair[0]..pair[1]]).collect();
            let statistics = Arc::new(statistics(&options, &parts));
            let mut row = 0;
            for part in parts {
                let options =
                    TrainOptions { part_of: Some(Arc::clone(&statistics)), ..options.clone() };
                let model = trained(&options, part).unwrap();
                assert_eq!(model.settings().part_of, Some(248));
                let mean_length = whole.settings().counts.mean_length;
                assert_eq!(
                    model.settings().counts.mean_length.to_bits(),
                    mean_length.to_bits(),
                    "{weighting}"
                );
                for part_row in 0..u32::try_from(part.len()).unwrap() {
                    assert_eq!(
                        model.document_terms(part_row),
                        whole.document_terms(row),
                        "{weighting}"
                    );
                    row += 1;
                }
                // The file contains the statistics.
                let reloaded = Model::from_bytes(&model.to_bytes().unwrap()).unwrap();
                assert_eq!(reloaded.settings().part_of, Some(248));
                assert_eq!(reloaded.document_terms(0), model.document_terms(0));
            }
        }
    }
}

#[test]
fn unknown_terms_are_dropped_and_global_options_are_rejected() {
    let documents = &sample()[..20];
    let few = CorpusStatistics::new(&["and", "bread", "the"], vec![90, 5, 99], 100, 2.0).unwrap();
    let options = TrainOptions { part_of: Some(Arc::new(few)), ..TrainOptions::default() };
    let model = trained(&options, documents).unwrap();
    assert_eq!(model.vocabulary().len(), 3);
    assert_eq!(model.vocabulary().document_frequencies(), [90, 5, 99]);
    let tuned = TrainOptions { tuning: Some(TuneOptions::default()), ..options.clone() };
    assert!(matches!(trained(&tuned, documents), Err(TrainError::PartNeedsWhole)));
    let trainer = Trainer::builder().engines(Engines::cpu(&Threads::available().unwrap())).build();
    assert!(matches!(trainer.retune(model), Err(TrainError::PartNeedsWhole)));
    let rows = "1 1:0.5\n2 2:0.5\n";
    let rows = Corpus::from_bytes("rows.svm", rows.into(), ReadOptions::default()).unwrap();
    let rows: Vec<Document> = rows.map(Result::unwrap).collect();
    assert!(matches!(trained(&options, &rows), Err(TrainError::PartOfFeatures)));
}
