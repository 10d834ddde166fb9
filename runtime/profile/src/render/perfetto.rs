//! The trace of a profile for Perfetto (`.pftrace`): a track for each lane and each value over time.
//!
//! Spans of a track of Perfetto must nest, and those of a lane may overlap in any way, so a lane has as many tracks of
//! its name as overlap at most; Perfetto shows them as one. The profile is read once for that, of which a few bytes of
//! each event are kept, and once for the packets. `spec/profile/perfetto.yaml` has the numbers of fields.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::io::{self, Write};

use super::{Count, Numbers};
use crate::generated::format::NONE;
use crate::generated::perfetto::{
    ANNOTATION_NAME, ANNOTATION_UINT, COUNTER_UNIT_NAME, EVENT_ANNOTATION, EVENT_FLOW, EVENT_NAME, EVENT_TRACK,
    EVENT_TYPE, EVENT_VALUE, FLAGS_CLEARED, FLAGS_NEEDED, INTERNED_ANNOTATION_NAME, INTERNED_EVENT_NAME, NAME_NUMBER,
    NAME_TEXT, ORDER_EXPLICIT, PACKET_INTERNED_DATA, PACKET_SEQUENCE, PACKET_SEQUENCE_FLAGS, PACKET_TIMESTAMP,
    PACKET_TRACK_DESCRIPTOR, PACKET_TRACK_EVENT, TRACE_PACKET, TRACK_CHILD_ORDERING, TRACK_COUNTER, TRACK_NAME,
    TRACK_PARENT, TRACK_RANK, TRACK_UUID, TYPE_COUNTER, TYPE_INSTANT, TYPE_SLICE_BEGIN, TYPE_SLICE_END,
};
use crate::reader::{OutputError, Reader};
use crate::report::timeline::{Event, Family, Lane, Name, Sample, Timeline, Track, Visit};

/// The sequence of all packets.
const SEQUENCE: u64 = 1;

/// The track above all others.
const ROOT: u64 = 1;

/// How many tracks a lane has at most. Events that overlap more are moments with their duration as a detail.
const MOST_ROWS: u32 = 256;

/// The details of events, in the order of [`details`].
const DETAILS: [&str; 11] = [
    "event",
    "submission",
    "command_buffer",
    "command",
    "allocation",
    "bytes",
    "workgroups_x",
    "workgroups_y",
    "workgroups_z",
    "tiles",
    "duration_ns",
];

/// Writes the time line of a profile as a trace that <https://ui.perfetto.dev> shows.
///
/// # Errors
/// If the profile is damaged, RESOURCE_EXHAUSTED if it has more events than viewers show, and those of `out`.
pub fn perfetto(reader: &mut Reader, out: &mut dyn Write) -> Result<(), OutputError> {
    let timeline = Timeline::read(reader)?;
    let mut spans = Spans { lanes: Numbers::default(), all: Vec::new(), count: Count::new(reader.name()) };
    timeline.visit(reader, &mut spans)?;
    let rows = rows(&spans.all);
    let Spans { mut lanes, .. } = spans;
    // Lanes are shown in the order of their keys, and not in that of the file.
    let mut order: Vec<Lane> = lanes.all().collect();
    order.sort_unstable();
    let ranks = lanes.all().map(|lane| order.binary_search(&lane).unwrap_or(0) as u64).collect();
    let mut trace = Trace {
        timeline: &timeline,
        lanes: std::mem::take(&mut lanes),
        ranks,
        rows: rows.into_iter(),
        tracks: Numbers::default(),
        names: Numbers::default(),
        known: HashSet::new(),
        out,
    };
    trace.begin()?;
    timeline.visit(reader, &mut trace)
}

/// The lane, the begin and the end of each event in the order of the file; one without a span ends before it begins.
struct Spans {
    lanes: Numbers<Lane>,
    all: Vec<(u32, i64, i64)>,
    count: Count,
}

impl Visit for Spans {
    fn event(&mut self, event: &Event) -> Result<(), OutputError> {
        self.count.add()?;
        let end = match (event.duration, event.lane.family) {
            (None, _) | (_, Family::Memory) => i64::MIN,
            (Some(duration), _) => event.start.saturating_add_unsigned(duration),
        };
        self.all.push((self.lanes.of(event.lane) as u32, event.start, end));
        Ok(())
    }

    fn sample(&mut self, _sample: &Sample) -> Result<(), OutputError> {
        self.count.add()
    }
}

