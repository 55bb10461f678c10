"""What records of Zeno++ are held to: nothing is applied whose score is negative (the rule, written down again)."""

from __future__ import annotations

from math import sqrt
from typing import Any

from strategies.zeno_pp import ZenoPP


def score_of(scored: dict[str, Any], strategy: ZenoPP, gamma: float) -> float:
    """gamma (c <r, g> + eps) - rho Q; NaN for what has no direction."""
    dot, sqr_g, sqr_r = scored["dot"], scored["sqr_grad"], scored["sqr_ref"]
    if sqr_g <= 0 or sqr_r <= 0:
        return float("nan")
    c = sqrt(sqr_r / sqr_g) if strategy.rescale else 1.0
    penalised = c * c * sqr_g if strategy.rho_on == "applied" else sqr_g
    slack = float("inf") if strategy.eps is None else strategy.eps
    return gamma * c * dot + gamma * slack - strategy.rho * penalised


def badly_accepted(lines: list[dict[str, Any]], strategy: ZenoPP, lr: float) -> list[str]:
    """Gradients that were applied after the warm-up without a score of 0 or more."""
    gamma = lr if strategy.gamma is None else strategy.gamma
    scores: dict[int, float] = {}
    wrong, version = [], 0
    for line in (line for line in lines if line["kind"] == "event"):
        event = line["event"]
        if event["type"] == "Scored":
            scores[event["grad"]["id"]] = score_of(event, strategy, gamma)
        elif event["type"] == "Restored":
            version = event["version"]
        for command in line["commands"]:
            if command["type"] == "Apply":
                (grad,) = command["grads"]
                if version >= strategy.warmup_updates and not scores.get(grad, -1.0) >= -1e-12:
                    wrong.append(f"gradient {grad} was applied with a score of {scores.get(grad)}")
                version += 1
    return wrong
