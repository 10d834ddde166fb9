//! `vireo run`: loads modules, calls one function, and prints, writes or checks its results.

use std::io::{self, Write};

use serde_json::{Value, json};
use vireo::hal::ExecutionStatistics;
use vireo::inference::{Signature, TensorType, ValueInfo, ValueType};
use vireo::interp::Tier;
use vireo::visible_text::visible;

use crate::arguments::{Format, ListingArguments, ProgramArguments, RunArguments};
use crate::confine;
use crate::device_profile::DeviceProfile;
use crate::devices::{Drivers, flush_c_streams};
use crate::dispatch_trace::DispatchTrace;
use crate::engine::{Linked, Others, Session, cannot_call, explain, kinds};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::print::{print, print_aside, print_json};
use crate::recording;
use crate::statistics;
use crate::tiers;
use crate::values::compare::Mismatch;
use crate::values::datum::list_text;
use crate::values::error::ValueError;
use crate::values::output::OutputFiles;
use crate::values::spec::{INPUT, parse_values};
use crate::values::{Datum, Limits, compare, json, output};

/// The name of a call in a capture, by which the reference's tools measure it.
pub const CALL: &str = "execute";

/// Does what the flags say. What goes to stdout is, byte for byte, what the reference tool prints.
pub fn run(arguments: &RunArguments, format: Format) -> Result<Exit, Failure> {
    let mut out = io::stdout().lock();
    if let Some(listing) = listing(&arguments.program, &arguments.listing)? {
        return print(&mut out, &listing);
    }
    confine::check(&arguments.program)?;
    let profile = DeviceProfile::create(&arguments.profiling)?;
    if profile.is_some() && (arguments.print_device_statistics || arguments.dispatch_trace.is_some()) {
        let message = "--device_profiling_output cannot be combined with --print_device_statistics or --dispatch_trace";
        return Err(Failure::new(Exit::Usage, message));
    }
    let trace = arguments.dispatch_trace.as_deref().map(DispatchTrace::create).transpose()?;
    let counted = match &trace {
        Some(trace) => Some(ExecutionStatistics::with_trace(trace.trace.clone())),
        None => arguments.print_device_statistics.then(ExecutionStatistics::new),
    };
    let program = Linked::load(&arguments.program, arguments.file.as_ref(), counted.as_ref(), profile.as_ref())?;
    let prepared = Prepared::read(arguments, &program)?;
    confine::confine(&arguments.program)?;
    let (session, others) = recording::scope("init", || program.start())?;
    let exit = match format {
        Format::Text => call(arguments, prepared, (&session, others.as_ref()), &mut out),
        Format::Json => call_for_json(arguments, prepared, (&session, others.as_ref())),
    };
    if arguments.print_statistics {
        print_aside(&session.statistics());
    }
    if let Some(counted) = counted.as_ref().filter(|_| arguments.print_device_statistics) {
        print_aside(&statistics::text(counted));
    }
    // A program that failed leaves a trace and a profile of what it did.
    let written = trace.map_or(Ok(()), DispatchTrace::finish);
    let profiled = profile.map_or(Ok(()), DeviceProfile::finish);
    let (exit, document) = exit?;
    written?;
    profiled?;
    if let Some(mut document) = document {
        if arguments.print_statistics {
            document["machine_code"] = session.machine_code_json();
        }
        print_json(&mut out, &format!("{document:#}\n"))?;
    }
    Ok(exit)
}

/// The text that the listing flags ask for; none if none of them is given.
pub fn listing(program: &ProgramArguments, listing: &ListingArguments) -> Result<Option<String>, Failure> {
    if let Some(topologies) = program.devices.task.dump()? {
        return Ok(Some(topologies));
    }
    let policy = || program.policy.policy(Tier::Auto);
    let drivers = || Drivers::load(&program.devices, policy());
    if listing.list_drivers {
        return Ok(Some(drivers()?.list_drivers()));
    }
    if let Some(driver) = &listing.list_devices {
        return drivers()?.list_devices(driver).map(Some);
    }
    listing.dump_devices.as_ref().map(|driver| drivers()?.dump_devices(driver)).transpose()
}

