//! The flags of the commands that run nothing: `vireo dump`, `asm`, `disasm` and `devices`, part of the command line.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::examples;
use super::{DeviceArguments, Format, Seconds};

/// Shows what a module contains: imports, exports, types, data and code.
#[derive(Args, Debug)]
#[command(after_help = examples::help(examples::DUMP))]
pub struct DumpArguments {
    /// The module.
    #[command(flatten)]
    pub module: ModuleArgument,
    /// The part of the module to show.
    #[arg(long, value_enum, default_value_t = DumpOutput::Summary, value_name = "WHAT")]
    pub output: DumpOutput,
    /// How to show it. JSON has the metadata, and with `--jit=why` what became of loops.
    #[arg(long, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    pub format: Format,
    /// Only this function: an exported name, or an ordinal as the function table shows it; with `--jit` the name of a
    /// kernel, too. May be repeated.
    #[arg(long, value_name = "NAME")]
    pub function: Vec<String>,
    /// Write the offset of each block and op in its function before it.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub bytecode_offsets: bool,
    /// Most time that the command may take, in seconds. Without it there is no limit.
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<Seconds>,
    /// Accepted as by the reference's tool: JSON is always indented.
    #[arg(long, hide = true)]
    #[arg(value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub pretty: bool,
    /// Show the machine code of functions, and of kernels in portable bytecode, next to their ops; or the compiler's
    /// graph, or what became of loops.
    #[arg(long, value_enum, value_name = "WHAT", conflicts_with = "output")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "code")]
    pub jit: Option<JitOutput>,
}

/// The forms in which `vireo dump --jit` shows functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum JitOutput {
    /// Machine code.
    Code,
    /// The graph after the passes of the compiler, for its developers.
    Graph,
    /// The decisions about each loop: the transformations that were considered, and why those were refused that were
    /// not made.
    Why,
}

/// The one module of a command.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub struct ModuleArgument {
    /// The module: a .vmfb file, or `-` for stdin.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The same as FILE.
    #[arg(long, value_name = "FILE")]
    module: Option<PathBuf>,
}

impl ModuleArgument {
    /// The file.
    pub fn path(&self) -> &Path {
        // The parser accepts neither none nor both.
        self.file.as_deref().or(self.module.as_deref()).unwrap_or(Path::new("-"))
    }
}

/// Assembles a text into a module file.
#[derive(Args, Debug)]
#[command(after_help = examples::help(examples::ASM))]
pub struct AsmArguments {
    /// The text: a .vmasm file, or `-` for stdin.
    #[arg(value_name = "FILE")]
    pub source: PathBuf,
    /// The module file to write.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Write the module even if the verifier refuses it; it cannot be run then.
    #[arg(long)]
    pub no_verify: bool,
}

/// Disassembles a whole module to text, which `asm` assembles to the same module.
#[derive(Args, Debug)]
#[command(after_help = examples::help(examples::DISASM))]
pub struct DisasmArguments {
    /// The module.
    #[command(flatten)]
    pub module: ModuleArgument,
    /// The file to write the text to, instead of stdout.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Disassemble the code of GPUs instead: of a code object, or of the executables in a module. `asm` does not read
    /// this.
    #[arg(long)]
    pub gfx: bool,
    /// Write the PTX of the executables for NVIDIA GPUs instead: of an executable, or of those in a module. `asm` does
    /// not read this.
    #[arg(long, conflicts_with = "gfx")]
    pub ptx: bool,
    /// How to write the code of GPUs. The text of a module is for `asm`, and has no other form.
    #[arg(long, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    format: Format,
    /// The same as --format=json.
    #[arg(long, hide = true)]
    json: bool,
}

impl DisasmArguments {
    /// How to write the text.
    pub fn format(&self) -> Format {
        if self.json { Format::Json } else { self.format }
    }
}

/// Lists the devices that programs can run on.
#[derive(Args, Debug)]
#[command(after_help = examples::help(examples::DEVICES))]
pub struct DevicesArguments {
    /// Only the devices of this driver.
    #[arg(value_name = "DRIVER", default_value = "", hide_default_value = true)]
    pub driver: String,
    /// How to show them.
    #[arg(long, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    pub format: Format,
    /// Where devices come from.
    #[command(flatten)]
    pub devices: DeviceArguments,
}

/// Lists the features of the processor that kernels can ask for.
#[derive(Args, Debug)]
pub struct CpuinfoArguments {
    /// How to show them.
    #[arg(long, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    pub format: Format,
}

/// The parts of a module that `vireo dump` can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DumpOutput {
    /// Signatures, devices, parameters and sizes.
    Summary,
    /// Names, imports, exports, types, data, functions.
    Metadata,
    /// The code of the functions.
    Disassembly,
    /// Metadata and code.
    All,
    /// The FlatBuffer, which the reference's tool writes and this one does not.
    #[value(hide = true)]
    FlatbufferBinary,
    /// The same as JSON.
    #[value(hide = true)]
    FlatbufferJson,
}
