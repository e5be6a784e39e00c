//! Tests on a GPU. On a machine with a GPU, run `cargo test -p gpu-runtime -- --ignored`.

use gpu_runtime::{
    CudaViewMut, Device, DeviceBuffer, Grid, KernelArguments, Lane, Pinned, check_kernels, kernel,
};

/// Adds 1 to each of the first `count` values.
const ADD_ONE: &str = "
.version 7.0
.target sm_75
.address_size 64
.visible .entry add_one(.param .u64 values, .param .u32 count)
{
    .reg .b64 %rd<4>;
    .reg .b32 %r<5>;
    .reg .pred %p<2>;
    ld.param.u64 %rd1, [values];
    ld.param.u32 %r1, [count];
    mov.u32 %r2, %tid.x;
    setp.ge.u32 %p1, %r2, %r1;
    @%p1 bra DONE;
    cvta.to.global.u64 %rd1, %rd1;
    mul.wide.u32 %rd2, %r2, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.u32 %r3, [%rd3];
    add.u32 %r4, %r3, 1;
    st.global.u32 [%rd3], %r4;
DONE:
    ret;
}";

kernel! {
    struct AddOne<'a>: "add_one" {
        write values: CudaViewMut<'a, u32>,
        value count: u32,
    }
}

#[test]
fn declaration_matches_the_ptx() {
    assert_eq!(check_kernels(&[ADD_ONE], &[AddOne::SIGNATURE]), Ok(()));
}

/// A lane copies values to the GPU, launches a declared kernel, and copies them back.
#[test]
#[ignore = "needs a GPU"]
fn a_lane_launches_a_declared_kernel() {
    let device = Device::open_best().unwrap();
    #[expect(unsafe_code, reason = "the buffers are used on one lane")]
    // SAFETY: all buffers are used on one lane.
    let device = unsafe { device.untracked() }.unwrap();
    let add_one = device.load(ADD_ONE).unwrap().kernel("add_one", 0).unwrap();
    let mut pinned = Pinned::new(&device);
    let mut buffer = DeviceBuffer::default();
    let lane = Lane::new(&device).unwrap();
    for count in [3u32, 200, 5] {
        let values = pinned.get(count as usize).unwrap();
        values.iter_mut().zip(1..).for_each(|(value, number)| *value = number);
        let memory = lane.reserve(&mut buffer, count as usize).unwrap();
        lane.stream().memcpy_htod(&*values, memory).unwrap();
        for grid in [Grid::new(1, 256), Grid::new(0, 256), Grid::new(1, 256)] {
            let arguments = AddOne { values: memory.as_view_mut(), count };
            #[expect(unsafe_code, reason = "launches a kernel")]
            // SAFETY: the kernel writes `count` values, and the buffer has at least this many.
            unsafe { add_one.launch(lane.stream(), grid, arguments) }.unwrap();
        }
        let values = pinned.get(count as usize).unwrap();
        lane.stream().memcpy_dtoh(&memory.slice(..count as usize), values).unwrap();
        lane.wait("copying values from it").unwrap();
        assert!(pinned.get(count as usize).unwrap().iter().copied().eq(3..count + 3));
    }
    assert_eq!(buffer.capacity(), 200);
}

/// An untracked device does not change the device that it was opened from.
#[test]
#[ignore = "needs a GPU"]
fn an_untracked_device_does_not_change_others() {
    let device = Device::open_best().unwrap();
    #[expect(unsafe_code, reason = "no buffer is created")]
    // SAFETY: no buffer is created.
    let untracked = unsafe { device.untracked() }.unwrap();
    assert!(!untracked.context().is_event_tracking());
    assert!(device.context().is_event_tracking());
    assert_eq!(untracked.info(), device.info());
}
