//! Replays in steps: comparisons of replays, and captures of one dispatch.

#[path = "support/captures.rs"]
mod captures;
#[path = "support/draw.rs"]
mod draw;

use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use captures::{capture, devices, open, plan_of, reads_of};
use draw::Draw;
use vireo::hal::Device;
use vireo::interp::Limits;
use vireo::{Result, StatusCode};
use vireo_replay::operations::operation;
use vireo_replay::payloads::ExecutablePrepareParts;
use vireo_replay::{
    Candidate, Cause, CompareAs, Comparison, ContentsOf, Diff, DiffSide, Expected, FirstDifference, Minimized, Plan,
    ReplayOptions, SteppedDispatch, Substitution, Verdict, WatchDiff, diff, minimize, reduce,
};

/// Kernels of these captures are for x86-64.
const MACHINE_CODE: bool = cfg!(target_arch = "x86_64");

/// A plan with devices and options, to be one side of a comparison.
struct Side {
    plan: Plan,
    devices: Vec<Arc<dyn Device>>,
    options: ReplayOptions,
}

impl Side {
    fn new(bytes: &[u8], device: &str) -> Side {
        let plan = plan_of(bytes).expect("it can be replayed");
        let devices = devices(&vec![device; plan.device_count()]);
        // A kernel that was damaged may not end.
        let limits = Limits { timeout: Some(Duration::from_secs(20)), ..Limits::default() };
        Side { plan, devices, options: ReplayOptions { limits, ..ReplayOptions::default() } }
    }

    /// The same with another executable.
    fn with(bytes: &[u8], device: &str, executable: &[u8]) -> Side {
        let mut side = Side::new(bytes, device);
        let substitution =
            Substitution { executable: None, format: Some("vmvx-bytecode-fb".to_string()), data: executable.into() };
        side.options.substitutions = vec![substitution];
        side
    }

    fn get(&self) -> DiffSide<'_> {
        DiffSide { plan: &self.plan, devices: &self.devices, options: &self.options }
    }

    fn diff(&self, other: &Side, comparison: Comparison) -> Result<Diff> {
        diff([self.get(), other.get()], &comparison, &mut ())
    }

    fn minimized(&self, number: u64, expected: Option<&Side>) -> Result<(Minimized, Vec<u8>)> {
        let mut out = Cursor::new(Vec::new());
        let minimized = minimize(self.get(), number, expected.map(Side::get), &mut out)?;
        Ok((minimized, out.into_inner()))
    }
}

/// Whether a replay reads what the capture expects, and expects something.
fn is_as_expected(bytes: &[u8], side: &Side) -> Result<bool> {
    let mut expected = Expected::read(&mut open(bytes))?;
    assert!(expected.count() > 0, "nothing is expected");
    side.plan.run(&side.devices, &side.options, &mut expected)?;
    assert_eq!(expected.found(), expected.count());
    Ok(expected.differences().is_empty())
}

/// The first executable of a capture.
fn executable_of(bytes: &[u8]) -> Vec<u8> {
    let mut reader = open(bytes);
    while let Some(record) = reader.next_record().expect("it is whole") {
        let header = &record.header;
        if header.operation_code == operation::EXECUTABLE_CACHE_PREPARE_EXECUTABLE && header.status_code == 0 {
            let payload = reader.payload(&record, u64::MAX).expect("it is whole");
            return ExecutablePrepareParts::read(&payload).expect("it is whole").data.to_vec();
        }
    }
    panic!("there is no executable");
}

/// The captures of the fixtures, with the dispatches of each.
fn fixtures() -> Vec<(&'static str, u64)> {
    let mut all = vec![("runs/chain", 6), ("runs/softmax", 1), ("runs/calls_bytecode", 2)];
    if MACHINE_CODE {
        all.extend([("abs", 1), ("runs/fences", 2), ("runs/layernorm", 2), ("runs/two_devices", 1), ("runs/calls", 2)]);
        all.extend([("runs/waits", 0), ("parameters", 1)]);
    }
    all
}

