//! Compares GPUs with the CPU, bit for bit. Run
//! `cargo test --release -p metric-index --test gpu -- --ignored` on a machine with a GPU.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may panic and prints what it compares"
)]

use std::sync::Arc;

use metric_index::Question;
use metric_index::generate::{clustered, held_out};
use metric_index::gpu::{GpuPoint, GpuSearch, Layout};
use metric_index::index::Index;
use metric_index::metric::{Angular, Chebyshev, Edit, Euclidean, Manhattan, Metric, Minkowski};
use metric_index::neighbor::Neighbor;
use metric_index::points::{Points, Strings, Subset, Vectors};

mod samples;

use samples::{brute, device, gaussian, threads, whole, words};

/// The numbers of queries that the GPU and the CPU answered.
#[derive(Debug, Default)]
struct Report {
    by_gpu: usize,
    fell_back: usize,
}

/// Compares the answers of the GPU with the answers of the CPU.
fn compare<I: Index + Send>(
    name: &str,
    index: &Arc<I>,
    queries: &I::Points,
    questions: &[Question],
) -> Report
where
    <I::Points as Points>::Point: GpuPoint,
{
    let search = GpuSearch::new(&[device()], Arc::clone(index)).unwrap().expect(name);
    let mut all = Report::default();
    for &question in questions {
        let found = search.answer(queries, question, threads());
        assert!(found.failed.is_empty(), "{:?}", found.failed);
        let answers = found.lists;
        let expected = match question {
            Question::Nearest(k) => index.nearest_many(queries, k, threads()),
            Question::Within(radius) => index.within_many(queries, radius, threads()),
        };
        assert_eq!(answers.len(), expected.len());
        for (query, (answer, expected)) in answers.iter().zip(&expected).enumerate() {
            let bits = |found: &[Neighbor]| -> Vec<(u32, u32)> {
                found.iter().map(|near| (near.point, near.distance.to_bits())).collect()
            };
            // An error may contain NaN, which does not equal itself.
            assert_eq!(
                answer.map(bits).map_err(|error| format!("{error:?}")),
                expected.map(bits).map_err(|error| format!("{error:?}")),
                "{name}, {question:?}, query {query}"
            );
        }
        // Also answer queries one at a time.
        for query in 0..u32::try_from(queries.len().min(10)).unwrap() {
            let one = Subset::new(queries, vec![query]);
            let found = search.answer(&one, question, threads());
            assert_eq!(
                format!("{:?}", found.lists.get(0)),
                format!("{:?}", expected.get(query as usize)),
                "{name}, {question:?}, query {query} alone"
            );
        }
        println!("{name}, {question:?}: {} of {} fell back", found.fell_back, answers.len());
        all.by_gpu += answers.len() - found.fell_back;
        all.fell_back += found.fell_back;
    }
    all
}

const FORMULAS: [(&str, &dyn Metric<[f32]>); 4] = [
    ("euclidean", &Euclidean),
    ("manhattan", &Manhattan),
    ("chebyshev", &Chebyshev),
    ("angular", &Angular),
];

#[test]
#[ignore = "needs a GPU"]
fn every_kernel_on_a_small_case() {
    for (name, metric) in FORMULAS {
        let points = gaussian(5_000, 19, 1);
        let index = brute(points, metric);
        for queries in [3, 40, 200] {
            let queries = gaussian(queries, 19, 2);
            let radius = if name == "angular" { 0.8 } else { 2.5 };
            let report =
                compare(name, &index, &queries, &[Question::Nearest(10), Question::Within(radius)]);
            assert_eq!(report.fell_back, 0, "{name}");
        }
    }
    let index = brute(words(2_000, "abcdefgh", 12, 1), Edit);
    let queries = words(40, "abcdefghi", 40, 2);
    let questions = [Question::Nearest(5), Question::Within(1.0), Question::Within(4.0)];
    assert_eq!(compare("words", &index, &queries, &questions).fell_back, 0);
}

#[test]
#[ignore = "needs a GPU"]
fn vectors_of_many_shapes() {
    let (points, queries) = clustered(120_000, 2_000, 7);
    for (name, metric) in FORMULAS {
        let index = brute(&points, metric);
        let queries = &queries;
        let radius = if name == "angular" { 0.1 } else { 0.9 };
        let questions = [1, 10, 100, 1_000]
            .map(Question::Nearest)
            .into_iter()
            .chain([Question::Within(radius)]);
        let report = compare(name, &index, &queries, &questions.collect::<Vec<_>>());
        assert!(report.fell_back <= report.by_gpu / 100, "{name}: {report:?}");
    }
    for (count, dimension) in
        // The last shape has more coordinates than `measure_all` keeps in shared memory.
        [
            (70_000, 30),
            (30_000, 128),
            (20_000, 300),
            (5_000, 784),
            (3_000, 1),
            (1, 7),
            (129, 2),
            (400, 5_000),
        ]
    {
        let points = gaussian(count, dimension, 3);
        for (name, metric) in FORMULAS {
            for queries in [500, 9].map(|queries| gaussian(queries, dimension, 4)) {
                let index = brute(&points, metric);
                let questions = [Question::Nearest(32), Question::Nearest(128)];
                let report = compare(name, &index, &&queries, &questions);
                println!("{count} x {dimension}: {report:?}");
            }
        }
    }
}

