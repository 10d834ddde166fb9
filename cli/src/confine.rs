//! The second barrier of `--untrusted`: on Linux the process gives up what its program has no business with, after
//! everything was loaded and before the program runs. So a hole in the runtime is not yet an escape.
//!
//! Landlock refuses files, TCP, abstract sockets and signals to other processes. It is for the thread that runs
//! programs and those that it starts. seccomp refuses system calls, to all threads: whatever is not on the list fails
//! with `EPERM`. It fails instead of killing the process because libraries ask for things that they can do without (the
//! number of processors, for one), because an exit code stays one of [`Exit`], and because nothing is won by a kill:
//! neither the list nor what Landlock allows grows while the process lives.
//!
//! `run`, `benchmark`, `check` and `replay` call this. Files that they write later are open by then.

use std::fmt;

use vireo::hal::DeviceUri;

use crate::arguments::{DeviceArguments, PolicyArguments, ProgramArguments};
use crate::exit::Exit;
use crate::failure::Failure;

/// Why a process cannot be confined.
#[derive(Debug)]
pub struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

/// Whether the program of these flags is to be confined: it is not trusted, and the system is Linux.
pub fn is_wanted(program: &ProgramArguments) -> bool {
    is_wanted_by(&program.policy)
}

/// Whether this policy confines the process.
pub fn is_wanted_by(policy: &PolicyArguments) -> bool {
    cfg!(target_os = "linux") && policy.untrusted && !policy.no_confine
}

/// Fails if the flags ask for what a confined process cannot do. Called before anything is loaded.
pub fn check(program: &ProgramArguments) -> Result<(), Failure> {
    check_devices(&program.device, &program.devices, &program.policy)
}

/// Fails if a confined process cannot have these devices.
pub fn check_devices(names: &[String], devices: &DeviceArguments, policy: &PolicyArguments) -> Result<(), Failure> {
    if !is_wanted_by(policy) {
        return Ok(());
    }
    let refused = |what: String| {
        Err(Failure::new(Exit::Usage, format!("{what}, which --untrusted takes away from this process"))
            .hint("--no-confine runs the program without this barrier"))
    };
    let amdgpu = &devices.amdgpu;
    let uses_library = amdgpu.amdgpu_agent == crate::arguments::AmdgpuAgentName::Library;
    let is_gpu = |uri: &&String| DeviceUri::parse(uri).is_ok_and(|uri| uri.driver == "amdgpu");
    if let Some(device) = names.iter().find(is_gpu).filter(|_| uses_library) {
        return refused(format!("the device `{device}` talks to the driver of the system"));
    }
    let is_cuda = |uri: &&String| DeviceUri::parse(uri).is_ok_and(|uri| uri.driver == "cuda");
    let loads_library = devices.cuda.cuda_driver != crate::arguments::CudaDriver::Software;
    if let Some(device) = names.iter().find(is_cuda).filter(|_| loads_library) {
        return refused(format!("the device `{device}` talks to the driver of the system"));
    }
    if devices.collectives.is_some() {
        return refused("--collectives talks to other processes".to_string());
    }
    if amdgpu.sanitize_report.is_some() {
        return refused("--sanitize_report writes a file at the end".to_string());
    }
    Ok(())
}

/// Confines the process if the flags of its program ask for it.
pub fn confine(program: &ProgramArguments) -> Result<(), Failure> {
    confine_by(&program.policy)
}

/// Confines the process if the policy asks for it.
pub fn confine_by(policy: &PolicyArguments) -> Result<(), Failure> {
    if !is_wanted_by(policy) {
        return Ok(());
    }
    enter().map_err(|refused| {
        Failure::new(Exit::LoadFailure, "--untrusted cannot confine this process")
            .because(refused)
            .hint("--no-confine runs the program without this barrier; the checks and limits of the runtime stay")
    })
}

/// Confines the process, for good.
///
/// # Errors
/// If the system lacks Landlock or seccomp, or refuses them.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
pub fn enter() -> Result<(), Refused> {
    linux::restrict_files().map_err(|error| Refused(format!("Landlock: {error}")))?;
    linux::restrict_system_calls().map_err(|error| Refused(format!("seccomp: {error}")))
}

