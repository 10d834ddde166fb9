//! The sanitizer finds the bugs of `fixtures/sanitizer/seeds.s`: each at its line, with its work-group and lane, and
//! nothing else.

use std::ffi::CString;
use std::sync::atomic::Ordering;

use vireo_hsa::hsa::{Executable, ExecutableSymbol, ExecutableSymbolInfo};
use vireo_hsa::packet::{BarrierAndPacket, KernelDispatchPacket};
use vireo_hsa::packets::Order;
use vireo_hsa::signal::Signal;
use vireo_softhsa::sanitize::{Checks, Finding, Report, Site};
use vireo_softhsa::{check_result, take_reports};

use crate::support::*;

const SOURCE: &str = include_str!("../../../../../../fixtures/sanitizer/seeds.s");
const SEEDS: &[u8] = include_bytes!("../../../../../../fixtures/sanitizer/seeds.co");

/// Work-items of a grid: two work-groups of two waves.
const ITEMS: u32 = 128;
const ORDER: Order = Order::SYSTEM;

/// A session that checks everything, with a queue.
struct Checked {
    kernarg: Memory,
    executable: Executable,
    // Dropped last: after it, the next test may get the addresses of this one.
    session: Session,
}

impl Checked {
    fn new(checks: &str) -> Self {
        let session = Session::interpreted(&format!("sanitize={checks}"));
        // Reports that tests before have not looked at.
        take_reports();
        let executable = load(session.gpu(), SEEDS).expect("the kernels are loaded");
        let kernarg = session.kernarg_memory(4096);
        Checked { kernarg, executable, session }
    }

    fn kernel(&self, name: &str) -> u64 {
        let name = CString::new(format!("{name}.kd")).expect("a name");
        let (mut symbol, mut object) = (ExecutableSymbol(0), 0u64);
        let (name, agent) = (name.as_ptr().cast(), std::ptr::null());
        assert_eq!(hsa!(hsa_executable_get_symbol_by_name(self.executable, name, agent, &raw mut symbol)), OK);
        let attribute = ExecutableSymbolInfo::KERNEL_OBJECT;
        assert_eq!(hsa!(hsa_executable_symbol_get_info(symbol, attribute, (&raw mut object).cast())), OK);
        object
    }

    fn packet(&self, name: &str, data: u64, order: Order, completion: Signal) -> [u8; 64] {
        self.kernarg.store(0, data);
        let (kernel, kernarg) = (self.kernel(name), self.kernarg.address);
        let packet = KernelDispatchPacket::new(order, kernel, kernarg, [64, 1, 1], [ITEMS, 1, 1]).expect("a packet");
        let group_segment_size = if name.contains("group") || name == "right" { 256 } else { 0 };
        KernelDispatchPacket { completion_signal: completion, group_segment_size, ..packet }.to_bytes()
    }

    /// Runs a kernel and waits for it.
    fn run(&self, name: &str, data: u64) -> Vec<Report> {
        let completion = self.session.signal(1);
        let queue = Queue::new(self.session.gpu(), 64);
        queue.submit(&[self.packet(name, data, ORDER, completion)]);
        while value_of(completion).load(Ordering::Acquire) != 0 {
            assert_eq!(queue.error.0.load(Ordering::Acquire), 0, "{name} stopped its queue");
            std::thread::yield_now();
        }
        take_reports()
    }

    /// Device memory that the host has filled with words that no kernel stores.
    fn filled(&self, bytes: u64) -> Memory {
        let memory = self.session.device_memory(bytes);
        assert_eq!(optional!(hsa_amd_memory_fill(memory.pointer(), u32::MAX, bytes / 4)), OK);
        memory
    }
}

/// `seeds.s:N` of the line with this mark.
fn line(mark: &str) -> String {
    let index = SOURCE.lines().position(|line| line.trim_end().ends_with(&format!("// {mark}"))).expect("a mark");
    format!("seeds.s:{}", index + 1)
}

/// Checks the only report: what and where it is, the work-group, the wave and the lane, and how many lanes did it.
fn expect(
    reports: &[Report],
    name: &str,
    finding: Finding,
    (group, wave, lane): (u32, u32, u32),
    count: u64,
) -> Report {
    let text = reports.iter().map(Report::to_string).collect::<Vec<_>>().join("\n");
    let [report] = reports else { panic!("{name}: {} reports: {text}", reports.len()) };
    assert_eq!(report.finding, finding, "{text}");
    let site = site_of(report);
    assert_eq!(site.kernel, name, "{text}");
    assert_eq!(site.place.source, Some(line(&format!("BUG {name}"))), "{text}");
    assert_eq!((site.group, site.wave, site.lane), ([group, 0, 0], wave, Some(lane)), "{text}");
    assert_eq!(report.count, count, "{text}");
    report.clone()
}

/// The instruction that a report is about.
fn site_of(report: &Report) -> &Site {
    report.site.as_ref().unwrap_or_else(|| panic!("no instruction: {report}"))
}

