//! Memory of programs is what they are charged: objects of every kind that a program can make and keep, of drawn sizes,
//! against what the process has allocated for them. A program of its own, because it replaces the allocator of the
//! process.
//!
//! `VIREO_MEMORY_SEED` draws other sizes, `VIREO_MEMORY_ROUNDS` more of them.

#[path = "support/counting.rs"]
mod counting;

use std::alloc::Layout;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use counting::Counting;
use vireo::asm::assemble;
use vireo::hal::{AllocaFlags, Buffer, BufferParams, BufferUsage, BuiltinOptions, Device, MemoryType, QueueAffinity};
use vireo::interp::{DispatchMode, Limits};
use vireo::modules::hal::HalModule;
use vireo::modules::hal_inline::HalInlineModule;
use vireo::vm::{Context, List, Module, Value};
use vireo::{MemoryBudget, Result, SecurityPolicy};

/// Bytes that are allocated now, as an allocator takes them from the system: a block has a header, and lies at a
/// multiple of its alignment.
static ALLOCATED: AtomicU64 = AtomicU64::new(0);

fn taken(size: usize, align: usize) -> u64 {
    if align <= 16 {
        (size + 8).next_multiple_of(16).max(32) as u64
    } else {
        (size + 16).next_multiple_of(align) as u64
    }
}

fn add(layout: Layout) {
    ALLOCATED.fetch_add(taken(layout.size(), layout.align()), Ordering::SeqCst);
}

fn subtract(layout: Layout) {
    ALLOCATED.fetch_sub(taken(layout.size(), layout.align()), Ordering::SeqCst);
}

#[global_allocator]
static ALLOCATOR: Counting = Counting { allocated: add, freed: subtract };

/// A kind of object: how a loop makes one and leaves it in `%r2`, and whether its size is drawn, up to how many bytes.
struct Kind {
    name: &'static str,
    body: &'static str,
    largest: i64,
}

