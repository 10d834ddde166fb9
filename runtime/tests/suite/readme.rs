//! The program that the README shows compiles and runs, word for word.

use crate::machine::MACHINE;
use crate::skip::{Need, skipped};

fn program() -> vireo::Result<()> {
    // From here on as in the README, seen from this package.
    use vireo::ndarray::Array2;
    use vireo::{Session, inputs};

    let session = Session::builder().device("local-task").load("../fixtures/models/mlp.vmfb")?;
    println!("{}", session.signature("mlp")?); // mlp(input0: tensor<8x64xf32>) -> (output0: tensor<8x16xf32>)

    let x = Array2::<f32>::ones((8, 64));
    let y: Array2<f32> = session.call("mlp", inputs![&x])?.get()?;
    assert_eq!(y.shape(), [8, 16]);
    // Up to here.
    Ok(())
}

fn lines_between<'a>(text: &'a str, first: &str, end: &str) -> Vec<&'a str> {
    let lines = text.lines().map(str::trim).skip_while(|line| *line != first).skip(1);
    lines.take_while(|line| *line != end).collect()
}

#[test]
fn the_program_of_the_readme_runs() {
    if MACHINE == "x86_64" {
        program().expect("runs");
    } else {
        skipped(Need::Platform("x86_64"), "the kernels of its model are for x86-64");
    }
    let readme = include_str!("../../../README.md").replace("fixtures/", "../fixtures/");
    let shown = lines_between(&readme, "```rust", "```");
    let first = "// From here on as in the README, seen from this package.";
    assert_eq!(shown, lines_between(include_str!("readme.rs"), first, "// Up to here."));
    assert!(shown.len() > 5);
}
