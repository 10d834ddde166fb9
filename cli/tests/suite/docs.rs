//! The examples of the user guide, as they stand there: each `$ vireo ...` line is run, and what follows is what it must print.

use crate::common::{folder, model, vireo};
use crate::skip::{Need, skipped};

#[test]
fn the_guide_tells_the_truth() {
    assert!(check("../docs/cli.md", "../fixtures/models") >= 3);
}

#[cfg_attr(not(target_os = "linux"), ignore = "the software agent reserves addresses as Linux does")]
#[test]
fn the_guide_to_gpu_code_tells_the_truth() {
    assert!(check("../docs/gpu_debugging.md", "../fixtures/sanitizer") >= 2);
}

/// The text with `0x7f0000000000` for each address of the process, which differs each time.
fn without_addresses(text: &str) -> String {
    let mut parts = text.split("0x");
    let mut out = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_hexdigit).count();
        let known = if digits > 8 { "7f0000000000" } else { &part[..digits] };
        out += &format!("0x{known}{}", &part[digits..]);
    }
    out
}

/// Runs the examples of a guide in a folder; returns how many there are. `...` in a line of its own stands for the rest.
fn check(guide: &str, models: &str) -> usize {
    let guide = std::fs::read_to_string(folder(guide)).unwrap();
    let mut examples = 0;
    for block in guide.split("```").skip(1).step_by(2).filter(|block| block.contains("$ vireo ")) {
        // `$ echo $?` at the end of an example shows its exit code.
        let (commands, code) = match block.split_once("$ echo $?\n") {
            Some((commands, code)) => (commands, code.trim().parse::<i32>().unwrap()),
            None => (block, 0),
        };
        for example in commands.split("$ vireo ").skip(1) {
            let (command, expected) = example.split_once('\n').unwrap();
            if !cfg!(target_arch = "x86_64") && command.starts_with("explain ") {
                skipped(Need::Platform("x86_64"), format_args!("`{command}` shows kernels for x86-64"));
                continue;
            }
            let words = command.split_whitespace().map(|word| match word.strip_prefix("--module=") {
                Some(file) if models.ends_with("/models") => {
                    format!("--module={}", model(file.trim_end_matches(".vmfb")))
                }
                _ => word.to_string(),
            });
            let outcome = vireo(&folder(models), words);
            let printed = without_addresses(&format!("{}{}", outcome.stdout, outcome.stderr));
            match expected.strip_suffix("...\n") {
                Some(begin) => assert_eq!(printed.get(..begin.len()), Some(begin), "{command}: {printed}"),
                None => assert_eq!(printed, expected, "{command}"),
            }
            let fails = outcome.stderr.starts_with("error");
            assert!(outcome.code == code || (code == 0 && fails), "{command}: code {}", outcome.code);
            examples += 1;
        }
    }
    examples
}
