"""When to stop drafting: below a confidence that follows how much of the drafts is accepted."""

from dataclasses import dataclass

MATCHED_SMOOTHING = 0.5
THRESHOLD_SMOOTHING = 0.9


@dataclass
class Threshold:
    """A row's confidence threshold (arXiv 2309.08168, section 3.4; the constants are the official code's).

    Attributes:
        value: Drafting stops after a token whose confidence is below this.
        target: Share of the drafted tokens that should be accepted.
        step: By how much the goal of the threshold moves after a round.
        longest: Longest draft; a round that was cut there says nothing against the threshold.
        matched: Smoothed share of accepted tokens.
    """

    value: float
    target: float
    step: float
    longest: int
    matched: float = 0.0

    def update(self, accepted: int, drafted: int) -> None:
        """Learns from one round of `drafted` tokens, at least one."""
        self.matched = MATCHED_SMOOTHING * self.matched + (1 - MATCHED_SMOOTHING) * accepted / drafted
        goal = self.value
        if self.matched < self.target:
            goal += self.step
        elif drafted < self.longest:
            goal -= self.step
        moved = THRESHOLD_SMOOTHING * self.value + (1 - THRESHOLD_SMOOTHING) * goal
        self.value = min(max(moved, 0.0), 1.0)
