//! The `hal` module, called as programs call it. What needs a device is tested by the models.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::slice::from_ref;
use std::sync::Arc;

use vireo::hal::{Allocator, AllocatorRef, BufferRefObject, Fence, Handle, HeapAllocator, create_device};
use vireo::modules::hal::HalModule;
use vireo::status::StatusCode;
use vireo::vm::{Buffer, Call, NativeExport, NativeModule, Obj, Outcome, Ref};
use vireo::{Result, Status};

/// Memory types and usage that the compiler asks for most.
const DEVICE_LOCAL: u64 = 0x30;
const STORAGE: u64 = 0xC03;
const IMMUTABLE: u64 = 0x80000;
const F32: u64 = 0x2100_0020;
const DENSE: u64 = 1;

pub struct Program<M = HalModule> {
    module: M,
    state: Box<dyn Any + Send>,
}

impl Program {
    fn new() -> Program {
        Program::of(HalModule::new(Vec::new()))
    }

    pub fn of(module: HalModule) -> Program {
        Program::with(module)
    }
}

impl<M: NativeModule> Program<M> {
    /// A program that calls another module.
    pub fn with(module: M) -> Program<M> {
        let state = module.create_state().expect("a state");
        Program { module, state }
    }

    pub fn call(&mut self, name: &str, words: &[u64], refs: &[Option<Ref>]) -> Result<Call> {
        let ordinal = self.module.exports().iter().position(|export| export.name == name).expect("an export");
        self.call_at(ordinal, words, refs)
    }

    /// Calls the form of an export that has a calling convention.
    fn call_form(&mut self, name: &str, convention: &str, words: &[u64], refs: &[Option<Ref>]) -> Result<Call> {
        let is_form = |export: &NativeExport| export.name == name && export.convention == convention;
        let ordinal =
            self.module.exports().iter().position(is_form).unwrap_or_else(|| panic!("no {name} {convention}"));
        self.call_at(ordinal, words, refs)
    }

    fn call_at(&mut self, ordinal: usize, words: &[u64], refs: &[Option<Ref>]) -> Result<Call> {
        let mut call = Call { words: words.into(), refs: refs.into(), ..Call::default() };
        match self.module.call(ordinal, &mut *self.state, &mut call)? {
            Outcome::Return => Ok(call),
            Outcome::Wait(_) => Err(Status::new(StatusCode::Deferred, "the call waits")),
        }
    }

    pub fn reference(&mut self, name: &str, words: &[u64], refs: &[Option<Ref>]) -> Result<Ref> {
        self.call(name, words, refs).map(|call| call.result_refs[0].clone().expect("a reference"))
    }

    pub fn word(&mut self, name: &str, words: &[u64], refs: &[Option<Ref>]) -> Result<u64> {
        self.call(name, words, refs).map(|call| call.result_words[0])
    }

    fn allocate(&mut self, size: u64) -> Ref {
        self.reference("allocator.allocate", &[u64::MAX, DEVICE_LOCAL, STORAGE, size], &[allocator()])
            .expect("a buffer")
    }
}

fn allocator() -> Option<Ref> {
    let allocator: Arc<dyn Allocator> = Arc::new(HeapAllocator::with_limit(1 << 20));
    Some(Obj::<AllocatorRef>::new(Handle(allocator)).into_ref())
}

pub fn text(text: &str) -> Option<Ref> {
    Some(Ref::new(Buffer::copy_of(text.as_bytes()).expect("a small buffer")))
}

pub fn code<T>(result: Result<T>) -> StatusCode {
    result.err().expect("a failure").code()
}

