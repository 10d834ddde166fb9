//! Drafts of moves and of accesses to memory.

use super::code::{Draft, LocalPlace, Place};
use super::instruction::{Lower, Lowered, Resolved, own};
use crate::generated::interp::by_hand;
use crate::generated::limits::{LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW};
use crate::generated::suffixes::{
    AtomicSuffix, Class, CountSuffix, DirectionSuffix, OrderingSuffix, ShapeSuffix, SpaceSuffix, Type, TypeKind,
    VectorSuffix,
};
use crate::interp::memory::{Shape, Space};
use crate::interp::{Element, Product, atomic, atomic_quad, load_matrix, memory, moves};
use crate::isa::Form;
use crate::machine::{Constant, Handler};
use crate::syntax::Operand;

/// An address: a register, or none, and a number.
pub(super) struct At {
    pub(super) source: Place,
    pub(super) offset: i64,
    pub(super) local: Option<LocalPlace>,
    pub(super) is_short: bool,
    /// The space that follows from the name, if it has one.
    space: Option<Space>,
    /// The offset among the parameters of the kernel.
    parameter: Option<u32>,
}

impl<'a> Lower<'_, 'a> {
    fn space(form: &Form) -> Option<Space> {
        Some(match form.get::<SpaceSuffix>() {
            None => Space::Generic,
            Some(SpaceSuffix::Global | SpaceSuffix::Const) => Space::Global,
            Some(SpaceSuffix::Shared | SpaceSuffix::SharedCta) => Space::Shared,
            Some(SpaceSuffix::Local) => Space::Local,
            Some(SpaceSuffix::Param | SpaceSuffix::ParamEntry | SpaceSuffix::ParamFunc) => Space::Param,
            Some(SpaceSuffix::SharedCluster) => return None,
        })
    }

    fn at(&mut self, operand: &Operand<'a>) -> Lowered<At> {
        let at = |source: Place, offset: i64| At {
            source,
            offset,
            local: None,
            is_short: false,
            space: None,
            parameter: None,
        };
        Ok(match operand {
            Operand::AtRegister(register, offset) => {
                let bits = self.bits_of(*register);
                if !matches!(bits, 32 | 64) {
                    return self.invalid(format!("an address in a register of {bits} bits"));
                }
                At { is_short: bits == 32, ..at(Place::Register(*register), *offset) }
            }
            Operand::AtNumber(number) => at(Place::None, *number as i64),
            Operand::AtName(name, offset) => match self.resolve(*name)? {
                Resolved::Global(index) => {
                    let pair = Place::Constant(Constant::Low(index, *offset), Some(Constant::High(index, *offset)));
                    At { space: Some(Space::Global), ..at(pair, 0) }
                }
                Resolved::Shared(place) => {
                    At { space: Some(Space::Shared), ..at(Place::None, i64::from(place).wrapping_add(*offset)) }
                }
                Resolved::Parameter(place) => {
                    let offset = i64::from(place).wrapping_add(*offset);
                    let parameter = u32::try_from(offset).ok();
                    At { space: Some(Space::Param), parameter, ..at(Place::None, offset) }
                }
                Resolved::Local(place) => {
                    At { space: Some(Space::Local), local: Some(place), ..at(Place::None, *offset) }
                }
                Resolved::Function(_) => return self.unsupported("memory at a function"),
            },
            _ => return self.invalid("expected an address in brackets"),
        })
    }

    /// The space and the address of an access.
    pub(super) fn access(&mut self, form: &Form, operand: &Operand<'a>) -> Lowered<(Space, At)> {
        let Some(space) = Self::space(form) else { return self.unsupported("shared memory of clusters") };
        let mut at = self.at(operand)?;
        let space = match (space, at.space) {
            // Parameters of functions are in local memory.
            (Space::Param, None) if !self.context.function.is_kernel => Space::Local,
            (Space::Param, Some(Space::Local)) => Space::Local,
            (space, Some(named)) if space == named => space,
            (Space::Generic, Some(named)) => named,
            (space, None) => space,
            _ => return self.invalid("the name is in another space"),
        };
        if space == Space::Generic && at.is_short {
            return self.invalid("a generic address in a register of 32 bits");
        }
        // Within a space of less than 2^32 bytes the upper half of an address does not matter.
        if space == Space::Global && at.is_short {
            let wide = self.temporary(64);
            let mut draft = Draft::new(own(moves::add_offset)).with([at.source]).to(wide);
            draft.number = 1;
            self.push(draft);
            (at.source, at.is_short) = (wide, false);
        }
        Ok((space, at))
    }

    /// In the place of a second result: whether other blocks may rely on the access.
    fn ordering(form: &Form) -> Place {
        match form.get::<OrderingSuffix>() {
            None | Some(OrderingSuffix::Weak) => Place::None,
            Some(_) => Place::Predicate(memory::VOLATILE),
        }
    }

    /// The registers of a vector or of a single value.
    pub(super) fn values(operand: &Operand<'a>) -> Vec<Operand<'a>> {
        match operand {
            Operand::Vector(parts) => parts.clone(),
            other => vec![other.clone()],
        }
    }

    fn count(form: &Form) -> u32 {
        match form.get::<VectorSuffix>() {
            None => 1,
            Some(VectorSuffix::V2) => 2,
            Some(VectorSuffix::V4) => 4,
            Some(VectorSuffix::V8) => 8,
        }
    }

    pub(super) fn load(&mut self, form: &Form, operands: &[Operand<'a>]) -> Lowered<()> {
        // A hint of a cache policy may follow.
        let ([results, address] | [results, address, _]) = operands else {
            return self.invalid("expected a result and an address");
        };
        let ty = form.type_of(Class::Type).unwrap_or(Type::B32);
        let (space, at) = self.access(form, address)?;
        let (results, count) = (Self::values(results), Self::count(form));
        if results.len() != count as usize {
            return self.invalid(format!("{} results: expected {count}", results.len()));
        }
        if count * ty.bits() > 256 {
            return self.invalid("more than 32 bytes");
        }
        let bits = ty.bits();
        let mut width = None;
        let mut list = Vec::new();
        for result in &results {
            match result {
                Operand::Nothing => list.push(Place::None),
                Operand::Register(register) => {
                    let have = self.bits_of(*register);
                    if have < bits || have == 1 || width.is_some_and(|width| width != have) {
                        return self.invalid(format!("a value of {bits} bits in a register of {have}"));
                    }
                    width = Some(have);
                    list.push(Place::Register(*register));
                }
                _ => return self.invalid("a result is no register"),
            }
        }
        let width = width.unwrap_or(bits.max(16));
        let parameter_bytes = self.context.function.parameters.last().map_or(0, |last| {
            self.context.parameters.last().copied().unwrap_or_default() + last.size.unwrap_or_default() as u32
        });
        if let (Space::Param, Some(offset)) = (space, at.parameter)
            && offset.is_multiple_of(4)
            && width == bits.max(32)
            && bits >= 32
            && u64::from(offset) + u64::from(bits / 8 * count) <= u64::from(parameter_bytes)
        {
            // Parameters are the same in all lanes.
            for (index, result) in list.iter().enumerate().filter(|(_, place)| **place != Place::None) {
                let first = offset + index as u32 * bits / 8;
                let high = (bits == 64).then_some(Constant::Parameter(first + 4));
                let source = Place::Constant(Constant::Parameter(first), high);
                let handler = if bits == 64 { by_hand().copy_pair } else { by_hand().copy };
                if bits == 128 {
                    return self.unsupported("a parameter of 128 bits");
                }
                self.push(Draft::new(handler).with([source]).to(*result));
            }
            return Ok(());
        }
        let shape = Shape {
            space,
            bytes: bits / 8,
            is_signed: ty.kind() == TypeKind::Signed,
            count,
            rows: if width == 64 && bits < 64 { 2 } else { 1 },
            is_short: at.is_short,
        };
        let mut draft = Draft::new(load_handler(shape)).with([at.source]);
        (draft.number, draft.offset, draft.local) = (shape.number(), at.offset, at.local);
        draft.result2 = Self::ordering(form);
        draft.polls = draft.result2 != Place::None;
        draft.list_results = list.len();
        draft.list = list;
        self.push(draft);
        Ok(())
    }

    pub(super) fn store(&mut self, form: &Form, operands: &[Operand<'a>]) -> Lowered<()> {
        let ([address, values] | [address, values, _]) = operands else {
            return self.invalid("expected an address and a value");
        };
        let ty = form.type_of(Class::Type).unwrap_or(Type::B32);
        let (values, count) = (Self::values(values), Self::count(form));
        if values.len() != count as usize {
            return self.invalid(format!("{} values: expected {count}", values.len()));
        }
        if count * ty.bits() > 256 {
            return self.invalid("more than 32 bytes");
        }
        let (space, at) = self.access(form, address)?;
        if space == Space::Param {
            return self.invalid("parameters of kernels are only read");
        }
        let mut list = Vec::new();
        for value in &values {
            let place = if ty.bits() == 128 { self.plain_result(value, 128)? } else { self.source(value, ty, true)? };
            list.push(place);
        }
        self.store_list(list, ty.bits() / 8, space, &at);
        if let Some((draft, _)) = self.out.drafts.last_mut() {
            draft.result2 = Self::ordering(form);
        }
        Ok(())
    }

    fn store_list(&mut self, list: Vec<Place>, bytes: u32, space: Space, at: &At) {
        let shape = Shape { space, bytes, is_signed: false, count: list.len() as u32, rows: 1, is_short: at.is_short };
        let mut draft = Draft::new(by_hand().store).with([at.source]);
        (draft.number, draft.offset, draft.local) = (shape.number(), at.offset, at.local);
        draft.list = list;
        self.push(draft);
    }

    /// Stores an argument that is a register to its place in the frame of a function.
    pub(super) fn store_argument(&mut self, value: &Operand<'a>, place: LocalPlace, bytes: u32) -> Lowered<()> {
        let ty = match bytes {
            1 => Type::B8,
            2 => Type::B16,
            4 => Type::B32,
            8 => Type::B64,
            _ => return self.unsupported(format!("an argument of {bytes} bytes")),
        };
        let value = self.source(value, ty, true)?;
        let at =
            At { source: Place::None, offset: 0, local: Some(place), is_short: false, space: None, parameter: None };
        self.store_list(vec![value], bytes, Space::Local, &at);
        Ok(())
    }

    pub(super) fn mov(&mut self, form: &Form, operands: &[Operand<'a>]) -> Lowered<()> {
        let [result, source] = operands else { return self.invalid("expected a result and a source") };
        let ty = form.type_of(Class::Type).unwrap_or(Type::B32);
        match (result, source) {
            (Operand::Vector(results), source) => return self.unpack(results, source, ty),
            (result, Operand::Vector(parts)) => return self.pack(result, parts, ty),
            _ => {}
        }
        if ty == Type::Pred {
            let result = self.plain_result(result, 1)?;
            let (source, negated) = self.predicate(source)?;
            let mut draft = Draft::new(own(moves::copy_bits)).with([source]).to(result);
            draft.number = u32::from(negated);
            self.push(draft);
            return Ok(());
        }
        let result = self.plain_result(result, ty.bits())?;
        let draft = match source {
            Operand::Special(special) => {
                let mut draft = Draft::new(own(moves::special)).to(result);
                draft.number = *special as u32;
                draft.first = Some(if ty.bits() == 64 { 2 } else { 1 });
                draft
            }
            source => {
                let source =
                    if ty.bits() == 128 { self.plain_result(source, 128)? } else { self.source(source, ty, false)? };
                self.copy(source, result, ty.bits());
                return Ok(());
            }
        };
        self.push(draft);
        Ok(())
    }

    fn copy(&mut self, source: Place, result: Place, bits: u32) {
        let handler: Handler = match bits {
            64 => by_hand().copy_pair,
            128 => own(moves::copy_quad),
            _ => by_hand().copy,
        };
        self.push(Draft::new(handler).with([source]).to(result));
    }

    /// A value of parts, the first one lowest.
    fn pack(&mut self, result: &Operand<'a>, parts: &[Operand<'a>], ty: Type) -> Lowered<()> {
        let bits = ty.bits();
        let result = self.plain_result(result, bits)?;
        let part_bits = bits / (parts.len() as u32).max(1);
        let part_type = match part_bits {
            8 => Type::B8,
            16 => Type::B16,
            32 => Type::B32,
            64 => Type::B64,
            _ => return self.invalid(format!("{} parts of {bits} bits", parts.len())),
        };
        let mut places = Vec::new();
        for part in parts {
            places.push(self.source(part, part_type, false)?);
        }
        if let ([low, high], 16) = (places.as_slice(), part_bits) {
            self.push(Draft::new(by_hand().pack_halves).with([*low, *high]).to(result));
            return Ok(());
        }
        let mut draft = Draft::new(match part_bits {
            8 => own(moves::pack_bytes),
            16 => by_hand().pack,
            _ => own(moves::gather_rows),
        });
        draft.result = result;
        draft.number = part_bits;
        draft.offset = places.len() as i64;
        draft.list = places;
        self.push(draft);
        Ok(())
    }

    /// The parts of a value, the lowest one first.
    fn unpack(&mut self, results: &[Operand<'a>], source: &Operand<'a>, ty: Type) -> Lowered<()> {
        let bits = ty.bits();
        let part_bits = bits / (results.len() as u32).max(1);
        if !matches!(part_bits, 8 | 16 | 32 | 64) || part_bits * results.len() as u32 != bits {
            return self.invalid(format!("{} parts of {bits} bits", results.len()));
        }
        let source = if bits == 128 { self.plain_result(source, 128)? } else { self.source(source, ty, false)? };
        let mut list = Vec::new();
        for result in results {
            list.push(match result {
                Operand::Nothing => Place::None,
                Operand::Register(register) => {
                    let have = self.bits_of(*register);
                    if have != part_bits && !(part_bits == 8 && have == 16) {
                        return self.invalid(format!("a part of {part_bits} bits in a register of {have}"));
                    }
                    Place::Register(*register)
                }
                _ => return self.invalid("a part of the result is no register"),
            });
        }
        let mut draft = Draft::new(by_hand().scatter_parts).with([source]);
        draft.number = part_bits;
        draft.offset = list.len() as i64;
        draft.list_results = list.len();
        draft.list = list;
        self.push(draft);
        Ok(())
    }

    /// Where the window of a space begins.
    fn window(&self, space: Space) -> Lowered<i64> {
        match space {
            Space::Global => Ok(0),
            Space::Shared => Ok(SHARED_WINDOW as i64),
            Space::Local => Ok(LOCAL_WINDOW as i64),
            Space::Param if self.context.function.is_kernel => Ok(PARAM_WINDOW as i64),
            _ => self.unsupported("only parameters of kernels have a generic address"),
        }
    }

    pub(super) fn convert_address(&mut self, form: &Form, operands: &[Operand<'a>]) -> Lowered<()> {
        let [result, source] = operands else { return self.invalid("expected a result and an address") };
        let ty = form.type_of(Class::Type).unwrap_or(Type::U64);
        let Some(space) = Self::space(form) else { return self.unsupported("shared memory of clusters") };
        if ty.bits() != 64 {
            return self.unsupported("generic addresses of 32 bits");
        }
        let window = self.window(space)?;
        let result = self.plain_result(result, 64)?;
        let source = self.source(source, ty, false)?;
        let mut draft = Draft::new(own(moves::add_offset)).with([source]).to(result);
        draft.offset = if form.get::<DirectionSuffix>().is_some() { -window } else { window };
        self.push(draft);
        Ok(())
    }

    pub(super) fn is_space(&mut self, form: &Form, operands: &[Operand<'a>]) -> Lowered<()> {
        let [result, source] = operands else { return self.invalid("expected a predicate and an address") };
        let Some(space) = Self::space(form) else { return self.unsupported("shared memory of clusters") };
        let window = self.window(space)?;
        let result = self.plain_result(result, 1)?;
        let source = self.source(source, Type::B64, false)?;
        let mut draft = Draft::new(own(moves::is_space)).with([source]).to(result);
        draft.offset = window;
        self.push(draft);
        Ok(())
    }

    pub(super) fn atomic(&mut self, form: &Form, operands: &[Operand<'a>], has_result: bool) -> Lowered<()> {
        let Some(operation) = form.get::<AtomicSuffix>() else { return self.unsupported("no operation") };
        let ty = form.type_of(Class::Type).unwrap_or(Type::B32);
        let (result, operands) = match (has_result, operands) {
            (true, [result, operands @ ..]) => (Some(result), operands),
            (false, operands) => (None, operands),
            _ => return self.invalid("expected a result"),
        };
        let (address, values) = match (operation, operands) {
            (AtomicSuffix::Cas, [address, a, b]) => (address, vec![a, b]),
            (AtomicSuffix::Cas, _) => return self.invalid("expected an address and two values"),
            (_, [address, a]) => (address, vec![a]),
            _ => return self.invalid("expected an address and a value"),
        };
        let result = match result {
            Some(result) => self.plain_result(result, ty.bits())?,
            None => Place::None,
        };
        let (space, at) = self.access(form, address)?;
        let space = match space {
            Space::Global => 0,
            Space::Shared => 1,
            Space::Generic => 2,
            _ => return self.unsupported("this space"),
        };
        let is_quad = ty.bits() == 128;
        let handler = if is_quad { own(atomic_quad) } else { own(atomic) };
        let mut draft = Draft::new(handler).with([at.source]).to(result);
        draft.polls = has_result;
        for (slot, value) in values.into_iter().enumerate() {
            draft.sources[slot + 1] =
                if is_quad { self.plain_result(value, 128)? } else { self.source(value, ty, false)? };
        }
        draft.number = space | (operation as u32) << 2 | (ty as u32) << 7 | u32::from(at.is_short) << 13;
        (draft.offset, draft.local) = (at.offset, at.local);
        self.push(draft);
        Ok(())
    }

    pub(super) fn copy_to_shared(&mut self, _: &Form, operands: &[Operand<'a>]) -> Lowered<()> {
        let ([to, from, size] | [to, from, size, _]) = operands else {
            return self.unsupported("expected addresses in shared and in global memory, and a size");
        };
        let size = match self.immediate(size, Type::U32)? {
            size @ (4 | 8 | 16) => size as u32,
            size => return self.invalid(format!("{size} bytes: expected 4, 8 or 16")),
        };
        let (limit, ignored) = match operands.get(3) {
            None => (Place::None, Place::None),
            Some(Operand::Register(register)) if self.bits_of(*register) == 1 => {
                (Place::None, Place::Register(*register))
            }
            Some(other) => (self.source(other, Type::B32, false)?, Place::None),
        };
        let (to, from) = (self.at(to)?, self.at(from)?);
        if !matches!(to.space, None | Some(Space::Shared)) || !matches!(from.space, None | Some(Space::Global)) {
            return self.invalid("expected an address in shared and one in global memory");
        }
        let Ok(to_offset) = i32::try_from(to.offset) else { return self.invalid("an offset of 2 GiB or more") };
        let mut source = from.source;
        if from.is_short {
            source = self.temporary(64);
            let mut draft = Draft::new(own(moves::add_offset)).with([from.source]).to(source);
            draft.number = 1;
            self.push(draft);
        }
        let mut draft = Draft::new(own(memory::copy_to_shared)).with([to.source, source]);
        draft.number = size | u32::from(to.is_short) << 8;
        draft.offset = from.offset;
        draft.words = vec![to_offset as u16, (to_offset >> 16) as u16];
        draft.list = vec![limit, ignored];
        self.push(draft);
        Ok(())
    }

    pub(super) fn load_matrix(&mut self, form: &Form, operands: &[Operand<'a>]) -> Lowered<()> {
        let [results, address] = operands else { return self.invalid("expected results and an address") };
        let count = match form.get::<CountSuffix>() {
            Some(CountSuffix::X4) => 4,
            Some(CountSuffix::X2) => 2,
            _ => 1,
        };
        let results = Self::values(results);
        if results.len() != count {
            return self.invalid(format!("{} results: expected {count}", results.len()));
        }
        let (space, at) = self.access(form, address)?;
        if !matches!(space, Space::Shared | Space::Generic) {
            return self.invalid("matrices are loaded from shared memory");
        }
        let mut list = Vec::new();
        for result in &results {
            list.push(self.plain_result(result, 32)?);
        }
        let mut draft = Draft::control(own(load_matrix)).with([at.source]);
        draft.number = count as u32
            | u32::from(form.has(Class::Transposed)) << 4
            | u32::from(at.is_short) << 5
            | u32::from(space == Space::Generic) << 6;
        (draft.offset, draft.local) = (at.offset, at.local);
        draft.list_results = list.len();
        draft.list = list;
        self.push(draft);
        Ok(())
    }

    pub(super) fn matrix(&mut self, form: &Form, operands: &[Operand<'a>]) -> Lowered<()> {
        let [results, a, b, sums] = operands else { return self.invalid("expected results, two matrices and sums") };
        let element = |ty: Option<Type>| ty.and_then(Element::of);
        let columns = match form.get::<ShapeSuffix>() {
            Some(ShapeSuffix::M16n8k4) => 4,
            Some(ShapeSuffix::M16n8k8) => 8,
            Some(ShapeSuffix::M16n8k16) => 16,
            Some(ShapeSuffix::M16n8k32) => 32,
            _ => return self.unsupported("matrices of these sizes"),
        };
        let (a_element, b_element) = (element(form.type_of(Class::Type)), element(form.type_of(Class::From)));
        let (Some(a_element), Some(b_element)) = (a_element, b_element) else {
            return self.unsupported("elements of this type");
        };
        let product = Product {
            columns,
            a: a_element,
            b: b_element,
            short_sums: form.type_of(Class::Accumulator) == Some(Type::F16),
            short_results: form.type_of(Class::To) == Some(Type::F16),
            saturates: form.has(Class::Sat),
        };
        let Some(counts) = product.registers() else { return self.unsupported("matrices of these sizes") };
        let mut list = Vec::new();
        for (index, (operand, count)) in [results, a, b, sums].into_iter().zip(counts).enumerate() {
            let values = Self::values(operand);
            if values.len() != count {
                return self.invalid(format!("{} registers of a matrix: expected {count}", values.len()));
            }
            for value in &values {
                list.push(match index {
                    0 => self.plain_result(value, 32)?,
                    _ => self.source(value, Type::B32, false)?,
                });
            }
        }
        let mut draft = Draft::control(by_hand().matrix);
        draft.number = product.number();
        draft.list_results = counts[0];
        draft.list = list;
        self.push(draft);
        Ok(())
    }
}

/// The handler of a load of this kind: one of its own if lanes load whole words or one small value.
fn load_handler(shape: Shape) -> Handler {
    let handlers = by_hand();
    match (shape.bytes, shape.bytes * shape.count) {
        _ if shape.rows != 1 => own(memory::load),
        (1, 1) => handlers.load_byte,
        (2, 2) => handlers.load_half,
        (4 | 8, 4) => handlers.load_word,
        (4 | 8, 8) => handlers.load_pair,
        (4 | 8, 16) => handlers.load_quad,
        _ => own(memory::load),
    }
}
