"""The models in PyTorch. A task imports this only when it builds its module."""
