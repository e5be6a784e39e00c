//! The launchers of `kernels/words.cu`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gpu_runtime::{
    CudaSlice, CudaStream, Device, DevicePtr, DeviceRepr, DriverError, GpuError, Kernel,
};

use super::super::launch::{Launched, SORTED, THREADS, config};

/// Queries of a block: `TOGETHER`.
const TOGETHER: u32 = 8;
/// Words of a block.
const CHUNK: u32 = 4096;
/// Up to this many queries, a block has fewer, so that all multiprocessors have work.
const FEW: u32 = 256;
/// Words of a block for few queries.
const SMALL_CHUNK: u32 = 512;
/// For how long the answer to one query is looked for in memory before the driver is asked.
const LOOKING: Duration = Duration::from_micros(200);
/// What a search for one query has not written yet: no number of words, and no word.
pub(super) const UNWRITTEN: u64 = u64::MAX;

fn chunk_of(queries: &Queries) -> u32 {
    if queries.count <= FEW { SMALL_CHUNK } else { CHUNK }
}

/// The kernels for words, loaded: for queries of up to 32 characters, and of up to 64.
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
pub(super) struct Stored {
    pub(super) characters: CudaSlice<u32>,
    pub(super) starts: CudaSlice<u32>,
    pub(super) sets: CudaSlice<u32>,
    pub(super) points: CudaSlice<u32>,
    pub(super) lengths: CudaSlice<u16>,
    pub(super) count: u32,
}

/// `Words` of kernels/words.cu.
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
// SAFETY: the fields are those of `Words`, in order and in size: five pointers and a u32.
unsafe impl DeviceRepr for Words {}

