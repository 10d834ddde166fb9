//! Specs of allocators ([`AllocatorSpec`]): the texts by which the command line and IREE's tools name them.
//!
//! ```text
//! debug
//! caching
//! caching:HEAP=SIZE;CAPACITY;COUNT,HEAP=...
//! ```
//!
//! A heap is named by the memory type and the usages that it must have, `device_local|host_visible;transfer`, or by
//! `*`. The largest size of a buffer, the capacity of the pool and the number of free buffers may be left out, and `*`
//! stands for the default.

use std::ops::BitOr;
use std::str::FromStr;
use std::sync::Arc;

use super::{AllocationLedger, CachePool, CachingAllocator, DebugAllocator};
use crate::byte_size;
use crate::hal::{Allocator, BufferUsage, MemoryHeap, MemoryType};
use crate::status::{Result, Status};

/// Most pools of one allocator.
const MAX_POOLS: usize = 16;

/// The text for any value, or for the default.
const ANY: &str = "*";

/// An allocator to put over that of a device.
#[derive(Clone, Debug)]
pub enum AllocatorSpec {
    /// A [`CachingAllocator`] with these pools; without any, with one for each heap.
    Caching(Vec<CachePoolSpec>),
    /// A [`DebugAllocator`], which enters its buffers here.
    Debug(Arc<AllocationLedger>),
}

/// A pool of a [`CachingAllocator`], whose heap is chosen among those of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CachePoolSpec {
    /// The properties that the memory of the heap must have.
    pub memory_type: MemoryType,
    /// The usages that the heap must allow.
    pub usage: BufferUsage,
    /// The largest buffer that is cached, if it is not the largest of the heap.
    pub max_allocation_size: Option<u64>,
    /// Most bytes of the pool, if there is a bound.
    pub max_capacity: Option<u64>,
    /// Most free buffers, if it is not the default.
    pub max_free_buffers: Option<usize>,
}

impl FromStr for AllocatorSpec {
    type Err = Status;

    fn from_str(text: &str) -> Result<AllocatorSpec> {
        let (name, arguments) = text.split_once(':').unwrap_or((text, ""));
        match name {
            "caching" => Ok(AllocatorSpec::Caching(pools(arguments)?)),
            "debug" if arguments.is_empty() => Ok(AllocatorSpec::Debug(Arc::default())),
            "debug" => Err(Status::invalid_argument(format!("`{text}`: the debug allocator has no options"))),
            _ => Err(Status::invalid_argument(format!(
                "`{text}` is no allocator: expected `caching`, `caching:HEAP=SIZE;CAPACITY;COUNT,...` or `debug`"
            ))),
        }
    }
}

impl AllocatorSpec {
    /// The allocator over another one.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if the device has no heap of a kind that is named, `UNIMPLEMENTED` for one that the host
    /// cannot map.
    pub fn wrap(&self, inner: Arc<dyn Allocator>) -> Result<Arc<dyn Allocator>> {
        match self {
            AllocatorSpec::Debug(ledger) => Ok(DebugAllocator::new(inner, ledger.clone())),
            AllocatorSpec::Caching(specs) => {
                let heaps = inner.memory_heaps();
                let mut pools = specs.iter().map(|spec| spec.pool(&heaps)).collect::<Result<Vec<_>>>()?;
                if specs.is_empty() {
                    let mapped = heaps.iter().filter(|heap| heap.memory_type.contains(MemoryType::HOST_VISIBLE));
                    pools.extend(mapped.copied().map(CachePool::of_heap));
                }
                if pools.is_empty() {
                    return Err(Status::unimplemented("the device has no memory that the host can map, to be cached"));
                }
                Ok(CachingAllocator::new(inner, pools))
            }
        }
    }
}

impl CachePoolSpec {
    /// The pool for the first heap of this kind.
    fn pool(&self, heaps: &[MemoryHeap]) -> Result<CachePool> {
        let CachePoolSpec { memory_type, usage, .. } = *self;
        let is_wanted =
            |heap: &&MemoryHeap| heap.memory_type.contains(memory_type) && heap.allowed_usage.contains(usage);
        let heap = heaps.iter().find(is_wanted).ok_or_else(|| {
            let here: Vec<String> = heaps.iter().map(|heap| format!("{:?}", heap.memory_type)).collect();
            let here = here.join(", ");
            let usage = if usage.is_empty() { String::new() } else { format!(" for {usage:?}") };
            Status::invalid_argument(format!("no heap has {memory_type:?} memory{usage}: the device has {here}"))
        })?;
        if !heap.memory_type.contains(MemoryType::HOST_VISIBLE) {
            let message = format!("memory that the host cannot map is not cached, such as {:?}", heap.memory_type);
            return Err(Status::unimplemented(message));
        }
        let default = CachePool::of_heap(*heap);
        Ok(CachePool {
            heap: *heap,
            max_allocation_size: self.max_allocation_size.unwrap_or(default.max_allocation_size),
            max_capacity: self.max_capacity.unwrap_or(default.max_capacity),
            max_free_buffers: self.max_free_buffers.unwrap_or(default.max_free_buffers),
        })
    }
}

/// Reads `HEAP=SIZE;CAPACITY;COUNT,...`. An empty text has no pools.
fn pools(text: &str) -> Result<Vec<CachePoolSpec>> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    if text.split(',').count() > MAX_POOLS {
        return Err(Status::invalid_argument(format!("more than {MAX_POOLS} pools of a caching allocator")));
    }
    text.split(',').map(pool).collect()
}