#[test]
fn values_in_buffers() {
    let mut program = Program::new();
    let buffer = program.allocate(10);
    assert_eq!(program.word("buffer.length", &[], &[Some(buffer.clone())]).unwrap(), 10);
    program.call("buffer.store", &[0xAABB_CCDD, 4, 3], &[Some(buffer.clone())]).unwrap();
    assert_eq!(program.word("buffer.load", &[4, 4], &[Some(buffer.clone())]).unwrap(), 0x00BB_CCDD);
    assert_eq!(program.word("buffer.load", &[6, 1], &[Some(buffer.clone())]).unwrap(), 0xBB);
    assert_eq!(program.word("buffer.load", &[10, 0], &[Some(buffer.clone())]).unwrap(), 0);
    for (offset, length, expected) in [
        (7, 4, StatusCode::OutOfRange),
        (u64::MAX, 4, StatusCode::OutOfRange),
        (u64::MAX - 1, 2, StatusCode::OutOfRange),
        (0, 5, StatusCode::InvalidArgument),
        (0, 0xFFFF_FFFF, StatusCode::InvalidArgument),
    ] {
        assert_eq!(code(program.call("buffer.load", &[offset, length], &[Some(buffer.clone())])), expected);
        assert_eq!(code(program.call("buffer.store", &[1, offset, length], &[Some(buffer.clone())])), expected);
    }
}

#[test]
fn parts_of_buffers_share_memory() {
    let mut program = Program::new();
    let buffer = program.allocate(16);
    let part = program.reference("buffer.subspan", &[4, 8], &[Some(buffer.clone())]).unwrap();
    program.call("buffer.store", &[7, 0, 4], &[Some(part.clone())]).unwrap();
    assert_eq!(program.word("buffer.load", &[4, 4], &[Some(buffer.clone())]).unwrap(), 7);
    let rest = program.reference("buffer.subspan", &[4, u64::MAX], &[Some(part.clone())]).unwrap();
    assert_eq!(program.word("buffer.length", &[], &[Some(rest)]).unwrap(), 4);
    assert_eq!(code(program.call("buffer.subspan", &[4, 5], &[Some(part)])), StatusCode::OutOfRange);
    let whole = program.reference("buffer.subspan", &[0, 16], &[Some(buffer.clone())]).unwrap();
    assert_eq!(whole, buffer, "the whole of a buffer is the buffer");
}

#[test]
fn allocations_that_cannot_be() {
    let mut program = Program::new();
    let (large, negative) = (StatusCode::ResourceExhausted, StatusCode::InvalidArgument);
    for (size, expected) in [(1 << 21, large), (u64::MAX, negative), (i64::MIN as u64, negative)] {
        let result = program.call("allocator.allocate", &[u64::MAX, DEVICE_LOCAL, STORAGE, size], &[allocator()]);
        assert_eq!(code(result), expected);
    }
    let unknown_bits = program.call("allocator.allocate", &[u64::MAX, 0x8000_0000, STORAGE, 4], &[allocator()]);
    assert_eq!(code(unknown_bits), StatusCode::InvalidArgument);
    let buffer = program.allocate(0);
    assert_eq!(program.word("buffer.length", &[], &[Some(buffer)]).unwrap(), 0);
}

#[test]
fn views_are_checked_as_programs_ask() {
    let mut program = Program::new();
    let buffer = program.allocate(24);
    let view = program.reference("buffer_view.create", &[0, 24, F32, DENSE, 2, 2, 3], &[Some(buffer.clone())]).unwrap();
    let view = Some(view);
    assert_eq!(program.word("buffer_view.rank", &[], from_ref(&view)).unwrap(), 2);
    assert_eq!(program.word("buffer_view.dim", &[1], from_ref(&view)).unwrap(), 3);
    assert_eq!(program.word("buffer_view.dim", &[2], from_ref(&view)).unwrap(), 0);
    assert_eq!(program.word("buffer_view.element_type", &[], from_ref(&view)).unwrap(), F32);
    assert_eq!(program.word("buffer_view.encoding_type", &[], from_ref(&view)).unwrap(), DENSE);
    assert_eq!(program.reference("buffer_view.buffer", &[], from_ref(&view)).unwrap(), buffer);
    let mut check = |words: &[u64]| program.call("buffer_view.assert", words, &[view.clone(), text("input0")]);
    check(&[F32, DENSE, 2, 2, 3]).unwrap();
    for (words, message) in [
        (
            &[F32, DENSE, 1, 6][..],
            "input0 shape rank mismatch; expected 1 but have 2; expected shape `6`, actual shape `2x3`",
        ),
        (
            &[F32, DENSE, 2, 2, 4],
            "input0 shape dimension 1 mismatch; expected 4 but have 3; expected shape `2x4`, actual shape `2x3`",
        ),
        (&[F32, 2, 2, 2, 3], "input0 encoding mismatch; expected 00000002 but have 00000001"),
        (
            &[0x1000_0020, DENSE, 2, 2, 3],
            "input0 element type mismatch; expected i32 (10000020) but have f32 (21000020)",
        ),
    ] {
        let error = check(words).expect_err("a failure");
        assert_eq!((error.code(), error.message()), (StatusCode::InvalidArgument, message));
    }
    let too_large = program.call("buffer_view.create", &[0, 24, F32, DENSE, 2, 2, 4], &[Some(buffer)]);
    assert!(too_large.is_err());
}

