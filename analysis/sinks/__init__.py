"""Runs for other people's tools: TensorBoard, MLflow, and log lines in the manner of MLPerf."""
