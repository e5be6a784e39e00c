//! Compares the GPU engines with `exhaustive`, bit for bit. On a machine with a GPU, run `cargo
//! test --release --test cuda -- --ignored`. Tests that do not need a GPU are in the modules that
//! they test and in `crates/cli/tests/cli/devices.rs`.

#![expect(clippy::disallowed_methods, reason = "powers and logarithms of data for tests")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::num::NonZeroUsize;
use std::sync::{Arc, PoisonError, RwLock};

use classify::random::Random;
use classify::rows::generate::{RCV1_DOCUMENTS, RCV1_TRAINING_DOCUMENTS, rcv1_like_rows};
use classify::rows::matrix::{Csr, CsrBuilder};
use classify::search::{
    Cuda, CudaEngine, CudaOptions, Exhaustive, GridMemory, Inverted, NeighborLists, Report,
    Request, Search, SearchError, SeveralGpus, Stop,
};
use classify::threads::Threads;
use gpu_runtime::Device;

mod fixtures;

use fixtures::{Bits, Filters, Rows, bits, matrix};

fn answer(engine: &dyn Search, request: &Request<'_>, found: &mut NeighborLists) -> (Bits, Report) {
    let report = engine.search(request, found).unwrap();
    (bits(found), report)
}

fn exhaustive(training: &Arc<Csr>) -> Exhaustive {
    Exhaustive::new(Arc::clone(training), Threads::available().unwrap()).unwrap()
}

fn grid(memory: GridMemory) -> CudaEngine {
    CudaEngine::Grid { documents: 64, threads: 128, memory }
}

const BASE: CudaEngine = CudaEngine::Base { threads: 128 };
const SHARED: CudaEngine = CudaEngine::Shared { threads: 64 };

/// Returns every engine with its defaults, and with limits so low that all fallbacks are used.
fn all_options() -> Vec<CudaOptions> {
    let engines =
        [CudaEngine::Fused, BASE, SHARED, grid(GridMemory::Texture), grid(GridMemory::ReadOnly)];
    let mut all = Vec::new();
    for engine in engines {
        let defaults = CudaOptions { fall_back: false, ..CudaOptions::new(engine) };
        all.push(defaults);
        all.push(CudaOptions {
            tile_rows: Some(16),
            texture_width: Some(300),
            query_terms: Some(3),
            chunk: Some(2),
            ..defaults
        });
        if engine == CudaEngine::Fused {
            // Use the path of three kernels even for few queries. By default, the number of queries
            // selects the path.
            all.push(CudaOptions { small_batch: Some(0), ..defaults });
            all.push(CudaOptions { small_batch: Some(0), tile_rows: Some(24), ..defaults });
        }
    }
    all
}

fn cuda(training: &Arc<Csr>, options: CudaOptions) -> Cuda {
    let device = Device::open(0).unwrap();
    Cuda::new(Arc::clone(training), device, options, Threads::available().unwrap()).unwrap()
}

/// The path that queries must take.
#[derive(Clone, Copy, PartialEq)]
enum Path {
    Fast,
    Any,
}

/// Guards the GPU memory. The test that allocates nearly all of it runs alone. Otherwise, the
/// searches of other tests would fall back.
static MEMORY: RwLock<()> = RwLock::new(());

/// Training rows and queries, and an engine that answers them correctly.
#[derive(Clone, Copy)]
struct Problem<'a> {
    oracle: &'a dyn Search,
    training: &'a Arc<Csr>,
    queries: &'a Csr,
}

