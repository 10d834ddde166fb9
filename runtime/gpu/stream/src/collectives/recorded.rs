//! Collective operations of a program ([`RecordedCollective`]).

use std::any::Any;
use std::sync::Arc;

use super::channel::StreamChannel;
use crate::hal::{CollectiveElementType, CollectiveOp};
use crate::hal_driver::collectives::{Operation, reduces};
use crate::hal_driver::deferred::CollectiveRequest;
use crate::hal_driver::references::Place;
use crate::status::{Result, Status};

/// A recorded collective operation.
#[derive(Clone, Debug)]
pub struct RecordedCollective {
    /// The channel.
    pub channel: Arc<StreamChannel>,
    /// The operation.
    pub operation: Operation,
    /// The range to send, if the command names one.
    pub send: Option<Place>,
    /// The range to receive into, if the command names one.
    pub recv: Option<Place>,
}

/// The channel and the operation of a request, checked as far as that depends on no rank.
///
/// # Errors
/// INVALID_ARGUMENT for a channel of another driver, UNIMPLEMENTED for a reduction that NCCL does not have, and those
/// of [`Operation::new`].
pub(crate) fn check(request: &CollectiveRequest<'_>) -> Result<(Arc<StreamChannel>, Operation)> {
    let channel: Arc<dyn Any + Send + Sync> = request.channel.clone();
    let channel = channel
        .downcast::<StreamChannel>()
        .map_err(|_| Status::invalid_argument("the channel was created by another kind of device"))?;
    let operation = Operation::new(request.op, request.param, request.element_count)?;
    let CollectiveOp { kind, element_type, .. } = operation.op;
    let is_short = matches!(element_type, CollectiveElementType::SINT_16 | CollectiveElementType::UINT_16);
    if is_short && reduces(kind) {
        return Err(Status::unimplemented(format!("{operation}: NCCL does not reduce integers of 16 bits")));
    }
    Ok((channel, operation))
}
