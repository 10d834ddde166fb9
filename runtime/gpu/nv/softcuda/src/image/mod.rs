//! Images: the code that programs load, as PTX, in fatbins, or linked by this library ([`Image`]). Machine code of GPUs
//! is refused, since only its vendor knows what it means.
//!
//! The rest of the crate knows kernels as [`Kernel`] and runs them by [`Image::launch`]; only this room knows that PTX
//! is interpreted.

use std::fmt;
use std::sync::Arc;

use vireo_cuda::result::CuResult;
use vireo_cuda::types::{FATBIN_MAGIC, FATBIN_WRAPPER_MAGIC, FatbinHeader, FatbinWrapper};
use vireo_simt::sanitize::Known;

use crate::api::Outcome;

mod code;
pub(crate) mod fatbin;
mod sites;

pub(crate) use code::{Code, Environment};

/// Bytes of an image of PTX at most, where its zero at the end is looked for.
const MAX_TEXT: usize = 256 << 20;
/// The first bytes of an archive.
const ARCHIVE: &[u8] = b"!<arch>";
/// The file of the vendor's device runtime.
const DEVICE_RUNTIME_FILE: &str = "libcudadevrt.a";
/// The functions of the device runtime that are here.
const DEVICE_RUNTIME: &str = include_str!("device_runtime.ptx");

/// Why an image is not loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LoadError {
    /// It is no image, or a damaged one.
    Image(String),
    /// Its PTX is wrong.
    Ptx(String),
    /// Its PTX is of a version that is not known.
    Version(String),
    /// It has machine code alone.
    MachineCode(String),
    /// There is no memory for its variables.
    Memory(CuResult),
}

impl LoadError {
    /// Its status.
    pub(crate) fn status(&self) -> CuResult {
        match self {
            LoadError::Image(_) => CuResult::ERROR_INVALID_IMAGE,
            LoadError::Ptx(_) => CuResult::ERROR_INVALID_PTX,
            LoadError::Version(_) => CuResult::ERROR_UNSUPPORTED_PTX_VERSION,
            LoadError::MachineCode(_) => CuResult::ERROR_NO_BINARY_FOR_GPU,
            LoadError::Memory(status) => *status,
        }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Image(text) | LoadError::Ptx(text) | LoadError::Version(text) => f.write_str(text),
            LoadError::MachineCode(what) => {
                write!(f, "{what} has machine code of GPUs and no PTX: a software GPU runs PTX alone")
            }
            LoadError::Memory(status) => write!(f, "no memory for variables: {status:?}"),
        }
    }
}

/// A parameter of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parameter {
    /// Where it begins in the packed parameters.
    pub(crate) offset: u32,
    /// Its bytes.
    pub(crate) size: u32,
}

/// A kernel as it is known before it runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kernel {
    /// Its name.
    pub(crate) name: String,
    /// Its parameters.
    pub(crate) parameters: Vec<Parameter>,
    /// Bytes of all parameters.
    pub(crate) parameter_bytes: u32,
    /// Registers of a thread.
    pub(crate) registers: u32,
    /// Bytes of shared memory of a block, without the dynamic part.
    pub(crate) shared: u32,
    /// Bytes of local memory of a thread.
    pub(crate) local: u32,
    /// Bytes of constant memory of its module.
    pub(crate) constant: u32,
    /// Threads of a block at most.
    pub(crate) max_threads: u32,
}

/// How a kernel is launched.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    /// Blocks along each dimension.
    pub(crate) grid: [u32; 3],
    /// Threads of a block along each dimension.
    pub(crate) block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub(crate) shared: u32,
    /// Whether blocks may wait for each other.
    pub(crate) is_cooperative: bool,
    /// The packed parameters.
    pub(crate) parameters: Arc<[u8]>,
}

/// PTX texts that belong together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Texts {
    /// The texts.
    pub(crate) texts: Vec<String>,
    /// Registers of a thread at most, if the program limits them.
    pub(crate) max_registers: Option<u32>,
}

impl Texts {
    fn new(texts: Vec<String>) -> Self {
        Texts { texts, max_registers: None }
    }

    /// Texts that this library linked: the first one is the limit of registers.
    fn of_linked(mut texts: Vec<String>) -> Self {
        let limit = if texts.is_empty() { String::new() } else { texts.remove(0) };
        Texts { texts, max_registers: limit.parse().ok().filter(|limit| *limit != 0) }
    }