fn agree_with(problem: Problem<'_>, ks: &[usize], options: &[CudaOptions], path: Path) {
    let Problem { oracle, training, queries } = problem;
    let _shared = MEMORY.read().unwrap_or_else(PoisonError::into_inner);
    let mut lists = NeighborLists::default();
    let filters = Filters::new(training.rows(), queries.rows());
    let max_k = NonZeroUsize::new(ks.iter().copied().max().unwrap()).unwrap();
    let mut cases = Vec::new();
    for (number, allow) in filters.all().into_iter().enumerate() {
        let all = answer(oracle, &Request::new(queries, max_k).among(allow), &mut lists).0;
        for &k in ks {
            let request = Request::new(queries, NonZeroUsize::new(k).unwrap()).among(allow);
            // The k nearest neighbors are the first k of more neighbors.
            let first = |list: &Vec<(u32, u32)>| list[..list.len().min(k)].to_vec();
            cases.push((request, number, all.iter().map(first).collect::<Bits>()));
        }
    }
    for options in options {
        let engine = cuda(training, *options);
        let mut lists = NeighborLists::default();
        for (request, filter, expected) in &cases {
            let k = request.k;
            let (found, report) = answer(&engine, request, &mut lists);
            let differs = found.iter().zip(expected).position(|(a, b)| a != b);
            assert!(
                differs.is_none() && found.len() == expected.len(),
                "{options:?}, k = {k}, filter {filter}, query {differs:?}: {:?} instead of {:?}",
                differs.map(|query| &found[query]),
                differs.map(|query| &expected[query])
            );
            assert_eq!(report.fast + report.fell_back, queries.rows() as u64);
            // Tiles of a few hundred rows have fewer row groups than requested neighbors.
            let large = options.memory.is_none() && options.tile_rows.is_none();
            if path == Path::Fast && large && k.get() <= 1_200 {
                assert_eq!(report.fell_back, 0, "{options:?}, k = {k}, filter {filter}");
            }
        }
    }
}

/// A slice of a matrix keeps the row pointers of the whole matrix.
#[test]
#[ignore = "needs a GPU"]
fn a_slice_of_queries() {
    let training = random(1, 50, 12, 30, small_integer);
    let queries = random(2, 40, 12, 30, small_integer);
    let slice = queries.view().slice(11..40);
    let request = Request::new(slice, NonZeroUsize::new(7).unwrap());
    let mut lists = NeighborLists::default();
    let expected = answer(&exhaustive(&training), &request, &mut lists).0;
    for options in all_options() {
        let engine = cuda(&training, options);
        assert_eq!(answer(&engine, &request, &mut lists).0, expected, "{options:?}");
    }
}

fn agree(training: &Arc<Csr>, queries: &Csr, ks: &[usize]) {
    let problem = Problem { oracle: &exhaustive(training), training, queries };
    agree_with(problem, ks, &all_options(), Path::Any);
}

/// Returns rows from a small random generator. `weight` converts a random number to a weight.
fn random(
    seed: u64,
    count: usize,
    columns: u32,
    fill: u64,
    weight: impl Fn(u64) -> f32,
) -> Arc<Csr> {
    let mut random = Random::new(seed);
    let mut next = move || random.next_u64() >> 33;
    let mut builder = CsrBuilder::default();
    for _ in 0..count {
        let row: Vec<(u32, f32)> = (0..columns)
            .filter_map(
                |term| if next() % 100 < fill { Some((term, weight(next()))) } else { None },
            )
            .collect();
        builder.push_row(row);
    }
    Arc::new(builder.build(columns as usize))
}

fn small_integer(x: u64) -> f32 {
    f32::from(u8::try_from(x % 4).unwrap())
}

fn signed(x: u64) -> f32 {
    f32::from(i8::try_from(x % 7).unwrap() - 3) / 2.0
}

fn extreme(x: u64) -> f32 {
    let exponent = [-45, -30, -20, 0, 19, 37][usize::try_from(x / 64 % 6).unwrap()];
    (small_integer(x) + 0.5) * 10f32.powi(exponent)
}

/// This case is small enough for `compute-sanitizer`.
#[test]
#[ignore = "needs a GPU"]
fn every_kernel_on_a_small_case() {
    let training = random(3, 150, 14, 30, small_integer);
    let queries = random(5, 9, 14, 30, small_integer);
    let oracle = exhaustive(&training);
    let fused = CudaOptions { fall_back: false, ..CudaOptions::new(CudaEngine::Fused) };
    let options = [
        fused,
        CudaOptions { tile_rows: Some(24), small_batch: Some(0), ..fused },
        CudaOptions { engine: BASE, ..fused },
        CudaOptions { engine: SHARED, query_terms: Some(3), ..fused },
        CudaOptions { engine: grid(GridMemory::Texture), texture_width: Some(300), ..fused },
        CudaOptions { engine: grid(GridMemory::ReadOnly), ..fused },
    ];
    let problem = Problem { oracle: &oracle, training: &training, queries: &queries };
    agree_with(problem, &[2, 65, 1_000], &options, Path::Any);
}

#[test]
#[ignore = "needs a GPU"]
fn ties_duplicates_empties_and_zeros() {
    for seed in 0..12 {
        let training = random(seed, 90, 14, 30, small_integer);
        let queries = random(seed + 77, 21, 14, 30, small_integer);
        agree(&training, &queries, &[1, 2, 30, 64, 65, 1_000]);
    }
}

