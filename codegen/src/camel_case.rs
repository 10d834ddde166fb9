//! The name of a Rust type or variant for a name in the specs. Models, semantics and emitters all need it, so this
//! module uses none of them.

/// `cmp.eq.i32` and `ext_f32` as the name of a Rust variant: `CmpEqI32`, `ExtF32`.
pub fn camel_case(mnemonic: &str) -> String {
    let mut name = String::new();
    for part in mnemonic.split(['.', '_']) {
        let mut chars = part.chars();
        name.extend(chars.next().map(|first| first.to_ascii_uppercase()));
        name.push_str(chars.as_str());
    }
    name
}
