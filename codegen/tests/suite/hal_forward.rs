//! The generated wrappers of HAL objects: the exact text for a mini-spec, and no method forgotten for the real one.

use std::collections::BTreeMap;

use syn::{FnArg, ImplItem, Item, ItemImpl, ItemTrait, Pat, Signature, TraitItem, TraitItemFn};

use crate::hal::{MINI, generated, refused};
use crate::real;

/// Extends the gate of the mini-spec.
const POST: &str = "\
- object: post
  id: 4
  extends: gate
  doc: A gate with a post.

- method: height
  doc: Its height.
  result: {kind: u32}
  infallible: true
";

/// Has no methods.
const STONE: &str = "- object: stone\n  id: 5\n  doc: A stone.\n";

fn mini() -> String {
    let files = [MINI, &[("spec/hal/post.yaml", POST), ("spec/hal/stone.yaml", STONE)]].concat();
    generated(&files, "hal/forward.rs")
}

#[test]
fn wrappers_forward_what_they_do_not_override() {
    let text = mini();
    let part = "\
// spec/hal/gate.yaml:1
/// Forwards to an inner [`Gate`] what a wrapper does not override; [`Forward`] makes the object.
pub trait ForwardGate: Any + Debug + Send + Sync {
    /// The object that methods are forwarded to, always the same.
    fn inner(&self) -> &Arc<dyn Gate>;
    /// The object that `gate` forwards to if it is a [`Forward`] of this type, else `gate` itself.
    fn inner_of(gate: &Arc<dyn Gate>) -> &Arc<dyn Gate>
    where
        Self: Sized,
    {
        let any: &dyn Any = &**gate;
        any.downcast_ref::<Forward<Self>>().map_or(gate, |forward| forward.0.inner())
    }
    /// Called at each call of a method of the object, whether overridden or not, before the method.
    fn before(&self, method: ForwardedMethod) {
        let _ = method;
    }
    /// Forwards [`Gate::state`].
    fn state(&self) -> bool {
        self.inner().state()
    }
    /// Forwards [`Gate::attach`].
    ///
    /// # Errors
    /// Those of [`Gate::attach`].
    fn attach(
        &self,
        other: Option<&Arc<dyn Gate>>,
        modes: &[GateMode],
        plan: &Plan,
    ) -> Result<Arc<dyn Gate>> {
        self.inner().attach(other, modes, plan)
    }
    /// Forwards [`Gate::adopt`].
    ///
    /// # Errors
    /// Those of [`Gate::adopt`].
    ///
    /// # Safety
    /// The guarantees that [`Gate::adopt`] asks for.
    unsafe fn adopt(&self, memory: std::ptr::NonNull<u8>) -> Result<()> {
        // SAFETY: the caller guarantees the same to this method.
        unsafe { self.inner().adopt(memory) }
    }
    /// Forwards [`Gate::close`].
    ///
    /// # Errors
    /// Those of [`Gate::close`].
    fn close(&self, speed: u32) -> Result<()> {
        self.inner().close(speed)
    }
    /// Forwards [`Gate::drawn_bridge`].
    #[doc(hidden)]
    fn drawn_bridge(&self) -> Option<Arc<dyn DrawnBridge>> {
        self.inner().clone().drawn_bridge()
    }
    /// The inner object, of a wrapper that is let go of. It is recycled if there is no other reference to it.
    fn release(self) -> Arc<dyn Gate>
    where
        Self: Sized,
    {
        self.inner().clone()
    }
}
impl<T: ForwardGate> Gate for Forward<T> {
    fn state(&self) -> bool {
        self.0.before(ForwardedMethod::GateState);
        self.0.state()
    }
    fn attach(
        &self,
        other: Option<&Arc<dyn Gate>>,
        modes: &[GateMode],
        plan: &Plan,
    ) -> Result<Arc<dyn Gate>> {
        self.0.before(ForwardedMethod::GateAttach);
        self.0.attach(other, modes, plan)
    }
    unsafe fn adopt(&self, memory: std::ptr::NonNull<u8>) -> Result<()> {
        self.0.before(ForwardedMethod::GateAdopt);
        // SAFETY: the caller guarantees the same to this method.
        unsafe { self.0.adopt(memory) }
    }
    fn close(&self, speed: u32) -> Result<()> {
        self.0.before(ForwardedMethod::GateClose);
        self.0.close(speed)
    }
    fn drawn_bridge(self: Arc<Self>) -> Option<Arc<dyn DrawnBridge>> {
        self.0.drawn_bridge()
    }
    fn recycle(self: Arc<Self>) {
        if let Some(Forward(wrapper)) = Arc::into_inner(self) {
            wrapper.release().recycle();
        }
    }
}
";
    assert!(text.contains(part), "{part}\nis not in\n{text}");
    assert!(!text.contains("Stone"), "a stone has nothing to override:\n{text}");
}

