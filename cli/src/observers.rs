//! Observers of devices, for `--device_validate` and `--device_trace`. `engine` wraps the devices of a program with
//! them.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use vireo::hal::Device;
use vireo::hal::observe::{Observation, Trace, Validate};

use crate::arguments::ProgramArguments;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::print::print_aside;
use crate::recording::recorded;
use vireo::visible_text::visible;

/// The devices with the observers that the flags ask for. A trace has what the program asked for, and what validation
/// made of it; a recording has what the devices get.
pub fn observed(devices: Vec<Arc<dyn Device>>, program: &ProgramArguments) -> Result<Vec<Arc<dyn Device>>, Failure> {
    let devices = if program.device_validate { wrapped(&devices, Observation::new(Validate::new())) } else { devices };
    let devices = recorded(devices, &program.recording)?;
    let Some(file) = &program.device_trace else { return Ok(devices) };
    Ok(wrapped(&devices, Observation::new(trace(Path::new(file))?)))
}

fn wrapped(devices: &[Arc<dyn Device>], observation: Arc<Observation>) -> Vec<Arc<dyn Device>> {
    devices.iter().map(|device| observation.device(device)).collect()
}

/// A trace that goes to a file, or to stderr if its name is empty.
fn trace(path: &Path) -> Result<Trace, Failure> {
    if path.as_os_str().is_empty() {
        return Ok(Trace::new(|line| {
            print_aside(&format!("{}\n", visible(line)));
        }));
    }
    let name = path.display().to_string();
    let failed = || Failure::new(Exit::Usage, format!("cannot write --device_trace={name}"));
    let file = File::create(path).map_err(|error| failed().because(error))?;
    let file = Mutex::new(Some(file));
    Ok(Trace::new(move |line| {
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        // A trace that cannot be written is reported once; the program continues.
        if let Some(Err(error)) = file.as_mut().map(|file| writeln!(file, "{line}")) {
            *file = None;
            let _ = writeln!(io::stderr(), "cannot write --device_trace={name}: {error}; it ends here");
        }
    }))
}
