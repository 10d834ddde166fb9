//! The pages of what AMD GPUs read and write: packets and other layouts, words of bit fields, and the functions of the
//! HSA library.

use super::diagram::{self, Span};
use super::dwords;
use super::hal;
use super::html::{self, code, code_link, inline};
use super::layouts::{self, Names};
use super::name::NameKind;
use super::page::Page;
use crate::diag::Origin;
use crate::model::api::{Api, Family, Plain, Tag, Word};
use crate::model::hal::Layout;

/// The overview and a page for each file.
pub(super) fn pages(amdgpu: &Api) -> Vec<Page> {
    let mut pages = vec![overview(amdgpu)];
    pages.extend(stems(amdgpu).into_iter().map(|stem| file_page(amdgpu, stem)));
    pages
}

/// The stems of all files that declare something, sorted.
fn stems(amdgpu: &Api) -> Vec<&str> {
    let files = amdgpu.files.iter().map(|file| file.stem.as_str());
    let words = amdgpu.words.iter().map(|word| word.origin.stem());
    let families = amdgpu.families.iter().map(|family| family.origin.stem());
    let symbols = amdgpu.symbols().map(|symbol| symbol.function.origin.stem());
    let mut stems: Vec<&str> = files.chain(words).chain(families).chain(symbols).collect();
    stems.sort_unstable();
    stems.dedup();
    stems
}

fn path(stem: &str) -> String {
    format!("amdgpu-{stem}.html")
}

impl Names for Api {
    fn size(&self, name: &str) -> Option<u64> {
        match self.plain(name)? {
            Plain::Layout(layout) => Some(layout.size),
            number => Some(number.int()?.size()),
        }
    }

    fn href(&self, name: &str) -> Option<String> {
        let known = self.plain(name).is_some() || self.function(name).is_some();
        let stem = self.stem_of(name).filter(|_| known)?;
        Some(format!("{}#{name}", path(stem)))
    }

    fn layout_bits(&self, layout: &Layout) -> Option<String> {
        Some(dwords::layout(self, layout))
    }

    fn bits(&self, name: &str) -> Option<String> {
        self.words.iter().find(|word| word.name == name).map(word_diagram)
    }
}

fn word_diagram(word: &Word) -> String {
    let spans: Vec<Span> = word
        .fields
        .iter()
        .map(|field| Span {
            label: field.name.clone(),
            note: field.kind.clone().unwrap_or_default(),
            start: u64::from(field.bit),
            length: u64::from(field.width),
        })
        .collect();
    diagram::bits(8 * word.int.size(), &spans, &format!("bits of {}", word.name))
}

fn overview(amdgpu: &Api) -> Page {
    let mut page = Page::new("amdgpu.html", "AMD GPUs", "amdgpu.html");
    page.text(
        "What the driver for AMD GPUs shares with hardware, firmware and kernels, byte for byte: packets, signals, queues, kernel \
         descriptors and recorded commands.",
    );
    for family in &amdgpu.families {
        page.part(&format!("family-{}", family.name), &format!("Family: {}", family.name));
        page.html(family_text(amdgpu, family));
    }
    page.part("pages", "All declarations");
    let rows: Vec<Vec<String>> = stems(amdgpu)
        .into_iter()
        .map(|stem| {
            let file = amdgpu.files.iter().filter(|file| file.stem == stem);
            let names = file.flat_map(hal::declared);
            let words = amdgpu.words.iter().filter(|word| word.origin.stem() == stem).map(|word| word.name.as_str());
            let symbols = amdgpu.symbols().map(|symbol| &symbol.function);
            let symbols =
                symbols.filter(|function| function.origin.stem() == stem).map(|function| function.name.as_str());
            let links: Vec<String> = names
                .chain(words)
                .chain(symbols)
                .map(|name| code_link(&format!("{}#{name}", path(stem)), name))
                .collect();
            vec![html::link(&path(stem), stem), format!("<span class=\"chips\">{}</span>", links.join(" "))]
        })
        .collect();
    page.table(&["Page", "Declares"], &rows);
    page
}

fn family_text(amdgpu: &Api, family: &Family) -> String {
    let tags = |tags: &[Tag]| {
        let texts: Vec<String> = tags.iter().map(|tag| code(&format!("{} = {}", tag.path, tag.value))).collect();
        texts.join(", ")
    };
    let rows: Vec<Vec<String>> = family
        .variants
        .iter()
        .map(|variant| {
            let layout = &variant.layout;
            let name =
                amdgpu.href(&layout.name).map_or_else(|| code(&layout.name), |href| code_link(&href, &layout.name));
            vec![code(&variant.name), name, layout.size.to_string(), tags(&variant.when), inline(&layout.doc)]
        })
        .collect();
    format!(
        "<p>{}</p>{}",
        inline(&family.doc),
        html::table(&["Member", "Layout", "Bytes", "Told apart by", "What it is"], &rows, "")
    )
}

fn file_page(amdgpu: &Api, stem: &str) -> Page {
    let mut page = Page::new(&path(stem), &format!("AMD GPUs: {stem}"), "amdgpu.html");
    let of = |origin: &Origin| origin.stem() == stem;
    for family in amdgpu.families.iter().filter(|family| of(&family.origin)) {
        let id = format!("family-{}", family.name);
        page.name(NameKind::Family, &family.name, &id, &family.doc);
        page.titled_part((&id, &family.name), &inline(&format!("Family: {}", family.name)), "");
        page.html(family_text(amdgpu, family));
    }
    let files = || amdgpu.files.iter().filter(|file| file.stem == stem);
    for layout in files().flat_map(|file| &file.layouts) {
        let in_family =
            amdgpu.families.iter().flat_map(|family| &family.variants).any(|of| of.layout.name == layout.name);
        let kind = if in_family { NameKind::Packet } else { NameKind::Layout };
        layouts::write(amdgpu, kind, layout, &mut page);
    }
    for word in amdgpu.words.iter().filter(|word| of(&word.origin)) {
        write_word(amdgpu, word, &mut page);
    }
    for file in files() {
        for numbers in &file.numbers {
            hal::write_numbers(numbers, &mut page);
        }
        hal::write_handles(file, &mut page);
        hal::write_constants(file, &mut page);
        for function in &file.functions {
            layouts::write_function(amdgpu, function, &mut page);
        }
    }
    for symbol in amdgpu.symbols().filter(|symbol| of(&symbol.function.origin)) {
        layouts::write_function(amdgpu, &symbol.function, &mut page);
        if !symbol.required {
            page.html("<p><span class=\"badge\">the driver does without it</span></p>");
        }
    }
    page
}

fn write_word(amdgpu: &Api, word: &Word, page: &mut Page) {
    let note = format!("word, {}", word.int.name());
    page.part_of(NameKind::Word, &word.name, (&word.name, &word.name), &note, &word.doc);
    page.html(word_diagram(word));
    let rows: Vec<Vec<String>> = word
        .fields
        .iter()
        .map(|field| {
            let last = field.bit + field.width - 1;
            let bits = if field.width == 1 { field.bit.to_string() } else { format!("{last}:{}", field.bit) };
            let kind = field.kind.as_deref().unwrap_or_default();
            let kind = amdgpu.href(kind).map_or_else(|| inline(kind), |href| code_link(&href, kind));
            let name = page.member(NameKind::Field, &word.name, &field.name, &field.doc);
            vec![bits, field.width.to_string(), name, kind, inline(&field.doc)]
        })
        .collect();
    page.table(&["Bits", "Width", "Field", "Values", "What it means"], &rows);
    page.html(html::source(&word.origin));
}
