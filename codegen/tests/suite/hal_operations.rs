//! Operations of queues as values: what a mini-spec becomes, and what is said of operations that do not tell what they
//! do to memory.

use crate::hal::{generated, refused};

const TYPES: &str = "\
- bits: memory_access
  type: u16
  doc: Kinds of access.
  values:
    - {name: read, value: 0x1, doc: Read.}
    - {name: write, value: 0x2, doc: Written.}

- struct: timepoint
  doc: A point.
  fields:
    - {name: value, kind: u64, doc: The value.}

- struct: place
  doc: A place in a buffer.
  fields:
    - {name: buffer, kind: buffer, \"null\": true, doc: The buffer.}
";

const BUFFER: &str = "\
- object: buffer
  id: 1
  vm_type: hal.buffer
  doc: Memory.
";

const DEVICE: &str = "\
- object: device
  id: 2
  doc: A device.

- method: queue_mix
  doc: Mixes.
  operation: mix
  errors: Its own.
  args:
    - {name: queue_affinity, kind: u64}
    - {name: wait, kind: timepoint, list: true}
    - {name: signal, kind: timepoint, list: true}
    - {name: from, kind: buffer, access: [read], range: [offset, length]}
    - {name: into, kind: buffer, access: [write], range: [start, length]}
    - {name: offset, kind: u64}
    - {name: start, kind: u64}
    - {name: length, kind: u64}
    - {name: places, kind: place, list: true, accesses: [read, write]}
    - {name: first, kind: u32, list: true}
    - {name: second, kind: u32, list: true}

- method: trim
  doc: Is no operation.
  args:
    - {name: of, kind: buffer}
";

fn files(device: &str) -> [(&str, &str); 3] {
    [("spec/hal/buffer.yaml", BUFFER), ("spec/hal/device.yaml", device), ("spec/hal/types.yaml", TYPES)]
}

/// The text without what only its layout decides.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<String>().replace(",)", ")").replace(",]", "]").replace(",}", "}")
}

#[test]
fn an_operation_says_what_it_does_to_memory() {
    let text = squeezed(&generated(&files(DEVICE), "hal/operations.rs"));
    let expected = "
        QueueOperation::Mix { from, into, offset, start, length, places, .. } => {
            let length = known_length(
                length,
                &[Accessed::Buffer(from).left(offset), Accessed::Buffer(into).left(start)],
            );
            accesses.push(Accessed::Buffer(from).range(offset, length, MemoryAccess::READ));
            accesses.push(Accessed::Buffer(into).range(start, length, MemoryAccess::WRITE));
            for item in places {
                item.accessed(MemoryAccess::READ | MemoryAccess::WRITE, &mut accesses);
            }
        }";
    assert!(text.contains(&squeezed(expected)), "{text}");
}

#[test]
fn lists_of_one_type_have_places_of_their_own() {
    let text = squeezed(&generated(&files(DEVICE), "hal/owned_operations.rs"));
    for expected in [
        "struct Lists { place_list: Vec<Place>, u32_list: Vec<u32>, u32_list_2: Vec<u32>, }",
        "lists.u32_list.extend_from_slice(first); lists.u32_list_2.extend_from_slice(second);",
        "second: &self.lists.u32_list_2",
        "for item in self.place_list.drain(..) { if let Some(object) = item.buffer { object.recycle(); } }",
        "Operands::Mix { from, into, .. } => { from.recycle(); into.recycle(); }",
    ] {
        assert!(text.contains(&squeezed(expected)), "{expected}: {text}");
    }
}

#[test]
fn memory_without_an_access_is_refused() {
    let says = "an operation that names memory says what it does to it: expected `access` or `accesses`";
    let only = "only an object that an operation of a queue names has `accesses`";
    for (from, to, expected) in [
        (", accesses: [read, write]", "", format!("`places`: {says}")),
        ("access: [write], range: [start", "range: [start", format!("`into`: {says}")),
        ("name: offset, kind: u64", "name: offset, kind: u64, accesses: [read]", format!("`offset`: {only}")),
        ("{name: of, kind: buffer}", "{name: of, kind: buffer, accesses: [read]}", format!("`of`: {only}")),
        ("[read, write]", "[reads]", "`places`: `memory_access` has no value `reads`".to_string()),
    ] {
        let message = refused(&files(&DEVICE.replacen(from, to, 1)));
        assert!(message.contains(&expected), "{message}");
    }
}
