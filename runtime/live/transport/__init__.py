"""Connections: addresses, authentication, frames, messages, and loops over them."""
