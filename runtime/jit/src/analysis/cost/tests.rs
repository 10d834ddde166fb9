//! Costs of drawn loops are those of their iterations one by one, and costs of a graph those of its nodes.

use super::*;
use crate::ir::text::parse::parse;

/// Numbers that look random: splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (mixed ^ (mixed >> 27)) % bound
    }

    fn sums(&mut self) -> Sums {
        let [scalar, once, vector, lane, shared_once, shared_vector, shared_lane, masked] =
            std::array::from_fn(|_| self.below(20));
        Sums { scalar, once, vector, lane, shared_once, shared_vector, shared_lane, masked }
    }

    fn nest(&mut self, depth: u64) -> LoopCost {
        let inner = if depth == 0 { 0 } else { self.below(3) };
        let inner: Vec<LoopCost> = (0..inner).map(|_| self.nest(depth - 1)).collect();
        let trip = Trip { iterations: 1 + self.below(40), is_known: self.below(2) == 0 };
        LoopCost { trip, own: self.sums(), chain: self.below(30), inner, accesses: self.below(5) }
    }

    fn form(&mut self) -> Form {
        Form { lanes: 4 << self.below(3), vectors: 1 + self.below(4), rows: 1 + self.below(8), is_masked: false }
    }
}

/// The cost of one iteration of a loop, counted iteration by iteration.
fn walk(of: &LoopCost, form: Form) -> u64 {
    let mut cost = of.own.cost(form);
    for inner in &of.inner {
        cost += ENTRY;
        for _ in 0..inner.trip.iterations {
            cost += (walk(inner, form) + ITERATION).max(inner.chain);
        }
    }
    cost
}

#[test]
fn costs_are_those_of_all_iterations() {
    let mut random = Random(1);
    for _ in 0..300 {
        let nest = random.nest(2);
        let one = |form| (walk(&nest, form) + ITERATION).max(nest.chain);
        let iterations = random.below(500);
        assert_eq!(nest.scalar(iterations), ENTRY + iterations * one(Form::SCALAR));
        let mut forms: Vec<Form> = (0..random.below(3)).map(|_| random.form()).collect();
        if random.below(2) == 0 {
            forms.push(Form { is_masked: true, vectors: 1, ..random.form() });
        }
        let (mut left, mut expected) = (iterations, 0);
        for form in &forms {
            expected += ENTRY;
            while left >= form.lanes * form.vectors || (form.is_masked && left > 0) {
                left = left.saturating_sub(form.lanes * form.vectors);
                expected += one(*form);
            }
        }
        expected += if left > 0 { nest.scalar(left) } else { 0 };
        assert_eq!(nest.vectors(forms.iter().copied(), iterations), expected, "{forms:?}");
    }
}

#[test]
fn costs_do_not_overflow() {
    let mut random = Random(2);
    let mut nest = random.nest(0);
    for _ in 0..4 {
        nest.trip.iterations = u64::MAX / 2;
        nest = LoopCost { inner: vec![nest], ..random.nest(0) };
    }
    let form = random.form();
    assert_eq!(nest.scalar(u64::MAX), u64::MAX);
    assert_eq!(nest.guarded(u64::MAX, nest.vectors([form], u64::MAX)), u64::MAX);
}

#[test]
fn costs_of_a_graph_are_those_of_its_nodes() {
    let text = include_str!("../../../filetests/vectorise/eight_iterations.graph");
    let text: String =
        text.lines().take_while(|line| !line.starts_with("---")).map(|line| format!("{line}\n")).collect();
    let graph = parse(&text, 1).expect("it is a graph");
    let preheader = graph.order.iter().find(|block| graph.blocks[**block].preheader_exit.is_some());
    let nest = LoopNest::parse(&graph, *preheader.expect("there is a loop")).expect("it is counted");
    let shapes = Shapes::new(&graph, &nest).expect("it has vectors");
    let cost = LoopCost::new(&graph, &nest, &shapes, &|_| false);
    // Code may enter in the middle of the loop.
    assert_eq!(cost.trip(), Trip { iterations: ASSUMED, is_known: false });
    // A load, an addition, a store and the test. Checks are hoisted, and the index is free.
    let each = LOAD + 1 + STORE + 1;
    assert_eq!(cost.scalar(8), ENTRY + 8 * (each + ITERATION));
    let form = Form { lanes: 8, ..Form::SCALAR };
    assert_eq!(cost.vectors([form], 8), ENTRY + each + ITERATION);
    let masked = Form { is_masked: true, ..form };
    assert_eq!(cost.vectors([masked], 5), ENTRY + each + 2 * MASKED + ITERATION);
    assert_eq!(cost.guards(), ENTRY + 2 * GUARD);
    // Rows that load the same load it once.
    let is_shared = |id| matches!(access(&graph, id), Some((.., false)));
    let cost = LoopCost::new(&graph, &nest, &shapes, &is_shared);
    assert_eq!(cost.vectors([Form { rows: 3, ..form }], 8), ENTRY + LOAD + 3 * (1 + STORE + 1) + ITERATION);
}
