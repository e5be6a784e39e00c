//! Measures queries per second of CPU time on one thread, compared with other libraries on the same
//! data in the same run.
//!
//! Run `cargo run --release -- DATA FOLDER [NAME…]` in this folder. DATA contains
//! `spanish-words.txt`, `letter.csv`, `final8_10K.txt`, `final8_query1K.txt` and
//! `t10k-images-idx3-ubyte.gz` unpacked as `t10k.idx`. Missing files are skipped. Each NAME selects
//! a data set: `clustered`, `t10k`, `letter`, `final8` or `words`. The program writes the data to
//! FOLDER and runs `rivals.py`. This script measures the Python libraries that are installed:
//! scipy, scikit-learn, pynear and faiss, which also need numpy, and rapidfuzz.

use std::io::Write;
use std::num::NonZero;
use std::path::Path;
use std::process::Command;

use bk_tree::BKTree;
use bk_tree::metrics::Levenshtein;
use bktree::{BkTree, levenshtein_distance};
use kiddo::SquaredEuclidean;
use kiddo::immutable::float::kdtree::ImmutableKdTree;
use metric_index::collector::{Nearest, Within};
use metric_index::generate::{clustered, held_out};
use metric_index::index::{BruteForce, Index, Kind, search};
use metric_index::metric::{Edit, Euclidean, Metric};
use metric_index::neighbor::Neighbor;
use metric_index::points::{Points, Strings, Vectors};
use rustix::time::{ClockId, clock_gettime};

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const RUNS: usize = 5;
const K: usize = 10;

struct Rivals<'a> {
    data: &'a Path,
    folder: &'a Path,
    names: &'a [String],
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [data, folder, names @ ..] = &arguments[..] else {
        println!("usage: rivals DATA FOLDER [NAME...]");
        return Ok(());
    };
    let rivals = Rivals { data: Path::new(data), folder: Path::new(folder), names };
    rayon::ThreadPoolBuilder::new().num_threads(1).build()?.install(|| rivals.measure())?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("rivals.py");
    let run = Command::new("python3").arg(script).arg(folder).args(names).status();
    if !run.is_ok_and(|status| status.success()) {
        println!("the Python libraries were not measured");
    }
    Ok(())
}

