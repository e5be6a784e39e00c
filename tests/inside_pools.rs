//! Tests that long-running work started by a worker of a thread pool finishes, even if the pool has
//! no other thread.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::io::Write;
use std::path::{Path, PathBuf};

use classify::classifier::Classifier;
use classify::classifier::stream::Source;
use classify::evaluate::{EvaluateOptions, evaluate};
use classify::learn::{TrainOptions, Trainer};
use classify::search::Engines;
use classify::text::analyze::{Analyzer, AnalyzerSpec};
use classify::text::corpus::{Corpus, Qrels, ReadOptions};
use classify::text::counts::{CountOptions, Counts, Fields, Input};
use classify::threads::Threads;
use flate2::{Compression, GzBuilder};
use rayon::prelude::*;
use testkit::finish;

const DOCUMENTS: usize = 30_000;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = GzBuilder::new().write(Vec::new(), Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

/// Compresses with gzip members that store their sizes, as `bgzip` does. Several threads can
/// decompress them.
fn bgzip(bytes: &[u8]) -> Vec<u8> {
    let member = |bytes: &[u8]| {
        let header = GzBuilder::new().extra(*b"BC\x02\0\0\0");
        let mut writer = header.write(Vec::new(), Compression::fast());
        writer.write_all(bytes).unwrap();
        let mut member = writer.finish().unwrap();
        let size = u16::try_from(member.len() - 1).unwrap();
        member[16..18].copy_from_slice(&size.to_le_bytes());
        member
    };
    bytes.chunks(60_000).flat_map(member).collect()
}

/// Writes the same documents to a plain file and to compressed files.
fn corpora(folder: &Path) -> Vec<PathBuf> {
    let line = |number: usize| {
        format!(
            "{{\"text\": \"word{} and {number}\", \"label\": \"l{}\"}}\n",
            number % 97,
            number % 7
        )
    };
    let lines: String = (0..DOCUMENTS).map(line).collect();
    let files = [
        ("plain.jsonl", lines.clone().into_bytes()),
        ("gzip.jsonl.gz", gzip(lines.as_bytes())),
        ("bgzip.jsonl.gz", bgzip(lines.as_bytes())),
    ];
    let mut paths = Vec::new();
    for (name, bytes) in files {
        let path = folder.join(name);
        std::fs::write(&path, bytes).unwrap();
        paths.push(path);
    }
    paths
}

fn open(path: &Path, threads: &Threads) -> Corpus {
    let options = ReadOptions { threads: Some(threads.clone()), ..ReadOptions::default() };
    Corpus::open(&[path.to_owned()], options).unwrap()
}

fn count(path: &Path, threads: &Threads) -> usize {
    let analyzer = Analyzer::new(AnalyzerSpec::default());
    let input = Input::Text { analyzer, fields: Fields::Whole };
    let counts =
        Counts::read(&mut open(path, threads), &CountOptions::new(&input), threads, &|_| ())
            .unwrap();
    counts.documents()
}

fn train(path: &Path, threads: &Threads) -> Classifier {
    let options = TrainOptions { tuning: None, ..TrainOptions::default() };
    let builder = Trainer::builder().options(options).engines(Engines::cpu(threads));
    let trained = builder.build().train(open(path, threads)).unwrap();
    Classifier::new(trained.model.into(), threads).unwrap()
}

/// Runs `work` on each corpus and on pools of one to three threads: first on one worker, then on
/// all workers at once.
fn by_workers(what: &'static str, work: fn(&Path, &Threads) -> usize) {
    let folder = tempfile::tempdir().unwrap();
    for path in corpora(folder.path()) {
        for threads in [1, 2, 3] {
            let path = path.clone();
            finish(&format!("{what} of {} on {threads} threads", path.display()), move || {
                let pool = Threads::new(threads.try_into().unwrap()).unwrap();
                assert_eq!(pool.run(|| work(&path, &pool)), DOCUMENTS);
                let all = |_| assert_eq!(work(&path, &pool), DOCUMENTS);
                pool.run(|| (0..2 * threads).into_par_iter().for_each(all));
            });
        }
    }
}

#[test]
fn reading() {
    by_workers("reading", |path, threads| open(path, threads).map(Result::unwrap).count());
}

#[test]
fn counting() {
    by_workers("counting", count);
}

#[test]
fn training() {
    by_workers("training", |path, threads| train(path, threads).model().rows().rows());
}

/// By default, training tunes k and the vote.
#[test]
fn tuning() {
    by_workers("tuning", |path, threads| {
        let builder = Trainer::builder().engines(Engines::cpu(threads));
        let documents = open(path, threads).take(1_000);
        let trained = builder.build().train(documents).unwrap();
        trained.model.rows().rows() * DOCUMENTS / 1_000
    });
}

/// The only worker of each of two pools waits for work on the other pool.
#[test]
fn pools_that_use_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = corpora(folder.path()).remove(0);
    finish("counting on each other's threads", move || {
        let pools = [(); 2].map(|()| Threads::new(1.try_into().unwrap()).unwrap());
        let [one, other] = &pools;
        std::thread::scope(|scope| {
            for (pool, other_pool) in [(one, other), (other, one)] {
                scope.spawn(|| assert_eq!(pool.run(|| count(&path, other_pool)), DOCUMENTS));
            }
        });
    });
}

#[test]
fn evaluating() {
    let folder = tempfile::tempdir().unwrap();
    let path = corpora(folder.path()).remove(0);
    for threads in [1, 2] {
        let path = path.clone();
        finish(&format!("evaluating on {threads} threads"), move || {
            let pool = Threads::new(threads.try_into().unwrap()).unwrap();
            let classifier = train(&path, &pool);
            let evaluate = |_| {
                let test = Box::new(open(&path, &pool).take(3_000));
                let settings = EvaluateOptions::default();
                let options = classifier.options();
                evaluate(&classifier, &options, Source::Documents(test), settings, &|_| ())
                    .unwrap();
            };
            pool.run(|| evaluate(0));
            pool.run(|| (0..2 * threads).into_par_iter().for_each(evaluate));
        });
    }
}

#[test]
fn judgments() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("topics.qrels");
    let line = |id: usize| format!("label{} {id} 1\n", id % 9);
    let lines: String = (0..DOCUMENTS).map(line).collect();
    std::fs::write(&path, lines).unwrap();
    for threads in [2, 3] {
        let path = path.clone();
        finish(&format!("judgments on {threads} threads"), move || {
            let pool = Threads::new(threads.try_into().unwrap()).unwrap();
            let read = |_| assert_eq!(Qrels::read_with(&path, &pool).unwrap().names().len(), 9);
            pool.run(|| (0..2 * threads).into_par_iter().for_each(read));
        });
    }
}
