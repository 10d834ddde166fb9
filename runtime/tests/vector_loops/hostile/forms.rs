//! Forms of hostile nests that loops rarely have by chance: products of matrices, of which several rows are computed
//! together; loops that divide their counter, which run in strips; and branches in loops. Every fifth seed stands for
//! one, so that the other seeds stay what they are.

use super::draw::{Draw, ELEMENTS, Element, Flavour, Scalar, log_uniform, wild};
use super::statements::name;
use super::text::{ZERO, pair};

/// The form of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Nests of loops with straight bodies.
    Nests,
    /// The same with branches in them.
    Branches,
    /// A product of matrices, in a nest of three loops.
    Product,
    /// A product whose rows and columns are counted by one loop.
    Tile,
    /// A loop that divides its counter.
    Strip,
}

/// A loop that has been begun: its counter, and its blocks.
struct Open {
    counter: u32,
    head: u32,
    after: u32,
}

impl Form {
    pub fn of(seed: u64) -> Form {
        match seed % 5 {
            0 => [Form::Branches, Form::Product, Form::Tile, Form::Strip][(seed / 5 % 4) as usize],
            _ => Form::Nests,
        }
    }
}

impl Draw<'_> {
    pub(super) fn form(&mut self, form: Form) {
        match form {
            Form::Nests | Form::Branches => self.nests(),
            Form::Product => self.matrices(false),
            Form::Tile => self.matrices(true),
            Form::Strip => self.strip(),
        }
        if form == Form::Strip && self.chance(20) {
            // Another nest, which may begin with what the loop has left.
            self.statements = 3;
            self.nest(0);
        }
    }

    /// Begins a loop that counts by one, tested at the top, from a register on.
    fn open(&mut self, start: u32, bound: u32) -> Open {
        let counter = self.copy(start);
        let [head, body, after] = [self.text.block(), self.text.block(), self.text.block()];
        self.text.line(&format!("vm.br ^bb{head}()"));
        self.text.label(head);
        self.test(counter, bound, [body, after]);
        self.text.label(body);
        Open { counter, head, after }
    }

    fn close(&mut self, open: &Open) {
        let one = self.text.constant(1);
        let [counter, one] = [open.counter, one].map(pair);
        self.text.line(&format!("{counter} = vm.add.i64 {counter}, {one}"));
        self.text.line(&format!("vm.br ^bb{}()", open.head));
        self.text.label(open.after);
    }

    /// A number of columns: a constant, or an argument.
    fn columns(&mut self) -> u32 {
        if self.chance(35) {
            return self.some(&[0, 2]);
        }
        let columns =
            if self.chance(60) { self.some(&[8, 16, 24, 32, 17, 40]) } else { 1 + log_uniform(self.random, 6) };
        self.text.constant(columns)
    }

    fn few(&mut self) -> u32 {
        if self.chance(50) {
            return self.some(&[4, 6]);
        }
        let few = 1 + log_uniform(self.random, 3);
        self.text.constant(few)
    }

    /// By how much the elements of neighbouring rows differ, of which each has so many.
    fn distance(&mut self, columns: u32) -> u32 {
        match self.random.below(12) {
            0..5 => columns,
            5..8 => {
                let distance = self.some(&[64, 64, 40, 33, 100]);
                self.text.constant(distance)
            }
            8 | 9 => 8,
            10 => {
                let more = log_uniform(self.random, 4);
                let more = self.text.constant(more);
                let op = self.some(&["add.i64", "add.i64", "add.i64", "sub.i64"]);
                self.text.wide(op, &[columns, more])
            }
            _ if self.rare(100) => {
                let far = wild(self.random);
                self.text.constant(far)
            }
            _ => {
                let distance = log_uniform(self.random, 7);
                self.text.constant(distance)
            }
        }
    }

    /// `row * distance + column`, and now and then a little more.
    fn cell(&mut self, row: u32, distance: u32, column: u32) -> u32 {
        let cell = self.text.wide("fma.i64", &[row, distance, column]);
        if !self.chance(20) {
            return cell;
        }
        let more = log_uniform(self.random, 5);
        let more = self.text.constant(more);
        let op = if self.rare(20) { "sub.i64" } else { "add.i64" };
        self.text.wide(op, &[cell, more])
    }

    /// Elements that can be multiplied and added up.
    fn factor(&mut self) -> Element {
        let is_narrow = self.chance(15);
        match self.flavour {
            Flavour::Integers if is_narrow => ELEMENTS[self.random.below(4) as usize],
            Flavour::Integers => ELEMENTS[4],
            Flavour::F32 => ELEMENTS[6],
            Flavour::F64 => ELEMENTS[7],
        }
    }

    /// `c[i, j] += a[i, k] * b[k, j]`. In a tile, `i` and `j` are the quotient and the remainder of one counter.
    fn matrices(&mut self, is_tile: bool) {
        let (rows, columns, depth) = (self.few(), self.columns(), self.few());
        let [own, a, b] = [columns, depth, columns].map(|width| self.distance(width));
        let element = self.factor();
        let into = if element.shift == 2 || element.shift == 3 { element } else { ELEMENTS[4] };
        let from = self.some(&[[1, 2], [1, 2], [1, 2], [2, 1], [1, 1], [0, 2], [1, 0]]);
        let start = if self.chance(85) { ZERO } else { self.some(&[0, 4]) };
        let mut opened = Vec::new();
        let (row, column) = if is_tile {
            let bound = self.text.wide("mul.i64", &[rows, columns]);
            opened.push(self.open(start, bound));
            let counter = opened[0].counter;
            let sign = self.some(&["s", "s", "u"]);
            let row = self.text.wide(&format!("div.i64.{sign}"), &[counter, columns]);
            (row, self.text.wide(&format!("rem.i64.{sign}"), &[counter, columns]))
        } else {
            opened.push(self.open(start, rows));
            opened.push(self.open(ZERO, columns));
            (opened[0].counter, opened[1].counter)
        };
        let at = self.cell(row, own, column);
        let inner = self.open(ZERO, depth);
        let [first, second] = [self.cell(row, a, inner.counter), self.cell(inner.counter, b, column)];
        let loaded = [(from[0], first), (from[1], second)].map(|(buffer, index)| self.load_at(buffer, element, index));
        let [x, y] = loaded.map(|value| self.converted(value, into.of));
        let sum = self.load_at(0, into, at).1;
        let of = match into.of {
            Scalar::I32 => "i32",
            Scalar::I64 => "i64",
            Scalar::F32 => "f32",
            Scalar::F64 => "f64",
        };
        let new = self.text.fresh();
        let [result, x, y, sum] = [new, x, y, sum].map(|register| name(into.of, register));
        self.text.line(&format!("{result} = vm.fma.{of} {x}, {y}, {sum}"));
        self.store_at(0, into, at, (into.of, new));
        self.close(&inner);
        while let Some(open) = opened.pop() {
            self.close(&open);
        }
    }

    /// `out[i / d, i % d] = ...` of elements at the quotient, the remainder or the counter.
    fn strip(&mut self) {
        let (columns, rows) = (self.columns(), self.few());
        let mut bound = if self.chance(60) { self.text.wide("mul.i64", &[rows, columns]) } else { self.columns() };
        let start = if self.chance(75) { ZERO } else { self.some(&[4, 6, 0]) };
        if start != ZERO && self.chance(60) {
            bound = self.text.wide("add.i64", &[bound, start]);
        }
        let distance = self.distance(columns);
        let other = self.distance(columns);
        let smaller = self.chance(25).then(|| self.few());
        let open = self.open(start, bound);
        let counter = open.counter;
        let sign = self.some(&["s", "s", "s", "u"]);
        let mut row = self.text.wide(&format!("div.i64.{sign}"), &[counter, columns]);
        let mut column = self.text.wide(&format!("rem.i64.{sign}"), &[counter, columns]);
        if let Some(smaller) = smaller {
            // Three dimensions.
            let middle = self.text.wide(&format!("div.i64.{sign}"), &[column, smaller]);
            column = self.text.wide(&format!("rem.i64.{sign}"), &[counter, smaller]);
            row = self.cell(row, other, middle);
        }
        let element = self.factor();
        let mut value = (Scalar::I32, self.sum);
        for number in 0..self.some(&[1, 2, 2]) {
            let index = match self.random.below(5) {
                0 => row,
                1 => counter,
                2 => column,
                _ => self.cell(row, distance, column),
            };
            let buffer = self.some(&[1, 2, 1, 0]);
            let loaded = self.load_at(buffer, element, index);
            value = if number == 0 { loaded } else { self.computed(loaded) };
            self.values.push(loaded);
        }
        let index = if self.chance(20) { self.cell(column, other, row) } else { self.cell(row, distance, column) };
        let of = ELEMENTS[self.elements[0]];
        let of = if self.flavour == Flavour::Integers { element } else { of };
        self.store_at(0, of, index, value);
        self.close(&open);
        self.values.truncate(4);
    }

    /// A statement that runs in some iterations, and maybe another one that runs in the others.
    pub(super) fn branch(&mut self) {
        let truth = self.text.fresh();
        let narrow = match self.variables.last().copied() {
            Some(variable) if self.chance(50) => {
                let limit = log_uniform(self.random, 5);
                let limit = self.text.constant(limit);
                let op = self.some(&["lt.i64.s", "lt.i64.u", "ne.i64", "eq.i64"]);
                let [a, b] = [variable.register, limit].map(pair);
                self.text.line(&format!("%i{truth} = vm.cmp.{op} {a}, {b}"));
                None
            }
            _ => Some(self.recent()),
        };
        if let Some(value) = narrow {
            let narrow = self.converted(value, Scalar::I32);
            let limit = log_uniform(self.random, 7);
            let limit = self.text.narrow_constant(limit);
            self.text.line(&format!("%i{truth} = vm.cmp.lt.i32.s %i{narrow}, %i{limit}"));
        }
        let [then, otherwise, after] = [self.text.block(), self.text.block(), self.text.block()];
        let has_both = self.chance(50);
        let target = if has_both { otherwise } else { after };
        self.text.line(&format!("vm.cond_br %i{truth}, ^bb{then}(), ^bb{target}()"));
        let outside = (self.variables.len(), self.values.len());
        for (block, is_there) in [(then, true), (otherwise, has_both)] {
            if !is_there {
                continue;
            }
            self.text.label(block);
            self.statement();
            self.text.line(&format!("vm.br ^bb{after}()"));
            // Registers that only one side writes keep what they had.
            if !self.chance(10) {
                self.variables.truncate(outside.0);
                self.values.truncate(outside.1);
            }
        }
        self.text.label(after);
    }
}
