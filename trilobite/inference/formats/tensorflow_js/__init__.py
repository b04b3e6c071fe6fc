"""TensorFlow.js models: weights by name, and layers-models as ONNX.

Enters: the path of a `model.json`, or of a manifest of weights alone. Leaves: arrays, numbers that were
quantised made float32 again; or a ModelProto. Shards are read from the file's own folder alone. The
operations of a graph-model are not read: its weights are.
"""

from trilobite.inference.formats.tensorflow_js.files import convert, weights

__all__ = ["convert", "weights"]
