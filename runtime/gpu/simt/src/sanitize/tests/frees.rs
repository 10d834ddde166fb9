//! Frees that nothing orders after the accesses before them.

use super::*;

/// A use by a running kernel, then a free in another queue: what is found.
fn found(use_it: impl FnOnce(&Words, &mut dyn GroupHook)) -> Vec<String> {
    let (sanitizer, memory) = sanitizer("memory,race", 4096);
    sanitizer.written(BASE, 4096);
    let kernel = begin(&sanitizer, 1, 0, true, 1, 1);
    let hook = sanitizer.hook(&kernel, &memory);
    let mut group = hook.start_group([0, 0, 0], 64);
    use_it(&memory, &mut *group);
    let free = begin(&sanitizer, 2, 0, true, 1, 1);
    sanitizer.frees(&free, BASE, 4096, "free".into(), Arc::new(()));
    // It comes too late.
    assert!(!access(&memory, &mut *group, 9, 0, Access::Load, BASE + 64));
    sanitizer.finish(&free);
    sanitizer.take_reports().iter().map(Report::to_string).collect()
}

#[test]
fn a_use_that_nothing_orders_before_a_free_is_found() {
    let loads = found(|memory, group| _ = access(memory, group, 1, 0, Access::Load, BASE + 8));
    assert!(loads[0].starts_with("use after free: load of 4 bytes at 0x100008\n    in kernel+0x0 (0x1)"), "{loads:?}");
    assert!(loads[0].contains("nothing orders it before"), "{loads:?}");
    assert!(loads[1].starts_with("use after free: load of 4 bytes at 0x100040"), "{loads:?}");
    // A store that was shown, and that may not have been made yet.
    let store = (Access::Store, 4, false, Space::Global);
    let stores = found(|_, group| _ = show(group, 2, 0, store, BASE + 16));
    assert!(
        stores[0].starts_with("use after free: store of 4 bytes at 0x100010\n    in kernel+0x0 (0x2)"),
        "{stores:?}"
    );
    assert_eq!(found(|_, _| ()).len(), 1);
}
