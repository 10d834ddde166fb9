//! The functions of the library, one file for each group. They take what C programs pass; the gate of [`crate::gate`]
//! is before them.

#![expect(non_snake_case, reason = "the names are those of the library")]

mod contexts;
mod copies;
mod devices;
mod driver;
mod events;
mod exec;
mod fills;
mod finder;
mod functions;
mod graphs;
mod launches;
mod libraries;
mod links;
mod memory;
mod modules;
mod nodes;
mod occupancy;
mod pointers;
mod pools;
mod streams;
mod user_objects;

pub(crate) use contexts::*;
pub(crate) use copies::*;
pub(crate) use devices::*;
pub(crate) use driver::*;
pub(crate) use events::*;
pub(crate) use exec::*;
pub(crate) use fills::*;
pub(crate) use finder::*;
pub(crate) use functions::*;
pub(crate) use graphs::*;
pub(crate) use launches::*;
pub(crate) use libraries::*;
pub(crate) use links::*;
pub(crate) use memory::*;
pub(crate) use modules::*;
pub(crate) use nodes::*;
pub(crate) use occupancy::*;
pub(crate) use pointers::*;
pub(crate) use pools::*;
pub(crate) use streams::*;
pub(crate) use user_objects::*;
