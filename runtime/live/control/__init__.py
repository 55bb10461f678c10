"""The coordinator's process: who supervises, orders and listens to tasks."""
