//! Shows the forms of the tables to an assembler of the vendor: a kernel for each form, as the printer writes it, for
//! the first version and target that have the form.
//!
//! ```text
//! cargo run --release -p vireo-ptx --example assemble -- PTXAS
//! ```
//!
//! Forms on lanes are all there. Of the others each suffix is there once, since accesses to memory alone have millions.
//! The forms that it refuses are listed with its message. `ptxas` of CUDA 12.9 refuses none.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitCode};

use vireo_ptx::fragments::TILES;
use vireo_ptx::instructions::{INSTRUCTIONS, Special};
use vireo_ptx::isa::{BodyInfo, Form, InstructionInfo, VariantInfo};
use vireo_ptx::suffixes::{AtomicSuffix, Class, CountSuffix, MatrixSuffix, ShapeSuffix, Type, TypeKind, VectorSuffix};
use vireo_ptx::syntax::{parse, print};

/// The least version and target that the assembler knows.
const LEAST: (u32, u32) = (60, 50);
/// Targets from this one on have forms for themselves, which need a letter.
const WITH_LETTER: u32 = 90;

fn forms_of(info: &'static InstructionInfo, variant: &'static VariantInfo) -> Vec<Form> {
    let form = |choices: Vec<Option<u8>>| Form { instruction: info, variant, choices };
    if let BodyInfo::Lanes(_) = variant.body {
        return Form::of_lanes(info, variant).collect();
    }
    let base: Vec<Option<u8>> =
        variant.positions.iter().map(|position| (!position.optional).then_some(position.values[0])).collect();
    let mut forms = vec![form(base.clone())];
    for (at, position) in variant.positions.iter().enumerate() {
        for value in position.values {
            let mut choices = base.clone();
            if choices[at] != Some(*value) {
                choices[at] = Some(*value);
                forms.push(form(choices));
            }
        }
    }
    forms
}

fn register(ty: Type, number: usize) -> String {
    match ty.bits() {
        1 => format!("%p{number}"),
        8 | 32 => format!("%r{number}"),
        16 => format!("%h{number}"),
        128 => format!("%q{number}"),
        _ => format!("%rd{number}"),
    }
}

fn vector(count: usize, ty: Type, first: usize) -> String {
    let parts: Vec<String> = (first..first + count).map(|number| register(ty, number)).collect();
    if count == 1 { parts[0].clone() } else { format!("{{{}}}", parts.join(", ")) }
}

