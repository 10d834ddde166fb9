//! `malloc` and `free` of kernels.

use vireo_cuda::attributes::Limit;
use vireo_cuda::result::CuResult;
use vireo_cuda::types::CuStream;
use vireo_softcuda::entries::*;

use crate::support::{Machine, get, launch, ok};

/// Each thread allocates memory of a size of its own and writes its number there, waits for the others, adds what it
/// reads to a word, and frees the memory, 200 times. Without reuse that were 13 MB for 64 threads.
const TEXT: &std::ffi::CStr = c"
.version 7.0
.target sm_70
.address_size 64
.extern .func (.param .b64 r) malloc(.param .b64 s);
.extern .func free(.param .b64 p);
.visible .entry allocate(.param .u64 data, .param .u64 first)
{
  .reg .pred %p<4>;
  .reg .b32 %r<8>;
  .reg .b64 %rd<8>;
  .param .b64 size; .param .b64 address;
  ld.param.u64 %rd1, [data];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd1, %rd1, %rd2;
  mov.u32 %r2, 0;
  mov.u32 %r5, 0;
$again:
  ld.param.u64 %rd3, [first];
  mul.wide.u32 %rd4, %r1, 16;
  add.s64 %rd3, %rd3, %rd4;
  st.param.b64 [size], %rd3;
  call (address), malloc, (size);
  ld.param.b64 %rd5, [address];
  setp.eq.s64 %p1, %rd5, 0;
  @!%p1 st.u32 [%rd5], %r1;
  bar.sync 0;
  mov.u32 %r3, 1000;
  @!%p1 ld.u32 %r3, [%rd5];
  add.u32 %r2, %r2, %r3;
  st.param.b64 [size], %rd5;
  call free, (size);
  add.u32 %r5, %r5, 1;
  setp.lt.u32 %p2, %r5, 200;
  @%p2 bra $again;
  st.global.u32 [%rd1], %r2;
  ret;
}
";

#[test]
fn kernels_allocate_and_free() {
    let machine = Machine::new();
    let data = machine.memory(256);
    let module = machine.module(TEXT);
    let kernel = machine.function(module, c"allocate");
    // SAFETY: the pointers are those of values.
    unsafe {
        assert_eq!(cuCtxSetLimit(Limit::MALLOC_HEAP_SIZE, 1 << 30), CuResult::ERROR_OUT_OF_MEMORY);
        ok(cuCtxSetLimit(Limit::MALLOC_HEAP_SIZE, 1 << 20));
        let limit = get(|value: *mut u64| cuCtxGetLimit(value, Limit::MALLOC_HEAP_SIZE));
        let (mut address, mut size) = (0, 0);
        ok(cuModuleGetGlobal_v2(&raw mut address, &raw mut size, module, c"__vireo_heap".as_ptr().cast()));
        assert_eq!((limit, size), (8 << 20, 8 << 20), "the limit is what the text has");
    }
    // SAFETY: the kernel has these parameters.
    unsafe {
        ok(launch(kernel, 1, 64, CuStream(0), &mut [data, 8]));
        ok(cuCtxSynchronize());
        assert_eq!(machine.read(data, 64), (0..64).map(|thread| 200 * thread).collect::<Vec<u32>>());
        // Nothing, and more than the heap has, is null, which `free` takes.
        for size in [0, 1 << 40] {
            ok(launch(kernel, 1, 1, CuStream(0), &mut [data, size]));
            ok(cuCtxSynchronize());
            assert_eq!(machine.read(data, 1), [200_000]);
        }
    }
}
