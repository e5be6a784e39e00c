//! Tests the cost of a composite engine: its allocations, and the threads that it uses.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

use classify::rows::matrix::{Csr, CsrBuilder};
use classify::search::{
    Composite, Inverted, NeighborLists, Part, Report, Request, RowMap, Search, SearchError, Segment,
};
use classify::threads::Threads;

/// The system's allocator, with counts of allocations and bytes.
struct CountingAllocator;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);

#[expect(unsafe_code, reason = "implements an allocator")]
// SAFETY: all calls are forwarded to the system's allocator.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller upholds the requirements of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the requirements of the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator;

/// An engine that claims to have more rows than it has, and records which threads call it.
#[derive(Debug)]
struct OversizedEngine {
    rows: u32,
    engine: Inverted,
    callers: Mutex<HashSet<ThreadId>>,
}

impl Search for OversizedEngine {
    fn rows(&self) -> u32 {
        self.rows
    }

    fn search(
        &self,
        request: &Request<'_>,
        found: &mut NeighborLists,
    ) -> Result<Report, SearchError> {
        assert!(request.allow.is_all());
        self.callers.lock().unwrap().insert(std::thread::current().id());
        self.engine.search(request, found)
    }
}

fn rows(count: usize) -> Arc<Csr> {
    let mut rows = CsrBuilder::default();
    (0u8..8)
        .cycle()
        .take(count)
        .for_each(|term| rows.push_row([(u32::from(term), f32::from(term + 1))]));
    Arc::new(rows.build(8))
}

/// A search without a filter must not cost more than the searches of its parts, for any number of
/// rows and queries.
///
/// This is a single test, because allocations are counted for the whole process.
#[test]
fn an_unfiltered_search_costs_no_more_than_its_parts() {
    const ROWS: u32 = 2_000_000;
    let threads = Threads::new(NonZeroUsize::new(2).unwrap()).unwrap();
    let oversized: Vec<Arc<OversizedEngine>> = (0..4)
        .map(|_| {
            let engine = Inverted::new(rows(10), threads.clone()).unwrap();
            Arc::new(OversizedEngine { rows: ROWS, engine, callers: Mutex::default() })
        })
        .collect();
    let part = |engine: &Arc<OversizedEngine>| Arc::clone(engine) as Arc<dyn Search>;
    let maps = (0..).step_by(ROWS as usize).map(RowMap::From);
    let shards = oversized.iter().map(part).zip(maps).map(|(engine, rows)| Part { engine, rows });
    let shards = Composite::new(shards.collect(), threads.clone()).unwrap();
    let segment = |engine: &Arc<OversizedEngine>| Segment { engine: part(engine), kept: None };
    let segments = Composite::of_segments(oversized.iter().map(segment), threads.clone()).unwrap();
    let concurrent = oversized.iter().map(segment);
    let concurrent = Composite::of_segments(concurrent, threads.clone()).unwrap().concurrently();
    let k = NonZeroUsize::new(5).unwrap();
    for engine in [&shards, &segments, &concurrent] {
        let mut found = NeighborLists::default();
        for queries in [1, 10_000] {
            let queries = rows(queries);
            let request = Request::new(&*queries, k);
            let cost_of = |engine: &dyn Search, found: &mut NeighborLists| {
                // The first searches allocate buffers that later searches reuse.
                for _ in 0..3 {
                    let _ = engine.search(&request, found).unwrap();
                }
                let count = ALLOCATIONS.load(Ordering::Relaxed);
                let bytes = BYTES.load(Ordering::Relaxed);
                let _ = engine.search(&request, found).unwrap();
                let count = ALLOCATIONS.load(Ordering::Relaxed) - count;
                (count, BYTES.load(Ordering::Relaxed) - bytes)
            };
            let (part_allocations, part_bytes) =
                cost_of(&*oversized[0], &mut NeighborLists::default());
            let (count, bytes) = cost_of(engine, &mut found);
            // At most two bytes per query, which is far less than one bit per row.
            assert!(
                count <= 4 * part_allocations + 200,
                "{count} allocations, 4 × {part_allocations}"
            );
            assert!(bytes <= 4 * part_bytes + 20_000, "{bytes} bytes, 4 × {part_bytes}");
        }
        for _ in 0..20 {
            let queries = rows(1);
            let _ = engine.search(&Request::new(&*queries, k), &mut found).unwrap();
        }
    }
    for engine in oversized {
        // The calling thread, and the threads of `threads`.
        assert!(engine.callers.lock().unwrap().len() <= 3);
    }
}