/// The operands of a form, the text before it, and the text after it.
fn operands(form: &Form) -> Option<(String, &'static str, &'static str)> {
    let ty = form.type_of(Class::Type).unwrap_or(Type::B32);
    let count = match form.get::<VectorSuffix>() {
        None => 1,
        Some(VectorSuffix::V2) => 2,
        Some(VectorSuffix::V4) => 4,
        Some(VectorSuffix::V8) => 8,
    };
    let text = form.text();
    let has = |suffix: &str| text.split('.').any(|part| part == suffix);
    let address = match () {
        () if has("param::func") => "[x]",
        () if has("param") && form.instruction.name == "st" => "[x]",
        () if has("param") || has("param::entry") => "[p]",
        () if has("shared") || has("shared::cta") => "[s]",
        () if has("local") => "[l]",
        () if has("const") => "[c]",
        () => "[%rd40]",
    };
    let hint = if has("L2::cache_hint") { ", %rd41" } else { "" };
    let special = match form.variant.body {
        BodyInfo::Lanes(_) => {
            let operands = (0..form.variant.operands.len()).map(|index| {
                let constant = form.instruction.name == "lop3" && form.variant.operands[index].name == "table";
                Some(if constant { "26".into() } else { register(form.operand_type(index)?, index) })
            });
            return Some((operands.collect::<Option<Vec<_>>>()?.join(", "), "", ""));
        }
        BodyInfo::Special(special) => special,
    };
    let plain = |text: String| Some((text, "", ""));
    match special {
        Special::Branch => Some(("E".into(), "", "E:")),
        Special::BranchIndexed => Some(("%r1, t".into(), "t: .branchtargets E, F;\n", "E: mov.u32 %r2, 1; F:")),
        Special::Call => plain("f".into()),
        Special::Return | Special::Exit | Special::Trap | Special::Fence => plain(String::new()),
        Special::Nothing => match form.instruction.name {
            "nanosleep" => plain("5".into()),
            "pmevent" => plain("1".into()),
            "prefetch" | "prefetchu" => plain(address.into()),
            "discard" | "applypriority" => plain("[%rd40], 128".into()),
            "cp" if has("wait_group") => plain("0".into()),
            "setmaxnreg" => plain("24".into()),
            _ => plain(String::new()),
        },
        Special::Compare => {
            let results = if ty.bits() == 16 && ty.kind() == TypeKind::Float { "%p1" } else { "%p1|%p2" };
            let joined = if form.has(Class::Boolean) { ", %p3" } else { "" };
            plain(format!("{results}, {}, {}{joined}", register(ty, 1), register(ty, 2)))
        }
        Special::Move => plain(format!("{}, {}", register(ty, 1), register(ty, 2))),
        Special::Load => {
            let before = if has("param::func") { "call (x), g;\n" } else { "" };
            Some((format!("{}, {address}{hint}", vector(count, wider(ty), 1)), before, ""))
        }
        Special::Store => plain(format!("{address}, {}{hint}", vector(count, wider(ty), 1))),
        Special::ConvertAddress => plain(format!("{}, {}", register(ty, 1), register(ty, 2))),
        Special::IsSpace => plain("%p1, %rd1".into()),
        Special::Atomic | Special::Reduce => {
            let result = if special == Special::Atomic { register(ty, 1) + ", " } else { String::new() };
            let third = match form.get::<AtomicSuffix>() {
                Some(AtomicSuffix::Cas) => format!(", {}", register(ty, 3)),
                _ => String::new(),
            };
            plain(format!("{result}{address}, {}{third}{hint}", register(ty, 2)))
        }
        Special::Copy => plain(format!("[s], [%rd40], 16{hint}")),
        Special::InitBarrier => plain(format!("{address}, 4")),
        Special::InvalidateBarrier | Special::CopiesArrive => plain(address.into()),
        Special::Arrive => plain(format!("%rd1, {address}{}", if has("noComplete") { ", 1" } else { "" })),
        Special::TestWait => plain(format!("%p1, {address}, {}", if has("parity") { "%r1" } else { "%rd1" })),
        Special::PendingCount => plain("%r1, %rd1".into()),
        Special::TransposeMatrix => plain("%r1, %r2".into()),
        Special::LoadMatrix | Special::StoreMatrix => {
            let count = match form.get::<CountSuffix>() {
                Some(CountSuffix::X4) => 4,
                Some(CountSuffix::X2) => 2,
                _ => 1,
            };
            let list = braces(count, Type::B32, 1);
            plain(if special == Special::LoadMatrix { format!("{list}, [s]") } else { format!("[s], {list}") })
        }
        Special::Matrix => {
            let columns: usize = form.text().split(".m16n8k").nth(1)?.split('.').next()?.parse().ok()?;
            let words = |elements: usize, bits: usize| elements * bits / 32 / 32;
            let bits = if ty == Type::Tf32 { 32 } else { ty.bits() as usize };
            let sums = |class| if form.type_of(class) == Some(Type::F16) { 2 } else { 4 };
            let lists = [
                (sums(Class::To), 1),
                (words(16 * columns, bits), 10),
                (words(8 * columns, bits), 20),
                (sums(Class::Accumulator), 30),
            ];
            let lists = lists.map(|(count, first)| braces(count, Type::B32, first));
            plain(lists.join(", "))
        }
        Special::LoadTile | Special::StoreTile => {
            let list = tile(form, form.get::<MatrixSuffix>()?, ty, 1)?;
            plain(if special == Special::LoadTile {
                format!("{list}, {address}, %r50")
            } else {
                format!("{address}, {list}, %r50")
            })
        }
        Special::MultiplyTiles => {
            let factors = form.type_of(Class::Type).unwrap_or(Type::F16);
            let (to, sums) = (form.type_of(Class::To)?, form.type_of(Class::Accumulator)?);
            let lists = [
                tile(form, MatrixSuffix::D, to, 1)?,
                tile(form, MatrixSuffix::A, factors, 10)?,
                tile(form, MatrixSuffix::B, factors, 20)?,
                tile(form, MatrixSuffix::C, sums, 30)?,
            ];
            plain(lists.join(", "))
        }
        Special::WarpBarrier => plain("%r1".into()),
        Special::BarrierSync => plain("1".into()),
        Special::BarrierArrive => plain("1, 64".into()),
        Special::BarrierCount => plain("%r1, 1, %p1".into()),
        Special::BarrierVote => plain("%p1, 1, !%p2".into()),
        Special::ActiveMask => plain("%r1".into()),
        Special::Shuffle => plain("%r1|%p1, %r2, 1, 31, -1".into()),
        Special::Vote => plain(format!("{}, %p2, -1", register(ty, 1))),
        Special::Match if has("all") => plain(format!("%r1|%p1, {}, -1", register(ty, 2))),
        Special::Match => plain(format!("%r1, {}, -1", register(ty, 2))),
        Special::Redux => plain("%r1, %r2, -1".into()),
    }
}

