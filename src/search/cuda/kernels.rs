//! Loading and arguments of the kernels in `kernels/`.

use gpu_runtime::{
    CudaSlice, CudaStream, CudaView, CudaViewMut, Device, DevicePtr, DeviceRepr, GpuError, Kernel,
    kernel,
};

/// An upper bound on the static shared memory of `accumulate`, in bytes.
pub(super) const ACCUMULATE_STATIC_BYTES: usize = 5_760;
/// An upper bound on the static shared memory of `fused_small` and `fused_medium`, in bytes.
pub(super) const FUSED_SMALL_STATIC_BYTES: usize = 7_424;

/// Declares the struct of loaded kernels. Each module lists its kernels and the bytes of dynamic
/// shared memory that each may use, given the GPU's shared memory per block.
macro_rules! kernels {
    ($($module:literal { $($kernel:ident: $shared_bytes:expr,)* })*) => {
        /// The loaded kernels. The driver compiles their PTX and caches the result.
        #[derive(Debug)]
        pub(super) struct Kernels {
            $($(pub(super) $kernel: Kernel,)*)*
        }

        impl Kernels {
            pub(super) fn load(device: &Device) -> Result<Self, GpuError> {
                let shared_per_block = device.info().shared_per_block;
                $(
                    let module = device.load_packed(gpu_runtime::ptx!($module))?;
                    $(
                        let shared_bytes: fn(usize) -> usize = $shared_bytes;
                        let bytes = shared_bytes(shared_per_block);
                        let $kernel = module.kernel(stringify!($kernel), bytes)?;
                    )*
                )*
                Ok(Self { $($($kernel,)*)* })
            }
        }

        /// The packed PTX of all modules.
        #[cfg(test)]
        const MODULES: &[&[u8]] = &[$(gpu_runtime::ptx!($module)),*];
    };
}

kernels! {
    "base" { base: |_| 0, base_scatter: |_| 0, }
    "shared" { shared: |limit| limit, }
    "grid" { grid_texture: |limit| limit, grid_ldg: |limit| limit, }
    "select" { select: |_| 0, }
    "fused" {
        prepare: |_| 0,
        accumulate: |limit| limit - ACCUMULATE_STATIC_BYTES,
        accumulate_filtered: |limit| limit - ACCUMULATE_STATIC_BYTES,
        rescore: |_| 0,
        rescore_many: |_| 0,
    }
    "fused_small" {
        fused_small: |limit| limit - FUSED_SMALL_STATIC_BYTES,
        fused_small_filtered: |limit| limit - FUSED_SMALL_STATIC_BYTES,
        fused_medium: |limit| limit - FUSED_SMALL_STATIC_BYTES,
        fused_medium_filtered: |limit| limit - FUSED_SMALL_STATIC_BYTES,
    }
}

/// Returns the address of a buffer on the GPU.
pub(super) fn address<T>(stream: &CudaStream, buffer: &CudaSlice<T>) -> u64 {
    buffer.device_ptr(stream).0
}

/// The query rows of a batch on the GPU (`Queries` of kernels/common.cuh).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct QueryRows {
    /// The address of the row bounds.
    pub(super) ptr: u64,
    pub(super) cols: u64,
    pub(super) vals: u64,
    /// 1 if columns have 16 bits, 0 if they have 32 bits.
    pub(super) narrow: u32,
}

#[expect(unsafe_code, reason = "a kernel's argument")]
// SAFETY: the fields match the fields of `Queries` in order and size: three pointers and a u32.
unsafe impl DeviceRepr for QueryRows {}

/// The rows that may be neighbors of the queries of a batch (`Allow` of kernels/common.cuh), as
/// addresses on the GPU. 0 means no restriction.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct AllowRows {
    /// One bit per row: rows whose bit is set may be neighbors.
    pub(super) only: u64,
    /// A range of excluded rows per query.
    pub(super) ranges: u64,
    /// Bounds of lists of excluded rows: the list of query `q` is
    /// `lists[bounds[q]..bounds[q + 1]]`.
    pub(super) bounds: u64,
    pub(super) lists: u64,
    /// The group of each row. Rows of the query's own group are excluded.
    pub(super) row_groups: u64,
    /// The group of each query.
    pub(super) query_groups: u64,
}

#[expect(unsafe_code, reason = "a kernel's argument")]
// SAFETY: the fields match the fields of `Allow` in order and size: six pointers.
unsafe impl DeviceRepr for AllowRows {}

