//! A server for a model on tokio: each line of a connection is the input of a call, eight by sixty-four numbers or
//! fewer, and gets a line with the output. A slow client or a slow call holds up no other, a client that hangs up
//! cancels its call.
//!
//! ```text
//! cargo run --profile dist --package vireo-sessions --bin tokio_server -- serve 127.0.0.1:7878
//! cargo run --profile dist --package vireo-sessions --bin tokio_server -- load 100000
//! ```
//!
//! `load` is a server and its clients in one process, without a network. It makes so many calls of a model that waits
//! for its clients, 1,000 of them under way at a time, cancels 500 half-way, and as many calls of a model that
//! computes; it prints latencies and what memory was used.

use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use vireo::hal::Fence;
use vireo::inference::{Function, HostTensor, Tensor};
use vireo::{Result, Session, Status, StatusCode, inputs};

/// Calls that are under way at a time.
const CONCURRENT: usize = 1000;
/// Calls that `load` cancels.
const CANCELLED: usize = 500;

/// Answers a line of numbers with a line of numbers. Inputs that are missing are zero.
async fn answer(model: &Function, line: &str) -> Result<String> {
    let mut x = vec![0.0f32; 8 * 64];
    for (slot, number) in x.iter_mut().zip(line.split_whitespace()) {
        *slot = number.parse().map_err(|_| Status::invalid_argument(format!("`{number}` is not a number")))?;
    }
    let y: Vec<f32> = model.start(inputs![([8, 64], &x)])?.await?.get()?;
    Ok(y.iter().map(f32::to_string).collect::<Vec<_>>().join(" "))
}

/// Serves one connection. The call of a client that hangs up is dropped with this.
async fn connection(model: Function, mut stream: TcpStream) -> std::io::Result<()> {
    let (reader, mut writer) = stream.split();
    let mut lines = BufReader::new(reader).lines();
    while let Some(line) = lines.next_line().await? {
        let text = answer(&model, &line).await.unwrap_or_else(|status| format!("error: {status}"));
        writer.write_all(format!("{text}\n").as_bytes()).await?;
    }
    Ok(())
}

async fn serve(model: Function, address: &str) -> std::io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    loop {
        let (stream, peer) = listener.accept().await?;
        let model = model.clone();
        tokio::spawn(async move {
            if let Err(error) = connection(model, stream).await {
                eprintln!("{peer}: {error}");
            }
        });
    }
}

/// The memory of this process, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Makes `calls` calls and returns how long each took.
async fn burst(model: &Function, calls: usize) -> Result<Vec<Duration>> {
    let places = Arc::new(Semaphore::new(CONCURRENT));
    let mut tasks = JoinSet::new();
    let mut latencies = Vec::with_capacity(calls);
    for _ in 0..calls {
        let place = places.clone().acquire_owned().await.expect("nobody closes it");
        let model = model.clone();
        tasks.spawn(async move {
            let start = Instant::now();
            let answered = answer(&model, "1 2 3 4").await;
            drop(place);
            answered.map(|_| start.elapsed())
        });
        while let Some(done) = tasks.try_join_next() {
            latencies.push(done.expect("calls do not panic")?);
        }
    }
    while let Some(done) = tasks.join_next().await {
        latencies.push(done.expect("calls do not panic")?);
    }
    Ok(latencies)
}

