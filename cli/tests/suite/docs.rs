//! The examples of the user guide, as they stand there: each `$ vireo ...` line is run, and what follows is what it must print.

use crate::common::{folder, model, vireo};
use crate::skip::{Need, skipped};

#[test]
fn the_guide_tells_the_truth() {
    let guide = std::fs::read_to_string(folder("../docs/cli.md")).unwrap();
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
                Some(file) => format!("--module={}", model(file.trim_end_matches(".vmfb"))),
                None => word.to_string(),
            });
            let outcome = vireo(&folder("../fixtures/models"), words);
            assert_eq!(format!("{}{}", outcome.stdout, outcome.stderr), expected, "{command}");
            let fails = outcome.stderr.starts_with("error");
            assert!(outcome.code == code || (code == 0 && fails), "{command}: code {}", outcome.code);
            examples += 1;
        }
    }
    assert!(examples >= 3, "only {examples} examples were found");
}
