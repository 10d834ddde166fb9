//! Tests of the errors of the macros: the message, and the text that it points at.

use proc_macro2::TokenStream;

use crate::expand;

/// The errors of an expansion: what each points at, and its message.
fn errors(attribute: &str, item: &str) -> Vec<(String, String)> {
    let parse = |text: &str| text.parse::<TokenStream>().unwrap();
    match expand::vm_module(parse(attribute), parse(item)) {
        Ok(tokens) => panic!("expected an error, got {tokens}"),
        Err(error) => {
            error.into_iter().map(|error| (error.span().source_text().unwrap_or_default(), error.to_string())).collect()
        }
    }
}

/// Errors about the module as a whole are left out; these tests implement parts of a module only.
fn method_errors(item: &str) -> Vec<(String, String)> {
    let errors = errors("spec = \"hal\"", &format!("impl Hal {{ {item} }}"));
    let (whole, rest): (Vec<_>, Vec<_>) = errors.into_iter().partition(|(place, _)| place == "\"hal\"");
    assert_eq!(whole.len(), 1, "the other exports are missing");
    rest
}

fn one(errors: Vec<(String, String)>) -> (String, String) {
    assert_eq!(errors.len(), 1, "{errors:#?}");
    errors.into_iter().next().unwrap()
}

#[test]
fn a_method_that_fits_is_accepted() {
    let item = "#[vm_export(\"buffer.length\")] fn length(&self, buffer: Obj<B>) -> Result<i64> { Ok(0) }";
    assert_eq!(method_errors(item), []);
}

#[test]
fn missing_exports_are_listed_with_their_signatures() {
    let (place, message) = one(errors("spec = \"hal\"", "impl Hal {}"));
    assert_eq!(place, "\"hal\"");
    assert!(
        message.starts_with("module `hal` lacks exports of its spec; implement them or list them in unimplemented")
    );
    let expected = "\n  #[vm_export(\"buffer.length\")]\n  fn buffer_length(&self, state: &mut State, buffer: Obj</* hal.buffer */>) -> \
                    Result<i64>\n";
    assert!(message.contains(expected), "{message}");
    let expected = "fences: Span<Option<Obj</* hal.fence */>>>) -> Result<Step<i32>>";
    assert!(message.contains(expected), "{message}");
}

#[test]
fn the_blocks_of_a_module_have_the_groups_they_name() {
    let fence = "#[vm_export(\"fence.signal\")] fn signal(&self, fence: Obj<F>) -> Result<()> { Ok(()) }";
    let buffer = "#[vm_export(\"buffer.length\")] fn length(&self, buffer: Obj<B>) -> Result<i64> { Ok(0) }";
    let errors = |attribute: &str, item: &str| errors(attribute, &format!("impl Hal {{ {item} }}"));

    let (place, message) = one(errors("spec = \"hal\", part(\"buffer\")", buffer));
    assert_eq!(place, "\"hal\"");
    assert!(message.contains("buffer.load") && !message.contains("buffer.length") && !message.contains("fence."));
    let (place, message) = one(errors("spec = \"hal\", parts(\"fence\")", buffer));
    assert_eq!(place, "\"hal\"");
    assert!(message.contains("buffer.load") && !message.contains("\"fence."), "{message}");

    let elsewhere = errors("spec = \"hal\", parts(\"fence\")", fence);
    assert!(elsewhere.contains(&("\"fence.signal\"".into(), "exports `fence.*` belong to another block".into())));
    let elsewhere = errors("spec = \"hal\", part(\"buffer\")", fence);
    assert!(elsewhere.contains(&("\"fence.signal\"".into(), "exports `fence.*` belong to another block".into())));
    let unknown = errors("spec = \"hal\", part(\"fences\")", "");
    assert_eq!(unknown, [("\"fences\"".into(), "the spec of module `hal` has no exports `fences.*`".into())]);
    let (_, message) = one(errors("spec = \"hal\", part(\"fence\"), parts(\"buffer\")", ""));
    assert!(message.starts_with("parts(...) belongs to the block that implements the module"), "{message}");
}

#[test]
fn names_that_the_spec_does_not_have_are_refused() {
    let (place, message) = one(method_errors("#[vm_export(\"buffer.size\")] fn f(&self) -> Result<()> { Ok(()) }"));
    assert_eq!(place, "\"buffer.size\"");
    assert!(message.starts_with("the spec of module `hal` (spec/abi/modules/hal.yaml:"), "{message}");
    assert!(message.ends_with("has no export `buffer.size`"), "{message}");
    let (place, message) = one(errors("spec = \"hall\"", "impl Hal {}"));
    assert_eq!(place, "\"hall\"");
    assert!(message.starts_with("no spec lists a module `hall`; known are: "), "{message}");
}

