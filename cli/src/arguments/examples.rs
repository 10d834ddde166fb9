//! Examples for the help of the commands. A test parses each line.

use crate::exit;

pub const ALL: &str = "\
  vireo run model.vmfb --input=2x3xf32=1,2,3,4,5,6   call the function of a module
  vireo dump model.vmfb                              what is in it: signatures, devices, parameters, sizes
  vireo help run                                     all flags of a command";

pub const RUN: &str = "\
  vireo run abs.vmfb --input=f32=-2
  vireo run model.vmfb --function=main --device=local-task --input=@image.npy --output=@result.npy
  vireo run model.vmfb --parameters=weights.irpa --input=1x4xf32=7 --expected_output=@expected.npy";

pub const BENCHMARK: &str = "\
  vireo benchmark model.vmfb --function=main --input=2x3xf32=1 --benchmark_repetitions=5
  vireo benchmark model.vmfb --benchmark_out=before.json
  vireo benchmark model.vmfb --baseline=before.json";

pub const TRACE: &str = "\
  vireo trace model.vmfb --input=4xf32=1
  vireo trace --format=perfetto -o trace.json model.vmfb --input=4xf32=1";

pub const CHECK: &str = "\
  vireo check tests.vmfb more.vmfb
  vireo check tests.vmfb --filter=conv* --junit=report.xml";

pub const DUMP: &str = "\
  vireo dump model.vmfb                        signatures, devices, parameters, sizes
  vireo dump model.vmfb --function=main        the code of a function
  vireo dump model.vmfb --output=all           everything";

pub const ASM: &str = "\
  vireo asm model.vmasm -o model.vmfb";

pub const DISASM: &str = "\
  vireo disasm model.vmfb -o model.vmasm
  vireo disasm kernels.hsaco --gfx             the kernels of a code object for GPUs";

pub const CONVERT: &str = "\
  vireo params convert weights.safetensors -o weights.irpa
  vireo params convert --parameters=a.gguf --parameters=b.irpa --exclude=bias -o both.irpa";

pub const CREATE: &str = "\
  vireo params create --data=weights=2x2xf32=1,2,3,4 --splat=bias=2xf32 -o weights.irpa";

pub const PARAMS_DUMP: &str = "\
  vireo params dump weights.safetensors
  vireo params dump model=weights.irpa --extract=model::bias=bias.bin";

pub const REPLAY_DUMP: &str = "\
  vireo replay dump model.ireereplay
  vireo replay dump model.ireereplay --format=jsonl";

pub const REPLAY_RUN: &str = "\
  vireo replay run model.ireereplay
  vireo replay run model.ireereplay --device=local-task --replay_file_remap=/mnt/train=/data
  vireo replay run stranger.ireereplay --untrusted --timeout=5";

pub const REPLAY_BENCHMARK: &str = "\
  vireo replay benchmark model.ireereplay --device=local-task
  vireo replay benchmark model.ireereplay --replay_scope=execute --benchmark_min_time=100x";

pub const REPLAY_CHECK: &str = "\
  vireo replay check model.ireereplay
  vireo replay check model.ireereplay --format=jsonl";

pub const REPLAY_VERIFY: &str = "\
  vireo replay verify model.ireereplay --write_expected=expected.ireereplay
  vireo replay verify expected.ireereplay --device=local-task";

pub const REPLAY_DIFF: &str = "\
  vireo replay diff model.ireereplay --device=local-sync --device=cuda --compare=f32 --ulps=4
  vireo replay diff good.ireereplay bad.ireereplay --device=local-sync --save=parts";

pub const REPLAY_MINIMIZE: &str = "\
  vireo replay minimize model.ireereplay --dispatch=3 --output=dispatch.ireereplay
  vireo replay minimize bad.ireereplay --dispatch=3 --expected=good.ireereplay --output=dispatch.ireereplay
  vireo replay minimize model.ireereplay --test='! iree-run-replay {}' --output=least.ireereplay";

pub const REPLAY_EDIT: &str = "\
  vireo replay edit model.ireereplay --order --output=ordered.ireereplay
  vireo replay edit model.ireereplay --inline --strip=data,paths --output=shared.ireereplay
  vireo replay edit model.ireereplay --keep=100-120 --substitute=4=kernel.bin --output=part.ireereplay";

pub const REPLAY_EXTRACT: &str = "\
  vireo replay extract model.ireereplay --output=parts";

pub const REPLAY_SALVAGE: &str = "\
  vireo replay salvage torn.ireereplay --output=whole.ireereplay";

pub const PROFILE: &str = "\
  vireo profile summary model.ireeprof
  vireo profile cat model.ireeprof --format=jsonl";

pub const PROFILE_REPORT: &str = "\
  vireo profile explain model.ireeprof
  vireo profile memory model.ireeprof --format=jsonl";

pub const PROFILE_DISPATCH: &str = "\
  vireo profile dispatch model.ireeprof
  vireo profile dispatch model.ireeprof --filter='*matmul*' --dispatch_events --format=jsonl";

pub const PROFILE_DIFF: &str = "\
  vireo profile diff before.ireeprof after.ireeprof
  vireo profile diff before.ireeprof after.ireeprof --fail_above=5% --ignore_below=10000";

pub const PROFILE_RENDER: &str = "\
  vireo profile render model.ireeprof --output=model.html
  vireo profile render model.ireeprof --format=perfetto --output=model.pftrace";

pub const PROFILE_EXPORT: &str = "\
  vireo profile export model.ireeprof --format=ireeperf-jsonl --output=rows.jsonl";

pub const DEVICES: &str = "\
  vireo devices
  vireo devices local-task --format=json";

/// The text below the flags of a command.
pub fn help(examples: &str) -> String {
    format!("Examples:\n  {examples}\n\n{}", exit::HELP)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::arguments::Arguments;

    #[test]
    fn examples_are_command_lines() {
        let all = [RUN, BENCHMARK, TRACE, CHECK, DUMP, ASM, DISASM, CONVERT, CREATE, PARAMS_DUMP, DEVICES];
        for line in all.iter().flat_map(|examples| examples.lines()) {
            // The effect of an example stands after it, in a column of its own.
            let command = line.trim().split("  ").next().unwrap_or_default();
            let arguments = command.replace("_output", "-output").replace("benchmark_", "benchmark-");
            let parsed = Arguments::try_parse_from(arguments.split(' '));
            assert!(parsed.is_ok(), "{command}: {}", parsed.unwrap_err());
        }
    }
}
