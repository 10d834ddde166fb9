//! Snapshots of the generated code live in `snapshots/`; the tests beside this file compare them.
