"""Devices with memory of their own, on which a torch model may compute: the interface, CUDA's, and one for tests."""
