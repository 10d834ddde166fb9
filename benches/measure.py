"""What the comparison scripts share: runs a benchmark command and reads the times that it reports."""

import json
import pathlib
import resource
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
VIREO = ROOT / "target/release/vireo"
NANOSECONDS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}


class Failed(Exception):
    """A command that did not measure anything."""


def times(tool, arguments, seconds, processors, kind, repetitions=1):
    """The time of a call in nanoseconds, once for each repetition. `tool` is the start of the command line of `vireo benchmark` or of
    `iree-benchmark-module`, `processors` what it may run on, and `kind` the time: `cpu_time` or `real_time`."""
    command = ["taskset", "-c", ",".join(map(str, processors)), *tool, *arguments]
    command += [f"--benchmark_min_time={seconds}s", f"--benchmark_repetitions={repetitions}", "--benchmark_format=json"]
    result = subprocess.run(command, capture_output=True, text=True)
    # Stock prints a line or two in front of the JSON.
    start = result.stdout.find("{")
    if result.returncode != 0 or start < 0:
        raise Failed(f"{' '.join(command)} failed:\n{result.stderr.strip()}")
    single = [one for one in json.loads(result.stdout[start:])["benchmarks"] if one.get("run_type") != "aggregate"]
    if any(one.get("error_occurred") for one in single) or not single:
        raise Failed(f"{' '.join(command)} failed:\n{result.stdout.strip()}")
    return [one[kind] * NANOSECONDS[one["time_unit"]] for one in single]


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
