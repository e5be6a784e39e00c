//! Launches the kernels of `kernels/words.cu`.

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpu_runtime::{
    CudaSlice, CudaStream, CudaViewMut, Device, DevicePtr, DeviceRepr, DriverError, GpuError, Grid,
    Kernel, Pinned, kernel,
};

use super::super::launch::{LaunchResult, MAX_SORTED, THREADS};

/// Number of queries per block (`TOGETHER` of `words.cu`).
const QUERIES_PER_BLOCK: u32 = 8;
/// Number of words per block.
const WORDS_PER_BLOCK: u32 = 4096;
/// Maximum number of queries for which a block scans fewer words, so that all multiprocessors have
/// work.
const MAX_FEW_QUERIES: u32 = 256;
/// Number of words per block for few queries.
const WORDS_PER_BLOCK_FOR_FEW_QUERIES: u32 = 512;
/// Time for which memory is polled for an answer before the driver is called.
const POLL_TIME: Duration = Duration::from_micros(200);
/// Marks a value that the search for one query has not written yet. It is neither a valid number of
/// words nor a valid neighbor.
pub(super) const UNWRITTEN: u64 = u64::MAX;

/// Returns the number of words per block.
fn chunk_of(queries: &Queries) -> u32 {
    if queries.count <= MAX_FEW_QUERIES { WORDS_PER_BLOCK_FOR_FEW_QUERIES } else { WORDS_PER_BLOCK }
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
        let gather = device.load_packed(gpu_runtime::ptx!("gather"))?;
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
            gather: gather.kernel("gather", MAX_SORTED as usize * 8)?,
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

#[expect(unsafe_code, reason = "passed to kernels")]
// SAFETY: the fields match the fields of `Words` in order and size: five pointers and a u32.
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

#[expect(unsafe_code, reason = "passed to kernels")]
// SAFETY: the fields match the fields of `WordQueries` in order and size: four pointers and a u32.
unsafe impl DeviceRepr for WordQueries {}

/// Sizes of the queries in a buffer, which determine where the sections of the buffer begin.
///
/// There are four sections:
///
/// * the ends, character sets and radii of the queries,
/// * the codes of all queries,
/// * the number of words found per query,
/// * the words found.
#[derive(Debug, Clone, Copy)]
pub(super) struct QueryLayout {
    pub(super) count: usize,
    /// Total number of characters of all queries.
    pub(super) characters: usize,
}

impl QueryLayout {
    /// Returns the length of the first two sections, in units of 32 bits.
    fn words(self) -> usize {
        3 * self.count + self.characters.div_ceil(4)
    }

    /// Returns the offset of the numbers of words found. It is even, so that the next section is
    /// aligned.
    pub(super) fn counts_at(self) -> usize {
        self.words().next_multiple_of(2)
    }

    /// Returns the offset of the words found.
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
    /// Length of the codes, in units of 32 bits.
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
        let narrow = |n: usize| u32::try_from(n).expect("batch sizes fit in 32 bits");
        let count = narrow(layout.count);
        let codes = narrow(layout.characters.div_ceil(4));
        Self { start: buffer.device_ptr(stream).0, count, codes, capacity, is_short }
    }

    fn kernel_arguments(&self) -> WordQueries {
        let column = u64::from(self.count) * 4;
        WordQueries {
            ends: self.start,
            sets: self.start + column,
            radii: self.start + 2 * column,
            codes: self.start + 3 * column,
            count: self.count,
        }
    }

    /// Returns the address of the numbers of words found.
    fn counts(&self) -> u64 {
        self.start + 4 * (3 * u64::from(self.count) + u64::from(self.codes)).next_multiple_of(2)
    }

    /// Returns the address of the words found.
    pub(super) fn found(&self) -> u64 {
        self.counts() + 4 * u64::from(self.count).next_multiple_of(2)
    }
}

kernel! {
    /// Finds the words within the radius of each query.
    struct Within: "words_within_32" | "words_within_64" {
        value words: Words,
        value queries: WordQueries,
        value counts: u64,
        value found: u64,
        value capacity: u32,
        value chunk: u32,
    }
}

kernel! {
    /// Finds the words within the radius of one query.
    struct WithinOne<'a>: "words_within_one_32" | "words_within_one_64" {
        value words: Words,
        value query: OneQuery,
        write state: CudaViewMut<'a, u32>,
        value answer: u64,
        value capacity: u32,
    }
}

