//! Queries a second on one thread, for comparison with other programs on the same data in the same run.
//!
//! `cargo bench -p metric-index --bench rivals -- DATA FOLDER`, where DATA holds `spanish-words.txt`,
//! `letter.csv`, `final8_10K.txt`, `final8_query1K.txt` and `t10k-images-idx3-ubyte.gz` unpacked as `t10k.idx`;
//! what is not there is left out. Writes the vectors into FOLDER, where `python3
//! metric-index/benches/rivals/rivals.py FOLDER` measures scikit-learn and faiss.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use bk_tree::BKTree;
use bk_tree::metrics::Levenshtein;
use bktree::{BkTree, levenshtein_distance};
use metric_index::collector::{Nearest, Within};
use metric_index::generate::{clustered, held_out};
use metric_index::index::{BruteForce, Index, KdTree, Kind, VpTree, search};
use metric_index::metric::{Edit, Euclidean, Metric};
use metric_index::neighbor::Neighbor;
use metric_index::points::{Points, Strings, Vectors};

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const RUNS: usize = 3;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let [data, folder] = &arguments[..] else {
        println!("rivals: name the folder of the data and one to write vectors into");
        return Ok(());
    };
    let (data, folder) = (Path::new(data), Path::new(folder));
    rayon::ThreadPoolBuilder::new().num_threads(1).build()?.install(|| measure(data, folder))
}

fn measure(data: &Path, folder: &Path) -> Outcome<()> {
    let (points, queries) = clustered(120_000, 1_000, 0);
    of_vectors("clustered", &points, &queries, folder)?;
    if let Ok(bytes) = std::fs::read(data.join("t10k.idx")) {
        let values: Vec<f32> = bytes[16..].iter().map(|&x| f32::from(x)).collect();
        let points = Vectors::new(values, 784)?;
        let queries = Vectors::new(points.values()[..784_000].to_vec(), 784)?;
        of_vectors("t10k", &points, &queries, folder)?;
    }
    if let Ok(text) = std::fs::read_to_string(data.join("letter.csv")) {
        let row = |line: &str| {
            line.split(',').skip(1).filter_map(|x| x.parse().ok()).collect::<Vec<f32>>()
        };
        let values: Vec<f32> = text.lines().skip(1).flat_map(row).collect();
        let points = Vectors::new(values, 16)?;
        let queries = Vectors::new(points.values()[..16_000].to_vec(), 16)?;
        of_vectors("letter", &points, &queries, folder)?;
    }
    let floats = |name: &str| -> Option<Vec<f32>> {
        let text = std::fs::read_to_string(data.join(name)).ok()?;
        text.split_whitespace().map(|x| x.parse().ok()).collect()
    };
    if let (Some(points), Some(queries)) = (floats("final8_10K.txt"), floats("final8_query1K.txt"))
    {
        of_vectors("final8", &Vectors::new(points, 8)?, &Vectors::new(queries, 8)?, folder)?;
    }
    if let Ok(text) = std::fs::read_to_string(data.join("spanish-words.txt")) {
        of_words(&text)?;
    }
    Ok(())
}

