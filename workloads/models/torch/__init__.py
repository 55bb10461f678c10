"""The models in PyTorch. Imported by a task only when it is asked for its module."""
