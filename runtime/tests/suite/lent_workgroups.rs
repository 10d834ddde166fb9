//! Kernels that are called for one workgroup after the other with references that are lent to them: programs that keep,
//! replace, move, return or lose these do the same on every dispatcher, and no count is lost or left over.

use std::panic::{AssertUnwindSafe, catch_unwind};

use vireo::asm::assemble;
use vireo::interp::{DispatchMode, LendableObjects, Limits};
use vireo::vm::list::ListType;
use vireo::vm::{Buffer, Context, List, Module, Obj, Ref};
use vireo::{Fuel, MemoryBudget, Result, Status, StatusCode, vm_module};

/// The arguments of the kernels here: a buffer, a list of buffers, and the number of the workgroup.
type Parameters = (Obj<Buffer>, Obj<List>, i32);

struct Arguments(Parameters);

impl AsRef<Parameters> for Arguments {
    fn as_ref(&self) -> &Parameters {
        &self.0
    }
}

struct Host;

#[vm_module(name = "host")]
impl Host {
    /// Fails or panics at some workgroups.
    #[vm_export("look")]
    fn look(&self, buffer: Option<&Obj<Buffer>>, id: i32) -> Result<i32> {
        match id {
            5 => Err(Status::new(StatusCode::DataLoss, "it is lost")),
            6 => panic!("it is six"),
            _ => Ok(i32::from(buffer.is_some())),
        }
    }

    #[vm_export("keep")]
    fn keep(&self, buffer: Option<Obj<Buffer>>) -> Result<Option<Ref>> {
        Ok(buffer.map(Obj::into_ref))
    }
}

const HEADER: &str = r#"
vm.module @m version 0
vm.type i32
vm.type !vm.buffer
vm.type !vm.list<!vm.buffer>
vm.type !vm.opaque
vm.import @host.look cconv "0ri_i"
vm.import @host.keep cconv "0r_r"
vm.rodata[0] = 00010203
vm.global.ref mutable @g0 : !vm.buffer
vm.global.ref mutable @g1 : !vm.buffer
vm.global.ref mutable @g2 : !vm.list<!vm.buffer>
vm.export @kernel
vm.export @second
"#;

/// A kernel that is called between dispatches of the first one, in a frame of another size. It comes last.
const SECOND: &str = "
vm.func @second(%r0: !vm.buffer, %r1: !vm.list<!vm.buffer>, %i0: i32) -> () {
^bb0:
  %i2:3 = vm.const.i64 32
  %i4 = vm.const.i32.zero
  %i6:7 = vm.ext.i32.i64.u %i0
  %r9 = vm.buffer.alloc %i2:3, %i4
  %r7 = vm.list.get.ref %r1, %i4 : !vm.buffer
  %i20 = vm.buffer.load.i32 %r9, %i6:7
  %i20 = vm.add.i32 %i20, %i0
  vm.buffer.store.i32 %i20, %r9, %i6:7
  %i20 = vm.buffer.load.i32 %r9, %i6:7
  vm.buffer.store.i32 %i20, %r7, %i6:7
  vm.discard.refs %r0, %r1, %r7, %r9
  vm.return
}
";

const KERNEL: &str = "vm.func @kernel(%r0: !vm.buffer, %r1: !vm.list<!vm.buffer>, %i0: i32) -> ()";

/// Before each body: `%i1` to `%i4` are 0 to 3, `%i6:7` is the number of the workgroup, and `%i10:11` is 64.
const CONSTANTS: &str = "
  %i1 = vm.const.i32.zero
  %i2 = vm.const.i32 1
  %i3 = vm.const.i32 2
  %i4 = vm.const.i32 3
  %i6:7 = vm.ext.i32.i64.u %i0
  %i10:11 = vm.const.i64 64
";

fn list_of_buffers() -> List {
    List::new(ListType::Ref("vm.buffer".to_string()), 0).expect("is empty")
}

/// The effects of a program: how each of its dispatches ended, and the buffers after it.
type Observed = Vec<(String, Vec<Vec<u8>>)>;

