//! Training rows on the GPU: a CSR matrix, textures over the matrix, and the tiles of `fused`.

use std::ops::Range;
use std::sync::Arc;

use gpu_runtime::{CudaSlice, CudaStream, Device, DeviceRepr, GpuError, Texture};
use rayon::prelude::*;

use super::kernels::{TileRows, address};
use super::tile::{TaskCounts, TileIndex};
use crate::rows::matrix::{CsrView, row};
use crate::search::neighbor::row_number;
use crate::threads::Threads;

/// Maximum size in bytes of the posting lists that are built together. They stay in host memory
/// until they have been copied to the GPU.
const MAX_HOST_BYTES: usize = 1 << 30;
/// Number of bits of a query's term table in `rescore` and `fused_small`.
const TABLE_BITS: usize = 65_536;
/// Column number that marks padding between rows.
const NO_COLUMN: u32 = u32::MAX;

/// The structures that a segment has in addition to its CSR rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct SegmentStructures {
    /// Maximum texture width in texels; `None` for no textures.
    pub(super) texture_width: Option<usize>,
    /// Maximum number of rows per tile; `None` for no tiles.
    pub(super) tile_rows: Option<usize>,
}

/// Training rows in CSR form on the GPU.
#[derive(Debug)]
pub(super) struct CsrRows {
    pub(super) count: u32,
    /// The position of the first entry of each row, a multiple of four.
    pub(super) row_ptr: CudaSlice<u64>,
    pub(super) row_end: CudaSlice<u64>,
    pub(super) cols: CudaSlice<u32>,
    /// The same columns in 16 bits for the fused engine, if the vocabulary is small enough.
    pub(super) narrow_cols: Option<CudaSlice<u16>>,
    pub(super) vals: CudaSlice<f32>,
}

/// Textures over the columns and values of the same rows of a segment.
#[derive(Debug)]
pub(super) struct TextureRows {
    pub(super) cols: Texture,
    pub(super) vals: Texture,
    /// The position of the entry in the first texel.
    pub(super) origin: u64,
    pub(super) first_row: u32,
    pub(super) end_row: u32,
}

/// The posting lists of a tile on the GPU.
#[derive(Debug)]
struct PostingLists {
    lists: CudaSlice<[u32; 4]>,
    postings: CudaSlice<u32>,
}

/// Consecutive training rows stored on the GPU.
#[derive(Debug)]
pub(super) struct GpuSegment {
    /// The number of the segment's first training row.
    pub(super) first_row: u32,
    // Declared before `rows`, so that textures are dropped before the buffers that they refer to.
    pub(super) textures: Vec<TextureRows>,
    pub(super) rows: CsrRows,
    pub(super) tiles: Vec<Tile>,
}

/// A tile on the GPU.
#[derive(Debug)]
pub(super) struct Tile {
    pub(super) rows: TileRows,
    pub(super) tasks: TaskCounts,
    /// Keeps alive the posting lists that `rows` points to.
    _lists: PostingLists,
}

/// Returns the number of bytes that training rows take on the GPU.
pub(super) fn byte_size(
    training: &CsrView<'_>,
    rows: &Range<usize>,
    structures: SegmentStructures,
) -> usize {
    let nonzeros = nonzeros(training, rows);
    let csr = rows.len() * 16 + (nonzeros + (ROW_ALIGNMENT - 1) * rows.len()) * 8;
    let tiles = structures.tile_rows.map_or(0, |max_rows| rows.len().div_ceil(max_rows.max(1)));
    // Each half of a list is padded to a multiple of four postings.
    let padded = nonzeros + 6 * nonzeros.min(tiles * training.cols());
    let narrow =
        if is_narrow(training) { (nonzeros + (ROW_ALIGNMENT - 1) * rows.len()) * 2 } else { 0 };
    csr + if tiles > 0 { narrow + padded * 4 + tiles * (training.cols() + 1) * 16 } else { 0 }
}

/// Whether columns fit in 16 bits.
fn is_narrow(training: &CsrView<'_>) -> bool {
    training.cols() <= usize::from(u16::MAX) + 1
}

pub(super) fn nonzeros(training: &CsrView<'_>, rows: &Range<usize>) -> usize {
    training.entries(rows.clone()).len()
}

