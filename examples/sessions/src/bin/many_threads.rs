//! Serves several threads with one model: it is verified, linked and compiled once, and each thread has a session with
//! state of its own.
//!
//! ```text
//! cargo run --profile dist --package vireo-sessions --bin many_threads -- fixtures/models/mlp.vmfb 2 20000
//! ```

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use vireo::ndarray::Array2;
use vireo::vm::Module;
use vireo::{Model, Result, Session, inputs};

/// How often one thread and all of them take turns.
const TURNS: usize = 25;

/// How many calls a thread takes on at a time.
const BATCH: usize = 20;

/// Calls a model `calls` times on `threads` threads, and returns the calls per second, without the time to start and
/// end the threads.
///
/// The threads share the calls, as those of a server do, so that none waits for a slower one at the end.
fn throughput(model: &Model, threads: usize, calls: usize) -> Result<f64> {
    let sessions = (0..threads).map(|_| model.session()).collect::<Result<Vec<Session>>>()?;
    let x = Array2::<f32>::ones((8, 64));
    let (next, ready) = (AtomicUsize::new(0), Barrier::new(threads));
    let times = thread::scope(|scope| {
        let run = |session: Session| -> Result<(Instant, Instant)> {
            let call = session.function("mlp").and_then(|function| function.prepare(inputs![&x]));
            ready.wait();
            let (mut call, start) = (call?, Instant::now());
            loop {
                let first = next.fetch_add(BATCH, Ordering::Relaxed);
                if first >= calls {
                    return Ok((start, Instant::now()));
                }
                (first..calls.min(first + BATCH)).try_for_each(|_| call.run())?;
            }
        };
        let threads: Vec<_> = sessions.into_iter().map(|session| scope.spawn(move || run(session))).collect();
        threads.into_iter().map(|thread| thread.join().expect("calls do not panic")).collect::<Result<Vec<_>>>()
    })?;
    let start = times.iter().map(|(start, _)| *start).min();
    let end = times.iter().map(|(_, end)| *end).max();
    let seconds = end.zip(start).map_or(0.0, |(end, start)| (end - start).as_secs_f64());
    Ok(calls as f64 / seconds)
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().unwrap_or_else(|| "fixtures/models/mlp.vmfb".into());
    let mut number = |default| arguments.next().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (threads, calls) = (number(2), number(100));
    let model = Session::builder().device("local-sync").build(Module::from_file(path)?)?;
    throughput(&model, threads, calls / 10)?;
    // One thread and all of them take turns, because the speed of a machine that others use as well changes.
    let turn = |threads| throughput(&model, threads, calls.div_ceil(TURNS));
    let mut turns = (0..TURNS).map(|_| Ok((turn(1)?, turn(threads)?))).collect::<Result<Vec<(f64, f64)>>>()?;
    turns.sort_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)));
    let (one, all) = turns[TURNS / 2];
    println!("one thread: {one:.0} calls/s");
    println!("{threads} threads: {all:.0} calls/s, {:.2} times as many (median of {TURNS} turns)", all / one);
    Ok(())
}
