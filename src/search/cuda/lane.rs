//! A stream of the GPU with its buffers on both sides: one batch of queries on its way.

use std::ops::Range;
use std::sync::Arc;

use metric_index::gpu::{CudaSlice, CudaStream, Device, DeviceRepr, GpuError, Pinned};
use rayon::prelude::*;

use super::launch::{Excluded, QueryRows};
use crate::matrix::row;
use crate::search::{Queries, SearchError};

/// The number of a row that is no row.
pub(super) const NO_ROW: u32 = u32::MAX;

/// Queries that are on their way to the GPU.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) count: usize,
    /// Terms of the longest.
    pub(super) longest: usize,
    /// Those with a negative weight, rising.
    pub(super) negative: Vec<usize>,
}

/// GPU memory that grows.
#[derive(Debug)]
pub(super) struct Growing<T>(Option<CudaSlice<T>>);

impl<T: DeviceRepr> Growing<T> {
    fn new() -> Self {
        Self(None)
    }

    /// At least `length` values, not initialized.
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

    /// How many values there is memory for.
    pub(super) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, CudaSlice::len)
    }

    pub(super) fn made(&self) -> &CudaSlice<T> {
        self.0.as_ref().expect("`get` came before")
    }
}

/// One batch on its way: pinned buffers here, buffers there, and the stream between them.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) device: Device,
    pub(super) stream: Arc<CudaStream>,
    host_ptr: Pinned<u32>,
    host_cols: Pinned<u8>,
    host_vals: Pinned<f32>,
    host_excluded: Pinned<u32>,
    ptr: Growing<u32>,
    cols: Growing<u8>,
    vals: Growing<f32>,
    excluded: Growing<u32>,
    has_excluded: bool,
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
    /// Entries of the queries that were sent last.
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
            host_excluded: Pinned::new(device),
            ptr: Growing::new(),
            cols: Growing::new(),
            vals: Growing::new(),
            excluded: Growing::new(),
            has_excluded: false,
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

    /// Waits until everything that was put into the stream is done.
    pub(super) fn wait(&self) -> Result<(), GpuError> {
        self.stream.synchronize().map_err(self.device.doing("searching").failed())
    }

    /// Sends the queries of `range` to the GPU. The stream must be idle. Call it on the threads that are
    /// to copy.
    ///
    /// # Errors
    /// If a weight is not finite, or the GPU fails.
    pub(super) fn send(
        &mut self,
        queries: &Queries<'_>,
        range: Range<usize>,
    ) -> Result<Sent, SearchError> {
        const PIECE: usize = 16_384;
        let count = range.len();
        let indptr = queries.rows.indptr();
        // A slice of a matrix keeps the pointers of the whole.
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
        let (_, indices, data) = (*queries.rows).into_raw_storage();
        let (indices, data) = (&indices[start..start + nonzeros], &data[start..start + nonzeros]);
        // One pass over the weights: copied, and looked at.
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
            return Err(SearchError::NotFinite { what: "query" });
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
            |&query: &usize| row(queries.rows, range.start + query).1.iter().any(|&w| w < 0.0);
        let negative =
            if any_negative { (0..count).filter(is_negative).collect() } else { Vec::new() };
        self.has_excluded = !queries.excluded.is_empty();
        if self.has_excluded {
            let rows = queries.excluded[range].iter().map(|row| row.unwrap_or(NO_ROW));
            for (to, row) in self.host_excluded.get(count)?.iter_mut().zip(rows) {
                *to = row;
            }
        }
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
        if self.has_excluded {
            let to = self.excluded.get(device, stream, count)?;
            stream.memcpy_htod(&*self.host_excluded.get(count)?, to).map_err(&failed)?;
        }
        Ok(())
    }

    /// The queries that were sent last.
    pub(super) fn queries(&self) -> QueryRows {
        let (ptr, cols, vals) = (self.ptr.made(), self.cols.made(), self.vals.made());
        QueryRows::new(&self.stream, ptr, cols, vals, self.narrow)
    }

    /// Their excluded rows.
    pub(super) fn excluded(&self) -> Excluded {
        Excluded::new(&self.stream, self.has_excluded.then(|| self.excluded.made()))
    }

    /// Sends the numbers of some queries.
    pub(super) fn send_list(&mut self, queries: &[u32]) -> Result<(), GpuError> {
        let failed = self.device.doing("copying query numbers to it").failed();
        let to = self.list.get(&self.device, &self.stream, queries.len())?;
        // From pageable memory: the copy has left it when the call returns.
        self.stream.memcpy_htod(queries, to).map_err(failed)
    }

    /// Brings back what was found for `count` queries, to `places` or to `host_found`: asks the stream for
    /// it, does not wait.
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
    /// Pinned memory must outlive the copies that are on their way.
    fn drop(&mut self) {
        // A GPU that failed copies nothing any more.
        let _ = self.stream.synchronize();
    }
}
