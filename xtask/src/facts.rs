//! `cargo xtask facts`: finds literals in hand-written Rust that repeat a fact of `spec/`.
//!
//! It looks at the sources of the runtime, the command and the macros, without tests, attributes and comments. Of texts
//! it knows those of the specs that are not written by chance: of four characters at least, with a character that is no
//! letter (`hal.device.id`, `embedded-elf-`, `__set_constants`). Of numbers it knows those that are written in
//! hexadecimal with five digits at least and are no mask. A line with a comment `fact: WHY` may repeat one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, Item, Lit};
use vireo_codegen::Spec;
use vireo_codegen::model::constant::{Constant, ConstantValue};
use vireo_codegen::model::hal::SpecFile;
use vireo_codegen::model::instruction_set::InstructionSet;
use vireo_codegen::model::schema::ItemKind;

use crate::chore::{Failure, workspace};
use crate::op;

/// The folders it looks at, below the workspace.
const FOLDERS: [&str; 4] = ["runtime", "cli/src", "macros/src", "macros/bind/src"];
/// The beginning of an exception; the reason follows.
const EXCEPTION: &str = "fact: ";
/// Shortest text that counts.
const SHORTEST_TEXT: usize = 4;
/// Least number that counts: five hexadecimal digits.
const LEAST_NUMBER: u64 = 0x10000;

/// Prints what is repeated, and fails if anything is.
pub fn facts() -> Result<(), Failure> {
    let facts = Facts::of(&op::read_spec()?);
    let (mut findings, mut files) = (Vec::new(), 0);
    for folder in FOLDERS {
        for path in sources(&workspace().join(folder))? {
            let text = fs::read_to_string(&path).map_err(|error| wrong(&path, &error))?;
            let shown = path.strip_prefix(workspace()).unwrap_or(&path).display().to_string();
            findings.extend(facts.repeated(&shown, &text).map_err(Failure::Wrong)?);
            files += 1;
        }
    }
    println!("{files} files, {} texts and {} numbers of spec/", facts.texts.len(), facts.numbers.len());
    if findings.is_empty() {
        return Ok(());
    }
    findings.push(format!(
        "{} literals repeat what spec/ says: use what is generated of it, or say why not in a comment `{EXCEPTION}...`",
        findings.len()
    ));
    Err(Failure::Wrong(findings.join("\n")))
}

fn wrong(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::Wrong(format!("{}: {error}", path.display()))
}

/// The sources below `folder` that are neither tests nor generated, sorted.
fn sources(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    let entries = fs::read_dir(folder).map_err(|error| wrong(folder, &error))?;
    for entry in entries {
        let path = entry.map_err(|error| wrong(folder, &error))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match path.is_dir() {
            true if matches!(name.as_str(), "tests" | "target" | "examples" | "benches") => {}
            true => found.extend(sources(&path)?),
            // Literals in build scripts are paths of generated files.
            false if matches!(name.as_str(), "tests.rs" | "op_tests.rs" | "build.rs" | "support_matrix.rs") => {}
            false if name.ends_with(".rs") => found.push(path),
            false => {}
        }
    }
    found.sort();
    Ok(found)
}

/// The facts of the specs, each with its meaning.
#[derive(Default)]
struct Facts {
    texts: BTreeMap<String, String>,
    numbers: BTreeMap<u64, String>,
}

