//! Runs a model on arrays: what most programs need.
//!
//! ```text
//! cargo run --package vireo-sessions --bin embed -- fixtures/models/mlp.vmfb
//! ```

use vireo::ndarray::{Array2, Axis};
use vireo::{Result, Session, inputs};

fn main() -> Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "fixtures/models/mlp.vmfb".into());
    let session = Session::builder().device("local-task").load(path)?;
    println!("{}", session.signature("mlp")?);

    // Looked up once, called often.
    let mlp = session.function("mlp")?;
    let x = Array2::from_shape_fn((8, 64), |(row, column)| (row + column) as f32 / 64.0);
    let y: Array2<f32> = mlp.call(inputs![&x])?.get()?;
    println!("sums of rows: {:.3}", y.sum_axis(Axis(1)));

    // A call that is made again and again keeps its memory.
    let mut call = mlp.prepare(inputs![&x])?;
    for step in 0..3 {
        call.set(0, &(&x * step as f32))?;
        call.run()?;
        let y: Array2<f32> = call.result(0)?.get()?;
        println!("step {step}: {:.3}", y.sum());
    }
    Ok(())
}