impl Rivals<'_> {
    fn measure(&self) -> Outcome<()> {
        if self.wants("clustered") {
            let (points, queries) = clustered(120_000, 1_000, 0);
            self.measure_vectors::<20>("clustered", &points, &queries)?;
        }
        if let Ok(bytes) = std::fs::read(self.data.join("t10k.idx")) {
            let values: Vec<f32> = bytes[16..].iter().map(|&x| f32::from(x)).collect();
            let points = Vectors::new(values, 784)?;
            let queries = Vectors::new(points.values()[..784_000].to_vec(), 784)?;
            self.measure_vectors::<784>("t10k", &points, &queries)?;
        }
        if let Ok(text) = std::fs::read_to_string(self.data.join("letter.csv")) {
            let row = |line: &str| {
                line.split(',').skip(1).filter_map(|x| x.parse().ok()).collect::<Vec<f32>>()
            };
            let values: Vec<f32> = text.lines().skip(1).flat_map(row).collect();
            let points = Vectors::new(values, 16)?;
            let queries = Vectors::new(points.values()[..16_000].to_vec(), 16)?;
            self.measure_vectors::<16>("letter", &points, &queries)?;
        }
        let floats = |name: &str| -> Option<Vec<f32>> {
            let text = std::fs::read_to_string(self.data.join(name)).ok()?;
            text.split_whitespace().map(|x| x.parse().ok()).collect()
        };
        let points = floats("final8_10K.txt");
        let queries = floats("final8_query1K.txt");
        if let (Some(points), Some(queries)) = (points, queries) {
            let points = Vectors::new(points, 8)?;
            let queries = Vectors::new(queries, 8)?;
            self.measure_vectors::<8>("final8", &points, &queries)?;
        }
        if let Ok(text) = std::fs::read_to_string(self.data.join("spanish-words.txt")) {
            self.measure_words(&text)?;
        }
        Ok(())
    }

    fn wants(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|wanted| wanted == name)
    }

    fn measure_vectors<const D: usize>(
        &self,
        name: &str,
        points: &Vectors<f32>,
        queries: &Vectors<f32>,
    ) -> Outcome<()> {
        if !self.wants(name) {
            return Ok(());
        }
        for (part, vectors) in [("points", points), ("queries", queries)] {
            let path = self.folder.join(format!("{name}-{part}.f32"));
            let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
            file.write_all(&u32::try_from(vectors.dimension())?.to_le_bytes())?;
            vectors.values().iter().try_for_each(|x| file.write_all(&x.to_le_bytes()))?;
        }
        let count = queries.len();
        println!("{name}: {} x {}, {count} queries, k = {K}", points.len(), points.dimension());
        let index = BruteForce::new(points, Euclidean)?;
        let (all, expected) = measure_rate(count, || index.batch(queries, |_| Nearest::new(K)));
        expected.iter().try_for_each(|list| list.map(|_| ()))?;
        report("ours: brute force, a batch", all);
        let single = NonZero::<usize>::MIN;
        for kind in ["brute-force", "vp-tree", "kd-tree", "sss-index", "sss-index:8p", "lc"] {
            let index = kind.parse::<Kind>()?.build(points, Euclidean)?;
            let (rate, found) = measure_rate(count, || index.nearest_many(queries, K, single));
            assert!(found == expected, "{kind}: different neighbors");
            report(&format!("ours: {kind}"), rate);
        }
        let rows: Vec<[f32; D]> = points.values().as_chunks().0.to_vec();
        if D < 100 {
            let tree: ImmutableKdTree<f32, u32, D, 32> = ImmutableKdTree::new_from_slice(&rows);
            let many = NonZero::new(K).ok_or("K is above 0")?;
            let (rate, found) = measure_rate(count, || {
                let queries = queries.values().as_chunks::<D>().0.iter();
                let search = |query| tree.nearest_n::<SquaredEuclidean>(query, many);
                queries.map(search).collect::<Vec<_>>()
            });
            assert!(found.iter().all(|found| found.len() == K));
            report("kiddo ImmutableKdTree", rate);
        }
        Ok(())
    }

    fn measure_words(&self, text: &str) -> Outcome<()> {
        if !self.wants("words") {
            return Ok(());
        }
        let (words, queries) = held_out(text.lines().map(str::trim), 500, 0);
        println!("words: {}, {} queries, edit distance", words.len(), queries.len());
        let radii = [1.0, 2.0, 3.0];
        let mut expected = Vec::new();
        for kind in ["brute-force", "lc:32", "sss-index:32p", "sss-index:64p", "vp-tree"] {
            let index = kind.parse::<Kind>()?.build(&words, Edit)?;
            for (number, radius) in radii.into_iter().enumerate() {
                let (rate, found) =
                    measure_rate(queries.len(), || within(&index, &queries, radius));
                if expected.len() == number {
                    expected.push(found);
                } else {
                    assert!(expected[number] == found, "different words");
                }
                let found = expected[number].iter().map(Vec::len).sum();
                report_words(&format!("ours: {kind}"), radius, rate, found);
            }
        }
        let texts = |words: &Strings| -> Vec<String> {
            (0u32..).zip(0..words.len()).map(|(word, _)| words.point(word).to_owned()).collect()
        };
        let words = texts(&words);
        let queries = texts(&queries);
        std::fs::write(self.folder.join("words-points.txt"), words.join("\n"))?;
        std::fs::write(self.folder.join("words-queries.txt"), queries.join("\n"))?;
        let mut bytes = BKTree::new(Levenshtein);
        let mut ours = BKTree::new(EditDistance);
        for word in &words {
            bytes.add(word.clone());
            ours.add(word.clone());
        }
        let mut characters = BkTree::new(levenshtein_distance::<String>);
        characters.insert_all(words);
        for (radius, whole) in radii.into_iter().zip(1u8..3) {
            let rival = |name: &str, found: &dyn Fn(&String) -> usize| {
                let (rate, found) = measure_rate(queries.len(), || queries.iter().map(found).sum());
                report_words(name, radius, rate, found);
            };
            rival("bk-tree, bytes", &|query| bytes.find(query, whole.into()).count());
            rival("bk-tree, our distance", &|query| ours.find(query, whole.into()).count());
            rival("bktree", &|query| characters.find(query.clone(), whole.into()).len());
        }
        Ok(())
    }
}

/// Returns the CPU time of this thread in seconds.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Returns the median rate of several runs in queries per second, and the neighbors found.
fn measure_rate<T>(queries: usize, mut run: impl FnMut() -> T) -> (f64, T) {
    let mut found = run();
    let mut seconds = Vec::new();
    for _ in 0..RUNS {
        let start = cpu_seconds();
        found = run();
        seconds.push(cpu_seconds() - start);
    }
    seconds.sort_by(f64::total_cmp);
    (queries as f64 / seconds[RUNS / 2], found)
}

fn report(name: &str, rate: f64) {
    println!("  {name:28} {rate:10.0} queries/s");
}

fn report_words(name: &str, radius: f32, rate: f64, found: usize) {
    println!("  {name:28} r = {radius}   {rate:10.0} queries/s, {found} words");
}

/// The edit distance of `metric-index` for the crate `bk-tree`, whose own distance compares bytes
/// and misses words with accents.
struct EditDistance;

impl bk_tree::Metric<String> for EditDistance {
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
    let answer = |query| {
        search(index, queries.point(query), Within::new(radius)).map(|found| found.0.into_sorted())
    };
    (0..u32::try_from(queries.len()).unwrap_or(0))
        .map(|query| answer(query).unwrap_or_default())
        .collect()
}
