"""The language of the host programs: a subset of Python that `ast` parses, typed here and written by `vm.py`, `wat.py` and `c.py`.

The first letter of a variable is its type: `i` is i32, `l` is i64, `f` is f32, `d` is f64, `b` is a buffer. A function returns i32, or what its
annotation says (`-> l`). Functions whose names begin with `_` are called by others of the file; the others are programs, with one argument
of i32. Statements are assignments (also `+=`), `while`, `for x in range(...)` (with a constant step), `if`, `break`, `continue` (in `while`), `return`,
and stores. Tests may be joined by `and`; a variable is assigned on each path to its use.

    + - * & | ^ ~ << >>           of integers; >> is the logical shift, and amounts are taken modulo the width
    + - * /                       of floats
    // %                          signed quotient and remainder, rounded to zero
    < <= > >= == !=               of one type, floats are never NaN; the result is an i32
    a if c else b                 a selection: both are computed
    DIVU REMU LTU(a, b) SHRS(a, n)  without signs; the shift with sign
    L LS(i) I(l)                  i32 to i64, zero- or sign-extended; i64 to i32
    D F(i) DL(l) DI(d) LD(d)      i32 to f64 or f32, i64 to f64, f64 to i32 or i64 (in range)
    DF(f) FD(d)                   f32 to f64, f64 to f32
    BITS(x)                       the bits of a float as an integer
    ABS SQRT NEG FLOOR(x)         of a float
    MIN MAX(a, b)                 signed, of integers
    NEW(l)                        a buffer of so many bytes, zeroed; only programs allocate
    B1 B2 B4 B8 BF BD(b, i)       loads of u8, u16, i32, i64, f32, f64 at element i (i32, which is not negative, or i64)
    S1 S2 S4 S8 SF SD(b, i, x)    stores
"""

import ast
import dataclasses