/// Registers that bodies use: `%i14:15` is the size, `%i2` the alignment, `%i16:17` zero, `%i18:19` -1, `%i20:21` one,
/// `%i22` zero, `%i10` counts the iterations; `%r4` is a device, `%r5` its allocator, `%r6` a VM buffer of 64 KiB,
/// `%r7` one of a device of 64 KiB, `%r8` null, `%r9` a fence that is never signalled.
const KINDS: &[Kind] = &[
    Kind { name: "buffers", body: "%r2 = vm.buffer.alloc %i14:15, %i2", largest: 1 << 22 },
    Kind { name: "clones", body: "%r2 = vm.buffer.clone %r6, %i16:17, %i14:15, %i2", largest: 1 << 16 },
    Kind {
        name: "inline_buffers",
        body: "%r2, %r3 = vm.call @hal_inline.buffer.allocate(%i2, %i14:15)",
        largest: 1 << 22,
    },
    Kind {
        name: "inline_initialized",
        body: "%r2, %r3 = vm.call @hal_inline.buffer.allocate.initialized(%i2, %r6, %i16:17, %i14:15)",
        largest: 1 << 16,
    },
    Kind {
        name: "inline_storages",
        body: "%r2, %r3 = vm.call @hal_inline.buffer.allocate(%i2, %i14:15)
  %r2 = vm.call @hal_inline.buffer.storage(%r2)",
        largest: 1 << 22,
    },
    Kind { name: "storages", body: "%r2 = vm.call @hal_inline.buffer.storage(%r7)", largest: 0 },
    Kind { name: "wraps", body: "%r2 = vm.call @hal_inline.buffer.wrap(%r6, %i16:17, %i14:15)", largest: 1 << 16 },
    Kind {
        name: "wraps_of_storages",
        body: "%r2 = vm.call @hal_inline.buffer.storage(%r7)
  %r2 = vm.call @hal_inline.buffer.wrap(%r2, %i16:17, %i14:15)",
        largest: 1 << 16,
    },
    Kind {
        name: "device_buffers",
        body: "%r2 = vm.call @hal.allocator.allocate(%r5, %i18:19, %i66, %i67, %i14:15)",
        largest: 1 << 22,
    },
    Kind {
        name: "imports",
        body: "%r2 = vm.call @hal.allocator.import(%r5, %i22, %i18:19, %i66, %i67, %r6, %i16:17, %i14:15)",
        largest: 1 << 16,
    },
    Kind {
        name: "imports_of_constants",
        body: "%r2 = vm.const.ref.rodata 0
  %r2 = vm.call @hal.allocator.import(%r5, %i22, %i18:19, %i66, %i72, %r2, %i16:17, %i24:25)",
        largest: 0,
    },
    Kind { name: "subspans", body: "%r2 = vm.call @hal.buffer.subspan(%r7, %i20:21, %i20:21)", largest: 0 },
    Kind {
        name: "views",
        body: "%r2 = vm.call.variadic @hal.buffer_view.create segments[65535, 65535, 65535, 65535, 65535, 1](%r7, %i16:17, %i18:19, %i68, %i69, %i20:21)",
        largest: 0,
    },
    Kind {
        name: "views_of_high_rank",
        body: "%r2 = vm.call.variadic @hal.buffer_view.create segments[65535, 65535, 65535, 65535, 65535, 12](%r7, %i20:21, %i20:21, %i68, %i69, %i20:21, %i20:21, %i20:21, %i20:21, %i20:21, %i20:21, %i20:21, %i20:21, %i20:21, %i20:21, %i20:21, %i20:21)",
        largest: 0,
    },
    Kind { name: "lists_of_bytes", body: "%r2 = vm.list.alloc %i1 : !vm.list<i8>", largest: 1 << 20 },
    Kind {
        name: "lists_that_grew",
        body: "%r2 = vm.list.alloc %i22 : !vm.list<i64>
  vm.list.resize %r2, %i1",
        largest: 1 << 16,
    },
    Kind {
        name: "lists_of_lists",
        body: "%r2 = vm.list.alloc %i11 : !vm.list<!vm.opaque>
  vm.list.resize %r2, %i11
  vm.list.set.ref %r2, %i22, %R3
  %r3 = vm.list.alloc %i11 : !vm.list<!vm.opaque>
  vm.list.resize %r3, %i11
  vm.list.set.ref %r3, %i22, %R2
  %r2 = vm.list.alloc %i11 : !vm.list<i8>",
        largest: 0,
    },
    Kind {
        name: "failed_fences",
        body: "%r2 = vm.call @hal.fence.create(%r4, %i16:17)
  vm.call @hal.fence.fail(%r2, %i70)",
        largest: 0,
    },
    Kind { name: "fences", body: "%r2 = vm.call @hal.fence.create(%r4, %i16:17)", largest: 0 },
    Kind {
        name: "joins",
        body: "%r2 = vm.call @hal.fence.create(%r4, %i16:17)
  %r3 = vm.call @hal.fence.create(%r4, %i16:17)
  %r2 = vm.call.variadic @hal.fence.join segments[65535, 3](%i16:17, %r2, %r3, %r9)",
        largest: 0,
    },
    Kind {
        name: "command_buffers",
        body: "%r2 = vm.call @hal.command_buffer.create(%r4, %i22, %i70, %i18:19, %i22)
  vm.call @hal.command_buffer.finalize(%r2)",
        largest: 0,
    },
    Kind {
        name: "command_buffers_with_commands",
        body: "%r2 = vm.call @hal.command_buffer.create(%r4, %i22, %i70, %i18:19, %i22)
  vm.call @hal.command_buffer.fill_buffer(%r2, %r7, %i16:17, %i20:21, %i22, %i16:17, %i11, %i16:17)
  vm.call @hal.command_buffer.execution_barrier(%r2, %i71, %i71, %i16:17)
  vm.call @hal.command_buffer.fill_buffer(%r2, %r7, %i16:17, %i20:21, %i22, %i16:17, %i11, %i16:17)
  vm.call @hal.command_buffer.update_buffer(%r2, %r6, %i16:17, %r7, %i16:17, %i14:15, %i22, %i16:17)
  vm.call @hal.command_buffer.finalize(%r2)",
        largest: 1 << 16,
    },
    Kind {
        name: "command_buffers_with_labels",
        body: "%r2 = vm.call @hal.command_buffer.create(%r4, %i22, %i70, %i18:19, %i22)
  %r3 = vm.const.ref.rodata 0
  vm.call @hal.command_buffer.begin_debug_group(%r2, %R3)
  vm.call @hal.command_buffer.end_debug_group(%r2)
  vm.call @hal.command_buffer.finalize(%r2)",
        largest: 0,
    },
    Kind {
        name: "files",
        body: "%r2 = vm.call @hal.ex.file.from_memory(%r4, %i18:19, %i11, %r6, %i16:17, %i14:15, %i22)",
        largest: 1 << 16,
    },
    Kind {
        name: "transient_buffers",
        body: "%r2 = vm.call @hal.device.queue.alloca(%r4, %i18:19, %r8, %r8, %i16:17, %i66, %i67, %i14:15, %i16:17)",
        largest: 1 << 22,
    },
    Kind {
        name: "pending_transient_buffers",
        body: "%r3 = vm.call @hal.fence.create(%r4, %i16:17)
  %r2 = vm.call @hal.device.queue.alloca(%r4, %i18:19, %r9, %R3, %i16:17, %i66, %i67, %i14:15, %i16:17)",
        largest: 1 << 22,
    },
    Kind {
        name: "pending_barriers",
        body: "%r2 = vm.call @hal.fence.create(%r4, %i16:17)
  vm.call @hal.device.queue.barrier(%r4, %i18:19, %r9, %r2, %i16:17)",
        largest: 0,
    },
    Kind {
        name: "chained_barriers",
        body: "%r2 = vm.call @hal.fence.create(%r4, %i16:17)
  vm.call @hal.device.queue.barrier(%r4, %i18:19, %r9, %r2, %i16:17)
  %r9 = vm.assign.ref %r2",
        largest: 0,
    },
    Kind {
        name: "pending_fills",
        body: "%r2 = vm.call @hal.fence.create(%r4, %i16:17)
  vm.call @hal.device.queue.fill(%r4, %i18:19, %r9, %r2, %r7, %i16:17, %i20:21, %i16:17, %i11, %i16:17)",
        largest: 0,
    },
    Kind {
        name: "pending_updates",
        body: "%r2 = vm.call @hal.fence.create(%r4, %i16:17)
  vm.call @hal.device.queue.update(%r4, %i18:19, %r9, %r2, %r6, %i16:17, %r7, %i16:17, %i14:15, %i16:17)",
        largest: 1 << 16,
    },
    Kind {
        name: "executables",
        body: "%r2 = vm.const.ref.rodata 1
  %r3 = vm.const.ref.rodata 2
  %r2 = vm.call @hal.executable.create(%r4, %i18:19, %R2, %R3, %r8)",
        largest: 0,
    },
];