#[test]
fn buffers_are_checked_as_programs_ask() {
    let mut program = Program::new();
    let buffer = Some(program.allocate(24));
    let mut check =
        |words: &[u64]| program.call("buffer.assert", words, &[buffer.clone(), text("tensor"), allocator()]);
    check(&[24, 0x10, STORAGE]).unwrap();
    let error = check(&[25, 0x10, STORAGE]).expect_err("a failure");
    assert_eq!(error.message(), "tensor buffer byte length 24 less than expected minimum 25");
    assert_eq!(code(check(&[24, 0x10, 0x10000])), StatusCode::PermissionDenied);
}

#[test]
fn imported_memory_is_used_in_place() {
    let mut program = Program::new();
    let source = Obj::new(Buffer::allocate(256, 64).unwrap());
    let import =
        |usage: u64, is_try: u64, offset: u64, length: u64| [is_try, u64::MAX, DEVICE_LOCAL, usage, offset, length];
    let refs = [allocator(), Some(source.as_ref().clone())];
    let buffer = program.reference("allocator.import", &import(STORAGE, 0, 64, u64::MAX), &refs).unwrap();
    program.call("buffer.store", &[5, 0, 4], &[Some(buffer.clone())]).unwrap();
    let mut first = [0; 4];
    source.read(64, &mut first).unwrap();
    assert_eq!(first, [5, 0, 0, 0]);
    assert_eq!(program.word("buffer.length", &[], &[Some(buffer)]).unwrap(), 192);

    // Memory that is not aligned as kernels need it is no failure of a try.
    let misaligned = program.call("allocator.import", &import(STORAGE, 1, 8, 8), &refs).unwrap();
    assert_eq!(misaligned.result_refs[0], None);
    assert!(program.call("allocator.import", &import(STORAGE, 0, 8, 8), &refs).is_err());
    assert_eq!(code(program.call("allocator.import", &import(STORAGE, 1, 0, 257), &refs)), StatusCode::OutOfRange);

    // Read-only memory can only become a buffer that is never written.
    let owner = Arc::new(source.clone());
    let data = std::ptr::NonNull::new(source.as_ptr()).unwrap();
    // SAFETY: the owner keeps the bytes alive, and no reference to them exists.
    let constant = Some(Ref::new(unsafe { Buffer::from_shared(owner, data, 256, false) }));
    let refs = [allocator(), constant];
    assert_eq!(code(program.call("allocator.import", &import(STORAGE, 1, 0, 64), &refs)), StatusCode::PermissionDenied);
    let buffer = program.reference("allocator.import", &import(STORAGE | IMMUTABLE, 1, 0, 64), &refs).unwrap();
    assert_eq!(code(program.call("buffer.store", &[1, 0, 4], &[Some(buffer)])), StatusCode::PermissionDenied);
}

