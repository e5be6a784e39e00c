//! Example: a search that a predicate restricts to the documents of one label.
//!
//! `cargo run --example search_with_predicate`

#![expect(clippy::print_stdout, reason = "an example prints its results")]

use std::error::Error;
use std::num::NonZeroUsize;

use classify::classifier::Classifier;
use classify::learn::Trainer;
use classify::search::{Allow, Engines, NeighborLists, Request, RowSet};
use classify::text::corpus::{Content, Corpus, Document, Place, ReadOptions};
use classify::threads::Threads;

fn main() -> Result<(), Box<dyn Error>> {
    let threads = Threads::available()?;
    let corpus = Corpus::open(&["corpora/sample/train.jsonl".into()], ReadOptions::default())?;
    let trainer = Trainer::builder().engines(Engines::cpu(&threads)).build();
    let model = trainer.train(corpus)?.model;
    let classifier = Classifier::new(model.into(), &threads)?;
    let model = classifier.model();

    let document = Document {
        id: "query".to_owned(),
        content: Content::Text("tighten the derailleur cable".to_owned()),
        labels: Vec::new(),
        weight: 1.0,
        vector: None,
        group: None,
        place: Place { source: "query".into(), line: None },
    };
    let query = classifier.vectorize(&[document])?;

    // The predicate may be any function of the row. Here, it requires the label `music`.
    let music = model.labels().iter().position(|label| label == "music");
    let music = u32::try_from(music.ok_or("the sample has no label `music`")?)?;
    let engine = classifier.searchers().terms.as_ref().ok_or("a model of texts has terms")?;
    let rows = RowSet::from_fn(engine.rows(), |row| model.document_labels(row).contains(&music));

    let k = NonZeroUsize::new(3).ok_or("k is above 0")?;
    let mut found = NeighborLists::default();
    let request = Request::new(&query.rows, k).among(Allow::all().only(&rows));
    let report = engine.search(&request, &mut found)?;
    for neighbor in found.get(0) {
        let id = model.ids().get(neighbor.row as usize).unwrap_or_default();
        println!("{id} {:.4}", neighbor.similarity);
    }
    println!("{} of {} rows were allowed; {report:?}", rows.count(), rows.rows());
    Ok(())
}