#[test]
fn arguments_and_results_are_compared_with_the_spec() {
    for (item, expected_place, expected) in [
        ("fn f(&self, b: Obj<B>) -> Result<i32> { }", "i32", "result 1 is `i32`, expected `i64` for `length`"),
        ("fn f(&self, b: Obj<B>) -> Result<()> { }", "()", "returns 0 values, expected 1"),
        ("fn f(&self) -> Result<i64> { }", "f", "takes 0 arguments, expected 1"),
        (
            "fn f(&self, b: i64) -> Result<i64> { }",
            "i64",
            "argument 1 `b` is `i64`, expected `Obj</* hal.buffer */>` for `buffer`",
        ),
        (
            "fn f(&self, b: Option<Obj<B>>) -> Result<i64> { }",
            "Option<Obj<B>>",
            "argument 1 `b` is `Option<Obj<B>>`, expected `Obj</* hal.buffer */>` for `buffer`",
        ),
        ("fn f(&self, b: &[Obj<B>]) -> Result<i64> { }", "&[Obj<B>]", "argument 1 `b` is a span, expected one value"),
        (
            "fn f(&self, b: Obj<B>) -> Result<Step<i64>> { }",
            "i64",
            "may wait, but its spec does not say `yields: true`",
        ),
    ] {
        let (place, message) = one(method_errors(&format!("#[vm_export(\"buffer.length\")] {item}")));
        assert_eq!(place, expected_place, "{item}");
        let (first, second) = message.split_once('\n').unwrap();
        assert_eq!(first, format!("`hal.buffer.length`: {expected}"));
        assert!(second.starts_with("expected (spec/abi/modules/hal.yaml:"), "{second}");
        assert!(
            second
                .ends_with("fn buffer_length(&self, state: &mut State, buffer: Obj</* hal.buffer */>) -> Result<i64>")
        );
    }
}

#[test]
fn values_have_the_types_that_the_spec_reads_them_as() {
    let item = |export: &str, types: &str| format!("#[vm_export(\"{export}\")] fn f(&self, {types} {{ }}");
    for (export, types, place, expected) in [
        (
            "device.queue.flush",
            "d: Obj<D>, a: u64) -> Result<()>",
            "u64",
            "argument 2 `a` is `u64`, expected `QueueAffinity`",
        ),
        ("device.queue.flush", "d: Obj<D>, a: Flags) -> Result<()>", "Flags", "is `Flags`, expected `QueueAffinity`"),
        ("fence.signal", "fence: Timepoints<'_>) -> Result<()>", "Timepoints<'_>", "expected `Obj</* hal.fence */>`"),
        (
            "executable.lookup.function",
            "e: Obj<E>, n: Obj<B>) -> Result<ExecutableFunction>",
            "Obj<B>",
            "expected `&str`",
        ),
        ("executable.lookup.function", "e: Obj<E>, n: &str) -> Result<u64>", "u64", "expected `ExecutableFunction`"),
        ("buffer.allocation.is_terminal", "b: Obj<B>) -> Result<i32>", "i32", "result 1 is `i32`, expected `bool`"),
        ("buffer_view.rank", "v: Obj<V>) -> Result<bool>", "bool", "result 1 is `bool`, expected `i32`"),
    ] {
        let (actual, message) = one(method_errors(&item(export, types)));
        assert_eq!(actual, place, "{types}");
        assert!(message.contains(expected), "{message}");
    }
    for (export, types) in [
        ("device.queue.flush", "d: &Obj<D>, a: hal::QueueAffinity) -> Result<()>"),
        ("executable.lookup.function", "e: &Obj<E>, n: &str) -> Result<ExecutableFunction>"),
    ] {
        assert_eq!(method_errors(&item(export, types)), [], "{types}");
    }
}

#[test]
fn spans_are_compared_field_by_field() {
    let item = "#[vm_export(\"allocator.select\")]
        fn f(&self, a: i32, b: i32, c: i64, d: Vec<(Obj<D>, i32)>) -> Result<(Obj<D>, i64)> { }";
    let (place, message) = one(method_errors(item));
    assert_eq!(place, "Vec<(Obj<D>, i32)>");
    assert!(message.contains("argument 4 `d` is `i32`, expected `i64` for `queue_affinity`"), "{message}");
    let item = "#[vm_export(\"allocator.select\")]
        fn f(&self, a: i32, b: i32, c: i64, d: &[Obj<D>]) -> Result<(Obj<D>, i64)> { }";
    assert!(one(method_errors(item)).1.contains("a tuple has 1 fields, expected 2"));
}