#[test]
fn fences_of_programs() {
    let mut program = Program::new();
    let fence = || Some(Fence::create().to_ref());
    let (first, second) = (fence(), fence());
    let joined =
        program.call("fence.join", &[0, 3], &[first.clone(), None, second.clone()]).unwrap().result_refs[0].clone();
    assert_eq!(program.call("fence.join", &[0, 1], &[None]).unwrap().result_refs[0], None);
    assert_eq!(program.word("fence.query", &[], from_ref(&joined)).unwrap(), StatusCode::Deferred as u64);
    program.call("fence.signal", &[], from_ref(&first)).unwrap();
    assert_eq!(code(program.call("fence.await", &[u32::MAX.into(), 0, 1], from_ref(&joined))), StatusCode::Deferred);
    assert_eq!(
        program.word("fence.await", &[0, 0, 1], from_ref(&joined)).unwrap(),
        StatusCode::DeadlineExceeded as u64
    );
    program.call("fence.signal", &[], from_ref(&second)).unwrap();
    assert_eq!(program.word("fence.await", &[u32::MAX.into(), 0, 2], &[joined.clone(), None]).unwrap(), 0);
    assert_eq!(program.word("fence.query", &[], &[joined]).unwrap(), 0);
    let failed = fence();
    program.call("fence.fail", &[0], from_ref(&failed)).unwrap();
    assert_eq!(program.word("fence.query", &[], from_ref(&failed)).unwrap(), StatusCode::Unknown as u64);
    assert_eq!(code(program.call("fence.await", &[0, 0, 1], &[failed])), StatusCode::Unknown);
}

#[test]
fn refusals_name_the_cause() {
    let mut program = Program::new();
    assert_eq!(program.word("devices.count", &[], &[]).unwrap(), 0);
    assert_eq!(program.call("devices.get", &[0], &[]).unwrap().result_refs[0], None);
    let null = program.call("buffer.length", &[], &[None]).expect_err("a failure");
    assert_eq!((null.code(), null.message()), (StatusCode::InvalidArgument, "argument `buffer` is null"));
    let other = program.call("buffer.length", &[], &[text("no buffer of a device")]).expect_err("a failure");
    assert_eq!(other.message(), "argument `buffer`: expected a reference to !hal.buffer, got !vm.buffer");
}

#[test]
fn every_export_survives_calls_that_do_not_match_it() {
    let mut program = Program::new();
    let buffer = Some(program.allocate(8));
    assert!(buffer.as_ref().is_some_and(|buffer| buffer.is::<BufferRefObject>()));
    for ordinal in 0..program.module.exports().len() {
        for count in 0..14 {
            for (word, reference) in [(0, None), (u64::MAX, buffer.clone()), (1, text("x"))] {
                let mut call = Call {
                    words: std::iter::repeat_n(word, count).collect(),
                    refs: std::iter::repeat_n(reference, count.min(5)).collect(),
                    ..Call::default()
                };
                // Nearly all of them fail; none may do anything worse.
                let _ = program.module.call(ordinal, &mut *program.state, &mut call);
            }
        }
    }
    assert!(program.module.call(1000, &mut *program.state, &mut Call::default()).is_err());
}

