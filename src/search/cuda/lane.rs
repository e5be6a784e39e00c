//! A lane: a GPU stream with host and device buffers for one batch of queries in flight.

use std::ops::Range;

use gpu_runtime::{Device, DeviceBuffer, GpuError, Pinned};
use rayon::prelude::*;

use super::failure::DeviceFailure;
use super::kernels::{AllowRows, QueryRows, address};
use crate::rows::matrix::row;
use crate::search::allow::Groups;
use crate::search::request::Queries;
use crate::search::{Allow, SearchError};
use crate::threads::Threads;

/// A batch of queries that was copied to the GPU.
#[derive(Debug)]
pub(super) struct UploadedQueries {
    pub(super) count: usize,
    /// Terms of the longest query.
    pub(super) longest: usize,
    /// The queries with a negative weight, in increasing order.
    pub(super) negative: Vec<usize>,
}

/// The offsets of the sections of the uploaded queries in the lane's buffers, in words of four
/// bytes.
///
/// The row bounds come first and the filter last.
#[derive(Debug, Clone, Copy, Default)]
struct Layout {
    vals: usize,
    cols: usize,
    /// Whether columns have 16 bits.
    is_narrow: bool,
    filter: FilterLayout,
}

/// The offsets of the sections of a filter, in words of four bytes.
#[derive(Debug, Clone, Copy, Default)]
struct FilterLayout {
    only: Option<usize>,
    ranges: Option<usize>,
    bounds: Option<usize>,
    lists: Option<usize>,
    row_groups: Option<usize>,
    query_groups: Option<usize>,
}

/// One batch in flight: pinned host buffers, device buffers, and the stream between them.
#[derive(Debug)]
pub(super) struct Lane {
    /// The stream. It is the first field, so that dropping a lane waits for the GPU before the
    /// pinned memory is freed.
    pub(super) gpu: gpu_runtime::Lane,
    /// The queries and their filter, which are copied together.
    host: Pinned<u32>,
    uploaded: DeviceBuffer<u32>,
    layout: Layout,
    pub(super) found: DeviceBuffer<u64>,
    pub(super) counts: DeviceBuffer<u32>,
    pub(super) status: DeviceBuffer<u32>,
    pub(super) scores: DeviceBuffer<f32>,
    pub(super) dense: DeviceBuffer<f32>,
    pub(super) list: DeviceBuffer<u32>,
    pub(super) records: DeviceBuffer<[u32; 4]>,
    pub(super) tasks: DeviceBuffer<[u32; 2]>,
    pub(super) next_task: DeviceBuffer<u32>,
    pub(super) candidates: DeviceBuffer<u32>,
    pub(super) candidate_counts: DeviceBuffer<u32>,
    /// Number of entries of the queries that were sent last.
    pub(super) entries: usize,
    pub(super) host_found: Pinned<u64>,
    pub(super) host_counts: Pinned<u32>,
    pub(super) host_status: Pinned<u32>,
}

impl Lane {
    pub(super) fn new(device: &Device) -> Result<Self, GpuError> {
        Ok(Self {
            gpu: gpu_runtime::Lane::new(device)?,
            host: Pinned::new(device),
            uploaded: DeviceBuffer::default(),
            layout: Layout::default(),
            found: DeviceBuffer::default(),
            counts: DeviceBuffer::default(),
            status: DeviceBuffer::default(),
            scores: DeviceBuffer::default(),
            dense: DeviceBuffer::default(),
            list: DeviceBuffer::default(),
            records: DeviceBuffer::default(),
            tasks: DeviceBuffer::default(),
            next_task: DeviceBuffer::default(),
            candidates: DeviceBuffer::default(),
            candidate_counts: DeviceBuffer::default(),
            entries: 0,
            host_found: Pinned::new(device),
            host_counts: Pinned::new(device),
            host_status: Pinned::new(device),
        })
    }

