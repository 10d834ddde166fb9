//! The generated observers of devices: the exact text for a mini-spec, and no method forgotten for the real one.

use vireo_codegen::load;

use crate::hal::{generated, refused};
use crate::real;

/// A device that makes lamps and bulbs, and calls a host. Bulbs are not wrapped.
const DEVICE: &str = "\
- object: device
  id: 1
  doc: A device.

- method: light
  doc: Lights lamps.
  args:
    - {name: points, kind: point, list: true}
    - {name: spare, kind: lamp, \"null\": true, doc: Another one.}
    - {name: bulb, kind: bulb}
    - {name: done, kind: callback}
    - {name: failure, kind: status}
  result: {kind: lamp}

- method: replace
  doc: Takes memory.
  safety: The memory must be valid.
  args:
    - {name: memory, kind: pointer}
    - {name: watcher, kind: watcher}
    - {name: painter, kind: painter}
  result: {kind: bulb}

- struct: point
  doc: A lamp at a place.
  fields:
    - {name: lamp, kind: lamp, doc: The lamp.}
    - {name: place, kind: u32, doc: The place.}
";

const LAMP: &str = "\
- object: lamp
  id: 2
  doc: A lamp.

- method: name
  doc: Its name.
  result: {kind: string}
  infallible: true
";

const BULB: &str = "\
- object: bulb
  id: 3
  bare: true
  doc: A bulb.

- method: glow
  doc: Glows.
";

const WATCHER: &str = "\
- object: watcher
  id: 4
  doc: Someone of the host who gets lamps.

- method: seen
  doc: Called with lamps.
  args:
    - {name: lamps, kind: lamp, list: true}
";

const PAINTER: &str = "\
- object: painter
  id: 5
  doc: Someone of the host who gets no lamps.

- method: paint
  doc: Paints.
";

pub const MINI: &[(&str, &str)] = &[
    ("spec/hal/bulb.yaml", BULB),
    ("spec/hal/device.yaml", DEVICE),
    ("spec/hal/lamp.yaml", LAMP),
    ("spec/hal/painter.yaml", PAINTER),
    ("spec/hal/watcher.yaml", WATCHER),
];

#[test]
fn devices_and_what_they_make_are_wrapped() {
    let text = generated(MINI, "hal/observe.rs");
    for (name, side) in [("Device", "Host"), ("Lamp", "Host"), ("Watcher", "Device")] {
        let part = format!("impl Wrapped for dyn {name} {{\n    const SIDE: Side = Side::{side};\n");
        assert!(text.contains(&part), "{part}\nis not in\n{text}");
    }
    // A bulb stays what it is, and a painter is handed nothing that would have to be exchanged.
    for name in ["Bulb", "Painter"] {
        assert!(text.contains(&format!("impl Known for dyn {name} ")), "{text}");
        assert!(!text.contains(&format!("Wrapped for dyn {name} ")), "{text}");
    }
    let part = "\
impl Exchange for Point {
    fn exchanged(&self, observation: &Arc<Observation>, to: Side) -> Self {
        Point {
            lamp: self.lamp.exchanged(observation, to),
            ..self.clone()
        }
    }
}
";
    assert!(text.contains(part), "{part}\nis not in\n{text}");
}

#[test]
fn wrappers_show_the_call_and_exchange_objects() {
    let text = generated(MINI, "hal/observe.rs");
    let part = "\
        let observed = self
            .called(Call::DeviceLight {
                points,
                spare,
                bulb,
                failure: &failure,
            });
        observed.begins()?;
        let points = self.all_passed_on(points);
        let spare = spare.map(|value| self.passed_on(value));
        let outcome = self
            .wrapped()
            .light(&points, spare.as_ref(), bulb, done, failure.clone())
            .map(|value| self.returned(&value));
        observed.ends(outcome.as_ref().map(Reply::DeviceLight));
        outcome
";
    assert!(text.contains(part), "{part}\nis not in\n{text}");
    let part = "\
        let watcher = self.passed_on(watcher);
        // SAFETY: the caller guarantees the same to this method.
        let outcome = unsafe { self.wrapped().replace(memory, &watcher, painter) };
";
    assert!(text.contains(part), "{part}\nis not in\n{text}");
    let part = "\
    fn name(&self) -> &str {
        let observed = self.called(Call::LampName);
        let result = self.wrapped().name();
        observed.returns(Reply::LampName(result));
        result
    }
";
    assert!(text.contains(part), "{part}\nis not in\n{text}");
}

#[test]
fn calls_have_the_arguments_and_a_text() {
    let text = generated(MINI, "hal/calls.rs");
    let part = "\
    /// `device.light`
    DeviceLight {
        /// The argument `points`.
        points: &'a [Point],
        /// Another one.
        spare: Option<&'a Arc<dyn Lamp>>,
        /// The argument `bulb`.
        bulb: &'a Arc<dyn Bulb>,
        /// The argument `failure`.
        failure: &'a Status,
    },
";
    assert!(text.contains(part), "{part}\nis not in\n{text}");
    let part = "\
            Call::DeviceLight { points, spare, bulb, failure } => {
                text.named(\"points\", points);
                text.named(\"spare\", spare);
                text.named(\"bulb\", bulb);
                text.named(\"failure\", failure);
            }
";
    assert!(text.contains(part), "{part}\nis not in\n{text}");
    let part = "\
impl Show for Point {
    fn show(&self, text: &mut Text<'_>) {
        text.braces(|text| {
            text.named(\"lamp\", &self.lamp);
            text.named(\"place\", &self.place);
        });
    }
}
";
    assert!(text.contains(part), "{part}\nis not in\n{text}");
}

#[test]
fn a_spec_without_devices_has_no_observers() {
    let spec = load(&[("spec/hal/lamp.yaml", LAMP)]).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let files = vireo_codegen::generate(&spec);
    assert!(files.iter().all(|file| !matches!(file.path.as_str(), "hal/calls.rs" | "hal/observe.rs")));
    let bare = LAMP.replace("  id: 2\n", "  id: 2\n  bare: perhaps\n");
    assert!(refused(&[("spec/hal/lamp.yaml", &bare)]).contains("spec/hal/lamp.yaml:"));
}

/// The observed objects of the real spec: an object that is added to the spec changes this list.
#[test]
fn the_objects_of_the_real_spec() {
    let observed = real::SPEC.hal.observed();
    let names = |objects: &[&vireo_codegen::model::hal::Object]| {
        objects.iter().map(|object| object.name.clone()).collect::<Vec<_>>().join(" ")
    };
    let (made, hosts) = observed.wrapped.split_at(observed.made);
    assert_eq!(
        names(made),
        "allocator channel command_buffer device executable executable_cache file semaphore slab_provider"
    );
    assert_eq!(names(hosts), "host_call");
    assert_eq!(names(&observed.numbered), "buffer channel_provider event physical_memory pool profile_sink");
}