fn pool(text: &str) -> Result<CachePoolSpec> {
    let wrong = |what: String| Status::invalid_argument(format!("pool `{text}` of a caching allocator: {what}"));
    let (heap, bounds) = text.split_once('=').unwrap_or((text, ""));
    if heap.trim().is_empty() {
        return Err(wrong(format!("expected the type of a heap, such as `device_local`, or `{ANY}`")));
    }
    let (memory_type, usage) = heap.split_once(';').unwrap_or((heap, ANY));
    let memory_type = parse_names(memory_type, MemoryType::empty(), MemoryType::NAMED).map_err(wrong)?;
    let usage = parse_names(usage, BufferUsage::empty(), BufferUsage::NAMED).map_err(wrong)?;
    let mut bounds = bounds.split(';').map(str::trim);
    let mut bound = || bounds.next().filter(|text| !text.is_empty() && *text != ANY);
    let size = |text: &str| {
        byte_size::parse(text).ok_or_else(|| wrong(format!("`{text}` is no size: expected one such as 4096 or 64mib")))
    };
    let max_allocation_size = bound().map(size).transpose()?;
    let max_capacity = bound().map(size).transpose()?;
    let count = |text: &str| text.parse().map_err(|_| wrong(format!("`{text}` is no number of buffers")));
    let max_free_buffers = bound().map(count).transpose()?;
    if bounds.next().is_some() {
        return Err(wrong("expected a size, a capacity and a number of buffers, and no more".into()));
    }
    Ok(CachePoolSpec { memory_type, usage, max_allocation_size, max_capacity, max_free_buffers })
}

/// The union of named sets, joined by `|`; `*` and an empty text name none.
fn parse_names<T: Copy + BitOr<Output = T>>(text: &str, none: T, named: &[(T, &str)]) -> Result<T, String> {
    let text = text.trim();
    if text.is_empty() || text == ANY {
        return Ok(none);
    }
    text.split('|').map(str::trim).try_fold(none, |union, name| {
        let found = named.iter().find(|(_, known)| *known == name);
        let names = || named.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(", ");
        found.map(|(set, _)| union | *set).ok_or_else(|| format!("`{name}` is none of {}", names()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hal::{BufferParams, HeapAllocator, buffer_to_vec};

    fn parse(text: &str) -> Result<Vec<CachePoolSpec>, String> {
        match text.parse() {
            Ok(AllocatorSpec::Caching(pools)) => Ok(pools),
            Ok(AllocatorSpec::Debug(_)) => Err("debug".into()),
            Err(status) => Err(Status::to_string(&status)),
        }
    }

    #[test]
    fn specs_of_the_tools_are_read() {
        let any = CachePoolSpec::default();
        let local = CachePoolSpec { memory_type: MemoryType::DEVICE_LOCAL, ..any };
        for (text, pools) in [
            ("caching", vec![]),
            ("caching:", vec![]),
            ("caching:*", vec![any]),
            ("caching:device_local", vec![local]),
            ("caching:device_local=", vec![local]),
            ("caching:device_local=*;*;*", vec![local]),
            ("caching:device_local=1gib", vec![CachePoolSpec { max_allocation_size: Some(1 << 30), ..local }]),
            ("caching: device_local = ; 2gib ", vec![CachePoolSpec { max_capacity: Some(2 << 30), ..local }]),
            (
                "caching:device_local|host_visible;transfer=4096;1mb;3,*;*=;;0",
                vec![
                    CachePoolSpec {
                        memory_type: MemoryType::DEVICE_LOCAL | MemoryType::HOST_VISIBLE,
                        usage: BufferUsage::TRANSFER,
                        max_allocation_size: Some(4096),
                        max_capacity: Some(1_000_000),
                        max_free_buffers: Some(3),
                    },
                    CachePoolSpec { max_free_buffers: Some(0), ..any },
                ],
            ),
        ] {
            assert_eq!(parse(text), Ok(pools), "{text}");
        }
        assert_eq!(parse("debug"), Err("debug".into()));
        assert_eq!(parse("debug:"), Err("debug".into()));
    }

    #[test]
    fn wrong_specs_are_refused_with_reasons() {
        for (text, reason) in [
            ("", "is no allocator"),
            ("cache", "is no allocator"),
            ("debug:x", "no options"),
            ("caching:=1gib", "expected the type of a heap"),
            ("caching:*,", "expected the type of a heap"),
            ("caching:1gib", "`1gib` is none of optimal, "),
            ("caching:device_local;paint", "`paint` is none of transfer_source, "),
            ("caching:*=1x", "`1x` is no size"),
            ("caching:*=1;-1", "`-1` is no size"),
            ("caching:*=1;1;1kib", "`1kib` is no number"),
            ("caching:*=1;1;1;1", "and no more"),
            (&format!("caching:{}*", "*,".repeat(16)), "more than 16 pools"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn heaps_are_chosen_among_those_of_the_device() {
        let wrap =
            |text: &str| text.parse::<AllocatorSpec>().and_then(|spec| spec.wrap(Arc::new(HeapAllocator::new())));
        for text in ["caching", "caching:*", "caching:device_local;dispatch=1kib", "debug"] {
            let allocator = wrap(text).expect(text);
            let buffer = allocator.allocate_buffer(BufferParams::default(), 9).expect("allocates");
            assert_eq!(buffer_to_vec(&*buffer, 9).map(|bytes| bytes.len()).ok(), Some(9), "{text}");
        }
        let error = wrap("caching:host_local").expect_err("there is no such heap");
        assert!(error.to_string().contains("no heap has host_visible|"), "{error}");
    }
}