impl Facts {
    fn of(spec: &Spec) -> Facts {
        let mut facts = Facts::default();
        for names in &spec.names {
            for value in &names.values {
                for text in std::iter::once(&value.text).chain(&value.also) {
                    facts.text(text, format!("a `{}` of {}", names.name, names.origin));
                }
            }
        }
        for reference in &spec.abi.refs {
            facts.text(&reference.name, format!("the reference type of {}", reference.origin));
        }
        for callee in &spec.abi.callees {
            callee.symbol.iter().for_each(|symbol| facts.text(symbol, format!("the symbol of {}", callee.origin)));
            facts.text(&spec.abi.grammar.text(&callee.convention()), format!("the convention of {}", callee.origin));
        }
        for module in spec.abi.modules.values() {
            facts.text(&module.name, format!("the module of {}", module.origin));
        }
        for set in spec.instruction_sets.values() {
            if let InstructionSet::Vm(isa) = set {
                facts.constants(&isa.constants);
            }
        }
        let of_apis = spec.apis.values().flat_map(|api| &api.files);
        spec.hal.files.iter().chain(of_apis).for_each(|file| facts.file(file));
        for (name, api) in &spec.apis {
            for library in &api.libraries {
                let names = library.names.iter().chain(&library.version);
                names.for_each(|text| facts.text(text, format!("the library of {}", library.origin)));
            }
            for symbol in api.symbols() {
                facts.text(&symbol.function.name, format!("a symbol of spec/api/{name}"));
            }
        }
        for file in spec.schema.files.values() {
            for item in &file.items {
                let what = format!("`{}` of {}", item.name, item.origin);
                match &item.kind {
                    ItemKind::Root { identifier, .. } => {
                        facts.texts.insert(identifier.clone(), what);
                    }
                    ItemKind::Text(text) => facts.text(text, what),
                    ItemKind::Constant { value, .. } => facts.number(*value, what),
                    _ => {}
                }
            }
        }
        facts
    }

    fn file(&mut self, file: &SpecFile) {
        self.constants(&file.constants);
        for numbers in &file.numbers {
            for value in &numbers.values {
                let what = format!("`{}` of the `{}` at {}", value.name, numbers.name, numbers.origin);
                self.number(value.value, what.clone());
                value.text.iter().for_each(|text| self.text(text, what.clone()));
            }
        }
        for option in &file.options {
            self.text(&option.name, format!("the option of {}", option.origin));
        }
    }

    fn constants(&mut self, constants: &[Constant]) {
        for constant in constants {
            let what = format!("`{}` of {}", constant.name, constant.origin);
            match &constant.value {
                ConstantValue::Int(_, value) => self.number(*value, what),
                ConstantValue::Text(text) => self.text(text, what),
            }
        }
    }

    fn text(&mut self, text: &str, what: String) {
        if text.len() >= SHORTEST_TEXT && text.chars().any(|letter| !letter.is_alphabetic()) {
            self.texts.entry(text.to_string()).or_insert(what);
        }
    }

    fn number(&mut self, value: u64, what: String) {
        let is_mask = value.is_power_of_two() || value.wrapping_add(1) & value == 0 || value.trailing_zeros() >= 16;
        if value >= LEAST_NUMBER && !is_mask {
            self.numbers.entry(value).or_insert(what);
        }
    }

    /// The literals of a file that repeat a fact, each with its places.
    fn repeated(&self, path: &str, text: &str) -> Result<Vec<String>, String> {
        let mut file = syn::parse_file(text).map_err(|error| format!("{path}: {error}"))?;
        without_tests(&mut file.items);
        let mut literals = Vec::new();
        file.items.iter().for_each(|item| collect(item.to_token_stream(), &mut literals));
        literals.sort();
        literals.dedup();
        let mut findings = Vec::new();
        // Tests are at the end of a file.
        let body = text.split("#[cfg(test)]\nmod ").next().unwrap_or(text);
        for literal in literals {
            let Some(what) = self.meaning(&literal) else { continue };
            let mut before = "";
            for (number, line) in body.lines().enumerate() {
                let code = line.split("//").next().unwrap_or(line);
                let is_attribute = code.trim_start().starts_with("#[");
                if !is_attribute && contains(code, &literal) && !is_exception(line) && !is_exception(before) {
                    findings.push(format!("{path}:{}: {literal} is {what}", number + 1));
                }
                before = line;
            }
        }
        Ok(findings)
    }

    /// The meaning of the fact that a literal repeats.
    fn meaning(&self, literal: &str) -> Option<&str> {
        let found = match syn::parse_str::<Lit>(literal).ok()? {
            Lit::Str(text) => self.texts.get(&text.value()),
            Lit::ByteStr(text) => self.texts.get(str::from_utf8(&text.value()).ok()?),
            Lit::Int(number) if literal.starts_with("0x") => self.numbers.get(&number.base10_parse().ok()?),
            _ => None,
        };
        found.map(String::as_str)
    }
}

