//! Makes random graphs.
//!
//! Operations are made one after the other, each after those whose bytes it touches, so that doing them in this order
//! is what any right order comes to. Nothing else orders them: they are submitted in any order, by several threads.
//!
//! Operations that fail, and those that wait for them, signal timelines of their own, which are never signaled with
//! success: a timeline that fails does so for points that were reached before too, and whether a waiter still saw those
//! reached would be a matter of luck.

use std::collections::BTreeMap;

use super::plan::{Action, Body, Cause, Line, Operation, Plan, Point, Range, SIZE, Store, Transfer, conflict};
use super::random::Random;

/// Operations of a graph at most; sets of them are bits of a word.
const MAX_OPERATIONS: usize = 56;

/// Makes a graph. `multiplies`: whether there is an executable.
pub fn make(seed: u64, multiplies: bool) -> Plan {
    let mut random = Random::new(seed);
    let plan = Plan { stores: Vec::new(), bodies: Vec::new(), lines: Vec::new(), operations: Vec::new(), threads: 0 };
    let mut maker = Maker {
        plan,
        multiplies,
        fails: random.once_in(2),
        buffers: Vec::new(),
        files: Vec::new(),
        transients: Vec::new(),
        healthy: Vec::new(),
        failing: Vec::new(),
        before: Vec::new(),
        accesses: Vec::new(),
        random,
    };
    maker.make();
    maker.plan
}

/// The state that is certain when an operation starts.
#[derive(Clone, Default)]
struct Before {
    /// Operations that have completed, as bits.
    completed: u64,
    /// Values that timelines have reached. An operation that has completed may still be signaling its second point, so
    /// that one of its points is reached does not say that the other one is.
    reached: BTreeMap<usize, u64>,
}

impl Before {
    fn has(&self, operation: usize) -> bool {
        self.completed >> operation & 1 != 0
    }

    fn reach(&mut self, line: usize, value: u64) {
        let reached = self.reached.entry(line).or_default();
        *reached = value.max(*reached);
    }
}

/// A graph in the making.
struct Maker {
    random: Random,
    plan: Plan,
    multiplies: bool,
    /// Whether anything fails in this graph.
    fails: bool,
    /// Buffers that hold bytes now, transient ones included.
    buffers: Vec<usize>,
    files: Vec<usize>,
    transients: Vec<usize>,
    /// Timelines that only succeed: their points so far, and which operation signals each.
    healthy: Vec<(usize, Vec<(u64, usize)>)>,
    /// Points that are never reached, and why.
    failing: Vec<(Point, Vec<Cause>)>,
    /// The state that is certain when each operation starts.
    before: Vec<Before>,
    accesses: Vec<Vec<(Range, bool)>>,
}

impl Maker {
    fn make(&mut self) {
        for _ in 0..2 + self.random.below(4) {
            let bytes = self.random.bytes(SIZE);
            self.buffers.push(self.plan.stores.len());
            self.plan.stores.push(Store::Buffer(bytes));
        }
        for _ in 0..self.random.below(3) {
            let bytes = self.random.bytes(SIZE);
            self.files.push(self.plan.stores.len());
            self.plan.stores.push(Store::File(bytes));
        }
        self.plan.lines.push(Line::Host);
        for _ in 0..1 + self.random.below(5) {
            self.healthy.push((self.plan.lines.len(), Vec::new()));
            self.plan.lines.push(Line::Reaches(0));
        }
        if self.fails && self.random.once_in(2) {
            let line = self.new_line(Line::Failing);
            self.failing.push((Point { line, value: 1 + self.random.below(3) as u64 }, vec![Cause::Host]));
        }
        let count = 2 + self.random.below(MAX_OPERATIONS - 4);
        while self.plan.operations.len() < count {
            self.add_something();
        }
        self.plan.threads = 1 + self.random.below(4);
    }

    fn new_line(&mut self, line: Line) -> usize {
        self.plan.lines.push(line);
        self.plan.lines.len() - 1
    }

    fn add_something(&mut self) {
        if self.fails && self.random.once_in(6) {
            return if self.failing.is_empty() || self.random.once_in(3) {
                self.add_origin()
            } else {
                self.add_doomed()
            };
        }
        let action = match self.random.below(16) {
            0 => Action::Barrier,
            1 => Action::Later,
            2 => return self.add_alloca(),
            3 if !self.transients.is_empty() => {
                let store = self.transients.swap_remove(self.random.below(self.transients.len()));
                self.buffers.retain(|other| *other != store);
                Action::Dealloca { store }
            }
            4 | 5 if !self.files.is_empty() => {
                let (file, buffer) = (self.files[self.random.below(self.files.len())], self.buffer());
                let (file, buffer) = self.same_length(file, buffer, 1);
                if self.random.once_in(2) {
                    Action::ReadFile { from: file, to: buffer }
                } else {
                    Action::WriteFile { from: buffer, to: file }
                }
            }
            6 | 7 => {
                let store = self.buffer();
                Action::Look { at: self.range(store, 1) }
            }
            8..=11 => self.execution(),
            _ => {
                let stores = self.buffers.clone();
                Action::Transfer(self.transfer(&stores))
            }
        };
        self.add(action);
    }