impl AllowRows {
    pub(super) fn is_unrestricted(&self) -> bool {
        self.only == 0 && self.ranges == 0 && self.bounds == 0 && self.row_groups == 0
    }
}

/// A tile of the fused engine (`Tile` of kernels/fused.cuh).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct TileRows {
    pub(super) lists: u64,
    pub(super) postings: u64,
    pub(super) row_ptr: u64,
    pub(super) row_end: u64,
    pub(super) cols: u64,
    pub(super) narrow_cols: u64,
    pub(super) vals: u64,
    /// An upper bound on the Euclidean length of a row.
    pub(super) longest: f32,
    pub(super) rows: u32,
    pub(super) first_row: u32,
    /// The binary logarithm of the number of columns per bit of a query's term table.
    pub(super) shift: u32,
}

#[expect(unsafe_code, reason = "a kernel's argument")]
// SAFETY: the fields match the fields of `Tile` in order and size: seven pointers, f32, three u32.
unsafe impl DeviceRepr for TileRows {}

/// Declares a kernel and its variant that also takes a filter ([`AllowRows`]).
macro_rules! filterable_kernel {
    (
        $(#[$attribute:meta])*
        pub(super) struct $plain:ident $(<$lifetime:lifetime>)?: $($name:literal)|+;
        pub(super) struct $filtered:ident: $($filtered_name:literal)|+;
        { $($kind:ident $field:ident: $type:ty,)* }
        allow
        { $($later_kind:ident $later:ident: $later_type:ty,)* }
    ) => {
        kernel! {
            $(#[$attribute])*
            pub(super) struct $plain $(<$lifetime>)?: $($name)|+ {
                $($kind $field: $type,)* $($later_kind $later: $later_type,)*
            }
        }

        kernel! {
            /// The arguments of the variant that takes a filter.
            pub(super) struct $filtered $(<$lifetime>)?: $($filtered_name)|+ {
                $($kind $field: $type,)* value allow: AllowRows,
                $($later_kind $later: $later_type,)*
            }
        }

        impl $(<$lifetime>)? $plain $(<$lifetime>)? {
            /// Adds a filter.
            pub(super) fn filtered(self, allow: AllowRows) -> $filtered $(<$lifetime>)? {
                let Self { $($field,)* $($later,)* } = self;
                $filtered { $($field,)* allow, $($later,)* }
            }
        }
    };
}

kernel! {
    /// Writes queries into dense vectors, or clears them.
    pub(super) struct BaseScatter<'a>: "base_scatter" {
        value queries: QueryRows,
        value first: u32,
        value terms: u64,
        value clear: u32,
        write dense: CudaViewMut<'a, f32>,
    }
}

kernel! {
    /// Scores one dense query against all rows.
    pub(super) struct Base<'a>: "base" {
        value rows: u32,
        read row_ptr: CudaView<'a, u64>,
        read row_end: CudaView<'a, u64>,
        read cols: CudaView<'a, u32>,
        read vals: CudaView<'a, f32>,
        read dense: CudaView<'a, f32>,
        write scores: CudaViewMut<'a, f32>,
    }
}

kernel! {
    /// Scores one sparse query against all rows.
    pub(super) struct Shared<'a>: "shared" {
        value rows: u32,
        read row_ptr: CudaView<'a, u64>,
        read row_end: CudaView<'a, u64>,
        read cols: CudaView<'a, u32>,
        read vals: CudaView<'a, f32>,
        value queries: QueryRows,
        value query: u32,
        value terms: u32,
        write scores: CudaViewMut<'a, f32>,
    }
}

kernel! {
    /// Scores several queries against rows that are read through the read-only cache.
    pub(super) struct GridLdg<'a>: "grid_ldg" {
        value rows: u32,
        value first_row: u32,
        value last_row: u32,
        read row_ptr: CudaView<'a, u64>,
        read row_end: CudaView<'a, u64>,
        read cols: CudaView<'a, u32>,
        read vals: CudaView<'a, f32>,
        value queries: QueryRows,
        value first: u32,
        value list: u64,
        value terms: u32,
        write scores: CudaViewMut<'a, f32>,
    }
}

kernel! {
    /// Scores several queries against rows that are read through textures.
    pub(super) struct GridTexture<'a>: "grid_texture" {
        value rows: u32,
        value first_row: u32,
        value last_row: u32,
        read row_ptr: CudaView<'a, u64>,
        read row_end: CudaView<'a, u64>,
        value cols: u64,
        value vals: u64,
        value origin: u64,
        value queries: QueryRows,
        value first: u32,
        value list: u64,
        value terms: u32,
        write scores: CudaViewMut<'a, f32>,
    }
}

