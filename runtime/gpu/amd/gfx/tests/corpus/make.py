#!/usr/bin/env python3
"""Writes instructions.txt: words and text of gfx11 instructions, as LLVM 19 writes them.

Usage: make.py FOLDER...   with folders of `.hsaco` files, as `iree-compile --iree-hal-dump-executable-files-to` writes them, or of modules
(`.vmfb`) that contain such files, as fixtures/gpu/gfx1100.

What is in instructions.txt stays, so that shapes of programs that are not at hand do. Needs llvm-mc-19, llvm-objdump-19 and PyYAML. From the code objects it takes an instruction of each shape (its text without numbers); from
forms.s, all lines. Compilers newer than LLVM 19 write 0x80 into third sources that do not exist, which LLVM 19 refuses: the words are those of
the code object, the text is that of the instruction without it. Instructions whose text LLVM 19 does not assemble to the same words are left
out: it drops the modifier that names halves of registers.
"""
import pathlib, re, struct, subprocess, sys, tempfile
import yaml

HERE = pathlib.Path(__file__).parent
SPEC = HERE / "../../../../../../spec/isa/gfx11"
ENCODINGS = yaml.safe_load((SPEC / "encodings.yaml").read_text())
ENCODINGS.sort(key=lambda e: -sum(f["width"] for f in e["fixed"]))
OPERANDS = yaml.safe_load((SPEC / "operands.yaml").read_text())
EXTRA_WORDS = {entry["extra_word"]: entry["number"] for entry in OPERANDS if "extra_word" in entry}
FORMS = {}
for path in sorted((SPEC / "ops").glob("*.yaml")):
    for entry in yaml.safe_load(path.read_text()):
        for encoding, number in entry["forms"].items():
            FORMS[(encoding, number)] = (entry["instruction"], entry.get("operands", {}))


def field(words, info, name):
    f = next(f for f in info["fields"] if f["name"] == name)
    return words[f["bit"] // 32] >> (f["bit"] % 32) & ((1 << f["width"]) - 1)


def decode(code):
    """The words of the first instruction, and those that LLVM 19 takes."""
    for info in ENCODINGS:
        if all(code[0] >> f["bit"] & ((1 << f["width"]) - 1) == f["value"] for f in info["fixed"]):
            break
    name, length = info["encoding"], info["words"]
    words = list(code[: length])
    number = field(words, info, next(f["name"] for f in info["fields"] if f["kind"] == "opcode"))
    found = FORMS.get((name, number)) or (FORMS.get(("vop3sd", number)) if name == "vop3" else None)
    if not found or len(words) < length:
        return None
    operands = found[1]
    used = {f for o, f in info["operands"].items() if o in operands} | {"src0_y"}
    sources = [field(words, info, f["name"]) for f in info["fields"] if f["kind"] == "source" and f["name"] in used]
    extra = name != "mubuf" and EXTRA_WORDS["literal"] in sources or "k" in operands
    if name == "vopd":
        extra |= "k" in FORMS[(name, field(words, info, "op_y"))][1]
    if name.startswith("vop") and name != "vopd" and sources:
        extra |= sources[0] in [EXTRA_WORDS[name] for name in ("dpp16", "dpp8", "dpp8_fetch_inactive")]
    if extra:
        words = list(code[: length + 1])
    plain = list(words)
    for second in ("src1", "src2"):
        if name.startswith("vop3") and second not in used and field(words, info, second) == 0x80:
            f = next(f for f in info["fields"] if f["name"] == second)
            plain[1] &= ~(0x1FF << (f["bit"] - 32))
    return words, plain


def texts(all_words):
    source = "\n".join(" ".join(f"0x{b:02x}" for w in words for b in w.to_bytes(4, "little")) for words in all_words)
    run = subprocess.run(["llvm-mc-19", "-disassemble", "-arch=amdgcn", "-mcpu=gfx1100"], input=source, capture_output=True, text=True)
    bad = {int(n) - 1 for n in re.findall(r"<stdin>:(\d+):", run.stderr)}
    lines = iter(line.strip() for line in run.stdout.splitlines() if line.strip() and not line.strip().startswith("."))
    return [None if index in bad else re.sub(r"\s*//.*", "", next(lines)) for index in range(len(all_words))]


def assembled(lines):
    """The words of each line, or None."""
    run = subprocess.run(["llvm-mc-19", "-arch=amdgcn", "-mcpu=gfx1100", "-show-encoding"], input="\n".join(lines), capture_output=True, text=True)
    bad = {int(n) - 1 for n in re.findall(r"<stdin>:(\d+):\d+: error", run.stderr)}
    encodings = iter(re.findall(r"encoding: \[([0-9a-fx,]+)\]", run.stdout))
    result = []
    for index in range(len(lines)):
        data = b"" if index in bad else bytes(int(byte, 16) for byte in next(encodings).split(","))
        result.append([int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4)])
    return result


def code_objects(path):
    """The ELF files for HSA in a file, which may be one."""
    data = path.read_bytes()
    for start in (match.start() for match in re.finditer(rb"\x7fELF\x02\x01\x01\x40", data)):
        sections, = struct.unpack_from("<Q", data, start + 40)
        count, = struct.unpack_from("<H", data, start + 60)
        yield data[start : start + sections + 64 * count]


def shape(text):
    """The text without the numbers of operands; those of waits and delays are names."""
    if text.startswith(("s_waitcnt", "s_delay_alu")):
        return text
    return text.split()[0], re.sub(r"\d+", "#", re.sub(r"0x[0-9a-f]+", "0x#", text))


found = {}
for folder in sys.argv[1:]:
    paths = sorted(path for path in pathlib.Path(folder).rglob("*") if path.suffix in (".hsaco", ".vmfb"))
    for path, data in ((path, data) for path in paths for data in code_objects(path)):
        with tempfile.NamedTemporaryFile(suffix=".hsaco") as file:
            file.write(data)
            file.flush()
            command = ["llvm-objdump-19", "-s", "-j", ".text", file.name]
            dump = subprocess.run(command, capture_output=True, text=True).stdout
        data = bytes.fromhex("".join(re.findall(r"^ [0-9a-f]+ ((?:[0-9a-f]{2,8} )+)", dump, re.M)).replace(" ", ""))
        code = [int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4)]
        while code:
            instruction = decode(code)
            if not instruction:
                print(f"{path}: {code[0]:08x} is not known", file=sys.stderr)
                code = code[1:]
                continue
            found[tuple(instruction[0])] = instruction[1]
            code = code[len(instruction[0]) :]
shapes = {}
words = list(found)
written = texts([found[w] for w in words])
again = assembled([text or "invalid" for text in written])
for instruction, text, reassembled in zip(words, written, again):
    if text is None or reassembled != found[instruction]:
        continue
    shapes.setdefault(shape(text), (instruction, text))
lines = set((HERE / "instructions.txt").read_text().splitlines())
known = {shape(line.split(" | ", 1)[1]) for line in lines}
shapes = {key: value for key, value in shapes.items() if key not in known}
lines |= {" ".join(f"{w:08x}" for w in instruction) + " | " + text for instruction, text in shapes.values()}
formed = assembled((HERE / "forms.s").read_text().splitlines()[1:])
for instruction, text in zip(formed, texts(formed)):
    lines.add(" ".join(f"{w:08x}" for w in instruction) + " | " + text)
(HERE / "instructions.txt").write_text("".join(line + "\n" for line in sorted(lines, key=lambda line: (line.split("| ")[1], line))))
