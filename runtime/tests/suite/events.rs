//! The events of models, sessions and calls that subscribers of the crate `tracing` hear.

use std::fmt::Debug;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use vireo::{Cancellation, Input, Session, StatusCode};

/// Writes down what it hears, down to a level.
#[derive(Clone)]
struct Listener(Level, Arc<Mutex<Vec<String>>>);

/// The fields of an event or a span without durations, which differ.
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "duration" => self.0.push_str(" duration"),
            "message" => self.0.push_str(&format!(" {value:?}")),
            name => self.0.push_str(&format!(" {name}={value:?}")),
        }
    }
}

impl Listener {
    fn write(&self, line: String) {
        self.1.lock().expect("no test panics with it").push(line);
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.0 && metadata.target().starts_with("vireo::")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut line = Line(format!("{} span {}", span.metadata().target(), span.metadata().name()));
        span.record(&mut line);
        self.write(line.0);
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().target().to_string());
        event.record(&mut line);
        self.write(line.0);
    }

    fn enter(&self, _: &Id) {
        self.write("enter".to_string());
    }

    fn exit(&self, _: &Id) {
        self.write("exit".to_string());
    }
}

/// The lines that `work` makes.
fn heard(level: Level, work: impl FnOnce()) -> Vec<String> {
    let listener = Listener(level, Arc::default());
    tracing::subscriber::with_default(listener.clone(), || {
        // A test without a listener may have met an event first, at the same time, so that it is thought to be unheard.
        tracing::callsite::rebuild_interest_cache();
        work();
    });
    Arc::into_inner(listener.1).expect("nobody listens any more").into_inner().expect("no test panics with it")
}

fn abs() -> Session {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/models/abs.vmfb");
    Session::builder().device("local-sync").load(path).expect("the model is there")
}

#[test]
fn models_sessions_and_calls_are_told() {
    let lines = heard(Level::DEBUG, || {
        let outputs = abs().call("abs", [Input::from(-2.0f32)]).expect("it runs");
        assert_eq!(outputs.len(), 1);
    });
    assert_eq!(
        lines,
        [
            r#"vireo::model linked a model module="module" devices=["local-sync"] duration"#,
            r#"vireo::model made a session module="module" devices=["local-sync"] duration"#,
            r#"vireo::call span call function="abs""#,
            "enter",
            "exit",
            "enter",
            r#"vireo::call returned function="abs" duration"#,
            "exit",
        ]
    );
}

#[test]
fn polled_calls_are_told_when_they_end_and_failures_have_a_status() {
    let session = abs();
    let function = session.function("abs").expect("it is there");
    let lines = heard(Level::DEBUG, || {
        let call = function.start([Input::from(-2.0f32)]).expect("it starts");
        let Poll::Ready(Ok(_)) = pin!(call).poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("`local-sync` is done when it returns");
        };
        drop(function.start([Input::from(-2.0f32)]).expect("it starts"));
        let cancellation = Cancellation::new();
        cancellation.cancel();
        let limits = vireo::interp::Limits { cancellation: Some(cancellation), ..Default::default() };
        let call = function.start_with([Input::from(-2.0f32)], &limits).expect("it starts");
        let Poll::Ready(Err(status)) = pin!(call).poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("the call is cancelled");
        };
        assert_eq!(status.code(), StatusCode::Cancelled);
    });
    let events: Vec<&String> = lines.iter().filter(|line| line.contains(" duration")).collect();
    assert_eq!(events.len(), 2, "{lines:?}");
    assert_eq!(events[0], r#"vireo::call returned function="abs" duration"#);
    assert!(events[1].starts_with(r#"vireo::call failed function="abs" duration status=CANCELLED: "#), "{events:?}");
}

#[test]
fn subscribers_of_less_hear_nothing() {
    let lines = heard(Level::INFO, || drop(abs().call("abs", [Input::from(-2.0f32)]).expect("it runs")));
    assert!(lines.is_empty(), "{lines:?}");
}