kernel! {
    /// Selects the k best rows of each query by their scores.
    pub(super) struct Select<'a>: "select" {
        value rows: u32,
        value first_row: u32,
        write scores: CudaViewMut<'a, f32>,
        value first: u32,
        value list: u64,
        value allow: AllowRows,
        value k: u32,
        value sorted: u32,
        write keys: CudaViewMut<'a, u64>,
        write counts: CudaViewMut<'a, u32>,
    }
}

kernel! {
    /// Splits the posting lists of the queries' terms into tasks.
    pub(super) struct Prepare<'a>: "prepare" {
        value tile: TileRows,
        value queries: QueryRows,
        value first: u32,
        value count: u32,
        value fresh: u32,
        write records: CudaViewMut<'a, [u32; 4]>,
        write tasks: CudaViewMut<'a, [u32; 2]>,
        write next_task: CudaViewMut<'a, u32>,
        value task_capacity: u32,
        write status: CudaViewMut<'a, u32>,
    }
}

filterable_kernel! {
    /// Adds the postings of each query and keeps the candidates.
    pub(super) struct Accumulate<'a>: "accumulate";
    pub(super) struct AccumulateFiltered: "accumulate_filtered";
    {
        value tile: TileRows,
        value first: u32,
        value count: u32,
    }
    allow
    {
        value k: u32,
        value rank: u32,
        value capacity: u32,
        value fresh: u32,
        read records: CudaView<'a, [u32; 4]>,
        read tasks: CudaView<'a, [u32; 2]>,
        read keys: CudaView<'a, u64>,
        read counts: CudaView<'a, u32>,
        write candidates: CudaViewMut<'a, u32>,
        write candidate_counts: CudaViewMut<'a, u32>,
    }
}

kernel! {
    /// Computes the similarities of the candidates and keeps the k best.
    pub(super) struct Rescore<'a>: "rescore" | "rescore_many" {
        value tile: TileRows,
        value queries: QueryRows,
        value first: u32,
        value k: u32,
        value capacity: u32,
        value fresh: u32,
        value last: u32,
        read candidates: CudaView<'a, u32>,
        read candidate_counts: CudaView<'a, u32>,
        write keys: CudaViewMut<'a, u64>,
        write counts: CudaViewMut<'a, u32>,
        write status: CudaViewMut<'a, u32>,
    }
}

filterable_kernel! {
    /// Does the work of `Prepare`, `Accumulate` and `Rescore` in one kernel.
    pub(super) struct FusedSmall: "fused_small" | "fused_medium";
    pub(super) struct FusedSmallFiltered: "fused_small_filtered" | "fused_medium_filtered";
    {
        value tile: TileRows,
        value queries: QueryRows,
    }
    allow
    {
        value k: u32,
        value rank: u32,
        value capacity: u32,
        value fresh: u32,
        value last: u32,
        value keys: u64,
        value counts: u64,
        value status: u64,
    }
}

#[cfg(test)]
mod tests {
    use gpu_runtime::{KernelArguments, check_kernels, ptx, unpack};

    use super::*;

    /// Checks that the included PTX equals the files that `kernels/compile` wrote.
    #[test]
    fn packed_ptx_equals_the_compiled_files() {
        let text = unpack(ptx!("fused")).unwrap();
        assert_eq!(text, include_str!("../../../kernels/ptx/fused.ptx"));
    }

    #[test]
    fn declarations_agree_with_the_ptx() {
        let modules: Vec<String> = MODULES.iter().map(|packed| unpack(packed).unwrap()).collect();
        let modules: Vec<&str> = modules.iter().map(String::as_str).collect();
        let declared = [
            BaseScatter::SIGNATURE,
            Base::SIGNATURE,
            Shared::SIGNATURE,
            GridLdg::SIGNATURE,
            GridTexture::SIGNATURE,
            Select::SIGNATURE,
            Prepare::SIGNATURE,
            Accumulate::SIGNATURE,
            AccumulateFiltered::SIGNATURE,
            Rescore::SIGNATURE,
            FusedSmall::SIGNATURE,
            FusedSmallFiltered::SIGNATURE,
        ];
        assert_eq!(check_kernels(&modules, &declared), Ok(()));
    }
}
