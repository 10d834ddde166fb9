//! Classes of memory ([`MemoryClass`]): what memory is for. Agents have a pool for each.

/// A class of memory, by what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryClass {
    /// Memory of the GPU for its kernels alone (coarse-grained). The host reaches it only where the link lets it.
    DeviceLocal,
    /// Memory of the GPU that others see each write of while kernels run. The host reaches it as it does the other.
    DeviceFine,
    /// Memory of the host that GPUs see each write of while kernels run.
    HostFine,
    /// Memory of the host that GPUs see writes of between kernels. What is staged goes through it.
    HostCoarse,
    /// Memory of the host for arguments of kernels.
    Kernarg,
}

impl MemoryClass {
    /// Whether it is memory of the GPU.
    pub fn is_of_device(self) -> bool {
        matches!(self, MemoryClass::DeviceLocal | MemoryClass::DeviceFine)
    }
}
