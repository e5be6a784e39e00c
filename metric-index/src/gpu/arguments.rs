//! The arguments of the kernels for vectors.

use gpu_runtime::{CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DeviceRepr, kernel};

/// A candidate for a query (`Candidate` in kernels/candidates.cuh).
pub(super) type Candidate = u64;

/// The state of a query in the kernels (`Query` in kernels/candidates.cuh).
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct QueryState {
    threshold: f32,
    slack: f32,
    slope: f32,
    pub(super) status: u32,
}

#[expect(unsafe_code, reason = "copied from the GPU")]
// SAFETY: the fields match the fields of `Query` in order and size: three f32 and a u32.
unsafe impl DeviceRepr for QueryState {}

#[expect(unsafe_code, reason = "allocated as zeros")]
// SAFETY: the struct has four numbers, for which zero bits are valid.
unsafe impl gpu_runtime::ValidAsZeroBits for QueryState {}

/// Pointers to the vectors on the GPU (`Points` in kernels/select.cu).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct PointRows {
    values: u64,
    lengths: u64,
    count: u32,
    pub(super) dimension: u32,
    pub(super) metric: u32,
    step: u32,
}

#[expect(unsafe_code, reason = "passed to kernels")]
// SAFETY: the fields match the fields of `Points` in order and size: two pointers and four u32.
unsafe impl DeviceRepr for PointRows {}

impl PointRows {
    pub(super) fn new(stream: &CudaStream, points: &Vectors, metric: u32, step: u32) -> Self {
        Self {
            values: points.values.device_ptr(stream).0,
            lengths: points.lengths.as_ref().map_or(0, |lengths| lengths.device_ptr(stream).0),
            count: points.count,
            dimension: points.dimension,
            metric,
            step,
        }
    }
}

/// The unmodified vectors on the GPU.
#[derive(Debug)]
pub(super) struct Vectors {
    pub(super) values: CudaSlice<f32>,
    /// The Euclidean lengths, present only for angles.
    pub(super) lengths: Option<CudaSlice<f64>>,
    pub(super) count: u32,
    pub(super) dimension: u32,
}

kernel! {
    /// Raises `greatest` to the maximum distance from a coordinate to the center.
    pub(super) struct Spread<'a>: "spread" {
        read values: CudaView<'a, f32>,
        value count: u32,
        value dimension: u32,
        read center: CudaView<'a, f32>,
        value is_angular: u32,
        write greatest: CudaViewMut<'a, f32>,
    }
}

kernel! {
    /// Fills the copy of the points that the filter reads.
    pub(super) struct PreparePoints<'a>: "prepare_points" {
        read values: CudaView<'a, f32>,
        value count: u32,
        value dimension: u32,
        value step: u32,
        read center: CudaView<'a, f32>,
        value scale: f64,
        value is_angular: u32,
        write positions: CudaViewMut<'a, u16>,
        write squares: CudaViewMut<'a, f32>,
        value steps: u32,
        write greatest: CudaViewMut<'a, f32>,
    }
}

kernel! {
    /// Copies the points in the order of their positions.
    pub(super) struct PlacePoints<'a>: "place_points" {
        read values: CudaView<'a, f32>,
        value count: u32,
        value dimension: u32,
        value step: u32,
        write positions: CudaViewMut<'a, f32>,
    }
}

kernel! {
    /// Computes the Euclidean lengths of vectors.
    pub(super) struct MeasureLengths<'a>: "measure_lengths" {
        read values: CudaView<'a, f32>,
        value count: u32,
        value dimension: u32,
        write lengths: CudaViewMut<'a, f64>,
    }
}

kernel! {
    /// Prepares the queries of a batch for `filter`.
    pub(super) struct PrepareQueries<'a>: "prepare_queries" {
        read values: CudaView<'a, f32>,
        value count: u32,
        value dimension: u32,
        read center: CudaView<'a, f32>,
        value scale: f64,
        value is_angular: u32,
        read greatest: CudaView<'a, f32>,
        value radius: f32,
        write halves: CudaViewMut<'a, u16>,
        value steps: u32,
        write states: CudaViewMut<'a, QueryState>,
        write counts: CudaViewMut<'a, u32>,
    }
}

