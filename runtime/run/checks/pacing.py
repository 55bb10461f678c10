"""Whether iterations show what resources they received, by which a strategy predicts."""

from __future__ import annotations

from runtime.cluster.hosts import parse_hosts
from runtime.config.parse import Config
from runtime.errors import ConfigError
from strategies.protocol import NodeId, Strategy

PLACING = ("Launch", "Restart")
"""Commands by which a worker comes to a host that had none."""


def check_pacing(strategy: Strategy, config: Config) -> None:
    """Refuse a strategy that predicts by received resources where devices are paced by sleeping."""
    if not strategy.reads_received:
        return
    cluster = config.cluster
    hosts = cluster.hosts or {}
    paced = {
        "cluster.device": cluster.device,
        "cluster.devices": cluster.devices,
        "cluster.hosts.device": hosts.get("device"),
        **{
            f"cluster.hosts.overrides.{number}.device": own.get("device")
            for number, own in (hosts.get("overrides") or {}).items()
            if own.get("device") and _may_compute(int(number), strategy, config)
        },
    }
    found = [name for name, device in paced.items() if device]
    if found:
        raise ConfigError(
            f"{found[0]}: paces iterations by sleeping, and strategy={config.names.strategy} predicts by the processor "
            f"time that they received, in which no sleep shows; set {found[0]}=null, or predict by times (ema)"
        )


def _may_compute(number: int, strategy: Strategy, config: Config) -> bool:
    """Whether the host may hold a worker: from the start, where a strategy puts it, or in a set, for its GPUs."""
    assert config.cluster.hosts is not None
    if any(command.__name__ in PLACING for command in strategy.needs):
        return True
    hosts = parse_hosts(config.cluster.hosts, config.num_workers, config.topology.num_servers + strategy.replicas)
    if number >= len(hosts.hosts):
        return False
    host = hosts.hosts[number]
    return bool(host.gpus) or any(NodeId.parse(task).role == "worker" for task in host.tasks)
