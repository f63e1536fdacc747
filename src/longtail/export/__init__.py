"""Models in the forms that other programs read: arrays, sentence-transformers, ONNX. One file a form."""
