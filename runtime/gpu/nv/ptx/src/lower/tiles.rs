//! Drafts of loads, stores and products of matrices of a warp.

use super::code::{Draft, Place};
use super::instruction::{Lower, Lowered, constant, own};
use crate::generated::suffixes::{Class, LayoutSuffix, MatrixSuffix, RoundingSuffix, ShapeSuffix, Type};
use crate::interp::memory::Space;
use crate::interp::tiles::{self, TileAccess, TileProduct};
use crate::isa::{Form, Tile};
use crate::syntax::Operand;

impl<'a> Lower<'_, 'a> {
    pub(super) fn access_tile(&mut self, form: &Form, operands: &[Operand<'a>], loads: bool) -> Lowered<()> {
        let ([first, second] | [first, second, _]) = operands else {
            return self.invalid("expected registers and an address");
        };
        let (registers, address) = if loads { (first, second) } else { (second, first) };
        let named = form.get::<MatrixSuffix>().zip(form.get::<ShapeSuffix>()).zip(form.type_of(Class::Type));
        let Some(((matrix, shape), ty)) = named else { return self.unsupported("no such matrix") };
        let Some((number, tile)) = Tile::find(matrix, shape, ty) else { return self.unsupported("no such matrix") };
        let list = self.registers_of(registers, tile, loads)?;
        let by_columns = form.get::<LayoutSuffix>() == Some(LayoutSuffix::Col);
        let (space, at) = self.access(form, address)?;
        if space == Space::Param && !loads {
            return self.invalid("parameters of kernels are only read");
        }
        let [rows, columns] = tile.sizes();
        let stride = match operands.get(2) {
            Some(stride) => self.source(stride, Type::B32, false)?,
            None => constant(if by_columns { rows } else { columns } as u64, 32),
        };
        let access = TileAccess { tile: number, by_columns, space, is_short: at.is_short };
        let handler = if loads { own(tiles::load_tile) } else { own(tiles::store_tile) };
        let mut draft = Draft::control(handler).with([at.source, stride]);
        (draft.number, draft.offset, draft.local) = (access.number(), at.offset, at.local);
        draft.list_results = if loads { list.len() } else { 0 };
        draft.list = list;
        self.push(draft);
        Ok(())
    }

    pub(super) fn multiply_tiles(&mut self, form: &Form, operands: &[Operand<'a>]) -> Lowered<()> {
        if operands.len() != 4 {
            return self.invalid("expected results, two matrices and sums");
        }
        let types = form.type_of(Class::To).zip(form.type_of(Class::Accumulator)).zip(form.get::<ShapeSuffix>());
        let Some(((results, sums), shape)) = types else { return self.unsupported("no such product") };
        let product = TileProduct {
            shape,
            // A product of f16 does not name the type of its factors.
            factors: form.type_of(Class::Type).unwrap_or(Type::F16),
            results,
            sums,
            rounding: form.get::<RoundingSuffix>().unwrap_or(RoundingSuffix::Rn),
            saturates: form.has(Class::Sat),
        };
        let Some(matrices) = product.tiles() else { return self.unsupported("no such product") };
        let mut list = Vec::new();
        for (index, (operand, tile)) in operands.iter().zip(matrices).enumerate() {
            list.extend(self.registers_of(operand, tile, index == 0)?);
        }
        let mut draft = Draft::control(own(tiles::multiply_tiles));
        draft.number = product.number();
        draft.list_results = matrices[0].registers as usize;
        draft.list = list;
        self.push(draft);
        Ok(())
    }

    /// The registers of a matrix.
    fn registers_of(&mut self, operand: &Operand<'a>, tile: &Tile, are_results: bool) -> Lowered<Vec<Place>> {
        let values = Self::values(operand);
        if values.len() != tile.registers as usize {
            return self.invalid(format!("{} registers of a matrix: expected {}", values.len(), tile.registers));
        }
        let ty = if tile.ty.bits() == 64 { Type::B64 } else { Type::B32 };
        let place = |value| match are_results {
            true => self.plain_result(value, ty.bits()),
            false => self.source(value, ty, false),
        };
        values.iter().map(place).collect()
    }
}