#[test]
#[ignore = "needs a GPU"]
fn ties_duplicates_and_invalid_queries() {
    for (name, metric) in FORMULAS {
        // There are 256 different points, each about 40 times. Equal points are adjacent.
        let mut points: Vec<[f32; 4]> = whole(10_000, 4, 5).values().as_chunks::<4>().0.to_vec();
        points.sort_by(|a, b| a.partial_cmp(b).unwrap());
        let points = Vectors::from(points);
        let index = brute(points, metric);
        let mut queries = whole(100, 4, 6).values().to_vec();
        queries.extend([f32::NAN, 0.0, 1.0, 2.0]);
        queries.extend([f32::INFINITY, 0.0, 1.0, 2.0]);
        queries.extend([3e38, -3e38, 3e38, 3e38]);
        queries.extend([1e-40, 0.0, 0.0, 0.0]);
        queries.extend([0.0; 4]);
        let queries = Vectors::new(queries, 4).unwrap();
        let questions = [
            Question::Nearest(1),
            Question::Nearest(50),
            Question::Nearest(9_999),
            Question::Nearest(20_000),
            Question::Nearest(0),
            Question::Within(0.0),
            Question::Within(1.0),
            Question::Within(1e30),
            Question::Within(-1.0),
        ];
        compare(name, &index, &queries, &questions);
        // Equal points, points of a different magnitude, and one distant point.
        let same = Vectors::new([1.0f32, 2.0, 3.0].repeat(9_000), 3).unwrap();
        compare(name, &brute(&same, metric), &&same, &[Question::Nearest(3)][..1]);
        for scale in [1e-25f32, 1e-12, 1e12, 1e17] {
            let scaled = |seed| {
                let values = gaussian(3_000, 5, seed).values().iter().map(|x| x * scale).collect();
                Vectors::new(values, 5).unwrap()
            };
            let points = scaled(1);
            let queries = scaled(2);
            let index = brute(&points, metric);
            if let Some(search) = GpuSearch::new(&[device()], Arc::clone(&index)).unwrap() {
                let found = search.answer(&&queries, Question::Nearest(7), threads());
                assert_eq!(found.lists, index.nearest_many(&&queries, 7, threads()));
            }
        }
        // Vectors near a unit vector, at tiny distances from each other.
        for spread in [1e-3f32, 1e-6, 1e-8, 1e-11, 1e-15, 1e-20] {
            let near = |seed| {
                let mut values: Vec<f32> =
                    gaussian(3_000, 5, seed).values().iter().map(|x| x * spread).collect();
                values.chunks_mut(5).for_each(|vector| vector[0] = 1.0);
                Vectors::new(values, 5).unwrap()
            };
            let points = near(1);
            let queries = near(2);
            let index = brute(&points, metric);
            if let Some(search) = GpuSearch::new(&[device()], Arc::clone(&index)).unwrap() {
                let found = search.answer(&&queries, Question::Nearest(7), threads());
                assert_eq!(found.lists, index.nearest_many(&&queries, 7, threads()), "{spread}");
            }
        }
        let mut far = gaussian(3_000, 5, 8).values().to_vec();
        far[..5].fill(1e9);
        let far = Vectors::new(far, 5).unwrap();
        compare(name, &brute(&far, metric), &&far, &[Question::Nearest(3)]);
    }
    let cubic = Minkowski::new(3.0).unwrap();
    let index = brute(gaussian(10, 2, 1), cubic);
    assert!(GpuSearch::new(&[device()], Arc::clone(&index)).unwrap().is_none());
}

#[test]
#[ignore = "needs a GPU"]
fn words_of_many_kinds() {
    let nearest = [1, 10, 500].map(Question::Nearest);
    let within = [0.0, 1.0, 1.5, 2.0, 3.0, 7.0, 1e9].map(Question::Within);
    let questions: Vec<Question> = nearest.into_iter().chain(within).collect();
    let many: String = (0..400u32).filter_map(|code| char::from_u32(0x4E00 + code)).collect();
    let kinds = [
        ("letters", "abcdefghñ𝄞", 12),
        ("dna", "acgt", 50),
        ("chinese", &*many, 6),
        ("long", "ab", 90),
    ];
    for (name, alphabet, longest) in kinds {
        let points = words(3_000, alphabet, longest, 1);
        let own = words(200, alphabet, longest, 2);
        let mut queries: Vec<String> = (0..200).map(|query| own.point(query).to_owned()).collect();
        let more =
            ["", "zzz", "a", "\u{10FFFF}\0", &"a".repeat(65), &"b".repeat(64), &"a".repeat(33)];
        queries.extend(more.map(str::to_owned));
        let queries: Strings = queries.into_iter().collect();
        compare(name, &brute(points, Edit), &queries, &questions);
    }
    let few: Strings = ["casa", "cosa", ""].into_iter().collect();
    compare("few", &brute(&few, Edit), &&few, &questions);
    let text = include_str!("gpu.rs");
    let (points, queries) = held_out(text.split(|c: char| !c.is_alphanumeric()), 300, 1);
    compare("source", &brute(points, Edit), &queries, &questions);
}

