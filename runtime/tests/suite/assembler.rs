//! The grammar: what is read, and what is said about what is not.

use vireo::asm::{assemble, disassemble};
use vireo::vm::Module;
use vireo::vmfb::Archive;

/// The message for a function with this line in it.
fn message(line: &str) -> String {
    let text = format!("vm.module @m\nvm.func @f() -> () {{\n{line}\n  vm.return\n}}\n");
    assemble(&text).err().map(|error| error.to_string()).unwrap_or_default()
}

/// The code of the functions of a module.
fn code(text: &str) -> Vec<Vec<u8>> {
    let file = assemble(text).unwrap_or_else(|error| panic!("{error} in:\n{text}"));
    let archive = Archive::from_bytes(&file).unwrap_or_else(|status| panic!("{status}"));
    archive.functions().map(|function| archive.bytecode()[function.code.clone()].to_vec()).collect()
}

fn function(line: &str) -> Vec<u8> {
    let text = format!("vm.module @m\nvm.func @f() -> () {{\n{line}\n  vm.return\n}}\n");
    code(&text).remove(0)
}

#[test]
fn errors_name_place_finding_and_expectation() {
    let cases = [
        ("  vm.add.i32 %i0, %i1", "3:13: expected a result before the op, as in `%i0 = ...`"),
        ("  %i0, %i1 = vm.add.i32 %i0, %i1", "3:8: the op has one result only"),
        ("  %r0 = vm.add.i32 %i0, %i1", "3:3: expected a value register such as %i0, found a reference register"),
        ("  %i0 = vm.add.i32 %i0", "3:23: expected `,`, found the end of the line"),
        ("  %i0 = vm.add.i32 %i0, ä", "3:25: expected a value register such as %i0, found `ä`"),
        ("  %i0 = vm.add.i32 %i0:1, %i0", "3:20: expected a single register: the value has 32 bits"),
        ("  %i0 = vm.add.i32 %i0:2, %i0", "3:24: expected the upper half of the pair from 1 to 1, found `2`"),
        ("  %i0 = vm.add.i32 %i32768, %i0", "3:22: expected a register from 0 to 32767, found `32768`"),
        ("  %i0 = vm.cmp.nz.ref %R0", "3:23: expected a register such as %r0: the op cannot move this operand"),
        (
            "  %i0 = vm.const.i32 4294967296",
            "3:22: expected a number from -2147483648 to 4294967295, found `4294967296`",
        ),
        ("  %i0 = vm.const.f32 1e39", "3:22: expected a number of the type f32, found `1e39`"),
        ("  vm.br ^bb7()\n^bb1:", "3:9: expected a block of the function, found ^bb7"),
        ("  vm.br ^bb7()", "4:3: expected a block such as `^bb1:`, or `}`, found `vm.return`"),
        ("  vm.trace \"a", "3:14: expected a quote at the end of the string, found the end of the line"),
        (
            "  vm.trace \"\\q\"",
            "3:13: expected an escape: \\\" \\' \\\\ \\n \\r \\t \\0 \\xFF \\u{1F600}, found `\\\\q\\\"`",
        ),
        ("  vm.call @g()", "3:11: expected a function or an import of the module, found @g"),
        ("  vm.foo", "3:3: expected an op such as vm.add.i32, found `vm.foo`"),
        ("^bb0:", ""),
        ("^bb0:\n^bb1:", "4:1: expected the block in front to end with an op that leaves it, such as vm.br"),
        ("  %i0 = vm.global.load.i32 @x", "3:28: expected a global of the module, found @x"),
        ("  %i0 = vm.global.load.i32 .rwdata[4", "3:37: expected `]`, found the end of the line"),
    ];
    let wrong: Vec<String> = cases
        .iter()
        .filter(|(line, expected)| message(line) != *expected)
        .map(|(line, expected)| format!("{line}\n- {expected}\n+ {}", message(line)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let texts = [
        ("", "1:1: expected `vm.module @name`, found the end of the text"),
        ("vm.type i32", "1:1: expected `vm.module @name` first, found `vm.type`"),
        (
            "vm.module @m\nvm.func @f() -> () {",
            "2:9: expected `}` at the end of the function, found the end of the text",
        ),
        ("vm.module @m\nvm.export @f", "2:11: expected a function of the module, found @f"),
        ("vm.module @m\nvm.rodata[1] = 00", "2:11: expected the next ordinal from 0 to 0, found `1]`"),
        (
            "vm.module @m\nvm.rodata[0] = 0",
            "2:16: expected two hexadecimal digits for each byte, found an odd number of digits",
        ),
        ("vm.module @m\nvm.import @f", "2:11: expected an import such as @module.function"),
    ];
    for (text, expected) in texts {
        assert_eq!(assemble(text).err().map(|error| error.to_string()).as_deref(), Some(expected), "{text}");
    }
}

#[test]
fn both_forms_of_what_the_reference_writes_in_two() {
    let pairs = [
        ("vm.trace \"e\", %i0, %R1", "vm.trace \"e\"(%i0, %R1)"),
        ("vm.trace \"e\"", "vm.trace \"e\"()"),
        ("vm.print \"e\", %r0", "print \"e\"(%r0)"),
        ("%i0 = vm.global.load.indirect.i32 %i1", "%i0 = vm.global.load.indirect.i32 .rwdata[%i1]"),
        ("vm.global.store.indirect.i64 %i1, %i2:3", "vm.global.store.indirect.i64 %i2:3, .rwdata[%i1]"),
        (
            "%r0 = vm.global.load.indirect.ref %i1 : !vm.buffer",
            "%r0 = vm.global.load.indirect.ref .refs[%i1] : !vm.buffer",
        ),
        (
            "vm.global.store.indirect.ref %i1 : !vm.buffer, %r0",
            "vm.global.store.indirect.ref %r0, .refs[%i1] : !vm.buffer",
        ),
        ("%r0 = vm.list.alloc %i0 : !vm.list<vm.buffer>", "%r0 = vm.list.alloc %i0 : !vm.list<vm.buffer>  # a comment"),
        ("[00000001]  vm.return\n^x:", "  vm.return\n^bb1: // a comment"),
        ("%i0 = vm.const.i32 0xFFFFFFFF", "%i0 = vm.const.i32 -1"),
        ("%i0 = vm.const.f32 0x1.8p-3", "%i0 = vm.const.f32 f32:0x3e400000"),
        ("vm.trace \"\\x41\\u{42}//\\n\"", "vm.trace \"AB//\\n\""),
    ];
    for (first, second) in pairs {
        assert_eq!(function(first), function(second), "{first}\n{second}");
    }
}

#[test]
fn names_of_globals_functions_and_imports() {
    let text = "vm.module @m version 2 requires(yield)\n\
        vm.attr \"key\" = \"a \\\"value\\\"\"\n\
        vm.type \"!odd type\"\n\
        vm.dependency optional @other version 3\n\
        vm.import optional @other.fn cconv \"0i_i\"\n\
        vm.rodata[0] external = 00ff\n\
        vm.rodata[1] = \n\
        vm.global.i64 private @wide = 0 : i64\n\
        vm.global.i32 mutable @narrow\n\
        vm.global.ref @object : !vm.buffer\n\
        vm.export @f = @\"f 1\"\n\
        vm.func @\"f 1\"(%i0: i32) -> (i32) registers(8, 2) requires(yield, unwind) {\n  \
          vm.attr \"iree.abi\" = \"{}\"\n  \
          %i2:3 = vm.global.load.i64 @wide\n  \
          %i1 = vm.global.load.i32 @narrow\n  \
          %r0 = vm.global.load.ref @object : type 0\n  \
          %i1 = vm.call @other.fn(%i1)\n  \
          %i1 = vm.call @m.g(%i1)\n  \
          %i1 = vm.call @m:1(%i1)\n  \
          vm.return %i1\n}\n\
        vm.func @g(%i0: i32) -> (i32) {\n^bb0:\n  vm.return %i0\n}\n";
    let file = assemble(text).unwrap_or_else(|error| panic!("{error}"));
    let module = Module::from_bytes(&file).unwrap_or_else(|status| panic!("{status}"));
    let archive = module.archive().expect("a bytecode module");
    assert_eq!(archive.globals(), (16, 1));
    let printed = disassemble(archive, module.functions());
    let again = assemble(&printed).unwrap_or_else(|error| panic!("{error} in:\n{printed}"));
    assert_eq!(file, again, "{printed}");
    for part in [
        "version 2 requires(yield)\nvm.attr \"key\" = \"a \\\"value\\\"\"\nvm.type \"!odd type\"\nvm.dependency optional @other version 3\n",
        "vm.rodata[0] external = 00ff\nvm.rodata[1] = \n",
        "registers(8, 2) requires(yield, unwind) {\n  vm.attr \"iree.abi\" = \"{}\"\n",
        ".rwdata[8]",
        ".rwdata[0]",
        " : type 0\n",
    ] {
        assert!(printed.contains(part), "expected {part} in:\n{printed}");
    }
}

#[test]
fn changed_text_is_assembled_or_refused() {
    let sources = [
        include_str!("../../../fixtures/golden/control.vmasm"),
        include_str!("../../../fixtures/golden/global.vmasm"),
        include_str!("../../../fixtures/golden/constant.vmasm"),
        include_str!("../../../fixtures/context/app.vmasm"),
    ];
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut random = |limit: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) as usize % limit.max(1)
    };
    let spice = [
        "\"",
        "\\",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "<",
        ">",
        "%",
        "@",
        "^",
        ":",
        ",",
        "=",
        "0x",
        "99999999999999999999",
        "é",
        "\n",
        "//",
        "#",
        "-",
    ];
    let mut assembled = 0;
    for round in 0..600 {
        let source = sources[round % sources.len()];
        // A piece of whole lines, so that most of it is read before something is wrong.
        let lines: Vec<&str> = source.lines().collect();
        let start = lines.len().min(20 + random(60));
        let end = lines[start..].iter().position(|line| *line == "}").map_or(lines.len(), |end| start + end + 1);
        let mut text: Vec<char> = lines[..end].join("\n").chars().collect();
        for _ in 0..1 + random(3) {
            let (from, length) = (random(text.len()), random(6));
            let to = (from + length).min(text.len());
            match random(4) {
                0 => drop(text.drain(from..to)),
                1 => drop(text.splice(from..from, spice[random(spice.len())].chars())),
                2 => {
                    let copy = text[from..to].to_vec();
                    let place = random(text.len());
                    drop(text.splice(place..place, copy));
                }
                _ => text[from..to].rotate_left(usize::from(to > from)),
            }
        }
        let text: String = text.into_iter().collect();
        match assemble(&text) {
            Ok(file) => {
                // The verifier may refuse it, but the file is in order.
                assert!(Archive::from_bytes(&file).is_ok(), "{text}");
                assembled += 1;
                if let Ok(module) = Module::from_bytes(&file) {
                    let archive = module.archive().expect("a bytecode module");
                    let printed = disassemble(archive, module.functions());
                    assert_eq!(code(&printed), code(&text), "{text}\n{printed}");
                }
            }
            Err(error) => {
                assert!(!error.message.is_empty() && error.location.line as usize <= text.lines().count() + 1)
            }
        }
    }
    assert!(assembled > 20, "only {assembled} texts were assembled");
}
