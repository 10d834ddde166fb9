//! Calls of hostile nests: which buffers and numbers they get, and what becomes of them on both tiers.

use vireo::Fuel;
use vireo::asm::assemble;
use vireo::interp::{CodeShape, DispatchMode, Limits};
use vireo::vm::{Context, Function, Module, Value};

use super::super::has_lanes;
use super::super::program::Random;
use super::draw::{Flavour, Program, log_uniform, program, wild};
use super::forms::Form;
use super::memory::{Memory, REGION, REGIONS, View};
use super::text::{BUFFERS, NUMBERS};

/// Calls of each program.
const CALLS: u64 = 5;
/// Bytes that are compared at once.
const LINE: usize = 64;
const _: () = assert!(REGION.is_multiple_of(LINE));
/// Steps of a call, at most.
const STEPS: u64 = 20_000;

/// The random numbers of a seed: one sequence for its text, another one for its calls.
fn random(seed: u64, factor: u64) -> Random {
    let mut random = Random(seed.wrapping_mul(factor) ^ factor >> 7);
    // Neighbours begin alike.
    (0..4).for_each(|_| _ = random.below(2));
    random
}

/// The program that a seed stands for.
pub fn drawn(seed: u64) -> Program {
    program(&mut random(seed, 0x9E37_79B9_7F4A_7C15), Form::of(seed))
}

#[derive(Debug)]
struct Call {
    views: [View; BUFFERS],
    numbers: [i64; NUMBERS as usize],
    fuel: u64,
}

/// How programs are run: the memory of all, and what it is compared with.
pub struct Runner {
    memory: Memory,
    contents: [Vec<u8>; 3],
    expected: Vec<u8>,
    actual: Vec<u8>,
    /// Calls, and those of them that returned.
    pub calls: u64,
    pub returned: u64,
}

/// The contents of memory before a call, without the numbers in its last region.
fn contents(flavour: Flavour) -> Vec<u8> {
    let mut random = Random(77);
    let mut bytes = Vec::with_capacity(REGIONS * REGION);
    while bytes.len() < REGIONS * REGION {
        match flavour {
            Flavour::Integers => {
                let word = match random.below(4) {
                    0 => random.below(1 << 31) as u32 ^ (random.below(2) as u32) << 31,
                    1 => (random.below(100) as u32).wrapping_neg(),
                    _ => random.below(200) as u32,
                };
                bytes.extend(word.to_le_bytes());
            }
            Flavour::F32 => bytes.extend((random.below(64) as f32 / 4.0 - 5.5).to_le_bytes()),
            Flavour::F64 => bytes.extend((random.below(64) as f64 / 4.0 - 5.5).to_le_bytes()),
        }
    }
    bytes
}

/// How a call has left its buffers.
pub enum Strayed {
    /// The check of an access has stopped it before.
    Stopped(String),
    /// It has written beside them.
    Wrote(String),
}

/// A context with machine code of this shape.
fn context(text: &str, max_lanes: u8, osr_entries: bool) -> Result<Context, String> {
    let bytes = assemble(text).map_err(|error| format!("it is no program: {error}"))?;
    let mut module = Module::from_bytes(&bytes).map_err(|status| format!("it is no module: {status}"))?;
    module.set_code_shape(CodeShape { max_lanes, osr_entries, ..CodeShape::default() });
    Context::new([module]).map_err(|status| format!("it has imports: {status}"))
}

fn function(context: &Context) -> Result<Function, String> {
    context.function("f").map_err(|status| format!("it has no function: {status}"))
}

/// The number of the contents of memory for a flavour.
fn index_of(flavour: Flavour) -> usize {
    let all = [Flavour::Integers, Flavour::F32, Flavour::F64];
    all.iter().position(|one| *one == flavour).expect("there is one for each")
}

impl Runner {
    pub fn new() -> Runner {
        let empty = vec![0; REGIONS * REGION];
        Runner {
            memory: Memory::new(),
            contents: [Flavour::Integers, Flavour::F32, Flavour::F64].map(contents),
            expected: empty.clone(),
            actual: empty,
            calls: 0,
            returned: 0,
        }
    }

