//! The page of a profile: one file with its data, which needs neither other files nor a network.
//!
//! The data are JSON that is written while the profile is read, an array for each event, with names and lanes at the
//! end; `page/` has the rest of the page. Memory depends on names and lanes alone.

use std::io::{self, Write};
use std::path::Path;

use vireo_core::record_fields::json_text;

use super::{Count, Numbers};
use crate::generated::format::NONE;
use crate::reader::{OutputError, Reader};
use crate::report::timeline::{Event, Family, Lane, Name, Sample, Timeline, Track, Visit};

const PAGE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/style.css");
const SCRIPT: [&str; 3] = [include_str!("page/data.js"), include_str!("page/drawing.js"), include_str!("page/page.js")];

/// The fields of the array of an event, in their order. Those at the end that are 0 are left out.
const FIELDS: [&str; 14] = [
    "lane",
    "name",
    "start",
    "duration",
    "event",
    "submission",
    "command buffer",
    "command",
    "allocation",
    "bytes",
    "workgroups x",
    "workgroups y",
    "workgroups z",
    "tiles",
];

/// Writes a page that shows the time line of a profile: queues, dispatches, work of the host, memory and metrics.
///
/// # Errors
/// If the profile is damaged, RESOURCE_EXHAUSTED if it has more events than a page can show, and those of `out`.
pub fn html(reader: &mut Reader, out: &mut dyn Write) -> Result<(), OutputError> {
    let timeline = Timeline::read(reader)?;
    let file =
        Path::new(reader.name()).file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let mut rest = PAGE;
    while let Some((before, after)) = rest.split_once("{{") {
        out.write_all(before.as_bytes())?;
        let (marker, after) = after.split_once("}}").unwrap_or((after, ""));
        match marker {
            "title" => out.write_all(escaped(&file).as_bytes())?,
            "style" => out.write_all(STYLE.as_bytes())?,
            "script" => SCRIPT.iter().try_for_each(|script| out.write_all(script.as_bytes()))?,
            "data" => data(&timeline, &file, reader, out)?,
            _ => unreachable!("the page has no marker `{marker}`"),
        }
        rest = after;
    }
    Ok(out.write_all(rest.as_bytes())?)
}

/// Text of HTML.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(character),
        }
    }
    escaped
}

/// Text of JSON that may stand in a script of HTML: nothing in it begins a tag or a comment.
fn quoted(text: &[u8]) -> String {
    json_text(text).to_string().replace('<', "\\u003c")
}

fn data(timeline: &Timeline, file: &str, reader: &mut Reader, out: &mut dyn Write) -> Result<(), OutputError> {
    let name = reader.name().to_string();
    write!(out, "{{\"file\":{},\"start\":\"{}\",\"fields\":[", quoted(file.as_bytes()), timeline.start)?;
    list(FIELDS.iter().map(|field| quoted(field.as_bytes())), out)?;
    write!(out, "],\"events\":[")?;
    let mut count = Count::new(&name);
    let mut events =
        Events { lanes: Numbers::default(), names: Numbers::default(), is_first: true, count: &mut count, out };
    timeline.visit(reader, &mut events)?;
    let Events { lanes, names, .. } = events;
    write!(out, "\n],\"samples\":[")?;
    let mut samples = Samples { tracks: Numbers::default(), is_first: true, count: &mut count, out };
    timeline.visit(reader, &mut samples)?;
    let tracks = samples.tracks;
    write!(out, "\n],\"names\":[")?;
    list(names.all().map(|name: Name| quoted(&name.bytes(&timeline.catalog))), out)?;
    write!(out, "],\"lanes\":[")?;
    let lane = |lane: Lane| {
        let Lane { device, queue, stream, family } = lane;
        let has_ticks =
            matches!(family, Family::Dispatch | Family::QueueDevice) && timeline.own_ticks.contains(&device);
        format!(
            "{{\"label\":{},\"order\":[{device},{queue},{stream},{}],\"ticks\":{has_ticks}}}",
            quoted(lane.name().as_bytes()),
            family as u32
        )
    };
    list(lanes.all().map(lane), out)?;
    write!(out, "],\"tracks\":[")?;
    let track = |track: Track| {
        let (name, unit) = track.name(&timeline.catalog);
        format!("{{\"label\":{},\"unit\":{}}}", quoted(name.as_bytes()), quoted(unit.as_bytes()))
    };
    list(tracks.all().map(track), out)?;
    Ok(write!(out, "]}}")?)
}

fn list(items: impl Iterator<Item = String>, out: &mut dyn Write) -> io::Result<()> {
    for (index, item) in items.enumerate() {
        write!(out, "{}{item}", if index == 0 { "" } else { "," })?;
    }
    Ok(())
}

struct Events<'a> {
    lanes: Numbers<Lane>,
    names: Numbers<Name>,
    is_first: bool,
    count: &'a mut Count,
    out: &'a mut dyn Write,
}

impl Visit for Events<'_> {
    fn event(&mut self, event: &Event) -> Result<(), OutputError> {
        self.count.add()?;
        let [x, y, z] = event.workgroups.map(u64::from);
        let fields = [
            event.event,
            event.submission,
            event.command_buffer,
            // The first command has the number 0, so that of none is said by leaving it out, and others are one more.
            if event.command == NONE { 0 } else { u64::from(event.command) + 1 },
            event.allocation,
            event.bytes,
            x,
            y,
            z,
            event.tiles,
        ];
        let used = fields.iter().rposition(|field| *field != 0).map_or(0, |last| last + 1);
        let separator = if std::mem::take(&mut self.is_first) { "" } else { "," };
        let (lane, name) = (self.lanes.of(event.lane), self.names.of(event.name));
        write!(self.out, "{separator}\n[{lane},{name},{}", event.start)?;
        match event.duration {
            Some(duration) => write!(self.out, ",{duration}")?,
            None => write!(self.out, ",-1")?,
        }
        fields[..used].iter().try_for_each(|field| write!(self.out, ",{field}"))?;
        Ok(write!(self.out, "]")?)
    }

    fn sample(&mut self, _sample: &Sample) -> Result<(), OutputError> {
        Ok(())
    }
}

struct Samples<'a> {
    tracks: Numbers<Track>,
    is_first: bool,
    count: &'a mut Count,
    out: &'a mut dyn Write,
}

impl Visit for Samples<'_> {
    fn event(&mut self, _event: &Event) -> Result<(), OutputError> {
        Ok(())
    }

    fn sample(&mut self, sample: &Sample) -> Result<(), OutputError> {
        self.count.add()?;
        let separator = if std::mem::take(&mut self.is_first) { "" } else { "," };
        write!(self.out, "{separator}\n[{},{},", self.tracks.of(sample.track), sample.time)?;
        match sample.value.is_finite() {
            true => write!(self.out, "{}]", sample.value)?,
            // JSON has no infinity.
            false => write!(self.out, "null]")?,
        }
        Ok(())
    }
}
