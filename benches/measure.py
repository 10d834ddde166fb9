"""What the comparison scripts share: runs a benchmark command and reads the times that it reports."""

import functools
import json
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
VIREO = ROOT / "target/dist/vireo"
NOISY = 1.2
NANOSECONDS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}


class Failed(Exception):
    """A command that did not measure anything."""


def be_nice(niceness):
    """In a new process with a session of its own, which Linux may schedule as a group with a niceness of its own."""
    os.nice(niceness)
    group = pathlib.Path("/proc/self/autogroup")
    if group.exists():
        group.write_text(str(niceness))


def report(tool, arguments, seconds, processors, repetitions=1, niceness=0):
    """What a benchmark command prints: the JSON of Google Benchmark. `tool` is the start of the command line of `vireo benchmark`, of
    `iree-benchmark-module` or of a command of benches/others, and `processors` what it may run on."""
    command = ["taskset", "-c", ",".join(map(str, processors)), *tool, *arguments]
    command += [f"--benchmark_min_time={seconds}s", f"--benchmark_repetitions={repetitions}", "--benchmark_format=json"]
    prepare = functools.partial(be_nice, niceness) if niceness else None
    result = subprocess.run(command, capture_output=True, text=True, start_new_session=bool(niceness), preexec_fn=prepare)
    # The reference tool prints a line or two before the JSON.
    start = result.stdout.find("{")
    if result.returncode != 0 or start < 0:
        raise Failed(f"{' '.join(command)} failed:\n{result.stderr.strip()}")
    printed = json.loads(result.stdout[start:])
    single = [one for one in printed["benchmarks"] if one.get("run_type") != "aggregate"]
    if any(one.get("error_occurred") for one in single) or not single:
        raise Failed(f"{' '.join(command)} failed:\n{result.stdout.strip()}")
    return {**printed, "benchmarks": single}


def times(tool, arguments, seconds, processors, kind, repetitions=1, niceness=0):
    """The time of a call in nanoseconds, once for each repetition. `kind` is the time: `cpu_time`, `real_time`, or several of them; for
    the rest see `report`."""
    def time_of(one, kind):
        return one[kind] * NANOSECONDS[one["time_unit"]]

    single = report(tool, arguments, seconds, processors, repetitions, niceness)["benchmarks"]
    return [time_of(one, kind) if isinstance(kind, str) else tuple(time_of(one, each) for each in kind) for one in single]


class Figure:
    """The times of one tool in one setting."""

    def __init__(self):
        self.times = []
        # Of all threads.
        self.processor_times = []
        self.failure = None

    def fastest(self):
        return min(self.times, default=None)

    def median(self):
        return statistics.median(self.times) if self.times else None

    def noisy(self):
        """Whether something else ran on the machine: the median is more than a fifth above the fastest."""
        return bool(self.times) and self.median() > NOISY * self.fastest()

    def report(self):
        return {
            "fastest_ns": self.fastest(),
            "median_ns": self.median(),
            "fastest_processor_ns": min(self.processor_times, default=None),
            "median_processor_ns": statistics.median(self.processor_times) if self.processor_times else None,
            "samples": len(self.times),
            "noisy": self.noisy(),
            "failure": self.failure,
        }


def read_anew(flags):
    """Drops what these flags name from the page cache. A file that is read as a whole is there in large pages. One that has been there for long, in part,
    may be in small ones, and then parameters that are mapped take a third longer to read than those that are copied."""
    for flag in flags:
        path = pathlib.Path(flag.rpartition("=")[2].lstrip("@"))
        if hasattr(os, "posix_fadvise") and path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def program(tools, name):
    """The path of a released tool. What pip puts into the bin folder is a script in Python that starts it, which takes longer than a small model."""
    libraries = tools.parent.glob(f"lib/python*/site-packages/iree/_runtime_libs/{name}")
    return next(libraries, tools / name)


def go_on_nice(niceness):
    """Goes on in a process of this niceness, and so do the processes that it starts. To change it in each of them would be measured, too."""
    child = os.fork()
    if child != 0:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    os.setsid()
    be_nice(niceness)


def once(command):
    """Runs a command once: seconds on the wall, from before the process starts until it has ended."""
    actions = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    start = time.monotonic()
    process = os.posix_spawn(command[0], command, os.environ, file_actions=actions)
    _, status, _ = os.wait4(process, 0)
    end = time.monotonic()
    if os.waitstatus_to_exitcode(status) != 0:
        raise Failed(f"{' '.join(command)} failed")
    return end - start


def peak_memory(command):
    """The most memory that a command has at a time, in bytes."""
    # What this process has counts for its children until they are another program, so a small one starts the command if it can.
    small = shutil.which("time")
    with tempfile.NamedTemporaryFile() as peak:
        command = [small, "-f", "%M", "-o", peak.name, *command] if small else command
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise Failed(f"{' '.join(command)} failed")
        kibibytes = int(peak.read()) if small else used.ru_maxrss
    return kibibytes * 1024


class Others:
    """How much of the machine other processes have used since this was made."""

    def __init__(self):
        self.start = self.sample()

    @staticmethod
    def sample():
        try:
            fields = [int(field) for field in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
        except OSError:
            return None
        hertz = 100
        # Idle, and waiting for files, is what nobody uses.
        idle, total = (fields[3] + fields[4]) / hertz, sum(fields[:8]) / hertz
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return total, total - idle, sum(one.ru_utime + one.ru_stime for one in used), time.monotonic()

    def share(self):
        """From 0 (alone) to 1, or none where that is not known."""
        end = self.sample()
        if self.start is None or end is None or end[0] <= self.start[0]:
            return None
        busy = (end[1] - self.start[1]) - (end[2] - self.start[2])
        return max(0.0, busy / (end[0] - self.start[0]))


def check_names(only, known):
    """Ends the program if `--only` names something else than what there is to measure: a misspelt name measures nothing."""
    unknown = sorted(set(only or []) - set(known))
    if unknown:
        sys.exit(f"--only: there is no {', '.join(unknown)}; expected {', '.join(known)}")
