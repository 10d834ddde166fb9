//! Tests of the driver over the software library.
