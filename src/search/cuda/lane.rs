//! A GPU stream with its buffers on both sides: one batch of queries in flight.

use std::ops::Range;
use std::sync::Arc;

use gpu_runtime::{CudaSlice, CudaStream, Device, DeviceRepr, GpuError, Pinned};
use rayon::prelude::*;

use super::Failed;
use super::launch::{AllowRows, QueryRows};
use crate::rows::matrix::row;
use crate::search::allow::Parts;
use crate::search::{Allow, Queries, SearchError};
use crate::threads::Threads;

/// Queries that have been sent to the GPU.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) count: usize,
    /// Terms of the longest query.
    pub(super) longest: usize,
    /// The queries with a negative weight, in increasing order.
    pub(super) negative: Vec<usize>,
}

/// A GPU buffer that grows.
#[derive(Debug)]
pub(super) struct Growing<T>(Option<CudaSlice<T>>);

impl<T: DeviceRepr> Growing<T> {
    fn new() -> Self {
        Self(None)
    }

    /// Returns at least `length` values, uninitialized.
    pub(super) fn get(
        &mut self,
        device: &Device,
        stream: &Arc<CudaStream>,
        length: usize,
    ) -> Result<&mut CudaSlice<T>, GpuError> {
        let length = length.max(1);
        if self.0.as_ref().is_none_or(|memory| memory.len() < length) {
            self.0 = None;
            #[expect(unsafe_code, reason = "memory of the GPU is not initialized")]
            // SAFETY: kernels and copies write it before anything reads it: the launchers' contract.
            let fresh = unsafe { stream.alloc::<T>(length) };
            self.0 = Some(fresh.map_err(device.doing("allocating its memory").failed())?);
        }
        Ok(self.0.as_mut().expect("allocated above"))
    }

    /// The capacity in values.
    pub(super) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, CudaSlice::len)
    }

    pub(super) fn made(&self) -> &CudaSlice<T> {
        self.0.as_ref().expect("`get` came before")
    }
}

/// Where the parts of the queries lie in the lane's buffers, as offsets in words of four bytes. The rows'
/// bounds are the first part; the filter is the last.
#[derive(Debug, Clone, Copy, Default)]
struct Layout {
    vals: usize,
    cols: usize,
    /// Whether columns are of 16 bits.
    narrow: bool,
    filter: FilterParts,
}

/// Where the parts of a filter lie.
#[derive(Debug, Clone, Copy, Default)]
struct FilterParts {
    only: Option<usize>,
    ranges: Option<usize>,
    bounds: Option<usize>,
    lists: Option<usize>,
    of_rows: Option<usize>,
    of_queries: Option<usize>,
}

/// One batch in flight: pinned host buffers, device buffers, and the stream between them.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) device: Device,
    pub(super) stream: Arc<CudaStream>,
    /// The queries and their filter, which are copied as a whole.
    host: Pinned<u32>,
    sent: Growing<u32>,
    layout: Layout,
    pub(super) found: Growing<u64>,
    pub(super) counts: Growing<u32>,
    pub(super) status: Growing<u32>,
    pub(super) scores: Growing<f32>,
    pub(super) dense: Growing<f32>,
    pub(super) list: Growing<u32>,
    pub(super) records: Growing<[u32; 4]>,
    pub(super) tasks: Growing<[u32; 2]>,
    pub(super) next_task: Growing<u32>,
    pub(super) candidates: Growing<u32>,
    pub(super) candidate_counts: Growing<u32>,
    /// Entries of the queries sent last.
    pub(super) entries: usize,
    pub(super) host_found: Pinned<u64>,
    pub(super) host_counts: Pinned<u32>,
    pub(super) host_status: Pinned<u32>,
}

impl Lane {
    pub(super) fn new(device: &Device) -> Result<Self, GpuError> {
        Ok(Self {
            device: device.clone(),
            stream: device.stream()?,
            host: Pinned::new(device),
            sent: Growing::new(),
            layout: Layout::default(),
            found: Growing::new(),
            counts: Growing::new(),
            status: Growing::new(),
            scores: Growing::new(),
            dense: Growing::new(),
            list: Growing::new(),
            records: Growing::new(),
            tasks: Growing::new(),
            next_task: Growing::new(),
            candidates: Growing::new(),
            candidate_counts: Growing::new(),
            entries: 0,
            host_found: Pinned::new(device),
            host_counts: Pinned::new(device),
            host_status: Pinned::new(device),
        })
    }

