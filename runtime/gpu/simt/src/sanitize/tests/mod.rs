//! Accesses as an interpreter shows them, and what is found.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::*;
use crate::memory::{Access, AccessHook, GroupHook, Port, Region, RowAccess, Space};
use crate::row::LANES;

mod frees;

const BASE: u64 = 0x10_0000;

/// Memory of some words at [`BASE`].
struct Words(Box<[AtomicU64]>);

// SAFETY: the words are atomics, and live as long as the value.
unsafe impl Memory for Words {
    fn region(&self, address: u64) -> Option<Region> {
        let (length, host) = (self.0.len() as u64 * 8, self.0.as_ptr().cast::<u8>().cast_mut());
        let region = Region { start: BASE, length, host, writable: true, padding: 0 };
        (address.wrapping_sub(BASE) < length).then_some(region)
    }
}

struct Kernel;

impl Code for Kernel {
    fn kernel(&self) -> &str {
        "kernel"
    }

    fn place(&self, instruction: u64) -> Place {
        Place { address: instruction, ..Place::default() }
    }
}

/// A sanitizer with an allocation of `length` bytes in 4096.
fn sanitizer(checks: &str, length: u64) -> (Sanitizer, Words) {
    let memory = Words((0..512).map(|index| poison_pair(BASE + 8 * index)).collect());
    let sanitizer = Sanitizer::new(checks.parse().unwrap(), Limits::default(), None);
    let what = "memory".to_string();
    sanitizer.allocated(BlockInfo { start: BASE, length, padding: 0, reserved: 8192, poisoned: true, what });
    (sanitizer, memory)
}

fn poison_pair(address: u64) -> AtomicU64 {
    AtomicU64::new(u64::from(poison(address + 4)) << 32 | u64::from(poison(address)))
}

fn begin(sanitizer: &Sanitizer, queue: u64, packet: u64, barrier: bool, groups: u32, waves: u32) -> RunningDispatch {
    sanitizer.packet(queue, packet, barrier);
    sanitizer.begin(NewDispatch { code: Arc::new(Kernel), queue, packet, groups: [groups, 1, 1], waves })
}

/// An access of four bytes by lane 3 of a wave; the address of the instruction says which access it is.
fn access(memory: &Words, hook: &mut dyn GroupHook, instruction: u64, wave: u32, kind: Access, address: u64) -> bool {
    access_of(memory, hook, instruction, wave, (kind, 4, kind == Access::Atomic, Space::Global), address)
}

/// An access of lane 3; a store changes the bytes.
fn access_of(
    memory: &Words,
    hook: &mut dyn GroupHook,
    instruction: u64,
    wave: u32,
    (access, length, atomic, space): (Access, u32, bool, Space),
    address: u64,
) -> bool {
    let allowed = show(hook, instruction, wave, (access, length, atomic, space), address);
    if allowed && access == Access::Store && space == Space::Global {
        let mut port = Port::new(memory);
        for byte in address..address + u64::from(length) {
            // There is less memory than some tests say.
            let _ = port.load_u8(byte).and_then(|old| port.store_u8(byte, old.wrapping_add(1)));
        }
    }
    settle(hook, wave, 1);
    allowed
}

/// An access, without its effect.
fn show(
    hook: &mut dyn GroupHook,
    instruction: u64,
    wave: u32,
    (access, length, atomic, space): (Access, u32, bool, Space),
    address: u64,
) -> bool {
    let addresses = [address; LANES];
    let row =
        RowAccess { instruction, wave, mask: 8, scalar: false, addresses: &addresses, length, access, atomic, space };
    hook.access(&row, &[0; 64]) == 8
}

/// A store of a word.
fn store(memory: &Words, hook: &mut dyn GroupHook, instruction: u64, wave: u32, (address, value): (u64, u32)) {
    assert!(show(hook, instruction, wave, (Access::Store, 4, false, Space::Global), address));
    Port::new(memory).store_words(address, [value]).unwrap();
    settle(hook, wave, 0);
}

/// A store of a word to the memory of the work-group, which leaves its bytes, zeros before, like this.
fn store_local(hook: &mut dyn GroupHook, instruction: u64, wave: u32, after: u8) {
    assert!(show(hook, instruction, wave, (Access::Store, 4, false, Space::Group), 0));
    settle(hook, wave, after);
}

/// An instruction without active lanes, after which the one before it has been made. The work-groups of a dispatch run
/// one after the other and do not need this, but those of tests take turns.
///
/// `local` is in all bytes of the memory of the work-group.
fn settle(hook: &mut dyn GroupHook, wave: u32, local: u8) {
    let addresses = [0; LANES];
    let (access, space) = (Access::Load, Space::Global);
    let row = RowAccess {
        instruction: 0,
        wave,
        mask: 0,
        scalar: false,
        addresses: &addresses,
        length: 4,
        access,
        atomic: false,
        space,
    };
    hook.access(&row, &[local; 64]);
}