#[test]
fn exports_are_implemented_or_not_but_not_both() {
    let attribute = "spec = \"hal\", unimplemented(\"buffer.length\", \"buffer.weight\")";
    let item = "impl Hal { #[vm_export(\"buffer.length\")] fn f(&self, b: Obj<B>) -> Result<i64> { } }";
    let errors = errors(attribute, item);
    assert_eq!(
        errors[0],
        ("\"buffer.length\"".into(), "`buffer.length` is implemented: remove it from unimplemented(...)".into())
    );
    assert_eq!(errors[1].0, "\"buffer.weight\"");
}

#[test]
fn types_that_cannot_cross_a_call_are_refused() {
    for (item, expected_place) in [
        ("fn f(&self, a: String) -> Result<()> { }", "String"),
        ("fn f(&self, a: CopyFlags) -> Result<()> { }", "CopyFlags"),
        ("fn f(&self) -> Result<CopyFlags> { }", "CopyFlags"),
        ("fn f(&self, a: Option<CopyFlags>) -> Result<()> { }", "Option<CopyFlags>"),
        ("fn f(&self, a: Vec<Vec<i32>>) -> Result<()> { }", "Vec<i32>"),
        ("fn f(&self, a: &i32) -> Result<()> { }", "&i32"),
        ("fn f(&self, a: Vec<()>) -> Result<()> { }", "Vec<()>"),
        ("fn f(&self) -> Result<Vec<i32>> { }", "Vec<i32>"),
        ("fn f(&self, a: Option<i32>) -> Result<()> { }", "Option<i32>"),
        ("fn f(&self) -> i32 { }", "i32"),
        ("fn f(&self) { }", "f"),
        ("fn f(a: i32) -> Result<()> { }", "f"),
        ("fn f(&mut self) -> Result<()> { }", "f"),
    ] {
        let (place, _) = one(errors("name = \"m\"", &format!("impl M {{ #[vm_export(\"f\")] {item} }}")));
        assert_eq!(place, expected_place, "{item}");
    }
}

#[test]
fn modules_are_described_one_way_or_the_other() {
    let attributes = [
        "",
        "spec = \"hal\", version = 1",
        "name = \"a\", spec = \"hal\"",
        "name = \"a\", unimplemented(\"b\")",
        "nam = \"a\"",
    ];
    for attribute in attributes {
        assert_eq!(errors(attribute, "impl M {}").len(), 1, "{attribute}");
    }
    let item =
        "impl M { #[vm_export(\"f\")] fn f(&self) -> Result<()> {} #[vm_export(\"f\")] fn g(&self) -> Result<()> {} }";
    assert_eq!(one(errors("name = \"m\"", item)), ("\"f\"".into(), "two exports `f`".into()));
    let (_, message) = one(errors("name = \"m\"", "impl Clone for M {}"));
    assert_eq!(message, "#[vm_module] stands on an inherent impl block");
}

#[test]
fn object_types_are_compared_by_name_when_the_module_is_compiled() {
    // Everything but one export is declared absent, so that the module as a whole is right.
    let (_, missing) = one(errors("spec = \"hal\"", "impl Hal {}"));
    let names = missing.split("#[vm_export(\"").skip(1).filter_map(|rest| rest.split('"').next());
    let absent: Vec<_> = names.filter(|name| *name != "buffer.length").map(|name| format!("\"{name}\"")).collect();
    let attribute = format!("spec = \"hal\", unimplemented({})", absent.join(", "));
    let item = "impl Hal { #[vm_export(\"buffer.length\")] fn f(&self, b: Obj<B>) -> Result<i64> { Ok(0) } }";
    let tokens = expand::vm_module(attribute.parse().unwrap(), item.parse().unwrap()).unwrap().to_string();
    let tokens: String = tokens.split_whitespace().collect();
    assert!(tokens.contains("::vireo::abi::same_name(<Bas::vireo::vm::Object>::TYPE_NAME,\"hal.buffer\")"), "{tokens}");
    assert!(tokens.contains("Err(::vireo::Status::unimplemented(\"hal.buffer.loadisnotimplemented\"))"), "{tokens}");
}
