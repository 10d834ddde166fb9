//! The fixed-block strategy: one slab divided into blocks of one size.

use super::frontier::Frontier;
use super::strategy::{GRAIN, Request, Strategy, TakenRange};
use crate::hal::FrontierEntry;

/// A fixed number of blocks of one size.
pub(super) struct FixedBlockStrategy {
    block_size: u64,
    block_count: u32,
    /// The slab, if there is one.
    slab: Option<u16>,
    blocks: Vec<BlockState>,
    /// Free blocks; the one released last is reserved first.
    free: Vec<u32>,
}

#[derive(Default)]
struct BlockState {
    used: bool,
    taken: bool,
    death_frontier: Frontier,
}

impl FixedBlockStrategy {
    /// Blocks of `block_size`, a multiple of [`GRAIN`].
    pub fn new(block_size: u64, block_count: u32) -> FixedBlockStrategy {
        FixedBlockStrategy { block_size, block_count, slab: None, blocks: Vec::new(), free: Vec::new() }
    }
}

impl Strategy for FixedBlockStrategy {
    fn name(&self) -> &'static str {
        "fixed-block"
    }

    fn max_size(&self) -> u64 {
        self.block_size
    }

    fn reserve(&mut self, request: Request, usable: &dyn Fn(&[FrontierEntry]) -> bool) -> Option<TakenRange> {
        let slab = self.slab?;
        let fits = |index: u32| {
            let offset = u64::from(index) * self.block_size;
            offset.is_multiple_of(request.alignment) && usable(&self.blocks[index as usize].death_frontier)
        };
        let place = self.free.iter().rposition(|index| fits(*index))?;
        let index = self.free.remove(place);
        let block = &mut self.blocks[index as usize];
        block.taken = true;
        let fresh = !std::mem::replace(&mut block.used, true);
        Some(TakenRange {
            slab,
            offset: u64::from(index) * self.block_size,
            length: self.block_size,
            handle: index.into(),
            fresh,
            death_frontier: std::mem::take(&mut block.death_frontier),
        })
    }

    fn release(&mut self, handle: u64, death_frontier: &[FrontierEntry]) {
        let Ok(index) = u32::try_from(handle) else { return };
        let Some(block) = self.blocks.get_mut(index as usize).filter(|block| block.taken) else { return };
        block.taken = false;
        block.death_frontier = death_frontier.into();
        self.free.push(index);
    }

    fn growth(&self, request: Request) -> Option<u64> {
        // Of alignments that do not divide the block size only the first block is sure to have one, which is not worth
        // a slab.
        let fits = request.size <= self.block_size && self.block_size.is_multiple_of(request.alignment.min(GRAIN));
        (self.slab.is_none() && fits).then(|| self.block_size * u64::from(self.block_count))
    }

    fn add_slab(&mut self, slab: u16, _length: u64) {
        self.slab = Some(slab);
        self.blocks.clear();
        self.blocks.resize_with(self.block_count as usize, BlockState::default);
        self.free.clear();
        self.free.extend((0..self.block_count).rev());
    }

    fn remove_idle(&mut self, usable: &dyn Fn(&[FrontierEntry]) -> bool) -> Option<u16> {
        let idle = self.blocks.iter().all(|block| !block.taken && usable(&block.death_frontier));
        if !idle {
            return None;
        }
        self.free.clear();
        self.slab.take()
    }
}
