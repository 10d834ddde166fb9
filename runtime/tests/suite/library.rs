//! Writes small ELF libraries byte by byte, for what the compiler does not emit: rare relocations, initialisers,
//! imports, odd metadata.
//!
//! A library has three pages: headers and tables, code, data. Addresses are file offsets.

/// Where things are.
const SYMBOLS: usize = 0x200;
const HASH: usize = 0x300;
const STRINGS: usize = 0x340;
const RELOCATIONS: usize = 0x400;
const NAMES: usize = 0x800;
const CODE: usize = 0x1000;
const LIBRARY: usize = 0x2000;
const HEADER: usize = 0x2080;
const FUNCTIONS: usize = 0x2100;
const ATTRIBUTES: usize = 0x2200;
const FUNCTION_NAMES: usize = 0x2400;
const IMPORT_NAMES: usize = 0x2480;
/// Words for tests, which kernels can read.
pub const SCRATCH: usize = 0x2500;
const INITIALIZERS: usize = 0x2600;
const DYNAMIC: usize = 0x2700;
const SIZE: usize = 0x3000;

/// Index of the symbol `scratch`, whose value is `SCRATCH`.
pub const SCRATCH_SYMBOL: u64 = 2;

/// Relocation types.
pub mod kind {
    pub const NONE: u64 = 0;
    pub const ABS64: u64 = 1;
    pub const PC32: u64 = 2;
    pub const COPY: u64 = 5;
    pub const GLOB_DAT: u64 = 6;
    pub const JUMP_SLOT: u64 = 7;
    pub const RELATIVE: u64 = 8;
    pub const ABS32: u64 = 10;
    pub const ABS32S: u64 = 11;
}

/// A kernel.
#[derive(Clone)]
pub struct Kernel {
    pub name: &'static str,
    pub code: Vec<u8>,
    pub bindings: u8,
    pub constants: u8,
    pub local_memory_pages: u16,
}

impl Kernel {
    pub fn new(name: &'static str, bindings: u8, code: &[u8]) -> Kernel {
        Kernel { name, code: code.to_vec(), bindings, constants: 0, local_memory_pages: 0 }
    }
}

/// A library to write.
#[derive(Clone)]
pub struct Library {
    pub kernels: Vec<Kernel>,
    pub imports: Vec<&'static str>,
    pub constants: u32,
    pub version: u32,
    pub sanitizer: u32,
    /// Code of functions that run when the library is loaded.
    pub initializers: Vec<Vec<u8>>,
    /// Place, type, symbol and addend.
    pub relocations: Vec<(usize, u64, u64, i64)>,
    /// The last of the relocations are in the table of the procedure linkage table.
    pub plt_relocations: usize,
    /// Name of the exported query function.
    pub query: &'static str,
}

impl Default for Library {
    fn default() -> Library {
        Library {
            kernels: Vec::new(),
            imports: Vec::new(),
            constants: 0,
            version: 6,
            sanitizer: 0,
            initializers: Vec::new(),
            relocations: Vec::new(),
            plt_relocations: 0,
            query: "iree_hal_executable_library_query",
        }
    }
}

struct Image(Vec<u8>);

impl Image {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn u16(&mut self, at: usize, value: u16) {
        self.put(at, &value.to_le_bytes());
    }

    fn u32(&mut self, at: usize, value: u32) {
        self.put(at, &value.to_le_bytes());
    }

    fn u64(&mut self, at: usize, value: u64) {
        self.put(at, &value.to_le_bytes());
    }
}

/// `lea REG, [rip + distance]` to `target`, written at `at`, for the register coded in the third byte.
pub fn lea(at: usize, modrm: u8, target: usize) -> Vec<u8> {
    let mut code = vec![0x48, 0x8D, modrm];
    code.extend((target as i32 - (at as i32 + 7)).to_le_bytes());
    code
}

impl Library {
    /// Where the code of kernel `index` will be.
    pub fn kernel_address(index: usize) -> usize {
        CODE + 0x40 * (index + 1)
    }

    /// Where the code of initialiser `index` will be.
    pub fn initializer_address(index: usize) -> usize {
        CODE + 0x800 + 0x40 * index
    }