/// The inputs of a call and the files of its results, read and opened before the program runs.
struct Prepared {
    inputs: Vec<Datum>,
    expected: Vec<Datum>,
    files: OutputFiles,
}

impl Prepared {
    fn read(arguments: &RunArguments, program: &Linked) -> Result<Prepared, Failure> {
        let signature = &program.signature(arguments.function.as_deref())?;
        let limits = arguments.program.limits();
        let inputs = inputs(signature, &arguments.input, limits)?;
        let outputs = (!arguments.output.is_empty()).then_some(&arguments.output);
        let checked = outputs.map_or(Ok(()), |outputs| output::check_outputs(outputs, signature.results.len()));
        checked.map_err(|error| cannot_write(signature, error))?;
        let expected = expected_values(signature, &arguments.expected_output, limits)?;
        // Otherwise a file is touched only once there is something to write.
        let files = match outputs.filter(|_| confine::is_wanted(&arguments.program)) {
            Some(outputs) => OutputFiles::open(outputs).map_err(|error| cannot_write(signature, error))?,
            None => OutputFiles::default(),
        };
        Ok(Prepared { inputs, expected, files })
    }
}

fn call(
    arguments: &RunArguments,
    prepared: Prepared,
    (session, others): (&Session, Option<&Others>),
    out: &mut dyn Write,
) -> Result<(Exit, Option<Value>), Failure> {
    call_and_print(arguments, prepared, (session, others), out).map(|exit| (exit, None))
}

/// The results of a call as a document, with those that --output names written to files.
fn call_for_json(
    arguments: &RunArguments,
    prepared: Prepared,
    (session, others): (&Session, Option<&Others>),
) -> Result<(Exit, Option<Value>), Failure> {
    let function = session.function(arguments.function.as_deref())?;
    let signature = function.signature();
    let Prepared { inputs, expected, mut files } = prepared;
    let results = recording::scope(CALL, || tiers::call_all((session, others), &function, inputs));
    flush_c_streams();
    let results = results?.map_err(|status| cannot_call(&function, status))?;
    let is_shown = |index: usize| match arguments.output.get(index) {
        Some(output) => output == "-",
        None => arguments.output.is_empty(),
    };
    // The document has what would be printed.
    let outputs = arguments.output.iter().map(|output| if output == "-" { "" } else { output }.to_string());
    let outputs = outputs.collect::<Vec<_>>();
    if !outputs.is_empty() {
        let written = output::write_outputs(&results, &outputs, &mut files, arguments.max_elements(), &mut io::sink());
        written.map_err(|error| of_value(signature, output_exit(&error), "writing the results", error))?;
    }
    let list = results.iter().enumerate().map(|(index, result)| {
        let mut object = json::to_json(result, if is_shown(index) { arguments.max_elements() } else { 0 });
        let name = signature.results.get(index).map_or("", |info| info.name.as_str());
        object.insert("name".into(), name.into());
        Value::Object(object)
    });
    let mut document = json!({"function": signature.name, "results": list.collect::<Vec<_>>()});
    let mut exit = Exit::Ok;
    if !arguments.expected_output.is_empty() {
        let found = compare::compare(&expected, &results, arguments.comparison.tolerance(), arguments.max_elements());
        if found.is_some() {
            exit = Exit::Mismatch;
        }
        let texts = found.as_ref().map(|Mismatch { report, details }| (report, details));
        document["comparison"] = json!({
            "matches": texts.is_none(),
            "report": texts.map(|(report, _)| report),
            "details": texts.map(|(_, details)| details),
        });
    }
    Ok((exit, Some(document)))
}

fn call_and_print(
    arguments: &RunArguments,
    prepared: Prepared,
    (session, others): (&Session, Option<&Others>),
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let function = session.function(arguments.function.as_deref())?;
    let signature = function.signature();
    let within = |failure: Failure| explain(signature, failure);
    let Prepared { inputs, expected, mut files } = prepared;

    print(out, &format!("EXEC @{}\n", visible(&signature.name)))?;
    let results = recording::scope(CALL, || tiers::call_all((session, others), &function, inputs));
    flush_c_streams();
    let results = results?;
    let results = results.map_err(|status| cannot_call(&function, status))?;

    if !arguments.expected_output.is_empty() {
        return check(&expected, &results, arguments, out);
    }
    if arguments.output.is_empty() {
        let text = list_text("result", &results, arguments.max_elements());
        let text =
            text.map_err(|status| within(Failure::new(Exit::RunFailure, "printing the results").because(status)))?;
        return print(out, &text);
    }
    let written = output::write_outputs(&results, &arguments.output, &mut files, arguments.max_elements(), out);
    written.map_err(|error| of_value(signature, output_exit(&error), "writing the results", error))?;
    Ok(Exit::Ok)
}