/// The forms that programs of IREE 3.1 import, with rubbish in the upper halves of 32-bit values, which are undefined.
#[test]
fn earlier_forms_do_what_the_newest_ones_do() {
    let mut program = Program::of(HalModule::new(vec![create_device("local-sync").expect("it exists everywhere")]));
    let device = program.call("devices.get", &[0], &[]).expect("there is one").result_refs[0].clone();
    let allocator = program.reference("device.allocator", &[], from_ref(&device)).expect("it has one");
    let buffer = program.reference("allocator.allocate", &[u64::MAX, DEVICE_LOCAL, STORAGE, 16], &[Some(allocator)]);
    let buffer = Some(buffer.expect("a small one"));
    let commands = program.reference("command_buffer.create", &[1, 3, u64::MAX, 0], from_ref(&device));
    let commands = Some(commands.expect("an empty one"));
    let rubbish = |low: u32| 0xDEAD_BEEF_0000_0000 | u64::from(low);
    let source = text("0123456789");

    let fill = [0, 8, rubbish(0), rubbish(0xAABB_CCDD), rubbish(4)];
    let refs = [commands.clone(), buffer.clone()];
    program.call_form("command_buffer.fill_buffer", "0rrIIiii_v", &fill, &refs).expect("it is recorded");
    let barrier = [rubbish(28), rubbish(13), rubbish(0)];
    program.call_form("command_buffer.execution_barrier", "0riii_v", &barrier, &refs[..1]).expect("it is recorded");
    let refs = [commands.clone(), source, buffer.clone()];
    program
        .call_form("command_buffer.update_buffer", "0rrIrIIi_v", &[2, 6, 4, rubbish(0)], &refs)
        .expect("it is recorded");
    program.call("command_buffer.execution_barrier", &[28, 13, 0], from_ref(&commands)).expect("it is recorded");
    let refs = [commands.clone(), buffer.clone(), buffer.clone()];
    let copy = [rubbish(0), rubbish(0), 5, 12, 4];
    program.call_form("command_buffer.copy_buffer", "0riirIrII_v", &copy, &refs).expect("it is recorded");
    program.call("command_buffer.finalize", &[], from_ref(&commands)).expect("it is finished");

    let mut fence = || {
        let call = program.call_form("fence.create", "0ri_r", &[rubbish(0)], from_ref(&device)).expect("a fence");
        call.result_refs[0].clone()
    };
    let (executed, passed, never) = (fence(), fence(), fence());
    let joined = program.call_form("fence.join", "0CrD_r", &[2], &[executed.clone(), passed.clone()]).expect("a fence");
    let joined = joined.result_refs[0].clone();
    let mut execute = |signal: &Option<Ref>, buffers: &[Option<Ref>]| {
        let refs = [&[device.clone(), None, signal.clone()], buffers].concat();
        program.call_form("device.queue.execute", "0rIrrCrD_v", &[u64::MAX, buffers.len() as u64], &refs)
    };
    execute(&executed, from_ref(&commands)).expect("it is submitted");
    execute(&passed, &[]).expect("a barrier");
    let error = execute(&never, &[commands.clone(), commands.clone()]).expect_err("more than one");
    assert_eq!(error.to_string(), "UNIMPLEMENTED: argument `command_buffer` has 2 elements, at most one is supported");
    let status =
        program.call_form("fence.await", "0iCrD_i", &[rubbish(u32::MAX), 1], &[joined]).expect("it is reached");
    assert_eq!(status.result_words, [0]);
    let load =
        |program: &mut Program, at: u64| program.word("buffer.load", &[at, 4], from_ref(&buffer)).expect("in range");
    assert_eq!([load(&mut program, 0), load(&mut program, 4)], [0xAABB_CCDD, 0x3332_CCDD]);
    assert_eq!([load(&mut program, 6), load(&mut program, 12)], [0x3534_3332, 0x3433_32CC]);
}

/// A generator of pseudo-random numbers; the same ones in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[(self.next() % items.len() as u64) as usize]
    }
}

/// Numbers that are likely to mean something, or to be just outside of what does.
const WORDS: [u64; 21] = [
    0,
    1,
    2,
    3,
    4,
    8,
    15,
    16,
    17,
    28,
    64,
    0x30,
    STORAGE,
    STORAGE | IMMUTABLE,
    F32,
    255,
    4096,
    65536,
    65537,
    1 << 63,
    u64::MAX,
];