#[test]
fn devices_that_compute_the_same_do_not_differ() {
    for (name, dispatches) in fixtures() {
        let bytes = capture(name);
        let found = Side::new(&bytes, "local-sync").diff(&Side::new(&bytes, "local-task"), Comparison::default());
        let found = found.unwrap_or_else(|status| panic!("{name}: {status}"));
        assert_eq!((found.dispatches, &found.first, found.lone_reads), (dispatches, &None, 0), "{name}");
    }
}

/// The dispatches of a comparison, with whether they are equal, and the bytes that it saves.
#[derive(Default)]
struct Saved {
    compared: Vec<(SteppedDispatch, bool)>,
    bytes: BTreeMap<(u64, usize, String), Vec<u8>>,
}

impl WatchDiff for Saved {
    fn compared(&mut self, dispatches: &[SteppedDispatch; 2], is_equal: bool) -> Result<()> {
        self.compared.push((dispatches[0].clone(), is_equal));
        Ok(())
    }

    fn wants_contents(&self) -> bool {
        true
    }

    fn contents(&mut self, number: u64, binding: usize, of: ContentsOf, bytes: &[u8]) -> Result<()> {
        self.bytes.entry((number, binding, format!("{of:?}"))).or_default().extend_from_slice(bytes);
        Ok(())
    }
}

/// Kernels with a byte that was drawn: the dispatch that is named is the first one whose results are wrong for the
/// inputs that it should have, which captures of single dispatches show without a comparison of replays.
#[test]
fn the_first_dispatch_that_computes_wrong_is_named() {
    let bytes = capture("runs/chain");
    let good = Side::new(&bytes, "local-sync");
    let singles: Vec<Vec<u8>> = (0..6).map(|number| good.minimized(number, None).expect("it is there").1).collect();
    let original = executable_of(&bytes);
    let usual = reads_of(&good.plan, &good.options).expect("it is replayed");
    let (mut draw, mut named) = (Draw(1), BTreeMap::new());
    for turn in 0..100 {
        let mut executable = original.clone();
        let place = draw.below(executable.len() as u64) as usize;
        executable[place] ^= 1 << draw.below(8);
        let bad = Side::with(&bytes, "local-sync", &executable);
        let Ok(found) = good.diff(&bad, Comparison::default()) else { continue };
        let first_wrong = singles.iter().position(|single| {
            let side = Side::with(single, "local-sync", &executable);
            !is_as_expected(single, &side).expect("it ran in the comparison")
        });
        match &found.first {
            None => {
                assert_eq!(first_wrong, None, "mutant {turn}");
                assert_eq!(reads_of(&bad.plan, &bad.options).expect("it is replayed"), usual, "mutant {turn}");
            }
            Some(FirstDifference::Results { dispatches, bindings, cause }) => {
                assert_eq!(cause, &Cause::Dispatch, "mutant {turn}");
                assert_eq!(Some(dispatches[0].number as usize), first_wrong, "mutant {turn}");
                *named.entry(dispatches[0].number).or_insert(0) += 1;
                let (binding, range) = &bindings[0];
                let single = &singles[dispatches[0].number as usize];
                // It still shows the difference, with the executable in it.
                let (minimized, wrong) = bad.minimized(dispatches[0].number, Some(&good)).expect("it is replayed");
                assert_eq!(minimized.dispatch.function, dispatches[0].function);
                assert!(!is_as_expected(&wrong, &Side::new(&wrong, "local-task")).expect("it is replayed"));
                let found =
                    Side::new(single, "local-sync").diff(&Side::new(&wrong, "local-sync"), Comparison::default());
                match found.expect("they are replayed").first {
                    Some(FirstDifference::Results { bindings, .. }) => assert_eq!(&bindings[0], &(*binding, *range)),
                    other => panic!("mutant {turn}: {other:?}"),
                }
            }
            other => panic!("mutant {turn}: {other:?}"),
        }
    }
    println!("{named:?}");
    assert!(named.values().sum::<i32>() > 3 && named.len() > 1, "{named:?}");
}

