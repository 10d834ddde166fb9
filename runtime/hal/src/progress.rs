//! Progress of what can take long while a program is loaded: reading parameters, verifying and compiling kernels. Tools
//! show it.

use std::fmt;

/// Progress of what can take long, reported on the threads that do it.
pub trait Progress: fmt::Debug + Send + Sync {
    /// `bytes` more bytes are going to be worked on.
    fn scheduled(&self, bytes: u64);
    /// `bytes` of them are done.
    fn done(&self, bytes: u64);
}

/// Reports to `progress` what is counted as the bytes that are done, and all of them: what `Module::from_archive_with`
/// calls.
pub fn report_count(progress: &dyn Progress) -> impl FnMut(u64, u64) {
    let mut before = None;
    move |done, all| {
        if before.is_none() {
            progress.scheduled(all);
        }
        progress.done(done - before.replace(done).unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Debug, Default)]
    struct Told(Mutex<Vec<(&'static str, u64)>>);

    impl Progress for Told {
        fn scheduled(&self, bytes: u64) {
            self.0.lock().unwrap().push(("scheduled", bytes));
        }

        fn done(&self, bytes: u64) {
            self.0.lock().unwrap().push(("done", bytes));
        }
    }

    #[test]
    fn counts_become_steps() {
        let told = Told::default();
        let mut count = report_count(&told);
        for done in [2, 2, 5] {
            count(done, 5);
        }
        drop(count);
        assert_eq!(*told.0.lock().unwrap(), [("scheduled", 5), ("done", 2), ("done", 0), ("done", 3)]);
    }
}
