//! Calls a model by functions that the Rust compiler checks: `bind!` makes them from the model file.
//!
//! ```text
//! cargo run --package vireo-sessions --bin bind
//! ```

use vireo::ndarray::Array2;
use vireo::{Result, Session};

mod mlp {
    vireo::bind!("../../fixtures/models/mlp.vmfb");
}

mod state {
    vireo::bind!("../../fixtures/models/state.vmfb");
}

mod fences {
    vireo::bind!("../../fixtures/models/fences.vmfb");
}

fn main() -> Result<()> {
    let builder = || Session::builder().device("local-sync");
    let mlp = mlp::Bound::load(builder())?;
    let y = mlp.mlp(&Array2::ones((8, 64)))?;
    assert_eq!(y[..], mlp.mlp(&[[1.0; 64]; 8])?[..]);
    println!("mlp: {:?}", y.as_array()?.shape());

    let state = state::Bound::load(builder())?;
    let other = state::Bound::of(state.session().model())?;
    println!("increment: {} {} {}", state.increment(5)?, state.increment(1)?, other.increment(1)?);

    // The model takes fences, which are made and waited for.
    let (doubled, total) = fences::Bound::load(builder())?.doubled_and_total(&[1, 2, 3][..])?;
    println!("doubled: {:?}, total: {total}", &doubled[..]);
    Ok(())
}
