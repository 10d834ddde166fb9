"""Writes functions of the language in the VM dialect of the reference compiler, in the form that its own lowerings give: only values that differ
between the ways into a block are its arguments.

iree-compile 3.13.0 copies the arguments of a branch in a wrong order where a value of 64 bits takes the registers of one of 32 bits that is
copied later. Which registers they have depends on the order of the arguments, so `ORDERS` has several.
"""

from language import ELEMENTS, Live, Wrong, assigned, contains, ends, live_at_header, live_before

TYPES = {"i32": "i32", "i64": "i64", "f32": "f32", "f64": "f64", "buffer": "!vm.buffer"}
COMPARE = {"lt": "lt", "le": "lte", "gt": "gt", "ge": "gte", "eq": "eq", "ne": "ne"}
LOADS = {"1": "i8.u", "2": "i16.u", "4": "i32", "8": "i64", "F": "f32", "D": "f64"}
STORES = {"1": "i8", "2": "i16", "4": "i32", "8": "i64", "F": "f32", "D": "f64"}
CONVERT = {
    "L": "ext.i32.i64.u", "LS": "ext.i32.i64.s", "I": "trunc.i64.i32", "F": "cast.si32.f32", "DL": "cast.si64.f64", "LD": "cast.f64.si64",
    "DF": "ext.f32.f64", "FD": "trunc.f64.f32",
}
ALIGNMENT = 16
# The order of the arguments of a block, as a key to sort names by.
ORDERS = {
    "names": lambda name: name,
    "wide first": lambda name: (name[0] in "if", name),
    "narrow first": lambda name: (name[0] in "ld", name),
    "last first": lambda name: [-ord(letter) for letter in name],
    "floats first": lambda name: ("dfli".index(name[0]) if name[0] in "dfli" else 4, name[::-1]),
    "numbers": lambda name: (len(name), name[1:]),
}