#[test]
#[ignore = "needs a GPU"]
fn negative_weights_overflow_and_underflow() {
    for seed in 0..6 {
        let training = random(seed, 70, 12, 40, signed);
        agree(&training, &random(seed + 100, 15, 12, 40, signed), &[3, 100]);
        agree(&training, &random(seed + 200, 15, 12, 40, small_integer), &[3]);
        let training = random(seed, 70, 12, 40, extreme);
        agree(&training, &random(seed + 300, 15, 12, 40, extreme), &[1, 5, 100]);
        agree(&training, &random(seed + 400, 15, 12, 40, signed), &[5]);
    }
}

#[test]
#[ignore = "needs a GPU"]
fn no_rows_and_no_queries() {
    let one = matrix(&vec![vec![(0, 1.0)]], 1);
    let empty = matrix(&vec![], 1);
    let blank = matrix(&vec![vec![], vec![]], 1);
    for training in [&one, &empty, &blank] {
        for queries in [&one, &empty, &blank] {
            agree(training, queries, &[1, 1_000_000]);
        }
    }
}

#[test]
#[ignore = "needs a GPU"]
fn equal_documents_and_near_duplicates() {
    let equal: Rows = (0..3_000).map(|_| vec![(3, 0.6), (5, 0.8)]).collect();
    let training = matrix(&equal, 8);
    let queries = matrix(&vec![vec![(3, 1.0)], vec![(3, 0.6), (5, 0.8)], vec![(7, 1.0)]], 8);
    agree(&training, &queries, &[1, 30, 100, 1_000, 3_000]);
    // Similarities that differ only in the last bits.
    let close = |x: u64| 0.125 + small_integer(x) * f32::EPSILON;
    agree(&random(1, 1_200, 64, 75, close), &random(2, 12, 64, 75, close), &[1, 30, 100]);
}

#[test]
#[ignore = "needs a GPU"]
fn long_queries_and_wide_vocabularies() {
    // The lengths exceed the term table of a query, the number of threads per block, and the limit
    // of the fused kernel.
    let long = |count: u32, step: u32| -> Rows {
        vec![(0..count).map(|t| (t * step, 0.01 + small_integer(u64::from(t)))).collect()]
    };
    let mut training = long(300, 7);
    training.extend(long(900, 3));
    training.extend(long(9_000, 11));
    training.extend((0..40u32).map(|r| vec![(r * 50, 1.0), (r * 50 + 70_000, 0.5)]));
    let training = matrix(&training, 100_000);
    for length in [255, 256, 257, 600, 1_500, 8_192, 8_193] {
        agree(&training, &matrix(&long(length, 11), 100_000), &[1, 10]);
    }
    // Terms that are 64 columns apart share a bit of a query's term table.
    let shift_all = |rows: &Csr| {
        let shift = |columns: &[u32], weights: &[f32]| {
            columns.iter().map(|column| column + 2_000_000).zip(weights.iter().copied()).collect()
        };
        let rows: Rows = rows.iter().map(|(columns, weights)| shift(columns, weights)).collect();
        matrix(&rows, 4_000_000)
    };
    let training = shift_all(&random(7, 120, 400, 15, small_integer));
    for fill in [5, 50, 95] {
        let queries = shift_all(&random(fill, 12, 400, fill, small_integer));
        let fused = CudaOptions::new(CudaEngine::Fused);
        let small = CudaOptions { small_batch: Some(0), ..fused };
        let oracle = exhaustive(&training);
        let problem = Problem { oracle: &oracle, training: &training, queries: &queries };
        agree_with(problem, &[1, 10, 100], &[fused, small], Path::Fast);
    }
}

#[test]
#[ignore = "needs a GPU"]
fn a_corpus_in_tiles_parts_and_chunks() {
    let rows = rcv1_like_rows(3_000, 300, 5);
    let oracle = exhaustive(&rows.training);
    let fused = CudaOptions { fall_back: false, ..CudaOptions::new(CudaEngine::Fused) };
    let options = [
        fused,
        CudaOptions { tile_rows: Some(700), chunk: Some(64), ..fused },
        CudaOptions { tile_rows: Some(700), small_batch: Some(0), ..fused },
        // The memory budget is so small that the rows are streamed in parts.
        CudaOptions { memory: Some(3 << 20), ..fused },
        CudaOptions { memory: Some(3 << 20), engine: grid(GridMemory::Texture), ..fused },
        CudaOptions { texture_width: Some(50_000), engine: grid(GridMemory::Texture), ..fused },
        CudaOptions { engine: BASE, ..fused },
        CudaOptions { engine: SHARED, ..fused },
    ];
    let problem = Problem { oracle: &oracle, training: &rows.training, queries: &rows.test };
    agree_with(problem, &[1, 30], &options, Path::Fast);
    agree_with(problem, &[100, 1_000, 3_000], &options, Path::Any);
}