    /// Waits until all work enqueued on the stream is done.
    pub(super) fn wait(&self) -> Result<(), GpuError> {
        self.stream.synchronize().map_err(self.device.doing("searching").failed())
    }

    /// Sends the queries of `range` to the GPU. The stream must be idle.
    ///
    /// # Errors
    /// If a weight is not finite, or the GPU fails.
    pub(super) fn send(
        &mut self,
        queries: &Queries<'_>,
        range: Range<usize>,
        threads: &Threads,
    ) -> Result<Sent, Failed> {
        let count = range.len();
        let indptr = queries.rows.indptr();
        // A slice of a matrix keeps the row pointers of the whole.
        let base = indptr.raw_storage()[0];
        let indptr = &indptr.raw_storage()[range.start..=range.end];
        let start = usize::try_from(indptr[0] - base).expect("in memory");
        let nonzeros = usize::try_from(indptr[count] - indptr[0]).expect("in memory");
        let (_, indices, data) = queries.rows.into_raw_storage();
        let (indices, data) = (&indices[start..start + nonzeros], &data[start..start + nonzeros]);

        let narrow = queries.rows.cols() <= usize::from(u16::MAX) + 1;
        let cols_words = if narrow { nonzeros.div_ceil(2) } else { nonzeros };
        let vals = (count + 1).next_multiple_of(ALIGNED);
        let cols = (vals + nonzeros).next_multiple_of(ALIGNED);
        let filter_at = (cols + cols_words).next_multiple_of(ALIGNED);
        let (filter, parts) = packed(&queries.allow.slice(range.clone()), filter_at);
        self.layout = Layout { vals, cols, narrow, filter: parts };
        let words = filter_at + filter.len();

        let host = self.host.get(words)?;
        let (host_ptr, host) = host.split_at_mut(vals);
        let (host_vals, host) = host.split_at_mut(cols - vals);
        let (host_cols, host_filter) = host.split_at_mut(filter_at - cols);
        for (to, &from) in host_ptr.iter_mut().zip(indptr) {
            #[expect(clippy::cast_possible_truncation, reason = "chunks are below 2^32 entries")]
            let narrow = (from - indptr[0]) as u32;
            *to = narrow;
        }
        let longest = host_ptr[..=count].windows(2).map(|row| row[1] - row[0]).max().unwrap_or(0);
        host_filter.copy_from_slice(&filter);
        let host_vals: &mut [f32] = bytemuck::cast_slice_mut(host_vals);
        // Waking other threads takes longer than so small a copy.
        let looked = if nonzeros <= 2 * PIECE {
            copy_piece(((host_vals, data), (host_cols, indices)), narrow)
        } else {
            let words = if narrow { PIECE / 2 } else { PIECE };
            let vals = host_vals.par_chunks_mut(PIECE).zip(data.par_chunks(PIECE));
            let cols = host_cols.par_chunks_mut(words).zip(indices.par_chunks(PIECE));
            let pieces = vals.zip(cols).map(|piece| copy_piece(piece, narrow));
            threads.run(|| pieces.reduce(Looked::default, Looked::and))
        };
        if looked.not_finite {
            return Err(SearchError::NotFinite { what: "query" }.into());
        }
        let is_negative =
            |&query: &usize| row(&queries.rows, range.start + query).1.iter().any(|&w| w < 0.0);
        let negative =
            if looked.negative { (0..count).filter(is_negative).collect() } else { Vec::new() };
        self.entries = nonzeros;
        let failed = self.device.doing("copying queries to it").failed();
        let to = self.sent.get(&self.device, &self.stream, words)?;
        self.stream.memcpy_htod(&*self.host.get(words)?, to).map_err(&failed)?;
        Ok(Sent { count, longest: longest as usize, negative })
    }

    /// The queries sent last.
    pub(super) fn queries(&self) -> QueryRows {
        let Layout { vals, cols, narrow, .. } = self.layout;
        QueryRows::new(&self.stream, self.sent.made(), (vals, cols), narrow)
    }

    /// Which rows may be their neighbors.
    pub(super) fn allow(&self) -> AllowRows {
        let FilterParts { only, ranges, bounds, lists, of_rows, of_queries } = self.layout.filter;
        let at = |word| AllowRows::pointer(&self.stream, self.sent.made(), word);
        AllowRows {
            only: at(only),
            ranges: at(ranges),
            bounds: at(bounds),
            lists: at(lists),
            of_rows: at(of_rows),
            of_queries: at(of_queries),
        }
    }

