//! Work in the child of a fork.

/// The exit code of a child that does this: 0 if it is right, and a signal's number if it does not end in time.
pub fn in_child(work: impl FnOnce() -> bool) -> i32 {
    const SECONDS: u32 = 60;
    // SAFETY: the child ends by `_exit`. The locks that it takes are those of what is tested, which no thread holds
    // while another one forks, and those of the allocator, which sees to that itself.
    match unsafe { libc::fork() } {
        0 => {
            // SAFETY: this only ends the process, if it waits for ever.
            unsafe { libc::alarm(SECONDS) };
            let is_right = work();
            // SAFETY: this only ends the process.
            unsafe { libc::_exit(i32::from(!is_right)) }
        }
        child => {
            let mut status = 0;
            // SAFETY: the status is written to a variable.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            status
        }
    }
}
