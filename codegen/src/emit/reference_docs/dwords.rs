//! Diagrams of packets and other layouts of AMD GPUs in rows of 32 bits, the highest on the left as hardware documents
//! draw them. The manual has them in its pages, and [`packet_diagrams`] gives each as a file for guides.

use std::fmt::Write as _;

use super::diagram::{self, Cell, Drawing, Extent, Screen};
use super::html::escape;
use crate::emit::file::GeneratedFile;
use crate::model::api::{Api, Plain, Word};
use crate::model::hal::{Layout, LayoutField, LayoutType};

/// Bits of a row.
const ROW: u64 = 32;
/// Pixels of a row, and of the numbers above the rows.
const HEIGHT: u32 = 30;
const TOP: u32 = 18;
/// Pixels of a character that is written upwards, in tenths.
const UPRIGHT_TENTHS: usize = 62;

/// The layouts of this file are those of the library in C, of which programs see no bytes.
const LIBRARY: &str = "hsa";

/// The rules of the manual's style sheet that diagrams need, for files of their own, on light and on dark pages.
const STYLE: &str = "\
svg{--ink:#1b1f24;--soft:#5b6570;--line:#9aa5b1;--imm:#e7f0fb;--pad:#f1f1ef}\
@media(prefers-color-scheme:dark){svg{--ink:#e6edf3;--soft:#9aa5b1;--line:#5b6570;--imm:#17324d;--pad:#22272e}}\
rect{stroke:var(--line);rx:3px}.imm rect{fill:var(--imm)}.pad rect{fill:var(--pad);stroke-dasharray:3 2}\
text{fill:var(--ink);font-family:ui-monospace,Menlo,Consolas,\"DejaVu Sans Mono\",monospace}\
.label{font-size:12px;text-anchor:middle}.note{font-size:10px;text-anchor:middle}\
.upright{font-size:10px;text-anchor:middle}.offset{font-size:10px;fill:var(--soft)}.middle{text-anchor:middle}";

/// A field at its bits.
#[derive(Clone, Debug)]
struct Field {
    label: String,
    note: String,
    start: u64,
    length: u64,
}

impl Field {
    fn end(&self) -> u64 {
        self.start + self.length
    }

    fn is_reserved(&self) -> bool {
        self.label.is_empty() || self.label.starts_with("reserved")
    }
}

/// `NAME.svg` for each layout that packet processors, drivers and kernels share, and for each word of bit fields that
/// is in none of them.
pub fn packet_diagrams(amdgpu: &Api) -> Vec<GeneratedFile> {
    files_for(Screen::Wide, amdgpu)
}

/// `NAME.svg` for the same, drawn for telephones.
pub fn narrow_packet_diagrams(amdgpu: &Api) -> Vec<GeneratedFile> {
    files_for(Screen::Narrow, amdgpu)
}

fn files_for(screen: Screen, amdgpu: &Api) -> Vec<GeneratedFile> {
    let shared = amdgpu.files.iter().filter(|file| file.stem != LIBRARY);
    let layouts: Vec<&Layout> = shared.flat_map(|file| &file.layouts).collect();
    let is_in_one = |word: &Word| {
        let of_type = |field: &LayoutField| matches!(&field.ty, LayoutType::Layout(name) if *name == word.name);
        layouts.iter().any(|layout| layout.fields.iter().any(of_type))
    };
    let words = amdgpu.words.iter().filter(|word| word.origin.stem() != LIBRARY && !is_in_one(word));
    let words = words.map(|word| (&word.name, word_fields(word, 0), 8 * word.int.size()));
    let of_layouts = layouts.iter().map(|layout| {
        let mut fields = Vec::new();
        layout_fields(amdgpu, layout, 0, &mut fields);
        (&layout.name, fields, 8 * layout.size)
    });
    let all = of_layouts.chain(words);
    let mut files: Vec<GeneratedFile> = all
        .map(|(name, fields, bits)| {
            let Drawing { width, height, body } = drawn(screen, &fields, bits);
            let text = format!(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n\
                 <title>{}</title>\n<style>{STYLE}</style>\n{body}</svg>\n",
                escape(name)
            );
            GeneratedFile { path: format!("{name}.svg"), text }
        })
        .collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

/// The diagram of a layout for a page of the manual.
pub(super) fn layout(amdgpu: &Api, layout: &Layout) -> String {
    let mut fields = Vec::new();
    layout_fields(amdgpu, layout, 0, &mut fields);
    diagram::figure(&format!("bits of {}", layout.name), |screen| drawn(screen, &fields, 8 * layout.size))
}

/// The fields of a layout at bit `base`, with those of the layouts and words in it.
fn layout_fields(amdgpu: &Api, layout: &Layout, base: u64, out: &mut Vec<Field>) {
    for field in &layout.fields {
        let start = base + 8 * field.offset;
        let plain = match &field.ty {
            LayoutType::Layout(name) => amdgpu.plain(name),
            _ => None,
        };
        match (plain, field.count) {
            (Some(Plain::Layout(inner)), None) => layout_fields(amdgpu, inner, start, out),
            (Some(Plain::Word(word)), None) => out.extend(word_fields(word, start)),
            (plain, count) => plain_field(field, plain, (start, count), out),
        }
    }
}

/// A field without parts of its own. Each element of an array is drawn, unless it is reserved.
fn plain_field(
    field: &LayoutField,
    plain: Option<Plain<'_>>,
    (start, count): (u64, Option<u64>),
    out: &mut Vec<Field>,
) {
    let (size, note) = match (&field.ty, plain) {
        (LayoutType::Int(int), _) => (int.size(), int.name().to_string()),
        (LayoutType::Layout(name), Some(Plain::Layout(layout))) => (layout.size, name.clone()),
        (LayoutType::Layout(name), Some(number)) => (number.int().map_or(0, |int| int.size()), name.clone()),
        _ => (8, String::new()),
    };
    let length = 8 * size;
    let count = count.unwrap_or(1);
    if count == 1 || field.name.starts_with("reserved") {
        let note = if count == 1 { note } else { format!("{} bytes", size * count) };
        out.push(Field { label: field.name.clone(), note, start, length: length * count });
        return;
    }
    for index in 0..count {
        let label = format!("{}[{index}]", field.name);
        out.push(Field { label, note: note.clone(), start: start + index * length, length });
    }
}

fn word_fields(word: &Word, base: u64) -> Vec<Field> {
    let field = |field: &crate::model::api::BitField| Field {
        label: field.name.clone(),
        note: field.kind.clone().unwrap_or_default(),
        start: base + u64::from(field.bit),
        length: u64::from(field.width),
    };
    word.fields.iter().map(field).collect()
}

/// Fields with the gaps between them, cut at the ends of rows unless they are whole rows.
fn pieces(fields: &[Field], bits: u64) -> Vec<Field> {
    let mut pieces = Vec::new();
    let mut add = |field: &Field| {
        let mut rest = field.clone();
        let mut is_first = true;
        while rest.length > 0 {
            let row_end = (rest.start / ROW + 1) * ROW;
            let whole = rest.start.is_multiple_of(ROW).then_some(rest.length / ROW * ROW).filter(|whole| *whole > 0);
            let length = whole.unwrap_or(rest.length.min(row_end - rest.start));
            let label = if is_first || field.label.is_empty() {
                field.label.clone()
            } else {
                format!("{} (cont.)", field.label)
            };
            pieces.push(Field { label, length, ..rest.clone() });
            rest.start += length;
            rest.length -= length;
            is_first = false;
        }
    };
    let mut at = 0;
    for field in fields {
        if field.start > at {
            add(&Field { label: String::new(), note: String::new(), start: at, length: field.start - at });
        }
        add(field);
        at = field.end();
    }
    if bits > at {
        add(&Field { label: String::new(), note: String::new(), start: at, length: bits - at });
    }
    pieces
}

fn small(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX / 256)
}

