//! Tests of the software agent through its table of functions, as a C program uses it.

#[macro_use]
mod support;

mod copies;
mod errors_untold;
mod executables;
mod files;
mod foreign;
mod hidden_writes;
mod memory;
mod packets;
mod queues;
mod sanitizer;
mod signals;
mod system;
mod traces;