/// The median of some runs in queries a second, and what was found.
fn rate<T>(queries: usize, mut run: impl FnMut() -> T) -> (f64, T) {
    let mut found = run();
    let mut seconds = Vec::new();
    for _ in 0..RUNS {
        let start = Instant::now();
        found = run();
        seconds.push(start.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    (queries as f64 / seconds[RUNS / 2], found)
}

fn one_by_one<I: Index, Q: Points<Point = <I::Points as Points>::Point>>(
    index: &I,
    queries: &Q,
    k: usize,
) -> Vec<Vec<Neighbor>> {
    let one = |query| index.nearest(queries.point(query), k).unwrap_or_default();
    (0..u32::try_from(queries.len()).unwrap_or(0)).map(one).collect()
}

fn of_vectors(
    name: &str,
    points: &Vectors<f32>,
    queries: &Vectors<f32>,
    folder: &Path,
) -> Outcome<()> {
    for (part, vectors) in [("points", points), ("queries", queries)] {
        let mut file = std::io::BufWriter::new(std::fs::File::create(
            folder.join(format!("{name}-{part}.f32")),
        )?);
        file.write_all(&u32::try_from(vectors.dimension())?.to_le_bytes())?;
        vectors.values().iter().try_for_each(|x| file.write_all(&x.to_le_bytes()))?;
    }
    let count = queries.len();
    println!("{name}: {} x {}, {count} queries, k = 10", points.len(), points.dimension());
    let index = BruteForce::new(points, Euclidean)?;
    let (all, expected) = rate(count, || index.batch(queries, |_| Nearest::new(10)));
    let expected: Vec<Vec<Neighbor>> = expected.into_iter().collect::<Result<_, _>>()?;
    println!("  brute force, a batch   {all:10.0} queries/s");
    let told = |what: &str, (rate, found): (f64, Vec<Vec<Neighbor>>)| {
        let word = if found == expected { "" } else { "  OTHER NEIGHBORS" };
        println!("  {what:22} {rate:10.0} queries/s{word}");
    };
    if points.dimension() > 100 {
        return Ok(());
    }
    let tree = VpTree::build(points, Euclidean)?;
    told("VP-tree", rate(count, || one_by_one(&tree, queries, 10)));
    let tree = KdTree::build(points, Euclidean)?;
    told("KD-tree", rate(count, || one_by_one(&tree, queries, 10)));
    Ok(())
}

fn of_words(text: &str) -> Outcome<()> {
    let (words, queries) = held_out(text.lines().map(str::trim), 500, 0);
    println!("words: {}, {} queries, edit distance", words.len(), queries.len());
    let radii = [1.0, 2.0];
    let mut expected = Vec::new();
    for kind in
        ["brute-force", "lc:32", "sss-index:16p", "sss-index:32p", "sss-index:64p", "vp-tree"]
    {
        let index = kind.parse::<Kind>()?.build(&words, Edit)?;
        for (at, radius) in radii.into_iter().enumerate() {
            let (rate, found) = rate(queries.len(), || within(&index, &queries, radius));
            if expected.len() == at {
                expected.push(found);
            } else {
                assert!(expected[at] == found, "other words");
            }
            told_of_words(kind, radius, rate, expected[at].iter().map(Vec::len).sum());
        }
    }
    let texts = |words: &Strings| -> Vec<String> {
        (0u32..).zip(0..words.len()).map(|(word, _)| words.point(word).to_owned()).collect()
    };
    let (words, queries) = (texts(&words), texts(&queries));
    let (mut bytes, mut ours) = (BKTree::new(Levenshtein), BKTree::new(Ours));
    for word in &words {
        bytes.add(word.clone());
        ours.add(word.clone());
    }
    let mut characters = BkTree::new(levenshtein_distance::<String>);
    characters.insert_all(words);
    for (radius, whole) in radii.into_iter().zip(1u8..) {
        let rival = |name: &str, found: &dyn Fn(&String) -> usize| {
            let (rate, found) = rate(queries.len(), || queries.iter().map(found).sum());
            told_of_words(name, radius, rate, found);
        };
        rival("bk-tree, bytes", &|query| bytes.find(query, whole.into()).count());
        rival("bk-tree, our distance", &|query| ours.find(query, whole.into()).count());
        rival("bktree", &|query| characters.find(query.clone(), whole.into()).len());
    }
    Ok(())
}

fn told_of_words(name: &str, radius: f32, rate: f64, found: usize) {
    println!("  {name:22} r = {radius}   {rate:10.0} queries/s, {found} words");
}

/// Our distance for the crate `bk-tree`, whose own is that of bytes: words with accents are too far.
struct Ours;

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole numbers")]
impl bk_tree::Metric<String> for Ours {
    fn distance(&self, a: &String, b: &String) -> u32 {
        Metric::<str>::distance(&Edit, a, b) as u32
    }

    fn threshold_distance(&self, a: &String, b: &String, threshold: u32) -> Option<u32> {
        Metric::<str>::distance_within(&Edit, a, b, threshold as f32).map(|d| d as u32)
    }
}

fn within<I: Index<Metric: Metric<str>, Points: Points<Point = str>>>(
    index: &I,
    queries: &Strings,
    radius: f32,
) -> Vec<Vec<Neighbor>> {
    let one = |query| {
        search(index, queries.point(query), Within::new(radius)).map(|found| found.0.into_sorted())
    };
    (0..u32::try_from(queries.len()).unwrap_or(0))
        .map(|query| one(query).unwrap_or_default())
        .collect()
}
