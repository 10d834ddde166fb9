//! Captures of tests: fixtures, replays of them, and what the host reads there.

use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use vireo::hal::{BuiltinOptions, Device};
use vireo::{Result, SecurityPolicy};
use vireo_replay::{HostRead, Plan, Reader, ReplayOptions, Watch};

/// The bytes of a capture of `fixtures/replay`.
pub fn capture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../fixtures/replay/{name}.ireereplay"));
    std::fs::read(path).expect("the capture exists")
}

pub fn open(bytes: &[u8]) -> Reader {
    Reader::new("file", Box::new(Cursor::new(bytes.to_vec()))).expect("it is a capture")
}

pub fn plan_of(bytes: &[u8]) -> Result<Plan> {
    Plan::read(&mut open(bytes), None)
}

/// Devices that runtimes of the host have.
pub fn devices(names: &[&str]) -> Vec<Arc<dyn Device>> {
    let options = BuiltinOptions { policy: SecurityPolicy::trusted(), ..BuiltinOptions::default() };
    let registry = options.registry();
    names.iter().map(|name| registry.create_device(name).expect("a device of the host")).collect()
}

/// Reads of the host, by the numbers of records.
#[derive(Default)]
pub struct Reads(pub Vec<(u64, Vec<u8>)>);

impl Watch for Reads {
    fn wants_reads(&self) -> bool {
        true
    }

    fn read(&mut self, read: &HostRead<'_>) -> Result<()> {
        self.0.push((read.record, read.bytes.to_vec()));
        Ok(())
    }
}

/// The reads of the host in a replay.
pub fn reads_of(plan: &Plan, options: &ReplayOptions) -> Result<Vec<(u64, Vec<u8>)>> {
    let mut reads = Reads::default();
    let names = vec!["local-sync"; plan.device_count()];
    plan.run(&devices(&names), options, &mut reads)?;
    Ok(reads.0)
}
