//! The exports of the `vmvx` module, in the order of `spec/abi/modules/vmvx.yaml`. One `impl` has all of them, because
//! `#[vm_module]` checks that none is missing; a macro writes those that differ only in the function of an element.
#![expect(clippy::too_many_arguments, reason = "the spec lists the arguments")]

use vireo_macros::vm_module;

use super::VmvxModule;
use crate::Result;
use crate::kernels::elementwise::{self as kernels, *};
use crate::kernels::{mmt4d, pack};
use crate::matrix_view::MatrixView;
use crate::vm::{Buffer, Obj};

/// The sizes of a matrix; none if it has no elements.
fn sizes(size0: u64, size1: u64) -> Option<[u64; 2]> {
    (size0 != 0 && size1 != 0).then_some([size0, size1])
}

/// Sizes of elements that were checked to be in memory, so that they fit `usize`.
fn in_memory(sizes: [u64; 2]) -> [usize; 2] {
    sizes.map(|size| size as usize)
}

macro_rules! module {
    (
        unary { $($unary:tt $unary_name:ident $unary_kernel:ident,)* }
        binary { $($binary:tt $binary_name:ident $binary_kernel:ident,)* }
        copy { $($copy:tt $copy_name:ident $width:tt,)* }
        other { $($other:tt)* }
    ) => {
        #[vm_module(spec = "vmvx")]
        impl VmvxModule {
            #[vm_state]
            fn create_state(&self) -> Result<mmt4d::Scratch> {
                Ok(mmt4d::Scratch::default())
            }

            $(
                #[vm_export($unary)]
                fn $unary_name(
                    &self,
                    in_buffer: &Obj<Buffer>,
                    in_offset: u64,
                    in_stride0: u64,
                    in_stride1: u64,
                    out_buffer: &Obj<Buffer>,
                    out_offset: u64,
                    out_stride0: u64,
                    out_stride1: u64,
                    size0: u64,
                    size1: u64,
                ) -> Result<()> {
                    let Some(sizes) = sizes(size0, size1) else { return Ok(()) };
                    let output = MatrixView {
                        name: "out",
                        buffer: out_buffer,
                        offset: out_offset,
                        strides: [out_stride0, out_stride1],
                    };
                    let input =
                        MatrixView { name: "in", buffer: in_buffer, offset: in_offset, strides: [in_stride0, in_stride1] };
                    let (output, input) = (output.writable(4, sizes)?, input.readable(4, sizes)?);
                    // SAFETY: the views were checked, their buffers outlive the call, and the level was detected.
                    unsafe { kernels::unary::<$unary_kernel>(self.level(), input, output, in_memory(sizes)) }
                }
            )*

            $(
                #[vm_export($binary)]
                fn $binary_name(
                    &self,
                    lhs_buffer: &Obj<Buffer>,
                    lhs_offset: u64,
                    lhs_stride0: u64,
                    lhs_stride1: u64,
                    rhs_buffer: &Obj<Buffer>,
                    rhs_offset: u64,
                    rhs_stride0: u64,
                    rhs_stride1: u64,
                    out_buffer: &Obj<Buffer>,
                    out_offset: u64,
                    out_stride0: u64,
                    out_stride1: u64,
                    size0: u64,
                    size1: u64,
                ) -> Result<()> {
                    let Some(sizes) = sizes(size0, size1) else { return Ok(()) };
                    let output = MatrixView {
                        name: "out",
                        buffer: out_buffer,
                        offset: out_offset,
                        strides: [out_stride0, out_stride1],
                    };
                    let lhs = MatrixView {
                        name: "lhs",
                        buffer: lhs_buffer,
                        offset: lhs_offset,
                        strides: [lhs_stride0, lhs_stride1],
                    };
                    let rhs = MatrixView {
                        name: "rhs",
                        buffer: rhs_buffer,
                        offset: rhs_offset,
                        strides: [rhs_stride0, rhs_stride1],
                    };
                    let output = output.writable(4, sizes)?;
                    let (lhs, rhs) = (lhs.readable(4, sizes)?, rhs.readable(4, sizes)?);
                    // SAFETY: the views were checked, their buffers outlive the call, and the level was detected.
                    unsafe { kernels::binary::<$binary_kernel>(self.level(), lhs, rhs, output, in_memory(sizes)) }
                }
            )*

            $(
                #[vm_export($copy)]
                fn $copy_name(
                    &self,
                    in_buffer: &Obj<Buffer>,
                    in_offset: u64,
                    in_stride0: u64,
                    in_stride1: u64,
                    out_buffer: &Obj<Buffer>,
                    out_offset: u64,
                    out_stride0: u64,
                    out_stride1: u64,
                    size0: u64,
                    size1: u64,
                ) -> Result<()> {
                    let Some(sizes) = sizes(size0, size1) else { return Ok(()) };
                    let output = MatrixView {
                        name: "out",
                        buffer: out_buffer,
                        offset: out_offset,
                        strides: [out_stride0, out_stride1],
                    };
                    let input =
                        MatrixView { name: "in", buffer: in_buffer, offset: in_offset, strides: [in_stride0, in_stride1] };
                    let (output, input) = (output.writable($width, sizes)?, input.readable($width, sizes)?);
                    // SAFETY: the views were checked, and their buffers outlive the call.
                    unsafe { kernels::copy::<$width>(input, output, in_memory(sizes)) }
                }
            )*

            $($other)*
        }
    };
}