    /// Sends a list of query numbers.
    pub(super) fn send_list(&mut self, queries: &[u32]) -> Result<(), GpuError> {
        let failed = self.device.doing("copying query numbers to it").failed();
        let to = self.list.get(&self.device, &self.stream, queries.len())?;
        // The list is in pageable memory, so the copy has read it when the call returns.
        self.stream.memcpy_htod(queries, to).map_err(failed)
    }

    /// Enqueues the copy of the results for `count` queries to `places` or to `host_found`. Does
    /// not wait.
    pub(super) fn fetch(
        &mut self,
        count: usize,
        k: usize,
        status: bool,
        places: Option<&mut [u64]>,
    ) -> Result<(), GpuError> {
        let failed = self.device.doing("copying neighbors from it").failed();
        if count == 0 {
            return Ok(());
        }
        let keys = self.found.made().slice(..count * k);
        let places = match places {
            Some(places) => places,
            None => self.host_found.get(count * k)?,
        };
        self.stream.memcpy_dtoh(&keys, places).map_err(&failed)?;
        let counts = self.counts.made().slice(..count);
        self.stream.memcpy_dtoh(&counts, self.host_counts.get(count)?).map_err(&failed)?;
        if status {
            let from = self.status.made().slice(..count);
            self.stream.memcpy_dtoh(&from, self.host_status.get(count)?).map_err(&failed)?;
        }
        Ok(())
    }
}

impl Drop for Lane {
    /// Pinned memory must outlive the copies in flight.
    fn drop(&mut self) {
        // A GPU that has failed copies nothing more.
        let _ = self.stream.synchronize();
    }
}

/// The number of words at whose multiples the parts of the queries begin.
const ALIGNED: usize = 4;

/// The entries that a thread copies at a time: an even number.
const PIECE: usize = 16_384;

/// What was seen while weights were copied.
#[derive(Debug, Clone, Copy, Default)]
struct Looked {
    not_finite: bool,
    negative: bool,
}

impl Looked {
    fn and(self, other: Self) -> Self {
        Self {
            not_finite: self.not_finite | other.not_finite,
            negative: self.negative | other.negative,
        }
    }
}

/// Where weights go and come from, and columns.
type Piece<'a> = ((&'a mut [f32], &'a [f32]), (&'a mut [u32], &'a [u32]));

/// Copies a piece of the queries, and looks at its weights on the way.
fn copy_piece(((to_vals, vals), (to_cols, cols)): Piece<'_>, narrow: bool) -> Looked {
    to_vals[..vals.len()].copy_from_slice(vals);
    if narrow {
        let to_cols: &mut [u16] = bytemuck::cast_slice_mut(to_cols);
        for (to, &from) in to_cols.iter_mut().zip(cols) {
            #[expect(clippy::cast_possible_truncation, reason = "columns fit 16 bits")]
            let column = from as u16;
            *to = column;
        }
    } else {
        to_cols[..cols.len()].copy_from_slice(cols);
    }
    let look = |looked: Looked, weight: &f32| {
        looked.and(Looked { not_finite: !weight.is_finite(), negative: *weight < 0.0 })
    };
    vals.iter().fold(Looked::default(), look)
}

/// A filter in one buffer, and its parts, as if the buffer began at word `start`, a multiple of two.
fn packed(allow: &Allow<'_>, start: usize) -> (Vec<u32>, FilterParts) {
    let Parts { only, ranges, lists, groups } = allow.parts();
    let mut packed: Vec<u32> = Vec::new();
    let mut put = |words: &[u32]| {
        // Pairs and 64-bit numbers are read from here, so they start at multiples of eight bytes.
        packed.resize(packed.len().next_multiple_of(2), 0);
        packed.extend_from_slice(words);
        start + packed.len() - words.len()
    };
    let mut parts = FilterParts {
        only: only.map(|only| put(only.words())),
        ranges: ranges.map(|ranges| put(bytemuck::cast_slice(ranges))),
        ..FilterParts::default()
    };
    if let Some(lists) = lists {
        let (mut bounds, mut rows) = (vec![0u64], Vec::new());
        for query in 0..lists.len() {
            rows.extend_from_slice(lists.of(query));
            bounds.push(rows.len() as u64);
        }
        parts.bounds = Some(put(bytemuck::cast_slice(&bounds)));
        parts.lists = Some(put(&rows));
    }
    if let Some((of_rows, of_queries)) = groups {
        parts.of_rows = Some(put(of_rows));
        parts.of_queries = Some(put(of_queries));
    }
    (packed, parts)
}