/// The findings, with the instructions of both accesses.
fn found(sanitizer: &Sanitizer) -> Vec<(Finding, u64, Option<u64>)> {
    let other = |report: &Report| report.other.as_ref().map(|other| other.site.place.address);
    let reports = sanitizer.take_reports();
    reports
        .iter()
        .map(|report| (report.finding, report.site.as_ref().map_or(0, |site| site.place.address), other(report)))
        .collect()
}

#[test]
fn accesses_out_of_bounds_and_after_a_free_are_refused() {
    let (sanitizer, memory) = sanitizer("memory", 100);
    let dispatch = begin(&sanitizer, 1, 7, true, 2, 1);
    let hook = sanitizer.hook(&dispatch, &memory);
    let mut group = hook.start_group([1, 0, 0], 64);
    assert!(access(&memory, &mut *group, 1, 0, Access::Load, BASE + 96));
    assert!(!access(&memory, &mut *group, 2, 0, Access::Store, BASE + 97));
    assert!(!access(&memory, &mut *group, 2, 0, Access::Store, BASE + 200));
    assert!(!access(&memory, &mut *group, 3, 0, Access::Load, BASE - 4));
    let local = (Access::Load, 4, false, Space::Group);
    assert!(access_of(&memory, &mut *group, 4, 0, local, 60) && !access_of(&memory, &mut *group, 5, 0, local, 61));
    assert!(!access_of(&memory, &mut *group, 5, 0, local, u64::MAX - 1));
    sanitizer.freed(BASE, "free".into(), Arc::new(()));
    assert!(!access(&memory, &mut *group, 6, 0, Access::Load, BASE + 8));
    let reports = sanitizer.take_reports();
    let text: Vec<String> = reports.iter().map(Report::to_string).collect();
    assert_eq!(
        text[0],
        "out of bounds: store of 4 bytes at 0x100061\n    in kernel+0x0 (0x2)\n      work-group (1, 0, 0), wave 0, lane 3, \
         queue 1, packet 7\n    memory: byte 97 of memory of 100 bytes at 0x100000\n    2 accesses like this"
    );
    assert!(text[1].contains("memory: 4 bytes before memory of 100 bytes"), "{}", text[1]);
    assert!(text[2].contains("the work-group has 64 bytes\n    2 accesses"), "{}", text[2]);
    assert!(text[3].ends_with("byte 8 of memory of 100 bytes at 0x100000, freed by free"), "{}", text[3]);
    let findings: Vec<&str> = reports.iter().map(|report| report.finding.name()).collect();
    assert_eq!(findings, ["out-of-bounds", "out-of-bounds", "group-out-of-bounds", "use-after-free"]);
}

#[test]
fn bytes_that_nobody_wrote_are_found() {
    let (sanitizer, memory) = sanitizer("init", 4096);
    let dispatch = begin(&sanitizer, 1, 0, true, 1, 1);
    let hook = sanitizer.hook(&dispatch, &memory);
    let mut group = hook.start_group([0, 0, 0], 64);
    access_of(&memory, &mut *group, 1, 0, (Access::Store, 2, false, Space::Global), BASE);
    access_of(&memory, &mut *group, 2, 0, (Access::Load, 2, false, Space::Global), BASE);
    access(&memory, &mut *group, 3, 0, Access::Load, BASE);
    // The host writes without a call, and with one.
    memory.0[1].store(0, std::sync::atomic::Ordering::Relaxed);
    access_of(&memory, &mut *group, 4, 0, (Access::Load, 8, false, Space::Global), BASE + 8);
    sanitizer.written(BASE + 16, 4);
    access(&memory, &mut *group, 5, 0, Access::Load, BASE + 16);
    access(&memory, &mut *group, 6, 0, Access::Load, BASE + 20);
    access_of(&memory, &mut *group, 7, 0, (Access::Store, 4, false, Space::Group), 0);
    access_of(&memory, &mut *group, 8, 0, (Access::Load, 4, false, Space::Group), 0);
    access_of(&memory, &mut *group, 9, 0, (Access::Load, 8, false, Space::Group), 0);
    let expected = [(Finding::Uninitialized, 3), (Finding::Uninitialized, 6), (Finding::GroupUninitialized, 9)];
    assert_eq!(found(&sanitizer), expected.map(|(finding, instruction)| (finding, instruction, None)));
}

