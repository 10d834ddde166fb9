//! Replays the golden corpus: the modules that IREE's tools assembled, loaded and called through our runtime, must
//! answer what the reference runtime answered. `fixtures/golden/README.md` describes the record; `differences.json`
//! there lists where we differ on purpose.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use vireo::Result;
use vireo::interp::{DispatchMode, Limits};
use vireo::vm::{Context, Module, Value};

/// Vectors on which the result of a library function is a neighbour of the reference's.
const NEIGHBOURS: usize = 10;

/// How many failures are shown.
const SHOWN: usize = 60;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/golden")
}

fn json(text: &str) -> Json {
    serde_json::from_str(text).expect("the record is JSON")
}

fn text(value: &Json) -> &str {
    value.as_str().expect("a string")
}

fn list(value: &Json) -> &[Json] {
    value.as_array().expect("a list")
}

/// The ops whose results may be off, and by how many representable values.
struct Tolerance {
    prefixes: Vec<String>,
    ulp: u64,
}

impl Tolerance {
    fn read() -> Tolerance {
        let differences =
            json(&fs::read_to_string(folder().join("differences.json")).expect("the list of differences"));
        let entry = list(&differences).iter().find(|entry| entry["name"] == "library_function").expect("its entry");
        let prefixes = list(&entry["ops"]).iter().map(|op| text(op).trim_end_matches('*').to_string()).collect();
        Tolerance { prefixes, ulp: entry["ulp"].as_u64().expect("a number") }
    }

    fn of(&self, op: &str) -> u64 {
        if self.prefixes.iter().any(|prefix| op.starts_with(prefix)) { self.ulp } else { 0 }
    }
}

/// A recorded value of type `letter` as an argument: floats travel as their bits.
fn argument(letter: char, value: &Json) -> Value {
    match letter {
        'i' => Value::I32(i32::try_from(value.as_i64().expect("a number")).expect("an i32")),
        'I' => Value::I64(value.as_i64().expect("a number")),
        'f' => Value::I32(u32::from_str_radix(text(value), 16).expect("bits").cast_signed()),
        'F' => Value::I64(u64::from_str_radix(text(value), 16).expect("bits").cast_signed()),
        _ => panic!("unknown type {letter}"),
    }
}

/// Whether `bits` are those of a NaN of type `letter`.
fn is_nan(letter: char, bits: u64) -> bool {
    match letter {
        'f' => f32::from_bits(u32::try_from(bits).expect("bits of an f32")).is_nan(),
        'F' => f64::from_bits(bits).is_nan(),
        _ => false,
    }
}

/// The position of a float among all of its type, so that neighbours differ by one and both zeros are 0.
fn position(letter: char, bits: u64) -> i128 {
    let sign = if letter == 'f' { 1 << 31 } else { 1 << 63 };
    if bits & sign == 0 { i128::from(bits) } else { -i128::from(bits & !sign) }
}

/// Ops that move bits: their NaNs keep every bit.
fn copies_bits(op: &str) -> bool {
    let moves = ["bitcast.", "const.", "select.", "switch.", "global.", "buffer.", "abs.", "neg."];
    moves.iter().any(|prefix| op.starts_with(prefix))
}

fn same(op: &str, letter: char, expected: &Value, actual: &Value, ulp: u64) -> bool {
    let bits = |value: &Value| match value {
        Value::I32(value) => Some(u64::from(value.cast_unsigned())),
        Value::I64(value) => Some(value.cast_unsigned()),
        _ => None,
    };
    let (Some(expected), Some(actual)) = (bits(expected), bits(actual)) else { return false };
    if expected == actual {
        return true;
    }
    if is_nan(letter, expected) || is_nan(letter, actual) {
        return !copies_bits(op) && is_nan(letter, expected) && is_nan(letter, actual);
    }
    // The sign of a zero is exact.
    let zero = position(letter, expected) == 0 && position(letter, actual) == 0;
    ulp > 0 && !zero && position(letter, expected).abs_diff(position(letter, actual)) <= u128::from(ulp)
}

/// The findings of a replay.
#[derive(Default)]
struct Findings {
    failures: Vec<String>,
    /// Vectors of functions whose result is not the reference's, but near enough.
    neighbours: usize,
}

/// Calls one function with all of its vectors and writes down what is wrong.
fn replay(
    modules: &[Module; 2],
    record: &Json,
    tolerance: &Tolerance,
    dispatch: DispatchMode,
    findings: &mut Findings,
) -> usize {
    let (op, name) = (text(&record["op"]), text(&record["function"]));
    let (params, results) = (text(&record["params"]), text(&record["results"]));
    let vectors = list(&record["vectors"]);
    for vector in vectors {
        let args: Vec<Value> =
            params.chars().zip(list(&vector[0])).map(|(letter, value)| argument(letter, value)).collect();
        // A deliberate difference states our own outcome.
        let expected = vector.get(3).unwrap_or(&vector[1]);
        let outcome = Context::with_limits(modules.clone(), Limits { dispatch, ..Limits::default() })
            .and_then(|context| context.function(&format!("{}.{name}", modules[1].name())))
            .and_then(|function| function.call(&args));
        let right = match (&outcome, expected) {
            (Ok(actual), Json::Array(expected)) => {
                let exact = |((letter, expected), actual)| same(op, letter, &argument(letter, expected), actual, 0);
                findings.neighbours += usize::from(!results.chars().zip(expected).zip(actual).all(exact));
                actual.len() == expected.len()
                    && results.chars().zip(expected).zip(actual).all(|((letter, expected), actual)| {
                        same(op, letter, &argument(letter, expected), actual, tolerance.of(op))
                    })
            }
            (Err(status), Json::String(code)) => status.code().name() == code,
            _ => false,
        };
        if !right {
            let mut line = format!("{name}{} ({dispatch:?}): expected {expected}, got ", vector[0]);
            let _ = match outcome {
                Ok(values) => write!(line, "{values:x?}"),
                Err(status) => write!(line, "{status}"),
            };
            findings.failures.push(line);
        }
    }
    vectors.len()
}

#[test]
fn the_reference_and_we_agree_on_every_op() {
    let tolerance = Tolerance::read();
    let mut paths: Vec<PathBuf> = fs::read_dir(folder())
        .expect("the corpus")
        .map(|entry| entry.expect("a file").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .collect();
    paths.sort();
    // The module that others import from.
    let provider = || Module::from_file(folder().join("provider.vmfb"));
    let (mut findings, mut count) = (Findings::default(), 0);
    for path in paths {
        // Machine code belongs to a module, so each way has a module of its own.
        let load = |dispatch| Ok((dispatch, [provider()?, Module::from_file(path.with_extension("vmfb"))?]));
        let ways = [DispatchMode::Loop, DispatchMode::Threaded, DispatchMode::Compiled].into_iter().map(load);
        let ways = match ways.collect::<Result<Vec<_>>>() {
            Ok(ways) => ways,
            Err(status) => {
                findings.failures.push(format!("{} does not load: {status}", path.display()));
                continue;
            }
        };
        for line in fs::read_to_string(&path).expect("a record").lines() {
            let record = json(line);
            for (dispatch, modules) in &ways {
                count += replay(modules, &record, &tolerance, *dispatch, &mut findings);
            }
        }
    }
    assert!(count > 10_000, "the corpus holds {count} vectors only");
    let failures = findings.failures;
    let shown = failures.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(failures.is_empty(), "{} of {count} vectors differ:\n{shown}", failures.len());
    // In each of three dispatchers.
    assert_eq!(findings.neighbours, 3 * NEIGHBOURS, "vectors of library functions that differ from the reference");
}