/// A diagram. On a narrow screen the bits are as narrow as a line of text that is written upwards, and every eighth has
/// its number.
fn drawn(screen: Screen, fields: &[Field], bits: u64) -> Drawing {
    let (pixels, margin, numbered): (u32, u32, u64) = match screen {
        Screen::Narrow => (9, 36, 8),
        Screen::Wide => (27, 48, 1),
    };
    // Whether a label stands within the bits of its field.
    let fits = |field: &Field| diagram::text_width(&field.label, 75) + 6 <= pixels * small(field.length.min(ROW));
    let pieces = pieces(fields, bits);
    let columns = bits.min(ROW);
    let mut body = String::new();
    for bit in (0..columns).filter(|bit| bit % numbered == 0 || bit + 1 == columns) {
        let x = margin + pixels * small(columns - 1 - bit) + pixels / 2;
        let _ = write!(body, "<text class=\"offset middle\" x=\"{x}\" y=\"12\">{bit}</text>");
    }
    body.push('\n');
    let (mut y, mut rest) = (TOP, pieces.as_slice());
    while let Some(first) = rest.first() {
        let row = first.start / ROW;
        let of_row = rest.iter().take_while(|piece| piece.start / ROW == row).count();
        let (line, later) = rest.split_at(of_row);
        let upright = line.iter().filter(|piece| !fits(piece)).map(|piece| piece.label.chars().count()).max();
        // A field of many rows is drawn with two.
        let height = match upright {
            Some(count) => small((count * UPRIGHT_TENTHS / 10) as u64) + 14,
            None => HEIGHT * small((first.length / ROW).clamp(1, 2)),
        };
        let _ = write!(body, "<text class=\"offset\" x=\"{}\" y=\"{}\">{:#04x}</text>", margin / 12, y + 19, row * 4);
        for piece in line {
            let last = (piece.end() - 1) % ROW;
            let (column, width) = (columns - 1 - last, piece.length.min(ROW));
            let column = if piece.length >= ROW { 0 } else { column };
            let place = (margin + pixels * small(column), y);
            let size = (pixels * small(width), height.max(HEIGHT));
            if fits(piece) {
                let class = if piece.is_reserved() { "pad" } else { "imm" };
                let note = if size.1 >= HEIGHT + 8 { piece.note.clone() } else { String::new() };
                let cell = Cell { label: piece.label.clone(), note, extent: Extent::Varies, class };
                diagram::cell_at(&mut body, &cell, place, size);
            } else {
                upright_text(&mut body, &piece.label, place, size);
            }
        }
        body.push('\n');
        y += height.max(HEIGHT) + 2;
        rest = later;
    }
    Drawing { width: margin + pixels * small(columns) + 2, height: y, body }
}

fn upright_text(body: &mut String, label: &str, (x, y): (u32, u32), (width, height): (u32, u32)) {
    let (middle, base, label) = (x + width / 2 + 4, y + height / 2, escape(label));
    let _ = write!(
        body,
        "<g class=\"imm\"><title>{label}</title><rect x=\"{}\" y=\"{y}\" width=\"{}\" height=\"{height}\"/>\
         <text class=\"upright\" transform=\"translate({middle} {base}) rotate(-90)\">{label}</text></g>",
        x + 1,
        width.saturating_sub(2),
    );
}
