//! Simplification: finds the simpler form of a node that constant operands make trivial. The builder folds constants of
//! the bytecode; those that are met here come from the passes for loops, whose guards compute with starts and bounds
//! that are mostly constant. Value numbering simplifies each node before it looks for another one. Rewrites of
//! primitives are entries of `spec/jit`.

use smallvec::SmallVec;

use crate::generated::jit::rewrites::rewrite;
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{Graph, Kind, NodeId};
use crate::ir::rewrite::Simpler;
use crate::ir::types::{Effect, Scalar, Ty};

/// The replacement of a node of a kind with these operands.
pub(super) fn simplify(graph: &Graph, kind: Kind, args: &[NodeId]) -> Option<Simpler> {
    match kind {
        Kind::InRange => (graph.constant(args[0])? < graph.constant(args[1])?).then_some(Simpler::Holds),
        Kind::Primitive(primitive, of) if primitive.effect() == Effect::Pure => {
            rewrite(graph, primitive, of, args).or_else(|| known(graph, primitive, of, args))
        }
        _ => None,
    }
}

/// The value of a primitive with constant operands.
fn known(graph: &Graph, primitive: Primitive, of: Scalar, args: &[NodeId]) -> Option<Simpler> {
    let constants: SmallVec<[u64; 3]> = args.iter().map(|arg| graph.constant(*arg)).collect::<Option<_>>()?;
    let bits = primitive.known(of, &constants)?;
    match primitive.result(of) {
        Ty::Scalar(result) => Some(Simpler::Constant(result, bits)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node of a kind whose operands are these constants, or a value that is not known where there is none.
    fn simpler(kind: Kind, of: Scalar, operands: &[Option<u64>]) -> (Vec<NodeId>, Option<Simpler>) {
        let mut graph = Graph::default();
        let block = graph.add_block();
        let args: Vec<NodeId> = operands
            .iter()
            .map(|operand| match operand {
                Some(bits) => graph.add_constant(of, *bits),
                None => graph.parameter(block, Ty::Scalar(of)),
            })
            .collect();
        let found = simplify(&graph, kind, &args);
        (args, found)
    }

    #[test]
    fn constants_are_computed() {
        let of = Scalar::I64;
        let kind = |primitive| Kind::Primitive(primitive, of);
        for (primitive, operands, expected) in [
            (Primitive::WrappingSub, vec![16, 15], 1),
            (Primitive::WrappingMulAdd, vec![3, 4, 5], 17),
            (Primitive::MaxS, vec![u64::MAX, 0], 0),
        ] {
            let operands: Vec<Option<u64>> = operands.into_iter().map(Some).collect();
            let found = simpler(kind(primitive), of, &operands).1;
            assert_eq!(found, Some(Simpler::Constant(of, expected)), "{primitive:?}");
        }
        assert_eq!(simpler(kind(Primitive::WrappingSub), of, &[None, Some(15)]).1, None);
    }

    #[test]
    fn neutral_operands_leave_the_other_one() {
        for of in [Scalar::I32, Scalar::I64] {
            for (primitive, operands, kept) in [
                (Primitive::WrappingAdd, vec![None, Some(0)], 0),
                (Primitive::WrappingAdd, vec![Some(0), None], 1),
                (Primitive::WrappingSub, vec![None, Some(0)], 0),
                (Primitive::WrappingMul, vec![None, Some(1)], 0),
                (Primitive::WrappingMul, vec![Some(1), None], 1),
                (Primitive::WrappingMulAdd, vec![Some(0), None, None], 2),
                (Primitive::WrappingMulAdd, vec![None, Some(0), None], 2),
            ] {
                let (args, found) = simpler(Kind::Primitive(primitive, of), of, &operands);
                assert_eq!(found, Some(Simpler::Operand(args[kept])), "{primitive:?} {operands:?}");
            }
            let found = simpler(Kind::Primitive(Primitive::WrappingSub, of), of, &[Some(0), None]).1;
            assert_eq!(found, None, "zero less a value");
        }
    }

    #[test]
    fn checks_that_hold_are_nothing() {
        let found = |operands: &[Option<u64>]| simpler(Kind::InRange, Scalar::I64, operands).1;
        assert_eq!(found(&[Some(15), Some(16)]), Some(Simpler::Holds));
        // A check that fails takes its exit.
        assert_eq!(found(&[Some(16), Some(16)]), None);
        assert_eq!(found(&[Some(15), None]), None);
    }
}
