//! Launches the kernels of `kernels/words.cu`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gpu_runtime::{
    CudaSlice, CudaStream, Device, DevicePtr, DeviceRepr, DriverError, GpuError, Kernel,
};

use super::super::launch::{Grid, LaunchResult, SORTED, THREADS, config};

/// Queries per block: `TOGETHER` of `words.cu`.
const QUERIES: u32 = 8;
/// Words per block.
const CHUNK: u32 = 4096;
/// Up to this number of queries, a block scans fewer words, so that all multiprocessors have work.
const FEW: u32 = 256;
/// Words per block for few queries.
const SMALL_CHUNK: u32 = 512;
/// How long to poll memory for the answer to one query before asking the driver.
const POLL_TIME: Duration = Duration::from_micros(200);
/// A value that a search for one query has not written yet: neither a number of words nor a word.
pub(super) const UNWRITTEN: u64 = u64::MAX;

fn chunk_of(queries: &Queries) -> u32 {
    if queries.count <= FEW { SMALL_CHUNK } else { CHUNK }
}

/// The loaded kernels for words, each for queries of up to 32 and of up to 64 characters.
#[derive(Debug)]
pub(super) struct Kernels {
    within: [Kernel; 2],
    within_one: [Kernel; 2],
    distances: [Kernel; 2],
    pub(super) gather: Kernel,
}

impl Kernels {
    pub(super) fn load(device: &Device) -> Result<Self, GpuError> {
        let words = device.load_packed(gpu_runtime::ptx!("words"))?;
        let select = device.load_packed(gpu_runtime::ptx!("gather"))?;
        Ok(Self {
            within: [words.kernel("words_within_32", 0)?, words.kernel("words_within_64", 0)?],
            within_one: [
                words.kernel("words_within_one_32", 0)?,
                words.kernel("words_within_one_64", 0)?,
            ],
            distances: [
                words.kernel("word_distances_32", 0)?,
                words.kernel("word_distances_64", 0)?,
            ],
            gather: select.kernel("gather", SORTED as usize * 8)?,
        })
    }
}

/// Words on the GPU.
#[derive(Debug)]
pub(super) struct WordBuffers {
    pub(super) characters: CudaSlice<u32>,
    pub(super) starts: CudaSlice<u32>,
    pub(super) sets: CudaSlice<u32>,
    pub(super) points: CudaSlice<u32>,
    pub(super) lengths: CudaSlice<u16>,
    pub(super) count: u32,
}

/// The words, as kernels receive them (`Words` in kernels/words.cu).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Words {
    characters: u64,
    starts: u64,
    sets: u64,
    points: u64,
    lengths: u64,
    count: u32,
}

#[expect(unsafe_code, reason = "a kernel's argument")]
// SAFETY: the fields match those of `Words` in order and size: five pointers and a u32.
unsafe impl DeviceRepr for Words {}

impl Words {
    pub(super) fn new(stream: &CudaStream, words: &WordBuffers) -> Self {
        Self {
            characters: words.characters.device_ptr(stream).0,
            starts: words.starts.device_ptr(stream).0,
            sets: words.sets.device_ptr(stream).0,
            points: words.points.device_ptr(stream).0,
            lengths: words.lengths.device_ptr(stream).0,
            count: words.count,
        }
    }
}

/// Queries, as kernels receive them (`WordQueries` in kernels/words.cu).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct WordQueries {
    codes: u64,
    ends: u64,
    sets: u64,
    radii: u64,
    count: u32,
}

#[expect(unsafe_code, reason = "a kernel's argument")]
// SAFETY: the fields match those of `WordQueries` in order and size: four pointers and a u32.
unsafe impl DeviceRepr for WordQueries {}

/// Sizes of the queries in a buffer, which determine where its sections begin.
///
/// The sections are the ends, the sets and the radii of the queries, the codes of all queries, the
/// number of words that each has found, and the words found.
#[derive(Debug, Clone, Copy)]
pub(super) struct QueryLayout {
    pub(super) count: usize,
    /// Number of characters of all queries.
    pub(super) characters: usize,
}

impl QueryLayout {
    /// Number of 32-bit words that the queries take, without what they find.
    fn words(self) -> usize {
        3 * self.count + self.characters.div_ceil(4)
    }

    /// The offset of the numbers of words found: even, so that the next section is aligned.
    pub(super) fn counts_at(self) -> usize {
        self.words().next_multiple_of(2)
    }

    /// The offset of the words found.
    pub(super) fn found_at(self) -> usize {
        self.counts_at() + self.count.next_multiple_of(2)
    }
}

/// Queries in one buffer on the GPU, laid out as [`QueryLayout`] describes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Queries {
    /// The address of the buffer.
    start: u64,
    pub(super) count: u32,
    /// Number of 32-bit words of the codes.
    codes: u32,
    /// Capacity for words found, per query.
    capacity: u32,
    /// Whether all queries have at most 32 characters.
    is_short: bool,
}

impl Queries {
    pub(super) fn new(
        stream: &CudaStream,
        buffer: &CudaSlice<u32>,
        layout: QueryLayout,
        capacity: u32,
        is_short: bool,
    ) -> Self {
        let words = layout.found_at() + 2 * layout.count * capacity as usize;
        assert!(words <= buffer.len(), "{words} words in a buffer of {}", buffer.len());
        let narrow = |n: usize| u32::try_from(n).expect("a batch");
        let count = narrow(layout.count);
        let codes = narrow(layout.characters.div_ceil(4));
        Self { start: buffer.device_ptr(stream).0, count, codes, capacity, is_short }
    }

    fn there(&self) -> WordQueries {
        let column = u64::from(self.count) * 4;
        WordQueries {
            ends: self.start,
            sets: self.start + column,
            radii: self.start + 2 * column,
            codes: self.start + 3 * column,
            count: self.count,
        }
    }

