//! The expected time of a queue operation ([`Weight`]), by which a discipline chooses between the submitting thread and
//! a worker.

/// Most bytes that a light transfer moves.
const LIGHT_LENGTH: u64 = 64 << 10;

/// How long an operation is expected to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// So many nanoseconds, if that is known.
    Time(Option<u64>),
    /// Less than handing it to another thread would take.
    Light,
    /// It runs code of the host, which must not hold up the submitting thread, even if that thread waits for it.
    Foreign,
}

impl Weight {
    /// The weight of a transfer of `length` bytes.
    pub fn of_transfer(length: u64) -> Weight {
        if length <= LIGHT_LENGTH { Weight::Light } else { Weight::Time(None) }
    }

    /// Whether it takes less than `nanoseconds`, the time of handing it to another thread.
    pub fn is_light(self, nanoseconds: u64) -> bool {
        match self {
            Weight::Time(time) => time.is_some_and(|time| time < nanoseconds),
            Weight::Light => true,
            Weight::Foreign => false,
        }
    }
}
