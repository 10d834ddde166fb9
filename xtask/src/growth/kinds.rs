//! Hostile functions and modules of any size, as assembly: each kind is something that a pass could look through once
//! for each of its parts.

use std::fmt::Write;

/// A kind of module.
pub struct Kind {
    pub name: &'static str,
    /// A size at which the size is most of the work.
    pub size: usize,
    /// The module of a size. Its function `main` takes no argument and ends soon.
    pub text: fn(usize) -> String,
}

const fn kind(name: &'static str, size: usize, text: fn(usize) -> String) -> Kind {
    Kind { name, size, text }
}

pub const KINDS: &[Kind] = &[
    kind("a chain of additions", 4000, |n| block(&lines(n, |_| "%i1 = vm.add.i32 %i1, %i1".into()))),
    kind("a chain of masks", 4000, |n| {
        block(&lines(n, |_| "%i2 = vm.xor.i32 %i1, %i0\n  %i1 = vm.and.i32 %i2, %i1".into()))
    }),
    kind("a chain of wide additions", 4000, |n| block(&lines(n, |_| "%i2:3 = vm.add.i64 %i2:3, %i2:3".into()))),
    kind("a chain of multiplications and additions", 4000, |n| {
        block(&lines(n, |_| "%i2 = vm.mul.i32 %i1, %i1\n  %i1 = vm.add.i32 %i2, %i1".into()))
    }),
    kind("ops of many registers", 6000, |n| {
        block(&lines(n, |i| format!("%i{} = vm.add.i32 %i{}, %i{}", 1 + i * 7 % 59, 1 + i * 13 % 59, 1 + i * 31 % 59)))
    }),
    kind("many values that live", 2000, |n| {
        let loads = lines(n, |i| format!("%i{} = vm.global.load.i32 .rwdata[{}]", 2 + i, 4 * i));
        block(&(loads + &lines(n, |i| format!("%i1 = vm.add.i32 %i1, %i{}", 2 + i))))
    }),
    kind("a chain of selections", 3000, |n| {
        block(&lines(n, |_| "%i2 = vm.cmp.lt.i32.s %i1, %i0\n  %i1 = vm.select.i32 %i2 ? %i1 : %i0".into()))
    }),
    kind("a chain of floats", 3000, |n| block(&lines(n, |_| "%i1 = vm.mul.f32 %i1, %i1".into()))),
    kind("a chain of conversions", 3000, |n| {
        block(&lines(n, |_| "%i2:3 = vm.ext.i32.i64.s %i1\n  %i1 = vm.trunc.i64.i32 %i2:3".into()))
    }),
    kind("divisions, which can fail", 2000, |n| {
        block(&("%i0 = vm.const.i32 1\n  ".to_string() + &lines(n, |_| "%i1 = vm.div.i32.s %i1, %i0".into())))
    }),
    kind("blocks that fail", 1500, |n| {
        let blocks = (0..n).fold(String::new(), |text, i| {
            text + &format!("^bb{}:\n  vm.cond_br %i0, ^bb{}, ^bb{}\n", i + 1, n + i + 2, i + 2)
        });
        let fails = (0..n).fold(String::new(), |text, i| text + &format!("^bb{}:\n  vm.fail %i0, \"no\"\n", n + i + 2));
        function(&format!("^bb0:\n  vm.br ^bb1\n{blocks}^bb{}:\n  vm.return %i0\n{fails}", n + 1))
    }),
    kind("calls of a function", 2000, |n| {
        block(&lines(n, |_| "%i1 = vm.call @leaf(%i1)".into()))
            + "vm.func @leaf(%i0: i32) -> (i32) {\n^bb0:\n  vm.return %i0\n}\n"
    }),
    kind("functions that are called once", 400, |n| {
        let calls = block(&lines(n, |i| format!("%i1 = vm.call @f{i}(%i1)")));
        (0..n).fold(calls, |text, i| {
            text + &format!(
                "vm.func @f{i}(%i0: i32) -> (i32) {{\n^bb0:\n  %i0 = vm.add.i32 %i0, %i0\n  vm.return %i0\n}}\n"
            )
        })
    }),
    kind("functions that call the next", 400, |n| {
        let functions = (0..n).fold(block("%i1 = vm.call @f0(%i1)\n"), |text, i| {
            text + &format!(
                "vm.func @f{i}(%i0: i32) -> (i32) {{\n^bb0:\n  %i0 = vm.call @f{}(%i0)\n  vm.return %i0\n}}\n",
                i + 1
            )
        });
        functions + &format!("vm.func @f{n}(%i0: i32) -> (i32) {{\n^bb0:\n  vm.return %i0\n}}\n")
    }),
    kind("loops one after the other", 500, |n| {
        let blocks = (0..n).fold(String::new(), |text, i| {
            text + &format!(
                "^bb{0}:\n  %i1 = vm.add.i32 %i1, %i0\n  %i2 = vm.cmp.lt.i32.s %i1, %i0\n  vm.cond_br %i2, ^bb{0}, ^bb{1}\n",
                i + 1,
                i + 2
            )
        });
        function(&format!("^bb0:\n  vm.br ^bb1\n{blocks}^bb{}:\n  vm.return %i0\n", n + 1))
    }),
    kind("loops inside of each other", 200, |n| {
        let heads = (0..n).fold(String::new(), |text, i| {
            text + &format!("^bb{}:\n  %i{1} = vm.add.i32 %i{1}, %i0\n  vm.br ^bb{2}\n", i + 1, i + 2, i + 2)
        });
        let ends = (0..n).fold(String::new(), |text, i| {
            text + &format!(
                "^bb{}:\n  %i1 = vm.cmp.lt.i32.s %i{}, %i0\n  vm.cond_br %i1, ^bb{}, ^bb{}\n",
                n + i + 1,
                n - i + 1,
                n - i,
                n + i + 2
            )
        });
        function(&format!("^bb0:\n  vm.br ^bb1\n{heads}{ends}^bb{}:\n  vm.return %i0\n", 2 * n + 1))
    }),
    kind("diamonds", 700, |n| {
        let blocks = (0..n).fold(String::new(), |text, i| {
            let first = 3 * i + 1;
            text + &format!(
                "^bb{first}:\n  vm.cond_br %i0, ^bb{}, ^bb{}\n^bb{}:\n  %i1 = vm.add.i32 %i1, %i1\n  vm.br ^bb{3}\n^bb{1}:\n  %i1 = vm.mul.i32 %i1, %i1\n  vm.br ^bb{3}\n",
                first + 1,
                first + 2,
                first + 1,
                first + 3
            )
        });
        function(&format!("^bb0:\n  vm.br ^bb1\n{blocks}^bb{}:\n  vm.return %i1\n", 3 * n + 1))
    }),
    kind("a ladder of exits to one block", 1500, |n| {
        let blocks = (0..n).fold(String::new(), |text, i| {
            text + &format!(
                "^bb{0}:\n  %i1 = vm.add.i32 %i1, %i1\n  vm.cond_br %i0, ^bb{2}, ^bb{1}\n",
                i + 1,
                i + 2,
                n + 1
            )
        });
        function(&format!("^bb0:\n  vm.br ^bb1\n{blocks}^bb{}:\n  vm.return %i1\n", n + 1))
    }),
    kind("loops with two entries", 400, |n| {
        let blocks = (0..n).fold(String::new(), |text, i| {
            let first = 3 * i + 1;
            text + &format!(
                "^bb{0}:\n  vm.cond_br %i0, ^bb{1}, ^bb{2}\n^bb{1}:\n  %i1 = vm.add.i32 %i1, %i1\n  vm.cond_br %i0, ^bb{2}, ^bb{3}\n^bb{2}:\n  %i1 = vm.mul.i32 %i1, %i1\n  vm.cond_br %i0, ^bb{1}, ^bb{3}\n",
                first,
                first + 1,
                first + 2,
                first + 3
            )
        });
        function(&format!("^bb0:\n  vm.br ^bb1\n{blocks}^bb{}:\n  vm.return %i1\n", 3 * n + 1))
    }),
    kind("branches back to one block", 700, |n| {
        let stores = lines(20, |i| format!("vm.global.store.i32 %i1, .rwdata[{}]", 4 * i));
        let blocks = (0..n).fold(String::new(), |text, i| {
            text + &format!("^bb{}:\n  %i1 = vm.add.i32 %i1, %i1\n  vm.cond_br %i0, ^bb1, ^bb{}\n", i + 2, i + 3)
        });
        function(&format!("^bb0:\n  vm.br ^bb1\n^bb1:\n  {stores}vm.br ^bb2\n{blocks}^bb{}:\n  vm.return %i1\n", n + 2))
    }),
    kind("many branches back to a block of many stores", 1600, |n| {
        let stores = lines(n, |i| format!("vm.global.store.i32 %i{}, .rwdata[{}]", i % 50, 4 * i));
        let blocks = (0..n).fold(String::new(), |text, i| {
            text + &format!("^bb{}:\n  %i1 = vm.add.i32 %i1, %i1\n  vm.cond_br %i0, ^bb1, ^bb{}\n", i + 2, i + 3)
        });
        function(&format!("^bb0:\n  vm.br ^bb1\n^bb1:\n  {stores}vm.br ^bb2\n{blocks}^bb{}:\n  vm.return %i1\n", n + 2))
    }),
    kind("a table of branches", 1500, |n| {
        let cases: Vec<String> = (0..n).map(|i| format!("{i}: ^bb{}", i + 1)).collect();
        let blocks = (0..n).fold(String::new(), |text, i| {
            text + &format!("^bb{}:\n  %i1 = vm.add.i32 %i1, %i1\n  vm.br ^bb{}\n", i + 1, n + 1)
        });
        function(&format!(
            "^bb0:\n  vm.br_table %i0 {{ default: ^bb1, {} }}\n{blocks}^bb{}:\n  vm.return %i1\n",
            cases.join(", "),
            n + 1
        ))
    }),
    kind("branches that copy many registers", 600, |n| {
        let copies: Vec<String> = (0..n).map(|i| format!("%i{}->%i{}", 2 + i, n + 2 + i)).collect();
        function(&format!("^bb0:\n  vm.br ^bb1({})\n^bb1:\n  vm.return %i1\n", copies.join(", ")))
    }),
    kind("branches that rotate registers", 500, |n| {
        let copies: Vec<String> = (0..50).map(|i| format!("%i{}->%i{}", 2 + i, 3 + i)).collect();
        let copies = copies.join(", ");
        let blocks =
            (0..n).fold(String::new(), |text, i| text + &format!("^bb{}:\n  vm.br ^bb{}({copies})\n", i + 1, i + 2));
        function(&format!("^bb0:\n  vm.br ^bb1\n{blocks}^bb{}:\n  vm.return %i1\n", n + 1))
    }),
    kind("moves of references", 6000, |n| {
        block(&lines(n, |i| format!("%r{} = vm.assign.ref %R{}", (i + 1) % 7, i % 7)))
    }),
    kind("references that live", 5000, |n| block(&lines(n, |i| format!("%r{} = vm.const.ref.rodata 0", i % 16000)))),
    kind("loads and stores of a buffer", 1500, |n| {
        block(
            &(BUFFER.to_string()
                + &lines(n, |i| {
                    format!(
                        "%i10:11 = vm.const.i64 {}\n  %i4 = vm.buffer.load.i32 %r0, %i10:11\n  vm.buffer.store.i32 %i4, %r0, %i10:11",
                        i % 64
                    )
                })),
        )
    }),
    kind("loads of many buffers", 500, |n| {
        let allocations = lines(n, |i| format!("%r{i} = vm.buffer.alloc %i6:7, %i8"));
        block(&(BUFFER.to_string() + &allocations + &lines(n, |i| format!("%i4 = vm.buffer.load.i32 %r{i}, %i2:3"))))
    }),
    kind("a loop of many accesses", 300, |n| {
        counted_loop(&lines(n, |i| {
            format!(
                "%i20:21 = vm.const.i64 {}\n  %i20:21 = vm.add.i64 %i20:21, %i12:13\n  %i4 = vm.buffer.load.i32 %r0, %i20:21\n  vm.buffer.store.i32 %i4, %r1, %i20:21",
                i % 50
            )
        }))
    }),
    kind("a loop whose index is a chain of additions", 100, |n| {
        counted_loop(&format!(
            "%i20:21 = vm.add.i64 %i12:13, %i12:13\n  {}vm.buffer.store.i32 %i4, %r0, %i20:21\n",
            lines(n, |_| "%i20:21 = vm.add.i64 %i20:21, %i20:21".into())
        ))
    }),
    kind("a loop whose index is a chain of masks", 100, |n| {
        counted_loop(&format!(
            "%i20:21 = vm.add.i64 %i12:13, %i12:13\n  {}vm.buffer.store.i32 %i4, %r0, %i20:21\n",
            lines(n, |_| "%i22:23 = vm.xor.i64 %i20:21, %i6:7\n  %i20:21 = vm.and.i64 %i22:23, %i20:21".into())
        ))
    }),
    kind("a loop whose index is a chain of masks that stays", 100, |n| {
        let index = lines(n, |_| "%i22:23 = vm.xor.i64 %i20:21, %i6:7\n  %i20:21 = vm.and.i64 %i22:23, %i20:21".into());
        bounded_loop(&format!("%i20:21 = vm.and.i64 %i6:7, %i0:1\n  {index}vm.buffer.store.i32 %i8, %r0, %i20:21\n"))
    }),
    kind("a loop whose index is a chain of additions that stays", 100, |n| {
        let index = lines(n, |_| "%i20:21 = vm.add.i64 %i20:21, %i20:21".into());
        bounded_loop(&format!("%i20:21 = vm.and.i64 %i6:7, %i0:1\n  {index}vm.buffer.store.i32 %i8, %r0, %i20:21\n"))
    }),
    kind("a loop whose index is a chain of additions to the counter", 100, |n| {
        let index = lines(n, |_| "%i20:21 = vm.add.i64 %i20:21, %i20:21".into());
        bounded_loop(&format!("%i20:21 = vm.add.i64 %i4:5, %i6:7\n  {index}vm.buffer.store.i32 %i8, %r0, %i20:21\n"))
    }),
    kind("a loop of a long sum", 500, |n| {
        counted_loop(&format!(
            "%i4 = vm.buffer.load.i32 %r0, %i12:13\n  {}vm.buffer.store.i32 %i4, %r1, %i12:13\n",
            lines(n, |_| "%i4 = vm.add.i32 %i4, %i4".into())
        ))
    }),
    kind("many loops over buffers", 40, |n| {
        let mut text = format!("^bb0:\n  {BUFFER}  vm.br ^bb1\n");
        for i in 0..n {
            let _ = write!(
                text,
                "^bb{0}:\n  %i12:13 = vm.const.i64.zero\n  vm.br ^bb{1}\n^bb{1}:\n  %i4 = vm.buffer.load.i32 %r0, %i12:13\n  vm.buffer.store.i32 %i4, %r1, %i12:13\n  %i12:13 = vm.add.i64 %i12:13, %i14:15\n  %i5 = vm.cmp.lt.i64.s %i12:13, %i16:17\n  vm.cond_br %i5, ^bb{1}, ^bb{2}\n",
                2 * i + 1,
                2 * i + 2,
                2 * i + 3
            );
        }
        function(&format!("{text}^bb{}:\n  vm.return %i1\n", 2 * n + 1))
    }),
    kind("loads and stores of globals", 2000, |n| {
        block(&lines(n, |i| {
            format!("%i1 = vm.global.load.i32 .rwdata[{0}]\n  vm.global.store.i32 %i1, .rwdata[{0}]", 4 * i)
        }))
    }),
    kind("ops of lists", 1000, |n| {
        let list = "%i2 = vm.const.i32 4\n  %r0 = vm.list.alloc %i2 : !vm.list<i32>\n  vm.list.resize %r0, %i2\n  ";
        block(&(list.to_string() + &lines(n, |_| "%i1 = vm.list.get.i32 %r0, %i0".into())))
    }),
    kind("calls of many arguments", 150, |n| {
        let parameters = |last: usize| (0..last).map(|i| format!("%i{i}: i32")).collect::<Vec<_>>().join(", ");
        let arguments = (0..n).map(|_| "%i1").collect::<Vec<_>>().join(", ");
        block(&lines(20, |_| format!("%i1 = vm.call @wide({arguments})")))
            + &format!("vm.func @wide({}) -> (i32) {{\n^bb0:\n  vm.return %i0\n}}\n", parameters(n))
    }),
    kind("exports", 1000, |n| {
        let functions = (0..n).fold(String::new(), |text, i| {
            text + &format!("vm.export @e{i}\nvm.func @e{i}() -> (i32) {{\n^bb0:\n  vm.return %i0\n}}\n")
        });
        block("") + &functions
    }),
    kind("imports", 1000, |n| {
        let imports =
            (0..n).fold(String::new(), |text, i| text + &format!("vm.import optional @absent.f{i} cconv \"0i_i\"\n"));
        module(&imports, &body(""))
    }),
    kind("constants", 1500, |n| {
        module(&lines(n, |i| format!("vm.rodata[{}] = {:08x}", i + 1, i)).replace("\n  ", "\n"), &body(""))
    }),
];

