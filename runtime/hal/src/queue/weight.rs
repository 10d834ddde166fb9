//! What a queue operation takes, by which the queue decides who runs it.

/// Bytes that a light transfer moves at most.
const LIGHT_LENGTH: u64 = 64 << 10;

/// What an operation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// So many nanoseconds, or nobody knows.
    Time(Option<u64>),
    /// Next to nothing.
    Light,
    /// It must not hold up the thread that submits it, even if that thread waits for it: it is not the device's own.
    Foreign,
}

impl Weight {
    /// That of a transfer.
    pub fn of_transfer(length: u64) -> Weight {
        if length <= LIGHT_LENGTH { Weight::Light } else { Weight::Time(None) }
    }

    /// Whether it takes less than `nanoseconds`, which handing it over would take.
    pub fn is_light(self, nanoseconds: u64) -> bool {
        match self {
            Weight::Time(time) => time.is_some_and(|time| time < nanoseconds),
            Weight::Light => true,
            Weight::Foreign => false,
        }
    }
}
