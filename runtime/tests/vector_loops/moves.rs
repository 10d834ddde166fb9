//! The text of random nests whose inner loops store to other elements in each of their iterations, as transpositions
//! and convolutions of channels do: two loops, or one that divides what it counts with by a constant or an argument,
//! and maybe by a multiple of it. `nests` runs them.

use std::fmt::Write;

use super::program::{Random, SIGNATURE};

/// A loop of the text: the first of its blocks, and the register that it counts with.
struct Loop {
    head: u32,
    counter: u32,
}

struct Writer<'a> {
    random: &'a mut Random,
    text: String,
    next: u32,
    blocks: u32,
}

impl Writer<'_> {
    fn line(&mut self, line: &str) {
        writeln!(self.text, "  {line}").expect("a string takes it");
    }

    fn some<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.random.below(of.len() as u64) as usize]
    }

    fn pair(&mut self) -> u32 {
        self.next += 2;
        self.next - 2
    }

    fn constant(&mut self, value: u64) -> u32 {
        let into = self.pair();
        self.line(&format!("%i{into}:{} = vm.const.i64 {value}", into + 1));
        into
    }

    fn begin(&mut self, bound: &str) -> Loop {
        let (counter, head) = (self.constant(0), self.blocks);
        self.blocks += 3;
        self.line(&format!("vm.br ^bb{head}()"));
        writeln!(self.text, "^bb{head}:").expect("a string takes it");
        self.line(&format!("%i16 = vm.cmp.lt.i64.s %i{counter}:{}, {bound}", counter + 1));
        self.line(&format!("vm.cond_br %i16, ^bb{}(), ^bb{}()", head + 1, head + 2));
        writeln!(self.text, "^bb{}:", head + 1).expect("a string takes it");
        Loop { head, counter }
    }

    fn end(&mut self, of: &Loop) {
        let (counter, head) = (of.counter, of.head);
        self.line(&format!("%i{counter}:{} = vm.add.i64 %i{counter}:{}, %i12:13", counter + 1, counter + 1));
        self.line(&format!("vm.br ^bb{head}()"));
        writeln!(self.text, "^bb{}:", head + 2).expect("a string takes it");
    }

    /// The sum of the products of these registers and of constants or an argument.
    fn index(&mut self, terms: &[(u32, &[u64])]) -> u32 {
        let into = self.constant(0);
        for (register, factors) in terms {
            let factor = if self.random.below(12) == 0 {
                6
            } else {
                let factor = self.some(factors);
                self.constant(factor)
            };
            self.line(&format!(
                "%i{into}:{} = vm.fma.i64 %i{register}:{}, %i{factor}:{}, %i{into}:{}",
                into + 1,
                register + 1,
                factor + 1,
                into + 1
            ));
        }
        if self.random.below(6) == 0 {
            self.line(&format!("%i{into}:{} = vm.add.i64 %i{into}:{}, %i8:9", into + 1, into + 1));
        }
        into
    }

    fn product(&mut self, a: u32, b: u32) -> u32 {
        let into = self.pair();
        self.line(&format!("%i{into}:{} = vm.mul.i64 %i{a}:{}, %i{b}:{}", into + 1, a + 1, b + 1));
        into
    }

    /// The quotient and the remainder of a number, some as they are rounded toward negative infinity.
    fn divide(&mut self, number: u32, d: u32) -> [u32; 2] {
        let [quotient, product, less, remainder, sum] = [(); 5].map(|()| self.pair());
        let pair = |register: u32| format!("%i{register}:{}", register + 1);
        let [n, d, q, p, l, r, a] = [number, d, quotient, product, less, remainder, sum].map(pair);
        self.line(&format!("{q} = vm.div.i64.s {n}, {d}"));
        self.line(&format!("{r} = vm.rem.i64.s {n}, {d}"));
        if self.random.below(2) == 0 {
            self.line(&format!("{p} = vm.mul.i64 {q}, {d}"));
            self.line(&format!("%i16 = vm.cmp.ne.i64 {n}, {p}"));
            self.line(&format!("%i17 = vm.cmp.lt.i64.s {n}, %i10:11"));
            self.line("%i17 = vm.and.i32 %i16, %i17");
            self.line(&format!("{l} = vm.sub.i64 {q}, %i12:13"));
            self.line(&format!("{q} = vm.select.i64 %i17 ? {l} : {q}"));
            self.line(&format!("%i16 = vm.cmp.lt.i64.s {r}, %i10:11"));
            self.line(&format!("{a} = vm.add.i64 {r}, {d}"));
            self.line(&format!("{r} = vm.select.i64 %i16 ? {a} : {r}"));
        }
        [quotient, remainder]
    }
}