/// Compares all engines on 5,000 of the 781,265 queries, chosen at random, with typical values of
/// k. This takes a minute.
#[test]
#[ignore = "needs a GPU"]
fn a_corpus_of_the_size_of_rcv1() {
    let rows = rcv1_like_rows(RCV1_TRAINING_DOCUMENTS, RCV1_DOCUMENTS - RCV1_TRAINING_DOCUMENTS, 0);
    let mut random = Random::new(5);
    let drawn = std::iter::repeat_with(|| random.below(rows.test.rows()));
    let mut queries = CsrBuilder::default();
    for query in drawn.take(5_000) {
        let (terms, weights) = rows.test.row(query);
        queries.push_slices(terms, weights);
    }
    let queries = queries.build(rows.test.cols());
    let oracle = exhaustive(&rows.training);
    let fused = CudaOptions { fall_back: false, ..CudaOptions::new(CudaEngine::Fused) };
    let engines =
        [CudaEngine::Fused, BASE, SHARED, grid(GridMemory::Texture), grid(GridMemory::ReadOnly)];
    let options = engines.map(|engine| CudaOptions { engine, ..fused });
    let problem = Problem { oracle: &oracle, training: &rows.training, queries: &queries };
    agree_with(problem, &[1, 30, 100, 1_000], &options[..1], Path::Any);
    agree_with(problem, &[30], &options[1..], Path::Any);
    let engine = cuda(&rows.training, fused);
    let request = Request::new(&rows.test, NonZeroUsize::new(30).unwrap());
    let mut lists = NeighborLists::default();
    let (first, report) = answer(&engine, &request, &mut lists);
    assert!(first == answer(&engine, &request, &mut lists).0, "both runs give the same answers");
    // Only long documents fall back.
    assert!(report.fell_back < 200, "{report:?}");
}

/// Nearly all GPU memory is allocated. Plans that need more fail, smaller plans are tried, and
/// finally the CPU answers.
#[test]
#[ignore = "needs a GPU"]
fn running_out_of_memory_changes_no_answer() {
    let _alone = MEMORY.write().unwrap_or_else(PoisonError::into_inner);
    let rows = rcv1_like_rows(20_000, 20_000, 3);
    let device = Device::open(0).unwrap();
    let stream = device.stream().unwrap();
    let engine = {
        let options = CudaOptions { memory: Some(1 << 40), ..CudaOptions::new(CudaEngine::Fused) };
        let threads = Threads::available().unwrap();
        Cuda::new(Arc::clone(&rows.training), device.clone(), options, threads).unwrap()
    };
    let taken = device.free().unwrap().saturating_sub(64 << 20);
    let others = stream.alloc_zeros::<u8>(taken).unwrap();
    stream.synchronize().unwrap();
    let threads = Threads::available().unwrap();
    let oracle = Inverted::new(Arc::clone(&rows.training), threads).unwrap();
    let request = Request::new(&rows.test, NonZeroUsize::new(1_000).unwrap());
    let mut lists = NeighborLists::default();
    let expected = answer(&oracle, &request, &mut lists).0;
    let (found, report) = answer(&engine, &request, &mut lists);
    assert!(found == expected);
    drop(others);
    assert_eq!(report.fast + report.fell_back, 20_000);
}

#[test]
#[ignore = "needs a GPU"]
fn a_stopped_search_returns_nothing() {
    let rows = rcv1_like_rows(20_000, 60_000, 3);
    let engine = cuda(&rows.training, CudaOptions::new(CudaEngine::Fused));
    let mut lists = NeighborLists::default();
    let stop = Stop::new();
    let request = Request::new(&rows.test, NonZeroUsize::new(30).unwrap()).until(&stop);
    let _ = engine.search(&request, &mut lists).unwrap();
    stop.stop();
    assert!(matches!(engine.search(&request, &mut lists), Err(SearchError::Stopped)));
    assert!(lists.is_empty());
}

