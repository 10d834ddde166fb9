//! `vireo replay diff`: compares two replays, dispatch by dispatch.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::PathBuf;

use serde_json::{Value, json};
use vireo::replay::{
    BoundRange, Cause, Comparison, ContentsOf, Diff, DiffSide, DifferentElement, ElementValue, FirstDifference,
    RangeDifference, ReplayOptions, SteppedDispatch, WatchDiff, diff as compare,
};
use vireo::visible_text::visible;
use vireo::{Result as VireoResult, Status, StatusCode};

use super::file;
use super::target::{Ground, split};
use crate::arguments::{RecordsFormat, ReplayDiffArguments};
use crate::confine;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::print::{print, print_aside};

/// Most bindings that are listed for people.
const MOST_LISTED: usize = 8;

/// Does what the flags say.
pub fn diff(arguments: &ReplayDiffArguments) -> Result<Exit, Failure> {
    let comparison = comparison(arguments)?;
    let Some(mut ground) = Ground::prepare(&arguments.target)? else { return Ok(Exit::Ok) };
    if arguments.save.is_some() && confine::is_wanted_by(&arguments.target.policy) {
        let failure = Failure::new(Exit::Usage, "--save writes files, which --untrusted takes away from this process");
        return Err(failure.hint("--no-confine runs the capture without this barrier"));
    }
    let (_, first) = ground.read(&arguments.first)?;
    let other = match &arguments.second {
        Some(file) => Some(ground.read(file)?.1),
        None => None,
    };
    let second = other.as_ref().unwrap_or(&first);
    let counts = [first.device_count(), second.device_count()];
    let [uris, other_uris] = split(&arguments.target.device, counts, other.is_some())?;
    let devices = [ground.devices(uris)?, ground.devices(other_uris)?];
    if let Some(folder) = &arguments.save {
        fs::create_dir_all(folder).map_err(|error| file::cannot_write(folder).because(error))?;
    }
    confine::confine_by(&arguments.target.policy)?;
    let substitutions = std::mem::take(&mut ground.substitutions);
    let replaced = ReplayOptions { substitutions, ..ground.options.clone() };
    let sides = [
        DiffSide { plan: &first, devices: &devices[0], options: &ground.options },
        DiffSide { plan: second, devices: &devices[1], options: &replaced },
    ];
    let rows = arguments.format == RecordsFormat::Jsonl;
    let mut watch = Watch { folder: arguments.save.clone(), files: HashMap::new(), rows, failure: None };
    let outcome = compare(sides, &comparison, &mut watch);
    if let Some(statistics) = ground.statistics() {
        print_aside(&statistics);
    }
    if let Some(failure) = watch.failure {
        return Err(failure);
    }
    let found = outcome.map_err(|status| Failure::new(Exit::RunFailure, "comparing the replays").because(status))?;
    let text = match arguments.format {
        RecordsFormat::Text => text(&found, &comparison),
        RecordsFormat::Jsonl => format!("{}\n", row(&found, &comparison)),
    };
    print(&mut io::stdout(), &text)?;
    Ok(if found.first.is_none() { Exit::Ok } else { Exit::Mismatch })
}

fn comparison(arguments: &ReplayDiffArguments) -> Result<Comparison, Failure> {
    let comparison = Comparison {
        elements: arguments.compare,
        ulps: arguments.ulps,
        absolute: arguments.absolute_tolerance,
        relative: arguments.relative_tolerance,
    };
    let is_number = |number: f64| number.is_finite() && number >= 0.0;
    let refused = |message: &str| Err(Failure::new(Exit::Usage, message.to_string()));
    if !is_number(comparison.absolute) || !is_number(comparison.relative) {
        return refused("a tolerance is a number that is not below zero");
    }
    if comparison.has_tolerance() && comparison.elements == vireo::replay::CompareAs::Bytes {
        return refused("bytes have no tolerance: --compare= names the type of the elements, such as f32");
    }
    if comparison.ulps > 0 && !comparison.elements.is_float() {
        return refused("--ulps is for floats: integers have --absolute_tolerance");
    }
    Ok(comparison)
}

/// Prints a row for each dispatch, and saves the contents of one.
struct Watch {
    folder: Option<PathBuf>,
    /// The files of the binding that is being saved.
    files: HashMap<(usize, ContentsOf), File>,
    rows: bool,
    failure: Option<Failure>,
}