/// A nest over rows and columns, which stores to columns that are rows apart.
pub fn moves(random: &mut Random) -> String {
    let text = format!(
        "{SIGNATURE}\n^bb0:\n  %i10:11 = vm.const.i64.zero\n  %i12:13 = vm.const.i64 1\n  \
         %i18 = vm.const.i32.zero\n  %i19 = vm.const.f32 1.5\n"
    );
    let mut writer = Writer { random, text, next: 40, blocks: 1 };
    let columns = writer.some(&[1, 2, 3, 5, 8, 9, 12, 16, 17, 24]);
    let rows = writer.some(&[1, 3, 5, 8, 9, 14, 16, 17, 20]);
    let outer = (writer.random.below(2) == 0).then(|| writer.begin("%i4:5"));
    let is_divided = writer.random.below(3) > 0;
    let mut loops = Vec::new();
    let (plane, row, column) = if is_divided {
        let of_columns = if writer.random.below(3) == 0 { 2 } else { writer.constant(columns) };
        let planes = writer.some(&[0, 0, 2, 3, 9]);
        let of_rows = writer.constant(rows);
        let area = writer.product(of_columns, of_rows);
        let of_planes = writer.constant(planes.max(1));
        let bound = writer.product(area, of_planes);
        if writer.random.below(8) == 0 {
            writer.line(&format!("%i{bound}:{} = vm.add.i64 %i{bound}:{}, %i12:13", bound + 1, bound + 1));
        }
        let own = writer.begin(&format!("%i{bound}:{}", bound + 1));
        let (plane, rest) = if planes > 0 {
            let [plane, rest] = writer.divide(own.counter, area);
            (plane, rest)
        } else {
            (10, own.counter)
        };
        let [row, mut column] = writer.divide(rest, of_columns);
        if writer.random.below(2) == 0 {
            column = writer.divide(own.counter, of_columns)[1];
        }
        loops.push(own);
        (plane, row, column)
    } else {
        for (extent, argument) in [(rows, "%i0:1"), (columns, "%i2:3")] {
            let bound = if writer.random.below(3) == 0 {
                argument.into()
            } else {
                let bound = writer.constant(extent);
                format!("%i{bound}:{}", bound + 1)
            };
            let own = writer.begin(&bound);
            loops.push(own);
        }
        (10, loops[0].counter, loops[1].counter)
    };
    let outermost = outer.as_ref().map_or(10, |outer| outer.counter);
    let to = [
        (row, &[1, 1, 1, 1, 0, 2][..]),
        (column, &[rows, rows, rows + 1, 32, 20, 1]),
        (plane, &[rows * columns, 300, 300, 0, rows]),
        (outermost, &[0, 1, 400]),
    ];
    let element = writer.index(&to);
    let of = writer.some(&["f32", "f32", "f32", "i32"]);
    let register = |index: u32| format!("%i{index}:{}", index + 1);
    if writer.random.below(2) == 0 {
        let store = format!("vm.buffer.store.f32 %i19, %r0, {}", register(element));
        writer.line(&store);
    }
    let inner = (writer.random.below(2) == 0).then(|| {
        let bound = writer.some(&[1, 2, 3, 9]);
        let bound = writer.constant(bound);
        writer.begin(&register(bound))
    });
    let depth = inner.as_ref().map_or(10, |inner| inner.counter);
    let from = [
        (row, &[1, 1, 2, columns, 0][..]),
        (column, &[1, 1, rows, 24]),
        (plane, &[0, 1, 100]),
        (depth, &[0, 1, 3]),
        (outermost, &[0, 1, 50]),
    ];
    let loaded = writer.index(&from);
    writer.line(&format!("%i30 = vm.buffer.load.{of} %r1, {}", register(loaded)));
    if inner.is_some() || writer.random.below(3) == 0 {
        let weight = writer.index(&[(column, &[9, 1, 0]), (depth, &[1])]);
        writer.line(&format!("%i31 = vm.buffer.load.{of} %r2, {}", register(weight)));
        writer.line(&format!("%i32 = vm.buffer.load.{of} %r0, {}", register(element)));
        writer.line(&format!("%i30 = vm.fma.{of} %i30, %i31, %i32"));
    }
    writer.line(&format!("vm.buffer.store.{of} %i30, %r0, {}", register(element)));
    if writer.random.below(6) == 0 {
        let other = writer.index(&to);
        writer.line(&format!("vm.buffer.store.{of} %i30, %r2, {}", register(other)));
    }
    let all: Vec<Loop> = outer.into_iter().chain(loops).chain(inner).collect();
    all.iter().rev().for_each(|one| writer.end(one));
    writer.line("vm.return %i18, %i19");
    writer.text.push_str("}\n");
    writer.text
}
