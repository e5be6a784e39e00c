//! Documents that come and go: how fast they are added, and what they cost a search.
//!
//! `cargo bench --bench documents -- CORPUS [K]` trains on nine tenths of a corpus (JSONL), adds the rest to the journal in
//! steps, and removes as many others. It prints how many documents a second were added (analyzed, weighted, written and
//! synced), and after each step the time of a search as a ratio of that among the same documents in one piece: the medians
//! of pairs of runs, one thread, 4,096 queries.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark may panic, and prints")]

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

use classify::classifier::{Classifier, Searchers, UpdatableEngines};
use classify::learn::{TrainOptions, Trainer};
use classify::model::{Change, Model, UpdatedModel};
use classify::search::{Engines, NeighborLists, Request, Search};
use classify::text::corpus::{Corpus, Document, ReadOptions};
use classify::threads::Threads;

const PAIRS: usize = 15;
const QUERIES: usize = 4_096;

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let Some(corpus) = arguments.next() else {
        println!("documents: give a corpus (JSONL); see the head of this file");
        return;
    };
    let k = arguments.next().map_or("30".to_owned(), |k| k).parse().unwrap();
    let all = Threads::available().unwrap();
    let one = Threads::new(NonZeroUsize::MIN).unwrap();
    let documents: Vec<Document> = Corpus::open(&[corpus.into()], ReadOptions::default())
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let (old, new) = documents.split_at(documents.len() / 10 * 9);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.model");
    let mut reading = old.iter().cloned().map(Ok);
    let trainer = Trainer::new(TrainOptions::default(), Engines::cpu(&all));
    trainer.train(&mut reading, "corpus", &|_| ()).unwrap().model.save(&path).unwrap();

    let mut updated = UpdatedModel::open(&path).unwrap();
    let mut engines = UpdatableEngines::new(Engines::cpu(&one));
    // Its rows are indexed before anything is added.
    let _ = engines.searchers(updated.collection(), 0.0).unwrap();
    let classifier = Classifier::with_searchers(updated.model(), Searchers::default(), &all);
    let queries = classifier.vectorize(&documents[..QUERIES.min(documents.len())]).unwrap().rows;
    let (mut count, mut took) = (0, 0.0);
    for share in [100, 20, 5, 3, 2, 1] {
        let start = Instant::now();
        let end = new.len() / share;
        for batch in new[count..end].chunks(1_000) {
            updated.commit(classifier.additions(batch).unwrap().changes).unwrap();
        }
        count = end;
        took += start.elapsed().as_secs_f64();
        let what = format!("{:.1} % added", count as f64 / old.len() as f64 * 100.0);
        compare(&what, &updated, &mut engines, &queries, k, &one);
    }
    println!("added {count} documents: {:.0} a second", count as f64 / took);

    let removed = old.iter().step_by(9).map(|document| Change::Remove { id: document.id.clone() });
    updated.commit(removed.collect()).unwrap();
    compare("and a tenth removed", &updated, &mut engines, &queries, k, &one);
    let start = Instant::now();
    let model = Model::open(&path).unwrap();
    println!(
        "opened with its journal: {} documents, {:.2} s",
        model.ids().len(),
        start.elapsed().as_secs_f64()
    );
    updated.compact().unwrap();
    let start = Instant::now();
    let model = Model::open(&path).unwrap();
    println!(
        "opened when compacted: {} documents, {:.2} s",
        model.ids().len(),
        start.elapsed().as_secs_f64()
    );
}

/// The time of a search among pieces and in one piece.
fn compare(
    what: &str,
    updated: &UpdatedModel,
    engines: &mut UpdatableEngines,
    queries: &classify::rows::matrix::Csr,
    k: NonZeroUsize,
    threads: &Threads,
) {
    let pieces = engines.searchers(updated.collection(), 0.0).unwrap().terms.unwrap();
    let whole = Engines::cpu(threads).engine(updated.model().rows()).unwrap();
    let mut found = [NeighborLists::default(), NeighborLists::default()];
    let time = |engine: &Arc<dyn Search>, found: &mut NeighborLists| {
        let start = Instant::now();
        let _ = engine.search(&Request::new(queries, k), found).unwrap();
        start.elapsed().as_secs_f64()
    };
    let mut ratios: Vec<f64> =
        (0..PAIRS).map(|_| time(&pieces, &mut found[0]) / time(&whole, &mut found[1])).collect();
    assert!(found[0].iter().eq(found[1].iter()), "the same neighbors");
    ratios.sort_by(f64::total_cmp);
    println!("{what}: a search takes {:.3} of the time in one piece", ratios[PAIRS / 2]);
}
