"""Whether iterations show what resources they received, by which a strategy predicts."""

from __future__ import annotations

from runtime.config.parse import Config
from runtime.errors import ConfigError
from strategies.protocol import Strategy


def check_pacing(strategy: Strategy, config: Config) -> None:
    """Refuse a strategy that predicts by received resources where devices are paced by sleeping."""
    cluster = config.cluster
    hosts = cluster.hosts or {}
    paced = {
        "cluster.device": cluster.device,
        "cluster.devices": cluster.devices,
        "cluster.hosts.device": hosts.get("device"),
        **{
            f"cluster.hosts.overrides.{number}.device": own.get("device")
            for number, own in (hosts.get("overrides") or {}).items()
        },
    }
    found = [name for name, device in paced.items() if device]
    if strategy.reads_received and found:
        raise ConfigError(
            f"{found[0]}: paces iterations by sleeping, and strategy={config.names.strategy} predicts by the processor "
            f"time that they received, in which no sleep shows; set {found[0]}=null, or predict by times (ema)"
        )