/// Checks the other access of a race.
fn expect_other(report: &Report, mark: &str, (group, wave, lane): (u32, u32, u32)) {
    let site = &report.other.as_ref().unwrap_or_else(|| panic!("no other access: {report}")).site;
    assert_eq!(site.place.source, Some(line(mark)), "{report}");
    assert_eq!((site.group, site.wave, site.lane), ([group, 0, 0], wave, Some(lane)), "{report}");
}

const ALL: &str = "memory+race+init";

#[test]
fn a_right_kernel_is_not_reported() {
    let checked = Checked::new(ALL);
    let data = checked.session.device_memory(512);
    let reports = checked.run("right", data.address);
    assert!(reports.is_empty(), "{}", reports[0]);
    assert_eq!(data.load(0), 66 << 32 | 64);
}

#[test]
fn accesses_past_the_end_are_found() {
    let checked = Checked::new(ALL);
    // Less than what pages have.
    let data = checked.filled(500);
    let reports = checked.run("store_past_end", data.address);
    let report = expect(&reports, "store_past_end", Finding::OutOfBounds, (1, 1, 29), 3);
    assert_eq!(report.address, data.address + 500);
    let allocation = report.allocation.as_ref().expect("an allocation");
    assert_eq!((allocation.start, allocation.length, allocation.offset), (data.address, 500, 500));
    assert_eq!(site_of(&report).place.instruction, "global_store_b32 v2, v0, s[2:3]");
    assert_eq!(data.load(0), 1 << 32, "the other lanes store");
    let data = checked.filled(512);
    let reports = checked.run("load_past_end", data.address);
    expect(&reports, "load_past_end", Finding::OutOfBounds, (1, 1, 31), 1);
}

#[test]
fn accesses_of_freed_memory_are_found() {
    let checked = Checked::new(ALL);
    let address = checked.filled(1024).address;
    // The next allocation gets another address.
    let next = checked.filled(1024);
    assert_ne!(next.address, address);
    let reports = checked.run("use_after_free", address);
    let report = expect(&reports, "use_after_free", Finding::UseAfterFree, (0, 0, 0), ITEMS.into());
    let allocation = report.allocation.expect("an allocation");
    let by = allocation.freed_by.expect("who freed it");
    assert!(by.starts_with("the thread `") && by.contains("accesses_of_freed_memory_are_found"), "{by}");
    assert_eq!((allocation.start, allocation.length, allocation.offset), (address, 1024, 0));
}

#[test]
fn accesses_past_the_memory_of_a_work_group_are_found() {
    let checked = Checked::new(ALL);
    let reports = checked.run("group_past_end", 0);
    let report = expect(&reports, "group_past_end", Finding::GroupOutOfBounds, (0, 1, 31), 2);
    assert_eq!((report.address, report.group_bytes), (256, Some(256)));
}

#[test]
fn races_in_the_memory_of_a_work_group_are_found() {
    let checked = Checked::new("race");
    let reports = checked.run("group_race", 0);
    // Wave 0 loads before wave 1 stores, so the store of wave 1 is the second access here, and its load another one.
    let loads: Vec<Report> = reports.iter().filter(|report| report.access.to_string() == "load").cloned().collect();
    let report = expect(&loads, "group_race", Finding::GroupRace, (0, 1, 0), 64);
    expect_other(&report, "OTHER group_race", (0, 0, 0));
    assert!(
        reports.iter().all(|report| report.finding == Finding::GroupRace && site_of(report).kernel == "group_race")
    );
}

#[test]
fn races_of_waves_in_device_memory_are_found() {
    let checked = Checked::new("race");
    let data = checked.filled(512);
    let reports = checked.run("wave_race", data.address);
    let loads: Vec<Report> = reports.iter().filter(|report| report.access.to_string() == "load").cloned().collect();
    let report = expect(&loads, "wave_race", Finding::Race, (0, 1, 0), 64);
    expect_other(&report, "OTHER wave_race", (0, 0, 0));
    assert_eq!(reports.len(), 2, "and the stores of wave 1, of what wave 0 loaded");
}

/// Each work-group stores the same words: that harms no result, and is told to those who ask.
#[test]
fn races_of_work_groups_that_store_the_same_are_told_apart() {
    let checked = Checked::new(ALL);
    let data = checked.filled(512);
    let reports = checked.run("grid_race", data.address);
    assert!(reports.is_empty(), "{}", reports[0]);
    drop((data, checked));
    let checked = Checked::new("race-same-value");
    let data = checked.filled(512);
    let reports = checked.run("grid_race", data.address);
    let report = expect(&reports, "grid_race", Finding::SameValueRace, (1, 0, 0), 64);
    expect_other(&report, "BUG grid_race", (0, 0, 0));
    assert!(!report.finding.is_harmful());
    // Others are what they are without it.
    let data = checked.filled(512);
    let reports = checked.run("wave_race", data.address);
    assert_eq!(reports.len(), 2);
    assert!(reports.iter().all(|report| report.finding == Finding::Race));
}

