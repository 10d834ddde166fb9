//! Emits `vm/primitive.rs`: the primitives that compiled code executes, and traits with one method for the machine code
//! of each. So a primitive without machine code does not compile, and all passes share one list of primitives.

use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};

use crate::emit::file::{GeneratedFile, comment, source};
use crate::emit::operand::ident;
use crate::model::vm::Isa;
use crate::sem::{Effect, Lanes, Lowering, Primitive, Scalar, Sig, Ty};

/// The files of this artifact.
pub fn emit(isa: &Isa) -> Vec<GeneratedFile> {
    let used: Vec<&Primitive> = isa.primitives.iter().filter(|primitive| is_named(primitive)).collect();
    vec![source("vm/primitive.rs", "spec/primitives/*.yaml", file(&used))]
}

/// Whether compiled code has a name for a primitive.
pub(super) fn is_named(primitive: &Primitive) -> bool {
    matches!(primitive.lowering(), Lowering::Instructions | Lowering::Call)
}

/// How a primitive is asked for its machine code.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// It writes a value.
    Value,
    /// It sets the flags.
    Test,
    /// It chooses by the flags.
    Choice,
    /// It writes a value, or jumps.
    Trap,
    /// It reads an element.
    Load,
    /// It writes an element.
    Store,
}

fn form(primitive: &Primitive) -> Form {
    match primitive.effect() {
        Effect::Trap => Form::Trap,
        Effect::Load => Form::Load,
        Effect::Store => Form::Store,
        _ if primitive.result() == Sig::Is(Ty::Bool) => Form::Test,
        _ if primitive.params().contains(&Sig::Is(Ty::Bool)) => Form::Choice,
        _ => Form::Value,
    }
}

/// Whether a primitive is a test of floats that instructions make.
fn is_float_test(primitive: &Primitive) -> bool {
    form(primitive) == Form::Test && primitive.params().iter().all(|sig| *sig == Sig::F)
}

fn variant(primitive: &Primitive) -> Ident {
    ident(primitive.variant())
}

fn doc(primitive: &Primitive) -> String {
    format!(" {}", primitive.doc().trim())
}

/// An operand of machine code: its name and type. Floats are in registers.
struct Operand {
    name: Ident,
    is_register: bool,
}

impl Operand {
    fn new(name: &str, sig: Sig) -> Operand {
        let is_register = matches!(sig, Sig::F | Sig::T | Sig::Is(Ty::F32 | Ty::F64));
        Operand { name: ident(name), is_register }
    }

