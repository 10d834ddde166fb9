//! Rules of arguments: what is generated for a mini-spec, which rules are refused, and how the manual words them.

use crate::hal::{generated, refused};

const DEVICE: &str = "\
- object: device
  id: 1
  doc: A device.

- method: make
  doc: Makes a recorder.
  result: {kind: recorder}

- method: queue_move
  doc: Moves bytes.
  operation: move
  args:
    - {name: queue_affinity, kind: u64}
    - {name: wait, kind: timepoint, list: true}
    - {name: signal, kind: timepoint, list: true}
    - {name: from, kind: buffer, usage: [source], access: [read], range: [offset, length]}
    - {name: offset, kind: u64}
    - {name: to, kind: buffer, range: [offset, length], accesses: [read]}
    - {name: length, kind: u64}

- struct: timepoint
  doc: A point.
  fields:
    - {name: value, kind: u64, doc: The value.}

- struct: buffer_ref
  doc: A range.
  fields:
    - {name: buffer, kind: buffer, \"null\": true, doc: The buffer.}

- constant: most
  type: u64
  value: 9
  doc: Most bytes.

- bits: buffer_usage
  type: u32
  doc: Uses.
  values:
    - {name: source, value: 1, doc: Bytes come from it.}
    - {name: target, value: 2, doc: Bytes go to it.}

- bits: memory_access
  type: u32
  doc: Accesses.
  values:
    - {name: read, value: 1, doc: It is read.}

- bits: command_category
  type: u32
  doc: Commands.
  values:
    - {name: transfer, value: 1, doc: Transfers.}
";

const RECORDER: &str = "\
- object: recorder
  id: 2
  doc: Records.

- method: fill
  doc: Fills.
  recorded: [transfer]
  args:
    - {name: target, kind: buffer_ref, any_usage: [source, target], multiple_of: pattern}
    - {name: pattern, kind: bytes, lengths: [1, 2], at_most: most}
    - {name: others, kind: recorder, list: true, same_device: true}
    - {name: copy, kind: buffer_ref, same_length: target}
";

const BUFFER: &str = "\
- object: buffer
  id: 3
  bare: true
  doc: A buffer.
";

fn files<'a>(device: &'a str, recorder: &'a str) -> [(&'static str, &'a str); 3] {
    [("spec/hal/buffer.yaml", BUFFER), ("spec/hal/device.yaml", device), ("spec/hal/recorder.yaml", recorder)]
}

