//! The exports `buffer_view.*`, which `hal` and `hal_inline` share: buffer views, and tracing of tensors.

/// Implements them for a module type with a field `trace_sink`.
macro_rules! buffer_view_exports {
    ($spec:literal, $module:ty) => {
        const _: () = {
            use vireo_hal::{BufferRefObject, BufferView, BufferViewRef, ElementType, EncodingType, subspan};
            use vireo_macros::vm_module;

            use crate::Result;
            use crate::abi::Span;
            use crate::hal::checks::check_view;
            use crate::hal::convert::{covers, object, text};
            use crate::vm::{Buffer as VmBuffer, Obj};

            #[vm_module(spec = $spec, part("buffer_view"))]
            impl $module {
                #[vm_export("buffer_view.assert")]
                fn buffer_view_assert(
                    &self,
                    buffer_view: &Obj<BufferViewRef>,
                    message: &Obj<VmBuffer>,
                    element_type: ElementType,
                    encoding_type: EncodingType,
                    shape: &[u64],
                ) -> Result<()> {
                    check_view(buffer_view, message, element_type, encoding_type, shape)
                }

                #[vm_export("buffer_view.buffer")]
                fn buffer_view_buffer(&self, buffer_view: &Obj<BufferViewRef>) -> Result<Obj<BufferRefObject>> {
                    Ok(buffer_view.buffer_reference().clone())
                }

                #[vm_export("buffer_view.create")]
                fn buffer_view_create(
                    &self,
                    buffer: Obj<BufferRefObject>,
                    source_offset: u64,
                    source_length: u64,
                    element_type: ElementType,
                    encoding_type: EncodingType,
                    shape: &[u64],
                ) -> Result<Obj<BufferViewRef>> {
                    let buffer = if covers(&*buffer.0, source_offset, source_length) {
                        buffer
                    } else {
                        object(subspan(&buffer.0, source_offset, source_length)?)
                    };
                    let view = BufferView::of(buffer, shape, element_type, encoding_type)?;
                    Ok(Obj::new(view))
                }

                #[vm_export("buffer_view.dim")]
                fn buffer_view_dim(&self, buffer_view: &Obj<BufferViewRef>, index: u32) -> Result<u64> {
                    Ok(buffer_view.shape().get(index as usize).copied().unwrap_or(0))
                }

                #[vm_export("buffer_view.element_type")]
                fn buffer_view_element_type(&self, buffer_view: &Obj<BufferViewRef>) -> Result<ElementType> {
                    Ok(buffer_view.element_type())
                }

                #[vm_export("buffer_view.encoding_type")]
                fn buffer_view_encoding_type(&self, buffer_view: &Obj<BufferViewRef>) -> Result<EncodingType> {
                    Ok(buffer_view.encoding())
                }

                #[vm_export("buffer_view.rank")]
                fn buffer_view_rank(&self, buffer_view: &Obj<BufferViewRef>) -> Result<u32> {
                    Ok(buffer_view.shape().len() as u32)
                }

                #[vm_export("buffer_view.trace")]
                fn buffer_view_trace(
                    &self,
                    key: &Obj<VmBuffer>,
                    operands: Span<'_, &Obj<BufferViewRef>>,
                ) -> Result<()> {
                    if let Some(sink) = &self.trace_sink {
                        let views: Vec<Obj<BufferView>> = operands.iter().cloned().collect();
                        sink(&text("key", key)?, &views)?;
                    }
                    Ok(())
                }
            }
        };
    };
}
