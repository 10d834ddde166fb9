//! Kernels: their parameters, attributes and limits, and errors of their work, which stay with the context.

use std::ffi::c_void;
use std::ptr::null_mut;

use vireo_cuda::attributes::{FunctionAttribute, JitInputType};
use vireo_cuda::result::CuResult;
use vireo_cuda::types::{
    CuFunction, CuKernel, CuLibrary, CuLinkState, CuModule, CuStream, LAUNCH_PARAM_BUFFER_POINTER,
    LAUNCH_PARAM_BUFFER_SIZE,
};
use vireo_softcuda::entries::*;

use crate::support::{Machine, get, launch, ok};

/// Adds a number to words, stores through a wrong address, and jumps for ever.
pub const TEXT: &std::ffi::CStr = c"
.version 7.0
.target sm_60
.address_size 64
.visible .global .align 4 .u32 counter = 40;
.visible .entry add(.param .u64 data, .param .u32 value, .param .u32 count) .maxntid 256, 1, 1
{
  .reg .pred %p<2>;
  .reg .b32 %r<8>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [data];
  ld.param.u32 %r1, [value];
  ld.param.u32 %r7, [count];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r5, %r7;
  @%p1 bra $done;
  cvta.to.global.u64 %rd1, %rd1;
  mul.wide.u32 %rd2, %r5, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r6, [%rd3];
  add.s32 %r6, %r6, %r1;
  st.global.u32 [%rd3], %r6;
$done:
  ret;
}
.visible .entry wild(.param .u64 address)
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [address];
  mov.u32 %r1, 1;
  st.global.u32 [%rd1], %r1;
  ret;
}
.visible .entry wide(.param .u64 from, .param .u64 to)
{
  .reg .b32 %r<5>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [from];
  ld.param.u64 %rd2, [to];
  ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];
  st.global.v4.u32 [%rd2], {%r1, %r2, %r3, %r4};
  ret;
}
.visible .entry forever()
{
$again:
  bra $again;
}
";

#[test]
fn parameters_come_as_a_list_or_packed() {
    let machine = Machine::new();
    let module = machine.module(TEXT);
    let add = machine.function(module, c"add");
    let data = machine.memory(400);
    machine.write(data, &(0..100).collect::<Vec<u32>>());
    // SAFETY: the kernel has these parameters.
    ok(unsafe { launch(add, 4, 32, CuStream(0), &mut [data, 5, 100]) });
    let mut packed = [0u8; 16];
    packed[..8].copy_from_slice(&data.to_le_bytes());
    packed[8..12].copy_from_slice(&7u32.to_le_bytes());
    packed[12..].copy_from_slice(&50u32.to_le_bytes());
    let mut size = packed.len() as u64;
    let pointer = |value: u64| std::ptr::without_provenance_mut::<c_void>(value as usize);
    let mut extra = [
        pointer(LAUNCH_PARAM_BUFFER_POINTER),
        packed.as_mut_ptr().cast(),
        pointer(LAUNCH_PARAM_BUFFER_SIZE),
        (&raw mut size).cast(),
        null_mut(),
    ];
    // SAFETY: the list ends as documented.
    ok(unsafe { cuLaunchKernel(add, 4, 1, 1, 32, 1, 1, 0, CuStream(0), null_mut(), extra.as_mut_ptr()) });
    let expected: Vec<u32> = (0..100).map(|index| index + 5 + if index < 50 { 7 } else { 0 }).collect();
    assert_eq!(machine.read(data, 100), expected);
    let mut size = 12u64;
    extra[3] = (&raw mut size).cast();
    // SAFETY: the pointers are those of values, and kernels have these parameters.
    let short = unsafe { cuLaunchKernel(add, 4, 1, 1, 32, 1, 1, 0, CuStream(0), null_mut(), extra.as_mut_ptr()) };
    assert_eq!(short, CuResult::ERROR_INVALID_VALUE);
}

