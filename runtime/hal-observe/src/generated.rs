//! The code that the build script generates from `spec/`, included here and only here. Generated code names items of
//! this crate without their paths; each module imports them before its `include!`.

/// Generated from `spec/hal`.
pub mod hal {
    use crate::hal::{forward, traits, types};

    /// Calls of objects as values.
    pub mod calls {
        use crate::observe::text::{Show, Text};
        use crate::status::Status;

        include!(concat!(env!("OUT_DIR"), "/hal/calls.rs"));
    }

    /// The rules that callers of objects must keep.
    mod checks {
        use crate::observe::validate::checks::Checks;
        use crate::observe::validate::needs::Needs;
        use crate::status::Result;

        include!(concat!(env!("OUT_DIR"), "/hal/checks.rs"));
    }

    /// Wrappers that report calls to an observer.
    pub mod observe {
        use crate::hal::{Forward, QueueOperation};
        use crate::observe::failure::fail_operation;
        use crate::observe::objects::{Side, Table};
        use crate::observe::observation::{Exchange, Known, Observation, Observed, Wrapped};
        use crate::status::{Result, Status};

        include!(concat!(env!("OUT_DIR"), "/hal/observe.rs"));
    }

    /// Calls of objects as values that own their arguments.
    pub mod records {
        use crate::observe::ObjectId;
        use crate::observe::record::{Keep, Keeper, RecordedBuffer, Unseen, Visit, Visitor};
        use crate::status::Status;

        include!(concat!(env!("OUT_DIR"), "/hal/records.rs"));
    }
}
