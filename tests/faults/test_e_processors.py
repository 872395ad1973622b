"""Section E: logits processors, grammar, logprobs. There are three processors, and everything else is refused."""

import dataclasses
import inspect

import pytest
from pydantic import ValidationError

from specatlas.config import Settings
from specatlas.engine import sampling
from specatlas.engine.sampling import SamplingSettings

UNSUPPORTED = (
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "min_new_tokens",
    "min_length",
    "no_repeat_ngram_size",
    "logit_bias",
    "min_p",
    "typical_p",
    "grammar",
    "logprobs",
)


@pytest.mark.fault("E03", "E04", "E05", "E06", "B16")
@pytest.mark.parametrize("option", UNSUPPORTED)
def test_options_that_are_not_honoured_are_refused(option):
    """Not dropped without trace: neither by the configuration nor by the engine."""
    with pytest.raises(ValidationError, match=option):
        Settings.model_validate({option: 1})
    with pytest.raises(TypeError, match=option):
        SamplingSettings(**{option: 1})


@pytest.mark.fault("E01", "E03", "B16")
def test_processors_are_functions_of_the_logits_alone():
    """No prefix, no state: nothing that candidate tokens could enter. A new option has to answer to these faults."""
    assert {one.name for one in dataclasses.fields(SamplingSettings)} == {"temperature", "top_k", "top_p"}
    assert list(inspect.signature(sampling.probabilities).parameters) == ["logits", "settings"]
