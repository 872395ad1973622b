"""A method under check: builds it for a tiny target, decodes with it, and watches what it proposes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from specatlas.catalog.card import Losslessness
from specatlas.catalog.discovery import Catalog, Method
from specatlas.drafting.methods import prepare, untrained_artifacts
from specatlas.drafting.setup import Artifact
from specatlas.engine.decoding import Decoder, Generation
from specatlas.engine.draft import Draft
from specatlas.engine.drafter import Context, Drafter, Step
from specatlas.engine.sampling import SamplingSettings
from specatlas.engine.stopping import StopConditions
from specatlas.engine.transformer import Transformer
from specatlas.engine.verification import VerificationRule
from specatlas.measure.conformance.models import ANSWER, Case

GREEDY, SAMPLED = SamplingSettings(), SamplingSettings(temperature=1.0)
Values = Mapping[str, int | float | bool | str]


class Watched(Drafter):
    """A drafter between the harness and the method's own: passes everything on and remembers every draft.

    Attributes:
        proposed: (answer lengths before the step, draft) of every step of every generation.
    """

    def __init__(self, inner: Drafter) -> None:
        super().__init__()
        self.inner = inner
        self.taps = inner.taps
        self.proposed: list[tuple[list[int], Draft]] = []
        self.before_proposing: Callable[[], None] = lambda: None

    @property
    def batched(self) -> bool:  # type: ignore[override]
        """The method's own."""
        return self.inner.batched

    def begin(self, context: Context) -> None:
        """Passed on."""
        self.inner.begin(context)

    def budgets(self, context: Context) -> Sequence[int]:
        """Passed on."""
        return self.inner.budgets(context)

    def propose(self, context: Context) -> Draft:
        """Passed on; the draft is remembered as it was proposed."""
        self.before_proposing()
        draft = self.inner.propose(context)
        self.proposed.append((context.answer_lengths, draft))
        return draft

    def observe(self, context: Context, step: Step) -> None:
        """Passed on."""
        self.inner.observe(context, step)


@dataclass
class Subject:
    """A method, its catalog, and artifacts with random weights made once a target."""

    method: Method
    catalog: Catalog
    _artifacts: list[tuple[Transformer, dict[str, Artifact]]] = field(default_factory=list)

    @property
    def samples(self) -> bool:
        """Whether the card offers temperatures above 0."""
        return self.method.card.lossless.sampling is not Losslessness.UNSUPPORTED

    @property
    def exact(self) -> bool:
        """Whether the card claims plain decoding's own tokens at temperature 0."""
        return self.method.card.lossless.greedy is not Losslessness.LOSSY

    def artifacts(self, target: Transformer) -> dict[str, Artifact]:
        """What the card needs, with random weights."""
        for known, artifacts in self._artifacts:
            if known is target:
                return artifacts
        made = untrained_artifacts(self.catalog, self.method, target, 1)
        self._artifacts.append((target, made))
        return made

    def build(
        self, case: Case, settings: SamplingSettings = GREEDY, overrides: Values | None = None
    ) -> tuple[Drafter, VerificationRule]:
        """The method for the case's target."""
        drafter, rule, _ = prepare(
            self.method,
            case.target,
            settings,
            artifacts=self.artifacts(case.target),
            overrides=dict(overrides or {}),
            answers=case.answers if self.method.card.needs.answers else None,
        )
        return drafter, rule

    def runner(self, case: Case, settings: SamplingSettings = GREEDY, overrides: Values | None = None) -> "Runner":
        """The method, ready to decode for the case's target."""
        drafter, rule = self.build(case, settings, overrides)
        return Runner.of(case.target, drafter, rule, settings, batch=self.method.card.batch)

    def variants(self) -> Iterator[dict[str, int | float | bool | str]]:
        """The defaults, then each hyper-parameter at its extremes while the others keep their defaults.

        A combination that the method refuses by type is the caller's to skip.
        """
        yield {}
        for name, parameter in self.method.card.hyperparameters.items():
            for value in self.range_of(name):
                if value != parameter.default:
                    yield {name: value}

    def corners(self) -> list[dict[str, int | float | bool | str]]:
        """Three settings of all hyper-parameters: the defaults, all smallest, all largest."""
        names = list(self.method.card.hyperparameters)
        return [{}, {name: self.range_of(name)[0] for name in names}, {name: self.range_of(name)[-1] for name in names}]

    def range_of(self, name: str) -> list[int | float | bool | str]:
        """Values of one hyper-parameter to run: the smallest and the largest, or all choices."""
        parameter = self.method.card.hyperparameters[name]
        if isinstance(parameter.default, bool):
            return [False, True]
        if parameter.choices is not None:
            return list(parameter.choices)
        low = parameter.minimum if parameter.smallest is None else parameter.smallest
        high = parameter.maximum if parameter.largest is None else parameter.largest
        kind = type(parameter.default)
        return [parameter.default if bound is None else kind(bound) for bound in (low, high)]


@dataclass
class Runner:
    """One built method. Decoding again with it shows what it keeps.

    Attributes:
        watched: The drafter, and what it proposed.
        decoder: With the contract's checks on.
        batch: Whether it takes several prompts at once.
    """

    watched: Watched
    decoder: Decoder
    batch: bool

    @classmethod
    def of(
        cls, target: Transformer, drafter: Drafter, rule: VerificationRule, settings: SamplingSettings, *, batch: bool
    ) -> "Runner":
        """Around a drafter that is built already."""
        watched = Watched(drafter)
        return cls(watched, Decoder(target, watched, rule, settings, check=True), batch)

    def decode(
        self,
        prompts: Sequence[Sequence[int]],
        limit: int = ANSWER,
        *,
        stop: StopConditions | None = None,
        seeds: Sequence[int] | None = None,
        together: bool | None = None,
    ) -> list[Generation]:
        """Answers in the prompts' order; in one batch where the card allows it, unless `together` says otherwise."""
        stop = stop or StopConditions(limit)
        seeds = list(seeds or range(len(prompts)))
        if self.batch if together is None else together:
            return self.decoder.generate(prompts, stop, seeds).generations
        pairs = zip(prompts, seeds, strict=True)
        return [self.decoder.generate([prompt], stop, [seed]).generations[0] for prompt, seed in pairs]
