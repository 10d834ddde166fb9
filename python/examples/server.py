"""Answers lines of numbers over TCP in an event loop. A client that hangs up cancels its call."""

from __future__ import annotations

import asyncio
import sys

import numpy as np

import vireo


async def answer(function: vireo.Function, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers one client."""
    while line := await reader.readline():
        x = np.zeros(8 * 64, np.float32)
        numbers = np.array(line.split(), np.float32)[: x.size]
        x[: numbers.size] = numbers
        try:
            y: vireo.Tensor = await function.start(x.reshape(8, 64), timeout=1.0)
        except vireo.DeadlineExceeded:
            writer.write(b"too late\n")
        else:
            writer.write(" ".join(map(str, y.numpy().ravel())).encode() + b"\n")
        await writer.drain()
    writer.close()


async def main(path: str, port: int) -> None:
    """Serves the function `mlp` of a model."""
    function = vireo.Session(path)["mlp"]
    server = await asyncio.start_server(lambda reader, writer: answer(function, reader, writer), "127.0.0.1", port)
    print("listening on port", server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0))