/// A value of eight bits is in a wider register.
fn wider(ty: Type) -> Type {
    if ty.bits() == 8 { Type::B16 } else { ty }
}

fn braces(count: usize, ty: Type, first: usize) -> String {
    let parts: Vec<String> = (first..first + count).map(|number| register(ty, number)).collect();
    format!("{{{}}}", parts.join(", "))
}

fn tile(form: &Form, matrix: MatrixSuffix, ty: Type, first: usize) -> Option<String> {
    let shape = form.get::<ShapeSuffix>()?;
    let tile = TILES.iter().find(|tile| tile.matrix == matrix && tile.shape == shape && tile.ty == ty)?;
    let register = if ty.bits() == 64 { Type::B64 } else { Type::B32 };
    Some(braces(tile.registers as usize, register, first))
}

/// A text with one kernel, as the printer writes it.
fn text(form: &Form, (version, target): (u32, u32)) -> Result<String, String> {
    let (operands, before, after) = operands(form).ok_or("no operands are known for it")?;
    let source = format!(
        ".version {}.{}\n.target sm_{target}\n.address_size 64\n.const .align 16 .b8 c[64]; .func f() {{ ret; }}\n\
         .func (.param .align 16 .b8 r[64]) g() {{ ret; }}\n\
         .entry k(.param .align 16 .b8 p[64]) {{ .reg .pred %p<60>; .reg .b16 %h<60>; .reg .b32 %r<60>; .reg .b64 %rd<60>;\n\
         {}.shared .align 16 .b8 s[64]; .local .align 16 .b8 l[64]; .param .align 16 .b8 x[64];\n{before}{} {operands};\n\
         {after} ret; }}",
        version / 10,
        version % 10,
        if version >= 83 && target >= 70 { ".reg .b128 %q<10>; " } else { "" },
        form.text()
    );
    let tree = parse(&source).map_err(|error| error.to_string())?;
    Ok(print(&tree))
}

/// The message of the assembler, if it refuses a text.
fn refused(assembler: &str, folder: &Path, text: &str, target: u32) -> Result<Option<String>, std::io::Error> {
    let run = |letter: &str| {
        let path = folder.join("form.ptx");
        std::fs::write(&path, text.replacen(&format!("sm_{target}"), &format!("sm_{target}{letter}"), 1))?;
        let arguments = [&format!("-arch=sm_{target}{letter}"), "-O0", "-o", "/dev/null"];
        Command::new(assembler).args(arguments).arg(path).output()
    };
    let mut output = run("")?;
    if !output.status.success() && target >= WITH_LETTER {
        output = run("a")?;
    }
    if output.status.success() {
        return Ok(None);
    }
    let all = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    let message = all.lines().find(|line| line.contains("error") || line.contains("fatal")).unwrap_or("");
    Ok(Some(message.rsplit("; ").next().unwrap_or(message).to_string()))
}

fn main() -> ExitCode {
    let Some(assembler) = std::env::args().nth(1).filter(|path| Path::new(path).exists()) else {
        println!("skipped: expected the path of an assembler, `ptxas`");
        return ExitCode::SUCCESS;
    };
    let only = std::env::args().nth(2);
    let folder = std::env::temp_dir().join(format!("vireo-ptx-{}", std::process::id()));
    if let Err(error) = std::fs::create_dir_all(&folder) {
        println!("{}: {error}", folder.display());
        return ExitCode::FAILURE;
    }
    let (mut accepted, mut wrong): (usize, BTreeMap<String, String>) = (0, BTreeMap::new());
    for info in INSTRUCTIONS.iter().filter(|info| only.as_ref().is_none_or(|only| only == info.name)) {
        for form in info.variants.iter().flat_map(|variant| forms_of(info, variant)) {
            let since = form.since();
            let since = (since.0.max(LEAST.0), since.1.max(LEAST.1));
            // The assembler has no targets between these.
            let target = if since.1 == 32 { 50 } else { since.1 };
            let checked = text(&form, (since.0, target))
                .and_then(|text| refused(&assembler, &folder, &text, target).map_err(|error| error.to_string()));
            match checked {
                Ok(None) => accepted += 1,
                Ok(Some(message)) | Err(message) => {
                    wrong.insert(
                        format!("{} of version {}.{} for sm_{target}", form.text(), since.0 / 10, since.0 % 10),
                        message,
                    );
                }
            }
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
    for (form, message) in &wrong {
        println!("{form}: {message}");
    }
    println!("{accepted} forms are accepted, and {} are not", wrong.len());
    if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