impl Watch {
    /// Notes a failure of the host, which ends the comparison.
    fn give_up<T>(&mut self, failure: Failure) -> VireoResult<T> {
        self.failure = Some(failure);
        Err(Status::new(StatusCode::Aborted, "a file cannot be written"))
    }
}

impl WatchDiff for Watch {
    fn compared(&mut self, dispatches: &[SteppedDispatch; 2], is_equal: bool) -> VireoResult<()> {
        if !self.rows {
            return Ok(());
        }
        let [one, other] = dispatches;
        let row = json!({
            "kind": "dispatch", "number": one.number, "records": [one.record, other.record], "function": one.function,
            "bindings": one.bindings.len(), "equal": is_equal,
        });
        match print(&mut io::stdout(), &format!("{row}\n")) {
            Ok(_) => Ok(()),
            Err(failure) => self.give_up(failure),
        }
    }

    fn wants_contents(&self) -> bool {
        self.folder.is_some()
    }

    fn contents(&mut self, number: u64, binding: usize, of: ContentsOf, bytes: &[u8]) -> VireoResult<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let side = |side: usize| if side == 0 { "first" } else { "second" };
        let name = match of {
            ContentsOf::Input(number) => format!("input.{}", side(number)),
            ContentsOf::Output(number) => format!("result.{}", side(number)),
        };
        let path = folder.join(format!("dispatch-{number}.binding-{binding}.{name}.bin"));
        self.files.retain(|(other, _), _| *other == binding);
        let opened = match self.files.remove(&(binding, of)) {
            Some(file) => Ok(file),
            None => File::create_new(&path),
        };
        match opened.and_then(|mut file| file.write_all(bytes).map(|()| file)) {
            Ok(file) => {
                self.files.insert((binding, of), file);
                Ok(())
            }
            Err(error) => self.give_up(file::cannot_write(&path).because(error)),
        }
    }
}

fn text(found: &Diff, comparison: &Comparison) -> String {
    let mut text = String::new();
    match &found.first {
        None => {
            let _ = write!(text, "equal: {} dispatches and {} reads of the host", found.dispatches, found.reads);
            if found.lone_reads > 0 {
                let _ = write!(text, "; {} more reads are on one side alone", found.lone_reads);
            }
            text.push('\n');
        }
        Some(FirstDifference::Functions(dispatches)) => {
            let number = dispatches.iter().flatten().next().map_or(0, |dispatch| dispatch.number);
            let _ = writeln!(text, "dispatch {number} is another one:");
            for (dispatch, side) in dispatches.iter().zip(["first", "second"]) {
                let _ = match dispatch {
                    Some(dispatch) => {
                        let (record, function) = (dispatch.record, visible(&dispatch.function));
                        writeln!(text, "  {side}: `{function}`, record {record}")
                    }
                    None => writeln!(text, "  {side}: none, all its dispatches are done"),
                };
            }
            let _ = writeln!(text, "  the {} dispatches before it are equal", found.dispatches);
        }
        Some(FirstDifference::Results { dispatches, bindings, cause }) => {
            let [one, other] = &**dispatches;
            let records = match one.record == other.record {
                true => format!("record {}", one.record),
                false => format!("records {} and {}", one.record, other.record),
            };
            let _ = writeln!(text, "dispatch {} differs: `{}`, {records}", one.number, visible(&one.function));
            ranges(&mut text, bindings, [one, other], comparison);
            let _ = match cause {
                Cause::Dispatch => writeln!(text, "  its inputs are equal"),
                Cause::NotAgain => writeln!(text, "  it does not differ in a second replay: its results vary"),
                Cause::Inputs(_) => {
                    writeln!(text, "  its inputs differ: what was done after the dispatch before it does not agree")
                }
            };
            if let Cause::Inputs(inputs) = cause {
                ranges(&mut text, inputs, [one, other], comparison);
            }
        }
        Some(FirstDifference::Read { reads: [one, other], range }) => {
            let _ = writeln!(text, "all {} dispatches are equal, and a read of the host differs:", found.dispatches);
            let (name, records) = ("the read", format!("record {}", one.record));
            let records = if one.record == other.record { records } else { format!("{records} and {}", other.record) };
            range_line(&mut text, &format!("{name} of {records}"), &one.range, range, comparison);
        }
    }
    text
}

