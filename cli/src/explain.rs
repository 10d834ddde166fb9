//! `vireo explain`: what a program needs, and what of that this machine, the given devices and archives do not have.

use std::io;
use std::path::Path;

use anstream::AutoStream;
use serde_json::{Value, json};
use vireo::inference::{
    CudaExecutable, CudaResources, GpuExecutable, ModelBuilder, Requirements, Signature, ValueInfo,
};
use vireo::visible_text::visible_lines;
use vireo::{SecurityPolicy, Session};

use crate::arguments::{Color, ExplainArguments, Format, ModuleMode};
use crate::devices::Drivers;
use crate::engine::{open_archive, verify};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::parameters;
use crate::print::{print_json, print_styled};
use crate::styles::sections;
use crate::time_limit;

/// Prints what the last module needs. Nothing is loaded but the module files.
pub fn explain(arguments: &ExplainArguments, color: Color) -> Result<Exit, Failure> {
    time_limit::start(arguments.timeout, "explaining the module")?;
    let drivers = Drivers::load(&arguments.devices, SecurityPolicy::trusted())?;
    let devices = arguments.device.iter().map(|uri| drivers.create_device(uri)).collect::<Result<Vec<_>, _>>()?;
    let builder = devices.into_iter().fold(Session::builder(), ModelBuilder::with_device).drivers(drivers.registry());
    let mut builder = parameters::add_to(builder, &parameters::open(&arguments.parameters)?);
    let load = |path: &Path| verify(open_archive(path, ModuleMode::Mmap)?);
    let Some((main, others)) = arguments.files.split_last() else {
        return Err(Failure::new(Exit::Usage, "no module is given"));
    };
    for path in others {
        builder = builder.with_module(load(path)?);
    }
    let failed = || Failure::new(Exit::LoadFailure, format!("cannot explain the module `{}`", main.display()));
    let found = builder.requirements(&load(main)?).map_err(|status| failed().because(status))?;
    let mut out = AutoStream::new(io::stdout(), color.choice());
    match arguments.format() {
        Format::Json => print_json(&mut out, &format!("{:#}\n", to_json(&found)))?,
        Format::Text => print_styled(&mut out, &sections(&visible_lines(&found.to_string())))?,
    };
    Ok(if found.missing().is_empty() { Exit::Ok } else { Exit::LoadFailure })
}

fn to_json(found: &Requirements) -> Value {
    let modules = found.modules.iter().map(|module| {
        json!({
            "name": module.name,
            "minimum_version": module.minimum_version,
            "optional": module.is_optional,
            "available_version": module.available,
        })
    });
    let devices = found.devices.iter().map(|(pattern, has)| json!({"pattern": pattern, "available": has}));
    let drivers = found.drivers.iter().map(|driver| {
        json!({
            "pattern": driver.pattern,
            "name": driver.name,
            "devices": driver.devices,
            "failure": driver.failure,
        })
    });
    let formats = found.formats.iter().map(|format| {
        let executables = format.executables.iter().map(|executable| {
            json!({
                "bytes": executable.bytes,
                "kernels": executable.kernels,
                "features": executable.features,
                "gpu": executable.gpu.as_ref().map(gpu),
                "cuda": executable.cuda.as_ref().map(cuda),
                "damage": executable.damage,
            })
        });
        json!({
            "name": format.name,
            "available": format.is_available,
            "executables": executables.collect::<Vec<_>>(),
        })
    });
    let parameters = found.parameters.iter().map(|parameter| {
        json!({
            "scope": parameter.scope,
            "key": parameter.key,
            "bytes": parameter.bytes,
            "available_bytes": parameter.available,
        })
    });
    json!({
        "functions": found.functions.iter().map(function).collect::<Vec<_>>(),
        "modules": modules.collect::<Vec<_>>(),
        "devices": devices.collect::<Vec<_>>(),
        "drivers": drivers.collect::<Vec<_>>(),
        "formats": formats.collect::<Vec<_>>(),
        "parameters": parameters.collect::<Vec<_>>(),
        "constant_bytes": found.constant_bytes,
        "device_bytes": found.device_bytes,
        "incomplete": found.incomplete,
        "missing": found.missing(),
    })
}

fn gpu(executable: &GpuExecutable) -> Value {
    let kernels = executable.kernels.iter().map(|kernel| {
        json!({
            "name": kernel.name,
            "kernarg_bytes": kernel.kernarg_bytes,
            "workgroup_size": kernel.workgroup_size,
            "group_bytes": kernel.group_bytes,
            "private_bytes": kernel.private_bytes,
        })
    });
    json!({
        "target": executable.target,
        "kernels": kernels.collect::<Vec<_>>(),
        "software_agent_lacks": executable.software_agent_lacks,
    })
}

fn cuda(executable: &CudaExecutable) -> Value {
    let modules = executable
        .modules
        .iter()
        .map(|module| json!({"target": module.target, "version": module.version, "bytes": module.bytes}));
    let kernels = executable.kernels.iter().map(|kernel| {
        json!({
            "name": kernel.name,
            "module": kernel.module,
            "argument_bytes": kernel.argument_bytes,
            "bindings": kernel.bindings,
            "constants": kernel.constants,
            "block": kernel.block,
            "shared_bytes": kernel.shared_bytes,
        })
    });
    let devices = executable.devices.iter().map(|device| {
        let kernels = device.kernels.as_ref().map(|kernels| {
            let kernel = |kernel: &CudaResources| {
                json!({
                    "registers": kernel.registers,
                    "shared_bytes": kernel.shared_bytes,
                    "local_bytes": kernel.local_bytes,
                    "block_threads": kernel.block_threads,
                })
            };
            kernels.iter().map(kernel).collect::<Vec<_>>()
        });
        json!({"name": device.name, "kernels": kernels.as_ref().ok(), "failure": kernels.as_ref().err()})
    });
    json!({
        "modules": modules.collect::<Vec<_>>(),
        "kernels": kernels.collect::<Vec<_>>(),
        "devices": devices.collect::<Vec<_>>(),
    })
}

fn function(signature: &Signature) -> Value {
    let values = |values: &[ValueInfo]| {
        values.iter().map(|value| json!({"name": value.name, "type": value.to_string()})).collect::<Vec<_>>()
    };
    json!({
        "name": signature.name,
        "arguments": values(&signature.arguments),
        "results": values(&signature.results),
        "async": signature.is_async,
    })
}