/// Runs the kernel on two queues that begin once the host lets them; the second one waits for the first one if it
/// should.
fn on_two_queues(checked: &Checked, waits: bool) -> Vec<Report> {
    let data = checked.filled(512);
    let (gate, first, second) = (checked.session.signal(1), checked.session.signal(1), checked.session.signal(1));
    let barrier = |waited: &[Signal]| {
        let mut signals = [Signal(0); 5];
        signals[..waited.len()].copy_from_slice(waited);
        BarrierAndPacket::new(ORDER, signals).expect("a packet").to_bytes()
    };
    let queues = [0, 1].map(|_| Queue::new(checked.session.gpu(), 64));
    let packet = |completion| checked.packet("queue_race", data.address, ORDER, completion);
    queues[0].submit(&[barrier(&[gate]), packet(first)]);
    let waited = if waits { vec![gate, first] } else { vec![gate] };
    queues[1].submit(&[barrier(&waited), packet(second)]);
    hsa!(hsa_signal_store_screlease(gate, 0));
    wait(first);
    wait(second);
    take_reports()
}

#[test]
fn races_of_queues_are_found() {
    let checked = Checked::new(ALL);
    let reports = on_two_queues(&checked, false);
    // Which queue is the second one, and how much they overlap, differs; that they race does not.
    assert!(!reports.is_empty());
    for report in &reports {
        let other = report.other.as_ref().expect("another access");
        assert_eq!(report.finding, Finding::Race, "{report}");
        assert_ne!(site_of(report).queue, other.site.queue, "{report}");
        let places = ["BUG queue_race", "OTHER queue_race"].map(|mark| Some(line(mark)));
        assert!(
            places.contains(&site_of(report).place.source) && places.contains(&other.site.place.source),
            "{report}"
        );
    }
    let reports = on_two_queues(&checked, true);
    assert!(reports.is_empty(), "{}", reports[0]);
}

#[test]
fn loads_of_memory_that_nobody_wrote_are_found() {
    let checked = Checked::new(ALL);
    let data = checked.session.device_memory(512);
    // The host writes without a call of the library: the first word of the second work-group.
    data.store(32, 7);
    let reports = checked.run("uninitialized", data.address);
    let report = expect(&reports, "uninitialized", Finding::Uninitialized, (0, 0, 0), u64::from(ITEMS) - 2);
    assert_eq!((report.address, report.length), (data.address + 2, 2));
    let reports = checked.run("group_uninitialized", 0);
    expect(&reports, "group_uninitialized", Finding::GroupUninitialized, (0, 1, 0), 64);
}

/// Bytes that a kernel left out of its results are told where they leave the device; no kernel reads them.
#[test]
fn results_that_nobody_wrote_are_found() {
    for writes in ["visible", "until-acquire", "until-flush"] {
        let checked = Checked::new(&format!("{ALL},host-writes={writes}"));
        let data = checked.session.device_memory(520);
        // It writes the first 64 words.
        assert!(checked.run("grid_race", data.address).is_empty());
        check_result(data.address, 256, "result[0]");
        assert!(take_reports().is_empty());
        check_result(data.address, 512, "result[0]");
        if writes == "visible" {
            // The host wrote the last two words.
            data.store(64, 7);
            check_result(data.address + 512, 8, "result[1]");
        }
        let reports = take_reports();
        let [report] = reports.as_slice() else { panic!("{} reports", reports.len()) };
        let exit = report.exit.as_ref().expect("bytes that leave the device");
        assert_eq!((exit.name.as_str(), exit.bytes, exit.unwritten, exit.offset), ("result[0]", 512, 256, 256));
        assert_eq!((report.finding, report.address), (Finding::UnwrittenResult, data.address + 256));
    }
}

#[test]
fn only_what_is_asked_for_is_checked() {
    let checked = Checked::new("init");
    let data = checked.filled(512);
    assert!(checked.run("grid_race", data.address).is_empty());
    assert!(checked.run("group_past_end", 0).is_empty());
    drop((data, checked));
    let unchecked = Session::interpreted("");
    assert_eq!(vireo_softhsa::active_checks(), Some(Checks::default()));
    // Device memory is as it is without checks.
    assert_eq!(unchecked.device_memory(512).load(0), 0);
    assert!(take_reports().is_empty());
}

#[test]
fn memory_of_the_host_is_poisoned_in_all_its_copies() {
    for writes in ["until-acquire", "until-flush"] {
        let checked = Checked::new(&format!("{ALL},host-writes={writes}"));
        let data = checked.session.device_memory(512);
        let reports = checked.run("uninitialized", data.address);
        expect(&reports, "uninitialized", Finding::Uninitialized, (0, 0, 0), ITEMS.into());
    }
}
