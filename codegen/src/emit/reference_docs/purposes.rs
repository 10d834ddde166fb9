//! The index of ops by what they do. Purposes are inferred from operands, semantics and names, and each row is a
//! sentence of the specs with the ops that it describes, so a new op has its place without a change here.

use super::html::inline;
use super::links;
use super::page::Page;
use super::text::first_sentence;
use crate::model::vm::{Body, FieldKind, Isa, Op, Type};
use crate::sem::{ExprKind, Ty};

/// The name of the page.
pub(super) const PATH: &str = "vm-purposes.html";

macro_rules! purposes {
    ($($variant:ident $title:literal,)*) => {
        /// The purpose of an op, in the order of the index.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(super) enum Purpose { $($variant,)* }

        impl Purpose {
            pub const ALL: &[Purpose] = &[$(Purpose::$variant),*];

            /// The heading of its ops.
            pub fn title(self) -> &'static str {
                match self { $(Purpose::$variant => $title,)* }
            }
        }
    };
}

purposes! {
    Constants "Make a constant",
    Integers "Calculate with integers",
    Floats "Calculate with floats",
    Comparisons "Compare",
    Conversions "Convert",
    Choices "Choose a value",
    BufferReads "Read buffers",
    BufferWrites "Make and write buffers",
    GlobalReads "Read globals",
    GlobalWrites "Write globals",
    ListReads "Read lists",
    ListWrites "Make and write lists",
    References "Handle references",
    Control "Branch, call and return",
    Marks "Mark blocks and opcode sets",
}

impl Purpose {
    /// The purpose of `op`: first of what it accesses, then of what it computes.
    fn of(op: &Op) -> Purpose {
        let expr = match &op.body {
            Body::Control(_) => return Purpose::Control,
            Body::Structure(_) => return Purpose::Marks,
            Body::Semantics(expr) => Some(expr),
            Body::Helper(_) => None,
        };
        let has_input =
            |ty: Type| op.fields.iter().any(|field| field.kind != FieldKind::Result && field.ty == Some(ty));
        let first = op.mnemonic.split('.').next().unwrap_or_default();
        let accesses = |ty: Type| has_input(ty) || Type::named(first) == Some(ty);
        let result = op.result().and_then(|result| result.ty);
        let gives_value = result.is_some_and(|ty| !ty.is_ref());
        if accesses(Type::List) {
            // An op that gives an element or the size takes a list, and one that makes a list takes none.
            return if result.is_some() && has_input(Type::List) { Purpose::ListReads } else { Purpose::ListWrites };
        } else if first == FieldKind::Global.name() {
            return if result.is_some() { Purpose::GlobalReads } else { Purpose::GlobalWrites };
        } else if accesses(Type::Buffer) {
            return if gives_value { Purpose::BufferReads } else { Purpose::BufferWrites };
        } else if !gives_value && (result.is_some() || has_input(Type::Ref)) {
            return Purpose::References;
        }
        let Some(expr) = expr else { return Purpose::References };
        let mut chooses = op.fields.iter().any(|field| field.kind == FieldKind::Regs);
        expr.for_each_primitive(&mut |primitive| {
            chooses |= primitive.params().first().is_some_and(|first| first.to_string() == Ty::Bool.to_string());
        });
        let types = op.mnemonic.split('.').skip(1).filter(|part| is_type(part)).count();
        match result {
            _ if !op.fields.iter().any(|field| matches!(field.kind, FieldKind::Reg | FieldKind::Regs)) => {
                Purpose::Constants
            }
            _ if matches!(expr.kind, ExprKind::BoolToI32(_)) => Purpose::Comparisons,
            _ if chooses => Purpose::Choices,
            _ if types > 1 => Purpose::Conversions,
            Some(Type::F32 | Type::F64) => Purpose::Floats,
            _ => Purpose::Integers,
        }
    }
}

/// Whether a part of a mnemonic names a type: `i8`, `si32`, `ref`.
fn is_type(part: &str) -> bool {
    let bits = part.trim_start_matches(|letter: char| letter.is_ascii_lowercase());
    let is_number = bits.len() < part.len() && !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
    is_number || Type::named(part).is_some()
}

/// The ops of each purpose that has some, in their order in the specs.
pub(super) fn by_purpose(isa: &Isa) -> Vec<(Purpose, Vec<&Op>)> {
    let of = |purpose: Purpose| isa.ops.iter().filter(|op| Purpose::of(op) == purpose).collect::<Vec<_>>();
    Purpose::ALL.iter().map(|purpose| (*purpose, of(*purpose))).filter(|(_, ops)| !ops.is_empty()).collect()
}

/// `cmp.lt` and `i32.s` for `cmp.lt.i32.s`: what is done, and with which types.
pub(super) fn split(mnemonic: &str) -> (&str, &str) {
    let mut at = 0;
    for part in mnemonic.split('.') {
        if at > 0 && is_type(part) {
            return (&mnemonic[..at - 1], &mnemonic[at..]);
        }
        at += part.len() + 1;
    }
    (mnemonic, "")
}

/// The page.
pub(super) fn page(isa: &Isa) -> Page {
    let mut page = Page::new(PATH, "Ops by what they do", "vm.html");
    page.text("Each row has the ops that one sentence describes.");
    for (purpose, ops) in by_purpose(isa) {
        page.part(&format!("purpose-{purpose:?}").to_lowercase(), purpose.title());
        let mut rows: Vec<(&str, Vec<&Op>)> = Vec::new();
        for op in ops {
            let sentence = first_sentence(&op.doc);
            match rows.iter_mut().find(|(known, _)| *known == sentence) {
                Some((_, ops)) => ops.push(op),
                None => rows.push((sentence, vec![op])),
            }
        }
        let cells = rows.into_iter().map(|(sentence, ops)| {
            let ops: Vec<String> = ops.into_iter().map(links::op).collect();
            vec![inline(sentence), format!("<span class=\"chips\">{}</span>", ops.join(" "))]
        });
        page.table(&["What it does", "Ops"], &cells.collect::<Vec<_>>());
    }
    page
}
