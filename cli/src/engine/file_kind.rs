//! Hints for `--module` with a file of another kind, which the library has recognised.

use vireo::vmfb::FileKind;

const COMPILE: &str = "compile it first: iree-compile --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu {file} -o model.vmfb";

/// The advice for the file called `name`.
pub fn hint(kind: FileKind, name: &str) -> String {
    let hint = match kind {
        FileKind::Compressed("gzip") => "decompress it first: gunzip {file}",
        FileKind::Compressed("zstd") => "decompress it first: unzstd {file}",
        FileKind::MachineCode(_) => {
            "machine code alone is no program: name executable plugins by --executable_plugin={file}, drivers by --driver_plugin={file}, and the module of \
             the program by --module"
        }
        FileKind::MlirText | FileKind::MlirBytecode => COMPILE,
        FileKind::ModuleText => "assemble it first: vireo asm {file} -o model.vmfb",
        FileKind::Onnx => {
            "import and compile it first: iree-import-onnx {file} -o model.mlir; iree-compile --iree-hal-target-device=local \
             --iree-hal-local-target-device-backends=llvm-cpu model.mlir -o model.vmfb"
        }
        FileKind::TfLite => {
            "import and compile it first: iree-import-tflite {file} -o model.mlirbc; iree-compile --iree-hal-target-device=local \
             --iree-hal-local-target-device-backends=llvm-cpu model.mlirbc -o model.vmfb"
        }
        FileKind::PyTorch => "export the model with iree.turbine in Python, and compile the result with iree-compile",
        FileKind::Parameters => "name parameters by --parameters={file}, and the module of the program by --module",
        FileKind::NumPy(_) => "name values by --input=@{file}, and the module of the program by --module",
        _ => "a module is a .vmfb file, which iree-compile writes",
    };
    hint.replace("{file}", name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_name_the_file() {
        assert!(hint(FileKind::Parameters, "w.irpa").contains("--parameters=w.irpa"));
        assert!(hint(FileKind::Onnx, "m.onnx").contains("iree-import-onnx m.onnx"));
    }
}