/// Bytes of the constant that is imported.
const CONSTANT_BYTES: usize = 5000;

const IMPORTS: &str = "
vm.import @hal.devices.get cconv \"0i_r\"
vm.import @hal.device.allocator cconv \"0r_r\"
vm.import @hal.fence.create cconv \"0rI_r\"
vm.import @hal.fence.fail cconv \"0ri_v\"
vm.import @hal.fence.join cconv \"0ICrD_r\"
vm.import @hal.device.queue.barrier cconv \"0rIrrI_v\"
vm.import @hal.device.queue.alloca cconv \"0rIrrIiiII_r\"
vm.import @hal.device.queue.fill cconv \"0rIrrrIIIiI_v\"
vm.import @hal.device.queue.update cconv \"0rIrrrIrIII_v\"
vm.import @hal.allocator.allocate cconv \"0rIiiI_r\"
vm.import @hal.allocator.import cconv \"0riIiirII_r\"
vm.import @hal.buffer.subspan cconv \"0rII_r\"
vm.import @hal.buffer_view.create cconv \"0rIIiiCID_r\"
vm.import @hal.command_buffer.create cconv \"0riiIi_r\"
vm.import @hal.command_buffer.begin_debug_group cconv \"0rr_v\"
vm.import @hal.command_buffer.end_debug_group cconv \"0r_v\"
vm.import @hal.command_buffer.fill_buffer cconv \"0rrIIiIiI_v\"
vm.import @hal.command_buffer.update_buffer cconv \"0rrIrIIiI_v\"
vm.import @hal.command_buffer.execution_barrier cconv \"0riiI_v\"
vm.import @hal.command_buffer.finalize cconv \"0r_v\"
vm.import @hal.executable.create cconv \"0rIrrr_r\"
vm.import @hal.ex.file.from_memory cconv \"0rIirIIi_r\"
vm.import @hal_inline.buffer.allocate cconv \"0iI_rr\"
vm.import @hal_inline.buffer.allocate.initialized cconv \"0irII_rr\"
vm.import @hal_inline.buffer.wrap cconv \"0rII_r\"
vm.import @hal_inline.buffer.storage cconv \"0r_r\"
";

