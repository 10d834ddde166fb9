//! The common parts of interpreters of GPU code: rows of 32 lanes and their masks ([`row`]), types
//! of values of lanes ([`lanes`]) and operations on them ([`prim`]), picked bytes ([`permute`]), checked accesses to
//! device memory ([`memory`]), lanes that branch on their own ([`paths`]), waves that wait at barriers ([`group`]),
//! work-groups spread over cores ([`grid`]), traps ([`trap`]), and the sanitizer ([`sanitize`]).
//!
//! It knows no instruction set and no driver: `gfx` runs RDNA3 code on it. **Who checks**: every access to memory goes
//! through a [`memory::Port`], which looks the allocation up, so an address of a kernel may be anything. The owner of
//! the memory vouches for the allocations ([`Memory`]).

pub mod grid;
pub mod group;
pub mod lanes;
pub mod memory;
pub mod paths;
pub mod permute;
pub mod prim;
pub mod row;
pub mod sanitize;
pub mod trap;

pub use grid::{Pool, Stop};
pub use memory::{
    Access, AccessHook, Addresses, Fault, GroupHook, LaneBytes, Memory, NearLanes, Port, Refusal, Region, RowAccess,
    Space,
};
pub use row::{LANES, Mask, Row};
pub use trap::{Trap, TrapKind};