/// The objects of a random program, by their types.
#[derive(Default)]
struct Objects(BTreeMap<&'static str, Vec<Ref>>);

impl Objects {
    fn add(&mut self, random: &mut Random, object: Ref) {
        let objects = self.0.entry(object.type_name()).or_default();
        if objects.len() < 12 {
            objects.push(object);
        } else {
            let index = random.next() as usize % objects.len();
            objects[index] = object;
        }
    }

    /// The first argument of most functions is what their names say; the others are mostly these.
    fn pick(&self, random: &mut Random, function: &str, first: bool) -> Option<Ref> {
        const OTHERS: [&str; 6] = ["hal.buffer", "hal.buffer", "hal.fence", "vm.buffer", "hal.file", "hal.allocator"];
        let guess = match function.split_once('.') {
            Some(("ex" | "executable", _)) if first => "hal.device",
            Some((object, _)) if first => &format!("hal.{object}"),
            _ => *random.pick(&OTHERS),
        };
        let all: Vec<&Vec<Ref>> = self.0.values().collect();
        let objects = match random.next() % 16 {
            0 => return None,
            1..4 if !first => return None,
            4 => random.pick(&all),
            _ => self.0.get(guess)?,
        };
        Some(random.pick(objects).clone())
    }
}

#[test]
fn random_programs_neither_crash_nor_hang() {
    random_program("local-sync");
}

#[test]
fn random_programs_with_dispatches_neither_crash_nor_hang() {
    random_program("null");
}

fn random_program(device: &str) {
    let module = HalModule::new(vec![create_device(device).expect("the device exists everywhere")]);
    let mut succeeded = vec![false; module.exports().len()];
    // A program that begins with bad luck never records anything.
    for seed in [
        0x1234_5678_9ABC_DEF1,
        0x2468_ACE0_1357_9BDF,
        0x0F1E_2D3C_4B5A_6978,
        0x3141_5926_5358_9793,
        0x2718_2818_2845_9045,
        0x1618_0339_8874_9894,
    ] {
        calls(&module, device == "null", Random(seed), &mut succeeded);
    }
    // One form of an export is enough.
    let called = module.exports().iter().zip(&succeeded).filter(|(_, succeeded)| **succeeded);
    let called: BTreeSet<&str> = called.map(|(export, _)| export.name).collect();
    let missed: BTreeSet<&str> = module.exports().iter().map(|export| export.name).collect();
    let missed: Vec<&str> = missed.difference(&called).copied().collect();
    assert!(missed.len() <= 20, "the programs never called these with success: {missed:?}");
}

/// Ten thousand calls, and which exports have succeeded.
fn calls(module: &HalModule, dispatches: bool, mut random: Random, succeeded: &mut [bool]) {
    let mut state = module.create_state().expect("a state");
    let mut objects = Objects::default();
    for key in
        ["key", "hal.device.id", "local*", "hal.executable.format", "embedded-elf-x86_64", &"long".repeat(20_000)]
    {
        objects.add(&mut random, text(key).expect("a buffer"));
    }
    for _ in 0..10_000 {
        let ordinal = random.next() as usize % module.exports().len();
        let export = &module.exports()[ordinal];
        // Kernels are trusted native code: what they do with wrong bindings is theirs. The null device has none.
        if !dispatches && export.name.starts_with("command_buffer.dispatch") {
            continue;
        }
        // Most of the time something is recorded first.
        if export.name == "command_buffer.finalize" && !random.next().is_multiple_of(8) {
            continue;
        }
        let mut call = arguments_for(export, &mut random, &objects);
        if let Ok(Outcome::Return) = module.call(ordinal, &mut *state, &mut call) {
            succeeded[ordinal] = true;
            for object in call.result_refs.drain(..).flatten() {
                objects.add(&mut random, object);
            }
        }
    }
}

/// Arguments that fit the convention of an export.
fn arguments_for(export: &NativeExport, random: &mut Random, objects: &Objects) -> Call {
    let mut call = Call::default();
    let (arguments, _) = export.convention[1..].split_once('_').expect("results");
    let mut rest = arguments.chars();
    while let Some(letter) = rest.next() {
        let (fields, count) = match letter {
            'v' => continue,
            'C' => {
                let fields: String = rest.by_ref().take_while(|letter| *letter != 'D').collect();
                let count = random.next() % 4;
                call.words.push(count);
                (fields, count)
            }
            letter => (letter.to_string(), 1),
        };
        for letter in (0..count).flat_map(|_| fields.chars()) {
            if letter == 'r' {
                let first = call.refs.is_empty();
                call.refs.push(objects.pick(random, export.name, first));
            } else if random.next().is_multiple_of(3) {
                let word = *random.pick(&WORDS);
                // The code of a type is half a gigabyte as a size: to write that takes a second and shows nothing.
                let is_slow = export.name.starts_with("allocator.allocate") && (1 << 20..1 << 36).contains(&word);
                call.words.push(if is_slow { word >> 16 } else { word });
            } else {
                call.words.push(*random.pick(&[0, 0, 0, 1, 1, 4]));
            }
        }
    }
    call
}
