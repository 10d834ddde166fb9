//! Pages and traces of profiles: they are whole and have every event, whatever names are; mutants are drawn or refused.

mod drawn;
#[path = "../../tests/support/mutants.rs"]
mod mutants;

use std::collections::BTreeMap;
use std::io::{Cursor, Write};
use std::path::Path;

use drawn::{NAMES, draw};
use mutants::Mutants;
use serde_json::Value;
use vireo_profile::{OutputError, Reader, html, perfetto, perfetto_fields};

type Render = fn(&mut Reader, &mut dyn Write) -> Result<(), OutputError>;

fn render(bytes: &[u8], render: Render) -> Result<Vec<u8>, String> {
    let reader = Reader::new("some/folder/<b>.ireeprof", Box::new(Cursor::new(bytes.to_vec())));
    let mut out = Vec::new();
    render(&mut reader.map_err(|error| error.to_string())?, &mut out).map_err(|error| error.to_string())?;
    Ok(out)
}

fn page(bytes: &[u8]) -> Result<String, String> {
    render(bytes, html).map(|page| String::from_utf8(page).expect("pages are text"))
}

/// The data of a page.
fn data(page: &str) -> Value {
    let (_, data) = page.split_once("<script type=\"application/json\" id=\"data\">").expect("there are data");
    let (data, _) = data.split_once("</script>").expect("they end");
    assert!(!data.contains('<'), "nothing in the data begins a tag");
    serde_json::from_str(data).expect("they are JSON")
}

fn list<'a>(data: &'a Value, name: &str) -> &'a Vec<Value> {
    data[name].as_array().unwrap_or_else(|| panic!("{name} is a list"))
}

fn fixture(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/profile");
    std::fs::read(folder.join(format!("{name}.ireeprof"))).expect("the profile exists")
}

/// A page needs nothing else, and its names cannot leave their place.
#[test]
fn pages_need_nothing_else() {
    let page = page(&draw(7, 6).bytes).expect("it is whole");
    for other in ["http:", "https:", " src=", "@import", "url("] {
        assert!(!page.contains(other), "the page has `{other}`");
    }
    assert_eq!((page.matches("<script").count(), page.matches("</script").count()), (2, 2));
    assert!(page.contains("<title>&lt;b&gt;.ireeprof: profile</title>"), "names of files are text, without folders");
    assert!(!page.contains("{{"), "each place of the page is filled");
}

/// All events of drawn profiles are in the page, in lanes and with names that exist.
#[test]
fn pages_have_every_event() {
    for seed in 0..60 {
        let drawn = draw(seed, 7);
        let page = page(&drawn.bytes).expect("it is whole");
        let data = data(&page);
        let (lanes, names, tracks) = (list(&data, "lanes"), list(&data, "names"), list(&data, "tracks"));
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for event in list(&data, "events") {
            let event: Vec<i64> =
                event.as_array().expect("a row").iter().map(|field| field.as_i64().unwrap()).collect();
            let label = lanes[event[0] as usize]["label"].as_str().expect("lanes have labels");
            assert!(names[event[1] as usize].is_string() && event[2] >= 0 && event[3] >= -1, "seed {seed}: {event:?}");
            *counts.entry(label.split(':').next().unwrap_or_default().to_string()).or_default() += 1;
        }
        let expected = [
            ("queue operations", drawn.queue_events),
            ("device submissions", drawn.queue_device_events),
            ("device dispatches", drawn.dispatches),
            ("host execution", drawn.host_executions),
            ("command regions", drawn.regions),
            ("memory events", drawn.memory_events),
        ];
        let expected = expected.into_iter().filter(|(_, count)| *count != 0);
        assert_eq!(counts, expected.map(|(name, count)| (name.to_string(), count)).collect(), "seed {seed}");
        let samples = list(&data, "samples");
        let of_metrics = samples.iter().filter(|sample| {
            let track = &tracks[sample[0].as_u64().expect("a track") as usize];
            track["label"].as_str().expect("tracks have labels").starts_with("metric: ")
        });
        assert_eq!(of_metrics.count() as u64, drawn.metric_values, "seed {seed}");
    }
}

/// Names are in the page as they are; what is no UTF-8 has replacement characters.
#[test]
fn names_are_kept() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..40 {
        let data = data(&page(&draw(seed, 6).bytes).expect("it is whole"));
        seen.extend(list(&data, "names").iter().map(|name| name.as_str().expect("names are text").to_string()));
    }
    for name in NAMES.iter().filter(|name| !name.is_empty()) {
        assert!(seen.contains(String::from_utf8_lossy(name).as_ref()), "{name:?} of {seen:?}");
    }
}

/// The times of a recorded profile, as the reports of IREE's tool have them.
#[test]
fn times_are_those_of_the_records() {
    let data = data(&page(&fixture("joined")).expect("it is whole"));
    let row = |label: &str| {
        let lane = list(&data, "lanes").iter().position(|lane| lane["label"].as_str().unwrap().starts_with(label));
        let lane = lane.unwrap_or_else(|| panic!("{label} is a lane")) as u64;
        let event = list(&data, "events").iter().find(|event| event[0] == lane).expect("it has an event");
        (event[2].as_i64().unwrap(), event[3].as_i64().unwrap())
    };
    // 1000 ticks of a clock of 1 GHz.
    assert_eq!(row("device dispatches").1, 1000);
    let rows = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/profile/joined.export.jsonl"),
    );
    let rows: Vec<Value> =
        rows.expect("the rows exist").lines().map(|row| serde_json::from_str(row).expect("it is JSON")).collect();
    let host = rows.iter().find(|row| row["record_type"] == "host_execution_event").expect("there is one");
    let start: i64 = data["start"].as_str().and_then(|start| start.parse().ok()).expect("the begin is a number");
    let expected = (host["start_host_time_ns"].as_i64().unwrap() - start, host["duration_ns"].as_i64().unwrap());
    assert_eq!(row("host execution"), expected);
}