/// A mutant that computes something else in its third dispatch.
fn wrong_in_the_third(bytes: &[u8]) -> Vec<u8> {
    static FOUND: OnceLock<Vec<u8>> = OnceLock::new();
    let find = || {
        let original = executable_of(bytes);
        let good = Side::new(bytes, "local-sync");
        let mut draw = Draw(3);
        for turn in 0..2000 {
            let mut executable = original.clone();
            let place = draw.below(executable.len() as u64) as usize;
            executable[place] ^= 1 << draw.below(8);
            let found = good.diff(&Side::with(bytes, "local-sync", &executable), Comparison::default());
            if let Ok(Diff { first: Some(FirstDifference::Results { dispatches, .. }), .. }) = found
                && dispatches[0].number == 2
            {
                println!("mutant {turn}, byte {place}");
                return executable;
            }
        }
        panic!("no mutant computes something else there");
    };
    FOUND.get_or_init(find).clone()
}

#[test]
fn contents_of_the_dispatch_that_differs_are_saved() {
    let bytes = capture("runs/chain");
    let executable = wrong_in_the_third(&bytes);
    let (good, bad) = (Side::new(&bytes, "local-sync"), Side::with(&bytes, "local-task", &executable));
    let mut saved = Saved::default();
    let found = diff([good.get(), bad.get()], &Comparison::default(), &mut saved).expect("they are replayed");
    assert_eq!(saved.compared.iter().map(|(_, is_equal)| *is_equal).collect::<Vec<_>>(), [true, true, false]);
    let Some(FirstDifference::Results { dispatches, bindings, .. }) = found.first else { panic!("{found:?}") };
    let contents = |binding: usize, of: &str| &saved.bytes[&(2, binding, of.to_string())];
    for (binding, range) in dispatches[0].bindings.iter().enumerate() {
        assert_eq!(contents(binding, "Input(0)").len() as u64, range.length);
        assert_eq!(contents(binding, "Input(0)"), contents(binding, "Input(1)"));
        let differs = bindings.iter().find(|(other, _)| *other == binding);
        let (one, other) = (contents(binding, "Output(0)"), contents(binding, "Output(1)"));
        let first = one.iter().zip(other).position(|(one, other)| one != other);
        assert_eq!(first.map(|place| place as u64), differs.map(|(_, range)| range.first.offset), "{binding}");
    }
    // Elements of another type, with a tolerance that is wide enough for numbers.
    let wide = Comparison { elements: CompareAs::F32, absolute: 1e30, ..Comparison::default() };
    assert_eq!(good.diff(&bad, wide).expect("they are replayed").first, None);
}

/// Two captures that go apart: which function the other side dispatches, or that it has no more.
#[test]
fn other_dispatches_are_told() {
    let (chain, softmax) = (capture("runs/chain"), capture("runs/softmax"));
    let (one, other) = (Side::new(&chain, "local-sync"), Side::new(&softmax, "local-sync"));
    let found = one.diff(&other, Comparison::default()).expect("they are replayed");
    let Some(FirstDifference::Functions(dispatches)) = found.first else { panic!("{found:?}") };
    let names = dispatches.map(|dispatch| dispatch.map(|dispatch| dispatch.function).unwrap_or_default());
    assert!(names[0].contains("matmul") && names[1].contains("softmax"), "{names:?}");
    // The capture of a part: what follows is missing on the other side.
    let short = one.minimized(0, None).expect("it is there").1;
    let found = one.diff(&Side::new(&short, "local-sync"), Comparison::default()).expect("they are replayed");
    assert_eq!(found.dispatches, 1);
    let Some(FirstDifference::Functions(dispatches)) = found.first else { panic!("{found:?}") };
    assert!(dispatches[0].as_ref().is_some_and(|dispatch| dispatch.number == 1) && dispatches[1].is_none());
}

