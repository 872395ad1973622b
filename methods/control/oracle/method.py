"""Replays plain decoding's answer as the draft."""

from specatlas.drafting.setup import Setup
from specatlas.engine.draft import Draft
from specatlas.engine.drafter import Context, Drafter


class Oracle(Drafter):
    """Knows the answers by prompt; a prompt that it does not know gets an empty draft."""

    def __init__(self, answers: dict[tuple[int, ...], list[int]], length: int) -> None:
        super().__init__()
        self._answers, self._length = answers, length

    def start(self, context: Context) -> None:
        """Looks the prompts up."""
        prompts = [tuple(row[:length]) for row, length in zip(context.tokens, context.prompt_lengths, strict=True)]
        self._rows = [self._answers.get(prompt, []) for prompt in prompts]

    def propose(self, context: Context) -> Draft:
        """The next tokens of each answer."""
        done = context.answer_lengths
        return Draft.chains(
            [answer[start : start + self._length] for answer, start in zip(self._rows, done, strict=True)],
            context.device,
        )


def build(setup: Setup) -> Drafter:
    """An oracle over the answers that the harness gives to controls."""
    return Oracle(dict(setup.answers), setup.hyperparameters["draft_length"])