    /// The first bytes of an image that this library linked. The limit of registers and texts follow, each with a zero
    /// at its end.
    const LINKED: &'static [u8; 16] = b"\0softcuda-linked";

    /// Reads an image at an address that a program gave without its length.
    ///
    /// # Errors
    /// If it is null or no image.
    ///
    /// # Safety
    /// Unless it is null, there is an image: PTX with a zero at its end, a fatbin, a structure that points to one, an
    /// ELF file, or what `cuLinkComplete` returned.
    pub(crate) unsafe fn at(image: *const u8, sm: u32) -> Result<Texts, LoadError> {
        if image.is_null() {
            return Err(LoadError::Image("the image is null".to_string()));
        }
        // SAFETY: the caller guarantees an image; each kind has four bytes, or ends with a zero before them.
        let byte = |index: usize| unsafe { image.wrapping_add(index).read() };
        let mut magic = [0; 4];
        for (index, place) in magic.iter_mut().enumerate() {
            *place = byte(index);
            if *place == 0 && index != 0 {
                break;
            }
        }
        match u32::from_le_bytes(magic) {
            FATBIN_WRAPPER_MAGIC => {
                // SAFETY: the caller guarantees an image, which is such a structure by its first word.
                let wrapper = unsafe { image.cast::<FatbinWrapper>().read_unaligned() };
                // SAFETY: the structure points to a fatbin.
                unsafe { Self::fatbin_at(wrapper.data.cast(), sm) }
            }
            // SAFETY: the caller guarantees an image, which is a fatbin by its first word.
            FATBIN_MAGIC => unsafe { Self::fatbin_at(image, sm) },
            _ if magic == *b"\x7fELF" => Err(LoadError::MachineCode("the image".to_string())),
            _ if magic[..2] == Self::LINKED[..2] && (0..16).all(|index| byte(index) == Self::LINKED[index]) => {
                let mut texts = Vec::new();
                let mut at = 16;
                loop {
                    // SAFETY: what this library linked has texts with zeros at their ends, and one more zero.
                    let text = unsafe { text_at(image.wrapping_add(at)) }?;
                    if text.is_empty() {
                        return Ok(Texts::of_linked(texts));
                    }
                    at += text.len() + 1;
                    texts.push(text);
                }
            }
            // SAFETY: the caller guarantees an image, which is none of the others.
            _ => unsafe { text_at(image) }.map(|text| Texts::new(vec![text])),
        }
    }

    /// Reads a fatbin at an address.
    ///
    /// # Safety
    /// Unless it is null, there is a fatbin.
    unsafe fn fatbin_at(data: *const u8, sm: u32) -> Result<Texts, LoadError> {
        if data.is_null() {
            return Err(LoadError::Image("the fatbin is null".to_string()));
        }
        // SAFETY: the caller guarantees a fatbin, which has a header.
        let header = unsafe { data.cast::<[u8; FatbinHeader::SIZE]>().read_unaligned() };
        let length = fatbin::length(&header).and_then(|length| usize::try_from(length).ok());
        let length = length.ok_or_else(|| LoadError::Image("fatbin: the header is wrong".to_string()))?;
        // SAFETY: the caller guarantees a fatbin, which has as many bytes as its header says.
        let bytes = unsafe { std::slice::from_raw_parts(data, length) };
        Self::of_fatbin(bytes, sm)
    }

    /// The texts of a fatbin for a compute capability.
    fn of_fatbin(bytes: &[u8], sm: u32) -> Result<Texts, LoadError> {
        let found = fatbin::read(bytes)?;
        let best = found.texts.iter().map(|(target, _)| *target).filter(|target| *target <= sm).max();
        let Some(best) = best else {
            let what = match (found.texts.is_empty(), found.machine_code.is_empty()) {
                (true, false) => "the fatbin".to_string(),
                (true, true) => return Err(LoadError::Image("the fatbin has no code".to_string())),
                _ => format!("the fatbin has no PTX for sm_{sm} or less; it"),
            };
            return Err(LoadError::MachineCode(what));
        };
        let texts = found.texts.into_iter().filter(|(target, _)| *target == best);
        Ok(Texts::new(texts.map(|(_, text)| text).collect()))
    }

