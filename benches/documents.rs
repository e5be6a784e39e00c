//! Measures the cost of updating a model: throughput of additions, and search time over several
//! segments.
//!
//! `cargo bench --bench documents -- CORPUS [K]` trains on nine tenths of a corpus (JSONL). It adds
//! the rest to the journal in steps, and removes the same number of other documents. It prints the
//! number of documents added per second (analyzed, weighted, written and synced). After each step,
//! it prints the search time relative to a single segment. This ratio is the median over pairs of
//! runs with one thread and 4,096 queries.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark may panic, and prints")]

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

use classify::classifier::{Classifier, Searchers, UpdatableEngines};
use classify::learn::Trainer;
use classify::model::{Change, Model, UpdatedModel};
use classify::rows::matrix::Csr;
use classify::search::{Engines, NeighborLists, Request, Search};
use classify::text::corpus::{Corpus, Document, ReadOptions};
use classify::threads::Threads;

const PAIRS: usize = 15;
const QUERIES: usize = 4_096;

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let Some(corpus) = arguments.next() else {
        println!("usage: documents CORPUS [K], with a corpus in JSONL");
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
    let trainer = Trainer::builder().engines(Engines::cpu(&all)).build();
    trainer.train(&mut reading).unwrap().model.save(&path).unwrap();

    let mut updated = UpdatedModel::open(&path).unwrap();
    let mut engines = UpdatableEngines::new(Engines::cpu(&one));
    // Index the rows before documents are added.
    let _ = engines.searchers(updated.collection(), 0.0).unwrap();
    let classifier = Classifier::with_searchers(updated.model(), Searchers::default(), &all);
    let queries = classifier.vectorize(&documents[..QUERIES.min(documents.len())]).unwrap().rows;
    let comparison = Comparison { queries, k, threads: one };
    let mut count = 0;
    let mut seconds = 0.0;
    for share in [100, 20, 5, 3, 2, 1] {
        let start = Instant::now();
        let end = new.len() / share;
        for batch in new[count..end].chunks(1_000) {
            updated.commit(classifier.additions(batch).unwrap().changes).unwrap();
        }
        count = end;
        seconds += start.elapsed().as_secs_f64();
        let what = format!("{:.1} % added", count as f64 / old.len() as f64 * 100.0);
        comparison.print(&what, &updated, &mut engines);
    }
    println!("added {count} documents: {:.0} per second", count as f64 / seconds);

    let removed = old.iter().step_by(9).map(|document| Change::Remove { id: document.id.clone() });
    updated.commit(removed.collect()).unwrap();
    comparison.print("and a tenth removed", &updated, &mut engines);
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

/// A comparison of searches over several segments and over a single segment.
struct Comparison {
    queries: Csr,
    k: NonZeroUsize,
    threads: Threads,
}

impl Comparison {
    /// Prints the search time over the segments of a model, relative to the search time over a
    /// single segment.
    fn print(&self, what: &str, updated: &UpdatedModel, engines: &mut UpdatableEngines) {
        let segments = engines.searchers(updated.collection(), 0.0).unwrap().terms.unwrap();
        let whole = Engines::cpu(&self.threads).engine(updated.model().rows()).unwrap();
        let mut found = [NeighborLists::default(), NeighborLists::default()];
        let time = |engine: &Arc<dyn Search>, found: &mut NeighborLists| {
            let start = Instant::now();
            let _ = engine.search(&Request::new(&self.queries, self.k), found).unwrap();
            start.elapsed().as_secs_f64()
        };
        let ratio = |_| time(&segments, &mut found[0]) / time(&whole, &mut found[1]);
        let mut ratios: Vec<f64> = (0..PAIRS).map(ratio).collect();
        assert!(found[0].iter().eq(found[1].iter()), "both searches find the same neighbors");
        ratios.sort_by(f64::total_cmp);
        println!("{what}: a search takes {:.3} of the time in one segment", ratios[PAIRS / 2]);
    }
}
