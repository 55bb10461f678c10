"""The models in TensorFlow (Keras)."""