#[test]
fn barriers_order_the_waves_of_a_work_group_and_no_others() {
    let (sanitizer, memory) = sanitizer("race", 4096);
    let dispatch = begin(&sanitizer, 1, 0, true, 2, 2);
    let hook = sanitizer.hook(&dispatch, &memory);
    let [mut one, mut two] = [0, 1].map(|group| hook.start_group([group, 0, 0], 64));
    access(&memory, &mut *one, 1, 0, Access::Store, BASE);
    access(&memory, &mut *one, 2, 0, Access::Load, BASE);
    access_of(&memory, &mut *one, 3, 0, (Access::Store, 4, false, Space::Group), 0);
    // Bytes next to each other do not race.
    access_of(&memory, &mut *one, 4, 0, (Access::Store, 1, false, Space::Global), BASE + 8);
    access_of(&memory, &mut *one, 4, 1, (Access::Store, 1, false, Space::Global), BASE + 9);
    (0..2).for_each(|wave| one.barrier(wave, &[0; 64]));
    access(&memory, &mut *one, 5, 1, Access::Load, BASE);
    access_of(&memory, &mut *one, 6, 1, (Access::Load, 4, false, Space::Group), 0);
    assert_eq!(found(&sanitizer), []);
    access_of(&memory, &mut *one, 7, 0, (Access::Store, 4, false, Space::Group), 0);
    access(&memory, &mut *one, 8, 0, Access::Store, BASE);
    access(&memory, &mut *two, 9, 0, Access::Load, BASE);
    (0..2).for_each(|wave| two.barrier(wave, &[0; 64]));
    access(&memory, &mut *two, 10, 1, Access::Store, BASE + 8);
    let expected = [
        (Finding::GroupRace, 7, Some(6)),
        (Finding::Race, 8, Some(5)),
        (Finding::Race, 9, Some(8)),
        (Finding::Race, 10, Some(4)),
    ];
    assert_eq!(found(&sanitizer), expected);
}

#[test]
fn the_reads_of_several_waves_race_with_a_write() {
    // Whichever of the readers writes, the other one's read is found.
    for writer in 0..3 {
        let (sanitizer, memory) = sanitizer("race", 4096);
        let dispatch = begin(&sanitizer, 1, 0, true, 3, 1);
        let hook = sanitizer.hook(&dispatch, &memory);
        let mut groups = [0, 1, 2].map(|group| hook.start_group([group, 0, 0], 0));
        for group in &mut groups {
            access(&memory, &mut **group, 1, 0, Access::Load, BASE);
        }
        access(&memory, &mut *groups[writer], 2, 0, Access::Store, BASE);
        assert_eq!(found(&sanitizer), [(Finding::Race, 2, Some(1))], "{writer}");
    }
}

#[test]
fn atomic_accesses_order_what_is_before_them() {
    let (sanitizer, memory) = sanitizer("race", 4096);
    let dispatch = begin(&sanitizer, 1, 0, true, 4, 1);
    let hook = sanitizer.hook(&dispatch, &memory);
    let mut groups = [0, 1, 2, 3].map(|group| hook.start_group([group, 0, 0], 0));
    let (flag, data) = (BASE + 64, BASE);
    access(&memory, &mut *groups[0], 1, 0, Access::Store, data);
    access(&memory, &mut *groups[0], 2, 0, Access::Atomic, flag);
    access(&memory, &mut *groups[1], 3, 0, Access::Atomic, flag);
    access(&memory, &mut *groups[1], 4, 0, Access::Load, data);
    assert_eq!(found(&sanitizer), []);
    // A load that polls is enough, also for a flag that is stored.
    access(&memory, &mut *groups[1], 5, 0, Access::Store, flag + 4);
    access_of(&memory, &mut *groups[2], 6, 0, (Access::Load, 4, true, Space::Global), flag + 4);
    access(&memory, &mut *groups[2], 7, 0, Access::Load, data);
    assert_eq!(found(&sanitizer), []);
    access(&memory, &mut *groups[3], 8, 0, Access::Load, data);
    access(&memory, &mut *groups[3], 9, 0, Access::Store, flag);
    assert_eq!(found(&sanitizer), [(Finding::Race, 8, Some(1)), (Finding::Race, 9, Some(3))]);
}

/// A wave that learns of another work-group passes it on at the next barrier, also to waves that access nothing before
/// the one after it, and if it ends before the barrier.
#[test]
fn barriers_pass_on_what_waves_know_that_end() {
    for barriers in [0, 1] {
        let (sanitizer, memory) = sanitizer("race", 4096);
        let dispatch = begin(&sanitizer, 1, 0, true, 2, 3);
        let hook = sanitizer.hook(&dispatch, &memory);
        let mut groups = [0, 1].map(|group| hook.start_group([group, 0, 0], 0));
        access(&memory, &mut *groups[0], 1, 0, Access::Store, BASE);
        access(&memory, &mut *groups[0], 2, 0, Access::Atomic, BASE + 64);
        access(&memory, &mut *groups[1], 3, 0, Access::Atomic, BASE + 64);
        for _ in 0..barriers {
            (0..3).for_each(|wave| groups[1].barrier(wave, &[0; 64]));
        }
        // Wave 0 ends.
        (1..3).for_each(|wave| groups[1].barrier(wave, &[0; 64]));
        access(&memory, &mut *groups[1], 4, 1, Access::Load, BASE);
        assert_eq!(found(&sanitizer), [], "{barriers} barriers");
        // Without the barrier it would be one.
        let mut other = hook.start_group([1, 0, 0], 0);
        access(&memory, &mut *other, 5, 2, Access::Store, BASE);
        assert_eq!(found(&sanitizer).len(), 1);
    }
}

