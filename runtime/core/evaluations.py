"""Evaluations of the parameters: one at a time, and the end of the job by their metrics (pure)."""

from __future__ import annotations

from runtime.core.course import Course
from runtime.core.job import Job, Port


class HeldTarget:
    """Whether ``target_evals`` evaluations in a row have reached the job's target, and since when."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.reached_s: float | None = None
        """The time of the first of them."""
        self._hits, self._since_s = 0, 0.0

    def take(self, asked_s: float, value: float) -> None:
        """The metric of the parameters of a time."""
        self._hits = self._hits + 1 if self.job.reached(value) else 0
        if self._hits == 1:
            self._since_s = asked_s
        if self.reached_s is None and self._hits >= self.job.target_evals:
            self.reached_s = self._since_s


class Evaluations:
    """``under_way`` while a requested evaluation has not been answered."""

    def __init__(self, job: Job, port: Port, course: Course) -> None:
        self.job, self.port, self.course = job, port, course
        self.under_way = False
        self._target = HeldTarget(job)
        self._values: list[float] = []
        self._history: list[tuple[float, float]] = []

    def ask(self, version: int) -> None:
        """Evaluate the current parameters, unless an evaluation is in progress or all tasks roll back."""
        if not self.under_way and not self.course.halted:
            self.under_way = True
            self.port.evaluate(version, last=False)

    def judge(self, t: float, metrics: dict[str, float]) -> None:
        """End the job if these metrics meet its target, have converged, or lack the one that it is judged by."""
        job, value = self.job, metrics.get(self.job.metric)
        if value is None:
            if metrics and (job.target is not None or job.convergence is not None):
                measured = ", ".join(sorted(metrics))
                self.course.finish(t, "failed", f"workload.metric={job.metric}: is not measured; {measured} are")
            return
        self._history.append((t, value))
        self._target.take(t, value)
        if job.stop_at_target and self._target.reached_s is not None:
            self.course.finish(t, "done", f"target {job.metric} reached")
        if job.stop_at_convergence and job.convergence is not None:
            self._values.append(value)
            if job.convergence.reached(self._values):
                self.course.finish(t, "done", f"{job.metric} has converged")

    def gained(self, t: float, window_s: float) -> float | None:
        """Return the metric's improvement during the last ``window_s`` seconds; None with too few evaluations."""
        if len(self._history) < 2:
            return None
        older = [value for at_s, value in self._history if at_s <= t - window_s] or [self._history[0][1]]
        change = self._history[-1][1] - older[-1]
        return change if self.job.higher_is_better else -change