    fn buffer(&mut self) -> usize {
        self.buffers[self.random.below(self.buffers.len())]
    }

    /// Some bytes of a store, at a multiple of `step` and as long.
    fn range(&mut self, store: usize, step: usize) -> Range {
        let offset = self.random.below(SIZE / step) * step;
        let length = self.random.below((SIZE - offset) / step + 1) * step;
        Range { store, offset, length }
    }

    fn same_length(&mut self, a: usize, b: usize, step: usize) -> (Range, Range) {
        let (mut a, mut b) = (self.range(a, step), self.range(b, step));
        let length = a.length.min(b.length);
        (a.length, b.length) = (length, length);
        (a, b)
    }

    fn transfer(&mut self, stores: &[usize]) -> Transfer {
        let store = stores[self.random.below(stores.len())];
        match self.random.below(8) {
            0..=2 => {
                let step = 1 << self.random.below(4);
                Transfer::Fill { to: self.range(store, step), pattern: self.random.bytes(step) }
            }
            3 | 4 => {
                let to = self.range(store, 1);
                Transfer::Update { to, bytes: self.random.bytes(to.length) }
            }
            5 if self.multiplies && stores.len() > 2 => {
                let stores = self.random.choose(stores, 3);
                Transfer::Multiply { from: [stores[0], stores[1]], to: stores[2] }
            }
            _ => {
                let other = stores[self.random.below(stores.len())];
                let (from, to) = self.same_length(store, other, 1);
                Transfer::Copy { from, to }
            }
        }
    }

    /// An execution of commands that are recorded for it, or were for another one.
    fn execution(&mut self) -> Action {
        let usable = |body: &Body| {
            !body.one_shot
                && body.direct.iter().flatten().all(|store| self.buffers.contains(store))
                && body.direct.len() <= self.buffers.len()
        };
        let known: Vec<usize> = (0..self.plan.bodies.len()).filter(|body| usable(&self.plan.bodies[*body])).collect();
        let body = if known.is_empty() || self.random.once_in(2) {
            self.new_body()
        } else {
            known[self.random.below(known.len())]
        };
        // Each parameter has a store of its own: the barriers between commands are those of different bytes.
        let direct = self.plan.bodies[body].direct.clone();
        let free: Vec<usize> = self.buffers.iter().copied().filter(|store| !direct.contains(&Some(*store))).collect();
        let mut free = self.random.choose(&free, free.len());
        let table = direct.iter().map(|store| store.or_else(|| free.pop())).collect();
        Action::Execute { body, table }
    }

    fn new_body(&mut self) -> usize {
        let parameters = 1 + self.random.below(self.buffers.len().min(4));
        let mut stores = self.random.choose(&self.buffers.clone(), parameters);
        let direct = (0..parameters).map(|_| stores.pop().filter(|_| self.random.once_in(2))).collect();
        let all: Vec<usize> = (0..parameters).collect();
        let commands: Vec<Transfer> = (0..1 + self.random.below(6)).map(|_| self.transfer(&all)).collect();
        let mut barriers = Vec::new();
        let mut since: Vec<(Range, bool)> = Vec::new();
        for command in &commands {
            let (reads, write) = command.accesses();
            let accesses: Vec<(Range, bool)> =
                reads.into_iter().map(|range| (range, false)).chain([(write, true)]).collect();
            let needed = accesses.iter().any(|new| since.iter().any(|old| conflict(new, old)));
            let barrier = needed || self.random.once_in(4);
            if barrier {
                since.clear();
            }
            since.extend(accesses);
            barriers.push(barrier);
        }
        let one_shot = self.random.once_in(3);
        self.plan.bodies.push(Body { one_shot, commands, barriers, direct });
        self.plan.bodies.len() - 1
    }

    /// Reserves a buffer and fills it, since its contents are unknown.
    fn add_alloca(&mut self) {
        let store = self.plan.stores.len();
        self.plan.stores.push(Store::Transient);
        self.add(Action::Alloca { store });
        let pattern = self.random.bytes(4);
        self.add(Action::Transfer(Transfer::Fill { to: Range::whole(store), pattern }));
        self.buffers.push(store);
        self.transients.push(store);
    }

