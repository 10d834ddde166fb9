//! Loads and stores of a vector loop: of consecutive elements, of one for all lanes, and of others, which are gathered.

use smallvec::SmallVec;

use super::body::{LoopBodyBuilder, Value};
use crate::analysis::shapes::{Shape, access};
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{Kind, Node, NodeId, Rows};
use crate::ir::types::{Scalar, Ty, Width};
use crate::processor::lanes;

impl LoopBodyBuilder<'_, '_> {
    pub(super) fn load_node(&mut self, node: &Node, id: NodeId) -> Option<Value> {
        let (element, primitive, _) = access(self.graph, id)?;
        if let Some((_, values)) = self.elements.get(&element) {
            return Some(Value::Vectors(values.clone()));
        }
        let (base, index) = (self.scalar(node.args[0])?, self.scalar(node.args[1])?);
        let ty = self.of.lanes_of(node.scalar());
        if self.unrolled.rows.contains(&id)
            && let Shape::Strided(stride) = self.of.shapes.get(node.args[1])
        {
            return Some(Value::Vectors(self.load_transposed(id, [base, index], stride)?));
        }
        Some(match self.of.shapes.get(node.args[1]) {
            Shape::Uniform => Value::Scalar(self.add(node.kind, node.ty, &[base, index])),
            Shape::Strided(1) => {
                let numbers = 0..self.of.factor.vectors as u8;
                let load = |number| self.access(Kind::LoadLanes(primitive, number), ty, &[base, index]);
                Value::Vectors(numbers.map(load).collect())
            }
            Shape::Strided(by) if lanes::can_load_bytes(primitive, by) => {
                let (stride, lanes) = (i32::try_from(by).ok()?, self.of.factor.width.lanes() as i32);
                let rows = (0..self.of.factor.vectors as i32).map(|number| Rows { stride, first: number * lanes });
                let all = rows.map(|rows| self.add(Kind::LoadBytes(primitive, rows), ty, &[base, index]));
                Value::Vectors(all.collect())
            }
            // With a mask, two loads are fewer accesses than a gather for eight lanes; for sixteen that is not
            // measured.
            Shape::Strided(by)
                if lanes::can_load_even(primitive, by)
                    && !self.of.shapes.is_wide
                    && (self.mask.is_none() || self.of.factor.width == Width::Eight) =>
            {
                let mut args: SmallVec<[NodeId; 3]> = SmallVec::from_slice(&[base, index]);
                if self.of.factor.width == Width::Sixteen {
                    args.push(self.even_elements());
                }
                args.extend(self.masks_of_even().into_iter().flatten());
                let numbers = 0..self.of.factor.vectors as u8;
                Value::Vectors(numbers.map(|number| self.add(Kind::LoadEven(primitive, number), ty, &args)).collect())
            }
            Shape::Strided(by) => {
                let by = i32::try_from(by).ok()?;
                let offsets = self.add(Kind::Multiples(by), self.of.lanes_of(Scalar::I32), &[]);
                let mut all = SmallVec::new();
                for number in 0..self.of.factor.vectors as i32 {
                    let displacement = by.checked_mul(self.of.factor.width.lanes() as i32)?.checked_mul(number)?;
                    all.push(self.access(Kind::Gather(primitive, displacement), ty, &[base, index, offsets]));
                }
                Value::Vectors(all)
            }
            Shape::Varying | Shape::Sequential | Shape::Unknown => return None,
        })
    }

    /// Which elements of two vectors sixteen lanes take, if the second vector begins with the last element of the first
    /// one: 0, 2, ... 14, and 17, 19, ... 31.
    fn even_elements(&mut self) -> NodeId {
        let of_lanes = self.of.lanes_of(Scalar::I32);
        let even = self.add(Kind::Multiples(2), of_lanes, &[]);
        let of_second = self.shifted(Primitive::ShrU, Scalar::I32, even, 4);
        self.lanes(Primitive::WrappingAdd, &[even, of_second])
    }

    pub(super) fn store(&mut self, node: &Node, id: NodeId) -> Option<()> {
        let (element, primitive, _) = access(self.graph, id)?;
        if self.of.shapes.carried.iter().any(|(other, _)| *other == element) {
            return Some(());
        }
        let values = (0..self.of.factor.vectors).map(|number| self.vector(node.args[2], number));
        let mut values: SmallVec<[NodeId; 4]> = values.collect::<Option<_>>()?;
        if let Some((carried, _)) = self.elements.get(&element).cloned() {
            // A byte is its own extension, and what loads of it give is known.
            let has_bytes = self.of.factor.width.has_bytes();
            if let Some(extension) = carried.extension_of(self.graph, node.args[2]).filter(|_| !has_bytes) {
                let extend = |value: &mut NodeId| *value = self.lanes(extension, &[*value]);
                values.iter_mut().for_each(extend);
            }
            self.elements.insert(element, (carried, values));
            return Some(());
        }
        let (base, index) = (self.scalar(node.args[0])?, self.scalar(node.args[1])?);
        for (number, value) in values.into_iter().enumerate() {
            self.access(Kind::StoreLanes(primitive, number as u8), Ty::Nothing, &[base, index, value]);
        }
        Some(())
    }
}
