"""Models in Ray, and in other engines that map a function over batches: Dask, Spark.

    predictor = vireo.ray.Predictor("model.vmfb", "mlp", columns="features", output="scores")
    dataset.map_batches(predictor, batch_size=4096)

`Predictor` is a callable that travels to other processes and needs no Ray; `deployment` makes a deployment of Ray Serve.
No scheduler is here. `docs/scale.md` in the repository is the guide.
"""

from ._predictor import Predictor
from ._serve import deployment
from ._source import load_count

__all__ = ["Predictor", "deployment", "load_count"]
