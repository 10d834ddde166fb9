"""Writes functions of the language in WebAssembly's text format. Loops are written as compilers write them: a test before the loop, and one at
the end of its body. Buffers follow each other in the memory, from its beginning in each call of a program."""

from language import ELEMENTS, contains, ends

TYPES = {"i32": "i32", "i64": "i64", "f32": "f32", "f64": "f64", "buffer": "i32"}
LOADS = {"1": "i32.load8_u", "2": "i32.load16_u", "4": "i32.load", "8": "i64.load", "F": "f32.load", "D": "f64.load"}
STORES = {"1": "i32.store8", "2": "i32.store16", "4": "i32.store", "8": "i64.store", "F": "f32.store", "D": "f64.store"}
CONVERT = {
    "L": "i64.extend_i32_u", "LS": "i64.extend_i32_s", "I": "i32.wrap_i64", "D": "f64.convert_i32_s", "F": "f32.convert_i32_s",
    "DL": "f64.convert_i64_s", "LD": "i64.trunc_f64_s", "DI": "i32.trunc_f64_s", "DF": "f64.promote_f32", "FD": "f32.demote_f64",
}
# Pages of 64 KiB.
PAGES = 256
ALLOCATE = """  (func $NEW (param $bytes i64) (result i32)
    (local $start i32)
    (local.set $start (global.get $top))
    (memory.fill (local.get $start) (i32.const 0) (i32.wrap_i64 (local.get $bytes)))
    (global.set $top (i32.and (i32.add (i32.add (local.get $start) (i32.wrap_i64 (local.get $bytes))) (i32.const 15)) (i32.const -16)))
    (local.get $start))"""