#[test]
fn a_wrapper_of_an_extension_wraps_what_it_extends() {
    let text = mini();
    let part = "\
// spec/hal/post.yaml:1
/// Forwards to an inner [`Post`] what a wrapper does not override; [`Forward`] makes the object.
pub trait ForwardPost: ForwardGate {
    /// The object that methods are forwarded to, always the same.
    fn inner_post(&self) -> &Arc<dyn Post>;
    /// The object that `post` forwards to if it is a [`Forward`] of this type, else `post` itself.
    fn inner_post_of(post: &Arc<dyn Post>) -> &Arc<dyn Post>
    where
        Self: Sized,
    {
        let any: &dyn Any = &**post;
        any.downcast_ref::<Forward<Self>>()
            .map_or(post, |forward| forward.0.inner_post())
    }
    /// Forwards [`Post::height`].
    fn height(&self) -> u32 {
        self.inner_post().height()
    }
}
impl<T: ForwardPost> Post for Forward<T> {
    fn height(&self) -> u32 {
        self.0.before(ForwardedMethod::PostHeight);
        self.0.height()
    }
}
";
    assert!(text.contains(part), "{part}\nis not in\n{text}");
}

#[test]
fn names_of_generated_methods_are_taken() {
    let gate = "\
- object: gate
  id: 3
  doc: A gate.
  facets:
    - {name: before, doc: What was there.}

- method: inner
  doc: The inner gate.

- method: inner_of
  doc: The inner gate of another.

- method: recycle
  doc: Makes a gate of it.

- method: release
  doc: Lets go of it.

- method: inners
  doc: Another word.
";
    assert_eq!(
        refused(&[("spec/hal/gate.yaml", gate)]),
        "\
spec/hal/gate.yaml:1: `before` is a method that generated traits add: choose another name
spec/hal/gate.yaml:7: `inner` is a method that generated traits add: choose another name
spec/hal/gate.yaml:10: `inner_of` is a method that generated traits add: choose another name
spec/hal/gate.yaml:13: `recycle` is a method that generated traits add: choose another name
spec/hal/gate.yaml:16: `release` is a method that generated traits add: choose another name
"
    );
}

/// The traits of a generated file of the real spec, by name.
fn traits(items: &[Item]) -> BTreeMap<String, &ItemTrait> {
    let traits = items.iter().filter_map(|item| match item {
        Item::Trait(item) => Some((item.ident.to_string(), item)),
        _ => None,
    });
    traits.collect()
}

fn methods(item: &ItemTrait) -> Vec<&TraitItemFn> {
    let methods = item.items.iter().filter_map(|item| match item {
        TraitItem::Fn(method) => Some(method),
        _ => None,
    });
    methods.collect()
}

/// The names of the arguments but `self`, as a call passes them on.
fn passed_on(signature: &Signature) -> String {
    let names = signature.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(argument) => match &*argument.pat {
            Pat::Ident(name) => Some(name.ident.to_string()),
            _ => None,
        },
        FnArg::Receiver(_) => None,
    });
    names.collect::<Vec<_>>().join(",")
}

