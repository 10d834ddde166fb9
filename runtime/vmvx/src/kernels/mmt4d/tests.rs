//! Tests of products of all types and odd shapes, on every SIMD level, against sums computed one after the other.

use super::*;
use crate::hal::narrow_float::{BF16, F16};
use crate::vm::Buffer;

const SHAPES: [([u64; 3], [u64; 3]); 12] = [
    ([1, 1, 1], [1, 1, 1]),
    ([2, 3, 5], [8, 8, 4]),
    ([1, 5, 70], [8, 8, 4]),
    ([3, 2, 300], [16, 16, 1]),
    ([1, 9, 3], [4, 8, 2]),
    ([2, 2, 7], [7, 5, 3]),
    ([1, 1, 2], [1, 33, 600]),
    ([5, 70, 2], [1, 1, 1]),
    ([2, 2, 0], [8, 8, 4]),
    ([2, 0, 3], [8, 8, 4]),
    ([3, 3, 129], [2, 16, 2]),
    ([2, 3, 4], [9, 17, 6]),
];

/// Numbers that sums of a few do not round.
fn value(index: usize) -> i64 {
    (index as i64 * 37 + 11) % 15 - 7
}

fn bytes_of(element: Element, count: usize) -> Vec<u8> {
    let value = |index| match element {
        Element::U4 => value(index) & 7,
        _ => value(index),
    };
    match element {
        Element::F32 => (0..count).flat_map(|index| (value(index) as f32 + 0.1).to_ne_bytes()).collect(),
        Element::F16 => (0..count).flat_map(|index| (F16.narrow(value(index) as f32) as u16).to_ne_bytes()).collect(),
        Element::Bf16 => (0..count).flat_map(|index| (BF16.narrow(value(index) as f32) as u16).to_ne_bytes()).collect(),
        Element::S16 => (0..count).flat_map(|index| (value(index) as i16 * 4001).to_ne_bytes()).collect(),
        Element::S8 => (0..count).map(|index| (value(index) * 18) as u8).collect(),
        Element::U4 | Element::S4 => (0..count.div_ceil(2))
            .map(|index| (value(index * 2) & 15 | (value(index * 2 + 1) & 15) << 4) as u8)
            .collect(),
    }
}

fn buffer(bytes: &[u8]) -> Buffer {
    Buffer::copy_of(bytes).expect("allocates")
}

/// The product by its definition.
fn expected(operands: Operands, sum: ResultElement, before: &[u8], bytes: usize) -> Vec<u8> {
    let mut result = before.to_vec();
    let ([m, n, k], [m0, n0, k0]) = (operands.tiles, operands.tile);
    for (i, j, i0, j0) in
        (0..m).flat_map(|i| (0..n).flat_map(move |j| (0..m0).flat_map(move |i0| (0..n0).map(move |j0| (i, j, i0, j0)))))
    {
        let target = i * operands.out_stride + j * m0 * n0 + i0 * n0 + j0;
        let target = &mut result[target * bytes..][..bytes];
        let pairs = || {
            (0..k).flat_map(|k| (0..k0).map(move |kk| (k, kk))).map(|(k, kk)| {
                let lhs = i * operands.lhs.stride + k * m0 * k0 + i0 * k0 + kk;
                let rhs = j * operands.rhs.stride + k * n0 * k0 + j0 * k0 + kk;
                (lhs, rhs)
            })
        };
        let (lhs, rhs) = (operands.lhs, operands.rhs);
        match sum {
            ResultElement::S32 => {
                let mut sum =
                    if operands.accumulate { i32::from_ne_bytes(target.try_into().expect("4 bytes")) } else { 0 };
                for (a, b) in pairs() {
                    // SAFETY: the elements are those of the product.
                    let (a, b) = unsafe {
                        (staging::integer(lhs.data, lhs.element, a), staging::integer(rhs.data, rhs.element, b))
                    };
                    sum = sum.wrapping_add(i32::from(a) * i32::from(b));
                }
                target.copy_from_slice(&sum.to_ne_bytes());
            }
            ResultElement::F32 => {
                let mut sum =
                    if operands.accumulate { f32::from_ne_bytes(target.try_into().expect("4 bytes")) } else { 0.0 };
                for (a, b) in pairs() {
                    // SAFETY: the elements are those of the product.
                    let (a, b) =
                        unsafe { (staging::float(lhs.data, lhs.element, a), staging::float(rhs.data, rhs.element, b)) };
                    sum += a * b;
                }
                target.copy_from_slice(&sum.to_ne_bytes());
            }
            ResultElement::F16 | ResultElement::Bf16 => unreachable!("narrow sums have their own test"),
        }
    }
    result
}

