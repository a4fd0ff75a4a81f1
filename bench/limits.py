"""Bounds that a benchmark holds its figures against."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limit:
    """A bound for Mnema. `at_least`: the value must reach it; else it must not pass it."""

    text: str
    value: float
    bound: float
    at_least: bool = True

    @property
    def kept(self) -> bool:
        """True if the value is within the bound."""
        return self.value >= self.bound if self.at_least else self.value <= self.bound

    @property
    def line(self) -> str:
        """The limit as a line of a report."""
        sign = "≥" if self.at_least else "≤"
        return f"{'pass' if self.kept else 'FAIL'}  {self.text}: {self.value:.3f} ({sign} {self.bound})"
