"""`python -m vireo bind model.vmfb -o mlp.py`: a class for a model, with a typed method for each function."""

from __future__ import annotations

import argparse
import keyword
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from . import _vireo

if TYPE_CHECKING:
    from ._vireo import Signature, Value

HEADER = '''"""The functions of the module `{name}`, of {file}. Written by `python -m vireo bind`; do not edit."""

from __future__ import annotations

from os import PathLike
from typing import Any

import vireo


class {class_name}:
    """A session of the module `{name}`."""

    def __init__(self, source: str | PathLike[str] | bytes | vireo.Model = {file!r}, **options: Any) -> None:
        self.session = vireo.Session(source, **options)
'''


def identifier(name: str, taken: set[str], fallback: str) -> str:
    """A name of Python for a name of a program."""
    plain = "".join(letter if letter.isalnum() or letter == "_" else "_" for letter in name) or fallback
    if not plain.isidentifier() or keyword.iskeyword(plain):
        plain = f"{plain}_" if plain.isidentifier() else f"_{plain}"
    unique, number = plain, 2
    while unique in taken:
        unique, number = f"{plain}_{number}", number + 1
    taken.add(unique)
    return unique


def argument_type(value: Value) -> str:
    """What callers may pass: tensors are arrays of any library."""
    return {"i32": "int", "i64": "int", "index": "int", "f32": "float", "f64": "float"}.get(value.type, "Any")


def result_type(value: Value) -> str:
    """What a call returns for a result."""
    if value.shape is not None:
        return "vireo.Tensor"
    return {"int": "int", "float": "float"}.get(argument_type(value), "Any")


def method(signature: Signature, taken: set[str]) -> str:
    """A method that calls a function."""
    names: set[str] = {"self"}
    arguments = [
        (identifier(value.name, names, f"argument{index}"), value) for index, value in enumerate(signature.arguments)
    ]
    results = [result_type(value) for value in signature.results]
    returned = "None" if not results else results[0] if len(results) == 1 else f"tuple[{', '.join(results)}]"
    parameters = "".join(f", {name}: {argument_type(value)}" for name, value in arguments)
    passed = ", ".join(name for name, _ in arguments)
    text = str(signature).replace("\\", "\\\\").replace('"""', "'''")
    call = f"self.session[{signature.name!r}]({passed})"
    body = f"        {call}\n" if not results else f"        result: {returned} = {call}\n        return result\n"
    name = identifier(signature.name, taken, "function")
    return f'\n    def {name}(self{parameters}) -> {returned}:\n        """{text}"""\n{body}'


def module(path: Path) -> str:
    """The text of a Python module for the model file."""
    model = _vireo.Model(path, device="null")
    parts = [part.capitalize() for part in model.name.split("_") if part]
    header = HEADER.format(name=model.name, file=str(path), class_name=identifier("".join(parts), set(), "Module"))
    taken = {"session"}
    return header + "".join(method(signature, taken) for signature in model.signatures.values())


def main(arguments: list[str]) -> int:
    """Does what the arguments say."""
    parser = argparse.ArgumentParser("python -m vireo bind", description=__doc__)
    parser.add_argument("model", type=Path, help="the module file")
    parser.add_argument("-o", "--output", type=Path, help="the Python file to write; the standard output without it")
    options = parser.parse_args(arguments)
    try:
        text = module(options.model)
    except _vireo.Error as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    if options.output is None:
        print(text, end="")
    else:
        options.output.write_text(text)
    return 0