#[test]
fn products_are_sums_in_order_on_every_level() {
    let types = [
        Mmt4dType::F32F32F32,
        Mmt4dType::S8S8S32,
        Mmt4dType::F16F16F32,
        Mmt4dType::BF16BF16F32,
        Mmt4dType::S16S16S32,
        Mmt4dType::S16U4S32,
        Mmt4dType::S16S8S32,
        Mmt4dType::S8S4S32,
    ];
    for (ty, (tiles, tile)) in types.into_iter().flat_map(|ty| SHAPES.map(|shape| (ty, shape))) {
        let ([m, n, k], [m0, n0, k0]) = (tiles, tile);
        let (narrow, gap) = (matches!(ty, Mmt4dType::S16U4S32 | Mmt4dType::S8S4S32), 6);
        if narrow && k0 % 2 == 1 {
            continue;
        }
        let strides = [k * m0 * k0 + gap, k * n0 * k0 + gap, n * m0 * n0 + gap];
        let before: Vec<u8> =
            (0..(m * strides[2] + 3) * 4).map(|index| if index % 4 == 3 { 0x40 } else { index as u8 }).collect();
        for (level, accumulate) in SimdLevel::ALL.into_iter().flat_map(|level| [(level, false), (level, true)]) {
            let flags = ty.0 | if accumulate { Mmt4dFlags::ACCUMULATE.bits() } else { 0 };
            let mut product = Product {
                lhs: MatrixView { name: "lhs", buffer: &buffer(&[]), offset: 2, strides: [strides[0], 1] },
                rhs: MatrixView { name: "rhs", buffer: &buffer(&[]), offset: 4, strides: [strides[1], 1] },
                out: MatrixView { name: "out", buffer: &buffer(&before), offset: 3, strides: [strides[2], 1] },
                tiles,
                tile,
                flags,
            };
            let (lhs, rhs, sum) = product.elements().expect("the types exist");
            let (lhs_buffer, rhs_buffer) = (
                buffer(&bytes_of(lhs, (2 + m * strides[0]) as usize)),
                buffer(&bytes_of(rhs, (4 + n * strides[1]) as usize)),
            );
            (product.lhs.buffer, product.rhs.buffer) = (&lhs_buffer, &rhs_buffer);
            product.run(level.min(SimdLevel::detect()), &mut Scratch::default()).expect("the product is in range");
            let start = |buffer: &Buffer, offset: u64, element: Element| {
                buffer.as_ptr().wrapping_add((offset * element.bits() / 8) as usize).cast_const()
            };
            let operands = Operands {
                lhs: Factor { data: start(&lhs_buffer, 2, lhs), stride: strides[0] as usize, element: lhs },
                rhs: Factor { data: start(&rhs_buffer, 4, rhs), stride: strides[1] as usize, element: rhs },
                out: std::ptr::null_mut(),
                out_stride: strides[2] as usize,
                tiles: tiles.map(|size| size as usize),
                tile: tile.map(|size| size as usize),
                accumulate,
            };
            let mut all = before[..12].to_vec();
            all.extend(expected(operands, sum, &before[12..], 4));
            assert!(product.out.buffer.to_vec() == all, "{ty:?} {tiles:?} {tile:?} {level:?} {accumulate}");
        }
    }
}

#[test]
fn narrow_sums_round_as_the_flags_say() {
    // 2048 + 1 is no f16: rounded each time the ones are lost, rounded once they are not.
    let ones: Vec<u8> = (0..4).flat_map(|_| (F16.narrow(1.0) as u16).to_ne_bytes()).collect();
    let factor = buffer(&ones);
    for (skip, expected) in [(false, 2048.0), (true, 2052.0)] {
        let out = buffer(&(F16.narrow(2048.0) as u16).to_ne_bytes());
        let mut flags = Mmt4dType::F16F16F16.0 | Mmt4dFlags::ACCUMULATE.bits();
        if skip {
            flags |= Mmt4dFlags::SKIP_INTERMEDIATE_ROUNDINGS.bits();
        }
        let view = |name, buffer| MatrixView { name, buffer, offset: 0, strides: [4, 1] };
        let (lhs, rhs, out) = (view("lhs", &factor), view("rhs", &factor), view("out", &out));
        let product = Product { lhs, rhs, out, tiles: [1, 1, 2], tile: [1, 1, 2], flags };
        product.run(SimdLevel::Portable, &mut Scratch::default()).expect("the product is in range");
        let bits = u16::from_ne_bytes(out.buffer.to_vec().try_into().expect("2 bytes"));
        assert_eq!(F16.widen(bits.into()), expected);
    }
}