/// A kernel that passes very many barriers uses no more memory than the limit, is not to blame for that, and what races
/// later is found.
#[test]
fn the_memory_for_moments_is_bounded() {
    let limits = Limits { shadow: 1 << 20, ..Limits::default() };
    let sanitizer = Sanitizer::new("race".parse().unwrap(), limits, None);
    let memory = Words((0..512).map(|_| AtomicU64::new(0)).collect());
    let dispatch = begin(&sanitizer, 1, 0, true, 1, 2);
    let hook = sanitizer.hook(&dispatch, &memory);
    let mut group = hook.start_group([0; 3], 64);
    for turn in 0..20_000u64 {
        let local = (Access::Store, 4, false, Space::Group);
        access_of(&memory, &mut *group, 1, turn as u32 & 1, local, 0);
        access(&memory, &mut *group, 2, turn as u32 & 1, Access::Store, BASE);
        (0..2).for_each(|wave| group.barrier(wave, &[0; 64]));
    }
    assert!(sanitizer.state().sites.all.len() < 10_000);
    assert_eq!(found(&sanitizer), []);
    let warnings = sanitizer.take_warnings();
    assert_eq!(warnings.iter().map(|warning| warning.unchecked).collect::<Vec<_>>(), [Unchecked::EarlierAccesses]);
    access(&memory, &mut *group, 3, 0, Access::Store, BASE);
    access(&memory, &mut *group, 4, 1, Access::Store, BASE);
    access_of(&memory, &mut *group, 5, 0, (Access::Store, 4, false, Space::Group), 0);
    access_of(&memory, &mut *group, 6, 1, (Access::Store, 4, false, Space::Group), 0);
    assert_eq!(found(&sanitizer), [(Finding::Race, 4, Some(3)), (Finding::GroupRace, 6, Some(5))]);
}

/// Two dispatches that store to the same word, the second after what `between` tells of.
fn two_stores(queues: [u64; 2], barrier: bool, between: impl Fn(&Sanitizer)) -> usize {
    let (sanitizer, memory) = sanitizer("race", 4096);
    sanitizer.submitted(queues[0], 1);
    sanitizer.submitted(queues[1], 2);
    let first = begin(&sanitizer, queues[0], 0, false, 1, 1);
    access(&memory, &mut *sanitizer.hook(&first, &memory).start_group([0; 3], 0), 1, 0, Access::Store, BASE);
    sanitizer.complete(&first, Some(77));
    between(&sanitizer);
    let second = begin(&sanitizer, queues[1], 1, barrier, 1, 1);
    access(&memory, &mut *sanitizer.hook(&second, &memory).start_group([0; 3], 0), 2, 0, Access::Store, BASE);
    sanitizer.complete(&second, None);
    found(&sanitizer).len()
}

#[test]
fn packets_are_ordered_by_barriers_signals_and_submission() {
    assert_eq!(two_stores([1, 1], true, |_| {}), 0);
    assert_eq!(two_stores([1, 1], false, |_| {}), 1);
    assert_eq!(two_stores([1, 2], true, |_| {}), 1);
    assert_eq!(two_stores([1, 2], false, |sanitizer| sanitizer.waited(2, 77)), 0);
    assert_eq!(two_stores([1, 2], false, |sanitizer| sanitizer.waited(2, 78)), 1);
    assert_eq!(two_stores([1, 2], false, |sanitizer| sanitizer.waited_for_memory(2)), 0);
    // Another queue passes it on.
    let chain = |sanitizer: &Sanitizer| {
        sanitizer.packet(3, 0, false);
        sanitizer.waited(3, 77);
        sanitizer.signalled_by_queue(3, 79);
        sanitizer.waited(2, 79);
    };
    assert_eq!(two_stores([1, 2], false, chain), 0);
    // The host changes a signal once it knows that the first is complete.
    let host = |sanitizer: &Sanitizer| {
        sanitizer.signalled_by_host(80);
        sanitizer.waited(2, 80);
    };
    assert_eq!(two_stores([1, 2], false, host), 0);
}

