//! Memory that is used again: what transient buffers are made of.

pub(in crate::hal) mod blocks;
