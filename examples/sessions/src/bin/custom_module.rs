//! Gives a program a module in Rust to import from, without unsafe code.
//!
//! The program is a text of the assembler here; `iree-compile` writes such imports for `util.func private @prices.of`.
//!
//! ```text
//! cargo run --package vireo-sessions --bin custom_module
//! ```

use vireo::vm::Module;
use vireo::{Result, Session, Status, asm, inputs, vm_module};

/// The prices, which the host knows and the program asks for.
struct Prices(Vec<i32>);

#[vm_module(name = "prices", version = 1)]
impl Prices {
    #[vm_export("of")]
    fn of(&self, item: i32) -> Result<i32> {
        let price = usize::try_from(item).ok().and_then(|item| self.0.get(item));
        price.copied().ok_or_else(|| Status::not_found(format!("there is no item {item}")))
    }
}

const PROGRAM: &str = include_str!("custom_module.vmasm");

fn main() -> Result<()> {
    let bytes = asm::assemble(PROGRAM).map_err(|error| Status::invalid_argument(error.to_string()))?;
    let prices = Module::native(Prices(vec![5, 7, 11]))?;
    let session = Session::builder().with_module(prices).build(Module::from_bytes(&bytes)?)?.session()?;
    let total: i32 = session.call("total", inputs![0, 2])?.get()?;
    println!("total: {total}");
    // An error of the host has the frames of the program that asked.
    let error = session.call("total", inputs![1, 9]).expect_err("there is no such item");
    println!("{error:?}");
    Ok(())
}