/// The row of each event in its lane; [`NONE`] for one without a span, or without a row. Events of a row do not touch,
/// so that the order of packets with equal times does not matter.
fn rows(spans: &[(u32, i64, i64)]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..).zip(spans).filter(|(_, span)| span.2 >= span.1).map(|(index, _)| index).collect();
    order.sort_unstable_by_key(|index| {
        let (lane, start, end) = spans[*index as usize];
        (lane, start, Reverse(end), *index)
    });
    let mut rows = vec![NONE; spans.len()];
    let (mut busy, mut free, mut count) = (BinaryHeap::new(), BinaryHeap::new(), 0);
    let mut last = None;
    for index in order {
        let (lane, start, end) = spans[index as usize];
        if last.replace(lane) != Some(lane) {
            busy.clear();
            free.clear();
            count = 0;
        }
        while let Some(Reverse((until, row))) = busy.peek().copied()
            && until < start
        {
            busy.pop();
            free.push(Reverse(row));
        }
        let row = match free.pop() {
            Some(Reverse(row)) => row,
            None if count < MOST_ROWS => {
                count += 1;
                count - 1
            }
            None => continue,
        };
        rows[index as usize] = row;
        busy.push(Reverse((end, row)));
    }
    rows
}

/// The packets.
struct Trace<'a> {
    timeline: &'a Timeline,
    lanes: Numbers<Lane>,
    /// The place of each lane among all.
    ranks: Vec<u64>,
    rows: std::vec::IntoIter<u32>,
    tracks: Numbers<Track>,
    names: Numbers<Name>,
    /// Tracks that were described.
    known: HashSet<u64>,
    out: &'a mut dyn Write,
}

impl Trace<'_> {
    /// Describes the track above all others, and interns the names of details.
    fn begin(&mut self) -> io::Result<()> {
        let mut interned = Message::default();
        for (number, name) in (1..).zip(DETAILS) {
            interned.message(INTERNED_ANNOTATION_NAME, &interned_name(number, name.as_bytes()));
        }
        let mut root = Message::default();
        root.number(TRACK_UUID, ROOT);
        root.bytes(TRACK_NAME, b"profile");
        root.number(TRACK_CHILD_ORDERING, ORDER_EXPLICIT);
        let mut packet = Message::default();
        packet.number(PACKET_SEQUENCE_FLAGS, FLAGS_CLEARED);
        packet.message(PACKET_INTERNED_DATA, &interned);
        packet.message(PACKET_TRACK_DESCRIPTOR, &root);
        self.packet(packet)
    }

    fn packet(&mut self, mut packet: Message) -> io::Result<()> {
        packet.number(PACKET_SEQUENCE, SEQUENCE);
        let mut trace = Message::default();
        trace.message(TRACE_PACKET, &packet);
        self.out.write_all(&trace.0)
    }

    /// Describes a track before its first event.
    fn track(&mut self, uuid: u64, name: &str, rank: u64, unit: Option<&str>) -> io::Result<()> {
        if !self.known.insert(uuid) {
            return Ok(());
        }
        let mut track = Message::default();
        track.number(TRACK_UUID, uuid);
        track.bytes(TRACK_NAME, name.as_bytes());
        track.number(TRACK_PARENT, ROOT);
        track.number(TRACK_RANK, rank);
        if let Some(unit) = unit {
            let mut counter = Message::default();
            counter.bytes(COUNTER_UNIT_NAME, unit.as_bytes());
            track.message(TRACK_COUNTER, &counter);
        }
        let mut packet = Message::default();
        packet.message(PACKET_TRACK_DESCRIPTOR, &track);
        self.packet(packet)
    }

    fn timed(&mut self, time: i64, event: &Message, interned: Option<&Message>) -> io::Result<()> {
        let mut packet = Message::default();
        packet.number(PACKET_TIMESTAMP, time.max(0).unsigned_abs());
        packet.number(PACKET_SEQUENCE_FLAGS, FLAGS_NEEDED);
        if let Some(interned) = interned {
            packet.message(PACKET_INTERNED_DATA, interned);
        }
        packet.message(PACKET_TRACK_EVENT, event);
        self.packet(packet)
    }
}

/// The values of [`DETAILS`]; 0 is none. The number of a command is there as it is, and none for [`NONE`].
fn details(event: &Event, with_duration: bool) -> [Option<u64>; DETAILS.len()] {
    let some = |value: u64| Some(value).filter(|value| *value != 0);
    let [x, y, z] = event.workgroups.map(u64::from);
    [
        some(event.event),
        some(event.submission),
        some(event.command_buffer),
        Some(event.command).filter(|command| *command != NONE).map(u64::from),
        some(event.allocation),
        some(event.bytes),
        some(x),
        some(y),
        some(z),
        some(event.tiles),
        event.duration.filter(|_| with_duration),
    ]
}

