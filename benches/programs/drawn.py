"""Draws host programs: nests of loops whose branches depend on data, over buffers, integers of 32 and 64 bits, floats of both sizes, and calls.

Trip counts, extents of buffers and the number of statements are log-uniform from 1; the iterations of a nest are bounded. All indices are reduced
to the extent of their buffer, a power of two. Floats stay finite: each expression has a bound, and what exceeds that of its variable is
scaled down.
"""

import math
import random

# The iterations of an innermost loop, in all.
WORK = 100_000
# No variable of a float is larger.
BOUND = 1000.0
DEPTH = 3
ELEMENTS = {"1": "i", "2": "i", "4": "i", "8": "l", "F": "f", "D": "d"}
BYTES = {"1": 1, "2": 2, "4": 4, "8": 8, "F": 4, "D": 8}


class Draw:
    """One program."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines = []
        self.buffers = {}
        self.variables = []
        # Induction variables are read, and not assigned.
        self.counters = []
        self.functions = {}
        self.names = 0
        # What an iteration here counts as, about.
        self.work = 1

    def log_uniform(self, most):
        return int(math.exp(self.random.uniform(0, math.log(most + 0.999))))

    def chance(self, share):
        return self.random.random() < share

    def name(self, ty):
        self.names += 1
        return f"{ty}_{self.names}"

    def line(self, depth, text):
        self.lines.append("    " * depth + text)

    def readable(self, ty):
        return [name for name in self.variables + self.counters if name[0] == ty]

    def constant(self, ty):
        if ty in "fd":
            return repr(round(self.random.uniform(-4, 4), 3))
        size = self.log_uniform(2**31 - 1 if ty == "i" else 2**62)
        return str(self.random.choice([size, -size, self.random.randrange(1, 17)]))

    # Expressions: integers, as text.

    def leaf(self, ty):
        names = self.readable(ty)
        if names and self.chance(0.8):
            return self.random.choice(names)
        return self.constant(ty)

    def integer(self, ty, depth):
        if depth == 0 or self.chance(0.15):
            return self.leaf(ty)
        r = self.random
        kind = r.choices(["sum", "bits", "product", "shift", "divide", "load", "convert", "select", "compare", "call", "extreme"], [8, 4, 3, 3, 1, 6, 2, 2, 1, 1, 1])[0]
        left = self.integer(ty, depth - 1)
        if kind == "sum":
            return f"({left} {r.choice('+-')} {self.integer(ty, depth - 1)})"
        if kind == "bits":
            return f"({left} {r.choice('&|^')} {self.integer(ty, depth - 1)})"
        if kind == "product":
            return f"({left} * {self.leaf(ty)})"
        if kind == "shift":
            amount = r.randrange(1, 31 if ty == "i" else 63)
            return r.choice([f"({left} << {amount})", f"({left} >> {amount})", f"SHRS({left}, {amount})"])
        if kind == "divide":
            divisor = f"({self.leaf(ty)} & {2 ** r.randrange(1, 12) - 1}) + 1"
            return r.choice([f"({left} // ({divisor}))", f"({left} % ({divisor}))", f"REMU({left}, {divisor})", f"DIVU({left}, {divisor})"])
        if kind == "load":
            return self.load(ty) or left
        if kind == "convert":
            if ty == "i":
                return f"I({self.integer('l', depth - 1)})"
            return f"{r.choice(['L', 'LS'])}({self.integer('i', depth - 1)})"
        if kind == "select":
            return f"({left} if {self.test(depth - 1)} else {self.integer(ty, depth - 1)})"
        if kind == "compare" and ty == "i":
            return f"({self.test(depth - 1)})"
        if kind == "call":
            return self.call(ty) or left
        return f"{r.choice(['MIN', 'MAX'])}({left}, {self.integer(ty, depth - 1)})"

    # Expressions: floats, as text and a bound.

    def float(self, ty, depth):
        r = self.random
        if depth == 0 or self.chance(0.15):
            names = self.readable(ty)
            return (r.choice(names), BOUND) if names and self.chance(0.8) else (self.constant(ty), 4.0)
        kind = r.choices(["sum", "product", "quotient", "root", "load", "convert", "select", "call"], [7, 5, 1, 1, 6, 2, 2, 1])[0]
        left, bound = self.float(ty, depth - 1)
        if kind == "load" or kind == "call":
            made = self.load(ty) if kind == "load" else self.call(ty)
            return (made, BOUND) if made else (left, bound)
        if kind == "convert":
            if self.chance(0.3):
                value, bound = self.float("d" if ty == "f" else "f", depth - 1)
                return f"{'FD' if ty == 'f' else 'DF'}({value})", bound
            return f"{ty.upper()}({self.integer('i', depth - 1)} & 255)", 255.0
        if kind == "root":
            return f"SQRT(ABS({left}))", max(1.0, bound)
        right, other = self.float(ty, depth - 1)
        if kind == "sum":
            return f"({left} {r.choice('+-')} {right})", bound + other
        if kind == "product":
            return f"({left} * {right})", bound * other
        if kind == "quotient":
            return f"({left} / (ABS({right}) + 1.0))", bound
        return f"({left} if {self.test(depth - 1)} else {right})", max(bound, other)

    def value(self, ty, depth=None):
        """An expression whose value a variable may have."""
        depth = self.log_uniform(DEPTH) if depth is None else depth
        if ty in "il":
            return self.integer(ty, depth)
        text, bound = self.float(ty, depth)
        # Rounding may exceed the bound a little, which does not add up.
        return text if bound <= BOUND else f"{text} * {BOUND / bound:.3g}"

    def test(self, depth):
        r = self.random
        types = [ty for ty in "iiiilfd" if self.readable(ty)] or ["i"]
        ty = r.choice(types)
        if ty in "il":
            left, right = self.integer(ty, max(0, depth)), self.leaf(ty)
            if self.chance(0.3):
                return f"({left} & {2 ** r.randrange(0, 5)}) != 0"
            return f"{left} {r.choice(['<', '<=', '>', '>=', '==', '!='])} {right}"
        return f"{self.float(ty, max(0, depth))[0]} {r.choice('<>')} {self.float(ty, 0)[0]}"

    def index(self, extent):
        """An element below `extent`, a power of two: mostly near a counter, sometimes anywhere."""
        names = self.counters or self.readable("i")
        base = self.random.choice(names) if names and self.chance(0.8) else self.integer("i", 1)
        if self.chance(0.3):
            base = f"{base} + {self.random.randrange(1, 5)}"
        if base[0] == "l":
            return f"{base} & {extent - 1}"
        return f"({base}) & {extent - 1}"

    def load(self, ty):
        names = [name for name, (element, _) in self.buffers.items() if ELEMENTS[element] == ty]
        if not names:
            return None
        name = self.random.choice(names)
        element, extent = self.buffers[name]
        return f"B{element}({name}, {self.index(extent)})"

    def call(self, ty):
        names = [name for name, (_, result) in self.functions.items() if result == ty]
        if not names or self.work > WORK // 4:
            return None
        name = self.random.choice(names)
        return f"{name}({', '.join(self.value(one, 1) for one in self.functions[name][0])})"

    # Statements.

    def assign(self, depth):
        name = self.random.choice(self.variables)
        if self.chance(0.4) and name[0] in "il":
            self.line(depth, f"{name} {self.random.choice(['+=', '-=', '^='])} {self.value(name[0])}")
        else:
            self.line(depth, f"{name} = {self.value(name[0])}")

    def store(self, depth):
        name = self.random.choice(list(self.buffers))
        element, extent = self.buffers[name]
        self.line(depth, f"S{element}({name}, {self.index(extent)}, {self.value(ELEMENTS[element])})")

    def statements(self, depth, nested, in_while):
        for _ in range(self.log_uniform(5)):
            kinds, weights = ["assign", "store" if self.buffers else "assign", "if"], [6, 4, 3 if nested < 2 * DEPTH else 0]
            if nested < DEPTH and self.work < WORK:
                kinds, weights = [*kinds, "for", "while"], [*weights, 5 if nested == 0 else 3, 2]
            if in_while:
                kinds, weights = [*kinds, "leave"], [*weights, 1]
            kind = self.random.choices(kinds, weights)[0]
            if kind in ("assign", "store"):
                getattr(self, kind)(depth)
            elif kind == "if":
                self.conditional(depth, nested, in_while)
            elif kind == "leave":
                self.line(depth, f"if {self.test(1)}:")
                self.line(depth + 1, self.random.choice(["break", "continue"]))
            else:
                self.loop(depth, nested, kind)

    def conditional(self, depth, nested, in_while):
        tests = [self.test(1) for _ in range(2 if self.chance(0.2) else 1)]
        self.line(depth, f"if {' and '.join(tests)}:")
        self.statements(depth + 1, nested + 1, in_while)
        if self.chance(0.4):
            self.line(depth, "else:")
            self.statements(depth + 1, nested + 1, in_while)

    def loop(self, depth, nested, kind):
        trips = self.log_uniform(max(1, WORK // self.work))
        ty = self.random.choice("iiil")
        counter = self.name(ty)
        if kind == "for":
            first = self.random.choice([0, 0, 1])
            step = self.random.choice([1, 1, 1, 2, -1])
            bounds = f"{first}, {first + trips * step}" if step > 0 else f"{trips}, 0"
            self.line(depth, f"for {counter} in range({bounds}, {step}):")
        else:
            self.line(depth, f"{counter} = 0")
            extra = f" and {self.test(1)}" if self.chance(0.5) else ""
            self.line(depth, f"while {counter} < {trips}{extra}:")
            self.line(depth + 1, f"{counter} += 1")
        self.counters.append(counter)
        self.work *= trips
        self.statements(depth + 1, nested + 1, kind == "while")
        self.work //= trips
        self.counters.remove(counter)

    def function(self):
        """A small function that others call: of numbers, without buffers."""
        name = f"_f{len(self.functions)}"
        parameters = [self.random.choice("iiilfd") for _ in range(self.log_uniform(4))]
        result = self.random.choice("iiilfd")
        self.variables = [self.name(ty) for ty in parameters]
        self.work = WORK // 8
        self.line(0, f"def {name}({', '.join(self.variables)}) -> {result}:")
        for _ in range(self.log_uniform(3)):
            if self.chance(0.5):
                self.line(1, f"if {self.test(1)}:")
                self.line(2, f"return {self.value(result)}")
            else:
                self.assign(1)
        self.line(1, f"return {self.value(result)}")
        self.lines += ["", ""]
        self.functions[name] = (parameters, result)
        self.variables = []

    def program(self):
        for _ in range(self.log_uniform(4) - 1):
            self.function()
        self.work = 1
        self.line(0, "def main(i_n):")
        for _ in range(self.log_uniform(5)):
            element = self.random.choice("112444448FFDD")
            extent = 2 ** self.random.randrange(0, 11)
            name = self.name("b")
            self.line(1, f"{name} = NEW({extent * BYTES[element]})")
            self.buffers[name] = (element, extent)
        self.variables = ["i_n"]
        for _ in range(2 + self.log_uniform(8)):
            name = self.name(self.random.choice("iiiillfd"))
            self.line(1, f"{name} = {self.constant(name[0])}")
            self.variables.append(name)
        # What is read has been written.
        for name, (element, extent) in self.buffers.items():
            ty, counter = ELEMENTS[element], self.name("i")
            self.line(1, f"for {counter} in range({extent}):")
            mixed = f"{counter} * {self.random.randrange(3, 2**20)} + i_n"
            written = {"i": mixed, "l": f"LS({mixed})", "f": f"F({mixed} & 255)", "d": f"D({mixed} & 255)"}[ty]
            self.line(2, f"S{element}({name}, {counter}, {written})")
        while self.loops() == 0 or self.chance(0.3):
            self.statements(1, 0, False)
        # Everything that was computed is a part of the result.
        self.line(1, "i_result = 0")
        for name in self.variables:
            self.mix(1, name)
        for name, (element, extent) in self.buffers.items():
            counter = self.name("i")
            self.line(1, f"for {counter} in range({extent}):")
            self.mix(2, f"B{element}({name}, {counter})", ELEMENTS[element])
        self.line(1, "return i_result")
        return "\n".join(self.lines) + "\n"

    def loops(self):
        return sum(line.lstrip().startswith(("for", "while")) for line in self.lines) - len(self.buffers)

    def mix(self, depth, text, ty=None):
        ty = ty or text[0]
        bits = {"i": text, "l": f"I({text} ^ {text} >> 32)", "f": f"BITS({text})", "d": f"I(BITS({text}) ^ BITS({text}) >> 32)"}[ty]
        self.line(depth, f"i_result = i_result * 31 + {bits}")


def drawn(seed, count):
    """Names and texts of so many programs."""
    return {f"drawn_{seed}_{index}": Draw(f"{seed}/{index}").program() for index in range(count)}