class Writer:
    """The text of one function, and the value of each variable in the block that is being written."""

    def __init__(self, function, order):
        self.function, self.order = function, order
        self.lines, self.values, self.blocks = [], 0, 0
        self.now = {name: f"%{name}" for name in function.parameters}
        # The loops around: the blocks of the header and after the loop, each with its parameters.
        self.loops = []

    def text(self):
        function = self.function
        parameters = ", ".join(f"%{name}: {self.type(name)}" for name in function.parameters)
        self.block(function.body, set(), None)
        if not ends(function.body):
            raise Wrong(f"{function.name} does not return")
        export = [f"  vm.export @{function.name}"] if function.is_program else []
        head = f"  vm.func private @{function.name}({parameters}) -> {TYPES[function.result]} {{"
        return "\n".join([head, *self.lines, "  }", *export])

    def type(self, name):
        return TYPES[self.function.variables[name]]

    def sorted(self, names):
        return sorted(names, key=ORDERS[self.order])

    def line(self, text):
        self.lines.append("    " + text)

    def value(self, text):
        self.values += 1
        self.line(f"%{self.values} = {text}")
        return f"%{self.values}"

    def label(self):
        self.blocks += 1
        return f"^bb{self.blocks}"

    def target(self, label, names):
        if not names:
            return label
        missing = [name for name in names if name not in self.now]
        if missing:
            raise Wrong(f"{self.function.name}: {missing[0]} is not assigned on each path")
        return f"{label}({', '.join(self.now[name] for name in names)} : {', '.join(self.type(name) for name in names)})"

    def enter(self, label, names, now):
        """Begins a block with these parameters, in which the other variables have the values of `now`."""
        number = label.removeprefix("^bb")
        self.now = {**now, **{name: f"%{name}_{number}" for name in names}}
        parameters = ", ".join(f"{self.now[name]}: {self.type(name)}" for name in names)
        self.lines.append(f"  {label}({parameters}):" if names else f"  {label}:")

    def branch(self, label, names):
        self.line(f"vm.br {self.target(label, names)}")

    def block(self, statements, after, live):
        for index, one in enumerate(statements):
            following = live_before(statements[index + 1:], after, live)
            match one.kind:
                case "assign":
                    self.now[one.name] = self.expression(one.operands[0])
                case "store":
                    self.store(one)
                case "return":
                    value = self.expression(one.operands[0])
                    self.line(f"vm.return {value} : {TYPES[one.operands[0].type]}")
                case "break":
                    self.branch(*self.loops[-1][1])
                case "continue":
                    self.branch(*self.loops[-1][0])
                case "if":
                    self.conditional(one, following, live)
                case "while":
                    self.loop(one, following)

    def test(self, test, then, other):
        """A branch on a test, to targets that are written already."""
        self.line(f"vm.cond_br {self.expression(test)}, {then}, {other}")

    def conditional(self, one, following, live):
        end, body, other = self.label(), self.label(), self.label()
        # Both ways come together only if neither ends.
        joined = [] if ends(one.body) or ends(one.other) else self.sorted((assigned(one.body) | assigned(one.other)) & following)
        false = other if one.other else self.target(end, joined)
        start = dict(self.now)
        for index, test in enumerate(one.tests):
            last = index + 1 == len(one.tests)
            then = body if last else self.label()
            self.test(test, then, false)
            self.enter(then, [], start)
        self.block(one.body, following, live)
        now = self.now
        if not ends(one.body):
            self.branch(end, joined)
        if one.other:
            self.enter(other, [], start)
            self.block(one.other, following, live)
            if not ends(one.other):
                self.branch(end, joined)
                now = self.now if ends(one.body) else now
        elif ends(one.body):
            now = start
        if not (ends(one.body) and ends(one.other)):
            self.enter(end, joined, now if not joined else {**start, **{name: now[name] for name in joined}})

    def loop(self, one, following):
        header, body, end = self.label(), self.label(), self.label()
        live = Live(set(following), live_at_header(one, following))
        changed = self.sorted(assigned(one.body) & live.header)
        # Without a `break` the values after the loop are those of its header.
        after = self.sorted(assigned(one.body) & following) if contains(one.body, "break") else []
        self.branch(header, changed)
        self.enter(header, changed, self.now)
        start = dict(self.now)
        exit = self.target(end, after)
        for index, test in enumerate(one.tests):
            then = body if index + 1 == len(one.tests) else self.label()
            self.test(test, then, exit)
            self.enter(then, [], start)
        self.loops.append(((header, changed), (end, after)))
        self.block(one.body, live.header, live)
        self.loops.pop()
        if not ends(one.body):
            self.branch(header, changed)
        self.enter(end, after, start)

    def store(self, one):
        buffer, index, value = map(self.expression, one.operands)
        self.line(f"vm.buffer.store.{STORES[one.name]} {value}, {buffer}[{index}] : {ELEMENTS[one.name][0]} -> !vm.buffer")

    def expression(self, one):
        if one.kind == "constant":
            text = repr(one.name)
            # MLIR wants a point before the exponent.
            text = text.replace("e", ".0e") if "e" in text and "." not in text else text
            return self.value(f"vm.const.{one.type} {text}")
        if one.kind == "variable":
            if one.name not in self.now:
                raise Wrong(f"{self.function.name}: {one.name} is not assigned on each path")
            return self.now[one.name]
        ty = TYPES[one.type]
        operands = [self.expression(operand) for operand in one.operands]
        listed = ", ".join(operands)
        match one.kind:
            case "binary":
                return self.value(self.binary(one, listed))
            case "compare":
                return self.value(self.compare(one, listed))
            case "convert":
                return self.convert(one, *operands)
            case "float":
                return self.value(f"vm.{one.name}.{ty} {listed} : {ty}")
            case "bits":
                source = one.operands[0].type
                return self.value(f"vm.bitcast.{source}.{ty} {listed} : {source} -> {ty}")
            case "load":
                return self.value(f"vm.buffer.load.{LOADS[one.name]} {operands[0]}[{operands[1]}] : !vm.buffer -> {ty}")
            case "select":
                return self.value(f"vm.select.{ty} {listed} : {ty}")
            case "new":
                alignment = self.value(f"vm.const.i32 {ALIGNMENT}")
                return self.value(f"vm.buffer.alloc {operands[0]}, {alignment} : !vm.buffer")
            case "call":
                types = ", ".join(TYPES[operand.type] for operand in one.operands)
                return self.value(f"vm.call @{one.name}({listed}) : ({types}) -> {ty}")
        raise Wrong(one.kind)

    def binary(self, one, listed):
        name, _, sign = one.name.partition("_")
        if name in ("min", "max"):
            sign = "s"
        return f"vm.{name}.{one.type}{'.' + sign if sign else ''} {listed} : {one.type}"

    def compare(self, one, listed):
        name, _, sign = one.name.partition("_")
        ty = one.operands[0].type
        if ty[0] == "f":
            suffix = ".o"
        else:
            suffix = "" if name in ("eq", "ne") else f".{sign or 's'}"
        return f"vm.cmp.{COMPARE[name]}.{ty}{suffix} {listed} : {ty}"

    def convert(self, one, operand):
        def one_op(op, source, result, operand):
            return self.value(f"vm.{op} {operand} : {source} -> {result}")

        match one.name:
            case "D":
                return one_op("cast.si64.f64", "i64", "f64", one_op("ext.i32.i64.s", "i32", "i64", operand))
            case "DI":
                return one_op("trunc.i64.i32", "i64", "i32", one_op("cast.f64.si64", "f64", "i64", operand))
        return one_op(CONVERT[one.name], one.operands[0].type, one.type, operand)


def write(functions, order):
    """The module."""
    return "\n".join(["vm.module @programs {", *(Writer(function, order).text() for function in functions), "}"]) + "\n"
