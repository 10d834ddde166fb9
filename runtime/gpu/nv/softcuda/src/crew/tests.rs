//! Random graphs of operations: dependencies hold in both orders of work, and a seed repeats its order.

use super::*;

/// Numbers that depend on nothing but a seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

/// Submits a random program, which waits and asks now and then. Returns the order in which its operations ran, with
/// what the questions were answered.
fn run(order: WorkOrder, program: u64, count: usize, pause: impl Fn(usize)) -> Vec<usize> {
    let crew = Crew::new(order);
    let _call = crew.call();
    let mut draw = Draw(program);
    let log: Arc<Mutex<Vec<usize>>> = Arc::default();
    let entries = || log.lock().unwrap();
    let mut ops: Vec<Arc<Op>> = Vec::new();
    for index in 0..count {
        let before: Vec<usize> = (0..draw.below(4)).filter(|_| index > 0).map(|_| draw.below(index.max(1))).collect();
        let after: Vec<Arc<Op>> = before.iter().map(|other| ops[*other].clone()).collect();
        let (log, done) = (log.clone(), after.clone());
        let work = move |_: &mut Known| {
            assert!(done.iter().all(|op| op.is_done()), "{index}");
            log.lock().unwrap().push(index);
            Progress::Done
        };
        ops.push(crew.submit(after, Some(Box::new(work))));
        match draw.below(8) {
            0 => ops[index] = crew.submit([ops[index].clone()], None),
            1 if draw.below(4) == 0 => crew.wait(&ops[draw.below(index + 1)]),
            2 => {
                let is_done = crew.query(&ops[draw.below(index + 1)]);
                entries().push(count + usize::from(is_done));
            }
            _ => {}
        }
        pause(draw.below(16));
    }
    ops.iter().for_each(|op| crew.wait(op));
    let mut sorted: Vec<usize> = entries().iter().copied().filter(|index| *index < count).collect();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..count).collect::<Vec<_>>());
    std::mem::take(&mut *entries())
}

#[test]
fn operations_run_after_what_they_depend_on() {
    for (program, order) in [(1, WorkOrder::Ready), (2, WorkOrder::Random(2)), (3, WorkOrder::Random(3))] {
        run(order, program, 400, |_| {});
    }
}

#[test]
fn a_seed_repeats_its_order_however_fast_the_program_is() {
    let mut orders = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let fast = run(WorkOrder::Random(seed), 7, 60, |_| {});
        let slow = run(WorkOrder::Random(seed), 7, 60, |draw| {
            if draw == 0 {
                std::thread::sleep(Duration::from_micros(300));
            }
        });
        assert_eq!(fast, slow, "seed {seed}");
        orders.insert(fast);
    }
    assert!(orders.len() > 190, "{} orders of 200 seeds", orders.len());
}

/// A program that makes no call, as it polls memory, has its work done.
#[test]
fn work_goes_on_without_calls() {
    let crew = Crew::new(WorkOrder::Random(1));
    let flag = Arc::new(AtomicBool::new(false));
    let set = flag.clone();
    let wait = flag.clone();
    let mut asked = 0;
    let waits = crew.submit(
        [],
        Some(Box::new(move |_| {
            asked += 1;
            if wait.load(Ordering::Relaxed) && asked > 3 { Progress::Done } else { Progress::Waiting }
        })),
    );
    crew.submit(
        [],
        Some(Box::new(move |_| {
            set.store(true, Ordering::Relaxed);
            Progress::Done
        })),
    );
    while !flag.load(Ordering::Relaxed) || !waits.is_done() {
        std::thread::yield_now();
    }
}

/// A function of the host that waits for the program does not stop the others.
#[test]
fn others_go_on_beside_work_that_is_stuck() {
    use crate::callback::Callback;
    for seed in 0..4 {
        let crew = Crew::new(WorkOrder::Random(seed));
        let _call = crew.call();
        let (go, callback) = (Arc::new(AtomicBool::new(false)), Callback::new());
        let may_go = go.clone();
        let stuck = crew.submit(
            [],
            Some(Box::new(move |_| {
                callback.run(|| {
                    while !may_go.load(Ordering::Relaxed) {
                        std::thread::yield_now();
                    }
                });
                Progress::Done
            })),
        );
        let other = crew.submit([], Some(Box::new(|_| Progress::Done)));
        crew.wait(&other);
        go.store(true, Ordering::Relaxed);
        crew.wait(&stuck);
    }
}
