//! The reference runtime in a Python process, which runs calls until one of them kills it. The test of random programs
//! compares with it.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value as Json;

use crate::skip::{Need, skipped};

/// Reads lines of a module as hexadecimal digits and two arguments; answers each with a result, or the name of a
/// status.
const SERVER: &str = r#"
import re, resource, signal, sys
import iree.runtime as rt

resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
instance = rt.VmInstance()
print("ready", flush=True)
for line in sys.stdin:
    blob, *args = line.split()
    # A call that does not end ends the process.
    signal.alarm(10)
    try:
        module = rt.VmModule.copy_buffer(instance, bytes.fromhex(blob))
        context = rt.VmContext(instance, [module])
        inputs, outputs = rt.VmVariantList(2), rt.VmVariantList(1)
        for arg in args:
            inputs.push_int(int(arg))
        context.invoke(module.lookup_function("f0"), inputs, outputs)
        answer = str(outputs.get_variant(0))
    except Exception as error:
        found = re.search(r": ([A-Z_]*);", str(error))
        answer = found[1] if found and found[1] else "? " + str(error).replace("\n", " ")
    print(answer, flush=True)
"#;

/// Calls that one process makes: it does not give back all of its memory.
const CALLS: u32 = 10_000;

/// The entries of `fixtures/golden/differences.json` whose ops are written in a way that does not show the difference:
/// divisors are not zero, indices are in range, and the bits of a NaN are not looked at.
const NOT_SHOWN: [&str; 3] = ["division", "wrapping_range", "nan_payload"];

/// The ops that the golden corpus records, but for those that answer differently.
pub fn portable_ops() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/golden");
    let read =
        |path: &Path| std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let json = |text: &str| serde_json::from_str::<Json>(text).expect("the record is JSON");
    let mut ops = BTreeSet::new();
    for entry in std::fs::read_dir(&folder).expect("the golden corpus") {
        let path = entry.expect("the golden corpus").path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            ops.extend(read(&path).lines().map(|line| json(line)["op"].as_str().expect("an op").to_string()));
        }
    }
    for entry in json(&read(&folder.join("differences.json"))).as_array().expect("a list") {
        if !NOT_SHOWN.contains(&entry["name"].as_str().expect("a name")) {
            for pattern in entry["ops"].as_array().expect("a list") {
                let pattern = pattern.as_str().expect("an op");
                ops.retain(|op| pattern.strip_suffix('*').map_or(op != pattern, |prefix| !op.starts_with(prefix)));
            }
        }
    }
    ops
}

/// The process.
pub struct ReferenceRuntime {
    python: PathBuf,
    calls: u32,
    process: Option<(Child, ChildStdin, BufReader<ChildStdout>)>,
}

impl ReferenceRuntime {
    /// The one in the folder that the environment names; none, and a line that says why, if there is none.
    pub fn start() -> Option<ReferenceRuntime> {
        let Some(folder) = std::env::var_os("VIREO_REFERENCE_TOOLS") else {
            skipped(Need::Variable("VIREO_REFERENCE_TOOLS"), "it names no folder with the IREE tools");
            return None;
        };
        let mut reference = ReferenceRuntime { python: PathBuf::from(folder).join("python"), calls: 0, process: None };
        reference.connect();
        Some(reference)
    }

    fn connect(&mut self) {
        let mut command = Command::new(&self.python);
        // Warnings about denormals and the like are no answers.
        command.args(["-c", SERVER]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{}: {error}", self.python.display()));
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        self.process = Some((child, input, output));
        self.calls = 0;
        assert_eq!(self.answer().as_deref(), Some("ready"), "{} has no iree.runtime", self.python.display());
    }

    fn disconnect(&mut self) {
        if let Some((mut child, input, _)) = self.process.take() {
            // It ends with its input.
            drop(input);
            let _ = child.wait();
        }
    }

    /// A line; none if the process has ended.
    fn answer(&mut self) -> Option<String> {
        let (_, _, output) = self.process.as_mut()?;
        let mut line = String::new();
        output.read_line(&mut line).ok().filter(|length| *length > 0)?;
        Some(line.trim_end().to_string())
    }

    /// Calls `f0` of a module in a new context: its result, the name of a status, or how the process ended.
    pub fn call(&mut self, module: &[u8], args: [i32; 2]) -> String {
        if self.calls == CALLS {
            self.disconnect();
        }
        if self.process.is_none() {
            self.connect();
        }
        self.calls += 1;
        let digits: String = module.iter().map(|byte| format!("{byte:02x}")).collect();
        if let Some((_, input, _)) = self.process.as_mut() {
            // The answer shows a failure.
            let _ = writeln!(input, "{digits} {} {}", args[0], args[1]);
        }
        self.answer().unwrap_or_else(|| match self.process.take() {
            Some((mut child, ..)) => child.wait().map_or_else(|error| error.to_string(), |status| status.to_string()),
            None => String::new(),
        })
    }
}

impl Drop for ReferenceRuntime {
    fn drop(&mut self) {
        self.disconnect();
    }
}
