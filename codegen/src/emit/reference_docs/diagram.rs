//! Diagrams in SVG: the bytes of an instruction, the rows of a struct, the bits of a word. Colours come from the style
//! sheet.

use std::fmt::Write as _;

use super::html::escape;

/// The widths that figures are drawn for. A figure that is wider than a telephone is drawn for both, and the style
/// sheet shows one: scaled down its text could not be read, and in a box that scrolls its labels would be out of sight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Screen {
    /// A telephone.
    Narrow,
    /// Anything else.
    Wide,
}

impl Screen {
    /// Pixels of a line; longer streams go on in the next line.
    fn width(self) -> u32 {
        match self {
            Screen::Narrow => 328,
            Screen::Wide => 860,
        }
    }
}

/// A figure without its frame.
pub(super) struct Drawing {
    /// Pixels.
    pub width: u32,
    /// Pixels.
    pub height: u32,
    /// The elements of SVG.
    pub body: String,
}

const CELL_HEIGHT: u32 = 44;
const RULER: u32 = 16;

/// How many bytes a part of a stream takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// Always as many.
    Bytes(u32),
    /// It depends on the instruction.
    Varies,
}

/// A part of a stream.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    /// The text inside.
    pub label: String,
    /// Its form.
    pub note: String,
    /// Its length.
    pub extent: Extent,
    /// A class of the style sheet.
    pub class: &'static str,
}

impl Cell {
    fn width(&self, screen: Screen) -> u32 {
        let label = text_width(&self.label, 75);
        let note = text_width(&self.note, 64);
        let least = match self.extent {
            Extent::Bytes(bytes) => 24 * bytes.min(4),
            Extent::Varies => 56,
        };
        (label.max(note) + 16).max(least).min(screen.width())
    }
}

/// Pixels of `text`; `tenths` is the advance of a character in tenths of a pixel.
pub(super) fn text_width(text: &str, tenths: usize) -> u32 {
    u32::try_from((text.chars().count() * tenths).div_ceil(10)).unwrap_or(u32::MAX / 256)
}

/// A sequence of bytes. Offsets stand above the parts for as long as they are fixed.
pub(super) fn stream(cells: &[Cell], title: &str) -> String {
    figure(title, |screen| stream_on(screen, cells))
}

fn stream_on(screen: Screen, cells: &[Cell]) -> Drawing {
    let (mut x, mut y, mut right) = (0, 0, 0);
    let mut offset = Some(0);
    let mut body = String::new();
    for cell in cells {
        let width = cell.width(screen);
        if x > 0 && x + width > screen.width() {
            x = 0;
            y += RULER + CELL_HEIGHT + 6;
        }
        if let Some(offset) = offset {
            let _ = write!(body, "<text class=\"offset\" x=\"{}\" y=\"{}\">{offset}</text>", x + 2, y + RULER - 4);
        }
        cell_at(&mut body, cell, (x, y + RULER), (width, CELL_HEIGHT));
        offset = match (offset, cell.extent) {
            (Some(offset), Extent::Bytes(bytes)) => Some(offset + bytes),
            _ => None,
        };
        x += width;
        right = right.max(x);
    }
    Drawing { width: right, height: y + RULER + CELL_HEIGHT, body }
}

/// A field of a struct.
#[derive(Clone, Debug)]
pub(super) struct Span {
    /// Its name.
    pub label: String,
    /// Its type.
    pub note: String,
    /// The first byte, or bit.
    pub start: u64,
    /// How many.
    pub length: u64,
}

const ROW_HEIGHT: u32 = 38;
const MARGIN: u32 = 44;

/// A struct in rows of eight bytes, or of four. A field of many rows is drawn with three.
pub(super) fn rows(spans: &[Span], title: &str) -> String {
    figure(title, |screen| rows_on(screen, spans))
}

