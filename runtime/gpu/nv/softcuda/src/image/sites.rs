//! Kernels as the reports of the sanitizer name them: with lines of PTX, blocks and threads ([`KernelCode`]).

use std::sync::Arc;

use vireo_simt::LANES;
use vireo_simt::sanitize::{Code, Place, Site};

use crate::image::Texts;
use crate::sanitizer::stream_name;

/// A kernel that runs.
pub(crate) struct KernelCode {
    /// The code of its module.
    pub(crate) module: Arc<vireo_ptx::Module>,
    /// The texts of that.
    pub(crate) texts: Arc<Texts>,
    /// The index of the kernel.
    pub(crate) kernel: usize,
    /// Threads of a block along each dimension.
    pub(crate) block: [u32; 3],
}

impl KernelCode {
    fn instruction(&self, instruction: u64) -> Option<vireo_ptx::InstructionLine<'_>> {
        self.module.kernels().get(self.kernel)?.line(instruction)
    }
}

impl Code for KernelCode {
    fn kernel(&self) -> &str {
        self.module.kernels().get(self.kernel).map_or("", |kernel| kernel.name())
    }

    fn place(&self, instruction: u64) -> Place {
        let Some(found) = self.instruction(instruction) else { return Place::default() };
        let text =
            self.texts.texts.get(found.text).and_then(|text| text.lines().nth(found.line.checked_sub(1)? as usize));
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let text = text.filter(|text| text.contains(found.opcode)).map(words);
        Place {
            address: found.line.into(),
            offset: 0,
            instruction: text.unwrap_or_else(|| found.opcode.to_string()),
            source: found.source.map(|(file, line)| format!("{file}:{line}")),
        }
    }

    fn has_free_lanes(&self) -> bool {
        true
    }

    fn loads_constants(&self, instruction: u64) -> bool {
        self.instruction(instruction).is_some_and(|found| found.opcode.contains(".nc"))
    }

    fn describe(&self, site: &Site) -> Option<String> {
        let Place { address, instruction, source, .. } = &site.place;
        let [x, y, z] = site.group;
        let flat = site.wave * LANES as u32 + site.lane.unwrap_or_default();
        let [width, height, _] = self.block.map(|size| size.max(1));
        let [i, j, k] = [flat % width, flat / width % height, flat / width / height];
        let mut text = format!("kernel {}, line {address}: {instruction}", site.kernel);
        if let Some(source) = source {
            text += &format!("\n      source {source}");
        }
        text += &format!("\n      block ({x},{y},{z}), thread ({i},{j},{k}), {}", stream_name(site.queue));
        Some(text)
    }
}