impl GpuSegment {
    /// Loads rows onto the GPU.
    pub(super) fn load(
        device: &Device,
        training: &CsrView<'_>,
        range: Range<usize>,
        structures: SegmentStructures,
        threads: &Threads,
    ) -> Result<Self, GpuError> {
        let stream = device.stream()?;
        let first_row = row_number(range.start);
        // `next_power_of_two` cannot overflow, because columns are 32-bit numbers.
        let columns_per_bit = training.cols().div_ceil(TABLE_BITS).next_power_of_two();
        let entries = |tile_range: &Range<usize>| {
            nonzeros(training, &(range.start + tile_range.start..range.start + tile_range.end))
        };
        let tile_ranges =
            structures.tile_rows.map(|max_rows| tile_ranges(range.len(), max_rows, &entries));
        let tile_ranges = tile_ranges.unwrap_or_default();
        let tile_bytes = byte_size(training, &range, structures) / tile_ranges.len().max(1);
        let tiles_per_chunk = threads.count().min(MAX_HOST_BYTES / tile_bytes.max(1)).max(1);
        let index = |chunk: &[Range<usize>]| -> Vec<TileIndex> {
            let index = |tile_range: &Range<usize>| {
                TileIndex::new(
                    training,
                    range.start + tile_range.start..range.start + tile_range.end,
                )
            };
            chunk.par_iter().map(index).collect()
        };
        // Build the first tile indexes while the rows are copied.
        let mut indexes = Vec::new();
        let copied = threads.scope(|scope| {
            scope.spawn(|_| {
                indexes = tile_ranges.chunks(tiles_per_chunk).next().map(index).unwrap_or_default();
            });
            csr(device, &stream, training, &range, structures.tile_rows.is_some())
        });
        let (rows, row_ptr) = copied?;
        let textures = match structures.texture_width {
            Some(width) => textures(device, &rows, &row_ptr, width)?,
            None => Vec::new(),
        };
        let mut tiles = Vec::new();
        for (number, chunk) in tile_ranges.chunks(tiles_per_chunk).enumerate() {
            if number > 0 {
                indexes = threads.run(|| index(chunk));
            }
            for (tile_range, index) in chunk.iter().zip(&indexes) {
                let lists = PostingLists {
                    lists: upload(device, &stream, &index.lists)?,
                    postings: upload(device, &stream, &index.postings)?,
                };
                let tile = TileRows {
                    lists: address(&stream, &lists.lists),
                    postings: address(&stream, &lists.postings),
                    row_ptr: address(&stream, &rows.row_ptr) + 8 * tile_range.start as u64,
                    row_end: address(&stream, &rows.row_end) + 8 * tile_range.start as u64,
                    cols: address(&stream, &rows.cols),
                    narrow_cols: rows.narrow_cols.as_ref().map_or(0, |c| address(&stream, c)),
                    vals: address(&stream, &rows.vals),
                    longest: index.longest,
                    rows: row_number(tile_range.len()),
                    first_row: first_row + row_number(tile_range.start),
                    shift: columns_per_bit.trailing_zeros(),
                };
                tiles.push(Tile { rows: tile, tasks: index.tasks, _lists: lists });
            }
            stream.synchronize().map_err(device.step("copying lists to it").failed())?;
        }
        stream.synchronize().map_err(device.step("copying rows to it").failed())?;
        Ok(Self { first_row, textures, rows, tiles })
    }
}

/// Divides `count` rows into tiles of about equal size. Each tile has at most `max_rows` rows, if
/// possible a multiple of eight. Tiles with too many entries for 32-bit offsets are halved.
fn tile_ranges(
    count: usize,
    max_rows: usize,
    entries: &dyn Fn(&Range<usize>) -> usize,
) -> Vec<Range<usize>> {
    let tiles = count.div_ceil(max_rows.max(1)).max(1);
    let size = count.div_ceil(tiles).next_multiple_of(8).min(max_rows.max(1)).max(1);
    let mut pending: Vec<Range<usize>> =
        (0..count).step_by(size).map(|start| start..(start + size).min(count)).rev().collect();
    let mut tile_ranges = Vec::new();
    while let Some(tile_range) = pending.pop() {
        if tile_range.len() > 1 && entries(&tile_range) > MAX_TILE_ENTRIES {
            let middle = tile_range.start + tile_range.len() / 2;
            pending.extend([middle..tile_range.end, tile_range.start..middle]);
        } else {
            tile_ranges.push(tile_range);
        }
    }
    tile_ranges
}

/// Maximum number of entries of a tile with several rows.
const MAX_TILE_ENTRIES: usize = 1 << 30;

