//! A GPU stream with its buffers on both sides: one batch of queries in flight.

use std::ops::Range;
use std::sync::Arc;

use gpu_runtime::{CudaSlice, CudaStream, Device, DeviceRepr, GpuError, Pinned};
use rayon::prelude::*;

use super::Failed;
use super::launch::{AllowRows, QueryRows};
use crate::matrix::row;
use crate::search::allow::Parts;
use crate::search::{Allow, Queries, SearchError};

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

/// Where the parts of a filter lie in the lane's buffer, as word offsets.
#[derive(Debug, Clone, Copy, Default)]
struct FilterParts {
    words: usize,
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
    host_ptr: Pinned<u32>,
    host_cols: Pinned<u8>,
    host_vals: Pinned<f32>,
    host_filter: Pinned<u32>,
    ptr: Growing<u32>,
    cols: Growing<u8>,
    vals: Growing<f32>,
    filter: Growing<u32>,
    /// Where the parts of the filter lie in it.
    filter_parts: FilterParts,
    narrow: bool,
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
            host_ptr: Pinned::new(device),
            host_cols: Pinned::new(device),
            host_vals: Pinned::new(device),
            host_filter: Pinned::new(device),
            ptr: Growing::new(),
            cols: Growing::new(),
            vals: Growing::new(),
            filter: Growing::new(),
            filter_parts: FilterParts::default(),
            narrow: false,
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

    /// Sends the queries of `range` to the GPU. The stream must be idle. Call it on the thread pool
    /// that should copy.
    ///
    /// # Errors
    /// If a weight is not finite, or the GPU fails.
    pub(super) fn send(
        &mut self,
        queries: &Queries<'_>,
        range: Range<usize>,
    ) -> Result<Sent, Failed> {
        const PIECE: usize = 16_384;
        let count = range.len();
        let indptr = queries.rows.indptr();
        // A slice of a matrix keeps the row pointers of the whole.
        let base = indptr.raw_storage()[0];
        let indptr = &indptr.raw_storage()[range.start..=range.end];
        let start = usize::try_from(indptr[0] - base).expect("in memory");
        let nonzeros = usize::try_from(indptr[count] - indptr[0]).expect("in memory");
        let ptr = self.host_ptr.get(count + 1)?;
        for (to, &from) in ptr.iter_mut().zip(indptr) {
            #[expect(clippy::cast_possible_truncation, reason = "chunks are below 2^32 entries")]
            let narrow = (from - indptr[0]) as u32;
            *to = narrow;
        }
        let longest = ptr.windows(2).map(|row| row[1] - row[0]).max().unwrap_or(0) as usize;
        self.narrow = queries.rows.cols() <= usize::from(u16::MAX) + 1;
        let width = if self.narrow { 2 } else { 4 };
        let (_, indices, data) = queries.rows.into_raw_storage();
        let (indices, data) = (&indices[start..start + nonzeros], &data[start..start + nonzeros]);
        // One pass over the weights copies and checks them.
        let looked = self
            .host_vals
            .get(nonzeros)?
            .par_chunks_mut(PIECE)
            .zip(data.par_chunks(PIECE))
            .map(|(to, from)| {
                to.copy_from_slice(from);
                from.iter().fold((true, false), |(finite, negative), weight| {
                    (finite && weight.is_finite(), negative || *weight < 0.0)
                })
            })
            .reduce(|| (true, false), |a, b| (a.0 & b.0, a.1 | b.1));
        let (finite, any_negative) = looked;
        if !finite {
            return Err(SearchError::NotFinite { what: "query" }.into());
        }
        let cols = self.host_cols.get(nonzeros * width)?;
        cols.par_chunks_mut(PIECE * width).zip(indices.par_chunks(PIECE)).for_each(|(to, from)| {
            if width == 2 {
                for (to, &from) in to.as_chunks_mut::<2>().0.iter_mut().zip(from) {
                    #[expect(clippy::cast_possible_truncation, reason = "columns fit 16 bits")]
                    let narrow = from as u16;
                    *to = narrow.to_ne_bytes();
                }
            } else {
                to.copy_from_slice(bytemuck::cast_slice(from));
            }
        });
        let is_negative =
            |&query: &usize| row(&queries.rows, range.start + query).1.iter().any(|&w| w < 0.0);
        let negative =
            if any_negative { (0..count).filter(is_negative).collect() } else { Vec::new() };
        self.pack_filter(&queries.allow.slice(range))?;
        self.entries = nonzeros;
        self.copy(count, nonzeros, width)?;
        Ok(Sent { count, longest, negative })
    }

    fn copy(&mut self, count: usize, nonzeros: usize, width: usize) -> Result<(), GpuError> {
        let (device, stream) = (&self.device, &self.stream);
        let failed = device.doing("copying queries to it").failed();
        let to = self.ptr.get(device, stream, count + 1)?;
        stream.memcpy_htod(&*self.host_ptr.get(count + 1)?, to).map_err(&failed)?;
        let to = self.cols.get(device, stream, nonzeros * width)?;
        let to_vals = self.vals.get(device, stream, nonzeros)?;
        if nonzeros > 0 {
            stream.memcpy_htod(&*self.host_cols.get(nonzeros * width)?, to).map_err(&failed)?;
            stream.memcpy_htod(&*self.host_vals.get(nonzeros)?, to_vals).map_err(&failed)?;
        }
        let filter = self.filter_parts.words;
        if filter > 0 {
            let to = self.filter.get(device, stream, filter)?;
            stream.memcpy_htod(&*self.host_filter.get(filter)?, to).map_err(&failed)?;
        }
        Ok(())
    }

    /// The queries sent last.
    pub(super) fn queries(&self) -> QueryRows {
        let (ptr, cols, vals) = (self.ptr.made(), self.cols.made(), self.vals.made());
        QueryRows::new(&self.stream, ptr, cols, vals, self.narrow)
    }

    /// Which rows may be their neighbors.
    pub(super) fn allow(&self) -> AllowRows {
        let FilterParts { words, only, ranges, bounds, lists, of_rows, of_queries } =
            self.filter_parts;
        if words == 0 {
            return AllowRows::all();
        }
        let filter = self.filter.made();
        let at = |word: Option<usize>| AllowRows::pointer(&self.stream, filter, word);
        AllowRows {
            only: at(only),
            ranges: at(ranges),
            bounds: at(bounds),
            lists: at(lists),
            of_rows: at(of_rows),
            of_queries: at(of_queries),
        }
    }

    /// Packs the filter of the queries into one buffer, which is copied as a whole.
    fn pack_filter(&mut self, allow: &Allow<'_>) -> Result<(), GpuError> {
        let Parts { only, ranges, lists, groups } = allow.parts();
        let mut packed: Vec<u32> = Vec::new();
        let mut put = |words: &[u32]| {
            // Pairs and 64-bit numbers are read from here, so they start at multiples of eight
            // bytes.
            packed.resize(packed.len().next_multiple_of(2), 0);
            packed.extend_from_slice(words);
            packed.len() - words.len()
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
        parts.words = packed.len();
        self.host_filter.get(packed.len())?.copy_from_slice(&packed);
        self.filter_parts = parts;
        Ok(())
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
