"""The papers' models: sizes and architectures as plain data, which every framework builds from.

Nothing here imports a framework; ``workloads/models/torch/`` does, when it is asked to build.
"""