#[test]
fn what_is_submitted_after_completion_is_ordered() {
    let (sanitizer, memory) = sanitizer("race", 4096);
    for packet in 0..3 {
        // Another queue each time, which knows nothing but the time.
        sanitizer.submitted(packet, 1);
        let dispatch = begin(&sanitizer, packet, 0, false, 1, 1);
        access(&memory, &mut *sanitizer.hook(&dispatch, &memory).start_group([0; 3], 0), 1, 0, Access::Store, BASE);
        sanitizer.complete(&dispatch, None);
    }
    assert_eq!(found(&sanitizer), []);
}

/// The limits of the sanitizer are no mistakes of kernels. Each is told once, also if the warnings are taken in
/// between.
#[test]
fn memory_that_is_used_up_is_a_warning_and_no_finding() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell: Tell = {
        let told = told.clone();
        Box::new(move |text| told.lock().unwrap().push(text.to_string()))
    };
    let limits = Limits { shadow: 30_000, ..Limits::default() };
    let sanitizer = Sanitizer::new("race,init".parse().unwrap(), limits, Some(tell));
    let memory = Words((0..4096).map(|_| AtomicU64::new(0)).collect());
    let what = "memory".to_string();
    sanitizer.allocated(BlockInfo { start: BASE, length: 81_920, padding: 0, reserved: 81_920, poisoned: true, what });
    let dispatch = begin(&sanitizer, 1, 0, true, 1, 1);
    let hook = sanitizer.hook(&dispatch, &memory);
    let mut group = hook.start_group([0; 3], 0);
    for page in 0..4 {
        assert!(access(&memory, &mut *group, page, 0, Access::Store, BASE + 4096 * page), "it is made all the same");
    }
    assert_eq!(found(&sanitizer), []);
    let races = Warning { unchecked: Unchecked::Races, kernel: Some("kernel".into()), limit: 30_000 };
    assert_eq!(sanitizer.take_warnings(), [races]);
    for page in 4..7 {
        assert!(access(&memory, &mut *group, page, 0, Access::Store, BASE + 4096 * page));
    }
    for page in 0..20 {
        sanitizer.written(BASE + 4096 * page, 2);
    }
    let rest = sanitizer.take_warnings();
    let rest: Vec<_> = rest.iter().map(|warning| (warning.unchecked, warning.limit)).collect();
    assert_eq!(rest, [(Unchecked::PartsOfWords, 30_000)]);
    assert_eq!(found(&sanitizer), []);
    let told = told.lock().unwrap();
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(
        told[0],
        "warning: the 30000 bytes of shadow memory are used up; memory that was not accessed before is not checked for races\n    \
         since kernel"
    );
}

/// Compilers join loads to an aligned one that ends after an allocation. The bytes after it are neither out of bounds
/// nor unwritten; those before its end are looked at.
#[test]
fn an_aligned_load_may_end_in_the_padding() {
    let (sanitizer, memory) = sanitizer("memory+init", 4096);
    let padded =
        BlockInfo { start: BASE, length: 20, padding: 12, reserved: 4096, poisoned: true, what: "memory".to_string() };
    sanitizer.allocated(padded);
    sanitizer.written(BASE, 20);
    let dispatch = begin(&sanitizer, 1, 0, true, 1, 1);
    let hook = sanitizer.hook(&dispatch, &memory);
    let mut group = hook.start_group([0; 3], 0);
    let mut is_allowed = |instruction, kind, length, address| {
        access_of(&memory, &mut *group, instruction, 0, (kind, length, false, Space::Global), address)
    };
    assert!(is_allowed(1, Access::Load, 16, BASE + 16));
    assert!(!is_allowed(2, Access::Store, 16, BASE + 16));
    assert!(!is_allowed(3, Access::Load, 8, BASE + 20), "not aligned, and not in it");
    assert!(!is_allowed(4, Access::Load, 32, BASE), "longer than any instruction");
    assert_eq!(
        found(&sanitizer).iter().map(|found| (found.0, found.1)).collect::<Vec<_>>(),
        [(Finding::OutOfBounds, 2), (Finding::OutOfBounds, 3), (Finding::OutOfBounds, 4)]
    );
}

/// Findings that were kept when a bound was reached are there, and the rest is not passed over in silence.
#[test]
fn findings_after_the_last_that_is_kept_are_a_warning() {
    let limits = Limits { reports: 2, ..Limits::default() };
    let sanitizer = Sanitizer::new("memory".parse().unwrap(), limits, None);
    let memory = Words((0..8).map(|_| AtomicU64::new(0)).collect());
    let dispatch = begin(&sanitizer, 1, 0, true, 1, 1);
    let hook = sanitizer.hook(&dispatch, &memory);
    let mut group = hook.start_group([0; 3], 0);
    for instruction in [1, 2, 2, 3, 4] {
        assert!(!access(&memory, &mut *group, instruction, 0, Access::Load, 8));
    }
    assert_eq!(found(&sanitizer), [(Finding::OutOfBounds, 1, None), (Finding::OutOfBounds, 2, None)]);
    let more = Warning { unchecked: Unchecked::MoreFindings, kernel: Some("kernel".into()), limit: 2 };
    assert_eq!(sanitizer.take_warnings(), [more]);
}