fn csr(
    device: &Device,
    stream: &Arc<CudaStream>,
    training: &CsrView<'_>,
    range: &Range<usize>,
    has_tiles: bool,
) -> Result<(CsrRows, Vec<u64>), GpuError> {
    let mut row_ptr = Vec::new();
    let mut row_end = Vec::new();
    let entries = nonzeros(training, range) + 3 * range.len();
    let mut cols = Vec::with_capacity(entries);
    let mut vals = Vec::with_capacity(entries);
    for index in range.clone() {
        let (columns, weights) = row(training, index);
        row_ptr.push(cols.len() as u64);
        cols.extend_from_slice(columns);
        vals.extend_from_slice(weights);
        row_end.push(cols.len() as u64);
        cols.resize(cols.len().next_multiple_of(ROW_ALIGNMENT), NO_COLUMN);
        vals.resize(cols.len(), 0.0);
    }
    let narrow_cols = if has_tiles && is_narrow(training) {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "columns fit in 16 bits or are `NO_COLUMN`"
        )]
        let narrow: Vec<u16> = cols.iter().map(|&col| col as u16).collect();
        Some(upload(device, stream, &narrow)?)
    } else {
        None
    };
    let rows = CsrRows {
        narrow_cols,
        count: row_number(range.len()),
        row_ptr: upload(device, stream, &row_ptr)?,
        row_end: upload(device, stream, &row_end)?,
        cols: upload(device, stream, &cols)?,
        vals: upload(device, stream, &vals)?,
    };
    row_ptr.push(cols.len() as u64);
    Ok((rows, row_ptr))
}

/// Alignment of rows, in entries: the kernels read four entries at a time.
const ROW_ALIGNMENT: usize = 4;

/// Uploads values into a buffer. The buffer is never empty, because the driver rejects empty
/// buffers.
pub(super) fn upload<T: DeviceRepr + Default + Copy>(
    device: &Device,
    stream: &Arc<CudaStream>,
    values: &[T],
) -> Result<CudaSlice<T>, GpuError> {
    let failed = device.step("copying training rows to it").failed();
    if values.is_empty() {
        return stream.clone_htod(&[T::default()]).map_err(failed);
    }
    stream.clone_htod(values).map_err(failed)
}

/// Creates textures of at most `width` texels over whole rows. Returns no textures if a row is
/// longer.
fn textures(
    device: &Device,
    rows: &CsrRows,
    row_ptr: &[u64],
    width: usize,
) -> Result<Vec<TextureRows>, GpuError> {
    // The address of a texture must be a multiple of 512 bytes, or 128 entries.
    const TEXTURE_ALIGNMENT: u64 = 128;
    let mut textures = Vec::new();
    let mut first_row = 0;
    while first_row + 1 < row_ptr.len() {
        let origin = row_ptr[first_row] / TEXTURE_ALIGNMENT * TEXTURE_ALIGNMENT;
        let fits = |&end: &u64| end - origin <= width as u64;
        let end_row = first_row + row_ptr[first_row + 1..].partition_point(fits);
        if end_row == first_row {
            return Ok(Vec::new());
        }
        let length = row_ptr[end_row] - origin;
        let length =
            usize::try_from(length).expect("offsets of rows in memory fit in usize").max(1);
        let start = usize::try_from(origin).expect("offsets of rows in memory fit in usize");
        textures.push(TextureRows {
            cols: Texture::new(device, &rows.cols, start, length)?,
            vals: Texture::new(device, &rows.vals, start, length)?,
            origin,
            first_row: row_number(first_row),
            end_row: row_number(end_row),
        });
        first_row = end_row;
    }
    Ok(textures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_have_similar_sizes_and_contain_every_row_once() {
        for (count, max_rows) in
            [(0, 8), (1, 8), (17, 8), (23_149, 24_000), (23_149, 8_000), (9, 3)]
        {
            let tile_ranges = tile_ranges(count, max_rows, &|_| 0);
            assert!(tile_ranges.iter().all(|range| !range.is_empty() && range.len() <= max_rows));
            let rows: Vec<usize> = tile_ranges.into_iter().flatten().collect();
            assert_eq!(rows, (0..count).collect::<Vec<_>>());
        }
        // Rows 4 to 7 have too many entries to share a tile.
        let entries = |range: &Range<usize>| {
            if range.start < 8 && range.end > 4 { range.len() << 29 } else { 0 }
        };
        let tile_ranges = tile_ranges(16, 8, &entries);
        assert_eq!(tile_ranges, [0..4, 4..6, 6..8, 8..16].map(|range: Range<usize>| range));
    }
}
