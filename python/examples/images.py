"""Classifies batches with a model that threads share: each has a session of its own."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from threading import local

import numpy as np
import numpy.typing as npt

import vireo

Batch = npt.NDArray[np.float32]


class Classifier:
    """The function `mlp` of a model, for any number of threads."""

    def __init__(self, path: str) -> None:
        self.model = vireo.Model(path, device="local-sync")
        self.threads = local()

    def __call__(self, batch: Batch) -> npt.NDArray[np.int64]:
        session: vireo.Session | None = getattr(self.threads, "session", None)
        if session is None:
            session = self.threads.session = self.model.session()
        scores = np.asarray(session["mlp"](batch))
        classes: npt.NDArray[np.int64] = scores.argmax(axis=1)
        return classes


def main(path: str) -> None:
    """Prints the classes of some batches."""
    classify = Classifier(path)
    batches = [np.full((8, 64), number, np.float32) for number in range(16)]
    with ThreadPoolExecutor(2) as pool:
        for classes in pool.map(classify, batches):
            print(*classes)


if __name__ == "__main__":
    main(sys.argv[1])