/// Two buffers of 256 bytes, and what loops over them need.
const BUFFER: &str = "%i6:7 = vm.const.i64 256
  %i8 = vm.const.i32 64
  %i12:13 = vm.const.i64.zero
  %i14:15 = vm.const.i64 1
  %i16:17 = vm.const.i64 2
  %r0 = vm.buffer.alloc %i6:7, %i8
  %r1 = vm.buffer.alloc %i6:7, %i8
  ";

/// So many lines of a block.
fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).fold(String::new(), |text, i| text + &line(i) + "\n  ")
}

/// A module, with what is before its functions.
fn module(before: &str, functions: &str) -> String {
    format!(
        "vm.module @growth version 0\nvm.type i32\nvm.type !vm.buffer\nvm.type !vm.list<i32>\nvm.rodata[0] = 00\n{before}\n{functions}"
    )
}

/// The function `main` of these blocks.
fn blocks(blocks: &str) -> String {
    format!("vm.export @main\nvm.func @main() -> (i32) {{\n{blocks}}}\n")
}

/// The function `main` of one block.
fn body(ops: &str) -> String {
    blocks(&format!("^bb0:\n  {ops}\n  vm.return %i1\n"))
}

/// A module with the function `main` of these blocks.
fn function(text: &str) -> String {
    module("", &blocks(text))
}

