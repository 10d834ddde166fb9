//! Dispatches of many workgroups, and counts of them that come from buffers.
//!
//! On the host a kernel in bytecode writes a word for each workgroup, whose place in the grid is the word's index. The
//! GPU's kernel writes all words, as its workgroups share them whatever their number; so on GPUs the tests say no more
//! than whether there were any.

use std::sync::Arc;

use vireo::asm::assemble;
use vireo::hal::*;

use super::dispatches::{kernels, multiply, multiply_constants};
use super::*;

/// Writes the constant plus the index of the workgroup to the word of that index.
const MARK: &str = "vm.module @kernels version 0
vm.type i32
vm.type !vm.buffer
vm.type !vm.list<!vm.buffer>
vm.export @mark
vm.func @mark(%r0: !vm.buffer, %r1: !vm.buffer, %r2: !vm.list<!vm.buffer>, %i0: i32, %i1: i32, %i2: i32, %i3: i32, %i4: i32, %i5: i32, %i6: i32, %i7: i32, %i8: i32) -> () {
^bb0:
  %i9 = vm.const.i32.zero
  %r3 = vm.list.get.ref %r2, %i9 : !vm.buffer
  %i10:11 = vm.const.i64.zero
  %i12 = vm.buffer.load.i32 %r1, %i10:11
  %i13 = vm.mul.i32 %i2, %i7
  %i13 = vm.add.i32 %i13, %i1
  %i13 = vm.mul.i32 %i13, %i6
  %i13 = vm.add.i32 %i13, %i0
  %i14:15 = vm.ext.i32.i64.u %i13
  %i12 = vm.add.i32 %i12, %i13
  vm.buffer.store.i32 %i12, %r3, %i14:15
  vm.return
}
";

/// The format of kernels in bytecode.
const BYTECODE: &str = "vmvx-bytecode-fb";

/// A word that no kernel has written.
const UNTOUCHED: u32 = 7;

/// A kernel that leaves a mark of each workgroup, with all that it takes.
struct Marks<'b> {
    backend: &'b Backend,
    device: Arc<dyn Device>,
    executable: Arc<dyn Executable>,
    function: ExecutableFunction,
    constants: Vec<u32>,
    bindings: Vec<BufferRef>,
    out: Arc<dyn Buffer>,
}

