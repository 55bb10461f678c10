"""Backends compute gradients on flat float32 vectors; the only place where tensors live."""