/// Starts as many calls as are under way at a time, all of which wait for one fence; signals it, and waits for their
/// results. Returns how long each took from then.
async fn wave(waiting: &Function, x: &Tensor) -> Result<Vec<Duration>> {
    let fence = Fence::create();
    let under_way = Arc::new(Semaphore::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..CONCURRENT {
        let (waiting, x, ready, under_way) = (waiting.clone(), x.clone(), fence.to_ref(), under_way.clone());
        tasks.spawn(async move {
            let mut call = std::pin::pin!(waiting.start(inputs![x, ready])?);
            let first = std::future::poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await;
            assert!(first.is_pending(), "the call waits for the fence");
            under_way.add_permits(1);
            call.await.map(|_| Instant::now())
        });
    }
    let _all = under_way.acquire_many(CONCURRENT as u32).await.expect("nobody closes it");
    let start = Instant::now();
    fence.signal()?;
    let done = tasks.join_all().await;
    done.into_iter().map(|end| end.map(|end| end.duration_since(start))).collect()
}

/// Starts calls and drops them while they wait. Returns how many there were.
async fn cancel(waiting: &Function, x: &Tensor) -> Result<usize> {
    let fence = Fence::create();
    let mut calls = Vec::new();
    for _ in 0..CANCELLED {
        let mut call = Box::pin(waiting.start(inputs![x, fence.to_ref()])?);
        let first = std::future::poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await;
        if first.is_pending() {
            calls.push(call);
        }
    }
    let count = calls.len();
    drop(calls);
    // The fence ends the work that they had submitted to the device.
    fence.signal()?;
    Ok(count)
}

/// Prints percentiles of latencies.
fn report(what: &str, mut latencies: Vec<Duration>, seconds: f64) {
    latencies.sort_unstable();
    let calls = latencies.len();
    let percentile = |percent: usize| latencies[(calls - 1) * percent / 100].as_secs_f64() * 1e3;
    println!("{what}: {calls} calls, {:.0} calls/s", calls as f64 / seconds);
    println!("  latency: p50 {:.3} ms, p90 {:.3} ms, p99 {:.3} ms", percentile(50), percentile(90), percentile(99));
}

async fn load(model: &Function, calls: usize) -> Result<()> {
    let session = Session::builder().device("local-task").load("fixtures/models/waits.vmfb")?;
    let waiting = session.function("doubled")?;
    let x = session.tensor(&HostTensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0]))?;
    let device = session.model().devices()[0].clone();
    let live = || {
        let statistics = device.allocator().statistics();
        statistics.device_bytes_allocated - statistics.device_bytes_freed
    };
    // The memory for later calls is there after the first ones.
    burst(model, CONCURRENT).await?;
    wave(&waiting, &x).await?;
    let (before_bytes, before_kib) = (live(), resident());

    let start = Instant::now();
    let mut latencies = Vec::new();
    while latencies.len() < calls {
        latencies.extend(wave(&waiting, &x).await?);
    }
    report(&format!("{CONCURRENT} calls wait at a time"), latencies, start.elapsed().as_secs_f64());

    let start = Instant::now();
    let latencies = burst(model, calls).await?;
    report("calls that compute", latencies, start.elapsed().as_secs_f64());

    let cancelled = cancel(&waiting, &x).await?;
    wave(&waiting, &x).await?;
    let (after_bytes, after_kib) = (live(), resident());
    println!("cancelled half-way: {cancelled} of {CANCELLED}");
    println!("memory of the process: {before_kib} KiB before, {after_kib} KiB after");
    println!("memory of the device: {before_bytes} bytes before, {after_bytes} bytes after");
    if after_bytes > before_bytes || cancelled < CANCELLED {
        return Err(Status::internal("calls were not under way, or have left memory of the device behind"));
    }
    Ok(())
}

fn main() -> Result<()> {
    let failed = |error: std::io::Error| Status::new(StatusCode::Unavailable, "the server failed").with_source(error);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let session = Session::builder().device("local-task").load("fixtures/models/mlp.vmfb")?;
    let model = session.function("mlp")?;
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(failed)?;
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", address] => runtime.block_on(serve(model, address)).map_err(failed),
        ["load", calls] => {
            let calls = calls.parse().map_err(|_| Status::invalid_argument(format!("`{calls}` is no number")))?;
            runtime.block_on(load(&model, calls))
        }
        _ => Err(Status::invalid_argument("usage: tokio_server serve ADDRESS | tokio_server load CALLS")),
    }
}
