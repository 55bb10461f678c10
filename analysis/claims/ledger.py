"""The ledgers of claims: one YAML per paper, one entry per number or shape that it reports.

An entry has the paper's statement (``where``, ``value``, ``unit``), the rule by which our result is compared with it
(``check``, ``accept``) and the runs that answer it (``experiment``, ``subject``, ``against``, ``how``). The runs are
cells of an experiment: a level for each of its axes; ``against`` takes levels that it leaves out from ``subject``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml

FOLDER = Path(__file__).parent
Cell = dict[str, str]
Bounds = tuple[float | None, float | None]
Check = Literal["number", "ratio", "shape", "context"]
Scale = Literal["virtual", "emulated", "analysis"]
How = Literal["value", "lower", "faster", "longer", "times", "excess", "order"]


class LedgerError(ValueError):
    """A ledger that cannot be used: the entry and its error."""


class Claim(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One number or shape that a paper reports."""

    id: str
    where: str
    """Section, figure or table."""
    says: str = ""
    """The claim in words, where subject and value do not express it."""
    check: Check
    """``number``: within 15 %; ``ratio``: beyond no effect, and within a third of the paper's effect; ``shape``: as
    described; ``context``: not judged. :mod:`analysis.claims.judge` has the exact rules."""
    scale: Scale = "virtual"
    """``virtual``: the paper's size on the virtual clock; ``emulated``: real processes; ``analysis``: no strategy."""
    value: float | None = None
    """The paper's value, in ``unit``."""
    printed: float | None = None
    """The printed number, if the paper's other numbers imply another ``value``."""
    std: float | None = None
    """The paper's standard deviation, in ``unit``."""
    unit: str = ""
    """``s``, ``min``, ``%``, ``x`` (a ratio) or empty (a plain number)."""
    accept: Bounds | None = None
    """Range, in ``unit``, that counts as reproduced, instead of the tolerance of ``check``; null: open. The ends are
    excluded, unless they are equal. Of a ratio it is the size if ``value`` is one of its ends ("more than 2 times")."""
    magnitude: Bounds | None = None
    """The range that the paper reports, if ``accept`` is open at one end; null: the paper reports ``value``."""
    calibrated: str = ""
    """The parameter that was fitted to, or chosen by, this claim. Such an answer confirms nothing."""
    construction: str = ""
    """Why no system here could miss this claim. It is not judged."""
    departure: str = ""
    """A difference of these runs from the paper by which meeting the claim confirms nothing: it is context then."""
    controls: tuple[Cell, ...] = ()
    """Systems without the part that the claim is about. If each of them meets it in the place of the subject, any
    system would, and it is not judged."""
    group: str = ""
    """Claims of one group are one observation: they repeat a number, or follow from one fitted degree of freedom."""
    arithmetic: bool = False
    """Whether the answer only evaluates a definition and measures nothing."""
    experiment: str | None = None
    """The experiment that answers it; empty if nothing here can."""
    of: str = "jct_s"
    """The measure (column) that is compared."""
    how: How = "value"
    """``value``: the measure itself. With T_s of the subject, T_b of ``against``, ``lower``: 1 - T_s/T_b, ``faster``:
    T_b/T_s - 1, ``longer``: T_s/T_b - 1, ``times``: T_b/T_s, ``excess``: T_s - T_b. ``order``: the subject, then
    ``against``, in increasing order."""
    subject: Cell = {}
    against: tuple[Cell, ...] = ()
    """If there are several, the least favourable counts, or with ``best`` the most favourable."""
    over: str | None = None
    """An axis that the cells do not name: each of its levels is a case."""
    best: bool = False
    shape: str | None = None
    """A function of :mod:`analysis.claims.shapes` that inspects the whole experiment."""
    note: str = ""


@cache
def load_ledger(paper: str, folder: Path = FOLDER) -> Mapping[str, Claim]:
    """The claims of ``paper`` by id, in the order of the file.

    Raises:
        LedgerError: unknown ledger, or a malformed entry.
    """
    path = folder / f"{paper}.yaml"
    try:
        entries = yaml.safe_load(path.read_bytes())
    except FileNotFoundError:
        known = ", ".join(sorted(each.stem for each in folder.glob("*.yaml")))
        raise LedgerError(f"{paper}: no ledger of that name; there are {known}") from None
    return {name: _read(str(name), entry, path) for name, entry in entries.items()}


def _read(name: str, entry: dict[str, Any], path: Path) -> Claim:
    against = entry.get("against", [])
    entry = {**entry, "id": name, "against": [against] if isinstance(against, dict) else against}
    try:
        claim = msgspec.convert(entry, Claim)
    except msgspec.ValidationError as error:
        raise LedgerError(f"{path}: {name}: {error}") from None
    if problem := _problem(claim):
        raise LedgerError(f"{path}: {name}: {problem}")
    return claim


def _problem(claim: Claim) -> str | None:
    """Problems of an entry that its types do not express."""
    if claim.experiment is None:
        return None
    if claim.how != "value" and not claim.against:
        return f"how={claim.how}: needs something to compare with; add against"
    if claim.shape is None and claim.how != "order" and claim.value is None and claim.accept is None:
        return "value and accept are both null: there is nothing to compare with"
    for name in ("accept", "magnitude"):
        ends = getattr(claim, name)
        if ends is not None and None not in ends and ends[0] > ends[1]:
            return f"{name}={list(ends)}: the lower end comes first"
    if claim.magnitude is not None and (claim.accept is None or None not in claim.accept):
        return "magnitude: belongs to accept with an open end"
    if sum(map(bool, (claim.calibrated, claim.arithmetic, claim.construction, claim.departure, claim.controls))) > 1:
        return "calibrated, arithmetic, construction, departure, controls: only one of them may be set"
    if claim.controls and (claim.shape is not None or not claim.subject or claim.how == "order"):
        return "controls: take the place of a subject that is compared by itself or with others"
    return None


def claims_of_experiment(ledger: Mapping[str, Claim], experiment: str) -> list[Claim]:
    """The claims that ``experiment`` answers, in the order of the ledger."""
    return [claim for claim in ledger.values() if claim.experiment == experiment]
