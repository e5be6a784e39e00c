//! Texture objects over linear memory.

use std::sync::Arc;

use cudarc::driver::sys::{
    self, CUDA_RESOURCE_DESC, CUDA_TEXTURE_DESC, CUarray_format, CUresourcetype,
};
use cudarc::driver::{CudaContext, CudaSlice, DevicePtr, DeviceRepr};

use super::{Device, GpuError};

/// A type that a texture can contain.
///
/// ```
/// use gpu_runtime::Texel;
///
/// assert_ne!(u32::FORMAT, f32::FORMAT);
/// ```
pub trait Texel: DeviceRepr {
    /// The driver's name of the texel format.
    const FORMAT: CUarray_format;
}

impl Texel for u32 {
    const FORMAT: CUarray_format = CUarray_format::CU_AD_FORMAT_UNSIGNED_INT32;
}

impl Texel for f32 {
    const FORMAT: CUarray_format = CUarray_format::CU_AD_FORMAT_FLOAT;
}

/// A one-dimensional texture over part of a buffer.
///
/// Kernels may read the texture only while the buffer exists.
///
/// ```
/// use gpu_runtime::{Device, Texture};
///
/// // Does nothing without a GPU.
/// if let Ok(device) = Device::open_best() {
///     let step = device.step("copying");
///     let buffer = device.stream()?.clone_htod(&[1u32, 2, 3]).map_err(step.failed())?;
///     assert_ne!(Texture::new(&device, &buffer, 0, 3)?.object(), 0);
/// }
/// # Ok::<(), gpu_runtime::GpuError>(())
/// ```
#[derive(Debug)]
pub struct Texture {
    object: sys::CUtexObject,
    context: Arc<CudaContext>,
}

impl Texture {
    /// Creates a texture over `buffer[first..first + length]`.
    ///
    /// # Errors
    /// Fails if the driver rejects the texture. Possible reasons are that the texture is wider than
    /// the GPU allows, or that `first` is not aligned as the GPU requires.
    ///
    /// # Panics
    /// Panics if the range is outside the buffer.
    pub fn new<T: Texel>(
        device: &Device,
        buffer: &CudaSlice<T>,
        first: usize,
        length: usize,
    ) -> Result<Self, GpuError> {
        let view = buffer.slice(first..first + length);
        let (pointer, _ordered) = view.device_ptr(buffer.stream());
        let reserved = sys::CUDA_RESOURCE_DESC_st__bindgen_ty_1__bindgen_ty_5 { reserved: [0; 32] };
        let mut resource = CUDA_RESOURCE_DESC {
            resType: CUresourcetype::CU_RESOURCE_TYPE_LINEAR,
            res: sys::CUDA_RESOURCE_DESC_st__bindgen_ty_1 { reserved },
            flags: 0,
        };
        resource.res.linear = sys::CUDA_RESOURCE_DESC_st__bindgen_ty_1__bindgen_ty_3 {
            devPtr: pointer,
            format: T::FORMAT,
            numChannels: 1,
            sizeInBytes: length * size_of::<T>(),
        };
        // Kernels read the values unchanged, not scaled to 0..1.
        let texture =
            CUDA_TEXTURE_DESC { flags: sys::CU_TRSF_READ_AS_INTEGER, ..texture_defaults() };
        let mut object = 0;
        let doing = device.step("creating a texture");
        device.context().bind_to_thread().map_err(doing.failed())?;
        #[expect(unsafe_code, reason = "cudarc has no safe call for texture objects")]
        // SAFETY: the descriptors are complete, outlive the call, and refer to memory of the
        // buffer; the object is written only on success.
        let result = unsafe {
            sys::cuTexObjectCreate(
                &raw mut object,
                &raw const resource,
                &raw const texture,
                std::ptr::null(),
            )
        };
        result.result().map_err(doing.failed())?;
        Ok(Self { object, context: Arc::clone(device.context()) })
    }

    /// Returns the handle that kernels use for the texture.
    pub fn object(&self) -> u64 {
        self.object
    }
}

fn texture_defaults() -> CUDA_TEXTURE_DESC {
    CUDA_TEXTURE_DESC {
        addressMode: [sys::CUaddress_mode::CU_TR_ADDRESS_MODE_CLAMP; 3],
        filterMode: sys::CUfilter_mode::CU_TR_FILTER_MODE_POINT,
        flags: 0,
        maxAnisotropy: 0,
        mipmapFilterMode: sys::CUfilter_mode::CU_TR_FILTER_MODE_POINT,
        mipmapLevelBias: 0.0,
        minMipmapLevelClamp: 0.0,
        maxMipmapLevelClamp: 0.0,
        borderColor: [0.0; 4],
        reserved: [0; 12],
    }
}

impl Drop for Texture {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            #[expect(unsafe_code, reason = "cudarc has no safe call for texture objects")]
            // SAFETY: the object was created by `cuTexObjectCreate` and is destroyed only here. A
            // failure of the driver cannot be handled.
            let _ = unsafe { sys::cuTexObjectDestroy(self.object) };
        }
    }
}