/// Several handles to one GPU simulate several GPUs, and a small memory budget simulates points
/// that do not fit in memory.
#[test]
#[ignore = "needs a GPU"]
fn several_gpus_and_more_points_than_memory() {
    let (points, queries) = clustered(30_001, 3_000, 3);
    let index = brute(points, Euclidean);
    let devices = [device(), device(), device()];
    for question in [Question::Nearest(1), Question::Nearest(40), Question::Within(0.9)] {
        let expected = GpuSearch::new(&devices[..1], Arc::clone(&index)).unwrap().unwrap();
        let expected = expected.answer(&queries, question, threads());
        assert_eq!(expected.fell_back, 0);
        for gpus in 1..=3 {
            for (layout, memory, parts) in [
                (Layout::Replicated, usize::MAX, 1),
                (Layout::Sharded, usize::MAX, gpus),
                (Layout::Replicated, 800_000, 6),
            ] {
                let search =
                    GpuSearch::with_layout(&devices[..gpus], Arc::clone(&index), layout, memory)
                        .unwrap()
                        .unwrap();
                assert_eq!(search.parts(), parts);
                let found = search.answer(&queries, question, threads());
                assert_eq!(found.lists, expected.lists, "{gpus} {layout:?} {parts}");
                assert_eq!((found.fell_back, found.failed.len()), (0, 0));
            }
        }
    }
    let words = words(5_000, "abcdef", 9, 1);
    let index = brute(&words, Edit);
    for layout in [Layout::Replicated, Layout::Sharded] {
        for memory in [usize::MAX, 60_000] {
            let search = GpuSearch::with_layout(&devices, Arc::clone(&index), layout, memory)
                .unwrap()
                .unwrap();
            for question in [Question::Nearest(5), Question::Within(2.0)] {
                let found = search.answer(&&words, question, threads());
                let expected = match question {
                    Question::Nearest(k) => index.nearest_many(&&words, k, threads()),
                    Question::Within(radius) => index.within_many(&&words, radius, threads()),
                };
                assert_eq!(found.lists, expected, "{layout:?} {memory}");
            }
        }
    }
}

/// Compares at least 10^5 queries over the data of `real_data.rs`, in the folder that `METRIC_DATA`
/// names.
#[test]
#[ignore = "needs a GPU and METRIC_DATA"]
fn real_points() {
    let folder = std::path::PathBuf::from(std::env::var("METRIC_DATA").expect("METRIC_DATA"));
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let numbers = |text: &str, skip: usize| -> Vectors<f32> {
        let lines: Vec<Vec<f32>> = text
            .lines()
            .filter_map(|line| {
                let fields = line.split([',', ' ', '\t']).filter(|field| !field.is_empty());
                fields.skip(skip).map(|field| field.parse().ok()).collect::<Option<Vec<f32>>>()
            })
            .filter(|line| !line.is_empty())
            .collect();
        let dimension = lines[0].len();
        Vectors::new(lines.concat(), dimension).unwrap()
    };
    let mut query_count = 0;
    let letter = numbers(&read("letter.csv"), 1);
    let final8 = numbers(&read("final8_10K.txt"), 0);
    let images = std::fs::read(folder.join("t10k.idx")).ok();
    let images = images.map(|bytes| {
        let values = bytes[16..].iter().map(|&byte| f32::from(byte)).collect();
        Vectors::new(values, 784).unwrap()
    });
    for (name, points) in [("letter", Some(letter)), ("final8", Some(final8)), ("t10k", images)] {
        let Some(points) = points else { continue };
        for (formula, metric) in FORMULAS {
            let index = brute(&points, metric);
            let report =
                compare(&format!("{name} {formula}"), &index, &&points, &[Question::Nearest(10)]);
            println!("{name} {formula}: {report:?}");
            query_count += report.by_gpu;
        }
    }
    for (name, queries) in [("dna.txt", 2_000), ("spanish-words.txt", 10_000)] {
        let text = read(name);
        let (points, queries) = held_out(text.lines().map(str::trim), queries, 0);
        let index = brute(points, Edit);
        let questions = [Question::Within(1.0), Question::Within(3.0), Question::Nearest(10)];
        query_count += compare(name, &index, &queries, &questions).by_gpu;
    }
    println!("{query_count} queries, 0 differ");
    assert!(query_count >= 100_000, "{query_count}");
}