class Writer:
    """The text of one function."""

    def __init__(self, function):
        self.function = function
        self.lines, self.depth, self.labels, self.scratch = [], 2, 0, set()
        self.loops = []

    def text(self):
        function = self.function
        if function.is_program:
            self.line("(global.set $top (i32.const 0))")
        self.block(function.body)
        # All paths return; the validator does not know.
        self.line("(unreachable)")
        export = f' (export "{function.name}")' if function.is_program else ""
        parameters = "".join(f" (param ${name} {TYPES[function.variables[name]]})" for name in function.parameters)
        locals = {**function.variables, **{name: ty for name, ty in sorted(self.scratch)}}
        listed = "".join(f" (local ${name} {TYPES[ty]})" for name, ty in locals.items() if name not in function.parameters)
        head = f"  (func ${function.name}{export}{parameters} (result {TYPES[function.result]})"
        return "\n".join([head, *([f"   {listed}"] if listed else []), *self.lines, "  )"])

    def line(self, text):
        self.lines.append("  " * self.depth + text)

    def open(self, text):
        self.line("(" + text)
        self.depth += 1

    def close(self):
        self.depth -= 1
        self.line(")")

    def label(self, text):
        self.labels += 1
        return f"${text}{self.labels}"

    def block(self, statements):
        for one in statements:
            match one.kind:
                case "assign":
                    self.line(f"(local.set ${one.name} {self.expression(one.operands[0])})")
                case "store":
                    buffer, index, value = one.operands
                    self.line(f"({STORES[one.name]} {self.address(buffer, index, one.name)} {self.expression(value)})")
                case "return":
                    self.line(f"(return {self.expression(one.operands[0])})")
                case "break":
                    self.line(f"(br {self.loops[-1][0]})")
                case "continue":
                    self.line(f"(br {self.loops[-1][1]})")
                case "if":
                    self.conditional(one)
                case "while":
                    self.loop(one)

    def conditional(self, one):
        if len(one.tests) == 1:
            self.open(f"if {self.expression(one.tests[0])}")
            self.open("then")
            self.block(one.body)
            self.close()
            if one.other:
                self.open("else")
                self.block(one.other)
                self.close()
            self.close()
            return
        end, other = self.label("end"), self.label("else")
        self.open(f"block {end}")
        self.open(f"block {other}")
        for test in one.tests:
            self.line(f"(br_if {other} {self.negated(test)})")
        self.block(one.body)
        if not ends(one.body):
            self.line(f"(br {end})")
        self.close()
        self.block(one.other)
        self.close()

    def loop(self, one):
        end, again, next = self.label("end"), self.label("again"), self.label("next")
        self.open(f"block {end}")
        for test in one.tests:
            self.line(f"(br_if {end} {self.negated(test)})")
        self.open(f"loop {again}")
        continued = contains(one.body, "continue")
        self.loops.append((end, next))
        if continued:
            self.open(f"block {next}")
        self.block(one.body)
        if continued:
            self.close()
        self.loops.pop()
        if continued or not ends(one.body):
            for test in one.tests[:-1]:
                self.line(f"(br_if {end} {self.negated(test)})")
            self.line(f"(br_if {again} {self.expression(one.tests[-1])})")
        self.close()
        self.close()

    def negated(self, test):
        return f"(i32.eqz {self.expression(test)})"

    def address(self, buffer, index, element):
        # Addresses have 32 bits, so a 32-bit index need not be extended.
        index = index.operands[0] if index.kind == "convert" and index.name in ("L", "LS") else index
        text = self.expression(index) if index.type == "i32" else f"(i32.wrap_i64 {self.expression(index)})"
        shift = ELEMENTS[element][1].bit_length() - 1
        scaled = f"(i32.shl {text} (i32.const {shift}))" if shift else text
        return f"(i32.add {self.expression(buffer)} {scaled})"

    def expression(self, one):
        ty = TYPES[one.type]
        match one.kind:
            case "constant":
                return f"({ty}.const {one.name!r})"
            case "variable":
                return f"(local.get ${one.name})"
            case "load":
                return f"({LOADS[one.name]} {self.address(*one.operands, one.name)})"
            case "select":
                test, then, other = map(self.expression, one.operands)
                return f"(select {then} {other} {test})"
            case "binary" if one.name in ("min", "max"):
                return self.extreme(one)
            case "binary" if one.name.startswith("sh") and ty == "i64":
                value, amount = map(self.expression, one.operands)
                return f"({ty}.{one.name} {value} (i64.extend_i32_u {amount}))"
        listed = " ".join(map(self.expression, one.operands))
        match one.kind:
            case "binary":
                return f"({ty}.{one.name} {listed})"
            case "compare":
                operand = TYPES[one.operands[0].type]
                signed = operand[0] == "i" and one.name not in ("eq", "ne") and "_" not in one.name
                return f"({operand}.{one.name}{'_s' if signed else ''} {listed})"
            case "convert":
                return f"({CONVERT[one.name]} {listed})"
            case "float":
                return f"({ty}.{one.name} {listed})"
            case "bits":
                return f"({ty}.reinterpret_{one.operands[0].type} {listed})"
            case "new":
                return f"(call $NEW {listed})"
            case "call":
                return f"(call ${one.name} {listed})"
        raise AssertionError(one.kind)

    def extreme(self, one):
        """There is no minimum of integers: a selection of values that are computed once."""
        ty = TYPES[one.type]
        self.labels += 1
        names = [f"m{self.labels}", f"n{self.labels}"]
        self.scratch |= {(name, one.type) for name in names}
        first, second = [f"(local.tee ${name} {self.expression(operand)})" for name, operand in zip(names, one.operands)]
        test = "lt_s" if one.name == "min" else "gt_s"
        # Operands are evaluated in order, the selection's before its test.
        return f"(select {first} {second} ({ty}.{test} (local.get ${names[0]}) (local.get ${names[1]})))"


def write(functions):
    """The module."""
    head = ["(module", f'  (memory {PAGES} {PAGES})', "  (global $top (mut i32) (i32.const 0))", ALLOCATE]
    return "\n".join([*head, *(Writer(function).text() for function in functions), ")"]) + "\n"