    /// Waits until all work enqueued on the stream is done.
    pub(super) fn wait(&self) -> Result<(), GpuError> {
        self.gpu.wait("searching")
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
    ) -> Result<UploadedQueries, DeviceFailure> {
        let count = range.len();
        let indptr = queries.rows.indptr();
        // A slice of a matrix keeps the row pointers of the full matrix.
        let base = indptr[0];
        let indptr = &indptr[range.start..=range.end];
        let start = usize::try_from(indptr[0] - base).expect("in memory");
        let nonzeros = usize::try_from(indptr[count] - indptr[0]).expect("in memory");
        let indices = &queries.rows.indices()[start..start + nonzeros];
        let data = &queries.rows.data()[start..start + nonzeros];

        let is_narrow = queries.rows.cols() <= usize::from(u16::MAX) + 1;
        let cols_words = if is_narrow { nonzeros.div_ceil(2) } else { nonzeros };
        let vals = (count + 1).next_multiple_of(SECTION_ALIGNMENT);
        let cols = (vals + nonzeros).next_multiple_of(SECTION_ALIGNMENT);
        let filter_start = (cols + cols_words).next_multiple_of(SECTION_ALIGNMENT);
        let (filter, layout) = pack_filter(&queries.allow.slice(range.clone()), filter_start);
        self.layout = Layout { vals, cols, is_narrow, filter: layout };
        let words = filter_start + filter.len();

        let host = self.host.get(words)?;
        let (host_ptr, host) = host.split_at_mut(vals);
        let (host_vals, host) = host.split_at_mut(cols - vals);
        let (host_cols, host_filter) = host.split_at_mut(filter_start - cols);
        for (target, &source) in host_ptr.iter_mut().zip(indptr) {
            #[expect(clippy::cast_possible_truncation, reason = "chunks are below 2^32 entries")]
            let offset = (source - indptr[0]) as u32;
            *target = offset;
        }
        let longest = host_ptr[..=count].windows(2).map(|row| row[1] - row[0]).max().unwrap_or(0);
        host_filter.copy_from_slice(&filter);
        let host_vals: &mut [f32] = bytemuck::cast_slice_mut(host_vals);
        // For a small copy, waking other threads takes longer than the copy.
        let flags = if nonzeros <= 2 * ENTRIES_PER_TASK {
            let entries = Entries {
                weights: data,
                columns: indices,
                pinned_weights: host_vals,
                pinned_columns: host_cols,
            };
            entries.copy(is_narrow)
        } else {
            let words = if is_narrow { ENTRIES_PER_TASK / 2 } else { ENTRIES_PER_TASK };
            let vals =
                host_vals.par_chunks_mut(ENTRIES_PER_TASK).zip(data.par_chunks(ENTRIES_PER_TASK));
            let cols = host_cols.par_chunks_mut(words).zip(indices.par_chunks(ENTRIES_PER_TASK));
            let chunks = vals.zip(cols).map(|(vals, cols)| {
                let (pinned_weights, weights) = vals;
                let (pinned_columns, columns) = cols;
                Entries { weights, columns, pinned_weights, pinned_columns }.copy(is_narrow)
            });
            threads.run(|| chunks.reduce(WeightFlags::default, WeightFlags::union))
        };
        if flags.has_non_finite {
            return Err(SearchError::NotFinite { what: "query" }.into());
        }
        let is_negative =
            |&query: &usize| row(&queries.rows, range.start + query).1.iter().any(|&w| w < 0.0);
        let negative =
            if flags.has_negative { (0..count).filter(is_negative).collect() } else { Vec::new() };
        self.entries = nonzeros;
        let failed = self.gpu.device().step("copying queries to it").failed();
        let target = self.gpu.reserve(&mut self.uploaded, words)?;
        self.gpu.stream().memcpy_htod(&*self.host.get(words)?, target).map_err(&failed)?;
        Ok(UploadedQueries { count, longest: longest as usize, negative })
    }

    /// The addresses of the queries that were sent last.
    pub(super) fn queries(&self) -> QueryRows {
        let Layout { vals, cols, is_narrow, .. } = self.layout;
        let start = address(self.gpu.stream(), self.uploaded.reserved());
        let address_of = |word: usize| start + 4 * word as u64;
        QueryRows {
            ptr: start,
            cols: address_of(cols),
            vals: address_of(vals),
            narrow: u32::from(is_narrow),
        }
    }

    /// The addresses of the filter of the queries that were sent last.
    pub(super) fn allow(&self) -> AllowRows {
        let FilterLayout { only, ranges, bounds, lists, row_groups, query_groups } =
            self.layout.filter;
        let start = address(self.gpu.stream(), self.uploaded.reserved());
        let address_of = |word: Option<usize>| word.map_or(0, |word| start + 4 * word as u64);
        AllowRows {
            only: address_of(only),
            ranges: address_of(ranges),
            bounds: address_of(bounds),
            lists: address_of(lists),
            row_groups: address_of(row_groups),
            query_groups: address_of(query_groups),
        }
    }

    /// Sends a list of query numbers.
    pub(super) fn send_list(&mut self, queries: &[u32]) -> Result<(), GpuError> {
        let failed = self.gpu.device().step("copying query numbers to it").failed();
        let target = self.gpu.reserve(&mut self.list, queries.len())?;
        // The list is in pageable memory, so the call returns only after the list has been read.
        self.gpu.stream().memcpy_htod(queries, target).map_err(failed)
    }

