//! Which elements a round-robin iteration to a fixed point has to visit again: those of which an input has changed
//! since they were visited. Visiting another one would find what was found before, so the iteration takes the same
//! steps without it. Data-flow analyses of `analysis` and `regalloc` use it.

/// The visits of elements, and the changes of their inputs, by their numbers.
pub(crate) struct Visits {
    /// The number of visits so far.
    now: u32,
    visited: Vec<u32>,
    changed: Vec<u32>,
}

impl Visits {
    /// Of so many elements with as many inputs, all of which are new.
    pub fn new(elements: usize, inputs: usize) -> Visits {
        Visits { now: 1, visited: vec![0; elements], changed: vec![1; inputs] }
    }

    /// Begins a visit of an element with these inputs, unless none of them has changed. Whether it is needed.
    pub fn begin(&mut self, element: usize, mut inputs: impl Iterator<Item = usize>) -> bool {
        let before = self.visited[element];
        let is_needed = before == 0 || inputs.any(|input| self.changed[input] > before);
        if is_needed {
            self.visited[element] = self.now;
        }
        is_needed
    }

    /// Notes that an input has changed.
    pub fn change(&mut self, input: usize) {
        self.now += 1;
        self.changed[input] = self.now;
    }
}