/// The arguments of a function as flags give them, one for each.
pub fn inputs(signature: &Signature, specs: &[String], limits: Limits) -> Result<Vec<Datum>, Failure> {
    let inputs = values(signature, INPUT, &signature.arguments, specs, limits)?;
    let (needed, given) = (signature.arguments.len(), inputs.len());
    if given != needed {
        let plural = if needed == 1 { "" } else { "s" };
        let name = &signature.name;
        let message = format!("@{name} takes {needed} argument{plural}, {given} given; expected one --input for each");
        return Err(explain(signature, Failure::new(Exit::Usage, message)));
    }
    for (index, (input, info)) in inputs.iter().zip(&signature.arguments).enumerate() {
        let (Datum::View(tensor), ValueType::Tensor(expected)) = (input, &info.r#type) else { continue };
        if !expected.may_be(tensor) {
            let name = if info.name.is_empty() { String::new() } else { format!(" `{}`", visible(&info.name)) };
            let given = TensorType {
                shape: tensor.shape().iter().copied().map(Some).collect(),
                element_type: tensor.element_type(),
            };
            let message = format!("argument {index}{name} of @{} is {expected}, and {given} is given", signature.name);
            return Err(explain(signature, Failure::new(Exit::Usage, message)));
        }
    }
    Ok(inputs)
}

/// The expected results of a function as flags give them: none, or one for each.
pub fn expected_values(signature: &Signature, specs: &[String], limits: Limits) -> Result<Vec<Datum>, Failure> {
    let expected = values(signature, "expected-output", &signature.results, specs, limits)?;
    let (given, returned) = (expected.len(), signature.results.len());
    if !specs.is_empty() && given != returned {
        let message = format!("{given} expected outputs are given, but @{} returns {returned}", signature.name);
        let failure = Failure::new(Exit::Usage, format!("{message}; expected one --expected_output for each"));
        return Err(explain(signature, failure));
    }
    Ok(expected)
}

/// The failure of results that cannot be written as --output says.
pub fn cannot_write(signature: &Signature, error: ValueError) -> Failure {
    of_value(signature, output_exit(&error), "cannot write the results", error)
}

fn values(
    signature: &Signature,
    flag: &'static str,
    expected: &[ValueInfo],
    specs: &[String],
    limits: Limits,
) -> Result<Vec<Datum>, Failure> {
    parse_values(flag, &kinds(expected), specs, limits).map_err(|error| {
        let message = format!("invalid value for {error}");
        of_value(signature, Exit::Usage, &message, error.source)
    })
}

/// A failure of a value, with the signature of the function where that can help.
fn of_value(signature: &Signature, exit: Exit, message: &str, error: ValueError) -> Failure {
    let is_about_file = error.is_about_file();
    let failure = Failure::new(exit, message).because(error);
    if is_about_file { failure } else { explain(signature, failure) }
}

fn check(
    expected: &[Datum],
    results: &[Datum],
    arguments: &RunArguments,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    match compare::compare(expected, results, arguments.comparison.tolerance(), arguments.max_elements()) {
        Some(Mismatch { report, details }) => {
            print(out, &report)?;
            // The report is that of the reference's tools; what these do not say is no part of it.
            print_aside(&details);
            Ok(Exit::Mismatch)
        }
        None => print(out, "[SUCCESS] all function outputs matched their expected values.\n"),
    }
}

fn output_exit(error: &ValueError) -> Exit {
    match error {
        ValueError::Output(_) | ValueError::OutputCount { .. } | ValueError::Append(_) => Exit::Usage,
        _ => Exit::RunFailure,
    }
}