    fn parameter(&self) -> TokenStream {
        let (name, ty) = (&self.name, if self.is_register { quote!(u8) } else { quote!(Src) });
        quote!(#name: #ty)
    }

    fn pattern(&self) -> TokenStream {
        let name = &self.name;
        if self.is_register { quote!(Src::Reg(#name)) } else { quote!(#name) }
    }
}

/// The operands of a primitive that computes.
fn operands(primitive: &Primitive) -> Vec<Operand> {
    primitive.params().iter().zip(["a", "b", "c"]).map(|(sig, name)| Operand::new(name, *sig)).collect()
}

/// The operand that a primitive stores.
fn stored(primitive: &Primitive) -> Operand {
    Operand::new("value", primitive.params()[2])
}

/// The method of a primitive, and the arm of the dispatch that calls it.
struct Method {
    declaration: TokenStream,
    arm: TokenStream,
}

fn method(primitive: &Primitive) -> Method {
    let (name, variant, doc) = (ident(primitive.name()), variant(primitive), doc(primitive));
    let operands = operands(primitive);
    let parameters: Vec<_> = operands.iter().map(Operand::parameter).collect();
    let patterns: Vec<_> = operands.iter().map(Operand::pattern).collect();
    let names: Vec<_> = operands.iter().map(|operand| &operand.name).collect();
    let (of, of_type) = if primitive.is_open() { (quote!(of,), quote!(of: Scalar,)) } else { (quote!(), quote!()) };
    let (declaration, arm) = match form(primitive) {
        Form::Value => (
            quote!(fn #name(&mut self, #of_type dst: u8, #(#parameters),*);),
            quote!((Primitive::#variant, &[#(#patterns),*]) => code.#name(#of dst, #(#names),*),),
        ),
        Form::Test => (
            quote!(fn #name(&mut self, #of_type #(#parameters),*) -> Flags;),
            quote!((Primitive::#variant, &[#(#patterns),*]) => code.#name(#of #(#names),*),),
        ),
        // The caller has computed the flags already.
        Form::Choice => (quote!(fn #name(&mut self, #of_type flags: Flags, dst: u8, a: u8, b: u8);), quote!()),
        Form::Trap => (
            quote!(fn #name(&mut self, #of_type dst: u8, #(#parameters,)* trap: DynamicLabel);),
            quote!((Primitive::#variant, [#(#patterns),*]) => code.#name(#of dst, #(#names,)* trap),),
        ),
        Form::Load => (
            quote!(fn #name(&mut self, dst: u8, base: u8, index: Src);),
            quote!(Primitive::#variant => code.#name(dst, base, index),),
        ),
        Form::Store => {
            let (stored, pattern) = (stored(primitive).parameter(), stored(primitive).pattern());
            (
                quote!(fn #name(&mut self, base: u8, index: Src, #stored);),
                quote!((Primitive::#variant, #pattern) => code.#name(base, index, value),),
            )
        }
    };
    let origin = comment(&primitive.origin().to_string());
    Method { declaration: quote!(#origin #[doc = #doc] #declaration), arm }
}

/// The method for all lanes: operands and results are vectors, and a truth is all ones or zeros.
fn lanes_method(primitive: &Primitive) -> Method {
    let (name, variant, doc) = (ident(primitive.name()), variant(primitive), doc(primitive));
    let (declaration, arm) = match form(primitive) {
        Form::Load => (
            quote!(fn #name(&mut self, dst: u8, base: u8, index: Src, number: u8);),
            quote!(Primitive::#variant => code.#name(dst, base, index, number),),
        ),
        Form::Store => (
            quote!(fn #name(&mut self, base: u8, index: Src, src: u8, number: u8);),
            quote!(Primitive::#variant => code.#name(base, index, src, number),),
        ),
        Form::Value | Form::Test | Form::Choice | Form::Trap => {
            let operands = operands(primitive);
            let names: Vec<_> = operands.iter().map(|operand| &operand.name).collect();
            (
                quote!(fn #name(&mut self, dst: u8, #(#names: u8),*);),
                quote!((Primitive::#variant, &[#(#names),*]) => code.#name(dst, #(#names),*),),
            )
        }
    };
    Method { declaration: quote!(#[doc = #doc] #declaration), arm }
}

/// The methods of a generated trait, one for each primitive, with the match arms that call them, by the form of the
/// primitive.
struct Methods(Vec<(Form, Method)>);

impl Methods {
    fn new<'a>(primitives: impl Iterator<Item = &'a Primitive>, method: impl Fn(&Primitive) -> Method) -> Methods {
        Methods(primitives.map(|primitive| (form(primitive), method(primitive))).collect())
    }

    fn declarations(&self) -> TokenStream {
        self.0.iter().map(|(_, method)| method.declaration.clone()).collect()
    }

    fn arms(&self, is_wanted: impl Fn(Form) -> bool) -> TokenStream {
        self.0.iter().filter(|(form, _)| is_wanted(*form)).map(|(_, method)| method.arm.clone()).collect()
    }
}

/// The trait of the methods for vectors with lanes of one size, and the functions that choose among them.
struct LanesOf {
    /// The trait.
    name: &'static str,
    docs: &'static [&'static str],
    /// The functions that compute, load and store.
    functions: [&'static str; 3],
    /// Their actions for messages, in the same order.
    whats: [&'static str; 3],
    /// How a primitive is computed in such lanes.
    lanes: fn(&Primitive) -> Option<Lanes>,
}

const LANES: [LanesOf; 3] = [
    LanesOf {
        name: "LowerLanes",
        docs: &[
            " The same for several values of 32 bits in each register, of those that [`Primitive::lanes`] says have instructions. Truths are",
            " lanes of ones or zeros. Elements follow each other: those of vector number `number` come after the one at `index`.",
        ],
        functions: ["lanes", "load_lanes", "store_lanes"],
        whats: ["lanes", "a load of lanes", "a store of lanes"],
        lanes: Primitive::lanes,
    },
    LanesOf {
        name: "LowerWideLanes",
        docs: &[
            " The same where operands or results, or elements, have 64 bits. Those that have 32 bits are in the lower half of a register, and a",
            " truth has as many bits as the operands that were compared; one that chooses has as many as what it chooses from.",
        ],
        functions: ["wide_lanes", "load_wide_lanes", "store_wide_lanes"],
        whats: ["wide lanes", "a load of wide lanes", "a store of wide lanes"],
        lanes: Primitive::wide_lanes,
    },
    LanesOf {
        name: "LowerByteLanes",
        docs: &[
            " The same for the lowest bytes of values of 32 bits, of those that [`Primitive::byte_lanes`] says have instructions. Operands that are",
            " compared are extended in one way: numbers with signs from signed bytes, and those without from others.",
        ],
        functions: ["byte_lanes", "load_byte_lanes", "store_byte_lanes"],
        whats: ["byte lanes", "a load of byte lanes", "a store of byte lanes"],
        lanes: Primitive::byte_lanes,
    },
];

impl LanesOf {
    fn lowered<'a>(&self, instructions: impl Iterator<Item = &'a Primitive>) -> TokenStream {
        let own = instructions.filter(|primitive| (self.lanes)(primitive) == Some(Lanes::Instructions));
        let methods = Methods::new(own, lanes_method);
        let (name, docs, declarations) = (ident(self.name), self.docs, methods.declarations());
        let [values, loads, stores] = [
            methods.arms(|form| !matches!(form, Form::Load | Form::Store)),
            methods.arms(|form| form == Form::Load),
            methods.arms(|form| form == Form::Store),
        ];
        let [compute, load, store] = self.functions.map(ident);
        let [no_value, no_load, no_store] = self.whats;
        quote! {
            #(#[doc = #docs])*
            pub(crate) trait #name { #declarations }

            #[doc = " Computes a primitive in all lanes. `dst` may be the register of any operand."]
            pub(crate) fn #compute<L: #name>(code: &mut L, primitive: Primitive, dst: u8, src: &[u8]) {
                match (primitive, src) {
                    #values
                    _ => misused(#no_value, primitive, src),
                }
            }

            #[doc = " Loads lanes."]
            pub(crate) fn #load<L: #name>(
                code: &mut L, primitive: Primitive, dst: u8, base: u8, index: Src, number: u8,
            ) {
                match primitive {
                    #loads
                    _ => misused(#no_load, primitive, &[index]),
                }
            }

            #[doc = " Stores lanes."]
            pub(crate) fn #store<L: #name>(
                code: &mut L, primitive: Primitive, base: u8, index: Src, src: u8, number: u8,
            ) {
                match primitive {
                    #stores
                    _ => misused(#no_store, primitive, &[index]),
                }
            }
        }
    }
}

fn lowered(used: &[&Primitive]) -> TokenStream {
    let instructions = || used.iter().copied().filter(|primitive| primitive.lowering() == Lowering::Instructions);
    let all = Methods::new(instructions(), method);
    let methods = all.declarations();
    let [values, tests, traps, loads, stores] =
        [Form::Value, Form::Test, Form::Trap, Form::Load, Form::Store].map(|wanted| all.arms(|form| form == wanted));
    let lanes = LANES.map(|lanes| lanes.lowered(instructions()));
    quote! {
        #[doc = " The machine code of primitives: for each one that has instructions, those that compute on the processor what the interpreter's"]
        #[doc = " function of its name does. `of` is the type that a use works on; operands and results are in registers, and an operand that is an"]
        #[doc = " integer may be a constant."]
        #[expect(clippy::wrong_self_convention, reason = "methods are named as primitives are")]
        pub(crate) trait Lower { #methods }

        #[doc = " Computes the value of a primitive. `dst` may be the register of any operand."]
        pub(crate) fn value<L: Lower>(code: &mut L, primitive: Primitive, of: Scalar, dst: u8, src: &[Src]) {
            match (primitive, src) {
                #values
                _ => misused("a value", primitive, src),
            }
        }

        #[doc = " Sets the flags to the outcome of a primitive whose value is a truth, and says how to read them."]
        pub(crate) fn test<L: Lower>(code: &mut L, primitive: Primitive, of: Scalar, src: &[Src]) -> Flags {
            match (primitive, src) {
                #tests
                _ => misused("a test", primitive, src),
            }
        }

        #[doc = " Computes a primitive that may trap. If it does, it jumps to `trap` before it changes any register that values live in."]
        pub(crate) fn attempt<L: Lower>(
            code: &mut L, primitive: Primitive, of: Scalar, dst: u8, src: [Src; 2], trap: DynamicLabel,
        ) {
            match (primitive, src) {
                #traps
                _ => misused("an attempt", primitive, &src),
            }
        }

        #[doc = " Loads the element at `base + index * size`."]
        pub(crate) fn load<L: Lower>(code: &mut L, primitive: Primitive, dst: u8, base: u8, index: Src) {
            match primitive {
                #loads
                _ => misused("a load", primitive, &[index]),
            }
        }

        #[doc = " Stores the low bits of a value to the element at `base + index * size`."]
        pub(crate) fn store<L: Lower>(code: &mut L, primitive: Primitive, base: u8, index: Src, value: Src) {
            match (primitive, value) {
                #stores
                _ => misused("a store", primitive, &[index, value]),
            }
        }

        #(#lanes)*

        #[doc = " Panics: the builder of a node gave it operands that its primitive does not take."]
        #[cold]
        fn misused(what: &str, primitive: Primitive, operands: &[impl std::fmt::Debug]) -> ! {
            panic!("{primitive:?} of {operands:?} is not {what}")
        }
    }
}

fn result(primitive: &Primitive) -> TokenStream {
    match primitive.result() {
        Sig::Is(Ty::Bool) => quote!(Ty::Truth),
        Sig::Is(Ty::Unit) => quote!(Ty::Nothing),
        Sig::Is(Ty::I64) => quote!(Ty::Scalar(Scalar::I64)),
        Sig::Is(Ty::F32) => quote!(Ty::Scalar(Scalar::F32)),
        Sig::Is(Ty::F64) => quote!(Ty::Scalar(Scalar::F64)),
        Sig::Is(_) => quote!(Ty::Scalar(Scalar::I32)),
        Sig::BitsOfF => quote!(Ty::Scalar(of.integer())),
        Sig::N | Sig::L | Sig::F | Sig::T | Sig::RegsT => quote!(Ty::Scalar(of)),
    }
}

/// The types of its operands, as nodes of the JIT's graph have them: a buffer is the address of its first byte.
fn operand_types(primitive: &Primitive) -> TokenStream {
    let ty = |sig: &Sig| match sig {
        Sig::Is(Ty::Bool) => quote!(Some(Ty::Truth)),
        Sig::Is(Ty::I64 | Ty::Buffer) => quote!(Some(Ty::Scalar(Scalar::I64))),
        Sig::Is(Ty::F32) => quote!(Some(Ty::Scalar(Scalar::F32))),
        Sig::Is(Ty::F64) => quote!(Some(Ty::Scalar(Scalar::F64))),
        Sig::Is(_) => quote!(Some(Ty::Scalar(Scalar::I32))),
        Sig::BitsOfF => quote!(Some(Ty::Scalar(of.integer()))),
        Sig::N | Sig::L | Sig::F | Sig::T | Sig::RegsT => quote!(Some(Ty::Scalar(of))),
    };
    let types = primitive.params().iter().map(ty);
    let none = (primitive.params().len()..MOST_OPERANDS).map(|_| quote!(None));
    quote!([#(#types,)* #(#none),*])
}

/// No primitive has more.
const MOST_OPERANDS: usize = 3;

/// Whether a use has operands, a result or elements of 64 bits.
fn is_wide(primitive: &Primitive) -> TokenStream {
    let result = primitive.result();
    let mut all = primitive.params().iter().chain([&result]);
    match primitive.bytes() {
        Some(bytes) => {
            let is_wide = bytes == 8;
            quote!(#is_wide)
        }
        None if all.clone().any(|sig| matches!(sig, Sig::Is(Ty::I64 | Ty::F64))) => quote!(true),
        None if all.any(|sig| sig.is_open()) => quote!(of.is_wide()),
        None => quote!(false),
    }
}

fn effect(primitive: &Primitive) -> TokenStream {
    match primitive.effect() {
        Effect::Trap => quote!(Effect::Trap),
        Effect::Load => quote!(Effect::Load),
        Effect::Store => quote!(Effect::Store),
        Effect::Pure if primitive.lowering() == Lowering::Call => quote!(Effect::Call),
        Effect::Pure => quote!(Effect::Pure),
        // They have no instructions, so compiled code has no name for them.
        Effect::Refs | Effect::GlobalLoad | Effect::GlobalStore | Effect::IndirectLoad | Effect::IndirectStore => {
            unreachable!("the vocabulary refuses instructions of `{}`", primitive.name())
        }
    }
}

/// The load that reads what a store has written as a whole, and its type.
fn whole_load<'a>(store: &Primitive, used: &[&'a Primitive]) -> Option<(&'a Primitive, Scalar)> {
    let Some(Sig::Is(ty)) = store.params().get(2).filter(|_| store.effect() == Effect::Store) else { return None };
    let of = ty.scalar().filter(|of| store.bytes().map(u32::from) == Some(of.size()))?;
    let is_load = |load: &&&Primitive| {
        (load.effect(), load.result(), load.bytes()) == (Effect::Load, Sig::Is(*ty), store.bytes())
    };
    Some((used.iter().find(is_load)?, of))
}

fn file(used: &[&Primitive]) -> TokenStream {
    let names = used.iter().map(|primitive| {
        let (name, doc) = (variant(primitive), doc(primitive));
        quote!(#[doc = #doc] #name,)
    });
    let all = used.iter().map(|primitive| variant(primitive));
    let arms = |of: &dyn Fn(&Primitive) -> TokenStream| -> TokenStream {
        let arm = |primitive: &&Primitive| {
            let (name, value) = (variant(primitive), of(primitive));
            quote!(Primitive::#name => #value,)
        };
        used.iter().map(arm).collect()
    };
    let spec_names = arms(&|primitive| {
        let name = primitive.name();
        quote!(#name)
    });
    let (results, operands, effects) = (arms(&result), arms(&operand_types), arms(&effect));
    let shifts = used.iter().filter_map(|primitive| {
        let (name, shift) = (variant(primitive), Literal::u32_unsuffixed(primitive.bytes()?.ilog2()));
        Some(quote!(Primitive::#name => #shift,))
    });
    let whole = used.iter().filter_map(|store| {
        let (load, of) = whole_load(store, used)?;
        let (store, load, of) = (variant(store), variant(load), format_ident!("{of:?}"));
        Some(quote!(Primitive::#store => (Primitive::#load, Scalar::#of),))
    });
    let lanes_of = |lanes: &dyn Fn(&Primitive) -> Option<Lanes>| -> TokenStream {
        let arm = |primitive: &&Primitive| {
            let (name, lanes) = (variant(primitive), ident(&format!("{:?}", lanes(primitive)?)));
            Some(quote!(Primitive::#name => Lanes::#lanes,))
        };
        used.iter().filter_map(arm).collect()
    };
    let [lanes, wide_lanes, byte_lanes] =
        [Primitive::lanes, Primitive::wide_lanes, Primitive::byte_lanes].map(|of_size| lanes_of(&of_size));
    let wide = arms(&is_wide);
    let linear = used.iter().filter_map(|primitive| {
        let (name, linear) = (variant(primitive), ident(&format!("{:?}", primitive.linear()?)));
        Some(quote!(Primitive::#name => Linear::#linear,))
    });
    let tests: Vec<_> = used.iter().filter(|primitive| is_float_test(primitive)).map(|one| variant(one)).collect();
    let test_docs = used.iter().filter(|primitive| is_float_test(primitive)).map(|one| doc(one));
    let functions = used.iter().filter(|primitive| primitive.lanes() == Some(Lanes::Call)).map(|primitive| {
        let name = variant(primitive);
        quote!(Primitive::#name => Function::#name,)
    });
    let lowered = lowered(used);
    quote! {
        use dynasmrt::DynamicLabel;

        #[doc = " The primitives that compiled code executes. What each one computes is what the interpreter's function of its name does."]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) enum Primitive { #(#names)* }

        impl Primitive {
            #[doc = " Every one of them."]
            #[cfg(test)]
            pub const ALL: &[Primitive] = &[#(Primitive::#all),*];

            #[doc = " Its name in the spec."]
            pub fn name(self) -> &'static str {
                match self { #spec_names }
            }

            #[doc = " The type of its value; `of` is the type that this use works on."]
            pub fn result(self, of: Scalar) -> Ty {
                match self { #results }
            }

            #[doc = " The types of its operands; `of` is the type that this use works on."]
            pub fn operands(self, of: Scalar) -> impl Iterator<Item = Ty> {
                let all = match self { #operands };
                all.into_iter().flatten()
            }

            #[doc = " Its effect, besides computing its value."]
            pub fn effect(self) -> Effect {
                match self { #effects }
            }

            #[doc = " The logarithm of the bytes of each element that it accesses, as loads and stores do."]
            pub fn element_shift(self) -> u8 {
                match self {
                    #(#shifts)*
                    _ => misused("an access", self, &[""; 0]),
                }
            }

            #[doc = " The load of what it stores whole, and the type of that, if it is a store that does."]
            pub fn whole_load(self) -> Option<(Primitive, Scalar)> {
                Some(match self {
                    #(#whole)*
                    _ => return None,
                })
            }

            #[doc = " How it grows with its operands, if that can be said."]
            pub fn linear(self) -> Option<Linear> {
                Some(match self {
                    #(#linear)*
                    _ => return None,
                })
            }

            #[doc = " Itself, if it is a test of floats."]
            pub fn float_test(self) -> Option<FloatTest> {
                Some(match self {
                    #(Primitive::#tests => FloatTest::#tests,)*
                    _ => return None,
                })
            }

            #[doc = " Whether an operand or the result has 64 bits, or the elements that it accesses; `of` is the type that this use works on."]
            pub fn is_wide(self, of: Scalar) -> bool {
                match self { #wide }
            }

            #[doc = " How it is computed in lanes, if it can be; `of` is the type that each lane works on."]
            pub fn lanes(self, of: Scalar) -> Option<Lanes> {
                Some(if self.is_wide(of) {
                    match self {
                        #wide_lanes
                        _ => return None,
                    }
                } else {
                    match self {
                        #lanes
                        _ => return None,
                    }
                })
            }

            #[doc = " How it is computed in lanes that have the lowest bytes of values of 32 bits, if it can be."]
            pub fn byte_lanes(self) -> Option<Lanes> {
                Some(match self {
                    #byte_lanes
                    _ => return None,
                })
            }

            #[doc = " The function that computes it in all lanes, if instructions do not."]
            pub fn function_of_lanes(self) -> Option<Function> {
                Some(match self {
                    #(#functions)*
                    _ => return None,
                })
            }
        }

        #[doc = " The tests of floats."]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum FloatTest { #(#[doc = #test_docs] #tests,)* }

        #lowered
    }
}