    /// Runs the program of a seed, or another text with its calls. Gives the first difference.
    pub fn run(&mut self, seed: u64, other: Option<&str>) -> Result<(), String> {
        let program = drawn(seed);
        let mut random = random(seed, 0xD134_2543_DE82_EF95);
        let text = other.unwrap_or(&program.text);
        let osr_entries = random.below(2) == 0;
        let probe = function(&context(&program.probe, 0, osr_entries)?)?;
        let interpreted = function(&context(text, 0, osr_entries)?)?;
        let lanes: &[u8] = match random.below(3) {
            _ if !has_lanes(16) => &[8],
            0 => &[8],
            1 => &[16],
            _ => &[8, 16],
        };
        let compiled = lanes.iter().map(|lanes| Ok((*lanes, function(&context(text, *lanes, osr_entries)?)?)));
        let compiled = compiled.collect::<Result<Vec<_>, String>>()?;
        let at = index_of(program.flavour);
        for _ in 0..CALLS {
            let call = self.call(&program, &probe, &mut random, at);
            let expected = self.outcome(&interpreted, &call, DispatchMode::Loop, at);
            self.memory.read(&mut self.expected);
            self.calls += 1;
            self.returned += u64::from(expected.starts_with('['));
            for (lanes, function) in &compiled {
                let what = format!("{lanes} lanes, OSR entries: {osr_entries}, {call:?}");
                let actual = self.outcome(function, &call, DispatchMode::Compiled, at);
                if actual != expected {
                    return Err(format!("{what}:\n  expected: {expected}\n  actual: {actual}"));
                }
                self.memory.read(&mut self.actual);
                if self.actual != self.expected {
                    let differs = |at: &usize| self.actual[*at] != self.expected[*at];
                    let first = (0..self.actual.len()).find(differs).expect("they differ");
                    let count = (0..self.actual.len()).filter(differs).count();
                    let [is, was] =
                        [&self.actual, &self.expected].map(|bytes| &bytes[first..(first + 8).min(bytes.len())]);
                    let (region, byte) = (first / REGION, first % REGION);
                    return Err(format!(
                        "{what}:\n  {count} bytes differ, the first is byte {byte} of region {region}: {is:02x?}, not {was:02x?}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Makes so many calls of the program of a seed between `begin` and `end`, and gives what the latter does; and, if
    /// a call was stopped by the check of an access or has written beside its buffers, which one and how.
    pub fn between<T>(
        &mut self,
        (seed, calls): (u64, u64),
        begin: impl FnOnce(),
        end: impl FnOnce() -> T,
    ) -> Result<(T, Option<Strayed>), String> {
        let program = drawn(seed);
        let mut random = random(seed, 0xD134_2543_DE82_EF95);
        let osr_entries = random.below(2) == 0;
        let max_lanes = if has_lanes(16) && random.below(2) == 0 { 16 } else { 8 };
        let probe = function(&context(&program.probe, 0, false)?)?;
        let compiled = function(&context(&program.text, max_lanes, osr_entries)?)?;
        let at = index_of(program.flavour);
        begin();
        let mut strayed = None;
        for _ in 0..calls {
            let mut call = self.call(&program, &probe, &mut random, at);
            // Most buffers are shorter than they have to be, and end as far from the end of their regions as before, or
            // not.
            for view in &mut call.views[..BUFFERS - 1] {
                let less =
                    [0, 1, 1 + log_uniform(&mut random, 6), log_uniform(&mut random, 12)][random.below(4) as usize];
                let less = (less as usize).min(view.length);
                view.length -= less;
                view.offset += if random.below(2) == 0 { less } else { 0 };
            }
            let outcome = self.outcome(&compiled, &call, DispatchMode::Compiled, at);
            self.calls += 1;
            let what = format!("{max_lanes} lanes, OSR entries: {osr_entries}, {call:?}");
            if outcome.contains("accesses a buffer out of its range") {
                strayed = Some(Strayed::Stopped(what));
                break;
            }
            self.memory.read(&mut self.actual);
            if let Some(byte) = self.changed_beside(&call, at) {
                let (region, byte) = (byte / REGION, byte % REGION);
                strayed = Some(Strayed::Wrote(format!("{what}, byte {byte} of region {region}, {outcome}")));
                break;
            }
        }
        Ok((end(), strayed))
    }

    /// The first byte that a call has changed though it is in no buffer that may be written.
    fn changed_beside(&self, call: &Call, at: usize) -> Option<usize> {
        let is_writable = |byte: usize| {
            call.views.iter().any(|view| {
                let first = view.region * REGION + view.offset;
                view.is_mutable && (first..first + view.length).contains(&byte)
            })
        };
        let before = &self.contents[at];
        let mut lines = (0..before.len()).step_by(LINE).map(|first| first..first + LINE);
        lines.find_map(|mut line| {
            let is_same = self.actual[line.clone()] == before[line.clone()];
            if is_same { None } else { line.find(|byte| self.actual[*byte] != before[*byte] && !is_writable(*byte)) }
        })
    }

    /// Draws a call. The probe tells how much memory it takes.
    fn call(&mut self, program: &Program, probe: &Function, random: &mut Random, at: usize) -> Call {
        let lane = |random: &mut Random| match random.below(4) {
            0 => [0, 1, 7, 8, 9, 15, 16, 17][random.below(8) as usize],
            1 => log_uniform(random, 6) as i64,
            _ => 16 + random.below(55) as i64,
        };
        let few = |random: &mut Random| match random.below(32) {
            0 => wild(random) as i64,
            1 => 0,
            _ => 1 + log_uniform(random, 3) as i64,
        };
        let far = match random.below(4) {
            0 => log_uniform(random, 4),
            _ => wild(random),
        };
        let strides =
            [0, 1, 1, 2, 3, 8, 16, 24, 33, 40, 64, if random.below(3) == 0 { log_uniform(random, 34) } else { 5 }, 4];
        let strides = if random.below(40) == 0 { [u64::MAX; 13] } else { strides };
        let stride = strides[random.below(13) as usize];
        let numbers = [lane(random), lane(random), few(random), few(random), stride as i64, far as i64];
        // The last region has numbers that loops may be bounded by.
        let last = &mut self.contents[at][(REGIONS - 1) * REGION..];
        for number in last.chunks_exact_mut(8).take(16) {
            let value = if random.below(40) == 0 { wild(random) } else { log_uniform(random, 5) };
            // Floats may be loaded from there as well.
            let is_nan = match program.flavour {
                Flavour::Integers => false,
                Flavour::F32 => [value as u32, (value >> 32) as u32].iter().any(|half| f32::from_bits(*half).is_nan()),
                Flavour::F64 => f64::from_bits(value).is_nan(),
            };
            let value = if is_nan { value % 64 } else { value };
            number.copy_from_slice(&value.to_le_bytes());
        }
        let whole = |region| View { region, offset: 0, length: REGION, is_mutable: true };
        let call = Call { views: [0, 1, 2, 3].map(whole), numbers, fuel: STEPS };
        self.memory.fill(&self.contents[at]);
        let limits = Limits { dispatch: DispatchMode::Loop, fuel: Some(Fuel::new(STEPS)), ..Limits::default() };
        let needed = probe.call_with(&self.arguments(&call), limits).ok();
        let needed = needed.map(|values| {
            let mut bytes = [0; BUFFERS];
            for (bytes, value) in bytes.iter_mut().zip(values) {
                let Value::I64(value) = value else { continue };
                *bytes = value as u64;
            }
            bytes
        });
        let shared = random.below(8);
        let fuel = if random.below(5) == 0 { log_uniform(random, 12) } else { STEPS };
        let mut views = call.views;
        for (index, view) in views.iter_mut().enumerate() {
            let shift = program.shifts[index];
            let needed = needed.map_or(REGION as u64, |needed| needed[index]).min(REGION as u64) as usize;
            let length = match random.below(32) {
                0..14 => needed,
                14..19 => needed + (1 + log_uniform(random, 4) as usize),
                19..26 => REGION,
                26 => needed.saturating_sub(1),
                27 => needed.saturating_sub(1 << shift),
                28 => needed + (1 << shift),
                29 => log_uniform(random, 15) as usize,
                _ => needed.next_multiple_of(64),
            };
            view.length = length.min(REGION);
            let room = REGION - view.length;
            view.region = match (shared, index) {
                (_, 3) => 3,
                (0 | 1, _) => 0,
                (2, 0 | 1) | (3, 0 | 2) => 0,
                _ => index,
            };
            view.offset = match random.below(8) {
                _ if index == 3 => 0,
                0..3 => room,
                3 => 0,
                4..6 => room.min(log_uniform(random, 12) as usize),
                _ => random.below(room as u64 + 1) as usize,
            };
            // Floats of other bytes could be NaNs that operations take over from one operand or the other.
            if program.flavour != Flavour::Integers || random.below(2) == 0 {
                view.offset &= !((1 << shift) - 1);
            }
            view.is_mutable = random.below(48) != 0;
        }
        // All of what is shared, or a part that moved a little.
        if shared < 4 && random.below(2) == 0 {
            let distance = log_uniform(random, 7) as usize & if at > 0 { !7 } else { !0 };
            let (first, other) = (views[0], if shared == 3 { 2 } else { 1 });
            views[other].offset = (first.offset + distance).min(REGION - views[other].length);
            if at > 0 {
                views[other].offset &= !7;
            }
        }
        Call { views, fuel, ..call }
    }

    fn arguments(&self, call: &Call) -> Vec<Value> {
        let buffers = call.views.map(|view| Value::Ref(Some(self.memory.buffer(view).into_ref())));
        buffers.into_iter().chain(call.numbers.map(Value::I64)).collect()
    }

    /// The results or the failure of a call, and the steps that it took.
    fn outcome(&self, function: &Function, call: &Call, dispatch: DispatchMode, at: usize) -> String {
        self.memory.fill(&self.contents[at]);
        let fuel = Fuel::new(call.fuel);
        let limits = Limits { dispatch, fuel: Some(fuel.clone()), ..Limits::default() };
        let result = function.call_with(&self.arguments(call), limits);
        let result = result.map(|values| format!("{values:?}")).unwrap_or_else(|status| status.to_string());
        format!("{result} with {} steps", fuel.used())
    }
}
