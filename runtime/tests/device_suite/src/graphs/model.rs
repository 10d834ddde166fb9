//! The expected outcome of a graph: its operations, one after the other, on plain bytes.

use super::plan::{Action, Plan, Range, SIZE, Store, Transfer};

/// The bytes of every store at the end, and those that each operation that looks must see. Kernels that do not run
/// write nothing.
pub struct Expected {
    pub stores: Vec<Vec<u8>>,
    /// By operation.
    pub looks: Vec<Vec<u8>>,
}

pub fn run(plan: &Plan, runs_kernels: bool) -> Expected {
    let mut stores: Vec<Vec<u8>> = plan
        .stores
        .iter()
        .map(|store| match store {
            Store::Buffer(bytes) | Store::File(bytes) => bytes.clone(),
            Store::Transient => vec![0; SIZE],
        })
        .collect();
    let mut looks = vec![Vec::new(); plan.operations.len()];
    for (index, operation) in plan.operations.iter().enumerate() {
        if !operation.causes.is_empty() {
            continue;
        }
        match &operation.action {
            Action::Transfer(command) => transfer(&mut stores, command, runs_kernels),
            Action::Execute { body, table } => {
                for command in &plan.bodies[*body].commands {
                    let bound =
                        |parameter: usize| table[parameter].expect("only executions that fail have null bindings");
                    transfer(&mut stores, &command.with_stores(bound), runs_kernels);
                }
            }
            Action::ReadFile { from, to } | Action::WriteFile { from, to } => copy(&mut stores, from, to),
            Action::Look { at } => looks[index] = bytes(&stores, at).to_vec(),
            Action::Barrier
            | Action::Alloca { .. }
            | Action::Dealloca { .. }
            | Action::Later
            | Action::FailingCall { .. }
            | Action::FailingFill { .. }
            | Action::Never => {}
        }
    }
    Expected { stores, looks }
}

fn bytes<'a>(stores: &'a [Vec<u8>], at: &Range) -> &'a [u8] {
    &stores[at.store][at.offset..at.offset + at.length]
}

fn write(stores: &mut [Vec<u8>], to: &Range, bytes: &[u8]) {
    stores[to.store][to.offset..to.offset + to.length].copy_from_slice(bytes);
}

fn copy(stores: &mut [Vec<u8>], from: &Range, to: &Range) {
    let bytes = bytes(stores, from).to_vec();
    write(stores, to, &bytes);
}

fn transfer(stores: &mut [Vec<u8>], transfer: &Transfer, runs_kernels: bool) {
    match transfer {
        Transfer::Fill { to, pattern } => write(stores, to, &pattern.repeat(to.length / pattern.len())),
        Transfer::Update { to, bytes } => write(stores, to, bytes),
        Transfer::Copy { from, to } => copy(stores, from, to),
        Transfer::Multiply { from, to } if runs_kernels => {
            let words = |store: usize| stores[store].as_chunks::<4>().0.iter().copied().map(u32::from_le_bytes);
            let products = words(from[0]).zip(words(from[1])).flat_map(|(a, b)| a.wrapping_mul(b).to_le_bytes());
            stores[*to] = products.collect();
        }
        Transfer::Multiply { .. } => {}
    }
}
