//! Hostile nests: what is drawn for a seed. Loops are tested at the top or at the bottom; what they count with is used
//! in their headers, after them, and as starts of later loops; indices are near the end of what a buffer has, wrap
//! around, and grow by any number.

use super::super::program::Random;
use super::forms::Form;
use super::memory::REGION;
use super::text::{BUFFERS, Text, ZERO};

/// The number of bits of a drawn number is drawn first, so small ones are as likely as large ones.
pub fn log_uniform(random: &mut Random, bits: u64) -> u64 {
    let bits = random.below(bits + 1);
    if bits == 0 { 0 } else { 1 << (bits - 1) | wide(random) & ((1 << (bits - 1)) - 1) }
}

fn wide(random: &mut Random) -> u64 {
    random.below(1 << 31) << 33 ^ random.below(1 << 31) << 16 ^ random.below(1 << 31)
}

/// A number near those where something wraps around.
pub fn wild(random: &mut Random) -> u64 {
    let near = [31, 31, 32, 32, 62, 63, 33, 30][random.below(8) as usize];
    let distance = log_uniform(random, 7);
    let value = if random.below(2) == 0 { (1_u64 << near).wrapping_add(distance) } else { (1 << near) - distance };
    if random.below(2) == 0 { value } else { value.wrapping_neg() }
}

/// The contents of memory, which decide about the operations: those on floats make no other NaNs than the processor's
/// own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    Integers,
    F32,
    F64,
}

/// A type of values in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    I32,
    I64,
    F32,
    F64,
}

/// How elements of a buffer are loaded and stored.
#[derive(Clone, Copy)]
pub(super) struct Element {
    pub load: &'static str,
    pub store: &'static str,
    pub shift: u32,
    pub of: Scalar,
}

pub(super) const ELEMENTS: [Element; 8] = [
    Element { load: "i8.s", store: "i8", shift: 0, of: Scalar::I32 },
    Element { load: "i8.u", store: "i8", shift: 0, of: Scalar::I32 },
    Element { load: "i16.s", store: "i16", shift: 1, of: Scalar::I32 },
    Element { load: "i16.u", store: "i16", shift: 1, of: Scalar::I32 },
    Element { load: "i32", store: "i32", shift: 2, of: Scalar::I32 },
    Element { load: "i64", store: "i64", shift: 3, of: Scalar::I64 },
    Element { load: "f32", store: "f32", shift: 2, of: Scalar::F32 },
    Element { load: "f64", store: "f64", shift: 3, of: Scalar::F64 },
];
const I32: usize = 4;

/// An `i64` that indices are made of.
#[derive(Clone, Copy)]
pub(super) struct Variable {
    pub register: u32,
    /// Where it starts, if that is far from zero.
    pub start: Option<u32>,
    /// By how much it grows in an iteration, if it is a parameter of a loop, and about by how much in all of them.
    pub step: u64,
    pub extent: u64,
    /// The depth of its loop, and whether that is still around.
    pub depth: usize,
    pub is_inside: bool,
    /// It is another number in each iteration of the loop whose iterations are consecutive.
    pub differs: bool,
}

/// A drawn function.
pub struct Program {
    pub text: String,
    pub probe: String,
    pub flavour: Flavour,
    pub form: Form,
    /// The size of most elements of each buffer, as a shift.
    pub shifts: [u32; BUFFERS],
}

pub struct Draw<'a> {
    pub(super) random: &'a mut Random,
    pub(super) text: Text,
    pub(super) flavour: Flavour,
    /// The depth of the loops whose iterations are consecutive elements.
    pub(super) lane: usize,
    depths: usize,
    /// The depth of the innermost loop, from one on.
    pub(super) depth: usize,
    loops: usize,
    /// Hardly anything is far out of range.
    is_tame: bool,
    /// The innermost loops add up products, as those of matrices do, and there is little else.
    pub(super) has_products: bool,
    pub(super) statements: usize,
    pub(super) variables: Vec<Variable>,
    /// Values that are stored.
    pub(super) values: Vec<(Scalar, u32)>,
    pub(super) sum: u32,
    /// There are branches in loops.
    pub(super) has_branches: bool,
    /// The loop has added to it.
    pub(super) has_added: bool,
    /// The elements that buffers mostly have.
    pub(super) elements: [usize; BUFFERS],
}

