//! Comparisons of references: identity of the object they point to, null being equal to null only.

use crate::Ref;

/// Same object, or both null.
#[inline]
pub fn ref_eq(lhs: Option<&Ref>, rhs: Option<&Ref>) -> bool {
    match (lhs, rhs) {
        (Some(lhs), Some(rhs)) => is_same(lhs, rhs),
        (lhs, rhs) => lhs.is_none() && rhs.is_none(),
    }
}

/// Different objects, or only one of them null.
#[inline]
pub fn ref_ne(lhs: Option<&Ref>, rhs: Option<&Ref>) -> bool {
    !ref_eq(lhs, rhs)
}

/// Out of line, because it calls through the vtable of the object, and handlers make no indirect calls.
#[inline(never)]
fn is_same(lhs: &Ref, rhs: &Ref) -> bool {
    lhs == rhs
}

/// Not null.
#[inline]
pub fn ref_nonnull(reference: Option<&Ref>) -> bool {
    reference.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Buffer, Obj};

    #[test]
    fn identity_is_that_of_the_object() {
        let a = Obj::new(Buffer::allocate(4, 0).unwrap()).into_ref();
        let b = Obj::new(Buffer::allocate(4, 0).unwrap()).into_ref();
        let c = a.clone();
        assert!(ref_eq(Some(&a), Some(&c)) && !ref_ne(Some(&a), Some(&c)));
        assert!(ref_ne(Some(&a), Some(&b)) && ref_ne(Some(&a), None) && ref_eq(None, None));
        assert!(ref_nonnull(Some(&a)) && !ref_nonnull(None));
    }
}