/// Lists bindings that differ.
fn ranges(
    text: &mut String,
    bindings: &[(usize, RangeDifference)],
    [one, _]: [&SteppedDispatch; 2],
    comparison: &Comparison,
) {
    for (binding, range) in bindings.iter().take(MOST_LISTED) {
        if let Some(bound) = one.bindings.get(*binding) {
            range_line(text, &format!("binding {binding}"), bound, range, comparison);
        }
    }
    if let Some(more) = bindings.len().checked_sub(MOST_LISTED + 1) {
        let _ = writeln!(text, "  and {} more bindings", more + 1);
    }
}

fn range_line(text: &mut String, name: &str, bound: &BoundRange, range: &RangeDifference, comparison: &Comparison) {
    let BoundRange { buffer, offset, length } = *bound;
    let _ = writeln!(text, "  {name} ({length} bytes at {offset} of buffer {buffer}): {} elements differ", range.count);
    let element = |text: &mut String, name: &str, element: &DifferentElement| {
        let DifferentElement { offset, values: [one, other], absolute, ulps } = element;
        let _ = write!(text, "    {name} at byte {offset}: {one} and {other}, {absolute:?} apart");
        let _ = if comparison.elements.is_float() { writeln!(text, ", {ulps} ulps") } else { writeln!(text) };
    };
    element(text, "first", &range.first);
    if range.worst.offset != range.first.offset {
        element(text, "worst", &range.worst);
    }
}

fn row(found: &Diff, comparison: &Comparison) -> Value {
    let dispatch = |dispatch: &SteppedDispatch| json!({"number": dispatch.number, "record": dispatch.record, "function": dispatch.function});
    let bound = |range: &BoundRange| json!({"buffer": range.buffer, "offset": range.offset, "length": range.length});
    let bindings = |bindings: &[(usize, RangeDifference)], one: &SteppedDispatch| {
        let row = |(binding, range): &(usize, RangeDifference)| json!({"binding": binding, "range": one.bindings.get(*binding).map(bound), "difference": range_row(range, comparison)});
        bindings.iter().map(row).collect::<Vec<_>>()
    };
    let mut row = json!({
        "kind": "summary", "equal": found.first.is_none(), "dispatches": found.dispatches, "reads": found.reads,
        "lone_reads": found.lone_reads,
    });
    let first = match &found.first {
        None => return row,
        Some(FirstDifference::Functions(dispatches)) => {
            let dispatches = dispatches.iter().map(|side| side.as_ref().map(dispatch)).collect::<Vec<_>>();
            json!({"kind": "functions", "dispatches": dispatches})
        }
        Some(FirstDifference::Results { dispatches, bindings: differing, cause }) => {
            let one = &dispatches[0];
            let (cause, inputs) = match cause {
                Cause::Dispatch => ("dispatch", Vec::new()),
                Cause::NotAgain => ("not_again", Vec::new()),
                Cause::Inputs(inputs) => ("inputs", bindings(inputs, one)),
            };
            let dispatches = dispatches.iter().map(dispatch).collect::<Vec<_>>();
            let results = bindings(differing, one);
            json!({"kind": "results", "dispatches": dispatches, "bindings": results, "cause": cause, "inputs": inputs})
        }
        Some(FirstDifference::Read { reads, range }) => {
            let records = reads.map(|read| read.record);
            json!({"kind": "read", "records": records, "range": bound(&reads[0].range), "difference": range_row(range, comparison)})
        }
    };
    if let Some(fields) = row.as_object_mut() {
        fields.insert("first".to_string(), first);
    }
    row
}

fn range_row(range: &RangeDifference, comparison: &Comparison) -> Value {
    let value = |value: ElementValue| match value {
        ElementValue::Byte(byte) => json!(byte),
        ElementValue::Int(number) => json!(number),
        ElementValue::Float(number) if number.is_finite() => json!(number),
        // JSON has no such numbers.
        ElementValue::Float(number) => json!(number.to_string()),
    };
    let element = |element: &DifferentElement| {
        let [one, other] = element.values;
        let absolute = value(ElementValue::Float(element.absolute));
        let mut row = json!({"offset": element.offset, "values": [value(one), value(other)], "absolute": absolute});
        if let Some(fields) = row.as_object_mut().filter(|_| comparison.elements.is_float()) {
            fields.insert("ulps".to_string(), json!(element.ulps));
        }
        row
    };
    json!({"count": range.count, "first": element(&range.first), "worst": element(&range.worst)})
}