/// A kernel, which does nothing.
const KERNEL: &str = "
vm.module @kernel version 0
vm.type i32
vm.type !vm.buffer
vm.type !vm.list<!vm.buffer>
vm.export @k
vm.func @k(%r0: !vm.buffer, %r1: !vm.buffer, %r2: !vm.list<!vm.buffer>, %i0: i32, %i1: i32, %i2: i32, %i3: i32, %i4: i32, %i5: i32, %i6: i32, %i7: i32, %i8: i32) -> () {
^bb0:
  vm.return
}
";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A module with a function for each kind, which makes so many objects of a size and an alignment, and returns a list
/// of them.
fn program() -> Vec<u8> {
    let mut text = String::from(
        "vm.module @memory version 0
vm.type i8
vm.type i64
vm.type !vm.buffer
vm.type !vm.list<!vm.opaque>
vm.type !vm.list<i8>
vm.type !vm.list<i64>
",
    );
    let kernel = assemble(KERNEL).expect("is a module");
    for (index, bytes) in [&[b'x'; CONSTANT_BYTES][..], b"vmvx-bytecode-fb", &kernel].into_iter().enumerate() {
        let _ = writeln!(text, "vm.rodata[{index}] = {}", hex(bytes));
    }
    text.push_str(IMPORTS);
    for Kind { name, body, .. } in KINDS {
        let _ = write!(
            text,
            "
vm.export @{name}
vm.func @{name}(%i0: i32, %i1: i32, %i2: i32) -> (!vm.list<!vm.opaque>) {{
^bb0:
  %i10 = vm.const.i32.zero
  %i11 = vm.const.i32 1
  %i14:15 = vm.ext.i32.i64.u %i1
  %i16:17 = vm.const.i64.zero
  %i18:19 = vm.const.i64 -1
  %i20:21 = vm.const.i64 1
  %i22 = vm.const.i32.zero
  %i24:25 = vm.const.i64 {CONSTANT_BYTES}
  %i26:27 = vm.const.i64 65536
  %i66 = vm.const.i32 50
  %i67 = vm.const.i32 0x3010C03
  %i72 = vm.const.i32 0x3080C03
  %i68 = vm.const.i32 0x10000008
  %i69 = vm.const.i32 1
  %i70 = vm.const.i32 3
  %i71 = vm.const.i32 31
  %r4 = vm.call @hal.devices.get(%i22)
  %r5 = vm.call @hal.device.allocator(%r4)
  %r6 = vm.buffer.alloc %i26:27, %i22
  %r7 = vm.call @hal.allocator.allocate(%r5, %i18:19, %i66, %i67, %i26:27)
  %r8 = vm.const.ref.zero
  %r9 = vm.call @hal.fence.create(%r4, %i16:17)
  %i12 = vm.add.i32 %i0, %i11
  %r1 = vm.list.alloc %i12 : !vm.list<!vm.opaque>
  vm.list.resize %r1, %i12
  vm.list.set.ref %r1, %i0, %r9
  vm.br ^bb1
^bb1:
  {body}
  vm.list.set.ref %r1, %i10, %R2
  %i10 = vm.add.i32 %i10, %i11
  %i12 = vm.cmp.lt.i32.s %i10, %i0
  vm.cond_br %i12, ^bb1, ^bb2
^bb2:
  vm.return %r1
}}
"
        );
    }
    assemble(&text).unwrap_or_else(|error| panic!("{error}"))
}

