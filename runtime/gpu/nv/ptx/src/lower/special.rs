//! Handlers by hand in place of generated ones, where an instruction is a special case or vector instructions need
//! words of lanes in another form than expressions on one lane have.

use vireo_simt::permute::{NOTHING, Pattern};

use super::code::{Draft, Place, Role};
use super::instruction::Drafts;
use crate::generated::interp::{by_hand, number};
use crate::isa::Form;
use crate::machine::Constant;
use crate::syntax::Function;

/// Puts another handler in place of that of the form, if there is one that computes the same faster.
pub(super) fn specialize(form: &Form, draft: &mut Draft) {
    match form.handler() {
        Some(number::ADD_U64) => draft.handler = by_hand().add_pairs,
        Some(number::CVT_S8_S16) => draft.role = Role::Byte { shift: 24, is_signed: true },
        Some(number::CVT_U8_U16) => draft.role = Role::Byte { shift: 24, is_signed: false },
        Some(number::MAD_LO_U32) => draft.role = Role::MultiplyAdd,
        Some(number::PRMT_B32) => {
            if let Place::Constant(Constant::Word(selector), _) = draft.sources[2] {
                let pattern = Pattern::of(selector);
                draft.handler = by_hand().pick_bytes;
                draft.sources[2] = Place::None;
                draft.number = pattern.first;
                draft.offset = (u64::from(pattern.second) | u64::from(pattern.signs) << 32) as i64;
                draft.role = role(selector, draft.sources[1]);
            }
        }
        _ => {}
    }
}

/// Whether a selector picks one byte with its sign or zeros above it.
fn role(selector: u32, second: Place) -> Role {
    let (byte, rest) = (selector & 0xF, selector >> 4 & 0xFFF);
    if byte >= 4 {
        return Role::Other;
    }
    let is_zero = matches!(second, Place::Constant(Constant::Word(0), _));
    // The bytes above are all signs of this one, or bytes of the second value, which is zero.
    let is_signed = rest == (8 | byte) * 0x111;
    let is_unsigned = is_zero && Pattern::of(selector).first & 0xFFFF_FF00 == NOTHING & 0xFFFF_FF00;
    match is_signed || is_unsigned {
        true => Role::Byte { shift: 24 - 8 * byte, is_signed },
        false => Role::Other,
    }
}

/// Makes bytes that only one product needs a part of it: compilers write products of bytes as products of words, of
/// which each factor takes an instruction more.
pub(super) fn join_bytes(drafts: &mut Drafts, function: &Function<'_>) {
    let mut counts = vec![[0u32; 2]; drafts.registers.len()];
    for (draft, _) in &drafts.drafts {
        let (results, read) = draft.list.split_at(draft.list_results);
        let sets = results.iter().chain([&draft.result, &draft.result2]).map(|place| (place, 0));
        for (place, which) in sets.chain(read.iter().chain(&draft.sources).map(|place| (place, 1))) {
            if let Place::Register(register) = place
                && let Some(counts) = counts.get_mut(*register as usize)
            {
                counts[which] += 1;
            }
        }
    }
    // Other functions set and read these.
    for formal in function.parameters.iter().chain(&function.results) {
        if let Some(register) = formal.register {
            counts[register as usize] = [u32::MAX - drafts.drafts.len() as u32; 2];
        }
    }
    let is_label = labels(drafts);
    // The bytes since the last jump or label whose sources have not changed, by their registers.
    let mut bytes: Vec<(u32, usize)> = Vec::new();
    let mut is_gone = vec![false; drafts.drafts.len()];
    for at in 0..drafts.drafts.len() {
        let (draft, statement) = &drafts.drafts[at];
        if is_label.contains(statement) || draft.is_control {
            bytes.clear();
        }
        let find = |place: &Place| {
            let Place::Register(register) = place else { return None };
            bytes.iter().rev().find(|(of, _)| of == register).map(|(_, at)| *at)
        };
        if draft.role == Role::MultiplyAdd && !draft.is_guarded {
            let second = find(&draft.sources[1]);
            let found = second.or_else(|| find(&draft.sources[0]));
            // The square of a byte has it twice.
            if let Some(byte) = found {
                let (from, of) = (drafts.drafts[byte].0.sources[0], drafts.drafts[byte].0.role);
                let draft = &mut drafts.drafts[at].0;
                if second.is_none() {
                    draft.sources.swap(0, 1);
                }
                if let Role::Byte { shift, is_signed } = of {
                    draft.handler = by_hand().multiply_byte;
                    draft.sources[1] = from;
                    draft.number = shift | u32::from(is_signed) << 5;
                    draft.role = Role::Other;
                    is_gone[byte] = true;
                }
            }
        }
        let draft = &drafts.drafts[at].0;
        let results = draft.list[..draft.list_results].iter().chain([&draft.result, &draft.result2]);
        for result in results {
            bytes.retain(|(_, byte)| drafts.drafts[*byte].0.sources[0] != *result || *result == Place::None);
        }
        if let (Role::Byte { .. }, Place::Register(register), false) = (draft.role, draft.result, draft.is_guarded)
            && counts.get(register as usize) == Some(&[1, 1])
            && drafts.registers.get(register as usize) == Some(&32)
            && matches!(draft.sources[0], Place::Register(_))
            && draft.sources[0] != draft.result
        {
            bytes.push((register, at));
        }
    }
    let mut gone = is_gone.into_iter();
    drafts.drafts.retain(|_| !gone.next().unwrap_or(false));
}

/// The statements that instructions jump to.
fn labels(drafts: &Drafts) -> std::collections::HashSet<u32> {
    use super::code::Target;
    let mut labels: std::collections::HashSet<u32> = drafts.tables.iter().flatten().copied().collect();
    for (draft, statement) in &drafts.drafts {
        match draft.target {
            Some(Target::Statement(target)) => labels.insert(target),
            // Jumps that stay in an instruction end with the next one.
            Some(Target::After | Target::Skip(_)) => labels.insert(statement + 1),
            _ => false,
        };
    }
    labels
}