kernel! {
    /// Counts the words at each distance from each query.
    struct Distances<'a>: "word_distances_32" | "word_distances_64" {
        value words: Words,
        value queries: WordQueries,
        write histograms: CudaViewMut<'a, u32>,
        value bins: u32,
        value chunk: u32,
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
    /// Returns the grid of a kernel that compares all queries with chunks of words.
    fn grid(self, queries: &Queries) -> Grid {
        let chunks = self.words.count.div_ceil(chunk_of(queries));
        Grid::new(chunks, THREADS).with_rows(queries.count.div_ceil(QUERIES_PER_BLOCK))
    }

    /// Launches `words_within_32` or `words_within_64`, which finds the words within the radius of
    /// each query.
    pub(super) fn within(self, queries: &Queries) -> LaunchResult {
        let [short, long] = &self.kernels.within;
        let arguments = Within {
            words: *self.words,
            queries: queries.kernel_arguments(),
            counts: queries.counts(),
            found: queries.found(),
            capacity: queries.capacity,
            chunk: chunk_of(queries),
        };
        let kernel = if queries.is_short { short } else { long };
        #[expect(unsafe_code, reason = "launches `words_within`")]
        // SAFETY: `Queries::new` checks the size of the buffer.
        unsafe {
            kernel.launch(self.stream, self.grid(queries), arguments)
        }
    }

    /// Launches `words_within_one_32` or `words_within_one_64`, which counts the words within the
    /// radius of a query and finds the first of them. `state` contains the kernel's two counters,
    /// which must be zero. The answer must be unwritten; see [`Answer::wait`].
    pub(super) fn within_one(
        self,
        query: &OneQuery,
        state: &mut CudaSlice<u32>,
        answer: Answer,
    ) -> LaunchResult {
        assert!(state.len() >= 2, "two counters");
        assert!(query.length <= 64, "a query has up to 64 characters");
        let [short, long] = &self.kernels.within_one;
        let arguments = WithinOne {
            words: *self.words,
            query: *query,
            state: state.as_view_mut(),
            // The GPU reads and writes pinned memory at the host's address.
            answer: answer.start.as_ptr().expose_provenance() as u64,
            capacity: answer.capacity,
        };
        let kernel = if query.length <= 32 { short } else { long };
        let grid = Grid::new(self.words.count.div_ceil(THREADS), THREADS);
        #[expect(unsafe_code, reason = "launches `words_within_one`")]
        // SAFETY: the answer holds the count and `capacity` neighbors.
        unsafe {
            kernel.launch(self.stream, grid, arguments)
        }
    }

    /// Launches `word_distances_32` or `word_distances_64`, which counts the words at each
    /// distance, in `bins` bins per query.
    pub(super) fn distances(
        self,
        queries: &Queries,
        histograms: &mut CudaSlice<u32>,
        bins: u32,
    ) -> LaunchResult {
        let [short, long] = &self.kernels.distances;
        let arguments = Distances {
            words: *self.words,
            queries: queries.kernel_arguments(),
            histograms: histograms.as_view_mut(),
            bins,
            chunk: chunk_of(queries),
        };
        let kernel = if queries.is_short { short } else { long };
        let grid = self.grid(queries).with_shared_bytes((QUERIES_PER_BLOCK * bins) as usize * 4);
        #[expect(unsafe_code, reason = "launches `word_distances`")]
        // SAFETY: there are `bins` numbers per query.
        unsafe {
            kernel.launch(self.stream, grid, arguments)
        }
    }
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

#[expect(unsafe_code, reason = "passed to kernels")]
// SAFETY: the fields match the fields of `OneQuery` in order and size: 64 bytes and three u32.
unsafe impl DeviceRepr for OneQuery {}

/// Pinned memory that the GPU writes while the host polls it: the number of words found, then the
/// words.
///
/// A pointer is used because no reference may exist to memory that the GPU writes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer {
    start: NonNull<u64>,
    /// Maximum number of words.
    capacity: u32,
}

impl Answer {
    /// Creates an answer in memory for `capacity` words, all of which must be [`UNWRITTEN`].
    pub(super) fn new(memory: &mut Pinned<u64>, capacity: u32) -> Result<Self, GpuError> {
        let start = memory.start(1 + capacity as usize)?;
        Ok(Self { start, capacity })
    }

    /// Waits for everything that [`Launcher::within_one`] writes, and returns the number of words.
    ///
    /// Polling memory is faster than calling the driver. If polling takes too long, the driver is
    /// called, which also detects a failed kernel.
    pub(super) fn wait(self, stream: &CudaStream) -> Result<u32, DriverError> {
        let start = Instant::now();
        let mut is_finished = false;
        let mut written = |at: u32| {
            assert!(at <= self.capacity, "the position is within the answer");
            loop {
                let value = self.start.as_ptr().wrapping_add(at as usize);
                #[expect(unsafe_code, reason = "the GPU writes it concurrently")]
                // SAFETY: the pointer refers to an initialized value: the answer has a count and
                // `capacity` words. On machines with these GPUs, 64-bit writes are atomic.
                let value = unsafe { value.read_volatile() };
                if value != UNWRITTEN || is_finished {
                    return Ok(value);
                }
                if start.elapsed() > POLL_TIME {
                    stream.synchronize()?;
                    is_finished = true;
                }
                std::hint::spin_loop();
            }
        };
        let count = u32::try_from(written(0)?).expect("at most the number of words");
        for at in 1..=count.min(self.capacity) {
            written(at)?;
        }
        // Order later reads after the reads of the polled values.
        std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use gpu_runtime::{KernelArguments, check_kernels, ptx, unpack};

    use super::*;

    #[test]
    fn declarations_agree_with_the_ptx() {
        let words = unpack(ptx!("words")).unwrap();
        let declared = [Within::SIGNATURE, WithinOne::SIGNATURE, Distances::SIGNATURE];
        assert_eq!(check_kernels(&[&words], &declared), Ok(()));
    }
}
