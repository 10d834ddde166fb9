//! Statements of hostile nests: indices, accesses, and what is computed of elements. `draw` puts them into loops.

use super::draw::{Draw, ELEMENTS, Element, Flavour, Scalar, Variable, log_uniform};
use super::text::{BUFFERS, pair};

/// A register of a type.
pub(super) fn name(of: Scalar, register: u32) -> String {
    match of {
        Scalar::I32 | Scalar::F32 => format!("%i{register}"),
        Scalar::I64 | Scalar::F64 => pair(register),
    }
}

/// The purpose of an index.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Consecutive in the lanes, mostly.
    Store,
    Load,
    /// Consecutive in the lanes, and far apart in the loop inside.
    Column,
    /// The same in all lanes.
    Splat,
    /// Far apart in the lanes, and consecutive in the loop inside.
    Row,
    /// The same in all iterations of the loops inside the lanes', mostly.
    Carried,
}

impl Draw<'_> {
    pub(super) fn statement(&mut self) {
        self.statements = self.statements.saturating_sub(1);
        if self.has_branches && self.depth > 0 && self.chance(30) {
            return self.branch();
        }
        match self.random.below(20) {
            0..5 => {
                let value = self.load(Purpose::Load);
                let value = self.compute(value);
                self.store(value);
            }
            5..9 => self.update(),
            9..13 => self.product(),
            13..15 => {
                let value = self.load(Purpose::Load);
                self.add_up(value);
            }
            15 => {
                let (of, register) = self.recent();
                self.store((of, register));
            }
            16 => self.derive(),
            17 => {
                let value = self.load(Purpose::Load);
                self.values.push(value);
            }
            18 => self.choose(),
            _ => {
                let value = self.load(Purpose::Row);
                self.values.push(value);
                let value = self.compute(value);
                self.store(value);
            }
        }
    }

    fn buffer(&mut self, is_store: bool) -> usize {
        if is_store { self.some(&[0, 0, 0, 1]) } else { self.some(&[0, 1, 1, 1, 2, 2, BUFFERS - 1]) }
    }

    pub(super) fn recent(&mut self) -> (Scalar, u32) {
        let count = self.values.len();
        let back = log_uniform(self.random, 3) as usize;
        self.values[count - 1 - back.min(count - 1)]
    }

    /// A value of this type.
    fn value_of(&mut self, of: Scalar) -> u32 {
        let all: Vec<u32> = self.values.iter().filter(|value| value.0 == of).map(|value| value.1).collect();
        all[all.len() - 1 - (log_uniform(self.random, 3) as usize).min(all.len() - 1)]
    }

    fn load(&mut self, purpose: Purpose) -> (Scalar, u32) {
        let buffer = self.buffer(false);
        let element = self.element(buffer, false);
        let index = self.index(element, purpose);
        self.load_at(buffer, element, index)
    }

    pub(super) fn load_at(&mut self, buffer: usize, element: Element, index: u32) -> (Scalar, u32) {
        self.text.note(buffer, index, element.shift, None);
        let into = self.text.fresh();
        let value = name(element.of, into);
        self.text.line(&format!("{value} = vm.buffer.load.{} %r{buffer}, {}", element.load, pair(index)));
        (element.of, into)
    }

    pub(super) fn store_at(&mut self, buffer: usize, element: Element, index: u32, value: (Scalar, u32)) {
        let value = self.converted(value, element.of);
        self.text.note(buffer, index, element.shift, None);
        let value = name(element.of, value);
        self.text.line(&format!("vm.buffer.store.{} {value}, %r{buffer}, {}", element.store, pair(index)));
    }

    fn store(&mut self, value: (Scalar, u32)) {
        let buffer = self.buffer(true);
        let element = self.element(buffer, true);
        let purpose = self.some(&[Purpose::Store, Purpose::Store, Purpose::Carried]);
        let index = self.index(element, purpose);
        self.store_at(buffer, element, index, value);
    }

    /// Loads an element, and stores what comes of it there, or nearby.
    fn update(&mut self) {
        let buffer = self.buffer(true);
        let element = self.element(buffer, true);
        let purpose = self.some(&[Purpose::Store, Purpose::Carried, Purpose::Carried]);
        let index = self.index(element, purpose);
        let old = self.load_at(buffer, element, index);
        self.values.push(old);
        let more = if self.chance(60) { Some(self.load(Purpose::Load)) } else { None };
        self.values.extend(more);
        let new = self.compute(old);
        self.store_at(buffer, element, index, new);
    }

    /// Adds the product of two elements to another one.
    pub(super) fn product(&mut self) {
        let own = ELEMENTS[self.elements[0]];
        let one = self.some(&[Purpose::Row, Purpose::Splat, Purpose::Splat, Purpose::Load]);
        let loads = [one, self.some(&[Purpose::Column, Purpose::Column, Purpose::Splat, Purpose::Load])];
        let [a, b] = loads.map(|purpose| {
            let buffer = self.some(&[1, 2, 2]);
            let element = self.element(buffer, false);
            let index = self.index(element, purpose);
            self.load_at(buffer, element, index)
        });
        let index = self.index(own, Purpose::Carried);
        let old = self.load_at(0, own, index);
        let [a, b, c] = [a, b, old].map(|value| self.converted(value, own.of));
        let computes = match own.of {
            Scalar::I32 => "fma.i32",
            Scalar::I64 => "fma.i64",
            Scalar::F32 if self.flavour == Flavour::F32 => "fma.f32",
            Scalar::F64 if self.flavour == Flavour::F64 => "fma.f64",
            // Floats that may be anything are only moved.
            Scalar::F32 | Scalar::F64 => return self.store_at(0, own, index, (own.of, a)),
        };
        let into = self.text.fresh();
        let [new, a, b, c] = [into, a, b, c].map(|register| name(own.of, register));
        self.text.line(&format!("{new} = vm.{computes} {a}, {b}, {c}"));
        self.store_at(0, own, index, (own.of, into));
    }

    fn add_up(&mut self, value: (Scalar, u32)) {
        // A loop around would depend on its own iterations, and so would this one.
        if (self.has_added || self.depth > self.lane + 1) && !self.rare(50) {
            return self.store(value);
        }
        self.has_added = true;
        let value = self.converted(value, Scalar::I32);
        let op = if self.rare(25) { self.some(&["xor.i32", "mul.i32", "max.i32.s"]) } else { "add.i32" };
        let sum = self.sum;
        self.text.line(&format!("%i{sum} = vm.{op} %i{sum}, %i{value}"));
    }

    /// The value as one of another type, in which it may be another number.
    pub(super) fn converted(&mut self, (from, register): (Scalar, u32), to: Scalar) -> u32 {
        if from == to {
            return register;
        }
        let op = match (from, to) {
            (Scalar::I32, Scalar::I64) => self.some(&["ext.i32.i64.s", "ext.i32.i64.u"]),
            (Scalar::I64, Scalar::I32) => "trunc.i64.i32",
            (Scalar::I32, Scalar::F32) if self.flavour != Flavour::Integers => "cast.si32.f32",
            (Scalar::I32, Scalar::F32) => "bitcast.i32.f32",
            (Scalar::I32, Scalar::F64) => "cast.si32.f64",
            (Scalar::F32, Scalar::I32) => self.some(&["bitcast.f32.i32", "bitcast.f32.i32", "cast.f32.si32"]),
            (Scalar::F32, Scalar::F64) if self.flavour != Flavour::Integers => "ext.f32.f64",
            (Scalar::F64, Scalar::F32) if self.flavour != Flavour::Integers => "trunc.f64.f32",
            (Scalar::I64, Scalar::F64) if self.flavour == Flavour::Integers => "bitcast.i64.f64",
            (Scalar::F64, Scalar::I64) => "bitcast.f64.i64",
            // There is no single operation, or one that would make other NaNs.
            _ => {
                let narrow = match from {
                    Scalar::I64 | Scalar::F64 if to != Scalar::I32 => self.converted((from, register), Scalar::I32),
                    Scalar::F64 => {
                        let wide = self.converted((from, register), Scalar::I64);
                        return self.converted((Scalar::I64, wide), to);
                    }
                    _ => self.converted((from, register), Scalar::I32),
                };
                return self.converted((Scalar::I32, narrow), to);
            }
        };
        let into = self.text.fresh();
        self.text.line(&format!("{} = vm.{op} {}", name(to, into), name(from, register)));
        into
    }

    /// Computes something of a value and maybe of others.
    fn compute(&mut self, value: (Scalar, u32)) -> (Scalar, u32) {
        let mut value = value;
        for _ in 0..self.some(&[0, 1, 1, 2]) {
            value = self.computed(value);
            self.values.push(value);
        }
        value
    }

    pub(super) fn computed(&mut self, (of, register): (Scalar, u32)) -> (Scalar, u32) {
        let into = self.text.fresh();
        let [result, a] = [into, register].map(|register| name(of, register));
        let other = self.value_of(of);
        let b = name(of, other);
        let line = match of {
            Scalar::I32 if self.chance(12) => {
                let by = if self.chance(70) { log_uniform(self.random, 8) } else { u64::from(u32::MAX) };
                let divisor = if self.chance(25) {
                    let narrow = self.text.fresh();
                    self.text.line(&format!("%i{narrow} = vm.trunc.i64.i32 {}", pair(8)));
                    narrow
                } else {
                    self.text.narrow_constant(by.max(1))
                };
                format!("vm.{}.i32.{} {a}, %i{divisor}", self.some(&["div", "rem"]), self.some(&["s", "u"]))
            }
            Scalar::I32 if self.chance(12) => {
                let by = self.some(&[0, 1, 3, 8, 16, 31, 32, 40]);
                let by = self.text.narrow_constant(by);
                format!("vm.{} {a}, %i{by}", self.some(&["shl.i32", "shr.i32.s", "shr.i32.u"]))
            }
            Scalar::I32 => {
                let ops = [
                    "add.i32",
                    "add.i32",
                    "add.i32",
                    "sub.i32",
                    "mul.i32",
                    "and.i32",
                    "or.i32",
                    "xor.i32",
                    "min.i32.s",
                    "min.i32.u",
                    "max.i32.s",
                    "max.i32.u",
                ];
                let op = self.some(&ops);
                format!("vm.{op} {a}, {b}")
            }
            Scalar::I64 => format!(
                "vm.{} {a}, {b}",
                self.some(&["add.i64", "add.i64", "sub.i64", "xor.i64", "and.i64", "mul.i64"])
            ),
            Scalar::F32 | Scalar::F64 if self.flavour == Flavour::Integers => return (of, register),
            Scalar::F32 => format!("vm.{} {a}, {b}", self.some(&["add.f32", "sub.f32", "mul.f32", "add.f32"])),
            Scalar::F64 => format!("vm.{} {a}, {b}", self.some(&["add.f64", "sub.f64", "mul.f64", "add.f64"])),
        };
        self.text.line(&format!("{result} = {line}"));
        (of, into)
    }

    /// One of two values, by a comparison.
    fn choose(&mut self) {
        let (of, value) = self.load(Purpose::Load);
        let other = self.value_of(of);
        let [narrow, limit] = [(of, value), (of, other)].map(|value| self.converted(value, Scalar::I32));
        let truth = self.text.fresh();
        let test = self.some(&["lt.i32.s", "lt.i32.u", "eq.i32", "ne.i32"]);
        self.text.line(&format!("%i{truth} = vm.cmp.{test} %i{narrow}, %i{limit}"));
        let into = self.text.fresh();
        let [result, a, b] = [into, value, other].map(|register| name(of, register));
        let name = match of {
            Scalar::I32 => "i32",
            Scalar::I64 => "i64",
            Scalar::F32 => "f32",
            Scalar::F64 => "f64",
        };
        self.text.line(&format!("{result} = vm.select.{name} %i{truth} ? {a} : {b}"));
        self.values.push((of, into));
        self.store((of, into));
    }

    /// Sets a range of a buffer, outside of loops.
    pub(super) fn fill(&mut self) {
        let buffer = self.buffer(true);
        let element = ELEMENTS[self.elements[buffer]];
        let [at, count] = [3, 6].map(|bits| log_uniform(self.random, bits));
        let [at, count] = [at, count].map(|value| self.text.constant(value));
        let value = self.value_of(element.of);
        let value = name(element.of, value);
        self.text.note(buffer, at, element.shift, Some(count));
        self.text.line(&format!("vm.buffer.fill.{} %r{buffer}, {}, {}, {value}", element.store, pair(at), pair(count)));
    }

    /// A number that indices are made of, from others.
    fn derive(&mut self) {
        let Some(from) = self.any_variable() else { return };
        let (amount, mask) = (log_uniform(self.random, 5), (1 << self.random.below(8)) - 1);
        let is_in_lanes = from.is_inside && from.depth == self.lane && from.step != 0;
        let linear = is_in_lanes && !self.rare(50);
        let choice = if linear { 3 + self.random.below(2) } else { self.random.below(7) };
        let (register, extent) = match choice {
            0 => {
                let by = self.text.constant(mask);
                (self.text.wide("and.i64", &[from.register, by]), mask)
            }
            1 => {
                let by = self.text.narrow_constant(amount);
                let into = self.text.fresh();
                let op = self.some(&["shl.i64", "shr.i64.s", "shr.i64.u"]);
                self.text.line(&format!("{} = vm.{op} {}, %i{by}", pair(into), pair(from.register)));
                (into, if op == "shl.i64" { from.extent.saturating_mul(1 << amount.min(32)) } else { from.extent })
            }
            2 => (self.extended(from.register), from.extent),
            3 => {
                let by = self.text.constant(amount);
                (self.text.wide("mul.i64", &[from.register, by]), from.extent.saturating_mul(amount))
            }
            4 => {
                let by = self.text.constant(amount);
                let op = if self.rare(50) { "sub.i64" } else { "add.i64" };
                (self.text.wide(op, &[from.register, by]), from.extent.saturating_add(amount))
            }
            5 => {
                let by = self.text.constant(amount.max(1));
                let op = self.some(&["div.i64.s", "div.i64.u", "rem.i64.s", "rem.i64.u"]);
                (self.text.wide(op, &[from.register, by]), from.extent)
            }
            _ => {
                let Some(other) = self.any_variable() else { return };
                let op = self.some(&["add.i64", "sub.i64", "min.i64.s", "max.i64.s"]);
                (self.text.wide(op, &[from.register, other.register]), from.extent.saturating_add(other.extent))
            }
        };
        // Nothing is consecutive in it.
        let start = from.start.filter(|_| false);
        self.variables.push(Variable { register, start, step: 0, extent, ..from });
    }

    /// The number after 32 bits of it were extended.
    fn extended(&mut self, register: u32) -> u32 {
        let [narrow, into] = [self.text.fresh(), self.text.fresh()];
        self.text.line(&format!("%i{narrow} = vm.trunc.i64.i32 {}", pair(register)));
        let sign = self.some(&["s", "u"]);
        self.text.line(&format!("{} = vm.ext.i32.i64.{sign} %i{narrow}", pair(into)));
        into
    }

    fn any_variable(&mut self) -> Option<Variable> {
        let count = self.variables.len() as u64;
        (count > 0).then(|| self.variables[self.random.below(count) as usize])
    }

    /// A variable that is consecutive in the lanes: a counter, or one that is stepped by one.
    fn lane_variable(&mut self) -> Option<Variable> {
        let all: Vec<Variable> = self
            .variables
            .iter()
            .copied()
            .filter(|one| one.is_inside && one.depth == self.lane && one.step != 0)
            .collect();
        let near: Vec<Variable> = all.iter().copied().filter(|one| one.extent < 1 << 10).collect();
        let all = if near.is_empty() || self.rare(10) { all } else { near };
        let ones: Vec<Variable> = all.iter().copied().filter(|one| one.step == 1).collect();
        if !ones.is_empty() {
            return Some(self.some(&ones));
        }
        if all.is_empty() { None } else { Some(self.some(&all)) }
    }

    /// An index: a sum of products of variables and factors.
    fn index(&mut self, element: Element, purpose: Purpose) -> u32 {
        let mut room = self.room(element.shift) / 2;
        let mut terms: Vec<(Variable, Factor)> = Vec::new();
        let mut more = 0_u64;
        let lane = self.lane_variable();
        if let Some(lane) = lane {
            let factor = match purpose {
                Purpose::Row => Some(2 + log_uniform(self.random, 5)),
                Purpose::Splat => None,
                Purpose::Store | Purpose::Carried | Purpose::Column if self.chance(94) => Some(1),
                Purpose::Load if self.chance(60) => Some(1),
                Purpose::Load if self.chance(60) => None,
                _ => Some(log_uniform(self.random, 5)),
            };
            if let Some(factor) = factor {
                room = room.saturating_sub(lane.extent.saturating_mul(factor));
                terms.push((lane, Factor::Constant(factor)));
            }
        }
        let most = terms.len() + 3;
        let mut others: Vec<Variable> = self.variables.clone();
        others.retain(|other| lane.is_none_or(|lane| lane.register != other.register));
        while let Some(other) = others.pop() {
            if terms.len() == most {
                break;
            }
            let is_inner = other.is_inside && other.depth > self.lane;
            let percent = match purpose {
                _ if other.extent > room => u64::from(self.rare(6)) * 100,
                _ if other.differs => 8,
                Purpose::Carried if is_inner => 8,
                Purpose::Row | Purpose::Column | Purpose::Splat if is_inner => 90,
                _ if !other.is_inside => 45,
                Purpose::Row | Purpose::Column if other.depth < self.lane => 20,
                Purpose::Carried if other.depth < self.lane => 85,
                _ if other.depth < self.lane => 55,
                _ => 45,
            };
            if !self.chance(percent) {
                continue;
            }
            let largest = (room / other.extent.max(1)).max(1);
            let factor = match self.random.below(20) {
                _ if matches!(purpose, Purpose::Row | Purpose::Splat) && is_inner => Factor::Constant(1),
                0..14 if purpose == Purpose::Carried && other.is_inside && other.depth < self.lane => {
                    let around = lane.map_or(1, |lane| lane.extent.max(1));
                    Factor::Constant(if around < largest { around } else { largest })
                }
                0..6 => Factor::Constant(1),
                6..15 => Factor::Constant(1 + log_uniform(self.random, u64::from(largest.ilog2()))),
                15 if other.extent.saturating_mul(40) < room || self.rare(100) => Factor::Argument,
                17 if self.rare(100) => Factor::Constant(log_uniform(self.random, 33)),
                18 => Factor::Constant((1 + log_uniform(self.random, 3)).wrapping_neg()),
                _ => Factor::Constant(largest),
            };
            match factor {
                Factor::Constant(factor) if factor >> 63 == 1 => {
                    // So that it is not negative, mostly.
                    let most = other.extent.saturating_mul(factor.wrapping_neg());
                    more = more.saturating_add(if self.rare(30) { 0 } else { most });
                    room = room.saturating_sub(most);
                }
                Factor::Constant(factor) => room = room.saturating_sub(other.extent.saturating_mul(factor)),
                Factor::Argument => room = room.saturating_sub(other.extent.saturating_mul(40)),
            }
            terms.push((other, factor));
        }
        let mut index = None;
        if self.chance(50) {
            terms.reverse();
        }
        for (variable, factor) in terms {
            index = Some(self.plus(index, variable, factor));
        }
        let mut index = match index {
            Some(index) => index,
            None => {
                let value = log_uniform(self.random, 5);
                self.text.constant(value)
            }
        };
        if more > 0 || self.chance(25) {
            let by = more.wrapping_add(log_uniform(self.random, 6));
            let by = if self.rare(20) { by.wrapping_neg() } else { by };
            let by = self.text.constant(by);
            index = self.text.wide("add.i64", &[index, by]);
        } else if self.chance(8) {
            index = self.text.wide("add.i64", &[index, 8]);
        }
        if !self.rare(10) {
            return index;
        }
        match self.random.below(6) {
            0 | 1 => self.extended(index),
            2 => {
                let mask = self.text.constant((1 << self.random.below(33)) - 1);
                self.text.wide("and.i64", &[index, mask])
            }
            3 => {
                let from = log_uniform(self.random, 8);
                let from = self.text.constant(from);
                self.text.wide("sub.i64", &[from, index])
            }
            _ => {
                // It wraps around and comes back.
                let far = super::draw::wild(self.random);
                let far = self.text.constant(far);
                let there = self.text.wide("add.i64", &[index, far]);
                self.text.wide("sub.i64", &[there, far])
            }
        }
    }

    fn plus(&mut self, sum: Option<u32>, variable: Variable, factor: Factor) -> u32 {
        let mut register = variable.register;
        if let Some(start) = variable.start
            && !self.rare(10)
        {
            register = self.text.wide("sub.i64", &[register, start]);
        }
        let by = match (factor, sum) {
            (Factor::Constant(1), None) => return register,
            (Factor::Constant(1), Some(sum)) => {
                let args = [[sum, register], [register, sum]][self.random.below(2) as usize];
                return self.text.wide("add.i64", &args);
            }
            (Factor::Constant(u64::MAX), Some(sum)) => return self.text.wide("sub.i64", &[sum, register]),
            (Factor::Constant(by), _) => self.text.constant(by),
            (Factor::Argument, _) => 8,
        };
        match sum {
            Some(sum) if self.chance(60) => self.text.wide("fma.i64", &[register, by, sum]),
            Some(sum) => {
                let product = self.text.wide("mul.i64", &[register, by]);
                self.text.wide("add.i64", &[sum, product])
            }
            None => self.text.wide("mul.i64", &[register, by]),
        }
    }
}

/// A factor of a variable.
#[derive(Clone, Copy)]
enum Factor {
    Constant(u64),
    /// An argument.
    Argument,
}
