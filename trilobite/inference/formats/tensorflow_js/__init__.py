"""TensorFlow.js models: weights by name, layers-models and graph-models as ONNX.

Enters: the path of a `model.json`, or of a manifest of weights alone. Leaves: arrays, numbers that were
quantised made whole again; or a ModelProto. Shards are read from the file's own folder alone. The operations
of a graph-model are those of TensorFlow's graphs.
"""

from trilobite.inference.formats.tensorflow_js.files import convert, weights

__all__ = ["convert", "weights"]
