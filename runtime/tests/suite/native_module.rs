//! `#[vm_module]`: calls reach the methods with typed arguments, and what does not fit is refused.

use std::task::Waker;
use std::time::Instant;

use vireo::abi::Step;
use vireo::vm::{BoxedWaitSource, Buffer, Call, List, NativeModule, Obj, Outcome, Ref, Value, WaitSource};
use vireo::{Result, StatusCode, vm_module};

struct Custom {
    scale: f32,
}

#[derive(Default)]
struct State {
    calls: i32,
    ready: bool,
}

struct Soon;

impl WaitSource for Soon {
    fn is_ready(&self) -> bool {
        true
    }

    fn block(&self, _deadline: Option<Instant>) {}

    fn wake(&self, waker: &Waker) -> Result<()> {
        waker.wake_by_ref();
        Ok(())
    }
}

#[vm_module(name = "custom", version = 3)]
impl Custom {
    #[vm_state]
    fn new_state(&self) -> Result<State> {
        Ok(State::default())
    }

    #[vm_export("nothing")]
    fn nothing(&self, state: &mut State) -> Result<()> {
        state.calls += 1;
        Ok(())
    }

    #[vm_export("calls")]
    fn calls(&self, state: &mut State) -> Result<i32> {
        Ok(state.calls)
    }

    #[vm_export("numbers")]
    fn numbers(&self, a: i32, b: u64, c: f32, d: f64, e: bool) -> Result<(f64, bool, u32, i64, f32)> {
        Ok((d * f64::from(c * self.scale), !e, a as u32, b as i64, c))
    }

    #[vm_export("spans")]
    fn spans(&self, dims: &[i64], pairs: Vec<(i32, Obj<Buffer>, Option<Ref>)>) -> Result<i64> {
        let lengths: usize = pairs.iter().map(|(_, buffer, _)| buffer.len()).sum();
        let nulls = pairs.iter().filter(|(_, _, reference)| reference.is_none()).count();
        Ok(dims.iter().sum::<i64>() + lengths as i64 * 100 + nulls as i64 * 1000)
    }

    #[vm_export("same")]
    fn same(&self, list: Obj<List>, any: Option<Ref>) -> Result<(Ref, Option<Obj<List>>)> {
        Ok((list.into_ref(), any.map(Ref::cast).transpose()?))
    }

    #[vm_export("wait")]
    fn wait(&self, state: &mut State, token: Ref) -> Result<Step<Ref>> {
        if std::mem::replace(&mut state.ready, true) {
            return Ok(Step::Return(token));
        }
        Ok(Step::Wait(BoxedWaitSource::new(Soon)))
    }
}

fn call(module: &Custom, state: &mut State, name: &str, call: &mut Call) -> Result<Outcome> {
    let ordinal = module.exports().iter().position(|export| export.name == name).unwrap();
    module.call(ordinal, state, call)
}

fn with(words: &[u64], refs: Vec<Option<Ref>>) -> Call {
    Call { words: words.into(), refs, ..Call::default() }
}

fn buffer(length: usize) -> Option<Ref> {
    Some(Ref::new(Buffer::allocate(length, 0).unwrap()))
}

#[test]
fn conventions_are_derived_from_the_methods() {
    let module = Custom { scale: 2.0 };
    assert_eq!((module.name(), module.version()), ("custom", 3));
    let conventions: Vec<_> = module.exports().iter().map(|export| (export.name, export.convention)).collect();
    assert_eq!(
        conventions,
        [
            ("nothing", "0v_v"),
            ("calls", "0v_i"),
            ("numbers", "0iIfFi_FiiIf"),
            ("spans", "0CIDCirrD_I"),
            ("same", "0rr_rr"),
            ("wait", "0r_r"),
        ]
    );
}

#[test]
fn numbers_cross_both_ways() {
    let (module, mut state) = (Custom { scale: 2.0 }, State::default());
    // The high half of a 32-bit argument is whatever the caller had there.
    let words = [0xDEAD_0000_0000_0007, u64::MAX, u64::from(1.5f32.to_bits()), 4f64.to_bits(), 1];
    let mut arguments = with(&words, vec![]);
    call(&module, &mut state, "numbers", &mut arguments).unwrap();
    let results = [12f64.to_bits(), 0, 7, u64::MAX, u64::from(1.5f32.to_bits())];
    assert_eq!(arguments.result_words.as_slice(), results);
}

#[test]
fn spans_and_references_are_checked() {
    let (module, mut state) = (Custom { scale: 1.0 }, State::default());
    let mut good = with(&[3, 1, 2, 3, 2, 0, 0], vec![buffer(4), None, buffer(5), buffer(6)]);
    call(&module, &mut state, "spans", &mut good).unwrap();
    assert_eq!(good.result_words.as_slice(), [1906]);
    for (words, refs) in [
        (vec![u64::MAX], vec![]),
        (vec![1 << 61, 0], vec![]),
        (vec![0, 1, 0], vec![buffer(4)]),
        (vec![0, 0], vec![None]),
        (vec![0, 0, 0], vec![]),
        (vec![0, 1, 0], vec![None, None]),
        (vec![0, 1, 0], vec![Some(Ref::new(List::variant([]))), None]),
    ] {
        let error = call(&module, &mut state, "spans", &mut with(&words, refs)).err().unwrap();
        assert_eq!(error.code(), StatusCode::InvalidArgument, "{words:?}");
    }
}

#[test]
fn null_and_other_types_are_refused_by_name() {
    let (module, mut state) = (Custom { scale: 1.0 }, State::default());
    let error = call(&module, &mut state, "same", &mut with(&[], vec![None, None])).err().unwrap();
    assert_eq!(error.to_string(), "INVALID_ARGUMENT: argument `list` is null");
    let error = call(&module, &mut state, "same", &mut with(&[], vec![buffer(1), None])).err().unwrap();
    assert_eq!(
        error.to_string(),
        "INVALID_ARGUMENT: argument `list`: expected a reference to !vm.list, got !vm.buffer"
    );
    let list = Ref::new(List::variant([Value::I32(1)]));
    let mut good = with(&[], vec![Some(list.clone()), None]);
    call(&module, &mut state, "same", &mut good).unwrap();
    assert_eq!(good.result_refs.as_slice(), [Some(list), None]);
}

#[test]
fn state_is_kept_and_a_waiting_call_can_be_repeated() {
    let module = Custom { scale: 1.0 };
    let mut state = module.create_state().unwrap();
    let nothing = module.exports().iter().position(|export| export.name == "nothing").unwrap();
    module.call(nothing, &mut *state, &mut with(&[], vec![])).unwrap();
    let state: &mut State = state.downcast_mut().unwrap();
    assert_eq!(state.calls, 1);

    let mut arguments = with(&[], vec![buffer(1)]);
    let Outcome::Wait(wait) = call(&module, state, "wait", &mut arguments).unwrap() else { panic!("expected a wait") };
    assert!(wait.is_ready());
    assert!(arguments.refs[0].is_some());
    let Outcome::Return = call(&module, state, "wait", &mut arguments).unwrap() else { panic!("expected a return") };
    assert_eq!(arguments.result_refs.len(), 1);

    let error = module.call(99, state, &mut with(&[], vec![])).err().unwrap();
    assert_eq!(error.code(), StatusCode::OutOfRange);
}
