//! Rows: strips that end where rows of as many iterations do as a loop divides its induction variable by. Other
//! divisors of that are multiples of this number, so what they divide is a number of rows and a column. The outer loop
//! counts the rows alone (`rectangles.rs`), or the iterations, too. Then it may divide other numbers by anything: a
//! strip also ends where one of their quotients changes, and is a part of a row.

use super::{Copier, Level, Rectangle, Unit};
use crate::analysis::loop_nest::addend;
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{BlockIndex, Kind, NodeId, Nodes};
use crate::ir::types::Scalar;
use crate::passes::strip_mining::candidates::{MIN_STRIP, Multiple, SMALL, multiple};

impl Copier<'_> {
    /// Makes sure that rows with as many columns as this value of the loop says are the loop, which begins at zero.
    pub(super) fn rectangle(&mut self, columns: NodeId) -> Option<Rectangle> {
        let columns = self.value(columns)?;
        if !self.check_divisor(columns, 1) {
            return None;
        }
        let bound = self.nest.bound;
        let rows = match multiple(self.graph, bound, columns) {
            Some(Multiple::Constant(rows)) => self.constant(rows),
            Some(Multiple::Node(rows)) if !self.defined.contains(rows.index()) => rows,
            _ => {
                let rows = self.add(self.checks, Level::Loop, Primitive::CheckedDivS, &[bound, columns]);
                self.graph.nodes[rows.index()].exit = Some(self.exit);
                rows
            }
        };
        // The product is the bound if it does not wrap, and if the division has no remainder.
        self.check_below(rows, SMALL)?;
        let product = self.integer(Level::Loop, Primitive::WrappingMul, &[rows, columns]);
        let left = self.integer(Level::Loop, Primitive::WrappingSub, &[bound, product]);
        self.check_below(left, 1)?;
        let mut steps = Nodes::new();
        for (parameter, next) in self.graph.blocks[self.nest.header].parameters.clone().iter().zip(&self.nest.next) {
            let by = addend(self.graph, *parameter, *next)?;
            let is_one = self.graph.constant(by) == Some(1);
            steps.push(if is_one {
                columns
            } else {
                self.integer(Level::Loop, Primitive::WrappingMul, &[columns, by])
            });
        }
        Some(Rectangle { rows, columns, column: self.column?, steps })
    }

    /// The number of an iteration in a row with so many columns, at the end of which the strip ends.
    pub(super) fn column_of(&mut self, row: NodeId, columns: NodeId, into: BlockIndex) -> Option<NodeId> {
        if !self.check_divisor(columns, MIN_STRIP) {
            return None;
        }
        let start = self.integer(Level::Strip, Primitive::WrappingMul, &[row, columns]);
        let end = self.integer(Level::Strip, Primitive::WrappingAdd, &[start, columns]);
        self.end = self.integer(Level::Strip, Primitive::MinS, &[self.end, end]);
        let zero = self.constant(0);
        let offset = self.integer(Level::Strip, Primitive::WrappingSub, &[zero, start]);
        (self.offset, self.row_end) = (Some(offset), Some(end));
        Some(self.after_own(offset, into))
    }

    /// The induction variable with an offset that is known in a strip. The sum is not negative.
    fn after_own(&mut self, offset: NodeId, into: BlockIndex) -> NodeId {
        let at_strip = self.integer(Level::Strip, Primitive::WrappingAdd, &[self.counter, offset]);
        let value = self.add(into, Level::Iteration, Primitive::WrappingAdd, &[self.own, offset]);
        self.units.insert(value, Unit { at_strip, at_loop: None });
        self.non_negative.extend([value, at_strip]);
        value
    }

    /// The quotient and the remainder of a number of rows and the column, and a multiple of the `columns`. These are a
    /// number of rows, and another one with the column.
    pub(super) fn divide_rows(
        &mut self,
        dividend: NodeId,
        divisor: NodeId,
        columns: NodeId,
        into: BlockIndex,
    ) -> Option<(NodeId, NodeId)> {
        if let Some(known) = self.in_strip.get(&(dividend, divisor)) {
            return Some(*known);
        }
        let (rows, column, columns) = (*self.in_rows.get(&dividend)?, self.column?, self.value(columns)?);
        if !self.check_divisor(columns, 1) {
            return None;
        }
        let factor = match multiple(self.graph, divisor, columns)? {
            Multiple::Constant(factor) => self.constant(factor),
            Multiple::Node(factor) => factor,
        };
        let known = if self.graph.constant(factor) == Some(1) {
            (rows, column)
        } else {
            if !self.check_divisor(factor, 1) {
                return None;
            }
            let (quotient, rest, remainder) = match self.offset {
                Some(offset) => {
                    let (quotient, rest) = self.both(rows, factor);
                    let offset = self.integer(Level::Strip, Primitive::WrappingMulAdd, &[rest, columns, offset]);
                    (quotient, rest, self.after_own(offset, into))
                }
                // The loop over the rows may be split by these.
                None => {
                    let [quotient, rest] = [Primitive::CheckedDivS, Primitive::CheckedRemS]
                        .map(|primitive| self.trap(Kind::Primitive(primitive, Scalar::I64), &[rows, factor]));
                    let args = [rest, columns, column];
                    (quotient, rest, self.add(into, Level::Iteration, Primitive::WrappingMulAdd, &args))
                }
            };
            self.in_rows.insert(remainder, rest);
            self.non_negative.extend([quotient, rest, remainder]);
            (quotient, remainder)
        };
        self.in_strip.insert((dividend, divisor), known);
        Some(known)
    }
}
