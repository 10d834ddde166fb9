//! Signals: their functions, waits, and values that programs change directly.

use std::ffi::c_void;
use std::sync::atomic::{AtomicI64, Ordering};

use vireo_hsa::hsa::{CBool, HsaStatus, WaitState};
use vireo_hsa::signal::{Signal, SignalCondition};

use crate::support::*;

#[test]
fn functions_change_the_value_in_memory() {
    let session = Session::new("");
    let signal = session.signal(5);
    assert_eq!(signal.0 % 64, 0);
    assert_eq!(value_of(signal).load(Ordering::Relaxed), 5);
    optional!(hsa_signal_add_scacq_screl(signal, 7));
    assert_eq!(hsa!(hsa_signal_load_relaxed(signal)), 12);
    optional!(hsa_signal_subtract_relaxed(signal, 2));
    assert_eq!(optional!(hsa_signal_exchange_scacquire(signal, 0b1100)), 10);
    optional!(hsa_signal_and_screlease(signal, 0b0110));
    optional!(hsa_signal_or_relaxed(signal, 0b0001));
    optional!(hsa_signal_xor_relaxed(signal, 0b1111));
    assert_eq!(optional!(hsa_signal_cas_relaxed(signal, 1, 99)), 0b1010, "not as expected");
    assert_eq!(optional!(hsa_signal_cas_relaxed(signal, 0b1010, i64::MAX)), 0b1010);
    optional!(hsa_signal_add_relaxed(signal, 1));
    assert_eq!(hsa!(hsa_signal_load_scacquire(signal)), i64::MIN, "it wraps");
    hsa!(hsa_signal_store_screlease(signal, -1));
    optional!(hsa_signal_silent_store_relaxed(signal, 3));
    assert_eq!(hsa!(hsa_signal_load_scacquire(signal)), 3);
    assert_eq!(hsa!(hsa_signal_destroy(signal)), OK);
    assert_eq!(hsa!(hsa_signal_destroy(signal)), HsaStatus::ERROR_INVALID_SIGNAL);
}

#[test]
fn waits_end_when_another_thread_stores() {
    let session = Session::new("");
    let signal = session.signal(0);
    std::thread::scope(|scope| {
        let waiter = scope
            .spawn(|| hsa!(hsa_signal_wait_scacquire(signal, SignalCondition::GTE, 3, u64::MAX, WaitState::BLOCKED)));
        for value in [1, 2, 3] {
            hsa!(hsa_signal_store_relaxed(signal, value));
        }
        assert_eq!(waiter.join().unwrap(), 3);
        // A program may also store without a function.
        let waiter = scope
            .spawn(|| hsa!(hsa_signal_wait_scacquire(signal, SignalCondition::EQ, -7, u64::MAX, WaitState::ACTIVE)));
        value_of(signal).store(-7, Ordering::Release);
        assert_eq!(waiter.join().unwrap(), -7);
        // One that is destroyed changes no more.
        let waiter = scope
            .spawn(|| hsa!(hsa_signal_wait_scacquire(signal, SignalCondition::EQ, 1, u64::MAX, WaitState::BLOCKED)));
        assert_eq!(hsa!(hsa_signal_destroy(signal)), OK);
        assert!([0, -7].contains(&waiter.join().unwrap()));
    });
}

#[test]
fn a_wait_without_time_returns_the_value() {
    let session = Session::new("");
    let signal = session.signal(4);
    let value = hsa!(hsa_signal_wait_scacquire(signal, SignalCondition::EQ, 5, 0, WaitState::BLOCKED));
    assert_eq!(value, 4);
    let value = optional!(hsa_signal_wait_relaxed(signal, SignalCondition::NE, 4, 1000, WaitState::BLOCKED));
    assert_eq!(value, 4);
    let unknown = hsa!(hsa_signal_wait_scacquire(signal, SignalCondition(9), 5, u64::MAX, WaitState::BLOCKED));
    assert_eq!(unknown, 0, "there is no such condition");
}

fn wait_any(signals: &mut [Signal], operands: &mut [i64], timeout: u64) -> (u32, i64) {
    let mut conditions = vec![SignalCondition::LT; signals.len()];
    let mut value = 77;
    let (count, values) = (signals.len() as u32, operands.as_mut_ptr());
    let (list, conditions, state) = (signals.as_mut_ptr(), conditions.as_mut_ptr(), WaitState::BLOCKED);
    let index = hsa!(hsa_amd_signal_wait_any(count, list, conditions, values, timeout, state, &raw mut value));
    (index, value)
}

