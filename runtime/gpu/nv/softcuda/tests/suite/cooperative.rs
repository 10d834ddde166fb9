//! Cooperative launches: blocks that wait for each other, and how many may.

use std::ffi::c_void;
use std::ptr::null_mut;

use vireo_cuda::attributes::{DeviceAttribute, JitInputType, LaunchAttributeId};
use vireo_cuda::result::CuResult;
use vireo_cuda::types::{
    CuDevice, CuFunction, CuGraph, CuGraphExec, CuGraphNode, CuLinkState, CuModule, CuStream, KernelNodeParams,
    LaunchAttribute, LaunchConfig,
};
use vireo_softcuda::entries::*;

use crate::support::{Machine, get, ok};

/// Each block puts its number plus `value` into a word, waits for all others as the headers of the vendor do, and adds
/// the word of the next block to one of a second list.
const TEXT: &std::ffi::CStr = c"
.version 7.0
.target sm_70
.address_size 64
.visible .entry meet(.param .u64 data, .param .u32 value)
{
  .reg .pred %p<4>;
  .reg .b32 %r<16>;
  .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [data];
  ld.param.u32 %r1, [value];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %nctaid.x;
  mov.u32 %r4, %tid.x;
  setp.ne.u32 %p1, %r4, 0;
  mul.wide.u32 %rd2, %r2, 4;
  add.s64 %rd2, %rd2, %rd1;
  add.u32 %r5, %r2, %r1;
  @!%p1 st.global.u32 [%rd2], %r5;
  mov.u32 %r6, %envreg1;
  mov.u32 %r7, %envreg2;
  mov.b64 %rd3, {%r7, %r6};
  barrier.sync 0;
  @%p1 bra $wait;
  setp.ne.u32 %p2, %r2, 0;
  sub.u32 %r8, 0x80000001, %r3;
  selp.u32 %r8, 1, %r8, %p2;
  atom.add.release.gpu.u32 %r9, [%rd3+4], %r8;
$poll:
  ld.acquire.gpu.u32 %r10, [%rd3+4];
  xor.b32 %r10, %r10, %r9;
  setp.ge.s32 %p3, %r10, 0;
  @%p3 bra $poll;
$wait:
  barrier.sync 0;
  @%p1 bra $done;
  add.u32 %r11, %r2, 1;
  rem.u32 %r11, %r11, %r3;
  mul.wide.u32 %rd4, %r11, 4;
  add.s64 %rd4, %rd4, %rd1;
  ld.global.u32 %r12, [%rd4];
  mul.wide.u32 %rd5, %r3, 4;
  add.s64 %rd5, %rd5, %rd2;
  ld.global.u32 %r13, [%rd5];
  add.u32 %r13, %r13, %r12;
  st.global.u32 [%rd5], %r13;
$done:
  ret;
}
";

const BLOCKS: u32 = 60;

/// The second list after launches with these values.
fn expected(values: &[u32]) -> Vec<u32> {
    (0..BLOCKS).map(|block| values.iter().map(|value| (block + 1) % BLOCKS + value).sum()).collect()
}