module! {
    unary {
        "abs.2d.f32" abs_f32 AbsF32,
        "ceil.2d.f32" ceil_f32 CeilF32,
        "ctlz.2d.i32" ctlz_i32 CtlzI32,
        "exp.2d.f32" exp_f32 ExpF32,
        "floor.2d.f32" floor_f32 FloorF32,
        "log.2d.f32" log_f32 LogF32,
        "neg.2d.f32" neg_f32 NegF32,
        "rsqrt.2d.f32" rsqrt_f32 RsqrtF32,
    }
    binary {
        "add.2d.f32" add_f32 AddF32,
        "add.2d.i32" add_i32 AddI32,
        "and.2d.i32" and_i32 AndI32,
        "div.2d.f32" div_f32 DivF32,
        "divs.2d.i32" divs_i32 DivsI32,
        "divu.2d.i32" divu_i32 DivuI32,
        "mul.2d.f32" mul_f32 MulF32,
        "mul.2d.i32" mul_i32 MulI32,
        "or.2d.i32" or_i32 OrI32,
        "shl.2d.i32" shl_i32 ShlI32,
        "shrs.2d.i32" shrs_i32 ShrsI32,
        "shru.2d.i32" shru_i32 ShruI32,
        "sub.2d.f32" sub_f32 SubF32,
        "sub.2d.i32" sub_i32 SubI32,
        "xor.2d.i32" xor_i32 XorI32,
    }
    copy {
        "copy.2d.x16" copy_x16 2,
        "copy.2d.x32" copy_x32 4,
        "copy.2d.x64" copy_x64 8,
        "copy.2d.x8" copy_x8 1,
    }
    other {
        #[vm_export("fill.2d.x32")]
        fn fill_x32(
            &self,
            fill_value: u32,
            out_buffer: &Obj<Buffer>,
            out_offset: u64,
            out_row_stride: u64,
            size0: u64,
            size1: u64,
        ) -> Result<()> {
            let Some(sizes) = sizes(size0, size1) else { return Ok(()) };
            let output = MatrixView { name: "out", buffer: out_buffer, offset: out_offset, strides: [out_row_stride, 1] };
            let output = output.writable(4, sizes)?;
            // SAFETY: the view was checked, and its buffer outlives the call.
            unsafe { fill(fill_value, output, in_memory(sizes)) }
        }

        #[vm_export("mmt4d")]
        fn mmt4d(
            &self,
            scratch: &mut mmt4d::Scratch,
            lhs_buffer: &Obj<Buffer>,
            lhs_offset: u64,
            lhs_row_stride: u64,
            rhs_buffer: &Obj<Buffer>,
            rhs_offset: u64,
            rhs_row_stride: u64,
            out_buffer: &Obj<Buffer>,
            out_offset: u64,
            out_row_stride: u64,
            m: u64,
            n: u64,
            k: u64,
            m0: u32,
            n0: u32,
            k0: u32,
            flags: u32,
        ) -> Result<()> {
            let (lhs_strides, rhs_strides, out_strides) =
                ([lhs_row_stride, 1], [rhs_row_stride, 1], [out_row_stride, 1]);
            let product = mmt4d::Product {
                lhs: MatrixView { name: "lhs", buffer: lhs_buffer, offset: lhs_offset, strides: lhs_strides },
                rhs: MatrixView { name: "rhs", buffer: rhs_buffer, offset: rhs_offset, strides: rhs_strides },
                out: MatrixView { name: "out", buffer: out_buffer, offset: out_offset, strides: out_strides },
                tiles: [m, n, k],
                tile: [m0, n0, k0].map(u64::from),
                flags,
            };
            product.run(self.level(), scratch)
        }

        #[vm_export("pack")]
        fn pack(
            &self,
            in_buffer: &Obj<Buffer>,
            in_offset: u64,
            in_stride0: u64,
            in_stride1: u64,
            out_buffer: &Obj<Buffer>,
            out_offset: u64,
            out_stride0: u64,
            _out_stride1: u64,
            in_size0: u64,
            in_size1: u64,
            out_size0: u64,
            out_size1: u64,
            out_size2: u64,
            out_size3: u64,
            padding_value: u64,
            flags: u32,
        ) -> Result<()> {
            let tiling = pack::Tiling {
                matrix: MatrixView { name: "in", buffer: in_buffer, offset: in_offset, strides: [in_stride0, in_stride1] },
                matrix_sizes: [in_size0, in_size1],
                // Tiles of a row are adjacent, whatever the other stride says.
                tiles: MatrixView { name: "out", buffer: out_buffer, offset: out_offset, strides: [out_stride0, 1] },
                tile_sizes: [out_size0, out_size1, out_size2, out_size3],
                flags,
            };
            tiling.pack(padding_value)
        }

        #[vm_export("query_tile_sizes.2d")]
        fn query_tile_sizes_2d(&self, _size0: u64, _size1: u64, flags: u32) -> Result<(u64, u64)> {
            mmt4d::tile_sizes(self.level(), flags)
        }

        #[vm_export("unpack")]
        fn unpack(
            &self,
            in_buffer: &Obj<Buffer>,
            in_offset: u64,
            in_stride0: u64,
            _in_stride1: u64,
            out_buffer: &Obj<Buffer>,
            out_offset: u64,
            out_stride0: u64,
            out_stride1: u64,
            in_size0: u64,
            in_size1: u64,
            in_size2: u64,
            in_size3: u64,
            out_size0: u64,
            out_size1: u64,
            flags: u32,
        ) -> Result<()> {
            let tiling = pack::Tiling {
                matrix: MatrixView {
                    name: "out",
                    buffer: out_buffer,
                    offset: out_offset,
                    strides: [out_stride0, out_stride1],
                },
                matrix_sizes: [out_size0, out_size1],
                tiles: MatrixView { name: "in", buffer: in_buffer, offset: in_offset, strides: [in_stride0, 1] },
                tile_sizes: [in_size0, in_size1, in_size2, in_size3],
                flags,
            };
            tiling.unpack()
        }
    }
}