/// The flow of a submission: from its operation of the queue to what ran for it.
fn flow(event: &Event) -> Option<u64> {
    let Lane { device, queue, stream, family } = event.lane;
    let is_whole = match family {
        Family::Queue | Family::QueueDevice => true,
        Family::Host => matches!(event.name, Name::Operation(_)),
        _ => false,
    };
    if !is_whole || event.submission == 0 {
        return None;
    }
    // FNV-1a: flows of other submissions have other numbers.
    let words = [u64::from(device), u64::from(queue), stream, event.submission];
    let bytes = words.into_iter().flat_map(u64::to_le_bytes);
    Some(bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)))
}

impl Visit for Trace<'_> {
    fn event(&mut self, event: &Event) -> Result<(), OutputError> {
        let row = self.rows.next().unwrap_or(NONE);
        let lane = self.lanes.of(event.lane);
        // Tracks of lanes have numbers with their row in the low bits; moments are in that of the first row.
        let place = if row == NONE { 0 } else { row };
        let uuid = (lane as u64 + 2) << 32 | u64::from(place);
        self.track(uuid, &event.lane.name(), self.ranks[lane], None)?;
        let known = self.names.all.len();
        let name = self.names.of(event.name) + 1;
        let interned = (self.names.all.len() > known).then(|| {
            let mut interned = Message::default();
            let text = event.name.bytes(&self.timeline.catalog);
            let text = String::from_utf8_lossy(&text);
            interned.message(INTERNED_EVENT_NAME, &interned_name(name as u64, text.as_bytes()));
            interned
        });
        let mut begin = Message::default();
        begin.number(EVENT_TYPE, if row == NONE { TYPE_INSTANT } else { TYPE_SLICE_BEGIN });
        begin.number(EVENT_TRACK, uuid);
        begin.number(EVENT_NAME, name as u64);
        for (number, value) in (1..).zip(details(event, row == NONE)) {
            if let Some(value) = value {
                let mut annotation = Message::default();
                annotation.number(ANNOTATION_NAME, number);
                annotation.number(ANNOTATION_UINT, value);
                begin.message(EVENT_ANNOTATION, &annotation);
            }
        }
        if let Some(flow) = flow(event) {
            begin.fixed(EVENT_FLOW, flow);
        }
        self.timed(event.start, &begin, interned.as_ref())?;
        if row != NONE {
            let mut end = Message::default();
            end.number(EVENT_TYPE, TYPE_SLICE_END);
            end.number(EVENT_TRACK, uuid);
            self.timed(event.start.saturating_add_unsigned(event.duration.unwrap_or(0)), &end, None)?;
        }
        Ok(())
    }

    fn sample(&mut self, sample: &Sample) -> Result<(), OutputError> {
        // A counter of Perfetto cannot show infinities.
        if !sample.value.is_finite() {
            return Ok(());
        }
        let track = self.tracks.of(sample.track) as u64;
        let uuid = track + ROOT + 1;
        let (name, unit) = sample.track.name(&self.timeline.catalog);
        self.track(uuid, &name, self.ranks.len() as u64 + track, Some(&unit))?;
        let mut event = Message::default();
        event.number(EVENT_TYPE, TYPE_COUNTER);
        event.number(EVENT_TRACK, uuid);
        event.fixed(EVENT_VALUE, sample.value.to_bits());
        Ok(self.timed(sample.time, &event, None)?)
    }
}

fn interned_name(number: u64, text: &[u8]) -> Message {
    let mut name = Message::default();
    name.number(NAME_NUMBER, number);
    name.bytes(NAME_TEXT, text);
    name
}

/// A message in the wire format of protocol buffers.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn tag(&mut self, field: u32, wire_type: u64) {
        self.varint(u64::from(field) << 3 | wire_type);
    }

    /// A number of variable width.
    fn number(&mut self, field: u32, value: u64) {
        self.tag(field, 0);
        self.varint(value);
    }

    /// 64 bits of fixed width.
    fn fixed(&mut self, field: u32, bits: u64) {
        self.tag(field, 1);
        self.0.extend(bits.to_le_bytes());
    }

    /// Bytes, or a text.
    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.tag(field, 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
    }

    fn message(&mut self, field: u32, message: &Message) {
        self.bytes(field, &message.0);
    }
}