#[test]
fn rules_become_checks() {
    let text = generated(&files(DEVICE, RECORDER), "hal/checks.rs");
    for part in [
        "Call::RecorderFill { .. } => Some(CommandCategory::TRANSFER),",
        "Call::DeviceQueueMove { wait, signal, .. } => Some((wait, signal)),",
        // The first range says how long the second one is.
        "\
            Call::DeviceQueueMove { from, offset, to, length, .. } => {
                let length = &checks
                    .buffer(
                        \"from\",
                        from,
                        *offset,
                        *length,
                        Needs {
                            usage: BufferUsage::SOURCE,
                            access: MemoryAccess::READ,
                            ..Needs::default()
                        },
                    )?;
                checks.buffer(\"to\", to, *offset, *length, Needs::default())?;
                Ok(())
            }
",
        "\
            Call::RecorderFill { target, pattern, others, copy } => {
                checks.length_of(\"pattern\", pattern.len(), &[1, 2])?;
                checks.length_up_to(\"pattern\", pattern.len(), MOST)?;
                for object in *others {
                    checks.same_device(\"others\", object)?;
                }
                let target_length = checks
                    .reference(
                        \"target\",
                        target,
                        Needs {
                            any_usage: BufferUsage::SOURCE | BufferUsage::TARGET,
                            multiple_of: pattern.len() as u64,
                            ..Needs::default()
                        },
                    )?;
                let copy_length = checks.reference(\"copy\", copy, Needs::default())?;
                checks.same_length((\"copy\", copy_length), (\"target\", target_length))?;
                Ok(())
            }
",
    ] {
        assert!(text.contains(part), "{part}\nis not in\n{text}");
    }
    // The timelines of an operation tell its faults.
    let observe = generated(&files(DEVICE, RECORDER), "hal/observe.rs");
    assert!(observe.contains("Err(failure) => fail_operation(&wait, &signal, failure)"), "{observe}");
    // The observer sees the objects of the caller, so this comes before they are exchanged.
    let squeezed = observe.split_whitespace().collect::<String>().replace(",}", "}");
    let operation =
        "letoperation=QueueOperation::Move{from,offset,to,length};letoutcome=matchobserved.submits(operation)";
    assert!(squeezed.contains(operation), "{observe}");
}

#[test]
fn rules_that_mean_nothing_are_refused() {
    let cases = [
        ("usage: [source]", "usage: [sauce]", "`from`: `buffer_usage` has no value `sauce`"),
        ("access: [read]", "access: [red]", "`from`: `memory_access` has no value `red`"),
        ("read], range: [offset, length]", "read], range: [start, length]", "`from`: there is no argument `start`"),
        (
            "read], range: [offset, length]",
            "read], range: [wait, length]",
            "`from`: `wait` is no offset: expected a u64",
        ),
        (
            "read], range: [offset, length]",
            "read], range: [offset, wait]",
            "`from`: `wait` is no length: expected a u64 or bytes",
        ),
        ("read], range: [offset, length]", "read], in_range: true", "`from`: only a `buffer_ref` is a range"),
        ("offset, kind: u64", "offset, kind: u64, access: [read]", "`offset`: only buffers and files have an access"),
        (
            "offset, kind: u64",
            "offset, kind: u64, usage: [source]",
            "`offset`: only buffers and ranges of them have a usage",
        ),
        (
            "offset, kind: u64",
            "offset, kind: u64, range: [offset, length]",
            "`offset`: only a buffer or a file has a `range`",
        ),
        ("offset, kind: u64", "offset, kind: u64, lengths: [1]", "`offset`: only bytes and lists have lengths"),
        ("offset, kind: u64", "offset, kind: u64, same_device: true", "`offset`: only an object has a maker"),
        ("kind: u64, doc: The value.", "kind: u64, lengths: [1], doc: The value.", "spec/hal/device.yaml:"),
    ];
    for (from, to, expected) in cases {
        assert!(DEVICE.contains(from), "{from}");
        let message = refused(&files(&DEVICE.replacen(from, to, 1), RECORDER));
        assert!(message.contains(expected), "{message}");
    }
    let cases = [
        ("recorded: [transfer]", "recorded: [transfers]", "`command_category` has no value `transfers`"),
        (
            "recorded: [transfer]",
            "infallible: true\n  recorded: [transfer]",
            "`fill` cannot fail, so nothing is asked of it",
        ),
        ("multiple_of: pattern", "multiple_of: others", "`target`: `others` has no length: expected bytes"),
        (
            "same_length: target",
            "same_length: others",
            "`copy`: `others` has no length: expected bytes or a `buffer_ref`",
        ),
        ("at_most: most", "at_most: least", "`pattern`: there is no constant `least`"),
        (
            "pattern, kind: bytes",
            "pattern, kind: bytes, multiple_of: target",
            "`pattern`: only a range has a `multiple_of`",
        ),
        (
            "pattern, kind: bytes",
            "pattern, kind: bytes, same_length: target",
            "`pattern`: only a `buffer_ref` has a `same_length`",
        ),
    ];
    for (from, to, expected) in cases {
        assert!(RECORDER.contains(from), "{from}");
        let message = refused(&files(DEVICE, &RECORDER.replacen(from, to, 1)));
        assert!(message.contains(expected), "{message}");
    }
}

/// People read the rules beside the argument.
#[test]
fn rules_have_sentences() {
    let spec = vireo_codegen::load(&files(DEVICE, RECORDER)).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let texts: Vec<String> = spec
        .hal
        .objects()
        .flat_map(|object| &object.methods)
        .flat_map(|method| &method.args)
        .filter_map(|arg| Some(format!("{}: {}", arg.name, arg.rules.as_ref()?.text())))
        .collect();
    assert_eq!(
        texts,
        [
            "from: Its usage includes `source`. It allows `read`. The range at `offset` of `length` is within it.",
            "to: The range at `offset` of `length` is within it.",
            "target: Its usage includes one of `source`, `target`. The range begins and ends at multiples of the length of `pattern`.",
            "pattern: Its length is one of 1, 2. It is at most as long as `most`.",
            "others: The same device made it.",
            "copy: It is as long as `target`.",
        ]
    );
}
