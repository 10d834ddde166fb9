//! Tests of the functions of the library in process: what each call gives back, in good cases and bad ones, and random
//! streams, events and graphs against what they say.

mod captures;
mod cooperative;
mod errors;
mod exports;
mod heap;
mod kernels;
mod options;
mod order;
mod poisoned;
mod seeds;
mod support;