#[test]
fn limits_of_launches_are_kept() {
    let machine = Machine::new();
    let add = machine.function(machine.module(TEXT), c"add");
    let mut words = [0u64; 3];
    let mut list = [(&raw mut words[0]).cast::<c_void>(); 3];
    let list = list.as_mut_ptr();
    let status = |grid: [u32; 3], block: [u32; 3], shared| {
        let ([x, y, z], [i, j, k]) = (grid, block);
        // SAFETY: the list has an address for each parameter.
        unsafe { cuLaunchKernel(add, x, y, z, i, j, k, shared, CuStream(0), list, null_mut()) }
    };
    for (grid, block, shared) in [
        ([0, 1, 1], [1, 1, 1], 0),
        ([1, 65_536, 1], [1, 1, 1], 0),
        ([1, 1, 1], [0, 1, 1], 0),
        ([1, 1, 1], [1, 1, 65], 0),
        ([1, 1, 1], [257, 1, 1], 0),
        ([1, 1, 1], [64, 64, 1], 0),
        ([1, 1, 1], [1, 1, 1], 49_153),
    ] {
        assert_eq!(status(grid, block, shared), CuResult::ERROR_INVALID_VALUE, "{grid:?} {block:?} {shared}");
    }
    // SAFETY: the pointers are those of values.
    let attribute = |attribute| get(|value: *mut i32| unsafe { cuFuncGetAttribute(value, attribute, add) });
    assert_eq!(attribute(FunctionAttribute::MAX_THREADS_PER_BLOCK), 256);
    assert_eq!(attribute(FunctionAttribute::BINARY_VERSION), 86);
    let dynamic = FunctionAttribute::MAX_DYNAMIC_SHARED_SIZE_BYTES;
    assert_eq!(attribute(dynamic), 49_152);
    // SAFETY: they need no pointers, or those of values.
    unsafe {
        assert_eq!(cuFuncSetAttribute(add, dynamic, 200_000), CuResult::ERROR_INVALID_VALUE);
        ok(cuFuncSetAttribute(add, dynamic, 100_000));
        let (mut blocks, mut grid, mut block) = (0, 0, 0);
        ok(cuOccupancyMaxActiveBlocksPerMultiprocessor(&raw mut blocks, add, 256, 0));
        assert!((1..=6).contains(&blocks), "{blocks}");
        ok(cuOccupancyMaxPotentialBlockSize(&raw mut grid, &raw mut block, add, None, 0, 0));
        assert!(block > 0 && block <= 256 && grid >= 28, "{grid} {block}");
    }
    assert_eq!(status([1, 1, 1], [1, 1, 1], 100_000), CuResult::SUCCESS);
    // It stored through null.
    // SAFETY: it needs no pointers.
    let _ = unsafe { cuCtxSynchronize() };
}

#[test]
fn an_error_of_work_stays_with_its_context() {
    let machine = Machine::new();
    let module = machine.module(TEXT);
    let (wild, add) = (machine.function(module, c"wild"), machine.function(module, c"add"));
    let data = machine.memory(4);
    let illegal = CuResult::ERROR_ILLEGAL_ADDRESS;
    // SAFETY: the kernels have these parameters; pointers are those of values.
    unsafe {
        ok(launch(wild, 1, 1, CuStream(0), &mut [data]));
        ok(cuCtxSynchronize());
        ok(launch(wild, 1, 1, CuStream(0), &mut [data + 4]));
        assert_eq!(cuCtxSynchronize(), illegal);
        assert_eq!(cuCtxSynchronize(), illegal);
        assert_eq!(launch(add, 1, 1, CuStream(0), &mut [data, 1, 1]), illegal);
        let mut address = 0;
        assert_eq!(cuMemAlloc_v2(&raw mut address, 4), illegal);
        let mut word = 0u32;
        assert_eq!(cuMemcpyDtoH_v2((&raw mut word).cast(), data, 4), illegal);
    }
    drop(machine);
    let machine = Machine::new();
    let wild = machine.function(machine.module(TEXT), c"wild");
    let data = machine.memory(8);
    // SAFETY: the pointers are those of values, and kernels have these parameters.
    unsafe {
        ok(launch(wild, 1, 1, CuStream(0), &mut [data + 2]));
        assert_eq!(cuCtxSynchronize(), CuResult::ERROR_MISALIGNED_ADDRESS);
    }
}

/// LLVM reads four elements at once where three are left: 16 bytes that are aligned are never at the end of a page.
#[test]
fn an_aligned_load_may_pass_the_end_of_memory_and_a_store_may_not() {
    for (bytes, target, status) in [(12, 16, CuResult::SUCCESS), (16, 12, CuResult::ERROR_ILLEGAL_ADDRESS)] {
        let machine = Machine::new();
        let wide = machine.function(machine.module(TEXT), c"wide");
        let (from, to) = (machine.memory(bytes), machine.memory(target));
        machine.write(from, &[1, 2, 3]);
        // SAFETY: the kernel has these parameters.
        unsafe {
            ok(launch(wide, 1, 1, CuStream(0), &mut [from, to]));
            assert_eq!(cuCtxSynchronize(), status);
        }
        if status == CuResult::SUCCESS {
            assert_eq!(machine.read(to, 3), [1, 2, 3]);
        }
    }
}