/// A body without spaces and comments.
fn squeezed(block: &syn::Block) -> String {
    let text = quote::quote!(#block).to_string();
    text.split_whitespace().collect::<String>().replace(",)", ")")
}

/// Methods with a default are no compile error where they are missing, so the generated text itself is looked at: each
/// method of each trait calls the wrapper, and what wrappers do not override calls the inner object, with the arguments
/// in their order.
#[test]
fn every_method_of_the_real_spec_reaches_the_inner_object() {
    let of = |path: &str| syn::parse_file(real::text(path)).expect("generated text is Rust").items;
    let (objects, forward) = (of("hal/traits.rs"), of("hal/forward.rs"));
    let (objects, wrappers) = (traits(&objects), traits(&forward));
    let mut implementations = BTreeMap::new();
    for item in &forward {
        if let Item::Impl(ItemImpl { trait_: Some((_, path, _)), items, .. }) = item {
            let methods = items.iter().filter_map(|item| match item {
                ImplItem::Fn(method) => Some((method.sig.ident.to_string(), method)),
                _ => None,
            });
            let name = path.segments.last().expect("a trait has a name").ident.to_string();
            implementations.insert(name, methods.collect::<BTreeMap<_, _>>());
        }
    }
    let (mut checked, mut operations) = (0, 0);
    for (name, object) in &objects {
        if methods(object).iter().all(|method| method.sig.ident == "recycle") {
            assert!(!wrappers.contains_key(&format!("Forward{name}")), "{name} has nothing to override");
            continue;
        }
        let wrapper = wrappers[&format!("Forward{name}")];
        let provided: BTreeMap<_, _> = methods(wrapper).iter().map(|of| (of.sig.ident.to_string(), *of)).collect();
        let implemented = &implementations[name];
        for method in methods(object) {
            let (ident, args) = (method.sig.ident.to_string(), passed_on(&method.sig));
            let title = format!("{name}::{ident}");
            let implemented = squeezed(&implemented.get(&ident).unwrap_or_else(|| panic!("{title}: not there")).block);
            if ident == "recycle" {
                assert!(implemented.contains("wrapper.release().recycle();"), "{title}: {implemented}");
                continue;
            }
            let provided = provided[&ident];
            assert_eq!(passed_on(&provided.sig), args, "{title}");
            let body = squeezed(provided.default.as_ref().unwrap_or_else(|| panic!("{title}: not provided")));
            if ident == "submit" {
                // Each operation goes through its method, which the wrapper may override.
                assert!(
                    implemented.contains("operation.call(self,queue_affinity,wait,signal)"),
                    "{title}: {implemented}"
                );
                assert!(body.contains(&format!("self.inner().submit({args})")), "{title}: {body}");
                continue;
            }
            assert!(implemented.contains(&format!("self.0.{ident}({args})")), "{title}: {implemented}");
            match args.strip_prefix("queue_affinity,wait,signal,").filter(|_| body.contains("QueueOperation::")) {
                Some(operands) => {
                    let call = "self.submit(queue_affinity,wait,signal,QueueOperation::";
                    assert!(body.contains(call) && body.contains(&format!("{{{operands}")), "{title}: {body}");
                    operations += 1;
                }
                None => {
                    let call = format!(".{ident}({args})");
                    assert!(body.contains("self.inner") && body.contains(&call), "{title}: {body}");
                }
            }
            checked += 1;
        }
        assert_eq!(implemented.len(), methods(object).len(), "{name}");
    }
    let hal = &real::SPEC.hal;
    let expected: usize = hal.objects().map(|object| object.methods.len() + object.facets.len()).sum();
    assert_eq!(checked, expected);
    assert_eq!(operations, hal.objects().flat_map(|object| object.operations()).count());
}