TYPES = {"i": "i32", "l": "i64", "f": "f32", "d": "f64", "b": "buffer"}
ARITHMETIC = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.LShift: "shl", ast.RShift: "shr_u"}
ARITHMETIC |= {ast.FloorDiv: "div_s", ast.Mod: "rem_s", ast.Div: "div"}
COMPARISONS = {ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne"}
UNSIGNED = {"DIVU": "div_u", "REMU": "rem_u", "SHRS": "shr_s", "MIN": "min", "MAX": "max"}
# The type of the operand, and of the result.
CONVERSIONS = {
    "L": ("i32", "i64"), "LS": ("i32", "i64"), "I": ("i64", "i32"), "D": ("i32", "f64"), "F": ("i32", "f32"), "DL": ("i64", "f64"),
    "DI": ("f64", "i32"), "LD": ("f64", "i64"), "DF": ("f32", "f64"), "FD": ("f64", "f32"),
}
FLOAT_FUNCTIONS = {"ABS": "abs", "SQRT": "sqrt", "NEG": "neg", "FLOOR": "floor"}
# The type in a register, and the bytes of an element.
ELEMENTS = {"1": ("i32", 1), "2": ("i32", 2), "4": ("i32", 4), "8": ("i64", 8), "F": ("f32", 4), "D": ("f64", 8)}


class Wrong(Exception):
    """A program that is none of this language."""


@dataclasses.dataclass
class Expression:
    """`kind` is constant, variable, binary, compare, convert, float, bits, load, call, select or new."""
    kind: str
    type: str
    name: object = None
    operands: tuple = ()


@dataclasses.dataclass
class Statement:
    """`kind` is assign, store, while, if, return, break or continue. `tests` are joined by `and`."""
    kind: str
    name: str = None
    operands: tuple = ()
    tests: tuple = ()
    body: tuple = ()
    other: tuple = ()


@dataclasses.dataclass
class Function:
    name: str
    parameters: list
    result: str
    body: list
    variables: dict

    @property
    def is_program(self):
        return not self.name.startswith("_")


def type_of(name):
    if name[0] not in TYPES:
        raise Wrong(f"{name}: the first letter is no type")
    return TYPES[name[0]]


class Reader:
    """Types the functions of a file."""

    def __init__(self, text):
        self.tree = ast.parse(text)
        self.signatures = {}

    def functions(self):
        definitions = [node for node in self.tree.body if isinstance(node, ast.FunctionDef)]
        for node in definitions:
            result = type_of(node.returns.id) if node.returns else "i32"
            self.signatures[node.name] = ([type_of(one.arg) for one in node.args.args], result)
        return [self.function(node) for node in definitions]

    def function(self, node):
        parameters = [one.arg for one in node.args.args]
        result = self.signatures[node.name][1]
        if not node.name.startswith("_") and (result, [type_of(one) for one in parameters]) != ("i32", ["i32"]):
            raise Wrong(f"{node.name}: a program has one argument of i32 and returns an i32")
        body = self.block(node.body, result)
        variables = {name: type_of(name) for name in [*parameters, *sorted(assigned(body) - set(parameters))]}
        return Function(node.name, parameters, result, body, variables)

    def block(self, nodes, result):
        return [one for node in nodes for one in self.statement(node, result)]

    def statement(self, node, result):
        match node:
            case ast.Expr(ast.Constant()) | ast.Pass():
                return []
            case ast.Assign([ast.Name(name)], value):
                return [Statement("assign", name, (self.expression(value, type_of(name)),))]
            case ast.AugAssign(ast.Name(name), operator, value):
                node = ast.BinOp(ast.Name(name, ast.Load()), operator, value)
                return [Statement("assign", name, (self.expression(node, type_of(name)),))]
            case ast.Return(value):
                return [Statement("return", None, (self.expression(value, result),))]
            case ast.Break():
                return [Statement("break")]
            case ast.Continue():
                return [Statement("continue")]
            case ast.While(test, body, []):
                return [Statement("while", tests=self.tests(test), body=self.block(body, result))]
            case ast.If(test, body, other):
                return [Statement("if", tests=self.tests(test), body=self.block(body, result), other=self.block(other, result))]
            case ast.For(ast.Name(name), ast.Call(ast.Name("range"), arguments), body, []):
                return self.counted(name, arguments, body, result)
            case ast.Expr(ast.Call(ast.Name(name), [buffer, index, value])) if name[0] == "S" and name[1:] in ELEMENTS:
                operands = self.expression(buffer, "buffer"), self.index(index), self.expression(value, ELEMENTS[name[1:]][0])
                return [Statement("store", name[1:], operands)]
        raise Wrong(f"line {node.lineno}: no statement of this language")

    def counted(self, name, arguments, body, result):
        """`for name in range(...)` as `while`. The bound is computed in each test, and is a variable or a constant mostly."""
        first, bound, step = [ast.Constant(0), *arguments, ast.Constant(1)] if len(arguments) == 1 else [*arguments, ast.Constant(1)][:3]
        step = ast.literal_eval(step)
        ty = type_of(name)
        variable = Expression("variable", ty, name)
        test = Expression("compare", "i32", "lt" if step > 0 else "gt", (variable, self.expression(bound, ty)))
        advance = Statement("assign", name, (Expression("binary", ty, "add", (variable, Expression("constant", ty, step))),))
        start = Statement("assign", name, (self.expression(first, ty),))
        return [start, Statement("while", tests=(test,), body=[*self.block(body, result), advance])]

    def tests(self, node):
        nodes = node.values if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And) else [node]
        return tuple(self.expression(one, "i32") for one in nodes)

    def index(self, node):
        index = self.expression(node, None)
        return index if index.type == "i64" else Expression("convert", "i64", "L", (index,))

    def pair(self, left, right, wanted):
        """Operands of one type: that of the first that is no constant."""
        wanted = wanted or self.natural(left) or self.natural(right)
        first = self.expression(left, wanted)
        return first, self.expression(right, first.type)

    def natural(self, node):
        """The type of an expression, or none if it is made of constants."""
        match node:
            case ast.Name(name):
                return type_of(name)
            case ast.Constant(int(value)) if not -(2**31) <= value < 2**31:
                return "i64"
            case ast.BinOp(left, ast.LShift() | ast.RShift(), _) | ast.UnaryOp(_, left):
                return self.natural(left)
            case ast.BinOp(left, _, right) | ast.IfExp(_, left, right):
                return self.natural(left) or self.natural(right)
            case ast.Compare():
                return "i32"
            case ast.Call(ast.Name(name), arguments):
                if name in CONVERSIONS:
                    return CONVERSIONS[name][1]
                if name in self.signatures:
                    return self.signatures[name][1]
                if name[0] == "B" and name[1:] in ELEMENTS:
                    return ELEMENTS[name[1:]][0]
                types = [ty for argument in arguments if (ty := self.natural(argument))]
                return types[0].replace("f", "i") if types and name == "BITS" else next(iter(types), None)
        return None

    def expression(self, node, wanted):
        made = self.untested(node, wanted)
        if wanted is not None and made.type != wanted:
            raise Wrong(f"line {node.lineno}: expected {wanted}, found {made.type}: {ast.unparse(node)}")
        return made

    def untested(self, node, wanted):
        match node:
            case ast.Constant(value):
                ty = wanted or ("f64" if isinstance(value, float) else "i32")
                return Expression("constant", ty, float(value) if ty[0] == "f" else value)
            case ast.UnaryOp(ast.USub(), ast.Constant(value)):
                return self.untested(ast.Constant(-value, lineno=node.lineno), wanted)
            case ast.UnaryOp(ast.Invert(), value):
                operand = self.expression(value, wanted)
                return Expression("binary", operand.type, "xor", (operand, Expression("constant", operand.type, -1)))
            case ast.Name(name):
                return Expression("variable", type_of(name), name)
            case ast.BinOp(left, ast.LShift() | ast.RShift() as operator, amount):
                return self.shift(ARITHMETIC[type(operator)], left, amount, wanted)
            case ast.BinOp(left, operator, right):
                operands = self.pair(left, right, wanted)
                return Expression("binary", operands[0].type, ARITHMETIC[type(operator)], operands)
            case ast.Compare(left, [operator], [right]):
                return Expression("compare", "i32", COMPARISONS[type(operator)], self.pair(left, right, None))
            case ast.IfExp(test, left, right):
                operands = self.pair(left, right, wanted)
                return Expression("select", operands[0].type, None, (self.expression(test, "i32"), *operands))
            case ast.Call(ast.Name(name), arguments):
                return self.call(name, arguments, wanted, node)
        raise Wrong(f"line {node.lineno}: no expression of this language: {ast.unparse(node)}")

    def shift(self, operator, left, amount, wanted):
        value = self.expression(left, wanted)
        return Expression("binary", value.type, operator, (value, self.expression(amount, "i32")))

    def call(self, name, arguments, wanted, node):
        if name in CONVERSIONS:
            source, result = CONVERSIONS[name]
            return Expression("convert", result, name, (self.expression(arguments[0], source),))
        if name in FLOAT_FUNCTIONS:
            operand = self.expression(arguments[0], wanted)
            return Expression("float", operand.type, FLOAT_FUNCTIONS[name], (operand,))
        if name == "BITS":
            operand = self.expression(arguments[0], None)
            return Expression("bits", operand.type.replace("f", "i"), None, (operand,))
        if name == "SHRS":
            return self.shift("shr_s", *arguments, wanted)
        if name in UNSIGNED:
            operands = self.pair(*arguments, wanted)
            return Expression("binary", operands[0].type, UNSIGNED[name], operands)
        if name == "LTU":
            return Expression("compare", "i32", "lt_u", self.pair(*arguments, None))
        if name == "NEW":
            return Expression("new", "buffer", None, (self.expression(arguments[0], "i64"),))
        if name[0] == "B" and name[1:] in ELEMENTS:
            return Expression("load", ELEMENTS[name[1:]][0], name[1:], (self.expression(arguments[0], "buffer"), self.index(arguments[1])))
        if name not in self.signatures:
            raise Wrong(f"line {node.lineno}: there is no function {name}")
        types, result = self.signatures[name]
        operands = tuple(self.expression(argument, ty) for argument, ty in zip(arguments, types, strict=True))
        return Expression("call", result, name, operands)