#[test]
fn variables_have_addresses_and_first_values() {
    let machine = Machine::new();
    let module = machine.module(TEXT);
    let (mut address, mut size) = (0, 0);
    // SAFETY: the pointers are those of values, and names have zeros at their ends.
    unsafe {
        ok(cuModuleGetGlobal_v2(&raw mut address, &raw mut size, module, c"counter".as_ptr().cast()));
        assert_eq!((size, machine.read(address, 1)), (4, vec![40]));
        let add = machine.function(module, c"add");
        ok(launch(add, 1, 1, CuStream(0), &mut [address, 2, 1]));
        assert_eq!(machine.read(address, 1), [42]);
        let other = machine.module(TEXT);
        let mut second = 0;
        ok(cuModuleGetGlobal_v2(&raw mut second, null_mut(), other, c"counter".as_ptr().cast()));
        assert!(second != address && machine.read(second, 1) == [40]);
        let none = cuModuleGetGlobal_v2(&raw mut second, null_mut(), module, c"none".as_ptr().cast());
        assert_eq!(none, CuResult::ERROR_NOT_FOUND);
        let mut function = CuFunction(0);
        let none = cuModuleGetFunction(&raw mut function, module, c"none".as_ptr().cast());
        assert_eq!(none, CuResult::ERROR_NOT_FOUND);
        ok(cuModuleUnload(module));
        assert_eq!(launch(add, 1, 1, CuStream(0), &mut [address, 2, 1]), CuResult::ERROR_INVALID_HANDLE);
        assert_eq!(cuModuleUnload(CuModule(module.0)), CuResult::ERROR_INVALID_HANDLE);
    }
}

#[test]
fn linked_code_is_a_library() {
    let machine = Machine::new();
    let data = machine.memory(4);
    // SAFETY: the pointers are those of values; the text has as many bytes as is said.
    unsafe {
        let state = get(|state: *mut CuLinkState| cuLinkCreate_v2(0, null_mut(), null_mut(), state));
        let bytes = TEXT.to_bytes_with_nul();
        let (text, size) = (bytes.as_ptr().cast_mut().cast(), bytes.len() as u64);
        let name = c"a".as_ptr().cast();
        ok(cuLinkAddData_v2(state, JitInputType::PTX, text, size, name, 0, null_mut(), null_mut()));
        let nvvm = cuLinkAddData_v2(state, JitInputType::NVVM, text, size, name, 0, null_mut(), null_mut());
        assert_eq!(nvvm, CuResult::ERROR_NO_BINARY_FOR_GPU);
        let (mut image, mut length) = (null_mut(), 0);
        ok(cuLinkComplete(state, &raw mut image, &raw mut length));
        assert!(length > size);
        let (options, values) = (null_mut(), null_mut());
        let library = get(|library: *mut CuLibrary| {
            cuLibraryLoadData(library, image, options, values, 0, null_mut(), null_mut(), 0)
        });
        ok(cuLinkDestroy(state));
        let kernel = get(|kernel: *mut CuKernel| cuLibraryGetKernel(kernel, library, c"add".as_ptr().cast()));
        assert_eq!(get(|count: *mut u32| cuLibraryGetKernelCount(count, library)), 4);
        let (mut offset, mut bytes) = (0, 0);
        ok(cuKernelGetParamInfo(kernel, 2, &raw mut offset, &raw mut bytes));
        assert_eq!((offset, bytes), (12, 4));
        // A kernel may be launched in the place of its function.
        machine.write(data, &[1]);
        ok(launch(CuFunction(kernel.0), 1, 1, CuStream(0), &mut [data, 4, 1]));
        let function = get(|function: *mut CuFunction| cuKernelGetFunction(function, kernel));
        ok(launch(function, 1, 1, CuStream(0), &mut [data, 4, 1]));
        assert_eq!(machine.read(data, 1), [9]);
        ok(cuLibraryUnload(library));
        assert_eq!(launch(function, 1, 1, CuStream(0), &mut [data, 4, 1]), CuResult::ERROR_INVALID_HANDLE);
    }
}