/// A generator of random numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number from 1 to `largest`, each octave as often as any other.
    fn size(&mut self, largest: u64) -> u64 {
        let octave = self.next() % u64::from(u64::BITS - largest.leading_zeros());
        ((1 << octave) + self.next() % (1 << octave)).min(largest)
    }
}

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap_or_else(|error| panic!("{name}: {error}")))
}

/// About so many bytes are allocated of each kind.
const BYTES: u64 = 24 << 20;
/// Free lists and caches of threads, and what grows by doubling, may have so many bytes.
const SLACK: u64 = 320 << 10;

/// One test at a time measures the memory of the process.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn programs_have_no_more_memory_than_they_are_charged() -> Result<()> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let seed = from_environment("VIREO_MEMORY_SEED", 39);
    let mut random = Random(seed);
    let program = program();
    let mut failures = Vec::new();
    for round in 0..from_environment("VIREO_MEMORY_ROUNDS", 3) {
        for uri in ["local-sync", "local-task"] {
            let budget = MemoryBudget::new(4 << 30);
            let policy = SecurityPolicy::untrusted();
            let limits = Limits {
                timeout: Some(Duration::from_secs(300)),
                memory: Some(budget.clone()),
                dispatch: DispatchMode::Auto,
                ..policy.limits
            };
            let policy = SecurityPolicy { limits: limits.clone(), ..policy };
            let registry = BuiltinOptions { policy, ..BuiltinOptions::default() }.registry();
            let device = registry.create_device(uri)?;
            let modules = [
                Module::native(HalInlineModule::new(device.allocator()))?,
                Module::native(HalModule::new(vec![Arc::clone(&device)]))?,
                Module::from_bytes(&program)?,
            ];
            let context = Context::with_limits(modules, limits.clone())?;
            for kind in KINDS {
                let size = if kind.largest > 0 { random.size(kind.largest as u64) } else { 1 };
                let alignment = 1 << (random.next() % 17);
                let count = (BYTES / (size.max(alignment) + 1024)).clamp(2, 20_000) as i32;
                let call = |count| -> Result<Vec<Value>> {
                    let arguments = [count, size as i32, alignment as i32].map(Value::I32);
                    context.function(&format!("memory.{}", kind.name))?.call_with(&arguments, limits.clone())
                };
                let what = || format!("{uri}: {count} {} of {size} bytes aligned to {alignment}", kind.name);
                // The first call makes things that stay.
                drop(call(2).map_err(|status| status.context(what()))?);
                let measure = || (ALLOCATED.load(Ordering::SeqCst), budget.used());
                let before = measure();
                let held = call(count).map_err(|status| status.context(what()))?;
                let after = measure();
                let (allocated, charged) = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
                if std::env::var_os("VIREO_MEMORY_SHOW").is_some() {
                    let each = |bytes: u64| bytes / count as u64;
                    println!("{}: {} of {} bytes charged for each", what(), each(allocated), each(charged));
                }
                if allocated > charged + charged / 10 + SLACK {
                    failures.push(format!("round {round}, {}: {allocated} bytes, {charged} charged", what()));
                }
                assert!(matches!(&held[..], [Value::Ref(Some(list))] if list.is::<List>()));
                drop::<Vec<Value>>(held);
                let rest = budget.used();
                if rest > before.1 + SLACK {
                    failures.push(format!("round {round}, {}: {} bytes stay charged", what(), rest - before.1));
                }
            }
        }
    }
    assert!(failures.is_empty(), "seed {seed}:\n{}", failures.join("\n"));
    Ok(())
}