#[test]
fn blocks_of_cooperative_launches_wait_for_each_other() {
    let machine = Machine::new();
    let meet = machine.function(machine.module(TEXT), c"meet");
    let data = machine.memory(8 * u64::from(BLOCKS));
    let stream = machine.stream(1);
    let mut words = [data, 100];
    let (address, value) = (&raw mut words[0], (&raw mut words[0]).wrapping_add(1));
    let mut list: [*mut c_void; 2] = [address.cast(), value.cast()];
    let list = list.as_mut_ptr();
    let second_list = || machine.read(data + 4 * u64::from(BLOCKS), BLOCKS as usize);
    machine.write(data, &[0; 2 * BLOCKS as usize]);
    // SAFETY: the pointers are those of values, and the kernel has these parameters.
    unsafe {
        let cooperative = || cuLaunchCooperativeKernel(meet, BLOCKS, 1, 1, 64, 1, 1, 0, stream, list);
        ok(cooperative());
        ok(cooperative());
        ok(cuStreamSynchronize(stream));
        assert_eq!(second_list(), expected(&[100, 100]));

        let mut attribute =
            LaunchAttribute { id: LaunchAttributeId::COOPERATIVE, reserved: 0, value: [1, 0, 0, 0, 0, 0, 0, 0] };
        let config = LaunchConfig {
            grid_dim_x: BLOCKS,
            grid_dim_y: 1,
            grid_dim_z: 1,
            block_dim_x: 32,
            block_dim_y: 1,
            block_dim_z: 1,
            h_stream: stream,
            attrs: &raw mut attribute,
            num_attrs: 1,
            shared_mem_bytes: 0,
        };
        ok(cuLaunchKernelEx(&raw const config, meet, list, null_mut()));
        ok(cuStreamSynchronize(stream));
        assert_eq!(second_list(), expected(&[100, 100, 100]));

        // A node of a graph stays cooperative if its parameters change.
        ok(cuStreamBeginCapture_v2(stream, 0));
        ok(cooperative());
        let graph = get(|graph: *mut CuGraph| cuStreamEndCapture(stream, graph));
        let (mut node, mut count) = (CuGraphNode::default(), 1);
        ok(cuGraphGetNodes(graph, &raw mut node, &raw mut count));
        let exec = get(|exec: *mut CuGraphExec| cuGraphInstantiateWithFlags(exec, graph, 0));
        ok(cuGraphLaunch(exec, stream));
        let mut parameters = std::mem::MaybeUninit::<KernelNodeParams>::uninit();
        ok(cuGraphKernelNodeGetParams(node, parameters.as_mut_ptr()));
        let mut parameters = parameters.assume_init();
        value.write(7);
        parameters.kernel_params = list;
        ok(cuGraphExecKernelNodeSetParams(exec, node, &raw const parameters));
        ok(cuGraphLaunch(exec, stream));
        ok(cuStreamSynchronize(stream));
        assert_eq!(second_list(), expected(&[100, 100, 100, 100, 7]));
        parameters.grid_dim_x = 60_000;
        let many = cuGraphExecKernelNodeSetParams(exec, node, &raw const parameters);
        assert_eq!(many, CuResult::ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    }
}

#[test]
fn a_cooperative_launch_has_no_more_blocks_than_the_device_holds() {
    let machine = Machine::new();
    let meet = machine.function(machine.module(TEXT), c"meet");
    let mut words = [machine.memory(1 << 20), 0];
    let (address, value) = (&raw mut words[0], (&raw mut words[0]).wrapping_add(1));
    let mut list: [*mut c_void; 2] = [address.cast(), value.cast()];
    let list = list.as_mut_ptr();
    let launch = |function: CuFunction, blocks: u32, shared: u32| {
        // SAFETY: the kernel has these parameters.
        unsafe { cuLaunchCooperativeKernel(function, blocks, 1, 1, 256, 1, 1, shared, CuStream(0), list) }
    };
    for shared in [0, 40 << 10] {
        // SAFETY: the pointers are those of values.
        let most = unsafe {
            let each =
                get(|each: *mut i32| cuOccupancyMaxActiveBlocksPerMultiprocessor(each, meet, 256, u64::from(shared)));
            let count = DeviceAttribute::MULTIPROCESSOR_COUNT;
            (each * get(|value: *mut i32| cuDeviceGetAttribute(value, count, CuDevice(0)))) as u32
        };
        assert!(most > 1);
        ok(launch(meet, most, shared));
        assert_eq!(launch(meet, most + 1, shared), CuResult::ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "{most} {shared}");
    }
    // SAFETY: it needs no pointers.
    ok(unsafe { cuCtxSynchronize() });
}

/// Each block sets a word, waits by the device runtime, and puts the sum of all words beside those.
const CALLS: &[u8] = b"
.version 7.0
.target sm_60
.address_size 64
.extern .func (.param .b64 r) cudaCGGetIntrinsicHandle(.param .b32 s);
.extern .func (.param .b32 r) cudaCGSynchronize(.param .b64 h, .param .b32 f);
.visible .entry sum(.param .u64 data)
{
  .reg .pred %p<3>;
  .reg .b32 %r<16>;
  .reg .b64 %rd<8>;
  .param .b32 scope; .param .b64 handle; .param .b32 flags; .param .b32 status;
  ld.param.u64 %rd1, [data];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %nctaid.x;
  mul.wide.u32 %rd2, %r2, 4;
  add.s64 %rd2, %rd2, %rd1;
  add.u32 %r5, %r2, 1;
  st.global.u32 [%rd2], %r5;
  mov.b32 %r6, 1;
  st.param.b32 [scope], %r6;
  call (handle), cudaCGGetIntrinsicHandle, (scope);
  ld.param.b64 %rd3, [handle];
  st.param.b64 [handle], %rd3;
  mov.b32 %r7, 0;
  st.param.b32 [flags], %r7;
  call (status), cudaCGSynchronize, (handle, flags);
  ld.param.b32 %r7, [status];
  mov.u32 %r8, 0;
$add:
  mul.wide.u32 %rd4, %r8, 4;
  add.s64 %rd4, %rd4, %rd1;
  ld.global.u32 %r9, [%rd4];
  add.u32 %r7, %r7, %r9;
  add.u32 %r8, %r8, 1;
  setp.lt.u32 %p1, %r8, %r3;
  @%p1 bra $add;
  mul.wide.u32 %rd5, %r3, 4;
  add.s64 %rd5, %rd5, %rd2;
  st.global.u32 [%rd5], %r7;
  ret;
}
\0";

#[test]
fn functions_of_the_device_runtime_are_linked() {
    let machine = Machine::new();
    let data = machine.memory(8 * u64::from(BLOCKS));
    let mut word = data;
    let mut list: [*mut c_void; 1] = [(&raw mut word).cast()];
    let list = list.as_mut_ptr();
    let link = |archive: &str| {
        // SAFETY: the pointers are those of values, the text has as many bytes as is said, and names end with zeros.
        unsafe {
            let state = get(|state: *mut CuLinkState| cuLinkCreate_v2(0, null_mut(), null_mut(), state));
            let add = |kind, bytes: &[u8], name: &str| {
                let (bytes, size) = (bytes.as_ptr().cast_mut().cast(), bytes.len() as u64);
                cuLinkAddData_v2(state, kind, bytes, size, name.as_ptr().cast(), 0, null_mut(), null_mut())
            };
            ok(add(JitInputType::PTX, CALLS, "sum\0"));
            let status = add(JitInputType::LIBRARY, b"!<arch>\n", archive);
            if status != CuResult::SUCCESS {
                return Err(status);
            }
            let mut image = null_mut();
            ok(cuLinkComplete(state, &raw mut image, null_mut()));
            let module = get(|module: *mut CuModule| cuModuleLoadData(module, image));
            ok(cuLinkDestroy(state));
            Ok(module)
        }
    };
    assert_eq!(link("libother.a\0"), Err(CuResult::ERROR_NO_BINARY_FOR_GPU));
    let sum = machine.function(link("/lib/libcudadevrt.a\0").expect("the device runtime"), c"sum");
    // SAFETY: the kernel has these parameters.
    unsafe {
        ok(cuLaunchCooperativeKernel(sum, BLOCKS, 1, 1, 40, 1, 1, 0, CuStream(0), list));
        ok(cuCtxSynchronize());
        let total: u32 = (1..=BLOCKS).sum();
        let sums = || machine.read(data + 4 * u64::from(BLOCKS), BLOCKS as usize);
        assert_eq!(sums(), vec![total; BLOCKS as usize]);
        // In another launch the barrier returns a status, which the kernel adds.
        ok(cuLaunchKernel(sum, BLOCKS, 1, 1, 40, 1, 1, 0, CuStream(0), list, null_mut()));
        ok(cuCtxSynchronize());
        assert_eq!(sums(), vec![total + 1; BLOCKS as usize]);
    }
}
