//! Runs a module that anybody may have written: no machine code, no files, and limits of time, memory and output.
//!
//! ```text
//! cargo run --package vireo-sessions --bin sandbox -- fixtures/models/vmvx_mlp.vmfb mlp
//! ```

use std::time::Duration;

use vireo::ndarray::Array2;
use vireo::{MemoryBudget, Result, SecurityPolicy, Session, inputs};

/// The policy of one guest, with counters of its own.
fn policy() -> SecurityPolicy {
    let mut policy = SecurityPolicy::untrusted();
    policy.limits.timeout = Some(Duration::from_secs(2));
    policy.limits.memory = Some(MemoryBudget::new(64 << 20));
    policy
}

fn main() -> Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "fixtures/models/vmvx_mlp.vmfb".into());
    let session = Session::builder().device("local-sync").policy(policy()).load(path)?;
    let x = Array2::<f32>::ones((8, 64));
    let y: Array2<f32> = session.call("mlp", inputs![&x])?.get()?;
    println!("in the sandbox: {:.3}", y.sum());

    // The same model with kernels that are machine code.
    let native = Session::builder().device("local-sync").policy(policy()).load("fixtures/models/mlp.vmfb");
    println!("machine code: {}", native.map(drop).expect_err("the policy allows none"));

    // A loop that takes hours.
    let endless = Session::builder().device("local-sync").policy(policy()).load("fixtures/bench/vm.vmfb")?;
    let error = endless.call("loop", inputs![i32::MAX]);
    println!("a long loop: {}", error.map_or_else(|status| status.to_string(), |_| "was over in time".into()));
    Ok(())
}