#[test]
fn one_of_some_signals_ends_a_wait() {
    let session = Session::new("");
    let mut signals = [session.signal(1), session.signal(1), session.signal(1)];
    let mut operands = [1, 1, 1];
    assert_eq!(wait_any(&mut signals, &mut operands, 0), (u32::MAX, 77));
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| wait_any(&mut signals.clone(), &mut operands.clone(), u64::MAX));
        optional!(hsa_signal_subtract_screlease(signals[1], 4));
        assert_eq!(waiter.join().unwrap(), (1, -3));
    });
    signals[0] = Signal(64);
    assert_eq!(wait_any(&mut signals, &mut operands, u64::MAX), (u32::MAX, 77), "one is not there");
    assert_eq!(wait_any(&mut [], &mut [], u64::MAX), (u32::MAX, 77));
}

#[test]
fn handlers_are_called_until_they_have_enough() {
    unsafe extern "C" fn handler(value: i64, data: *mut c_void) -> CBool {
        // SAFETY: `data` are the counters below, which outlive the session.
        let [calls, signal] = unsafe { &*data.cast::<[AtomicI64; 2]>() };
        calls.fetch_add(value, Ordering::Relaxed);
        hsa!(hsa_signal_store_relaxed(Signal(signal.load(Ordering::Relaxed) as u64), 0));
        CBool((calls.load(Ordering::Relaxed) < 6).into())
    }
    let state = [AtomicI64::new(0), AtomicI64::new(0)];
    let session = Session::new("");
    let signal = session.signal(0);
    state[1].store(signal.0 as i64, Ordering::Relaxed);
    let argument = (&raw const state).cast_mut().cast();
    let condition = SignalCondition::GTE;
    assert_eq!(optional!(hsa_amd_signal_async_handler(signal, condition, 1, Some(handler), argument)), OK);
    for value in [1, 2, 3] {
        hsa!(hsa_signal_store_relaxed(signal, value));
        hsa!(hsa_signal_wait_scacquire(signal, SignalCondition::EQ, 0, u64::MAX, WaitState::BLOCKED));
    }
    assert_eq!(state[0].load(Ordering::Relaxed), 6);
    // It returned false, so it is called no more, and another one can be registered.
    hsa!(hsa_signal_store_relaxed(signal, 9));
    assert_eq!(hsa!(hsa_signal_load_relaxed(signal)), 9);
    assert_eq!(optional!(hsa_amd_signal_async_handler(signal, condition, 1, Some(handler), argument)), OK);
    hsa!(hsa_signal_wait_scacquire(signal, SignalCondition::EQ, 0, u64::MAX, WaitState::BLOCKED));
    assert_eq!(state[0].load(Ordering::Relaxed), 15);
    let wrong = optional!(hsa_amd_signal_async_handler(signal, SignalCondition(8), 1, Some(handler), argument));
    assert_eq!(wrong, HsaStatus::ERROR_INVALID_ARGUMENT);
}

/// A handler that wants to go on until the other one was called, and whose signal keeps its value.
#[test]
fn a_handler_that_goes_on_lets_others_be_called() {
    unsafe extern "C" fn again(_: i64, data: *mut c_void) -> CBool {
        // SAFETY: `data` is the value below, which outlives the session.
        let was_called = unsafe { &*data.cast::<AtomicI64>() };
        CBool((was_called.load(Ordering::Acquire) == 0).into())
    }
    unsafe extern "C" fn once(value: i64, data: *mut c_void) -> CBool {
        // SAFETY: `data` is the value below, which outlives the session.
        unsafe { &*data.cast::<AtomicI64>() }.store(value, Ordering::Release);
        CBool(0)
    }
    let called = AtomicI64::new(0);
    let session = Session::new("");
    let (first, second) = (session.signal(1), session.signal(0));
    let argument = (&raw const called).cast_mut().cast();
    let condition = SignalCondition::GTE;
    assert_eq!(optional!(hsa_amd_signal_async_handler(first, condition, 1, Some(again), argument)), OK);
    assert_eq!(optional!(hsa_amd_signal_async_handler(second, condition, 1, Some(once), argument)), OK);
    hsa!(hsa_signal_store_relaxed(second, 5));
    while called.load(Ordering::Acquire) != 5 {
        std::thread::yield_now();
    }
}