fn rows_on(screen: Screen, spans: &[Span]) -> Drawing {
    let (per_row, pixels): (u64, u32) = match screen {
        Screen::Narrow => (4, 70),
        Screen::Wide => (8, 90),
    };
    let mut body = String::new();
    for byte in 0..per_row {
        let x = MARGIN + pixels * small(byte) + pixels / 2;
        let _ = write!(body, "<text class=\"offset middle\" x=\"{x}\" y=\"12\">+{byte}</text>");
    }
    // `y` is where the row that begins at byte `row` is drawn.
    let (mut y, mut row) = (18, 0);
    for span in spans {
        let start_row = span.start / per_row * per_row;
        if start_row > row {
            y += ROW_HEIGHT * small(((start_row - row) / per_row).min(1));
            row = start_row;
        }
        let mut at = span.start;
        let end = span.start + span.length;
        let mut first = true;
        while at < end {
            if at >= row + per_row {
                y += ROW_HEIGHT;
                row = at / per_row * per_row;
            }
            let whole = (end - at) / per_row;
            let (until, height) = if at == row && whole > 1 {
                (at + whole * per_row, ROW_HEIGHT * small(whole.min(3)))
            } else {
                (end.min(row + per_row), ROW_HEIGHT)
            };
            if at == row {
                let _ = write!(body, "<text class=\"offset\" x=\"0\" y=\"{}\">{at:#06x}</text>", y + 23);
            }
            let columns = if until - at >= per_row { per_row } else { until - at };
            let label = if first { span.label.clone() } else { format!("{} (cont.)", span.label) };
            let class =
                if span.label.starts_with("reserved") || span.label.starts_with("padding") { "pad" } else { "imm" };
            let cell = Cell { label, note: span.note.clone(), extent: Extent::Varies, class };
            cell_at(&mut body, &cell, (MARGIN + pixels * small(at - row), y), (pixels * small(columns), height));
            if height > ROW_HEIGHT {
                y += height - ROW_HEIGHT;
                row = until - per_row;
            }
            at = until;
            first = false;
        }
    }
    Drawing { width: MARGIN + pixels * small(per_row), height: y + ROW_HEIGHT, body }
}

const BITS_HEIGHT: u32 = 40;
/// Longest label that is written upwards; of a longer one the end is shown, which is where names that begin alike
/// differ.
const UPRIGHT: usize = 27;

/// The bits of a word, highest first, in rows of 16, or of 8. A label that its bits are too narrow for is written
/// upwards.
pub(super) fn bits(width: u64, spans: &[Span], title: &str) -> String {
    figure(title, |screen| bits_on(screen, width, spans))
}

fn bits_on(screen: Screen, width: u64, spans: &[Span]) -> Drawing {
    let (most, pixels): (u64, u32) = match screen {
        Screen::Narrow => (8, 40),
        Screen::Wide => (16, 48),
    };
    let mut body = String::new();
    let per_row = width.clamp(1, most);
    let lines = width.div_ceil(per_row);
    let mut y = 0;
    for line in 0..lines {
        let low = (lines - 1 - line) * per_row;
        let cut = |span: &Span| (span.start.max(low), (span.start + span.length).min(low + per_row));
        let visible: Vec<&Span> = spans.iter().filter(|span| cut(span).0 < cut(span).1).collect();
        let fits = |span: &Span| text_width(&span.label, 75) + 8 <= pixels * small(cut(span).1 - cut(span).0);
        let upright =
            visible.iter().filter(|span| !fits(span)).map(|span| span.label.chars().count().min(UPRIGHT)).max();
        let height = upright.map_or(0, |count| small(u64::try_from(count).unwrap_or(0) * 13 / 2) + 16).max(BITS_HEIGHT);
        for bit in low..low + per_row {
            let x = pixels * small(low + per_row - 1 - bit) + pixels / 2;
            let _ = write!(body, "<text class=\"offset middle\" x=\"{x}\" y=\"{}\">{bit}</text>", y + 12);
        }
        let mut next = low;
        for span in visible {
            let (start, end) = cut(span);
            gap(&mut body, (next, start), (low + per_row, pixels), y + RULER, height);
            let (x, width) = (pixels * small(low + per_row - end), pixels * small(end - start));
            if fits(span) {
                let (label, note) = (span.label.clone(), span.note.clone());
                let cell = Cell { label, note, extent: Extent::Varies, class: "imm" };
                cell_at(&mut body, &cell, (x, y + RULER), (width, height));
            } else {
                upright_text(&mut body, span, (x, y + RULER), (width, height));
            }
            next = end;
        }
        gap(&mut body, (next, low + per_row), (low + per_row, pixels), y + RULER, height);
        y += RULER + height + 8;
    }
    Drawing { width: pixels * small(per_row), height: y - 8, body }
}