impl Words {
    pub(super) fn new(stream: &CudaStream, words: &Stored) -> Self {
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

/// `WordQueries` of kernels/words.cu.
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
// SAFETY: the fields are those of `WordQueries`, in order and in size: four pointers and a u32.
unsafe impl DeviceRepr for WordQueries {}

/// Queries on the GPU, in one buffer: of each its end, its set and its radius, then the codes of all, the number of words that
/// each has found, and `room` for those of each.
#[derive(Debug, Clone, Copy)]
pub(super) struct Queries {
    /// The address of the buffer.
    start: u64,
    pub(super) count: u32,
    /// Words of 32 bits of the codes.
    codes: u32,
    pub(super) room: u32,
    /// Whether all have at most 32 characters.
    is_short: bool,
}

impl Queries {
    /// The words of 32 bits that queries take, without what they find.
    pub(super) fn words(count: usize, characters: usize) -> usize {
        3 * count + characters.div_ceil(4)
    }

    /// Where the numbers of found words begin: at an even word, so that what follows is aligned.
    pub(super) fn counts_at(count: usize, characters: usize) -> usize {
        Self::words(count, characters).next_multiple_of(2)
    }

    /// Where the found words begin.
    pub(super) fn found_at(count: usize, characters: usize) -> usize {
        Self::counts_at(count, characters) + count.next_multiple_of(2)
    }

    pub(super) fn new(
        stream: &CudaStream,
        buffer: &CudaSlice<u32>,
        (count, characters): (usize, usize),
        room: u32,
        is_short: bool,
    ) -> Self {
        let words = Self::found_at(count, characters) + 2 * count * room as usize;
        assert!(words <= buffer.len(), "{words} words in a buffer of {}", buffer.len());
        let narrow = |n: usize| u32::try_from(n).expect("a batch");
        let (count, codes) = (narrow(count), narrow(characters.div_ceil(4)));
        Self { start: buffer.device_ptr(stream).0, count, codes, room, is_short }
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

/// `words_within_32` and `words_within_64`: the words within the radius of each query.
pub(super) fn within(
    kernels: &Kernels,
    stream: &Arc<CudaStream>,
    words: &Words,
    queries: &Queries,
) -> Launched {
    let chunk = chunk_of(queries);
    let grid = (words.count.div_ceil(chunk), queries.count.div_ceil(TOGETHER));
    let [short, long] = &kernels.within;
    let (there, counts, found) = (queries.there(), queries.counts(), queries.found());
    let mut launch = if queries.is_short { short } else { long }.launch_on(stream);
    launch.value(words).value(&there).value(&counts).value(&found);
    launch.value(&queries.room).value(&chunk);
    #[expect(unsafe_code, reason = "the launcher of `words_within`")]
    // SAFETY: the arguments are those of the kernel, in order and type; the buffer of the queries is as large as `new`
    // checks.
    unsafe {
        launch.launch(config(grid, THREADS, 0))
    }
}

/// `OneQuery` of kernels/words.cu.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct OneQuery {
    pub(super) codes: [u8; 64],
    pub(super) length: u32,
    pub(super) set: u32,
    pub(super) radius: u32,
}

#[expect(unsafe_code, reason = "a kernel's argument")]
// SAFETY: the fields are those of `OneQuery`, in order and in size: 64 bytes and three u32.
unsafe impl DeviceRepr for OneQuery {}

/// `words_within_one_32` and `words_within_one_64`: how many words are within the radius of a query, then the first of them. They
/// are written to pinned memory, all of which is [`UNWRITTEN`]; see [`wait`].
pub(super) fn within_one(
    kernels: &Kernels,
    stream: &Arc<CudaStream>,
    words: &Words,
    query: &OneQuery,
    state: &mut CudaSlice<u32>,
    answer: &mut [u64],
) -> Launched {
    assert!(state.len() >= 2 && query.length <= 64, "a lane's state, and a query that fits");
    let [short, long] = &kernels.within_one;
    // The GPU reads and writes pinned memory at the host's address.
    let here = answer.as_mut_ptr().expose_provenance() as u64;
    let room = u32::try_from(answer.len() - 1).expect("room for a few neighbors");
    let mut launch = if query.length <= 32 { short } else { long }.launch_on(stream);
    launch.value(words).value(query).pointer(state).value(&here).value(&room);
    #[expect(unsafe_code, reason = "the launcher of `words_within_one`")]
    // SAFETY: the arguments are those of the kernel, in order and type; the answer has room for the number and `room` neighbors.
    unsafe {
        launch.launch(config((words.count.div_ceil(THREADS), 1), THREADS, 0))
    }
}

/// Waits for all that [`within_one`] writes, and gives the number of words. To look at the memory is faster than to ask the driver,
/// which is asked if that takes long or the kernel fails.
pub(super) fn wait(stream: &CudaStream, answer: &mut [u64]) -> Result<u32, DriverError> {
    let start = Instant::now();
    let mut is_over = false;
    let mut written = |at: usize| {
        loop {
            #[expect(unsafe_code, reason = "the GPU writes it at the same time")]
            // SAFETY: a pointer to a value that is there; on machines with these GPUs, a value of 64 bits is written at once.
            let value = unsafe { std::ptr::read_volatile(&raw const answer[at]) };
            if value != UNWRITTEN || is_over {
                return Ok(value);
            }
            if start.elapsed() > LOOKING {
                stream.synchronize()?;
                is_over = true;
            }
            std::hint::spin_loop();
        }
    };
    let count = u32::try_from(written(0)?).expect("not more than words");
    for at in 1..answer.len().min(1 + count as usize) {
        written(at)?;
    }
    // What follows reads what has been seen.
    std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
    Ok(count)
}

/// `word_distances_32` and `word_distances_64`: how many words are at each distance.
pub(super) fn distances(
    kernels: &Kernels,
    stream: &Arc<CudaStream>,
    words: &Words,
    queries: &Queries,
    (histograms, bins): (&mut CudaSlice<u32>, u32),
) -> Launched {
    let chunk = chunk_of(queries);
    let grid = (words.count.div_ceil(chunk), queries.count.div_ceil(TOGETHER));
    let [short, long] = &kernels.distances;
    let there = queries.there();
    let mut launch = if queries.is_short { short } else { long }.launch_on(stream);
    launch.value(words).value(&there).pointer(histograms).value(&bins).value(&chunk);
    #[expect(unsafe_code, reason = "the launcher of `word_distances`")]
    // SAFETY: the arguments are those of the kernel, in order and type; there are `bins` numbers for each query.
    unsafe {
        launch.launch(config(grid, THREADS, (TOGETHER * bins) as usize * 4))
    }
}
