//! The model of `spec/hal/`: objects of the hardware abstraction layer, the numbers and structs they exchange, and the
//! binary layouts (ELF, kernel ABI) that local devices read.
//!
//! `types` has the types, of which [`kind`] is the closed set of kinds of arguments, [`layout`] the binary layouts,
//! `rules` what arguments must be, and `option` the options of devices. `raw` and `read` make them of entries, `check`
//! has the rules across entries. [`abi`] and `observed` are what emitters ask of a checked model.

use crate::diag::Diagnostics;
use crate::entry::Entry;

pub mod abi;
mod check;
pub mod kind;
pub mod layout;
mod observed;
mod option;
pub(super) mod raw;
pub(super) mod read;
mod rules;
mod types;

pub use kind::{Kind, Shape};
pub use layout::{Function, Layout, LayoutField, LayoutType, Measure, Trailing};
pub use observed::Observed;
pub use option::{DeviceOption, OptionType};
pub use rules::Rules;
pub use types::{
    ArmFeature, CpuFeature, CpuState, Cpuid, DefaultBody, Facet, Field, Form, Hal, Handle, Method, NamedValue,
    NarrowFloat, Numbers, Object, POINTS, SpecFile, Specials, Struct, type_name,
};

impl Hal {
    /// Reads the entries of all files below `spec/hal/`, in the order of their paths.
    pub fn load(entries: &[Entry], diagnostics: &mut Diagnostics) -> Self {
        let hal = read::files(entries, diagnostics);
        check::check(&hal, diagnostics);
        hal
    }
}
