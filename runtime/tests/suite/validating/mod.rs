//! Validated devices: for each rule a call that a careless device accepts, and that it does not get if it is validated.
//! That validated devices do what they do without is for the conformance suite to say.

mod arguments;
mod careless;
mod commands;
mod order;

use std::sync::Arc;

use vireo::hal::ForwardedMethod;
use vireo::hal::observe::{Observation, Validate};
use vireo::hal::*;
use vireo::{Result, StatusCode};

use self::careless::{Log, careless};

const ANY: QueueAffinity = QueueAffinity::ANY;

/// Two devices of one observation, or of none. Only the calls of the first are counted.
struct Bench {
    device: Arc<dyn Device>,
    other: Arc<dyn Device>,
    log: Log,
}

impl Bench {
    fn bare() -> Bench {
        let log = Log::default();
        Bench { device: careless(&log), other: careless(&Log::default()), log }
    }

    fn validated() -> Bench {
        let Bench { device, other, log } = Bench::bare();
        let observation = Observation::new(Validate::new());
        Bench { device: observation.device(&device), other: observation.device(&other), log }
    }

    fn timeline(&self) -> Arc<dyn Semaphore> {
        self.device.create_semaphore(ANY, 0, SemaphoreFlags::DEFAULT).unwrap()
    }

    /// The outcome of an operation.
    fn operation(&self, submit: impl FnOnce(&[Timepoint]) -> Result<()>) -> Result<()> {
        let line = self.timeline();
        submit(&[point(&line, 1)]).expect("what is wrong with an operation is said by its timelines");
        line.query().map(drop)
    }

    /// A buffer of 64 bytes with this usage and access.
    fn buffer_for(&self, usage: BufferUsage, access: MemoryAccess) -> Arc<dyn Buffer> {
        let params = BufferParams { usage, access, ..BufferParams::default() };
        self.device.allocator().allocate_buffer(params, 64).unwrap()
    }

    /// A buffer of 64 bytes.
    fn buffer(&self) -> Arc<dyn Buffer> {
        self.buffer_for(BufferUsage::DEFAULT, MemoryAccess::ALL)
    }

    /// A command buffer that is being recorded.
    fn recording(&self, mode: CommandBufferMode, slots: u32) -> Arc<dyn CommandBuffer> {
        let commands = self.device.create_command_buffer(mode, CommandCategory::ANY, ANY, slots).unwrap();
        commands.begin().unwrap();
        commands
    }

    /// A file of 64 bytes.
    fn file(&self, access: MemoryAccess) -> Arc<dyn File> {
        let external = ExternalFile { r#type: ExternalFileType::Fd, data: None, length: 0, fd: -1, owner: None };
        // SAFETY: the careless device looks at none of it.
        unsafe { self.device.import_file(ANY, access, &external, ExternalFileFlags::empty()) }.unwrap()
    }

    fn execute(&self, commands: &Arc<dyn CommandBuffer>, table: &[BufferBinding]) -> Result<()> {
        self.operation(|signal| self.device.queue_execute(ANY, &[], signal, commands, table, ExecuteFlags::empty()))
    }

    fn executable(&self, device: &Arc<dyn Device>) -> Arc<dyn Executable> {
        let cache = device.create_executable_cache("tests").unwrap();
        cache.prepare_executable(ANY, ExecutableCachingMode::empty(), "any", &[], &[]).unwrap()
    }
}

/// A host call that does nothing.
#[derive(Debug)]
struct Nothing;

impl HostCall for Nothing {
    fn call(&self, _: HostCallContext, _: &[Timepoint]) -> Result<()> {
        Ok(())
    }
}

fn point(semaphore: &Arc<dyn Semaphore>, value: u64) -> Timepoint {
    Timepoint { semaphore: semaphore.clone(), value }
}

fn range(buffer: &Arc<dyn Buffer>, offset: u64, length: u64) -> BufferRef {
    BufferRef { buffer: Some(buffer.clone()), slot: 0, offset, length }
}

fn whole(buffer: &Arc<dyn Buffer>) -> BufferRef {
    range(buffer, 0, WHOLE_BUFFER)
}

fn slot(slot: u32, offset: u64, length: u64) -> BufferRef {
    BufferRef { buffer: None, slot, offset, length }
}

fn bound(buffer: &Arc<dyn Buffer>, offset: u64, length: u64) -> BufferBinding {
    BufferBinding { buffer: Some(buffer.clone()), offset, length }
}

/// A device accepts the call that `case` ends with, and does not get it if it is validated: the call fails with this
/// code.
#[track_caller]
fn refused(method: ForwardedMethod, expected: StatusCode, case: impl Fn(&Bench) -> Result<()>) {
    let (bare, validated) = (Bench::bare(), Bench::validated());
    case(&bare).expect("a careless device accepts everything");
    let failure = case(&validated).expect_err("a validated device does not");
    assert_eq!(failure.code(), expected, "{failure}");
    assert_eq!(validated.log.count(method) + 1, bare.log.count(method), "the device got the call: {failure}");
    let (_, name) = method.name().split_once('.').unwrap();
    assert!(failure.message().contains(&format!("#1.{name}: ")), "{failure}");
}

/// The calls are ones that validation lets through: the device gets all of them. That none fails would not say so,
/// since an operation that is refused fails when what it waits for is there.
#[track_caller]
fn accepted(case: impl Fn(&Bench) -> Result<()>) {
    let (bare, validated) = (Bench::bare(), Bench::validated());
    case(&bare).expect("a careless device accepts everything");
    case(&validated).expect("nothing is wrong with it");
    assert_eq!(validated.log.calls(), bare.log.calls());
}
