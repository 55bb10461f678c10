"""The papers' models: sizes and architectures as plain data, from which every framework builds.

Nothing here imports a framework; ``workloads/models/torch/`` does, when it builds a model.
"""