    /// Adds an operation that succeeds.
    fn add(&mut self, action: Action) {
        let accesses = action.accesses(&self.plan.bodies);
        let (mut before, mut wait) = (Before::default(), Vec::new());
        for earlier in (0..self.plan.operations.len()).rev() {
            let conflicts = accesses.iter().any(|new| self.accesses[earlier].iter().any(|old| conflict(new, old)));
            if conflicts && !before.has(earlier) {
                wait.push(self.wait_for(earlier, &mut before));
            }
        }
        self.add_more_waits(&mut wait, &mut before);
        let lines: Vec<usize> = (0..self.healthy.len()).collect();
        let count = 1 + self.random.below(2);
        let mut signal = Vec::new();
        for index in self.random.choose(&lines, count) {
            let (line, points) = &self.healthy[index];
            let (line, last) = (*line, points.last().copied());
            if let Some((value, signaler)) = last
                && before.reached.get(&line).is_none_or(|reached| *reached < value)
            {
                // A timeline only advances, so each signal of it comes after the one before.
                wait.push(Point { line, value });
                self.completes(signaler, Point { line, value }, &mut before);
            }
            let value = last.map_or(0, |(value, _)| value) + 1 + self.random.below(3) as u64;
            self.healthy[index].1.push((value, self.plan.operations.len()));
            self.plan.lines[line] = Line::Reaches(value);
            signal.push(Point { line, value });
        }
        self.random.shuffle(&mut wait);
        self.push(Operation { action, wait, signal, causes: Vec::new() }, before, accesses);
    }

    /// A point that is reached when an operation that succeeds has completed.
    fn wait_for(&mut self, operation: usize, before: &mut Before) -> Point {
        let signal = &self.plan.operations[operation].signal;
        let Point { line, value } = signal[self.random.below(signal.len())];
        self.completes(operation, Point { line, value }, before);
        let points = self.healthy.iter().find(|(healthy, _)| *healthy == line).map(|(_, points)| points.as_slice());
        let earlier = points.unwrap_or_default().iter().rev().map(|(earlier, _)| *earlier);
        let earlier = earlier.into_iter().find(|earlier| *earlier < value).unwrap_or(0);
        // Values between two signals are reached with the later one.
        Point { line, value: earlier + 1 + self.random.below((value - earlier) as usize) as u64 }
    }

    /// Takes note of what is known once `point` is reached, which an operation signals.
    fn completes(&self, operation: usize, point: Point, before: &mut Before) {
        let Before { completed, reached } = &self.before[operation];
        before.completed |= completed | 1 << operation;
        before.reach(point.line, point.value);
        for (line, value) in reached {
            before.reach(*line, *value);
        }
    }

    /// Waits that nothing asks for.
    fn add_more_waits(&mut self, wait: &mut Vec<Point>, before: &mut Before) {
        if self.random.once_in(4) {
            wait.push(Point { line: 0, value: 1 + self.random.below(3) as u64 });
        }
        let healthy: Vec<usize> =
            (0..self.plan.operations.len()).filter(|index| self.plan.operations[*index].causes.is_empty()).collect();
        let count = self.random.below(3);
        for earlier in self.random.choose(&healthy, count) {
            wait.push(self.wait_for(earlier, before));
        }
    }

    /// Adds an operation that fails by itself.
    fn add_origin(&mut self) {
        // The first store is a buffer of the allocator, whose memory is always there.
        let store = 0;
        let (action, cause) = match self.random.below(3) {
            0 => (Action::FailingFill { store }, Cause::Range),
            1 => {
                let to = Range { store: 0, offset: 0, length: SIZE };
                let commands = vec![Transfer::Fill { to, pattern: vec![1] }];
                self.plan.bodies.push(Body { one_shot: true, commands, barriers: vec![false], direct: vec![None] });
                (Action::Execute { body: self.plan.bodies.len() - 1, table: vec![None] }, Cause::Binding)
            }
            _ => {
                let cause = self.plan.operations.len();
                (Action::FailingCall { cause }, Cause::Call(cause))
            }
        };
        self.add_failing(action, Vec::new(), vec![cause]);
    }

    /// Adds an operation that waits for something that fails.
    fn add_doomed(&mut self) {
        let stores = self.buffers.clone();
        let action = match self.random.below(5) {
            0 => Action::Barrier,
            1 => Action::Later,
            2 => self.execution(),
            3 => Action::Never,
            _ => Action::Transfer(self.transfer(&stores)),
        };
        let (mut wait, mut causes) = (Vec::new(), Vec::new());
        let points: Vec<usize> = (0..self.failing.len()).collect();
        let count = 1 + self.random.below(2);
        for index in self.random.choose(&points, count) {
            let (point, because) = &self.failing[index];
            wait.push(*point);
            causes.extend_from_slice(because);
        }
        self.add_failing(action, wait, causes);
    }

    fn add_failing(&mut self, action: Action, mut wait: Vec<Point>, causes: Vec<Cause>) {
        let mut before = Before::default();
        self.add_more_waits(&mut wait, &mut before);
        let signal: Vec<Point> = (0..1 + self.random.below(2))
            .map(|_| {
                let line = self.new_line(Line::Fails(causes.clone()));
                Point { line, value: 1 + self.random.below(3) as u64 }
            })
            .collect();
        for point in &signal {
            self.failing.push((*point, causes.clone()));
        }
        self.random.shuffle(&mut wait);
        self.push(Operation { action, wait, signal, causes }, Before::default(), Vec::new());
    }

    fn push(&mut self, operation: Operation, before: Before, accesses: Vec<(Range, bool)>) {
        self.plan.operations.push(operation);
        self.before.push(before);
        self.accesses.push(accesses);
    }
}
