// Runs the WebAssembly build of this example in Node: run.mjs PROGRAM.wasm FOLDER ARGUMENT... . The program sees nothing of the machine but
// FOLDER, as `/`, and a clock.
import fs from "node:fs";
import { WASI } from "node:wasi";

const [program, folder, ...args] = process.argv.slice(2);
const wasi = new WASI({ version: "preview1", args: [program, ...args], preopens: { "/": folder } });
const module = await WebAssembly.compile(fs.readFileSync(program));
process.exit(wasi.start(await WebAssembly.instantiate(module, wasi.getImportObject())));