def read(text):
    """The functions of a file."""
    return Reader(text).functions()


def assigned(statements):
    """The variables that statements assign."""
    names = set()
    for one in statements:
        if one.kind == "assign":
            names.add(one.name)
        names |= assigned(one.body) | assigned(one.other)
    return names


def used(expressions):
    """The variables that expressions read."""
    names = set()
    for one in expressions:
        names |= {one.name} if one.kind == "variable" else used(one.operands)
    return names


def ends(statements):
    """Whether nothing after these statements is reached from their end."""
    if not statements:
        return False
    last = statements[-1]
    return last.kind in ("return", "break", "continue") or last.kind == "if" and ends(last.body) and ends(last.other)


def contains(statements, kind):
    """Whether statements have one of this kind that belongs to the loop around them."""
    return any(one.kind == kind or one.kind == "if" and (contains(one.body, kind) or contains(one.other, kind)) for one in statements)


@dataclasses.dataclass
class Live:
    """The variables that are read after a loop, and at its header."""
    after: set
    header: set


def live_before(statements, after, loop=None):
    """The variables that are read later, before these statements."""
    live = set(after)
    for one in reversed(statements):
        match one.kind:
            case "assign":
                live = live - {one.name} | used(one.operands)
            case "store":
                live |= used(one.operands)
            case "return":
                live = used(one.operands)
            case "break":
                live = set(loop.after)
            case "continue":
                live = set(loop.header)
            case "if":
                live = live_before(one.body, live, loop) | live_before(one.other, live, loop) | used(one.tests)
            case "while":
                live = live_at_header(one, live)
    return live


def live_at_header(loop, after):
    header = set(after) | used(loop.tests)
    while True:
        more = header | live_before(loop.body, header, Live(set(after), header))
        if more == header:
            return header
        header = more