/// A grid with more waves than can be numbered is not checked for races, and that is told.
#[test]
fn a_dispatch_with_too_many_waves_is_a_warning() {
    let (sanitizer, _) = sanitizer("race", 4096);
    sanitizer.packet(1, 0, true);
    let groups = [1 << 16, 1 << 16, 1];
    sanitizer.begin(NewDispatch { code: Arc::new(Kernel), queue: 1, packet: 0, groups, waves: 1 });
    let warnings: Vec<_> = sanitizer.take_warnings().iter().map(|warning| warning.unchecked).collect();
    assert_eq!(warnings, [Unchecked::EarlierAccesses, Unchecked::Dispatch]);
}

#[test]
fn checks_are_read_from_text() {
    assert_eq!("memory,init".parse(), Ok(Checks { memory: true, init: true, ..Checks::default() }));
    assert_eq!("race-same-value".parse(), Ok(Checks { race: true, same_value: true, ..Checks::default() }));
    assert_eq!("race".parse::<Checks>().unwrap().or("init".parse().unwrap()), "race+init".parse().unwrap());
    assert_eq!(
        "all".parse::<Checks>().unwrap_err().to_string(),
        "`all` is not one of memory, race, race-same-value, init"
    );
}

/// The findings of two waves of each of two work-groups, which do what `run` says, with and without the class of equal
/// values.
fn both_classes(run: impl Fn(&Words, &mut [Box<dyn GroupHook + '_>; 2])) -> [Vec<(Finding, u64, Option<u64>)>; 2] {
    ["race", "race-same-value"].map(|checks| {
        let (sanitizer, memory) = sanitizer(checks, 4096);
        let dispatch = begin(&sanitizer, 1, 0, true, 2, 2);
        let hook = sanitizer.hook(&dispatch, &memory);
        let mut groups = [0, 1].map(|group| hook.start_group([group, 0, 0], 64));
        run(&memory, &mut groups);
        drop(groups);
        found(&sanitizer)
    })
}

/// Waves that store the same value to the same word do no harm, whichever is the last.
#[test]
fn stores_of_the_same_value_are_a_class_of_their_own() {
    let same = |memory: &Words, [one, two]: &mut [Box<dyn GroupHook + '_>; 2]| {
        store(memory, &mut **one, 1, 0, (BASE, 7));
        store(memory, &mut **one, 2, 1, (BASE, 7));
        store(memory, &mut **two, 3, 0, (BASE, 7));
    };
    let [harmful, all] = both_classes(same);
    assert_eq!(harmful, []);
    assert_eq!(all, [(Finding::SameValueRace, 2, Some(1)), (Finding::SameValueRace, 3, Some(1))]);
    // Another value is harmful, also if there were equal ones in between.
    let other = |memory: &Words, groups: &mut [Box<dyn GroupHook + '_>; 2]| {
        same(memory, groups);
        store(memory, &mut *groups[1], 4, 1, (BASE, 8));
    };
    let [harmful, all] = both_classes(other);
    assert_eq!(harmful, [(Finding::Race, 4, Some(1))]);
    assert_eq!(all.len(), 3);
    assert_eq!(all[2], harmful[0]);
}

/// The same in the memory of a work-group, where stores of other bytes are a race.
#[test]
fn stores_of_the_same_value_to_a_work_group_are_of_that_class_too() {
    let same = |_: &Words, [one, _]: &mut [Box<dyn GroupHook + '_>; 2]| {
        store_local(&mut **one, 1, 0, 7);
        store_local(&mut **one, 2, 1, 0);
    };
    assert_eq!(both_classes(same), [vec![], vec![(Finding::SameValueRace, 2, Some(1))]]);
    let other = |_: &Words, [one, _]: &mut [Box<dyn GroupHook + '_>; 2]| {
        store_local(&mut **one, 1, 0, 7);
        store_local(&mut **one, 2, 1, 8);
    };
    let race = vec![(Finding::GroupRace, 2, Some(1))];
    assert_eq!(both_classes(other), [race.clone(), race]);
    // Nothing was there before the first store, so it changes bytes, whatever they are.
    let first = |memory: &Words, [one, _]: &mut [Box<dyn GroupHook + '_>; 2]| {
        store_local(&mut **one, 1, 0, 0);
        access_of(memory, &mut **one, 2, 1, (Access::Load, 4, false, Space::Group), 0);
    };
    assert_eq!(both_classes(first)[0], [(Finding::GroupRace, 2, Some(1))]);
    // The last store of a work-group that ends is compared with its memory, and that of one that was stopped is not.
    let last = |ends: bool| {
        both_classes(|_, [one, _]| {
            store_local(&mut **one, 1, 0, 7);
            assert!(show(&mut **one, 2, 1, (Access::Store, 4, false, Space::Group), 0));
            if ends {
                one.end(&[0; 64]);
            }
        })
    };
    assert_eq!(last(true)[0], []);
    assert_eq!(last(false)[0], [(Finding::GroupRace, 2, Some(1))]);
}

/// A wave that stores what is there already and one that stores something else race, in either order.
#[test]
fn a_store_that_changes_nothing_races_with_one_that_does() {
    let after = |memory: &Words, [one, _]: &mut [Box<dyn GroupHook + '_>; 2]| {
        let old = poison(BASE);
        store(memory, &mut **one, 1, 0, (BASE, old));
        store(memory, &mut **one, 2, 1, (BASE, 8));
    };
    assert_eq!(both_classes(after)[0], [(Finding::Race, 2, Some(1))]);
    let before = |memory: &Words, [one, _]: &mut [Box<dyn GroupHook + '_>; 2]| {
        let old = poison(BASE);
        store(memory, &mut **one, 1, 1, (BASE, 8));
        store(memory, &mut **one, 2, 0, (BASE, old));
    };
    assert_eq!(both_classes(before)[0], [(Finding::Race, 2, Some(1))]);
}

/// A read that nothing orders with a store sees the old or the new bytes, so it is harmless only if these are equal.
#[test]
fn reads_race_with_stores_that_change_the_bytes() {
    let load = (Access::Load, 4, false, Space::Global);
    // Of bytes that all stores leave as they are.
    let equal = |memory: &Words, [one, two]: &mut [Box<dyn GroupHook + '_>; 2]| {
        let old = poison(BASE);
        show(&mut **one, 1, 0, load, BASE);
        store(memory, &mut **two, 2, 0, (BASE, old));
        show(&mut **one, 3, 1, load, BASE);
    };
    let [harmful, all] = both_classes(equal);
    assert_eq!(harmful, []);
    assert_eq!(all, [(Finding::SameValueRace, 2, Some(1)), (Finding::SameValueRace, 3, Some(2))]);
    // The second store changes nothing, but the first one does, and a reader may come before it.
    let changed = |memory: &Words, [one, two]: &mut [Box<dyn GroupHook + '_>; 2]| {
        store(memory, &mut **one, 1, 0, (BASE, 7));
        store(memory, &mut **one, 2, 1, (BASE, 7));
        show(&mut **two, 3, 0, load, BASE);
    };
    assert_eq!(both_classes(changed)[0], [(Finding::Race, 3, Some(1))]);
    // A wave reads, and then stores; had the other one stored before, it would have read something else.
    let updated = |memory: &Words, [one, _]: &mut [Box<dyn GroupHook + '_>; 2]| {
        show(&mut **one, 1, 0, load, BASE);
        store(memory, &mut **one, 2, 0, (BASE, 7));
        show(&mut **one, 3, 0, load, BASE);
        store(memory, &mut **one, 4, 1, (BASE, 7));
    };
    assert_eq!(both_classes(updated)[0], [(Finding::Race, 4, Some(1))]);
    // After a barrier it would not have.
    let ordered = |memory: &Words, [one, _]: &mut [Box<dyn GroupHook + '_>; 2]| {
        show(&mut **one, 1, 0, load, BASE);
        (0..2).for_each(|wave| one.barrier(wave, &[0; 64]));
        store(memory, &mut **one, 2, 0, (BASE, 7));
        store(memory, &mut **one, 4, 1, (BASE, 7));
    };
    assert_eq!(both_classes(ordered), [vec![], vec![(Finding::SameValueRace, 4, Some(2))]]);
}

/// Of a store of several words some may be equal; if one differs, the store is harmful.
#[test]
fn each_word_of_a_store_counts() {
    let wide = |memory: &Words, hook: &mut dyn GroupHook, instruction, wave, words: [u32; 2]| {
        assert!(show(hook, instruction, wave, (Access::Store, 8, false, Space::Global), BASE));
        Port::new(memory).store_words(BASE, words).unwrap();
        settle(hook, wave, 0);
    };
    let differ = |memory: &Words, [one, _]: &mut [Box<dyn GroupHook + '_>; 2]| {
        wide(memory, &mut **one, 1, 0, [7, 8]);
        wide(memory, &mut **one, 2, 1, [9, 8]);
        wide(memory, &mut **one, 3, 1, [9, 8]);
    };
    let [harmful, _] = both_classes(differ);
    assert_eq!(harmful, [(Finding::Race, 2, Some(1)), (Finding::Race, 3, Some(1))].as_slice()[..1]);
    // A byte of a word.
    let bytes = |memory: &Words, [one, _]: &mut [Box<dyn GroupHook + '_>; 2]| {
        for (instruction, wave, value) in [(1, 0, 3), (2, 1, 3), (3, 1, 4)] {
            assert!(show(&mut **one, instruction, wave, (Access::Store, 1, false, Space::Global), BASE + 5));
            Port::new(memory).store_u8(BASE + 5, value).unwrap();
            settle(&mut **one, wave, 0);
        }
    };
    let [harmful, all] = both_classes(bytes);
    assert_eq!(harmful, [(Finding::Race, 3, Some(1))]);
    assert_eq!(all[0], (Finding::SameValueRace, 2, Some(1)));
}

/// The bytes that an atomic access leaves depend on the order, even if a store after it changes nothing.
#[test]
fn a_store_of_what_an_atomic_access_left_is_harmful() {
    let after = |memory: &Words, [one, _]: &mut [Box<dyn GroupHook + '_>; 2]| {
        show(&mut **one, 1, 0, (Access::Atomic, 4, true, Space::Global), BASE);
        Port::new(memory).store_words(BASE, [5]).unwrap();
        store(memory, &mut **one, 2, 1, (BASE, 5));
    };
    assert_eq!(both_classes(after)[0], [(Finding::Race, 2, Some(1))]);
}

/// Results that leave the device are looked at byte by byte, also where a kernel wrote a part of a word.
#[test]
fn unwritten_bytes_that_leave_the_device_are_found() {
    let (sanitizer, memory) = sanitizer("init", 4094);
    let dispatch = begin(&sanitizer, 1, 0, true, 1, 1);
    let hook = sanitizer.hook(&dispatch, &memory);
    let mut group = hook.start_group([0; 3], 0);
    for byte in (0..12).filter(|byte| *byte != 5 && *byte != 6) {
        access_of(&memory, &mut *group, byte, 0, (Access::Store, 1, false, Space::Global), BASE + byte);
    }
    drop(group);
    sanitizer.leaves(BASE, 5, "written", &memory);
    sanitizer.leaves(BASE + 7, 5, "written, too", &memory);
    sanitizer.leaves(BASE + 4092, 3, "more than there is", &memory);
    sanitizer.leaves(BASE, 0, "nothing", &memory);
    assert_eq!(found(&sanitizer), []);
    sanitizer.leaves(BASE + 1, 10, "result[0]", &memory);
    sanitizer.leaves(BASE + 1, 10, "result[0]", &memory);
    sanitizer.leaves(BASE + 4090, 4, "the end", &memory);
    let reports = sanitizer.take_reports();
    let text: Vec<String> = reports.iter().map(Report::to_string).collect();
    assert_eq!(
        text,
        [
            "memory that was never written leaves the device: 2 of 10 bytes\n    in result[0], the first at byte 4\n    memory: byte 5 of \
             memory of 4094 bytes at 0x100000\n    2 accesses like this",
            "memory that was never written leaves the device: 4 of 4 bytes\n    in the end, the first at byte 0\n    memory: byte 4090 of \
             memory of 4094 bytes at 0x100000"
        ]
    );
    assert!(reports.iter().all(|report| report.finding == Finding::UnwrittenResult && report.finding.is_harmful()));
    // The host writes the rest of a word, and what kernels wrote stays what it is.
    memory.0[0].fetch_xor(0xFF << 40, std::sync::atomic::Ordering::Relaxed);
    sanitizer.leaves(BASE, 12, "result[0]", &memory);
    sanitizer.leaves(BASE, 13, "more", &memory);
    let left = sanitizer.take_reports();
    let exit = left[0].exit.as_ref().unwrap();
    assert_eq!((left.len(), exit.name.as_str(), exit.unwritten, exit.offset), (1, "more", 1, 12));
}

/// A store is looked at once something else happens in its work-group, but those who poll it see it as soon as it is
/// made.
#[test]
fn a_store_that_is_polled_orders_at_once() {
    let (sanitizer, memory) = sanitizer("race", 4096);
    let dispatch = begin(&sanitizer, 1, 0, true, 2, 1);
    let hook = sanitizer.hook(&dispatch, &memory);
    let mut groups = [0, 1].map(|group| hook.start_group([group, 0, 0], 0));
    access(&memory, &mut *groups[0], 1, 0, Access::Store, BASE);
    assert!(show(&mut *groups[0], 2, 0, (Access::Store, 4, false, Space::Global), BASE + 64));
    show(&mut *groups[1], 3, 0, (Access::Load, 4, true, Space::Global), BASE + 64);
    show(&mut *groups[1], 4, 0, (Access::Load, 4, false, Space::Global), BASE);
    drop(groups);
    assert_eq!(found(&sanitizer), []);
}