/// Draws what a seed stands for.
pub fn program(random: &mut Random, form: Form) -> Program {
    let flavour =
        [Flavour::Integers, Flavour::Integers, Flavour::Integers, Flavour::F32, Flavour::F64][random.below(5) as usize];
    let mut elements = [0; BUFFERS].map(|_: usize| match flavour {
        Flavour::Integers => [4, 4, 4, random.below(8), 6, random.below(4)][random.below(6) as usize] as usize,
        Flavour::F32 => 6,
        Flavour::F64 => 7,
    });
    if flavour == Flavour::Integers && random.below(2) == 0 {
        elements = [elements[0]; BUFFERS];
    }
    let has_products = random.below(4) == 0 && form == Form::Nests;
    let depths = if has_products { [2, 3, 3, 4] } else { [1, 2, 2, 3] }[random.below(4) as usize];
    let depths = depths + usize::from(random.below(8) == 0 && depths < 4);
    let lane = match depths {
        _ if has_products => depths as u64 - 2,
        1 | 2 => random.below(5) / 4,
        _ => random.below(3),
    };
    let is_tame = random.below(10) < 7;
    let mut text = Text::new();
    let sum = text.narrow_constant(1);
    let shifts = elements.map(|element| ELEMENTS[element].shift);
    let mut draw = Draw {
        random,
        text,
        flavour,
        lane: (lane as usize).min(depths - 1),
        depths,
        depth: 0,
        loops: 0,
        is_tame,
        has_products,
        statements: if has_products { 3 } else { 9 },
        variables: Vec::new(),
        values: Vec::new(),
        sum,
        has_branches: form == Form::Branches,
        has_added: false,
        elements,
    };
    draw.function(form);
    let counter = draw.variables.first().map_or(ZERO, |variable| variable.register);
    let last = draw.variables.last().map_or(ZERO, |variable| variable.register);
    let results = match draw.random.below(6) {
        0 => [ZERO, ZERO, sum],
        1 | 2 => [counter, ZERO, sum],
        3 => [counter, last, sum],
        4 => match draw.values.last() {
            Some((Scalar::I64, register)) => [ZERO, *register, sum],
            Some((Scalar::I32, register)) => [ZERO, ZERO, *register],
            _ => [ZERO, ZERO, sum],
        },
        _ => [ZERO, last, sum],
    };
    let [text, probe] = draw.text.finish(results);
    Program { text, probe, flavour, form, shifts }
}