    /// Reads an input of the linker by its name: for the archive of the vendor's device runtime, a text that has some
    /// of its functions.
    ///
    /// # Errors
    /// If it is no image.
    pub(crate) fn read_named(bytes: &[u8], name: &str, sm: u32) -> Result<Texts, LoadError> {
        if bytes.starts_with(ARCHIVE) && name.rsplit('/').next() == Some(DEVICE_RUNTIME_FILE) {
            return Ok(Texts::new(vec![DEVICE_RUNTIME.to_string()]));
        }
        Self::read(bytes, sm)
    }

    /// Reads an image of known length, such as a file.
    ///
    /// # Errors
    /// If it is none.
    pub(crate) fn read(bytes: &[u8], sm: u32) -> Result<Texts, LoadError> {
        if bytes.starts_with(&FATBIN_MAGIC.to_le_bytes()) {
            return Self::of_fatbin(bytes, sm);
        }
        if bytes.starts_with(b"\x7fELF") {
            return Err(LoadError::MachineCode("the image".to_string()));
        }
        if bytes.starts_with(ARCHIVE) {
            return Err(LoadError::MachineCode("the archive".to_string()));
        }
        if let Some(rest) = bytes.strip_prefix(Self::LINKED) {
            let texts = rest.split(|byte| *byte == 0).take_while(|text| !text.is_empty());
            return texts.map(utf8).collect::<Result<_, _>>().map(Texts::of_linked);
        }
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        utf8(&bytes[..end]).map(|text| Texts::new(vec![text]))
    }

    /// The image that this library reads again.
    pub(crate) fn linked(&self) -> Vec<u8> {
        let mut bytes = Self::LINKED.to_vec();
        bytes.extend(self.max_registers.unwrap_or(0).to_string().bytes().chain([0]));
        for text in self.texts.iter().filter(|text| !text.is_empty()) {
            bytes.extend(text.as_bytes());
            bytes.push(0);
        }
        bytes.push(0);
        bytes
    }
}

fn utf8(bytes: &[u8]) -> Result<String, LoadError> {
    std::str::from_utf8(bytes).map(str::to_string).map_err(|error| {
        LoadError::Image(format!("the image is neither PTX nor a fatbin: byte {} is not UTF-8", error.valid_up_to()))
    })
}

/// The text at an address.
///
/// # Safety
/// It has a zero at its end.
unsafe fn text_at(start: *const u8) -> Result<String, LoadError> {
    // SAFETY: the caller guarantees a zero at the end.
    let length = (0..MAX_TEXT).find(|index| unsafe { start.wrapping_add(*index).read() } == 0);
    let length = length.ok_or_else(|| LoadError::Image(format!("the PTX is longer than {MAX_TEXT} bytes")))?;
    // SAFETY: all bytes up to the zero were read above.
    utf8(unsafe { std::slice::from_raw_parts(start, length) })
}

/// Loaded code.
#[derive(Debug)]
pub(crate) struct Image {
    /// Its kernels.
    pub(crate) kernels: Vec<Kernel>,
    /// Its variables: name, address and size.
    pub(crate) variables: Vec<(String, u64, u64)>,
    code: Code,
}

impl Image {
    /// Loads texts. Variables are allocated in the environment.
    ///
    /// # Errors
    /// If they are wrong.
    pub(crate) fn load(texts: &Texts, environment: &Environment) -> Result<Image, LoadError> {
        let (code, kernels, variables) = Code::load(texts, environment)?;
        Ok(Image { kernels, variables, code })
    }

    /// The index of the kernel with a name.
    pub(crate) fn kernel(&self, name: &str) -> Option<usize> {
        self.kernels.iter().position(|kernel| kernel.name == name)
    }

    /// Bytes that a block of a launch needs while it is alive.
    pub(crate) fn block_bytes(&self, kernel: usize, launch: &Launch) -> u64 {
        self.code.block_bytes(kernel, launch)
    }

    /// Runs a kernel to its end, in a stream with this number, and what is done before it. So many blocks are alive at
    /// most, unless the launch is cooperative.
    ///
    /// # Errors
    /// The status of what stopped it, which has been told.
    pub(crate) fn launch(
        &self,
        kernel: usize,
        launch: &Launch,
        resident: u64,
        environment: &Environment,
        stream: (u64, &mut Known),
    ) -> Outcome {
        self.code.launch(kernel, launch, resident, environment, stream)
    }
}