impl<'b> Marks<'b> {
    /// For at most so many workgroups. The first marks are `first`, and each other one is more by one, or on GPUs by
    /// `first`.
    fn new(backend: &'b Backend, most: u32, first: u32) -> Option<Marks<'b>> {
        let device = backend.device();
        let usage = params().usage | BufferUsage::DISPATCH_INDIRECT_PARAMETERS;
        let out = device.allocator().allocate_buffer(BufferParams { usage, ..params() }, u64::from(most) * 4).unwrap();
        buffer_fill(&*out, 0, WHOLE_BUFFER, &UNTOUCHED.to_le_bytes()).unwrap();
        let (executable, function, constants, bindings);
        if backend.is_gpu {
            executable = kernels(backend, &*device)?;
            function = multiply(&*executable);
            constants = multiply_constants(most).to_vec();
            let numbers: Vec<u8> = (0..most).flat_map(|index| (index + 1).to_le_bytes()).collect();
            let factors: Vec<u8> = (0..most).flat_map(|_| first.to_le_bytes()).collect();
            bindings = vec![whole(&buffer_of(&*device, &numbers)), whole(&buffer_of(&*device, &factors)), whole(&out)];
        } else {
            let bytes = assemble(MARK).unwrap();
            let cache = device.create_executable_cache("conformance").unwrap();
            executable = cache.prepare_executable(ANY, ExecutableCachingMode::empty(), BYTECODE, &bytes, &[]).unwrap();
            function = executable.lookup_function("mark").unwrap();
            (constants, bindings) = (vec![first], vec![whole(&out)]);
        }
        Some(Marks { backend, device, executable, function, constants, bindings, out })
    }

    /// Submits a dispatch that waits for some points.
    fn submit(
        &self,
        wait: &[Timepoint],
        signal: &[Timepoint],
        config: &DispatchConfig,
        flags: DispatchFlags,
    ) -> Result<()> {
        let (constants, bindings) = (&self.constants, &self.bindings);
        self.device.queue_dispatch(
            ANY,
            wait,
            signal,
            &self.executable,
            self.function,
            config,
            constants,
            bindings,
            flags,
        )
    }

    /// The constants of a dispatch that writes no more than so many words.
    fn constants_for(&self, words: u32) -> Vec<u32> {
        if self.backend.is_gpu { multiply_constants(words).to_vec() } else { self.constants.clone() }
    }

    /// Runs a dispatch.
    fn run(&self, config: &DispatchConfig, flags: DispatchFlags) {
        outcome(&*self.device, |signal| self.submit(&[], signal, config, flags)).unwrap();
    }

    fn record(&self, commands: &dyn CommandBuffer, config: &DispatchConfig, flags: DispatchFlags) -> Result<()> {
        commands.dispatch(&self.executable, self.function, config, &self.constants, &self.bindings, flags)
    }

    /// Checks that the workgroups of a grid have run, and no others, and removes their marks.
    fn check(&self, grid: [u32; 3]) {
        let words = bytes_of(&*self.out);
        let words = words.as_chunks::<4>().0.iter().copied().map(u32::from_le_bytes);
        let (first, is_gpu) = (self.constants[0], self.backend.is_gpu);
        let marks = match (self.backend.runs_kernels, is_gpu) {
            (false, _) => 0,
            (true, true) if grid.contains(&0) => 0,
            (true, true) => u32::MAX,
            (true, false) => grid.iter().product(),
        };
        let factor = if is_gpu { self.factor() } else { 0 };
        for (index, word) in (0..).zip(words) {
            let mark = if is_gpu { (index + 1) * factor } else { first + index };
            assert_eq!(word, if index < marks { mark } else { UNTOUCHED }, "word {index} of {grid:?}");
        }
        buffer_fill(&*self.out, 0, WHOLE_BUFFER, &UNTOUCHED.to_le_bytes()).unwrap();
    }

    /// The factor of the GPU's products.
    fn factor(&self) -> u32 {
        let factors = self.bindings[1].buffer.as_ref().expect("it is bound");
        u32::from_le_bytes(bytes_of(&**factors)[..4].try_into().unwrap())
    }
}

fn grid(count: [u32; 3]) -> DispatchConfig {
    DispatchConfig { workgroup_count: count, ..DispatchConfig::default() }
}

/// A buffer that counts may be read from, with nothing in it.
fn no_counts(device: &dyn Device, bytes: u64) -> Arc<dyn Buffer> {
    let usage = params().usage | BufferUsage::DISPATCH_INDIRECT_PARAMETERS;
    let buffer = device.allocator().allocate_buffer(BufferParams { usage, ..params() }, bytes).unwrap();
    buffer_fill(&*buffer, 0, WHOLE_BUFFER, &[0xFF]).unwrap();
    buffer
}

fn bytes_of_counts(counts: [u32; 3]) -> Vec<u8> {
    counts.iter().flat_map(|count| count.to_le_bytes()).collect()
}

pub fn workgroups_know_their_place(backend: &Backend) {
    let Some(marks) = Marks::new(backend, 60, 100) else { return };
    for counts in [[3, 2, 2], [1, 1, 5], [7, 1, 1], [1, 9, 1], [2, 5, 6], [60, 1, 1], [3, 0, 2]] {
        marks.run(&grid(counts), DispatchFlags::empty());
        marks.check(counts);
        let commands = record(&*marks.device, CommandBufferMode::empty(), 0);
        marks.record(&*commands, &grid(counts), DispatchFlags::empty()).unwrap();
        commands.end().unwrap();
        for _ in 0..2 {
            execute(&*marks.device, &commands, &[]).unwrap();
            marks.check(counts);
        }
    }
}

pub fn many_workgroups_run(backend: &Backend) {
    let Some(marks) = Marks::new(backend, 3000, 5) else { return };
    for count in [2999, 1, 3000, 257] {
        marks.run(&grid([count, 1, 1]), DispatchFlags::empty());
        marks.check([count, 1, 1]);
    }
}

/// A buffer of counts is named as a whole, by itself and in a table, and may hold more than the counts.
pub fn counts_are_a_whole_buffer(backend: &Backend) {
    let Some(marks) = Marks::new(backend, 24, 1) else { return };
    for flags in [DispatchFlags::STATIC_INDIRECT_PARAMETERS, DispatchFlags::DYNAMIC_INDIRECT_PARAMETERS] {
        for bytes in [12, 16, 64] {
            let counts = no_counts(&*marks.device, bytes);
            buffer_write(&*counts, 0, &bytes_of_counts([3, 2, 1])).unwrap();
            let direct = DispatchConfig { workgroup_count_ref: whole(&counts), ..grid([77, 1, 1]) };
            marks.run(&direct, flags);
            marks.check([3, 2, 1]);
            let commands = record(&*marks.device, CommandBufferMode::empty(), 1);
            marks.record(&*commands, &direct, flags).unwrap();
            let by_slot = DispatchConfig { workgroup_count_ref: slot(0, 0, WHOLE_BUFFER), ..grid([77, 1, 1]) };
            barrier(&*commands).unwrap();
            marks.record(&*commands, &by_slot, flags).unwrap();
            commands.end().unwrap();
            execute(&*marks.device, &commands, &[bound(&counts, 0, WHOLE_BUFFER)]).unwrap();
            marks.check([3, 2, 1]);
        }
    }
}

/// Commands write the counts that a later one of them reads: by an update, a fill, a copy and a dispatch.
pub fn counts_are_written_by_the_same_commands(backend: &Backend) {
    let Some(marks) = Marks::new(backend, 24, 1) else { return };
    let device = &*marks.device;
    let counts = no_counts(device, 12);
    let indirect = DispatchConfig { workgroup_count_ref: whole(&counts), ..grid([77, 1, 1]) };
    let flags = DispatchFlags::DYNAMIC_INDIRECT_PARAMETERS;
    let with = |write: &dyn Fn(&dyn CommandBuffer) -> Result<()>| {
        let commands = record(device, CommandBufferMode::empty(), 0);
        write(&*commands).unwrap();
        barrier(&*commands).unwrap();
        marks.record(&*commands, &indirect, flags).unwrap();
        commands.end().unwrap();
        for _ in 0..2 {
            execute(device, &commands, &[]).unwrap();
        }
    };
    let source = buffer_of(device, &bytes_of_counts([2, 1, 3]));
    with(&|commands| commands.update_buffer(&bytes_of_counts([4, 1, 2]), &whole(&counts), UpdateFlags::empty()));
    marks.check([4, 1, 2]);
    with(&|commands| commands.fill_buffer(&whole(&counts), &1u32.to_le_bytes(), FillFlags::empty()));
    marks.check([1, 1, 1]);
    with(&|commands| commands.copy_buffer(&whole(&source), &whole(&counts), CopyFlags::empty()));
    marks.check([2, 1, 3]);
    // The first three words that another dispatch writes are the counts: 1, 2 and 3, the products with 1 on a GPU.
    let target = no_counts(device, 12);
    if !backend.runs_kernels {
        buffer_write(&*target, 0, &bytes_of_counts([1, 2, 3])).unwrap();
    }
    let (mut bindings, constants) = (marks.bindings.clone(), marks.constants_for(3));
    *bindings.last_mut().expect("the target is the last") = whole(&target);
    let commands = record(device, CommandBufferMode::empty(), 0);
    let (executable, function, none) = (&marks.executable, marks.function, DispatchFlags::empty());
    commands.dispatch(executable, function, &grid([3, 1, 1]), &constants, &bindings, none).unwrap();
    barrier(&*commands).unwrap();
    let indirect = DispatchConfig { workgroup_count_ref: whole(&target), ..grid([77, 1, 1]) };
    marks.record(&*commands, &indirect, flags).unwrap();
    commands.end().unwrap();
    execute(device, &commands, &[]).unwrap();
    marks.check([1, 2, 3]);
}

/// The caller keeps executable and buffers until the points are signaled, which a device may rely on and need not.
pub fn dispatches_may_borrow_their_resources(backend: &Backend) {
    let Some(marks) = Marks::new(backend, 8, 3) else { return };
    let line = timeline(&*marks.device);
    let (start, done) = ([point(&line, 1)], [point(&line, 2)]);
    marks.submit(&start, &done, &grid([8, 1, 1]), DispatchFlags::BORROW_RESOURCE_LIFETIMES).unwrap();
    line.signal(1).unwrap();
    line.wait(2, in_time()).unwrap();
    marks.check([8, 1, 1]);
    let commands = record(&*marks.device, CommandBufferMode::empty(), 0);
    marks.record(&*commands, &grid([5, 1, 1]), DispatchFlags::BORROW_RESOURCE_LIFETIMES).unwrap();
    commands.end().unwrap();
    execute(&*marks.device, &commands, &[]).unwrap();
    marks.check([5, 1, 1]);
}

/// A dispatch of no workgroups waits for its points as any other, and then signals its own.
pub fn dispatches_of_nothing_wait(backend: &Backend) {
    let Some(marks) = Marks::new(backend, 8, 3) else { return };
    let (start, line) = (timeline(&*marks.device), timeline(&*marks.device));
    marks.submit(&[point(&start, 1)], &[point(&line, 1)], &grid([0; 3]), DispatchFlags::empty()).unwrap();
    assert_eq!(line.query().unwrap(), 0);
    start.signal(1).unwrap();
    line.wait(1, in_time()).unwrap();
    marks.check([0; 3]);
}