impl Draw<'_> {
    pub(super) fn chance(&mut self, percent: u64) -> bool {
        self.random.below(100) < percent
    }

    /// The same, of what makes most calls fail, or most loops no vector loops.
    pub(super) fn rare(&mut self, percent: u64) -> bool {
        self.chance(percent) && (!self.is_tame || self.chance(8))
    }

    pub(super) fn some<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.random.below(of.len() as u64) as usize]
    }

    fn function(&mut self, form: Form) {
        let narrow = self.random.below(1 << 20) as u32;
        let narrow = self.text.narrow_constant(u64::from(narrow));
        let wide = wide(self.random);
        let wide = self.text.constant(wide);
        self.values = vec![(Scalar::I32, narrow), (Scalar::I64, wide)];
        for (scalar, name) in [(Scalar::F32, "f32"), (Scalar::F64, "f64")] {
            let register = self.text.fresh();
            let half = self.random.below(9);
            let into = super::statements::name(scalar, register);
            self.text.line(&format!("{into} = vm.const.{name} {half}.5"));
            self.values.push((scalar, register));
        }
        if self.chance(12) {
            self.fill();
        }
        if self.chance(8) {
            self.statement();
        }
        self.form(form);
        if self.chance(15) {
            self.statement();
        }
    }

    pub(super) fn nests(&mut self) {
        self.nest(0);
        while self.loops < 5 && self.chance(20) {
            self.statements += 3;
            self.nest(0);
        }
    }

    /// An argument that stands for few iterations, or for more.
    fn count(&mut self, is_lane: bool) -> (u32, u64) {
        let most = if is_lane { 70 } else { 9 };
        match self.random.below(20) {
            0..8 => (2 * (if is_lane { self.random.below(2) } else { 2 + self.random.below(2) }) as u32, most),
            8..17 => {
                let count = if is_lane && self.chance(50) {
                    self.some(&[8, 16, 17, 32, 33, 64, 24, 40])
                } else if is_lane {
                    log_uniform(self.random, 6)
                } else {
                    log_uniform(self.random, 3) + self.random.below(2)
                };
                (self.text.constant(count), count)
            }
            17 => {
                let index = self.random.below(8);
                let index = self.text.constant(index);
                (self.load_number(index), 9)
            }
            18 => {
                let more = log_uniform(self.random, 3);
                let more = self.text.constant(more);
                (self.text.wide("add.i64", &[if is_lane { 0 } else { 4 }, more]), most + 4)
            }
            _ => {
                let other = log_uniform(self.random, 6);
                let other = self.text.constant(other);
                (self.text.wide("min.i64.s", &[if is_lane { 2 } else { 6 }, other]), most)
            }
        }
    }

    fn load_number(&mut self, index: u32) -> u32 {
        let (last, into) = (BUFFERS - 1, self.text.fresh());
        let is_wide = self.chance(60);
        self.text.note(last, index, if is_wide { 3 } else { 2 }, None);
        let at = super::text::pair(index);
        if is_wide {
            self.text.line(&format!("{} = vm.buffer.load.i64 %r{last}, {at}", super::text::pair(into)));
            return into;
        }
        self.text.line(&format!("%i{into} = vm.buffer.load.i32 %r{last}, {at}"));
        let (sign, extended) = (self.some(&["s", "s", "u"]), self.text.fresh());
        self.text.line(&format!("{} = vm.ext.i32.i64.{sign} %i{into}", super::text::pair(extended)));
        extended
    }

    /// Where something starts, whether that is far from zero, and how far it may be.
    fn start(&mut self, is_counter: bool) -> (u32, bool, u64, bool) {
        let [zero, small, before, argument, far] = if is_counter { [70, 8, 8, 6, 4] } else { [50, 8, 25, 8, 4] };
        let choice = self.random.below(100);
        let mut known = self.variables.clone();
        known.retain(|other| other.extent < 1 << 12);
        // Inner loops that make other iterations in each lane are no vectors.
        if !self.rare(if is_counter { 100 } else { 50 }) {
            known.retain(|other| !other.differs);
        }
        if choice < zero || known.is_empty() && choice < zero + before {
            (ZERO, false, 0, false)
        } else if choice < zero + before {
            let from = self.random.below(known.len() as u64) as usize;
            let variable = known[if self.random.below(2) == 0 { known.len() - 1 } else { from }];
            (variable.register, variable.start.is_some(), variable.extent, variable.differs)
        } else if choice < zero + before + small {
            let value = log_uniform(self.random, 5);
            (self.text.constant(value), false, value, false)
        } else if choice < zero + before + small + argument {
            (8, false, 20, false)
        } else if choice < zero + before + small + argument + far {
            let value = wild(self.random);
            (self.text.constant(value), true, 0, false)
        } else {
            (10, true, 0, false)
        }
    }

    /// A copy of a register, which a loop steps.
    pub(super) fn copy(&mut self, from: u32) -> u32 {
        if from == ZERO { self.text.constant(0) } else { self.text.wide("add.i64", &[from, ZERO]) }
    }

    /// A number that is added to a parameter in each iteration: its register, and about how much it is.
    fn secondary_step(&mut self, iterations: u64, is_lane: bool, counter_step: u64) -> (u32, u64) {
        let room = (1 << 12) / iterations.max(1);
        let step = match self.random.below(20) {
            _ if is_lane && counter_step != 1 && self.chance(60) => 1,
            16..20 if !self.rare(100) => 1 + log_uniform(self.random, 3),
            0..5 => 1,
            5..14 => 1 + log_uniform(self.random, u64::from(room.max(1).ilog2())),
            14..16 => self.some(&[2, 3, 4, 8, 16, 100, 500]),
            16 => log_uniform(self.random, 33),
            17 => (1 + log_uniform(self.random, 4)).wrapping_neg(),
            18 => 1 << self.random.below(31),
            _ => return (8, 8),
        };
        (self.text.constant(step), step)
    }

    /// A loop with what is in it.
    pub(super) fn nest(&mut self, depth: usize) {
        self.loops += 1;
        self.depth = depth + 1;
        self.has_added = false;
        let is_product = self.has_products && depth + 1 == self.depths;
        let (is_lane, is_top_tested) = (depth == self.lane, self.chance(if is_product { 80 } else { 60 }));
        let (start, is_far, from, differs) = self.start(true);
        let (count, iterations) = self.count(is_lane);
        let step = match self.random.below(20) {
            _ if is_product && self.chance(80) => 1,
            0..16 => 1,
            19 if self.rare(100) => 1 + log_uniform(self.random, 32),
            _ => 1 + log_uniform(self.random, 4),
        };
        let step_register = self.text.constant(step);
        let mut bound = count;
        if step != 1 && self.chance(80) {
            bound = self.text.wide("mul.i64", &[count, step_register]);
        }
        if start != ZERO && self.chance(85) {
            let args = [[start, bound], [bound, start]][self.random.below(2) as usize];
            bound = self.text.wide("add.i64", &args);
        }
        let first = self.copy(start);
        let mut stepped = vec![(first, step_register)];
        let mut own = vec![Variable {
            register: first,
            start: is_far.then_some(start),
            step,
            extent: from.saturating_add(iterations.saturating_mul(step)),
            depth,
            is_inside: true,
            differs: differs || is_lane,
        }];
        for _ in 0..self.some(&[0, 0, 1, 1, 1, 2]) {
            let (start, is_far, from, differs) = self.start(false);
            let register = self.copy(start);
            let (by, about) = self.secondary_step(iterations, is_lane, step);
            stepped.push((register, by));
            own.push(Variable {
                register,
                start: is_far.then_some(start),
                step: if by == 8 { 0 } else { about },
                extent: from.saturating_add(iterations.saturating_mul(if about >> 63 == 1 { 0 } else { about })),
                depth,
                is_inside: true,
                differs: differs || is_lane,
            });
        }
        let [head, after] = [self.text.block(), self.text.block()];
        self.text.line(&format!("vm.br ^bb{head}()"));
        self.text.label(head);
        let outside = (self.variables.len(), self.values.len());
        self.variables.extend(own);
        if is_top_tested {
            if self.chance(25) {
                self.statement();
            }
            let body = self.text.block();
            self.test(first, bound, [body, after]);
            self.text.label(body);
        }
        // Values that the header has computed are there after the loop, too.
        let in_header = (self.variables.len(), self.values.len());
        let early = self.some(&[0, 0, 0, 0, 1, 2]);
        if early == 1 {
            self.step(&mut stepped);
        }
        self.body(depth);
        if early == 2 {
            self.step(&mut stepped);
            self.statement();
        }
        self.step(&mut stepped);
        if is_top_tested {
            self.text.line(&format!("vm.br ^bb{head}()"));
        } else {
            self.test(first, bound, [head, after]);
        }
        self.text.label(after);
        self.depth = depth;
        if is_top_tested && !self.chance(4) {
            self.variables.truncate(in_header.0);
            self.values.truncate(in_header.1);
        } else if self.chance(60) {
            self.values.truncate(outside.1);
        }
        for variable in &mut self.variables[outside.0..] {
            variable.is_inside = false;
            variable.differs &= !is_lane;
        }
    }

    /// Steps parameters that have not been stepped, which all are then, unless some are left for later.
    fn step(&mut self, stepped: &mut Vec<(u32, u32)>) {
        let some_left = if self.chance(20) { 1 } else { 0 };
        let mut left = Vec::new();
        for (register, by) in std::mem::take(stepped) {
            if some_left == 1 && left.is_empty() && self.statements > 0 {
                left.push((register, by));
                continue;
            }
            let [register, by] = [register, by].map(super::text::pair);
            self.text.line(&format!("{register} = vm.add.i64 {register}, {by}"));
        }
        if !left.is_empty() {
            self.statement();
            for (register, by) in left {
                let [register, by] = [register, by].map(super::text::pair);
                self.text.line(&format!("{register} = vm.add.i64 {register}, {by}"));
            }
        }
    }

    /// Ends a block: on to the first of the others if the counter is below the bound.
    pub(super) fn test(&mut self, counter: u32, bound: u32, [then, otherwise]: [u32; 2]) {
        let truth = self.text.fresh();
        let op = if self.rare(8) { self.some(&["lt.i64.u", "ne.i64"]) } else { "lt.i64.s" };
        let [counter, bound] = [counter, bound].map(super::text::pair);
        self.text.line(&format!("%i{truth} = vm.cmp.{op} {counter}, {bound}"));
        self.text.line(&format!("vm.cond_br %i{truth}, ^bb{then}(), ^bb{otherwise}()"));
    }

    fn body(&mut self, depth: usize) {
        if self.has_products {
            if self.chance(10) {
                self.statement();
            }
            if depth + 1 == self.depths {
                self.product()
            } else {
                self.nest(depth + 1)
            }
            if self.chance(20) {
                self.statement();
            }
            return;
        }
        let inner = match self.random.below(20) {
            _ if depth + 1 >= self.depths => 0,
            0..13 => 1,
            13..18 => 2,
            _ => 3,
        };
        if inner == 0 || self.chance(35) {
            self.statement();
        }
        for index in 0..inner {
            if self.loops < 6 {
                self.nest(depth + 1);
                if self.chance(if index + 1 == inner { 60 } else { 25 }) {
                    self.statement();
                }
            }
        }
        while self.statements > 0 && self.chance(if depth + 1 >= self.depths { 50 } else { 12 }) {
            self.statement();
        }
    }

    /// The elements of the largest buffer.
    pub(super) fn room(&self, shift: u32) -> u64 {
        REGION as u64 >> shift
    }

    /// Another element than most of a buffer, sometimes.
    pub(super) fn element(&mut self, buffer: usize, is_store: bool) -> Element {
        let own = ELEMENTS[self.elements[buffer]];
        if self.flavour != Flavour::Integers && is_store {
            return own;
        }
        // Those of at most 32 bits have lanes of as many bits.
        if own.shift < 3 && self.chance(8) {
            return ELEMENTS[self.random.below(5) as usize];
        }
        if !self.rare(20) {
            return own;
        }
        match self.flavour {
            Flavour::Integers => ELEMENTS[self.random.below(8) as usize],
            Flavour::F32 | Flavour::F64 => ELEMENTS[self.some(&[0, 1, 2, 3, I32, I32, 5])],
        }
    }
}
