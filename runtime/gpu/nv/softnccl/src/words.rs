//! Words in pinned memory that streams wait for ([`Word`]). A rank has one for each stream that it uses; it counts the
//! rounds of the rank on that stream, which run one after the other.

use std::alloc::{Layout, alloc_zeroed};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use vireo_cuda::nccl::result::NcclResult;
use vireo_cuda::types::CuContext;

use crate::cuda::{Cuda, check};
use crate::status::{Failure, Outcome};

/// Bytes of a page, which is pinned at once.
const PAGE: usize = 4096;
/// The memory is pinned for all contexts, and mapped.
const PORTABLE_AND_MAPPED: u32 = 3;

/// A word. Its memory stays as long as the process, since a stream may wait for it after its rank is gone, and it is
/// not used again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word(NonNull<AtomicU64>);

// SAFETY: the memory is never freed, and only accessed as an atomic.
unsafe impl Send for Word {}
// SAFETY: the memory is never freed, and only accessed as an atomic.
unsafe impl Sync for Word {}

/// The words that no rank has, by the context that has pinned them: with it they cease to be pinned.
static FREE: Mutex<BTreeMap<u64, Vec<Word>>> = Mutex::new(BTreeMap::new());

impl Word {
    /// A word with zero, in memory that the current context has pinned.
    pub(crate) fn new(cuda: &Cuda, context: CuContext) -> Outcome<Word> {
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        let of_context = free.entry(context.0).or_default();
        if of_context.is_empty() {
            of_context.extend(page(cuda)?);
        }
        of_context.pop().ok_or_else(no_memory)
    }

    /// Lets streams go on that wait for a value up to this one.
    pub(crate) fn set(self, value: u64) {
        // SAFETY: the memory is never freed.
        unsafe { self.0.as_ref() }.store(value, Ordering::Release);
    }

    /// Its address.
    pub(crate) fn address(self) -> u64 {
        self.0.as_ptr().expose_provenance() as u64
    }
}

fn no_memory() -> Failure {
    Failure::new(NcclResult::SYSTEM_ERROR, "no memory for a communicator")
}

/// The words of a new page, which is never freed.
fn page(cuda: &Cuda) -> Outcome<impl Iterator<Item = Word>> {
    let layout = Layout::from_size_align(PAGE, PAGE).map_err(|_| no_memory())?;
    // SAFETY: the layout has bytes.
    let memory = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(no_memory)?.cast::<AtomicU64>();
    // SAFETY: the page is there as long as the process.
    let pinned = unsafe { (cuda.register)(memory.as_ptr().cast(), PAGE as u64, PORTABLE_AND_MAPPED) };
    check("cuMemHostRegister", pinned)?;
    // SAFETY: the page has as many words.
    Ok((0..PAGE / size_of::<AtomicU64>()).map(move |index| Word(unsafe { memory.add(index) })))
}
