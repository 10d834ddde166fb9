//! Sizes and indices of programs are signed numbers: a negative one is a mistake of the program, which the status
//! names, and no want of memory.

use vireo::asm::assemble;
use vireo::hal::create_device;
use vireo::interp::{DispatchMode, Limits};
use vireo::modules::hal::HalModule;
use vireo::modules::hal_inline::HalInlineModule;
use vireo::vm::{Context, Module, Value};
use vireo::{MemoryBudget, StatusCode};

/// Functions of an `i32` and the same number as an `i64`, which is negative; what each of them does, and the status.
const CASES: [(&str, &str, StatusCode); 26] = [
    ("buffer_alloc", "%r3 = vm.buffer.alloc %i2:3, %i10", StatusCode::InvalidArgument),
    ("list_alloc", "%r3 = vm.list.alloc %i0 : !vm.list<i64>", StatusCode::InvalidArgument),
    ("list_alloc_any", "%r3 = vm.list.alloc %i0 : !vm.list<!vm.opaque>", StatusCode::InvalidArgument),
    ("list_reserve", "vm.list.reserve %r0, %i0", StatusCode::InvalidArgument),
    ("list_resize", "vm.list.resize %r0, %i0", StatusCode::InvalidArgument),
    ("list_get_i32", "%i10 = vm.list.get.i32 %r0, %i0", StatusCode::OutOfRange),
    ("list_set_i32", "vm.list.set.i32 %r0, %i0, %i10", StatusCode::OutOfRange),
    ("list_get_i64", "%i12:13 = vm.list.get.i64 %r0, %i0", StatusCode::OutOfRange),
    ("list_set_i64", "vm.list.set.i64 %r0, %i0, %i12:13", StatusCode::OutOfRange),
    ("global_load", "%i10 = vm.global.load.indirect.i32 %i0", StatusCode::OutOfRange),
    ("global_store", "vm.global.store.indirect.i32 %i0, %i10", StatusCode::OutOfRange),
    ("global_load_ref", "%r3 = vm.global.load.indirect.ref %i0 : !vm.buffer", StatusCode::OutOfRange),
    (
        "view",
        "%r3 = vm.call.variadic @hal.buffer_view.create segments[65535, 65535, 65535, 65535, 65535, 1](%r6, %i12, %i14, %i24, %i25, %i2)",
        StatusCode::OutOfRange,
    ),
    (
        "view_of_rank_two",
        "%r3 = vm.call.variadic @hal.buffer_view.create segments[65535, 65535, 65535, 65535, 65535, 2](%r6, %i12, %i14, %i24, %i25, %i14, %i2)",
        StatusCode::OutOfRange,
    ),
    ("load", "%i10 = vm.buffer.load.i32 %r1, %i2:3", StatusCode::OutOfRange),
    ("store", "vm.buffer.store.i8 %i10, %r1, %i2:3", StatusCode::OutOfRange),
    ("fill", "vm.buffer.fill.i8 %r1, %i12:13, %i2:3, %i10", StatusCode::OutOfRange),
    ("clone", "%r3 = vm.buffer.clone %r1, %i12:13, %i2:3, %i10", StatusCode::OutOfRange),
    ("clone_at", "%r3 = vm.buffer.clone %r1, %i2:3, %i12:13, %i10", StatusCode::OutOfRange),
    ("copy", "vm.buffer.copy %r1, %i12:13, %r1, %i12:13, %i2:3", StatusCode::OutOfRange),
    ("copy_from", "vm.buffer.copy %r1, %i2:3, %r1, %i12:13, %i12:13", StatusCode::OutOfRange),
    ("compare", "%i10 = vm.buffer.compare %r1, %i2:3, %r1, %i12:13, %i12:13", StatusCode::OutOfRange),
    ("allocate", "%r3 = vm.call @hal.allocator.allocate(%r4, %i18:19, %i16, %i17, %i2:3)", StatusCode::InvalidArgument),
    ("inline", "%r3, %r5 = vm.call @hal_inline.buffer.allocate(%i10, %i2:3)", StatusCode::InvalidArgument),
    ("subspan", "%r3 = vm.call @hal.buffer.subspan(%r6, %i2:3, %i12:13)", StatusCode::OutOfRange),
    ("hal_load", "%i10 = vm.call @hal.buffer.load(%r6, %i2:3, %i20)", StatusCode::OutOfRange),
];

fn program() -> Vec<u8> {
    let mut text = String::from(
        "vm.module @sizes version 0
vm.type i32
vm.type i64
vm.type !vm.buffer
vm.type !vm.list<i64>
vm.type !vm.list<!vm.opaque>
vm.import @hal.devices.get cconv \"0i_r\"
vm.import @hal.device.allocator cconv \"0r_r\"
vm.import @hal.allocator.allocate cconv \"0rIiiI_r\"
vm.import @hal_inline.buffer.allocate cconv \"0iI_rr\"
vm.import @hal.buffer_view.create cconv \"0rIIiiCID_r\"
vm.state bytes 16 refs 2
vm.import @hal.buffer.subspan cconv \"0rII_r\"
vm.import @hal.buffer.load cconv \"0rIi_i\"
",
    );
    for (name, body, _) in CASES {
        text.push_str(&format!(
            "
vm.export @{name}
vm.func @{name}(%i0: i32, %i2:3: i64) -> () {{
^bb0:
  %i10 = vm.const.i32.zero
  %i12:13 = vm.const.i64.zero
  %i14:15 = vm.const.i64 16
  %i16 = vm.const.i32 50
  %i17 = vm.const.i32 0x3010C03
  %i18:19 = vm.const.i64 -1
  %i20 = vm.const.i32 4
  %i22 = vm.const.i32 2
  %i24 = vm.const.i32 0x10000008
  %i25 = vm.const.i32 1
  %r0 = vm.list.alloc %i22 : !vm.list<i64>
  vm.list.resize %r0, %i22
  %r1 = vm.buffer.alloc %i14:15, %i10
  %r4 = vm.call @hal.devices.get(%i10)
  %r4 = vm.call @hal.device.allocator(%r4)
  %r6 = vm.call @hal.allocator.allocate(%r4, %i18:19, %i16, %i17, %i14:15)
  {body}
  vm.return
}}
"
        ));
    }
    assemble(&text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn negative_sizes_are_named() {
    let program = program();
    for dispatch in [DispatchMode::Loop, DispatchMode::Threaded, DispatchMode::Compiled] {
        for memory in [None, Some(MemoryBudget::new(64 << 20))] {
            let limits = Limits { dispatch, memory, ..Limits::default() };
            let device = create_device("local-sync").unwrap();
            let modules = [
                Module::native(HalInlineModule::new(device.allocator())).unwrap(),
                Module::native(HalModule::new(vec![device])).unwrap(),
                Module::from_bytes(&program).unwrap(),
            ];
            let context = Context::with_limits(modules, limits).unwrap();
            for (name, _, expected) in CASES {
                // -1 as a length means the rest of a buffer to some methods of the HAL, but not as an offset or a size.
                for number in [-1, -2, i32::MIN] {
                    let arguments = [Value::I32(number), Value::I64(number.into())];
                    let function = context.function(&format!("sizes.{name}")).unwrap();
                    let status = function.call(&arguments).expect_err(name);
                    assert_eq!(status.code(), expected, "{name}: {status}");
                    assert!(status.message().contains(&number.to_string()), "{name} of {number}: {status}");
                }
            }
        }
    }
}