    fn counts(&self) -> u64 {
        self.start + 4 * (3 * u64::from(self.count) + u64::from(self.codes)).next_multiple_of(2)
    }

    pub(super) fn found(&self) -> u64 {
        self.counts() + 4 * u64::from(self.count).next_multiple_of(2)
    }
}

/// Launches the kernels for words on one stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct Launcher<'a> {
    pub(super) kernels: &'a Kernels,
    pub(super) stream: &'a Arc<CudaStream>,
    pub(super) words: &'a Words,
}

impl Launcher<'_> {
    /// `words_within_32` and `words_within_64`: finds the words within the radius of each query.
    pub(super) fn within(self, queries: &Queries) -> LaunchResult {
        let chunk = chunk_of(queries);
        let x = self.words.count.div_ceil(chunk);
        let grid = Grid { x, y: queries.count.div_ceil(QUERIES) };
        let [short, long] = &self.kernels.within;
        let there = queries.there();
        let counts = queries.counts();
        let found = queries.found();
        let mut launch = if queries.is_short { short } else { long }.launch_on(self.stream);
        launch.value(self.words).value(&there).value(&counts).value(&found);
        launch.value(&queries.capacity).value(&chunk);
        #[expect(unsafe_code, reason = "the launcher of `words_within`")]
        // SAFETY: the arguments match those of the kernel in order and type; `Queries::new` checks
        // the size of the buffer.
        unsafe {
            launch.launch(config(grid, THREADS, 0))
        }
    }

    /// `words_within_one_32` and `words_within_one_64`: counts the words within the radius of a
    /// query and finds the first of them. They are written to pinned memory, all of which is
    /// [`UNWRITTEN`] before; see [`wait`].
    pub(super) fn within_one(self, query: &OneQuery, buffers: AnswerBuffers<'_>) -> LaunchResult {
        let AnswerBuffers { state, answer } = buffers;
        assert!(state.len() >= 2 && query.length <= 64, "a lane's state, and a query that fits");
        let [short, long] = &self.kernels.within_one;
        // The GPU reads and writes pinned memory at the host's address.
        let here = answer.as_mut_ptr().expose_provenance() as u64;
        let capacity = u32::try_from(answer.len() - 1).expect("a few neighbors");
        let mut launch = if query.length <= 32 { short } else { long }.launch_on(self.stream);
        launch.value(self.words).value(query).pointer(state).value(&here).value(&capacity);
        let grid = Grid::line(self.words.count.div_ceil(THREADS));
        #[expect(unsafe_code, reason = "the launcher of `words_within_one`")]
        // SAFETY: the arguments match those of the kernel in order and type; the answer holds the
        // count and `capacity` neighbors.
        unsafe {
            launch.launch(config(grid, THREADS, 0))
        }
    }

    /// `word_distances_32` and `word_distances_64`: counts the words at each distance, in `bins`
    /// bins per query.
    pub(super) fn distances(
        self,
        queries: &Queries,
        histograms: &mut CudaSlice<u32>,
        bins: u32,
    ) -> LaunchResult {
        let chunk = chunk_of(queries);
        let x = self.words.count.div_ceil(chunk);
        let grid = Grid { x, y: queries.count.div_ceil(QUERIES) };
        let [short, long] = &self.kernels.distances;
        let there = queries.there();
        let mut launch = if queries.is_short { short } else { long }.launch_on(self.stream);
        launch.value(self.words).value(&there).pointer(histograms).value(&bins).value(&chunk);
        #[expect(unsafe_code, reason = "the launcher of `word_distances`")]
        // SAFETY: the arguments match those of the kernel in order and type; there are `bins`
        // numbers per query.
        unsafe {
            launch.launch(config(grid, THREADS, (QUERIES * bins) as usize * 4))
        }
    }
}

/// The buffers of a search for one query.
#[derive(Debug)]
pub(super) struct AnswerBuffers<'a> {
    /// The counters of the kernel: two zeros.
    pub(super) state: &'a mut CudaSlice<u32>,
    /// Pinned memory for the number of words found, then the words.
    pub(super) answer: &'a mut [u64],
}

/// A query, as the kernels for one query receive it (`OneQuery` in kernels/words.cu).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct OneQuery {
    pub(super) codes: [u8; 64],
    pub(super) length: u32,
    pub(super) set: u32,
    pub(super) radius: u32,
}

#[expect(unsafe_code, reason = "a kernel's argument")]
// SAFETY: the fields match those of `OneQuery` in order and size: 64 bytes and three u32.
unsafe impl DeviceRepr for OneQuery {}

/// Waits for everything that [`Launcher::within_one`] writes, and returns the number of words.
///
/// Polling memory is faster than asking the driver. The driver is asked if polling takes long,
/// which also detects a failed kernel.
pub(super) fn wait(stream: &CudaStream, answer: &mut [u64]) -> Result<u32, DriverError> {
    let start = Instant::now();
    let mut is_over = false;
    let mut written = |at: usize| {
        loop {
            #[expect(unsafe_code, reason = "the GPU writes it concurrently")]
            // SAFETY: the pointer is to an initialized value; on machines with these GPUs, 64-bit
            // writes are atomic.
            let value = unsafe { std::ptr::read_volatile(&raw const answer[at]) };
            if value != UNWRITTEN || is_over {
                return Ok(value);
            }
            if start.elapsed() > POLL_TIME {
                stream.synchronize()?;
                is_over = true;
            }
            std::hint::spin_loop();
        }
    };
    let count = u32::try_from(written(0)?).expect("at most the number of words");
    for at in 1..answer.len().min(1 + count as usize) {
        written(at)?;
    }
    // Orders the reads below after the polled values.
    std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
    Ok(count)
}