/// A module with the function `main` of one block.
fn block(ops: &str) -> String {
    module("", &body(ops))
}

/// A module with a loop of two iterations over buffers, whose counter is `%i12:13`.
fn counted_loop(ops: &str) -> String {
    function(&format!(
        "^bb0:\n  {BUFFER}vm.br ^bb1\n^bb1:\n  {ops}  %i12:13 = vm.add.i64 %i12:13, %i14:15\n  %i5 = vm.cmp.lt.i64.s %i12:13, %i16:17\n  vm.cond_br %i5, ^bb1, ^bb2\n^bb2:\n  vm.return %i4\n"
    ))
}

/// A module with a loop over a buffer that is tested at its top: the counter is `%i4:5`, the bound, `%i0:1`, is that of
/// a global, and `%i6:7` an odd number.
fn bounded_loop(ops: &str) -> String {
    function(&format!(
        "^bb0:
  %i2:3 = vm.const.i64 1
  %i10 = vm.const.i32 64
  %i12:13 = vm.const.i64 4096
  %r0 = vm.buffer.alloc %i12:13, %i10
  %i0:1 = vm.global.load.i64 .rwdata[0]
  %i4:5 = vm.const.i64.zero
  %i6:7 = vm.or.i64 %i0:1, %i2:3
  vm.br ^bb1
^bb1:
  %i8 = vm.cmp.lt.i64.s %i4:5, %i0:1
  vm.cond_br %i8, ^bb2, ^bb3
^bb2:
  {ops}  %i4:5 = vm.add.i64 %i4:5, %i2:3
  vm.br ^bb1
^bb3:
  vm.return %i1
"
    ))
}
