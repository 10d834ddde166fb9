//! The numbers that a capture has for its objects. A capture may name any number, so tables are as long as the capture
//! has records, whatever the numbers are.

use std::collections::HashMap;

/// Numbers beyond this many times the number of objects are looked up in a map.
const MOST_GAPS: u64 = 4;

/// The place of each object in tables of a replay, by its number in the capture.
#[derive(Debug)]
pub(crate) enum ObjectTable {
    /// By number, since there are few gaps.
    Direct(Vec<Option<u32>>),
    /// By number.
    Map(HashMap<u64, u32>),
}

impl ObjectTable {
    /// The table of objects with these numbers and places.
    pub(crate) fn new(places: HashMap<u64, u32>) -> ObjectTable {
        let highest = places.keys().max().copied().unwrap_or(0);
        let most = MOST_GAPS * (places.len() as u64 + 1);
        match usize::try_from(highest) {
            Ok(length) if highest <= most => {
                let mut direct = vec![None; length + 1];
                for (id, place) in places {
                    // The number is at most the highest.
                    if let Some(entry) = usize::try_from(id).ok().and_then(|id| direct.get_mut(id)) {
                        *entry = Some(place);
                    }
                }
                ObjectTable::Direct(direct)
            }
            _ => ObjectTable::Map(places),
        }
    }

    /// The place of an object.
    pub(crate) fn place(&self, id: u64) -> Option<usize> {
        let place = match self {
            ObjectTable::Direct(places) => *places.get(usize::try_from(id).ok()?)?,
            ObjectTable::Map(places) => places.get(&id).copied(),
        };
        place.map(|place| place as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_places_whatever_they_are() {
        for ids in [&[1u64, 2, 5][..], &[1, u64::MAX, 1 << 40], &[]] {
            let table = ObjectTable::new(ids.iter().copied().zip(0..).collect());
            for (place, id) in ids.iter().enumerate() {
                assert_eq!(table.place(*id), Some(place));
            }
            assert_eq!(table.place(3), None);
            assert_eq!(table.place(u64::MAX - 1), None);
        }
    }
}