/// Each dispatch of each capture alone has the results that it has among the others.
#[test]
fn dispatches_have_captures_of_their_own() {
    for (name, dispatches) in fixtures() {
        let bytes = capture(name);
        let side = Side::new(&bytes, "local-sync");
        for number in 0..dispatches {
            let (minimized, single) = side.minimized(number, None).unwrap_or_else(|status| panic!("{name}: {status}"));
            assert_eq!(minimized.dispatch.number, number);
            for device in ["local-sync", "local-task"] {
                let is_good = is_as_expected(&single, &Side::new(&single, device));
                assert!(is_good.unwrap_or_else(|status| panic!("{name}, {number}: {status}")), "{name}, {number}");
            }
            let found = Side::new(&single, "local-sync").plan.blocks_serial_replay();
            assert!(matches!(found, Ok(None)), "{name}: {found:?}");
        }
        let status = side.minimized(dispatches, None).expect_err("there are no more");
        assert_eq!(status.code(), StatusCode::NotFound, "{name}");
    }
}

#[test]
fn expected_outputs_of_another_function_are_refused() {
    let (chain, softmax) = (capture("runs/chain"), capture("runs/softmax"));
    let (one, other) = (Side::new(&chain, "local-sync"), Side::new(&softmax, "local-sync"));
    let status = one.minimized(0, Some(&other)).expect_err("it is another function");
    assert_eq!(status.code(), StatusCode::FailedPrecondition);
}

/// The least capture for which a wrong kernel still shows: a test decides, and what it needs stays.
#[test]
fn captures_are_reduced_by_a_test() {
    let bytes = capture("runs/chain");
    let executable = wrong_in_the_third(&bytes);
    let function = |side: &Side, other: &Side| match side.diff(other, Comparison::default()) {
        Ok(Diff { first: Some(FirstDifference::Results { dispatches, .. }), .. }) => {
            Some(dispatches[0].function.clone())
        }
        _ => None,
    };
    let shows = |bytes: &[u8]| {
        let Ok(plan) = plan_of(bytes) else { return None };
        drop(plan);
        function(&Side::new(bytes, "local-sync"), &Side::with(bytes, "local-sync", &executable))
    };
    let expected = shows(&bytes).expect("it shows");
    let mut test = |candidate: &mut Candidate<'_>| {
        let mut out = Cursor::new(Vec::new());
        candidate.write(&mut out)?;
        let is_it = shows(&out.into_inner()).as_ref() == Some(&expected);
        Ok(if is_it { Verdict::Interesting } else { Verdict::Boring })
    };
    let mut out = Cursor::new(Vec::new());
    let reduced = reduce(&mut open(&bytes), None, &mut test, &mut out).expect("it is reduced");
    let least = out.into_inner();
    assert_eq!(shows(&least).as_ref(), Some(&expected));
    assert!(reduced.is_least && reduced.records * 2 < reduced.of, "{reduced:?}");
    // A second reduction finds nothing more.
    let again = reduce(&mut open(&least), None, &mut test, Cursor::new(Vec::new())).expect("it is reduced");
    assert_eq!(again.records, reduced.records);
    // A test may look for records that no replay needs.
    let queries = |bytes: &[u8]| {
        let (mut reader, mut count) = (open(bytes), 0);
        while let Some(record) = reader.next_record().expect("it is whole") {
            count += usize::from(record.header.operation_code == operation::DEVICE_QUERY_I64);
        }
        count
    };
    let mut asks = |candidate: &mut Candidate<'_>| {
        let mut out = Cursor::new(Vec::new());
        candidate.write(&mut out)?;
        Ok(if queries(&out.into_inner()) > 0 { Verdict::Interesting } else { Verdict::Boring })
    };
    let reduced = reduce(&mut open(&bytes), None, &mut asks, Cursor::new(Vec::new())).expect("it is reduced");
    assert!(queries(&bytes) > 0 && reduced.records < reduced.of, "{reduced:?}");
    let status = reduce(&mut open(&bytes), None, &mut |_| Ok(Verdict::Boring), Cursor::new(Vec::new()));
    assert_eq!(status.expect_err("it is not interesting").code(), StatusCode::FailedPrecondition);
    let mut count = 0;
    let mut stops = |_: &mut Candidate<'_>| {
        count += 1;
        Ok(if count > 2 { Verdict::Stop } else { Verdict::Interesting })
    };
    let reduced = reduce(&mut open(&bytes), None, &mut stops, Cursor::new(Vec::new())).expect("it has what it has");
    assert!(!reduced.is_least && reduced.tests == 3, "{reduced:?}");
}
