//! Native VM modules checked against the specs at compile time.