    /// Enqueues the copy of the results of `count` queries to `output` or to `host_found`. Does not
    /// wait.
    pub(super) fn fetch(
        &mut self,
        count: usize,
        k: usize,
        with_status: bool,
        output: Option<&mut [u64]>,
    ) -> Result<(), GpuError> {
        let failed = self.gpu.device().step("copying neighbors from it").failed();
        if count == 0 {
            return Ok(());
        }
        let keys = self.found.reserved().slice(..count * k);
        let output = match output {
            Some(output) => output,
            None => self.host_found.get(count * k)?,
        };
        self.gpu.stream().memcpy_dtoh(&keys, output).map_err(&failed)?;
        let counts = self.counts.reserved().slice(..count);
        self.gpu.stream().memcpy_dtoh(&counts, self.host_counts.get(count)?).map_err(&failed)?;
        if with_status {
            let source = self.status.reserved().slice(..count);
            self.gpu
                .stream()
                .memcpy_dtoh(&source, self.host_status.get(count)?)
                .map_err(&failed)?;
        }
        Ok(())
    }
}

/// Alignment of the sections of the queries, in words of four bytes.
const SECTION_ALIGNMENT: usize = 4;

/// Number of entries that a thread copies per task. It must be even, because two 16-bit columns
/// share a word.
const ENTRIES_PER_TASK: usize = 16_384;

/// Properties of weights, determined while they are copied.
#[derive(Debug, Clone, Copy, Default)]
struct WeightFlags {
    has_non_finite: bool,
    has_negative: bool,
}

impl WeightFlags {
    fn union(self, other: Self) -> Self {
        Self {
            has_non_finite: self.has_non_finite | other.has_non_finite,
            has_negative: self.has_negative | other.has_negative,
        }
    }
}

/// Entries to copy into pinned memory.
struct Entries<'a> {
    weights: &'a [f32],
    columns: &'a [u32],
    pinned_weights: &'a mut [f32],
    /// Columns of 16 or 32 bits.
    pinned_columns: &'a mut [u32],
}

impl Entries<'_> {
    /// Copies the entries and determines the properties of their weights.
    fn copy(self, is_narrow: bool) -> WeightFlags {
        let Self { weights, columns, pinned_weights, pinned_columns } = self;
        pinned_weights[..weights.len()].copy_from_slice(weights);
        if is_narrow {
            let target: &mut [u16] = bytemuck::cast_slice_mut(pinned_columns);
            for (target, &source) in target.iter_mut().zip(columns) {
                #[expect(clippy::cast_possible_truncation, reason = "columns fit 16 bits")]
                let column = source as u16;
                *target = column;
            }
        } else {
            pinned_columns[..columns.len()].copy_from_slice(columns);
        }
        let check = |flags: WeightFlags, weight: &f32| {
            flags.union(WeightFlags {
                has_non_finite: !weight.is_finite(),
                has_negative: *weight < 0.0,
            })
        };
        weights.iter().fold(WeightFlags::default(), check)
    }
}

/// Packs a filter into one buffer. The returned offsets are for a larger buffer in which the filter
/// begins at word `start`, a multiple of two.
fn pack_filter(allow: &Allow<'_>, start: usize) -> (Vec<u32>, FilterLayout) {
    let Allow { only, ranges, lists, groups } = *allow;
    let mut packed: Vec<u32> = Vec::new();
    let mut put = |words: &[u32]| {
        // The GPU reads pairs and 64-bit numbers, which must be aligned to eight bytes.
        packed.resize(packed.len().next_multiple_of(2), 0);
        packed.extend_from_slice(words);
        start + packed.len() - words.len()
    };
    let mut layout = FilterLayout {
        only: only.map(|only| put(only.words())),
        ranges: ranges.map(|ranges| put(bytemuck::cast_slice(ranges))),
        ..FilterLayout::default()
    };
    if let Some(lists) = lists {
        let mut bounds = vec![0u64];
        let mut rows = Vec::new();
        for query in 0..lists.len() {
            rows.extend_from_slice(lists.of(query));
            bounds.push(rows.len() as u64);
        }
        layout.bounds = Some(put(bytemuck::cast_slice(&bounds)));
        layout.lists = Some(put(&rows));
    }
    if let Some(Groups { of_rows, of_queries }) = groups {
        layout.row_groups = Some(put(of_rows));
        layout.query_groups = Some(put(of_queries));
    }
    (packed, layout)
}