/// Uses all GPUs of the machine. A single GPU is opened several times.
#[test]
#[ignore = "needs a GPU"]
fn several_gpus_answer_like_one() {
    let training = random(3, 1_000, 14, 300, small_integer);
    let queries = random(5, 600, 14, 300, small_integer);
    let oracle = exhaustive(&training);
    let filters = Filters::new(training.rows(), queries.rows());
    let fused = CudaOptions { fall_back: false, ..CudaOptions::new(CudaEngine::Fused) };
    let threads = Threads::available().unwrap();
    let mut devices = vec![Device::open(0).unwrap(); 3];
    let all = gpu_runtime::devices().unwrap();
    for (device, info) in devices.iter_mut().zip(&all) {
        *device = Device::open(info.ordinal).unwrap();
    }
    let mut lists = NeighborLists::default();
    let mut cases = Vec::new();
    for allow in filters.all() {
        for k in [1, 30, 5_000] {
            let request = Request::new(&*queries, NonZeroUsize::new(k).unwrap()).among(allow);
            cases.push((request, answer(&oracle, &request, &mut lists).0));
        }
    }
    for gpus in 1..=3 {
        // Small batches, and rows that exceed the memory of a GPU and are distributed.
        let small = CudaOptions { chunk: Some(100), ..fused };
        let distributed = CudaOptions { memory: Some(1 << 16), ..fused };
        for options in [fused, small, distributed] {
            let engine =
                SeveralGpus::engine(&training, &devices[..gpus], options, &threads).unwrap();
            for (request, expected) in &cases {
                let (found, report) = answer(&*engine, request, &mut lists);
                assert!(found == *expected, "{gpus} GPUs, {options:?}, k = {}", request.k);
                assert_eq!(report.fast + report.fell_back, queries.rows() as u64);
            }
        }
    }
    println!("{} GPUs on this machine", all.len());
}

#[test]
#[ignore = "needs a GPU"]
fn dense_vectors_on_a_gpu() {
    use classify::rows::dense::{Kernel, Metric, Vectors};
    use classify::search::{Dense, DenseIndex};
    let threads = Threads::available().unwrap();
    let mut random = Random::new(9);
    let mut vectors = |rows: usize, dimension: usize, steps: usize| {
        #[expect(clippy::cast_precision_loss, reason = "the numbers are small")]
        let value = |_| random.below(steps) as f32 - (steps / 2) as f32;
        let values: Vec<f32> = (0..rows * dimension).map(value).collect();
        Vectors::new(dimension, values).unwrap()
    };
    let mut lists = NeighborLists::default();
    for (rows, dimension, steps, max_fallbacks) in
        [(20_000, 40, 1_000, 0), (3_000, 3, 4, 300), (50, 8, 9, 300)]
    {
        let training = vectors(rows, dimension, steps);
        let queries = vectors(300, dimension, steps);
        for metric in [Metric::Angular, Metric::Euclidean, Metric::Manhattan] {
            let training = if metric == Metric::Angular {
                let mut values = training.values().to_vec();
                for row in values.chunks_exact_mut(dimension) {
                    let length = row.iter().map(|x| x * x).sum::<f32>().sqrt();
                    for x in row {
                        *x /= length.max(1e-9);
                    }
                }
                Arc::new(Vectors::new(dimension, values).unwrap())
            } else {
                Arc::new(training.clone())
            };
            let kernel = Kernel { metric, scale: 3.0 };
            let cpu = Dense::new(Arc::clone(&training), kernel, DenseIndex::Auto, threads.clone())
                .unwrap();
            let gpu = Dense::new(training, kernel, DenseIndex::Auto, threads.clone()).unwrap();
            let gpu = gpu.on_gpus(&[Device::open(0).unwrap()], false).unwrap();
            for k in [1, 10, 100, 30_000] {
                let request = Request::new(queries.view(), NonZeroUsize::new(k).unwrap());
                let (expected, _) = answer(&cpu, &request, &mut lists);
                let (found, report) = answer(&gpu, &request, &mut lists);
                assert!(found == expected, "{rows} x {dimension}, {metric:?}, k = {k}");
                println!("{rows} x {dimension}, {metric:?}, k = {k}: {report:?}");
                assert!(k > 1_000 || report.fell_back <= max_fallbacks, "{report:?}");
            }
        }
    }
}