/// The steps that programs may take within limits. Some take more.
const STEPS: u64 = 100;

/// Runs two dispatches of eight workgroups, and goes on after a workgroup that has failed. Within limits, the last
/// effect is the fuel that is left.
fn observe(text: &str, dispatch: DispatchMode, is_limited: bool) -> Observed {
    let bytes = assemble(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let modules = [Module::native(Host).expect("is a module"), Module::from_bytes(&bytes).expect("loads")];
    let mut all = Limits { dispatch, ..Limits::default() };
    if is_limited {
        // The stack of a call takes half of it.
        (all.fuel, all.memory) = (Some(Fuel::new(STEPS)), Some(MemoryBudget::new(256 << 10)));
    }
    let context = Context::with_limits(modules, all.clone()).expect("starts");
    let limits = is_limited.then_some(&all);
    let target = context.typed_at::<Parameters, ()>(1, 0).expect("is a kernel");
    let allocate = || Obj::new(Buffer::allocate(64, 0).expect("is small"));
    let (mut own, mut buffers) = (allocate(), [allocate(), allocate(), allocate()]);
    let list = Obj::new(list_of_buffers());
    let mut arguments = Arguments((own.clone(), list.clone(), 0));
    let other = context.typed_at::<Parameters, ()>(1, text.matches("vm.func ").count() - 1).expect("is a kernel");
    let (mut other_buffer, other_list) = (allocate(), Obj::new(list_of_buffers()));
    other_list.assign([&other_buffer].into_iter().map(AsRef::as_ref));
    let mut other_arguments = Arguments((other_buffer.clone(), other_list.clone(), 0));
    let (mut lendable, mut other_lendable) =
        (LendableObjects::new(list.clone()), LendableObjects::new(other_list.clone()));
    let (mut observed, mut is_whole) = (Vec::new(), true);
    for _ in 0..2 {
        let mut ids = 0..8;
        let mut ends = String::new();
        while !ids.is_empty() {
            let next = |arguments: &mut Arguments, changed: Option<&Obj<List>>| {
                let Some(id) = ids.next() else { return Ok(false) };
                arguments.0.2 = id;
                if let Some(list) = changed {
                    list.assign(buffers.iter().map(AsRef::as_ref));
                }
                let is_at = |(index, buffer): (usize, &Obj<Buffer>)| {
                    list.get_ref(index, false).is_ok_and(|element| element.as_ref() == Some(buffer.as_ref()))
                };
                is_whole &= list.len() == buffers.len() && buffers.iter().enumerate().all(is_at);
                Ok(true)
            };
            // SAFETY: `next` changes the list if it may have been changed. Nothing else does, as the other function
            // keeps no reference.
            let called = || unsafe { context.call_each(&target, limits, &mut lendable, &mut arguments, next) };
            match catch_unwind(AssertUnwindSafe(called)) {
                Ok(Ok(())) => ends.push_str("done;"),
                Ok(Err(status)) => ends.push_str(&format!("{status};")),
                Err(_) => ends.push_str("panic;"),
            }
        }
        let mut ids = 1..4;
        let next = |arguments: &mut Arguments, _: Option<&Obj<List>>| {
            let id = ids.next();
            arguments.0.2 = id.unwrap_or(0);
            Ok(id.is_some())
        };
        // SAFETY: nothing changes the list.
        let called = unsafe { context.call_each(&other, limits, &mut other_lendable, &mut other_arguments, next) };
        if all.fuel.as_ref().is_some_and(|fuel| fuel.left() == 0) {
            continue;
        }
        assert!(called.is_ok(), "{called:?}\n{text}");
        assert_eq!(words(&other_buffer.to_vec())[..5], [0, 1, 2, 3, 0], "{text}");
        observed.push((ends, buffers.iter().chain([&own]).map(|buffer| buffer.to_vec()).collect()));
    }
    assert!(is_whole, "a workgroup got a list that another one has changed\n{text}");
    drop((arguments, lendable, list, target, other_arguments, other_lendable, other_list, other, context));
    for buffer in buffers.iter_mut().chain([&mut own, &mut other_buffer]) {
        assert!(buffer.get_mut().is_some(), "a count is left over\n{text}");
    }
    if let Some(budget) = &all.memory {
        assert_eq!(budget.used(), 0, "memory is counted that nothing has\n{text}");
    }
    if let Some(fuel) = &all.fuel {
        observed.push((format!("{} steps are left", fuel.left()), Vec::new()));
    }
    observed
}

/// The effects of a program with this body, on every dispatcher, without limits and within some.
fn check(body: &str) -> Observed {
    let text = format!("{HEADER}{body}{SECOND}");
    let [unlimited, limited] = [false, true].map(|is_limited| {
        let expected = observe(&text, DispatchMode::Loop, is_limited);
        for dispatch in [DispatchMode::Threaded, DispatchMode::Compiled] {
            assert_eq!(observe(&text, dispatch, is_limited), expected, "{dispatch:?}, {is_limited}\n{text}");
        }
        expected
    });
    let has_fuel = limited.last().is_some_and(|(left, _)| left != "0 steps are left");
    assert!(!has_fuel || limited.starts_with(&unlimited), "{unlimited:?} within limits becomes {limited:?}\n{text}");
    unlimited
}

/// A program of one block.
fn kernel(ops: &str) -> String {
    format!("{KERNEL} {{\n^bb0:{CONSTANTS}{ops}\n  vm.return\n}}\n")
}

fn words(bytes: &[u8]) -> Vec<i32> {
    bytes.chunks_exact(4).map(|word| i32::from_le_bytes(word.try_into().expect("a word"))).collect()
}

#[test]
fn elements_of_the_list_are_read_and_registers_discarded() {
    let observed = check(&kernel(
        "  %r2 = vm.list.get.ref %r1, %i3 : !vm.buffer
  %r3 = vm.list.get.ref %r1, %i1 : !vm.opaque
  vm.discard.refs %r1, %r0
  vm.buffer.store.i32 %i0, %r2, %i6:7
  vm.discard.refs %r2
  %i8 = vm.cmp.nz.ref %r2
  %i9 = vm.cmp.nz.ref %r0
  %i10 = vm.cmp.nz.ref %r4
  %i8 = vm.add.i32 %i8, %i9
  %i8 = vm.add.i32 %i8, %i10
  vm.buffer.store.i32 %i8, %r3, %i6:7",
    ));
    for (ends, buffers) in observed {
        assert_eq!(ends, "done;");
        assert_eq!(words(&buffers[2])[..8], [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(words(&buffers[0])[..8], [0; 8]);
    }
}

#[test]
fn buffers_of_a_workgroup_are_its_own() {
    // Each workgroup finds zeros in its buffer, and fills it; elements and constants take the place of buffers, and the
    // reverse.
    let observed = check(&kernel(
        "  vm.discard.refs %r0
  %r2 = vm.buffer.alloc %i10:11, %i1
  %r3 = vm.list.get.ref %r1, %i1 : !vm.buffer
  %i8 = vm.buffer.load.i32 %r2, %i6:7
  %i8 = vm.add.i32 %i8, %i0
  vm.buffer.store.i32 %i8, %r2, %i6:7
  %i8 = vm.buffer.load.i32 %r2, %i6:7
  vm.buffer.store.i32 %i8, %r3, %i6:7
  %r3 = vm.buffer.alloc %i10:11, %i1
  %r2 = vm.list.get.ref %r1, %i2 : !vm.buffer
  %r4 = vm.const.ref.rodata 0
  %i12:13 = vm.const.i64.zero
  %i8 = vm.buffer.load.i32 %r4, %i12:13
  %r4 = vm.buffer.alloc %i10:11, %i1
  vm.discard.refs %r3, %r1
  vm.buffer.store.i32 %i8, %r2, %i6:7",
    ));
    for (ends, buffers) in observed {
        assert_eq!(ends, "done;");
        assert_eq!(words(&buffers[0])[..8], [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(words(&buffers[1])[..8], [0x0302_0100; 8]);
    }
}

#[test]
fn an_op_allocates_another_buffer_each_time() {
    // In a loop, and with another length in each workgroup: a workgroup finds zeros, and those with odd numbers keep a
    // buffer, which is as it was left when later ones have allocated theirs.
    let observed = check(&format!(
        "{KERNEL} {{
^bb0:{CONSTANTS}
  %r2 = vm.list.get.ref %r1, %i1 : !vm.buffer
  %i5 = vm.const.i32.zero
  %i9 = vm.const.i32 12
  %i12:13 = vm.const.i64.zero
  %i14:15 = vm.const.i64 4
  %i16:17 = vm.const.i64 1
  %i18:19 = vm.add.i64 %i6:7, %i16:17
  %i18:19 = vm.mul.i64 %i18:19, %i14:15
  %i24 = vm.const.i32 100
  %i24 = vm.mul.i32 %i24, %i0
  %i25 = vm.const.i32.zero
  vm.br ^bb1()
^bb1:
  %r3 = vm.buffer.alloc %i10:11, %i1
  %r4 = vm.buffer.alloc %i18:19, %i1
  %i20 = vm.buffer.load.i32 %r3, %i12:13
  %i25 = vm.add.i32 %i25, %i20
  %i20 = vm.buffer.load.i32 %r4, %i6:7
  %i25 = vm.add.i32 %i25, %i20
  %i5 = vm.add.i32 %i5, %i2
  %i20 = vm.add.i32 %i24, %i5
  vm.buffer.store.i32 %i20, %r3, %i12:13
  vm.buffer.store.i32 %i20, %r4, %i6:7
  %i20 = vm.cmp.lt.i32.s %i5, %i9
  vm.cond_br %i20, ^bb1(), ^bb2()
^bb2:
  %i20 = vm.buffer.load.i32 %r3, %i12:13
  %i25 = vm.add.i32 %i25, %i20
  %i20 = vm.const.i32 5
  %i20 = vm.cmp.lt.i32.s %i20, %i0
  vm.cond_br %i20, ^bb3(), ^bb4()
^bb3:
  %r5 = vm.global.load.ref .refs[0] : !vm.buffer
  %i25 = vm.buffer.load.i32 %r5, %i12:13
  vm.br ^bb4()
^bb4:
  vm.buffer.store.i32 %i25, %r2, %i6:7
  %i20 = vm.and.i32 %i0, %i2
  vm.cond_br %i20, ^bb5(), ^bb6()
^bb5:
  vm.global.store.ref %r3, .refs[0] : !vm.buffer
  vm.br ^bb6()
^bb6:
  vm.discard.refs %r1, %r2, %r3, %r4
  vm.return
}}
"
    ));
    for (ends, buffers) in observed {
        assert_eq!(ends, "done;");
        assert_eq!(words(&buffers[0])[..8], [12, 112, 212, 312, 412, 512, 512, 512]);
    }
}

#[test]
fn references_are_kept_in_globals() {
    let observed = check(&kernel(
        "  %r2 = vm.list.get.ref %r1, %i2 : !vm.buffer
  %r3 = vm.global.load.ref .refs[0] : !vm.buffer
  %i8 = vm.cmp.eq.ref %r2, %r3
  vm.buffer.store.i32 %i8, %r0, %i6:7
  %r4 = vm.list.get.ref %r1, %i1 : !vm.buffer
  vm.global.store.ref %R2, .refs[0] : !vm.buffer
  vm.global.store.ref %r4, .refs[1] : !vm.buffer
  vm.global.store.ref %r1, .refs[2] : !vm.list<!vm.buffer>
  vm.discard.refs %r4, %r1",
    ));
    assert_eq!(words(&observed[0].1[3])[..8], [0, 1, 1, 1, 1, 1, 1, 1]);
    assert_eq!(words(&observed[1].1[3])[..8], [1; 8]);
}

#[test]
fn a_list_that_is_changed_is_whole_for_the_next_workgroup() {
    let observed = check(&kernel(
        "  vm.list.set.ref %r1, %i1, %r0
  %r2 = vm.list.get.ref %r1, %i1 : !vm.buffer
  %i8 = vm.cmp.eq.ref %r2, %r0
  vm.buffer.store.i32 %i8, %r2, %i6:7
  %R3 = vm.list.get.ref %r1, %i2 : !vm.buffer
  %r4 = vm.list.get.ref %r1, %i2 : !vm.buffer
  %i9 = vm.cmp.nz.ref %r4
  vm.buffer.store.i32 %i9, %r3, %i6:7
  vm.list.resize %r1, %i2
  vm.list.set.ref %r1, %i1, %R3",
    ));
    for (ends, buffers) in observed {
        assert_eq!(ends, "done;");
        assert_eq!(words(&buffers[3])[..8], [1; 8]);
        assert_eq!(words(&buffers[1])[..8], [0; 8]);
    }
}

#[test]
fn failures_release_what_was_lent_once() {
    // Each dispatch fails at most of its workgroups: at different ops, with different registers in use.
    for failing in [
        "  %r3 = vm.list.get.ref %r1, %i0 : !vm.buffer\n  vm.discard.refs %r1\n  vm.buffer.store.i32 %i0, %r3, %i6:7",
        "  %r3 = vm.list.get.ref %r1, %i1 : !vm.buffer\n  %i8:9 = vm.mul.i64 %i6:7, %i6:7\n  vm.buffer.store.i32 %i0, %r3, %i8:9",
        "  vm.discard.refs %r0, %r1\n  vm.buffer.store.i32 %i0, %r0, %i6:7",
        "  %i8 = vm.const.i32 -1\n  %r3 = vm.list.get.ref %r1, %i8 : !vm.buffer",
        "  %r3 = vm.list.get.ref %r4, %i1 : !vm.buffer",
        "  %r3 = vm.list.get.ref %r1, %i2 : !vm.buffer\n  %i8 = vm.call @host.look(%r3, %i0)\n  vm.buffer.store.i32 %i8, %r3, %i6:7",
        "  %r3 = vm.list.get.ref %r1, %i2 : !vm.buffer\n  %r2 = vm.call @host.keep(%r3)\n  %R3 = vm.call @host.keep(%R2)\n  \
         vm.buffer.store.i32 %i0, %r3, %i6:7",
        "  %r3 = vm.list.get.ref %r1, %i2 : !vm.buffer\n  vm.fail %i0, \"reason\"",
    ] {
        let text = if failing.contains("vm.fail") {
            format!("{KERNEL} {{\n^bb0:{CONSTANTS}{failing}\n}}\n")
        } else {
            kernel(failing)
        };
        check(&text);
    }
}

#[test]
fn branches_calls_and_yields_take_references_along() {
    // Registers change places in a loop, in which an element is read.
    check(&format!(
        "{KERNEL} {{
^bb0:{CONSTANTS}
  %r2 = vm.list.get.ref %r1, %i1 : !vm.buffer
  %r3 = vm.list.get.ref %r1, %i2 : !vm.buffer
  %i8 = vm.const.i32.zero
  vm.br ^bb1()
^bb1:
  vm.buffer.store.i32 %i8, %r2, %i6:7
  %r4 = vm.list.get.ref %r1, %i8 : !vm.buffer
  %i8 = vm.add.i32 %i8, %i2
  %i9 = vm.cmp.lt.i32.s %i8, %i4
  vm.cond_br %i9, ^bb1(%R2->%r3, %R3->%r2), ^bb2(%r4->%r2)
^bb2:
  vm.buffer.store.i32 %i8, %r2, %i6:7
  vm.return
}}
"
    ));
    // A function of the module gets a reference, and returns another one.
    check(&format!(
        "{}vm.func @other(%r0: !vm.buffer, %r1: !vm.list<!vm.buffer>, %i0: i32) -> (!vm.buffer) {{
^bb0:
  vm.buffer.store.i32 %i0, %r0, %i2:3
  %i1 = vm.const.i32.zero
  %r2 = vm.list.get.ref %r1, %i1 : !vm.buffer
  vm.discard.refs %r1
  vm.return %R2
}}
",
        kernel(
            "  %r2 = vm.list.get.ref %r1, %i2 : !vm.buffer
  %r3 = vm.call @other(%r2, %R1, %i0)
  vm.buffer.store.i32 %i2, %r3, %i6:7"
        )
    ));
    // Half of the workgroups suspend the call.
    check(&format!(
        "{KERNEL} requires(yield) {{
^bb0:{CONSTANTS}
  %r2 = vm.list.get.ref %r1, %i1 : !vm.buffer
  %i8 = vm.and.i32 %i0, %i2
  vm.cond_br %i8, ^bb1(), ^bb2()
^bb1:
  vm.yield ^bb2()
^bb2:
  vm.buffer.store.i32 %i0, %r2, %i6:7
  vm.return
}}
"
    ));
}

