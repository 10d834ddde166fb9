//! The code that the build script generates from `spec/`, included here and only here. Generated code names items of
//! this crate without their paths; each module imports them before its `include!`.

/// Generated from `spec/hal`.
pub mod hal {
    // Generated code expects these modules of the HAL beside its own.
    use vireo_hal::{executable_library, traits, types};

    /// The objects as vtables for other libraries, and the structs they exchange.
    #[expect(clippy::type_complexity, reason = "slots have the arguments of their methods")]
    pub mod vtables {
        use crate::Result;
        use crate::plugin::convert::number;
        use crate::plugin::{
            Abi, Header, List, NullObject, NullOwner, Object, Owner, RawCallback, RawList, RawObject, RawOwner,
            RawSlice, RawStatus, Side,
        };

        include!(concat!(env!("OUT_DIR"), "/hal/vtables.rs"));
    }

    /// Objects of this library for others.
    mod exports {
        use crate::plugin::convert::{borrow, decode, decode_at, decode_list, encode, slices};
        use crate::plugin::object::{guard, guard_infallible, header, this as object};
        use crate::plugin::raw::decode_deadline;
        use crate::plugin::status::take_status;
        use crate::plugin::{
            Header, Imported, Interface, List, NullObject, Object, Owner, RawCallback, RawList, RawObject, RawOwner,
            RawSlice, RawStatus, Side,
        };

        include!(concat!(env!("OUT_DIR"), "/hal/exports.rs"));
    }

    /// Objects of other libraries.
    mod imports {
        use vireo_hal::QueueOperation;

        use crate::plugin::convert::{Lent, LentList, encode};
        use crate::plugin::object::{borrowed_text, broken};
        use crate::plugin::raw::encode_deadline;
        use crate::plugin::status::{status_into_raw, take};
        use crate::plugin::{
            Imported, List, NullObject, Object, Owner, RawCallback, RawList, RawObject, RawSlice, Side,
        };
        use crate::{Result, Status, unimplemented};

        include!(concat!(env!("OUT_DIR"), "/hal/imports.rs"));
    }
}