/// Results of these sizes, which a host keeps: just above powers of two, which are the worst for size classes, and of
/// all residues.
fn sizes_of_results(seed: u64) -> Vec<(String, Vec<u64>)> {
    let mut random = Random(seed);
    let drawn = |random: &mut Random, largest| (0..2000).map(|_| random.size(largest)).collect::<Vec<u64>>();
    let mut sizes: Vec<_> =
        [32_800, 16_400, 8_200, 65_540, 70_000].map(|size| (format!("{size} bytes"), vec![size; 2000])).into();
    for largest in [1 << 16, 1 << 18] {
        sizes.push((format!("1 to {largest} bytes, log-uniform"), drawn(&mut random, largest)));
    }
    sizes
}

/// Results that a host keeps cost their size and little more, however often others of other sizes were made and dropped
/// before; and when they are dropped, what stays is what the free lists hold (`docs/devices.md`), until the device is
/// trimmed.
#[test]
fn results_that_are_kept_cost_their_size() -> Result<()> {
    /// Bytes of the object itself and what the system's allocator needs for it.
    const OBJECT: u64 = 640;
    /// Bytes that free lists of a thread and of workers keep.
    const FREE: u64 = 8 << 20;

    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let seed = from_environment("VIREO_MEMORY_SEED", 39);
    let usage = BufferUsage::DEFAULT | BufferUsage::MAPPING;
    let params = BufferParams { memory_type: MemoryType::OPTIMAL_FOR_HOST, usage, ..BufferParams::default() };
    for uri in ["local-sync", "local-task"] {
        let device: Arc<dyn Device> = BuiltinOptions::default().registry().create_device(uri)?;
        let allocated = || ALLOCATED.load(Ordering::SeqCst);
        let hold = |sizes: &[u64]| -> Result<Vec<Arc<dyn Buffer>>> {
            let flags = AllocaFlags::empty();
            let alloca = |size: &u64| device.queue_alloca(QueueAffinity::ANY, &[], &[], None, params, *size, flags);
            sizes.iter().map(alloca).collect()
        };
        let start = allocated();
        for (what, sizes) in sizes_of_results(seed) {
            let data: u64 = sizes.iter().sum();
            // Twice: the second time there are free buffers and blocks of these and of other sizes.
            for round in ["first", "again"] {
                device.trim()?;
                let before = allocated();
                let held = hold(&sizes)?;
                let taken = allocated() - before;
                let most = data / 10 + data;
                assert!(
                    taken <= most.max(data + OBJECT * sizes.len() as u64),
                    "{uri}, {what}, {round}: {taken} bytes for {data}, seed {seed}"
                );
                // Half of them go, and as many of other sizes take their place.
                let mut held: Vec<_> = held.into_iter().step_by(2).collect();
                let others: Vec<u64> = sizes.iter().step_by(2).map(|size| size - size / 9).collect();
                held.extend(hold(&others)?);
                let data: u64 = held.iter().map(|buffer| buffer.byte_length()).sum();
                let taken = allocated() - before;
                let most = (data / 10 + data).max(data + OBJECT * held.len() as u64) + FREE;
                assert!(taken <= most, "{uri}, {what}, {round}, mixed: {taken} bytes for {data}, seed {seed}");
                drop(held);
            }
        }
        device.trim()?;
        let left = allocated().saturating_sub(start);
        assert!(left < 1 << 20, "{uri}: {left} bytes are left after all was dropped, seed {seed}");
    }
    Ok(())
}
