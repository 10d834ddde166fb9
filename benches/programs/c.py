"""Writes functions of the language in C. Buffers follow each other in an array, from its beginning in each call of a program."""

from language import ELEMENTS

TYPES = {"i32": "int32_t", "i64": "int64_t", "f32": "float", "f64": "double", "buffer": "uint8_t *"}
MEMORY = {"1": "uint8_t", "2": "uint16_t", "4": "int32_t", "8": "int64_t", "F": "float", "D": "double"}
OPERATORS = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^", "div": "/", "div_s": "/", "rem_s": "%", "div_u": "/", "rem_u": "%"}
COMPARE = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=", "lt_u": "<"}
FUNCTIONS = {"abs": "fabs", "sqrt": "sqrt", "floor": "floor"}
BYTES = 256 * 65536
HEAD = f"""// Built with -fwrapv, -ffp-contract=off and -fno-strict-aliasing.
#include <math.h>
#include <stdint.h>
#include <string.h>

static uint8_t memory[{BYTES}] __attribute__((aligned(16)));
static uint64_t top;

static uint8_t *allocate(int64_t bytes) {{
  uint8_t *start = memory + top;
  memset(start, 0, bytes);
  top = (top + bytes + 15) & ~UINT64_C(15);
  return start;
}}

static int32_t bits_f32(float x) {{ int32_t bits; memcpy(&bits, &x, 4); return bits; }}
static int64_t bits_f64(double x) {{ int64_t bits; memcpy(&bits, &x, 8); return bits; }}
static int32_t min_i32(int32_t a, int32_t b) {{ return a < b ? a : b; }}
static int32_t max_i32(int32_t a, int32_t b) {{ return a > b ? a : b; }}
static int64_t min_i64(int64_t a, int64_t b) {{ return a < b ? a : b; }}
static int64_t max_i64(int64_t a, int64_t b) {{ return a > b ? a : b; }}
"""


def unsigned(ty):
    return "u" + TYPES[ty]


class Writer:
    """The text of one function."""

    def __init__(self, function):
        self.function = function
        self.lines, self.depth = [], 1

    def head(self):
        function = self.function
        parameters = ", ".join(f"{TYPES[function.variables[name]]} {name}" for name in function.parameters)
        linkage = '__attribute__((visibility("default")))' if function.is_program else "static"
        return f"{linkage} {TYPES[function.result]} {function.name}({parameters})"

    def text(self):
        function = self.function
        for name, ty in function.variables.items():
            if name not in function.parameters:
                self.line(f"{TYPES[ty]} {name};")
        if function.is_program:
            self.line("top = 0;")
        self.block(function.body)
        return "\n".join([self.head() + " {", *self.lines, "}"])

    def line(self, text):
        self.lines.append("  " * self.depth + text)

    def nested(self, head, statements, tail="}"):
        self.line(head)
        self.depth += 1
        self.block(statements)
        self.depth -= 1
        self.line(tail)

    def block(self, statements):
        for one in statements:
            tests = " && ".join(map(self.expression, one.tests))
            match one.kind:
                case "assign":
                    self.line(f"{one.name} = {self.expression(one.operands[0])};")
                case "store":
                    buffer, index, value = map(self.expression, one.operands)
                    self.line(f"(({MEMORY[one.name]} *){buffer})[{index}] = {value};")
                case "return":
                    self.line(f"return {self.expression(one.operands[0])};")
                case "break" | "continue":
                    self.line(f"{one.kind};")
                case "if":
                    self.nested(f"if ({tests}) {{", one.body, "} else {" if one.other else "}")
                    if one.other:
                        self.lines.pop()
                        self.nested("} else {", one.other)
                case "while":
                    self.nested(f"while ({tests}) {{", one.body)

    def constant(self, one):
        if one.type[0] == "f":
            return f"({TYPES[one.type]}){one.name!r}"
        if one.type == "i32":
            return f"(int32_t)INT64_C({one.name})"
        return f"INT64_C({one.name})"

    def expression(self, one):
        if one.kind == "constant":
            return self.constant(one)
        if one.kind == "variable":
            return one.name
        ty = TYPES[one.type]
        operands = [self.expression(operand) for operand in one.operands]
        match one.kind:
            case "binary":
                return self.binary(one, *operands)
            case "compare":
                cast = f"({unsigned(one.operands[0].type)})" if one.name.endswith("_u") else ""
                return f"({cast}{operands[0]} {COMPARE[one.name]} {cast}{operands[1]})"
            case "convert" if one.name == "L":
                return f"((int64_t)(uint32_t){operands[0]})"
            case "convert":
                return f"(({ty}){operands[0]})"
            case "float" if one.name == "neg":
                return f"(-{operands[0]})"
            case "float":
                return f"{FUNCTIONS[one.name]}{'f' if one.type == 'f32' else ''}({operands[0]})"
            case "bits":
                return f"bits_{one.operands[0].type}({operands[0]})"
            case "load":
                return f"(({MEMORY[one.name]} *){operands[0]})[{operands[1]}]"
            case "select":
                return f"({operands[0]} ? {operands[1]} : {operands[2]})"
            case "new":
                return f"allocate({operands[0]})"
            case "call":
                return f"{one.name}({', '.join(operands)})"
        raise AssertionError(one.kind)

    def binary(self, one, left, right):
        ty, width = TYPES[one.type], 8 * int(one.type[1:]) // 8
        if one.name in ("min", "max"):
            return f"{one.name}_{one.type}({left}, {right})"
        if one.name.startswith("sh"):
            operator = "<<" if one.name == "shl" else ">>"
            cast = "" if one.name == "shr_s" else f"({unsigned(one.type)})"
            return f"(({ty})({cast}{left} {operator} ({right} & {width - 1})))"
        if one.name.endswith("_u"):
            return f"(({ty})(({unsigned(one.type)}){left} {OPERATORS[one.name]} ({unsigned(one.type)}){right}))"
        return f"({left} {OPERATORS[one.name]} {right})"


def write(functions):
    """The file."""
    writers = [Writer(function) for function in functions]
    heads = "\n".join(f"{writer.head()};" for writer in writers)
    return "\n\n".join([HEAD + "\n" + heads, *(writer.text() for writer in writers)]) + "\n"
