//! The recording of devices for `--device_replay_output`. `observers` begins it with the devices of a program, commands
//! mark its parts, and `lib` ends it.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use vireo::hal::{Buffer, Device};
use vireo::replay::{FilePolicy, FileValidation, Recorder, RecorderOptions};

use crate::arguments::RecordingArguments;
use crate::exit::Exit;
use crate::failure::Failure;

/// The recording of this process, which has one program.
static RECORDER: OnceLock<Recorder> = OnceLock::new();

/// The devices with their calls recorded, if the flags ask for it.
pub fn recorded(
    devices: Vec<Arc<dyn Device>>,
    arguments: &RecordingArguments,
) -> Result<Vec<Arc<dyn Device>>, Failure> {
    let path = Path::new(&arguments.device_replay_output);
    if path.as_os_str().is_empty() {
        return Ok(devices);
    }
    let files: FilePolicy = value("file_policy", &arguments.device_replay_file_policy, &FilePolicy::NAMED)?;
    let validation = value("file_validation", &arguments.device_replay_file_validation, &FileValidation::NAMED)?;
    let failed = || Failure::new(Exit::Usage, format!("cannot write --device_replay_output={}", path.display()));
    let options = RecorderOptions { files, validation, ..RecorderOptions::default() };
    let recorder = Recorder::create(path, options).map_err(|status| failed().because(status))?;
    let devices = recorder.devices(&devices).map_err(|status| failed().because(status))?;
    if RECORDER.set(recorder).is_err() {
        let message = "--device_replay_output records one program, and two are loaded";
        return Err(Failure::new(Exit::Usage, message));
    }
    Ok(devices)
}

fn value<T: Copy>(flag: &str, given: &str, values: &[(T, &'static str)]) -> Result<T, Failure> {
    let found = values.iter().find(|(_, name)| *name == given);
    found.map(|(value, _)| *value).ok_or_else(|| {
        let names: Vec<String> = values.iter().map(|(_, name)| format!("`{name}`")).collect();
        let names = match &names[..] {
            [one, other] => format!("{one} or {other}"),
            [others @ .., last] => format!("{}, or {last}", others.join(", ")),
            [] => String::new(),
        };
        Failure::new(Exit::Usage, format!("--device_replay_{flag} must be {names}; got `{given}`"))
    })
}

/// Does something as a part of the capture with a name, such as a call.
pub fn scope<T>(name: &str, run: impl FnOnce() -> T) -> T {
    let Some(recorder) = RECORDER.get() else { return run() };
    recorder.begin_scope(name);
    let result = run();
    recorder.end_scope(name);
    result
}

/// Notes what a result of a call is.
pub fn expect(buffer: &Arc<dyn Buffer>) {
    if let Some(recorder) = RECORDER.get() {
        recorder.expect(buffer, 0, buffer.byte_length());
    }
}

/// Ends the recording, of a program that has ended.
pub fn finish() -> Result<(), Failure> {
    let Some(recorder) = RECORDER.get() else { return Ok(()) };
    recorder.finish().map_err(|status| {
        let message = "--device_replay_output: the capture ends before what cannot be recorded";
        Failure::new(Exit::RunFailure, message).because(status)
    })
}
