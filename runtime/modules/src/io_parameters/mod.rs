//! The `io_parameters` module: access of programs to parameters that are stored outside of their modules.
//!
//! Its interface is `spec/abi/modules/io_parameters.yaml`. It reads the tables of keys and spans of a call, and calls
//! the first provider of the scope. Nothing blocks here: providers schedule transfers on the device's queues, between
//! the fences of the call.

mod key_tables;

use std::sync::Arc;

use vireo_macros::vm_module;

use crate::vm::list::ListType;
use crate::vm::{Buffer as VmBuffer, List, Obj};
use crate::{Result, Status};
use vireo_hal::SecurityPolicy;
use vireo_hal::{
    BufferParams, BufferRefObject, BufferUsage, DeviceRef, FenceRef, MemoryType, ParameterProvider,
    ParameterProviderSignal, QueueAffinity, Timepoint, Timepoints, VmType,
};

/// The `io_parameters` module over a fixed list of providers. One module may serve many contexts.
pub struct IoParameters {
    providers: Vec<Arc<dyn ParameterProvider>>,
    writable: bool,
}

impl IoParameters {
    /// A module that asks `providers`, in this order, for the scopes of parameters.
    pub fn new(providers: impl IntoIterator<Item = Arc<dyn ParameterProvider>>) -> IoParameters {
        IoParameters { providers: providers.into_iter().collect(), writable: true }
    }

    /// The same module for programs under `policy`, which may forbid writing parameters.
    pub fn with_policy(self, policy: &SecurityPolicy) -> IoParameters {
        IoParameters { writable: policy.writable_parameters, ..self }
    }

    /// Sends a signal about the state of the system to all providers.
    ///
    /// # Errors
    /// That of the first provider which fails; the others get the signal all the same.
    pub fn notify(&self, signal: ParameterProviderSignal) -> Result<()> {
        self.providers.iter().map(|provider| provider.notify(signal)).fold(Ok(()), Result::and)
    }

    /// The provider of a scope.
    fn provider(&self, scope: &str) -> Result<&dyn ParameterProvider> {
        let found = self.providers.iter().find(|provider| provider.query_support(scope));
        found.map(|provider| &**provider).ok_or_else(|| {
            let what = match scope {
                "" => "parameters without a scope".to_string(),
                scope => format!("parameters of the scope `{}`", scope.escape_debug()),
            };
            Status::not_found(format!("nothing provides {what}"))
        })
    }
}

/// The points of a fence. A null fence has none.
fn points(fence: Option<&Obj<FenceRef>>) -> &[Timepoint] {
    fence.map_or(&[], |fence| fence.timepoints())
}

/// Fails the points of a call with its failure, so that waiters learn the cause even if no provider was called.
fn failing<R>(signal: Option<&Obj<FenceRef>>, result: Result<R>) -> Result<R> {
    if let (Err(status), Some(fence)) = (&result, signal) {
        fence.fail(status);
    }
    result
}

#[expect(clippy::too_many_arguments, reason = "the spec lists the arguments")]
#[vm_module(spec = "io_parameters")]
impl IoParameters {
    #[vm_export("gather")]
    fn gather(
        &self,
        device: &Obj<DeviceRef>,
        queue_affinity: QueueAffinity,
        wait_fence: Timepoints<'_>,
        signal_fence: Option<&Obj<FenceRef>>,
        source_scope: Option<&Obj<VmBuffer>>,
        target_buffer: &Obj<BufferRefObject>,
        key_table: &Obj<VmBuffer>,
        key_data: &Obj<VmBuffer>,
        spans: &Obj<VmBuffer>,
    ) -> Result<()> {
        let gather = || {
            let scope = key_tables::scope(source_scope)?;
            let spans = key_tables::spans(key_table, key_data, spans)?;
            let (wait, signal) = (&*wait_fence, points(signal_fence));
            self.provider(&scope)?.gather(&device.0, queue_affinity, wait, signal, &scope, &target_buffer.0, &spans)
        };
        failing(signal_fence, gather())
    }

    #[vm_export("load")]
    fn load(
        &self,
        device: &Obj<DeviceRef>,
        queue_affinity: QueueAffinity,
        wait_fence: Timepoints<'_>,
        signal_fence: Option<&Obj<FenceRef>>,
        source_scope: Option<&Obj<VmBuffer>>,
        target_queue_affinity: QueueAffinity,
        target_memory_types: u32,
        target_buffer_usage: u32,
        key_table: &Obj<VmBuffer>,
        key_data: &Obj<VmBuffer>,
        spans: &Obj<VmBuffer>,
    ) -> Result<Obj<List>> {
        let load = || {
            let params = BufferParams {
                usage: BufferUsage::from_number(target_buffer_usage)?,
                memory_type: MemoryType::from_number(target_memory_types)?,
                queue_affinity: target_queue_affinity,
                ..BufferParams::default()
            };
            let scope = key_tables::scope(source_scope)?;
            let spans = key_tables::spans(key_table, key_data, spans)?;
            let (wait, signal) = (&*wait_fence, points(signal_fence));
            let buffers =
                self.provider(&scope)?.load(&device.0, queue_affinity, wait, signal, &scope, params, &spans)?;
            if buffers.len() != spans.len() {
                let message = format!("a provider made {} buffers of {} parameters", buffers.len(), spans.len());
                return Err(Status::internal(message));
            }
            let list = List::new(ListType::Ref(<dyn vireo_hal::Buffer as VmType>::TYPE_NAME.into()), buffers.len())?;
            for buffer in buffers {
                list.push(crate::vm::Value::from(BufferRefObject::to_ref(buffer)))?;
            }
            Ok(Obj::new(list))
        };
        failing(signal_fence, load())
    }

    #[vm_export("scatter")]
    fn scatter(
        &self,
        device: &Obj<DeviceRef>,
        queue_affinity: QueueAffinity,
        wait_fence: Timepoints<'_>,
        signal_fence: Option<&Obj<FenceRef>>,
        source_buffer: &Obj<BufferRefObject>,
        target_scope: Option<&Obj<VmBuffer>>,
        key_table: &Obj<VmBuffer>,
        key_data: &Obj<VmBuffer>,
        spans: &Obj<VmBuffer>,
    ) -> Result<()> {
        let scatter = || {
            let scope = key_tables::scope(target_scope)?;
            if !self.writable {
                let scope = scope.escape_debug();
                let message = format!("the security policy lets no program write parameters (scope `{scope}`)");
                return Err(Status::permission_denied(message));
            }
            let spans = key_tables::spans(key_table, key_data, spans)?;
            let (wait, signal) = (&*wait_fence, points(signal_fence));
            self.provider(&scope)?.scatter(&device.0, queue_affinity, wait, signal, &source_buffer.0, &scope, &spans)
        };
        failing(signal_fence, scatter())
    }
}
