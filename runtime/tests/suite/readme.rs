//! The program that the README shows compiles and runs, word for word.

fn program() -> vireo::Result<()> {
    // From here on as in the README, seen from this package.
    use vireo::hal::{BufferView, BufferViewRef, ElementType, create_device};
    use vireo::modules::hal::HalModule;
    use vireo::vm::{Context, Module};

    let device = create_device("local-sync")?;
    let hal = Module::native(HalModule::new(vec![device.clone()]))?;
    let context = Context::new([hal, Module::from_file("../fixtures/models/abs.vmfb")?])?;

    let input = BufferView::from_bytes(&*device, &[], ElementType::FLOAT_32, &(-2.0f32).to_le_bytes())?;
    let results = context.function("abs")?.call(&[input.into_ref().into()])?;
    let output = results[0].object::<BufferViewRef>().expect("the function returns a tensor");
    assert_eq!(output.to_vec()?, 2.0f32.to_le_bytes());
    // Up to here.
    Ok(())
}

fn lines_between<'a>(text: &'a str, first: &str, end: &str) -> Vec<&'a str> {
    let lines = text.lines().map(str::trim).skip_while(|line| *line != first).skip(1);
    lines.take_while(|line| *line != end).collect()
}

#[test]
fn the_program_of_the_readme_runs() {
    program().expect("runs");
    let readme = include_str!("../../../README.md").replace("fixtures/", "../fixtures/");
    let shown = lines_between(&readme, "```rust", "```");
    let first = "// From here on as in the README, seen from this package.";
    assert_eq!(shown, lines_between(include_str!("readme.rs"), first, "// Up to here."));
    assert!(shown.len() > 5);
}