    /// The bytes of the library.
    pub fn write(&self) -> Vec<u8> {
        let mut image = Image(vec![0; SIZE]);
        let mut relocations: Vec<(usize, u64, u64, i64)> = Vec::new();
        let mut names = NAMES;
        let mut name = |image: &mut Image, text: &str| {
            let at = names;
            image.put(at, text.as_bytes());
            names += text.len() + 1;
            at
        };
        macro_rules! point {
            ($at:expr, $to:expr) => {
                relocations.push(($at, kind::RELATIVE, 0, $to as i64))
            };
        }
        // The code: the query function, kernels, initialisers.
        let mut query = lea(CODE, 0x05, LIBRARY);
        query.push(0xC3);
        image.put(CODE, &query);
        for (index, kernel) in self.kernels.iter().enumerate() {
            let address = Library::kernel_address(index);
            assert!(kernel.code.len() <= 0x40);
            image.put(address, &kernel.code);
            point!(FUNCTIONS + 8 * index, address);
            let attributes = ATTRIBUTES + 64 * index;
            image.u16(attributes + 8, kernel.local_memory_pages);
            image.put(attributes + 10, &[kernel.constants, kernel.bindings]);
            let text = name(&mut image, kernel.name);
            point!(FUNCTION_NAMES + 8 * index, text);
        }
        for (index, code) in self.initializers.iter().enumerate() {
            let address = Library::initializer_address(index);
            image.put(address, code);
            point!(INITIALIZERS + 8 * index, address);
        }
        // The metadata.
        point!(LIBRARY, HEADER);
        image.u32(HEADER, self.version);
        let text = name(&mut image, "synthetic");
        point!(HEADER + 8, text);
        image.u32(HEADER + 20, self.sanitizer);
        image.u32(LIBRARY + 8, self.imports.len() as u32);
        point!(LIBRARY + 16, IMPORT_NAMES);
        for (index, import) in self.imports.iter().enumerate() {
            let text = name(&mut image, import);
            point!(IMPORT_NAMES + 8 * index, text);
        }
        image.u32(LIBRARY + 24, self.kernels.len() as u32);
        point!(LIBRARY + 32, FUNCTIONS);
        point!(LIBRARY + 40, ATTRIBUTES);
        point!(LIBRARY + 64, FUNCTION_NAMES);
        image.u32(LIBRARY + 104, self.constants);
        // Symbols, their names and the hash table.
        image.put(STRINGS + 1, self.query.as_bytes());
        let scratch_name = self.query.len() + 2;
        image.put(STRINGS + scratch_name, b"scratch");
        let strings_size = scratch_name + 8;
        for (index, (text, value)) in [(1, CODE), (scratch_name, SCRATCH)].into_iter().enumerate() {
            let symbol = SYMBOLS + 24 * (index + 1);
            image.u32(symbol, text as u32);
            image.put(symbol + 4, &[0x12, 0]);
            image.u16(symbol + 6, 1);
            image.u64(symbol + 8, value as u64);
        }
        image.u32(HASH, 1);
        image.u32(HASH + 4, 3);
        // Relocations.
        relocations.extend(&self.relocations);
        for (index, (at, kind, symbol, addend)) in relocations.iter().enumerate() {
            let entry = RELOCATIONS + 24 * index;
            image.u64(entry, *at as u64);
            image.u64(entry + 8, symbol << 32 | kind);
            image.u64(entry + 16, *addend as u64);
        }
        let plain = relocations.len() - self.plt_relocations;
        // The dynamic table.
        let entries = [
            (4, HASH),
            (5, STRINGS),
            (10, strings_size),
            (6, SYMBOLS),
            (11, 24),
            (7, RELOCATIONS),
            (8, plain * 24),
            (9, 24),
            (20, 7),
            (23, RELOCATIONS + plain * 24),
            (2, self.plt_relocations * 24),
            (25, INITIALIZERS),
            (27, self.initializers.len() * 8),
            (0, 0),
        ];
        for (index, (tag, value)) in entries.iter().enumerate() {
            image.u64(DYNAMIC + 16 * index, *tag);
            image.u64(DYNAMIC + 16 * index + 8, *value as u64);
        }
        // The headers.
        image.put(0, &[0x7F, b'E', b'L', b'F', 2, 1, 1]);
        image.u16(16, 3);
        image.u16(18, 0x3E);
        image.u32(20, 1);
        image.u64(32, 64);
        image.u16(52, 64);
        image.u16(54, 56);
        image.u16(58, 64);
        let segments: [(u32, u32, usize, usize); 4] =
            [(1, 4, 0, CODE), (1, 5, CODE, 0x1000), (1, 6, LIBRARY, 0x1000), (2, 6, DYNAMIC, entries.len() * 16)];
        image.u16(56, segments.len() as u16);
        for (index, (kind, flags, at, size)) in segments.iter().enumerate() {
            let header = 64 + 56 * index;
            image.u32(header, *kind);
            image.u32(header + 4, *flags);
            for (field, value) in [(8, *at), (16, *at), (32, *size), (40, *size), (48, 0x1000)] {
                image.u64(header + field, value as u64);
            }
        }
        image.0
    }
}
