"""Whether a machine that joins can take part: equal code, equal versions, equal data (pure).

Every function returns the difference in one line, or an empty text.
"""

from __future__ import annotations

from runtime.live.joining.facts import Facts
from runtime.live.joining.wire import Prepared
from runtime.live.transport.auth import AuthError, SpeaksTlsError

ALWAYS = ("stragglab", "python", "msgspec", "numpy")
"""Versions that must agree for every backend: messages, checkpoints and sums depend on them."""


def difference(theirs: Facts, ours: Facts, framework: str) -> str:
    """Return the difference of code and versions; ``framework``: the library that computes gradients."""
    if theirs.code.sha256 != ours.code.sha256:
        there, here = theirs.code.words, ours.code.words
        if there == here:  # of the same commit, one or both with other changes or new files
            there, here = (f"{code.words} (files {code.sha256[:12]})" for code in (theirs.code, ours.code))
        return f"code: {there} there, {here} here; use the same working tree on all machines"
    for name in dict.fromkeys((*ALWAYS, framework)):
        there, here = theirs.versions.get(name, "none"), ours.versions.get(name, "none")
        if there != here:
            return f"version: {name} {there} there, {here} here; install the same"
    return ""


def of_gpus(theirs: Facts, wanted: int, *, fake: bool) -> str:
    """Return the difference of the GPUs that an agent has for its workers; a ``fake`` device needs its name alone."""
    there = len(theirs.gpus)
    if theirs.shown_gpus is not None:
        there = theirs.shown_gpus if fake else min(there, theirs.shown_gpus)
    elif fake:
        return ""
    if there >= wanted:
        return ""
    return f"gpus: {there} visible there (CUDA_VISIBLE_DEVICES), launcher.gpus_per_node={wanted} here; ask for less"


def of_data(theirs: Prepared, ours: Prepared) -> str:
    """The difference between the prepared data of the two sides, as one line; empty if there is none."""
    if theirs.problem:
        return f"data: {theirs.problem}"
    if theirs.num_samples != ours.num_samples:
        return f"data: {theirs.num_samples} samples there, {ours.num_samples} here; prepare the same on all machines"
    if theirs.sha256 != ours.sha256:
        return f"data: sha256 {theirs.sha256[:12]} there, {ours.sha256[:12]} here; prepare the same on all machines"
    return ""


def of_stranger(error: OSError) -> str:
    """Return why a caller is refused that could not prove the token."""
    if isinstance(error, SpeaksTlsError):
        return "it speaks TLS; leave --tls out there, or set launcher.tls=true here"
    return "its token is another one" if isinstance(error, AuthError) else "it does not speak TLS; give it --tls"
