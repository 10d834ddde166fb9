//! Random graphs of queue operations: whatever the order in which threads submit them, the outcome is that of the
//! model.
//!
//! `VIREO_GRAPHS=10000` runs so many for each backend, `VIREO_GRAPH=7` only the one with this number. Each has a seed
//! of its own and is the same in every run; only the timing differs.

mod maker;
mod model;
mod plan;
mod random;
mod submit;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::{Backend, dispatches};

/// Graphs for each backend.
const GRAPHS: u64 = 400;

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text}: expected a number")))
}

pub fn random_graphs(backend: &Backend) {
    let device = backend.device();
    let executable = dispatches::kernels(backend, &*device);
    let bench = submit::Bench { device: &*device, executable: executable.as_ref(), backend };
    let seeds = match number("VIREO_GRAPH") {
        Some(seed) => seed..seed + 1,
        None => 0..number("VIREO_GRAPHS").unwrap_or(GRAPHS),
    };
    for seed in seeds {
        let plan = maker::make(seed, executable.is_some());
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| submit::run(&bench, &plan, seed))) {
            eprintln!("the graph VIREO_GRAPH={seed} on {backend:?}:\n{plan}");
            resume_unwind(panic);
        }
    }
}

/// The graphs are worth running only if they have everything in them.
#[test]
fn graphs_have_everything_in_them() {
    use plan::{Action, Line};

    let (mut actions, mut lines, mut waits, mut replays) = ([0; 13], [0; 4], 0, 0);
    for seed in 0..GRAPHS {
        let plan = maker::make(seed, true);
        let mut executed = vec![0; plan.bodies.len()];
        for operation in &plan.operations {
            let kind = match &operation.action {
                Action::Barrier => 0,
                Action::Alloca { .. } => 1,
                Action::Dealloca { .. } => 2,
                Action::Transfer(plan::Transfer::Multiply { .. }) => 3,
                Action::Transfer(_) => 4,
                Action::Execute { body, .. } => {
                    executed[*body] += 1;
                    5
                }
                Action::ReadFile { .. } => 6,
                Action::WriteFile { .. } => 7,
                Action::Look { .. } => 8,
                Action::Later => 9,
                Action::FailingCall { .. } => 10,
                Action::FailingFill { .. } => 11,
                Action::Never => 12,
            };
            actions[kind] += 1;
            waits += operation.wait.len();
        }
        replays += executed.iter().filter(|count| **count > 1).count();
        for line in &plan.lines {
            lines[match line {
                Line::Host => 0,
                Line::Failing => 1,
                Line::Reaches(_) => 2,
                Line::Fails(_) => 3,
            }] += 1;
        }
    }
    assert!(actions.iter().all(|count| *count > 20), "{actions:?}");
    assert!(lines.iter().all(|count| *count > 20), "{lines:?}");
    assert!(waits > 1000 && replays > 100, "{waits} waits, {replays} command buffers are executed again");
}
