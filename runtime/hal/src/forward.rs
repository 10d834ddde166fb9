//! Wrappers of HAL objects: types that override some methods of an object and forward the others to an inner one.
//!
//! For each object of `spec/hal/` that has methods there is a trait with all of them, [`ForwardDevice`] for
//! [`Device`](crate::Device). Each is provided and calls the method of the inner object, so a wrapper names its inner
//! object and what it overrides, and a method that is added to the spec needs no edit. [`Forward`] makes an object of
//! it:
//!
//! ```
//! use std::sync::Arc;
//!
//! use vireo::Result;
//! use vireo::hal::{Device, Forward, ForwardDevice, create_device};
//!
//! /// Tells programs that dispatches run on one thread.
//! #[derive(Debug)]
//! struct OneThread(Arc<dyn Device>);
//!
//! impl ForwardDevice for OneThread {
//!     fn inner(&self) -> &Arc<dyn Device> {
//!         &self.0
//!     }
//!
//!     fn query_i64(&self, category: &str, key: &str) -> Result<i64> {
//!         match (category, key) {
//!             ("hal.dispatch", "concurrency") => Ok(1),
//!             _ => self.inner().query_i64(category, key),
//!         }
//!     }
//! }
//!
//! # fn main() -> Result<()> {
//! let device: Arc<dyn Device> = Arc::new(Forward(OneThread(create_device("local-task")?)));
//! assert_eq!(device.query_i64("hal.dispatch", "concurrency")?, 1);
//! assert_eq!(device.id(), "local-task");
//! # Ok(())
//! # }
//! ```
//!
//! **What is wrapped.** The object alone. Objects that it makes are those of the inner object, and so they are when
//! they come back as arguments: a device recognises its buffers and command buffers by their types. A wrapper that
//! wraps those as well unwraps them where they come back, with `inner_of`. Buffers are best left alone: parts of them
//! and bindings of commands refer to them, too.
//!
//! **What is forwarded.** Every method, also one that implementations may leave out and one for which the trait has a
//! default: the inner object is asked. So [`Device::supports`](crate::Device::supports) tells what the inner device
//! has; a wrapper that adds a method overrides it as well. Operations of queues go to [`ForwardDevice::submit`] unless
//! the wrapper overrides their methods, so a wrapper can handle all of them in one place. To recycle a wrapper is to
//! let go of it and to recycle the inner object.
//!
//! **What is told.** [`ForwardDevice::before`] and its like are called at each call of the object, with the method, for
//! wrappers that count or log and change nothing.
//!
//! Wrappers of a device and of all that it makes, which unwrap what comes back, are those of `observe`, which is above
//! this crate.
//!
//! A wrapper is no object itself, so its own methods and those of the object it becomes are never mixed up:
//! `self.inner().trim()` asks the inner device, `self.trim()` what the wrapper makes of it.

pub use crate::generated::hal::forward::*;

/// The object that a wrapper becomes: `Forward<T>` is a `Device` if `T` is a [`ForwardDevice`], and so on.
#[derive(Clone, Copy, Debug)]
pub struct Forward<T>(pub T);