kernel! {
    /// Prepares the queries of a batch for `scan`.
    pub(super) struct PrepareScan<'a>: "prepare_scan" {
        read values: CudaView<'a, f32>,
        value count: u32,
        value dimension: u32,
        value radius: f32,
        write states: CudaViewMut<'a, QueryState>,
        write counts: CudaViewMut<'a, u32>,
    }
}

kernel! {
    /// Finds the candidates in a range of positions with tensor cores.
    pub(super) struct FilterPart<'a>:
        "filter_8" | "filter_16" | "filter_32" | "filter_64" | "filter_128" | "filter_128_long"
    {
        read positions: CudaView<'a, u16>,
        read squares: CudaView<'a, f32>,
        value first: u32,
        value end: u32,
        read halves: CudaView<'a, u16>,
        read states: CudaView<'a, QueryState>,
        write counts: CudaViewMut<'a, u32>,
        value count: u32,
        write candidates: CudaViewMut<'a, Candidate>,
        value capacity: u32,
        value steps: u32,
        value all: u32,
        value resident: u32,
    }
}

kernel! {
    /// Finds the candidates in a range of positions by their exact distances.
    pub(super) struct ScanPart<'a>:
        "manhattan_4" | "manhattan_64" | "chebyshev_4" | "chebyshev_64"
    {
        read positions: CudaView<'a, f32>,
        value first: u32,
        value end: u32,
        read values: CudaView<'a, f32>,
        read states: CudaView<'a, QueryState>,
        write counts: CudaViewMut<'a, u32>,
        value count: u32,
        write candidates: CudaViewMut<'a, Candidate>,
        value capacity: u32,
        value dimension: u32,
        value all: u32,
    }
}

kernel! {
    /// Reduces the candidates of each query and lowers its threshold.
    pub(super) struct Select<'a>: "select" {
        write states: CudaViewMut<'a, QueryState>,
        write counts: CudaViewMut<'a, u32>,
        write candidates: CudaViewMut<'a, Candidate>,
        value capacity: u32,
        value k: u32,
        value fixed_count: u32,
    }
}

kernel! {
    /// Replaces all candidates with their exact distances.
    pub(super) struct MeasureAll<'a>: "measure_all" {
        value points: PointRows,
        read values: CudaView<'a, f32>,
        read lengths: CudaView<'a, f64>,
        write states: CudaViewMut<'a, QueryState>,
        read counts: CudaView<'a, u32>,
        write candidates: CudaViewMut<'a, Candidate>,
        value capacity: u32,
    }
}

kernel! {
    /// Sorts the k nearest candidates of each query.
    pub(super) struct Order<'a>: "order" {
        read states: CudaView<'a, QueryState>,
        read counts: CudaView<'a, u32>,
        read candidates: CudaView<'a, Candidate>,
        value capacity: u32,
        value k: u32,
        write neighbors: CudaViewMut<'a, u64>,
    }
}

kernel! {
    /// Copies the neighbors of all queries into one array.
    pub(super) struct Gather<'a>: "gather" {
        value address: u64,
        value capacity: u32,
        read ends: CudaView<'a, u32>,
        value max_sorted: u32,
        write to: CudaViewMut<'a, u64>,
    }
}

#[cfg(test)]
mod tests {
    use gpu_runtime::{KernelArguments, check_kernels, ptx, unpack};

    use super::*;

    #[test]
    fn declarations_agree_with_the_ptx() {
        let modules = [
            ptx!("prepare").as_slice(),
            ptx!("filter").as_slice(),
            ptx!("scan").as_slice(),
            ptx!("select").as_slice(),
            ptx!("gather").as_slice(),
        ];
        let modules = modules.map(|packed| unpack(packed).unwrap());
        let declared = [
            Spread::SIGNATURE,
            PreparePoints::SIGNATURE,
            PlacePoints::SIGNATURE,
            MeasureLengths::SIGNATURE,
            PrepareQueries::SIGNATURE,
            PrepareScan::SIGNATURE,
            FilterPart::SIGNATURE,
            ScanPart::SIGNATURE,
            Select::SIGNATURE,
            MeasureAll::SIGNATURE,
            Order::SIGNATURE,
            Gather::SIGNATURE,
        ];
        assert_eq!(check_kernels(&modules.each_ref().map(String::as_str), &declared), Ok(()));
    }
}
