//! `cargo xtask ptx-census FOLDER`: the forms of instructions in the files `.ptx` of a folder that the spec lacks, each
//! with the number of times that it is there and the first place.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::op::read_spec;
use crate::chore::Failure;

/// Prints the census of a folder. Fails if forms are missing.
pub fn ptx_census(folder: &Path) -> Result<(), Failure> {
    let spec = read_spec()?;
    let ptx = spec.ptx("ptx").ok_or_else(|| Failure::Wrong("there is no spec/isa/ptx".into()))?;
    let mut files = Vec::new();
    collect(folder, &mut files).map_err(|error| Failure::Wrong(format!("{}: {error}", folder.display())))?;
    files.sort();
    let (mut forms, mut count): (BTreeMap<String, (u64, String)>, u64) = (BTreeMap::new(), 0);
    for file in &files {
        let text = fs::read(file).map_err(|error| Failure::Wrong(format!("{}: {error}", file.display())))?;
        for (line, form) in opcodes(&String::from_utf8_lossy(&text)) {
            count += 1;
            forms.entry(form.to_string()).or_insert_with(|| (0, format!("{}:{line}", file.display()))).0 += 1;
        }
    }
    println!("{} files, {count} instructions, {} forms", files.len(), forms.len());
    let mut missing = 0;
    for (form, (count, place)) in &forms {
        let why = match ptx.has_form(form) {
            Ok(true) => continue,
            Ok(false) => "the spec has no such form",
            Err(reason) => reason,
        };
        missing += 1;
        println!("{form}: {count} times, first at {place}: {why}");
    }
    if missing > 0 { Err(Failure::Wrong(format!("{missing} forms are missing"))) } else { Ok(()) }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "ptx") {
            files.push(path);
        }
    }
    Ok(())
}

/// The opcodes of a text with their lines: what begins a statement and is neither a directive nor a label.
fn opcodes(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut is_in_function = 0usize;
    let mut is_at_start = true;
    for (index, line) in text.lines().enumerate() {
        let line = line.split("//").next().unwrap_or_default();
        let mut rest = line;
        loop {
            rest = rest.trim_start();
            let Some(first) = rest.chars().next() else { break };
            if is_at_start && first == '@' {
                // The predicate is one word.
                rest = rest.split_once(char::is_whitespace).map_or("", |(_, rest)| rest);
                continue;
            }
            if is_at_start && is_in_function > 0 && first.is_ascii_alphabetic() {
                let end = rest.find(|c: char| c.is_whitespace() || matches!(c, ';' | ':') && !rest.starts_with("::"));
                let end = opcode_end(rest).or(end).unwrap_or(rest.len());
                if !rest[end..].trim_start().starts_with(':') {
                    found.push((index + 1, &rest[..end]));
                }
                is_at_start = false;
            }
            let Some(at) = rest.find([';', '{', '}', ':']) else {
                // A directive without a semicolon ends with its line.
                is_at_start = is_at_start && first == '.';
                break;
            };
            match rest.as_bytes()[at] {
                b'{' => {
                    // Braces of operands do not begin a statement.
                    if is_at_start || is_in_function == 0 {
                        is_in_function += 1;
                        is_at_start = true;
                    } else {
                        let close = rest[at..].find('}').map_or(rest.len(), |close| at + close + 1);
                        rest = &rest[close..];
                        continue;
                    }
                }
                b'}' => {
                    is_in_function = is_in_function.saturating_sub(1);
                    is_at_start = true;
                }
                b':' if rest.as_bytes().get(at + 1) == Some(&b':') => {
                    rest = &rest[at + 2..];
                    continue;
                }
                _ => is_at_start = true,
            }
            rest = &rest[at + 1..];
        }
    }
    found
}

/// Where an opcode ends: suffixes may have two colons in them.
fn opcode_end(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b':' if bytes.get(at + 1) == Some(&b':') => at += 2,
            byte if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_') => at += 1,
            _ => return Some(at),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opcodes_are_told_from_directives_labels_and_operands() {
        let text = ".version 8.0\n.visible .entry k(\n .param .u64 p\n)\n{\n\t.reg .b32 %r<3>;\n$L__1:\n\t@%p1 bra \t$L__1;\n\
                    \tld.param::entry.b64 %rd1, [p]; ret;\n\tmov.b64 {%r1, %r2}, %rd1;\n\t{\n\tcall.uni\n\tf,\n\t(a);\n\t}\n}\n";
        let found: Vec<&str> = opcodes(text).into_iter().map(|(_, opcode)| opcode).collect();
        assert_eq!(found, ["bra", "ld.param::entry.b64", "ret", "mov.b64", "call.uni"]);
    }
}