/// A box whose label is written upwards.
fn upright_text(body: &mut String, span: &Span, (x, y): (u32, u32), (width, height): (u32, u32)) {
    let count = span.label.chars().count();
    let mut label: String = span.label.chars().skip(count.saturating_sub(UPRIGHT)).collect();
    if count > UPRIGHT {
        label = format!("…{}", label.chars().skip(1).collect::<String>());
    }
    let (middle, base) = (x + width / 2, y + height / 2);
    let _ = write!(
        body,
        "<g class=\"imm\"><title>{}</title><rect x=\"{}\" y=\"{y}\" width=\"{}\" height=\"{height}\"/>\
         <text class=\"upright\" transform=\"translate({} {base}) rotate(-90)\">{}</text></g>",
        escape(&span.label),
        x + 1,
        width.saturating_sub(2),
        middle + 4,
        escape(&label)
    );
}

/// Reserved bits of a row that ends before the bit `high`.
fn gap(body: &mut String, (from, to): (u64, u64), (high, pixels): (u64, u32), y: u32, height: u32) {
    if from < to {
        let cell = Cell { label: String::new(), note: String::new(), extent: Extent::Varies, class: "pad" };
        cell_at(body, &cell, (pixels * small(high - to), y), (pixels * small(to - from), height));
    }
}

/// One box with two lines of text, shortened to its width; the whole text is its tooltip.
pub(super) fn cell_at(body: &mut String, cell: &Cell, (x, y): (u32, u32), (width, height): (u32, u32)) {
    let middle = x + width / 2;
    let label = shortened(&cell.label, width, 75);
    let note = shortened(&cell.note, width, 64);
    let _ = write!(
        body,
        "<g class=\"{}\"><title>{}</title><rect x=\"{}\" y=\"{y}\" width=\"{}\" height=\"{height}\"/>",
        cell.class,
        escape(format!("{} {}", cell.label, cell.note).trim()),
        x + 1,
        width.saturating_sub(2),
    );
    let base = y + height / 2;
    if note.is_empty() {
        let _ = write!(body, "<text class=\"label\" x=\"{middle}\" y=\"{}\">{label}</text></g>", base + 4);
    } else {
        let _ = write!(
            body,
            "<text class=\"label\" x=\"{middle}\" y=\"{}\">{label}</text>\
             <text class=\"note\" x=\"{middle}\" y=\"{}\">{note}</text></g>",
            base - 3,
            base + 12
        );
    }
}

/// `text` as far as it fits, escaped.
fn shortened(text: &str, width: u32, tenths: usize) -> String {
    let room = (usize::try_from(width).unwrap_or(0).saturating_sub(8) * 10) / tenths;
    if text.chars().count() <= room {
        return escape(text);
    }
    let kept: String = text.chars().take(room.saturating_sub(1)).collect();
    format!("{}…", escape(&kept))
}

fn small(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX / 256)
}

/// A figure as `draw` makes it for each screen that needs one of its own.
pub(super) fn figure(title: &str, draw: impl Fn(Screen) -> Drawing) -> String {
    let wide = draw(Screen::Wide);
    if wide.width <= Screen::Narrow.width() {
        return svg(&wide, title);
    }
    let narrow = draw(Screen::Narrow);
    format!(
        "<div class=\"on-wide\">{}</div>\n<div class=\"on-narrow\">{}</div>",
        svg(&wide, title),
        svg(&narrow, title)
    )
}

fn svg(Drawing { width, height, body }: &Drawing, title: &str) -> String {
    format!(
        "<div class=\"scroll\" tabindex=\"0\"><svg class=\"diagram\" role=\"img\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\"><title>{}</title>{body}</svg></div>",
        escape(title)
    )
}
