//! The core of queues, as the driver has it, over the locks and threads of the model checker.

#[path = "../../../src/device_queue/core/mod.rs"]
#[expect(dead_code, unused_imports, reason = "what the driver uses of the core, and the model does not")]
pub(crate) mod core;
pub(crate) mod rules;
pub(crate) mod sync;

use self::core::join_driver;
use crate::status::Result;

/// Threads for what the host does, one for each piece of work.
#[derive(Debug, Default)]
pub(crate) struct HostWorkers;

impl HostWorkers {
    #[expect(clippy::unnecessary_wraps, reason = "the driver may have no thread")]
    pub(crate) fn run(&self, work: impl FnOnce() + Send + 'static) -> Result<()> {
        shuttle::thread::spawn(move || {
            join_driver();
            work();
        });
        Ok(())
    }
}