/// Only the processors above have a list of system calls.
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))))]
pub fn enter() -> Result<(), Refused> {
    Err(Refused("there is no barrier for this system and processor".to_string()))
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
mod linux {
    use std::collections::BTreeMap;
    use std::error::Error;

    use landlock::{ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetStatus, Scope};
    use seccompiler::{
        BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
        TargetArch, apply_filter_all_threads,
    };

    type Anything = Box<dyn Error>;

    /// Takes all files, TCP ports and other processes away from this thread and those that it starts, as far as the
    /// kernel knows how to. Files that are open stay so.
    pub fn restrict_files() -> Result<(), Anything> {
        // The version in which abstract sockets and signals came. Of older kernels less is asked.
        const VERSION: ABI = ABI::V6;
        let ruleset = Ruleset::default()
            .handle_access(AccessFs::from_all(VERSION))?
            .handle_access(AccessNet::from_all(VERSION))?
            .scope(Scope::from_all(VERSION))?
            .create()?;
        match ruleset.restrict_self()?.ruleset {
            RulesetStatus::NotEnforced => Err("this kernel lacks it, or has it switched off".into()),
            RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        }
    }

    /// Refuses all system calls but those that running a loaded program takes, to every thread.
    pub fn restrict_system_calls() -> Result<(), Anything> {
        let arch = TargetArch::try_from(std::env::consts::ARCH)?;
        let refuse = |error: i32| SeccompAction::Errno(error as u32);
        // The C library starts threads with `clone3`, the flags of which are in memory, where no filter can see them.
        // Where that call does not exist it uses `clone`. Of two filters that refuse, the one that was installed last
        // names the error, so `clone3` is on its list.
        let clone3 = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
        let without_clone3 = SeccompFilter::new(clone3, SeccompAction::Allow, refuse(libc::ENOSYS), arch)?;
        let listed = SeccompFilter::new(allowed()?, refuse(libc::EPERM), SeccompAction::Allow, arch)?;
        for filter in [without_clone3, listed] {
            apply_filter_all_threads(&BpfProgram::try_from(filter)?)?;
        }
        Ok(())
    }

    /// A rule for an argument of a system call.
    fn argument(index: u8, op: SeccompCmpOp, value: u64) -> Result<SeccompCondition, Anything> {
        Ok(SeccompCondition::new(index, SeccompCmpArgLen::Qword, op, value)?)
    }

    /// The system calls that a program may cause, with what their arguments have to be.
    fn allowed() -> Result<BTreeMap<i64, Vec<SeccompRule>>, Anything> {
        // Memory, also of machine code.
        let memory =
            [libc::SYS_brk, libc::SYS_madvise, libc::SYS_mmap, libc::SYS_mprotect, libc::SYS_mremap, libc::SYS_munmap];
        // Threads of this process, their order and their waits.
        let threads = [
            libc::SYS_clone3,
            libc::SYS_exit,
            libc::SYS_exit_group,
            libc::SYS_futex,
            libc::SYS_get_robust_list,
            libc::SYS_getcpu,
            libc::SYS_getpid,
            libc::SYS_gettid,
            libc::SYS_membarrier,
            libc::SYS_restart_syscall,
            libc::SYS_rseq,
            libc::SYS_rt_sigaction,
            libc::SYS_rt_sigprocmask,
            libc::SYS_rt_sigreturn,
            libc::SYS_sched_getaffinity,
            libc::SYS_sched_setaffinity,
            libc::SYS_sched_yield,
            libc::SYS_set_robust_list,
            libc::SYS_sigaltstack,
        ];
        // Time, random numbers, and what the machine has.
        let facts = [
            libc::SYS_clock_getres,
            libc::SYS_clock_gettime,
            libc::SYS_clock_nanosleep,
            libc::SYS_getrandom,
            libc::SYS_getrusage,
            libc::SYS_gettimeofday,
            libc::SYS_nanosleep,
            libc::SYS_sysinfo,
            libc::SYS_uname,
        ];
        // Files that are open.
        let files = [
            libc::SYS_close,
            libc::SYS_fdatasync,
            libc::SYS_fstat,
            libc::SYS_fsync,
            libc::SYS_ftruncate,
            libc::SYS_lseek,
            libc::SYS_ppoll,
            libc::SYS_pread64,
            libc::SYS_preadv,
            libc::SYS_pwrite64,
            libc::SYS_pwritev,
            libc::SYS_read,
            libc::SYS_readv,
            libc::SYS_write,
            libc::SYS_writev,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_poll,
        ];
        let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
            [&memory[..], &threads, &facts, &files].concat().into_iter().map(|call| (call, Vec::new())).collect();
        let mut when = |call: i64, conditions: Vec<SeccompCondition>| -> Result<(), Anything> {
            rules.entry(call).or_default().push(SeccompRule::new(conditions)?);
            Ok(())
        };
        use SeccompCmpOp::{Eq, MaskedEq};

        let thread = libc::CLONE_THREAD as u64;
        when(libc::SYS_clone, vec![argument(0, MaskedEq(thread), thread)?])?;
        // Calls on the process itself: to end with a signal, to read its limits, and to lower the priority of a thread.
        when(libc::SYS_tgkill, vec![argument(0, Eq, std::process::id().into())?])?;
        when(libc::SYS_prlimit64, vec![argument(0, Eq, 0)?, argument(2, Eq, 0)?])?;
        when(libc::SYS_setpriority, vec![argument(0, Eq, libc::PRIO_PROCESS as u64)?, argument(1, Eq, 0)?])?;
        for option in [libc::PR_SET_NAME, libc::PR_SET_VMA] {
            when(libc::SYS_prctl, vec![argument(0, Eq, option as u64)?])?;
        }
        // Lengths and duplicates of open files, and whether they are terminals. No input may be put into a terminal.
        let empty_path = libc::AT_EMPTY_PATH as u64;
        when(libc::SYS_newfstatat, vec![argument(3, MaskedEq(empty_path), empty_path)?])?;
        when(libc::SYS_statx, vec![argument(2, MaskedEq(empty_path), empty_path)?])?;
        for command in [libc::F_DUPFD_CLOEXEC, libc::F_GETFD, libc::F_SETFD, libc::F_GETFL] {
            when(libc::SYS_fcntl, vec![argument(1, Eq, command as u64)?])?;
        }
        // The C libraries give requests different types.
        for request in [libc::TCGETS as u32, libc::TIOCGWINSZ as u32] {
            when(libc::SYS_ioctl, vec![argument(1, Eq, request.into())?])?;
        }
        Ok(rules)
    }
}
