//! Claims of documents about the library hold: the program of the README compiles and runs, word for word, the table of
//! features is that of the manifest, and messages that the guide to the library quotes are those of calls.

use std::collections::BTreeMap;

use vireo::MemoryBudget;
use vireo::interp::Limits;
use vireo::vm::{Context, Module, Value};

use crate::machine::MACHINE;
use crate::skip::{Need, skipped};

fn program() -> vireo::Result<()> {
    // From here on as in the README, seen from this package.
    use vireo::ndarray::Array2;
    use vireo::{Session, inputs};

    let session = Session::builder().device("local-task").load("../fixtures/models/mlp.vmfb")?;
    println!("{}", session.signature("mlp")?); // mlp(input0: tensor<8x64xf32>) -> (output0: tensor<8x16xf32>)

    let x = Array2::<f32>::ones((8, 64));
    let y: Array2<f32> = session.call("mlp", inputs![&x])?.get()?;
    assert_eq!(y.shape(), [8, 16]);
    // Up to here.
    Ok(())
}

fn lines_between<'a>(text: &'a str, first: &str, end: &str) -> Vec<&'a str> {
    let lines = text.lines().map(str::trim).skip_while(|line| *line != first).skip(1);
    lines.take_while(|line| *line != end).collect()
}

#[test]
fn the_program_of_the_readme_runs() {
    if MACHINE == "x86_64" {
        program().expect("runs");
    } else {
        skipped(Need::Platform("x86_64"), "the kernels of its model are for x86-64");
    }
    let readme = include_str!("../../../README.md").replace("fixtures/", "../fixtures/");
    let shown = lines_between(&readme, "```rust", "```");
    let first = "// From here on as in the README, seen from this package.";
    assert_eq!(shown, lines_between(include_str!("readme.rs"), first, "// Up to here."));
    assert!(shown.len() > 5);
}

/// The features of the manifest, with those that each turns on.
fn features() -> BTreeMap<&'static str, Vec<&'static str>> {
    let manifest = include_str!("../../Cargo.toml");
    let lines = lines_between(manifest, "[features]", "[dev-dependencies]");
    let entries = lines.into_iter().filter_map(|line| line.split_once(" = "));
    entries.map(|(name, list)| (name, list.split('"').skip(1).step_by(2).collect())).collect()
}

#[test]
fn the_documentation_of_the_crate_lists_the_features() {
    let mut features = features();
    let defaults = features.remove("default").expect("there are defaults");
    let rows = include_str!("../../src/lib.rs").lines().filter_map(|line| line.strip_prefix("//! | `"));
    let mut listed = BTreeMap::new();
    for row in rows {
        let mut cells = row.trim_end_matches('|').split(" | ");
        let name = cells.next().and_then(|cell| cell.split('`').next()).expect("a name");
        listed.insert(name, (cells.next().expect("whether it is a default"), cells.next().expect("what it adds")));
    }
    assert_eq!(listed.keys().collect::<Vec<_>>(), features.keys().collect::<Vec<_>>());
    for (name, turns_on) in &features {
        let (default, adds) = listed[name];
        let by_another = defaults.iter().any(|other| features[other].contains(name));
        let expected = match (defaults.contains(name), by_another) {
            (true, _) => "yes",
            (false, true) => "yes, by others",
            (false, false) => "no",
        };
        assert_eq!(default, expected, "`{name}`");
        for other in turns_on.iter().filter(|other| features.contains_key(*other)) {
            assert!(adds.contains(&format!("with `{other}`")), "`{name}` turns `{other}` on: {adds}");
        }
    }
    // The guide lists some of them, with the same defaults.
    for row in include_str!("../../../docs/library.md")
        .lines()
        .filter(|line| line.starts_with("| `") && line.contains("| yes | ") | line.contains("| no | "))
    {
        let names = row.split(" | ").next().unwrap_or_default().split('`').skip(1).step_by(2);
        for name in names {
            assert_eq!(listed.get(name).map(|(default, _)| *default), row.split(" | ").nth(1), "{row}");
        }
    }
}

/// The numbers of a message, and the message without them.
fn numbers(message: &str) -> (Vec<u64>, String) {
    let message = message.replace(',', "");
    let numbers = message.split(|letter: char| !letter.is_ascii_digit()).filter_map(|digits| digits.parse().ok());
    (numbers.collect(), message.replace(|letter: char| letter.is_ascii_digit(), ""))
}

const ALLOCATES: &str = "vm.module @m version 1
vm.export @allocate
vm.func @allocate(%i0:1: i64) -> (i64) {
  %i2 = vm.const.i32 16
  %r0 = vm.buffer.alloc %i0:1, %i2
  vm.return %i0:1
}
";

#[test]
fn the_message_of_a_memory_limit_can_occur() {
    let guide = include_str!("../../../docs/library.md");
    let row = guide.lines().find(|line| line.starts_with("| `memory: MemoryBudget`")).expect("a row");
    let quoted = row.split('`').find(|text| text.starts_with("RESOURCE_EXHAUSTED: ")).expect("a message");
    let (shown, text) = numbers(quoted);
    let [requested, used, limit] = shown[..] else { panic!("{quoted}") };
    assert!(used <= limit && limit < used + requested, "{quoted}");

    let module = Module::from_bytes(&vireo::asm::assemble(ALLOCATES).unwrap_or_else(|error| panic!("{error}")));
    let limits = Limits { memory: Some(MemoryBudget::new(limit)), ..Limits::default() };
    let context = Context::with_limits([module.expect("a module")], limits).expect("there is memory for that");
    let arguments = [Value::I64(requested.cast_signed())];
    let error =
        context.function("m.allocate").and_then(|function| function.call(&arguments)).expect_err("is too large");
    assert_eq!(numbers(error.to_string().lines().next().unwrap_or_default()).1, text);
}
