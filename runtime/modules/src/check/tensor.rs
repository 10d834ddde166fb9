//! A tensor that `check` compares, with its elements on the host.

use super::readback::contents;
use crate::Result;
use crate::vm::Obj;
use vireo_hal::{BufferView, BufferViewRef, DeviceRef};

/// A tensor with its elements on the host.
pub struct Tensor<'a> {
    pub(super) view: &'a BufferView,
    pub(super) bytes: Vec<u8>,
}

/// The tensor of a view, whose elements are copied from the device.
pub fn tensor<'a>(device: Option<&Obj<DeviceRef>>, view: &'a Obj<BufferViewRef>) -> Result<Tensor<'a>> {
    let device = device.map(|device| &*device.0);
    Ok(Tensor { view, bytes: contents(device, view)? })
}
