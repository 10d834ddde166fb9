//! `render`: the time line of a profile for people, as a page of its own ([`html()`]) or as a trace for Perfetto
//! ([`perfetto()`]).

mod html;
mod perfetto;

use std::collections::HashMap;
use std::hash::Hash;

pub use html::html;
pub use perfetto::perfetto;
use vireo_core::record_file::ReadError;
use vireo_core::status::StatusCode;

use crate::reader::OutputError;

/// How many events and values a time line has at most: viewers do not show more.
const MOST: u64 = 4 << 20;

/// Counts events and values, and refuses too many.
#[derive(Debug)]
struct Count {
    file: String,
    seen: u64,
}

impl Count {
    fn new(file: &str) -> Count {
        Count { file: file.to_string(), seen: 0 }
    }

    fn add(&mut self) -> Result<(), OutputError> {
        self.seen += 1;
        if self.seen > MOST {
            let message = format!("the profile has more than {MOST} events and values: expected at most that many");
            return Err(ReadError::new(StatusCode::ResourceExhausted, &self.file, 0, message).into());
        }
        Ok(())
    }
}

/// Numbers of keys, from 0 on, in the order in which they occur.
#[derive(Debug)]
struct Numbers<K> {
    numbers: HashMap<K, usize>,
    all: Vec<K>,
}

impl<K> Default for Numbers<K> {
    fn default() -> Self {
        Numbers { numbers: HashMap::new(), all: Vec::new() }
    }
}

impl<K: Copy + Eq + Hash> Numbers<K> {
    fn of(&mut self, key: K) -> usize {
        *self.numbers.entry(key).or_insert_with(|| {
            self.all.push(key);
            self.all.len() - 1
        })
    }

    fn all(&self) -> impl Iterator<Item = K> {
        self.all.iter().copied()
    }
}
