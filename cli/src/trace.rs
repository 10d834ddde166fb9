//! `vireo trace`: runs a program for AMD GPUs on the software agent, and writes down what its queues did.

use crate::arguments::TraceArguments;
use crate::exit::Exit;
use crate::failure::Failure;

/// Runs the program as `vireo run` does, with a trace of the packets.
#[cfg(feature = "software-agents")]
pub fn trace(arguments: &TraceArguments) -> Result<Exit, Failure> {
    use std::fs::File;
    use std::io::{self, LineWriter, Write};
    use std::path::Path;
    use std::sync::Arc;

    use vireo::hal::{DeviceUri, PacketTrace, PacketTraceFormat};

    use crate::arguments::{AmdgpuAgentName, Format, TraceFormat};
    use crate::engine;
    use crate::run;

    let program = &arguments.run.program;
    // A text that is no device at all is refused by name when the device is created.
    let other = program.device.iter().find(|uri| DeviceUri::parse(uri).is_ok_and(|uri| uri.driver != "amdgpu"));
    if let Some(other) = other {
        let message = format!("`vireo trace` traces packets, and the device `{other}` has none; expected `amdgpu`");
        return Err(Failure::new(Exit::Usage, message));
    }
    if program.devices.amdgpu.amdgpu_agent != AmdgpuAgentName::Software {
        let message = "`vireo trace` traces the software agent; expected --amdgpu_agent=software";
        return Err(Failure::new(Exit::Usage, message));
    }
    // A module that is not there is told before the first line of the trace.
    let paths = program.module.iter().chain(&arguments.run.file).filter(|path| *path != Path::new("-"));
    for path in paths.filter(|path| !path.exists()) {
        engine::open_archive(path, program.module_mode)?;
    }
    let format = match arguments.format {
        TraceFormat::Text => PacketTraceFormat::Text,
        TraceFormat::Perfetto => PacketTraceFormat::Perfetto,
    };
    let name = arguments.trace_output.as_ref().map_or("stderr".to_string(), |path| path.display().to_string());
    let failed =
        |error: io::Error| Failure::new(Exit::Usage, format!("cannot write the trace to {name}")).because(error);
    // Line by line, so that a program that never ends leaves what it did.
    let mut out: Box<dyn Write + Send> = match &arguments.trace_output {
        Some(path) => Box::new(LineWriter::new(File::create(path).map_err(failed)?)),
        None => Box::new(io::stderr()),
    };
    if arguments.format == TraceFormat::Text {
        writeln!(out, "# time in us since the agent was made, + how long a packet took in us, what happened")
            .map_err(failed)?;
    }
    let trace = Arc::new(PacketTrace::new(format, out).map_err(failed)?);
    // It has not been set before: it is no flag.
    let _ = program.devices.amdgpu.packet_trace.set(trace.clone());
    let exit = run::run(&arguments.run, Format::Text);
    let written = trace.finish().map_err(failed);
    exit.and_then(|exit| written.map(|()| exit))
}

/// Says that this build has no software agent.
#[cfg(not(feature = "software-agents"))]
pub fn trace(_arguments: &TraceArguments) -> Result<Exit, Failure> {
    let status = vireo::Status::unimplemented("this build has no software agent");
    let hint = "build with the feature `software-agents`, or run with the library that `cargo xtask soft DIR` builds: \
                VIREO_SOFTHSA=trace=FILE vireo run --device=amdgpu --amdgpu_libhsa_search_path=DIR";
    Err(Failure::new(Exit::LoadFailure, "cannot trace packets").because(status).hint(hint))
}