/// A random program of one block.
fn random(next: &mut impl FnMut(u32) -> u32) -> String {
    let mut ops = "  %i8 = vm.const.i32 1\n".to_string();
    for _ in 0..4 + next(16) {
        let (to, from, other) = (2 + next(4), 2 + next(4), next(6));
        let (r, indices) = (if next(4) == 0 { 'R' } else { 'r' }, if next(12) == 0 { 4 } else { 3 });
        let index = 1 + next(indices);
        let compare = |test: String| format!("%i9 = {test}\n  %i8 = vm.add.i32 %i8, %i8\n  %i8 = vm.add.i32 %i8, %i9");
        let (global, mutable) = (next(2), next(3) == 0);
        let op = match next(21) {
            0..5 => format!("%r{to} = vm.list.get.ref %r1, %i{index} : !vm.buffer"),
            5 => format!("%{r}{to} = vm.list.get.ref %r1, %i{index} : !vm.buffer"),
            6 if mutable => format!("vm.list.set.ref %r1, %i{index}, %{r}{from}"),
            7 => format!("vm.discard.refs %r{to}, %r{from}"),
            8 => format!("%r{to} = vm.assign.ref %{r}{from}"),
            9 => format!("%r{to} = vm.select.ref %i0 ? %r{from} : %r{} -> !vm.buffer", 2 + next(4)),
            10 if mutable => format!("vm.global.store.ref %{r}{from}, .refs[{global}] : !vm.buffer"),
            11 if mutable => format!("%r{to} = vm.global.load.ref .refs[{global}] : !vm.buffer"),
            12 if mutable => format!("vm.global.store.ref %{r}1, .refs[2] : !vm.list<!vm.buffer>"),
            13 if mutable => "%r1 = vm.global.load.ref .refs[2] : !vm.list<!vm.buffer>".to_string(),
            14 if mutable => format!("vm.list.resize %r1, %i{}", 2 + next(3)),
            15 if mutable => format!("vm.discard.refs %r{other}"),
            16 => format!("vm.buffer.store.i32 %i8, %r{from}, %i6:7"),
            17 => compare(format!("vm.cmp.eq.ref %r{from}, %r{other}")),
            18 => format!("%r{to} = vm.buffer.alloc %i10:11, %i1"),
            19 => format!("%r{to} = vm.const.ref.rodata 0"),
            _ => compare(format!("vm.cmp.nz.ref %r{from}")),
        };
        ops.push_str(&format!("  {op}\n"));
    }
    kernel(&format!("{ops}  vm.buffer.store.i32 %i8, %r0, %i6:7"))
}

#[test]
fn random_programs_do_the_same_on_every_dispatcher() {
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |below: u32| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 33) as u32 % below
    };
    let mut done = 0;
    for _ in 0..600 {
        let text = random(&mut next);
        done += check(&text).iter().filter(|(ends, _)| ends == "done;").count();
    }
    // Many of them return from every workgroup.
    assert!((200..1100).contains(&done), "{done}");
}
