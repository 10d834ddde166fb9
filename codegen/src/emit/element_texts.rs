//! Emits the texts of element types for a crate below the HAL, which finds their numbers in the code of modules.

use quote::quote;

use crate::emit::constants::literal;
use crate::emit::file::{GeneratedFile, source};
use crate::load::Spec;

/// The entry of `spec/hal` with the numbers.
const CODE: &str = "element_type";

/// `hal/element_texts.rs`: a function from numbers to texts.
pub fn emit(spec: &Spec) -> Vec<GeneratedFile> {
    let Some(numbers) = spec.hal.files.iter().flat_map(|file| &file.numbers).find(|numbers| numbers.name == CODE)
    else {
        return Vec::new();
    };
    let values = numbers.values.iter().map(|value| literal(value.value));
    let texts = numbers.values.iter().map(|value| value.text.as_ref().unwrap_or(&value.name));
    let items = quote! {
        /// The text of an element type, such as `f32`, if its number has one.
        pub fn element_text(number: u32) -> Option<&'static str> {
            Some(match number {
                #(#values => #texts,)*
                _ => return None,
            })
        }
    };
    vec![source("hal/element_texts.rs", "spec/hal/types.yaml", items)]
}