/// Whether a line has the literal, and not only as the end of another one.
fn contains(line: &str, literal: &str) -> bool {
    let is_end = |letter: char| letter.is_alphanumeric() || letter == '_';
    line.match_indices(literal).any(|(at, _)| !line[..at].ends_with(is_end))
}

/// Whether a line says why it repeats a fact.
fn is_exception(line: &str) -> bool {
    line.split_once("//").and_then(|(_, comment)| comment.split_once(EXCEPTION)).is_some_and(|(_, why)| why.len() > 8)
}

/// Removes what is compiled for tests only.
fn without_tests(items: &mut Vec<Item>) {
    let is_test = |attributes: &[Attribute]| {
        attributes.iter().any(|attribute| {
            attribute.path().is_ident("test")
                || attribute.meta.to_token_stream().to_string().replace(' ', "") == "cfg(test)"
        })
    };
    items.retain(|item| match item {
        Item::Mod(module) => !is_test(&module.attrs),
        Item::Fn(function) => !is_test(&function.attrs),
        Item::Impl(block) => !is_test(&block.attrs),
        Item::Const(constant) => !is_test(&constant.attrs),
        _ => true,
    });
    for item in items {
        if let Item::Mod(module) = item
            && let Some((_, items)) = &mut module.content
        {
            without_tests(items);
        }
    }
}

/// The literals of `tokens` outside attributes; doc comments are attributes, too.
fn collect(tokens: TokenStream, literals: &mut Vec<String>) {
    let mut after_hash = false;
    for token in tokens {
        match token {
            TokenTree::Group(group) if after_hash && group.delimiter() == Delimiter::Bracket => after_hash = false,
            TokenTree::Group(group) => {
                after_hash = false;
                collect(group.stream(), literals);
            }
            TokenTree::Literal(literal) => literals.push(literal.to_string()),
            // `#!` begins an attribute as well.
            TokenTree::Punct(punct) => after_hash = punct.as_char() == '#' || (after_hash && punct.as_char() == '!'),
            TokenTree::Ident(_) => after_hash = false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repeated(text: &str) -> Vec<String> {
        let mut facts = Facts::default();
        facts.text("hal.device.id", "a question".to_string());
        facts.text("version", "a word".to_string());
        facts.number(0x464c_457f, "a magic number".to_string());
        facts.number(0xffff_ffff, "a mask".to_string());
        facts.repeated("a.rs", text).unwrap()
    }

    #[test]
    fn literals_that_repeat_a_fact_are_found() {
        let text = "const A: &str = \"hal.device.id\";\nfn f() { assert!(g(b\"hal.device.id\") && h(0x464c_457f)); }\n";
        assert_eq!(
            repeated(text),
            [
                "a.rs:1: \"hal.device.id\" is a question",
                "a.rs:2: 0x464c_457f is a magic number",
                "a.rs:2: b\"hal.device.id\" is a question",
            ]
            .map(String::from)
            .into_iter()
            .collect::<Vec<_>>()
        );
    }

    #[test]
    fn tests_attributes_comments_and_words_are_not() {
        let text = "//! `hal.device.id`\n/// \"hal.device.id\"\n#[export(\"hal.device.id\")]\nfn f() { g(\"version\", 0xffff_ffff) } // \"hal.device.id\"\n\
                    #[cfg(test)]\nmod tests { const A: &str = \"hal.device.id\"; }\n";
        assert!(repeated(text).is_empty(), "{:?}", repeated(text));
    }

    #[test]
    fn a_reason_makes_an_exception() {
        assert!(repeated("const A: &str = \"hal.device.id\"; // fact: it is quoted to users as it is").is_empty());
        assert!(repeated("// fact: it is quoted to users as it is\nconst A: &str = \"hal.device.id\";").is_empty());
        assert_eq!(repeated("const A: &str = \"hal.device.id\"; // fact: no").len(), 1);
    }
}