/// Counts what is written, and keeps none of it.
#[derive(Default)]
struct Counted(usize);

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The size of pages and traces by event.
#[test]
fn an_event_takes_few_bytes() {
    let drawn = draw(3, 12);
    let size = |render: Render| {
        let mut reader = Reader::new("file", Box::new(Cursor::new(drawn.bytes.clone()))).expect("it is whole");
        let mut counted = Counted::default();
        render(&mut reader, &mut counted).expect("it is whole");
        counted.0
    };
    let data = data(&page(&drawn.bytes).expect("it is whole"));
    let count = list(&data, "events").len() + list(&data, "samples").len();
    assert!(count > 5_000, "{count} events and values");
    let (of_page, of_trace) = (size(html) / count, size(perfetto) / count);
    assert!(of_page < 48 && of_trace < 96, "{of_page} and {of_trace} bytes for each of {count}");
}

/// A field of a message: its number and its value.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message of protocol buffers.
fn fields(mut bytes: &[u8]) -> Vec<(u32, Field<'_>)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = bytes[0];
            *bytes = &bytes[1..];
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                return value;
            }
        }
    }
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let field = match tag & 7 {
            0 => Field::Number(varint(&mut bytes)),
            1 => {
                let (word, rest) = bytes.split_at(8);
                bytes = rest;
                Field::Number(u64::from_le_bytes(word.try_into().expect("eight bytes")))
            }
            2 => {
                let length = varint(&mut bytes) as usize;
                let (part, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(part)
            }
            other => panic!("wire type {other}"),
        };
        all.push(((tag >> 3) as u32, field));
    }
    all
}

fn number(fields: &[(u32, Field<'_>)], wanted: u32) -> Option<u64> {
    fields.iter().find_map(|(field, value)| match value {
        Field::Number(number) if *field == wanted => Some(*number),
        _ => None,
    })
}

fn bytes<'a>(fields: &[(u32, Field<'a>)], wanted: u32) -> Option<&'a [u8]> {
    fields.iter().find_map(|(field, value)| match value {
        Field::Bytes(bytes) if *field == wanted => Some(*bytes),
        _ => None,
    })
}

/// Spans of a track begin and end in turn, tracks are described before their events, and nothing is missing.
#[test]
fn traces_have_every_event() {
    for seed in 0..60 {
        let drawn = draw(seed, 7);
        let trace = render(&drawn.bytes, perfetto).expect("it is whole");
        let (mut tracks, mut begun, mut moments, mut values) = (BTreeMap::new(), 0, 0, 0);
        let mut events: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
        for (field, packet) in fields(&trace) {
            let (perfetto_fields::TRACE_PACKET, Field::Bytes(packet)) = (field, packet) else { panic!("no packet") };
            let packet = fields(packet);
            if let Some(track) = bytes(&packet, perfetto_fields::PACKET_TRACK_DESCRIPTOR) {
                let track = fields(track);
                let name = bytes(&track, perfetto_fields::TRACK_NAME).expect("tracks have names").to_vec();
                tracks.insert(number(&track, perfetto_fields::TRACK_UUID).expect("tracks have numbers"), name);
            }
            let Some(event) = bytes(&packet, perfetto_fields::PACKET_TRACK_EVENT) else { continue };
            let event = fields(event);
            let time = number(&packet, perfetto_fields::PACKET_TIMESTAMP).expect("events have times");
            let track = number(&event, perfetto_fields::EVENT_TRACK).expect("events have tracks");
            assert!(tracks.contains_key(&track), "seed {seed}");
            match number(&event, perfetto_fields::EVENT_TYPE).expect("events have types") {
                perfetto_fields::TYPE_INSTANT => moments += 1,
                perfetto_fields::TYPE_COUNTER => values += 1,
                perfetto_fields::TYPE_SLICE_BEGIN => {
                    begun += 1;
                    events.entry(track).or_default().push((time, 0));
                }
                _ => events.get_mut(&track).and_then(|spans| spans.last_mut()).expect("a span began").1 = time,
            }
        }
        let expected = drawn.queue_events
            + drawn.queue_device_events
            + drawn.dispatches
            + drawn.host_executions
            + drawn.regions
            + drawn.memory_events;
        assert_eq!(begun + moments, expected, "seed {seed}");
        assert!(values >= drawn.metric_values, "seed {seed}");
        for (track, mut spans) in events {
            spans.sort_unstable();
            let touch = spans.windows(2).find(|pair| pair[0].1 >= pair[1].0);
            assert!(touch.is_none(), "seed {seed}: {touch:?} of {:?}", tracks[&track]);
        }
    }
}

#[test]
fn recorded_profiles_are_drawn() {
    for name in ["abs", "contents", "joined"] {
        let data = data(&page(&fixture(name)).expect(name));
        assert!(!list(&data, "events").is_empty(), "{name}");
        render(&fixture(name), perfetto).expect(name);
    }
}

#[test]
fn mutants_are_drawn_or_refused() {
    let mut mutants = Mutants::new(0x0dd0_1234_5678_9abd);
    let (mut drawn, mut refused) = (0, 0);
    for turn in 0..600 {
        let bytes = mutants.of(&draw(turn % 20, 4).bytes);
        match page(&bytes) {
            Ok(page) => {
                data(&page);
                drawn += 1;
            }
            Err(_) => refused += 1,
        }
        if let Ok(trace) = render(&bytes, perfetto) {
            fields(&trace);
        }
    }
    assert!(drawn > 50 && refused > 50, "{drawn} drawn, {refused} refused");
}
