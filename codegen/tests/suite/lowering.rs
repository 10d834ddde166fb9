//! The traits of machine code: a primitive that is left out of one does not compile.

use std::collections::BTreeSet;
use std::process::{Command, Output};
use std::sync::LazyLock;

use quote::{format_ident, quote};
use syn::{Item, ItemTrait, TraitItem, TraitItemFn};
use vireo_codegen::emit::primitive;
use vireo_codegen::model::vm::Isa;
use vireo_codegen::sem::{Lanes, Lowering, Primitive};

use crate::real::SPEC;
use crate::skip::{Need, skipped};

/// The items of the runtime that the generated file uses, as far as declarations need them.
const RUNTIME: &str = "
    #![allow(dead_code, unused_variables)]
    mod dynasmrt {
        pub struct DynamicLabel;
    }
    pub enum Effect { Pure, Call, Trap, Load, Store }
    pub enum Linear { Sum, Difference, Product, ProductAndSum }
    pub enum Lanes { Instructions, Call, SameBits }
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Scalar { I32, I64, F32, F64 }
    impl Scalar {
        pub fn is_wide(self) -> bool { matches!(self, Scalar::I64 | Scalar::F64) }
        pub fn integer(self) -> Scalar { if self.is_wide() { Scalar::I64 } else { Scalar::I32 } }
    }
    #[derive(Clone, Copy, Debug)]
    pub enum Src { Reg(u8), Imm(i32) }
    pub enum Flags {}
    pub enum Ty { Scalar(Scalar), Truth, Nothing }
    mod math {
        pub mod vector {
            pub enum Function { FUNCTIONS }
        }
    }
";

/// The imports of the runtime for it.
const IMPORTS: &str = "
    use crate::dynasmrt;
    use crate::math::vector::Function;
    use crate::{Effect, Flags, Lanes, Linear, Scalar, Src, Ty};
";

static VM: LazyLock<&Isa> = LazyLock::new(|| SPEC.vm("vm").expect("the VM"));

fn generated() -> String {
    primitive::emit(&VM).remove(0).text
}

fn method_of(item: &TraitItem) -> &TraitItemFn {
    let TraitItem::Fn(method) = item else { panic!("the traits have methods only") };
    method
}

fn trait_named(text: &str, name: &str) -> ItemTrait {
    let file = syn::parse_file(text).expect("the text is Rust");
    let found = file.items.into_iter().find_map(|item| match item {
        Item::Trait(item) if item.ident == name => Some(item),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("no trait {name}"))
}

fn methods(of: &ItemTrait) -> BTreeSet<String> {
    of.items.iter().map(|item| method_of(item).sig.ident.to_string()).collect()
}

/// An implementation of all methods but one.
fn implementation(of: &ItemTrait, for_type: &str, without: Option<&str>) -> String {
    let wanted = of.items.iter().map(method_of).filter(|method| Some(&*method.sig.ident.to_string()) != without);
    let bodies = wanted.map(|method| {
        let signature = &method.sig;
        quote!(#signature { todo!() })
    });
    let (name, for_type) = (&of.ident, format_ident!("{for_type}"));
    quote!(struct #for_type; impl #name for #for_type { #(#bodies)* }).to_string()
}

fn compile(text: &str, name: &str) -> Option<Output> {
    let called = VM.primitives.iter().filter(|primitive| primitive.lanes() == Some(Lanes::Call));
    let functions = called.map(|primitive| primitive.variant().to_string()).collect::<Vec<_>>().join(", ");
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = folder.join(format!("{name}.rs"));
    std::fs::write(
        &path,
        format!("{}\nmod generated {{\n{IMPORTS}\n{text}\n}}", RUNTIME.replace("FUNCTIONS", &functions)),
    )
    .expect("a file");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(rustc);
    command.args(["--edition=2024", "--crate-type=lib", "--emit=metadata", "--error-format=short", "--color=never"]);
    let output = command.arg("--out-dir").arg(folder).arg(&path).output();
    output.map_err(|error| skipped(Need::Tool("rustc"), format_args!("there is no compiler to ask: {error}"))).ok()
}

#[test]
fn every_primitive_with_instructions_has_a_method() {
    let text = generated();
    let names = |is_wanted: &dyn Fn(&Primitive) -> bool| -> BTreeSet<String> {
        VM.primitives.iter().filter(|one| is_wanted(one)).map(|one| one.name().to_string()).collect()
    };
    let lowered = names(&|primitive| primitive.lowering() == Lowering::Instructions);
    assert_eq!(methods(&trait_named(&text, "Lower")), lowered);
    let lanes = names(&|primitive| primitive.lanes() == Some(Lanes::Instructions));
    assert_eq!(methods(&trait_named(&text, "LowerLanes")), lanes);
    let wide = names(&|primitive| primitive.wide_lanes() == Some(Lanes::Instructions));
    assert_eq!(methods(&trait_named(&text, "LowerWideLanes")), wide);
    let bytes = names(&|primitive| primitive.byte_lanes() == Some(Lanes::Instructions));
    assert_eq!(methods(&trait_named(&text, "LowerByteLanes")), bytes);
    assert!(lowered.len() > 80 && lanes.len() > 50, "{} and {}", lowered.len(), lanes.len());
}

#[test]
fn machine_code_that_is_left_out_does_not_compile() {
    let text = generated();
    let traits = ["Lower", "LowerLanes", "LowerWideLanes", "LowerByteLanes"].map(|name| trait_named(&text, name));
    let whole: String = traits.iter().map(|of| implementation(of, &format!("Whole{}", of.ident), None)).collect();
    let Some(output) = compile(&format!("{text}\n{whole}"), "whole_lowering") else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    // A type for each method, which has all but that one.
    let mut lacking = text.clone();
    for of in &traits {
        for method in methods(of) {
            lacking += &implementation(of, &format!("{}Without_{method}", of.ident), Some(&method));
        }
    }
    let Some(output) = compile(&lacking, "lacking_lowering") else { return };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "left out, and compiled");
    let said = |method: &str| {
        let missing = format!("error[E0046]: not all trait items implemented, missing: `{method}`");
        errors.lines().filter(|line| line.contains(&missing)).count()
    };
    for method in methods(&traits[0]) {
        let times = traits.iter().filter(|of| methods(of).contains(&method)).count();
        assert_eq!(said(&method), times, "{method} of\n{errors}");
    }
}
