"""The transformer against `transformers`, family by family, in fp32 on tiny random checkpoints."""

import json
from copy import deepcopy

import pytest
import torch

from specatlas.engine.architecture import parse_architecture, read_architecture
from specatlas.engine.decoding import Decoder
from specatlas.engine.drafter import PlainDrafter
from specatlas.engine.loading import load_transformer
from specatlas.engine.sampling import SamplingSettings
from specatlas.engine.stopping import StopConditions
from specatlas.engine.transformer import NORMED, LayerPlan, pad_rows
from specatlas.engine.verification import make_rule
from specatlas.errors import ModelSourceError, UnsupportedArchitecture
from specatlas.models.tiny import make_tiny_checkpoint
from tests.support.models import tiny_transformer

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
CHECKPOINTS = {
    "llama": ("llama", {}),
    "smollm2, tied": ("smollm2", {}),
    "qwen2": ("qwen2", {}),
    "qwen3": ("qwen3", {}),
    "mistral": ("mistral", {}),
    "llama3 rope": ("llama", {"rope_parameters": LLAMA3}),
    "linear rope": ("llama", {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}}),
    "theta": ("llama", {"rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}}),
    "attention bias": ("llama", {"attention_bias": True}),
}
PROMPTS = [[5], [1, 2, 3, 4, 5, 6, 7], list(range(40)), [9, 8, 7] * 4]


@pytest.fixture(scope="module", params=CHECKPOINTS)
def folder(request, tmp_path_factory):
    family, changes = CHECKPOINTS[request.param]
    folder = make_tiny_checkpoint(
        tmp_path_factory.mktemp("model"), family, vocabulary=97, layers=3, hidden=32, eos=None
    )
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))
    if "attention_bias" in changes:
        add_biases(folder, config)
    return folder


def add_biases(folder, config):
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    generator = torch.Generator().manual_seed(1)
    for layer in range(config["num_hidden_layers"]):
        for part in "qkvo":
            name = f"model.layers.{layer}.self_attn.{part}_proj"
            tensors[f"{name}.bias"] = torch.randn(len(tensors[f"{name}.weight"]), generator=generator)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.fixture(scope="module")
def theirs(folder):
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


@pytest.fixture(scope="module", params=[True, False], ids=["packed", "unpacked"])
def ours(folder, request):
    return load_transformer(folder, dtype=torch.float32, packed=request.param)


@torch.inference_mode()
def logits_of(theirs, prompt):
    return theirs(torch.tensor([prompt]), output_hidden_states=True)


@torch.inference_mode()
def test_logits_and_hidden_states(ours, theirs):
    """One row at a time: logits at every position, and the residual stream after every layer."""
    for prompt in PROMPTS:
        expected = logits_of(theirs, prompt)
        taps = (0, 1, 2, 3, NORMED)
        done = ours(torch.tensor([prompt]), ours.new_cache(1, 64), taps=taps)
        torch.testing.assert_close(ours.logits(done.hidden), expected.logits, atol=2e-4, rtol=1e-4)
        for tap, state in zip((0, 1, 2, NORMED), expected.hidden_states, strict=True):
            torch.testing.assert_close(done.taps[tap], state, atol=2e-4, rtol=1e-4)
        torch.testing.assert_close(done.taps[3], done.hidden)


@torch.inference_mode()
def test_ragged_batch_in_two_passes(ours, theirs):
    """Rows of different lengths, the second pass written after each row's own end."""
    cache = ours.new_cache(len(PROMPTS), 64)
    halves = [max(1, len(prompt) // 2) for prompt in PROMPTS]
    ours(pad_rows([prompt[:half] for prompt, half in zip(PROMPTS, halves, strict=True)], ours.device), cache)
    cache.advance(halves)
    rests = [prompt[half:] or [1] for prompt, half in zip(PROMPTS, halves, strict=True)]
    logits = ours.logits(ours(pad_rows(rests, ours.device), cache).hidden)
    for row, (prompt, half, rest) in enumerate(zip(PROMPTS, halves, rests, strict=True)):
        expected = logits_of(theirs, [*prompt[:half], *rest]).logits[0, half:]
        torch.testing.assert_close(logits[row, : len(rest)], expected, atol=2e-4, rtol=1e-4)


@pytest.fixture(scope="module")
def answers(theirs):
    """Of `generate`. The mask is given, since it would take every id 0 of a prompt for padding."""
    found = []
    for prompt in PROMPTS:
        tokens = torch.tensor([prompt])
        options = {"attention_mask": torch.ones_like(tokens), "eos_token_id": None, "pad_token_id": 0}
        with torch.inference_mode():
            found.append(
                theirs.generate(tokens, do_sample=False, max_new_tokens=16, **options)[0, len(prompt) :].tolist()
            )
    return found


def test_greedy_answers_are_those_of_generate(ours, answers):
    decoder = Decoder(ours, PlainDrafter(), make_rule("greedy"), SamplingSettings())
    generations = decoder.generate(PROMPTS, StopConditions(16), [0] * len(PROMPTS)).generations
    assert [generation.ids for generation in generations] == answers


def test_causal_pass_for_training_agrees(folder, theirs):
    model = load_transformer(folder, dtype=torch.float32, packed=False)
    expected = logits_of(theirs, PROMPTS[2])
    done = model.forward_causal(torch.tensor(PROMPTS[2:3]), taps=(1, NORMED))
    torch.testing.assert_close(model.logits(done.hidden), expected.logits, atol=2e-4, rtol=1e-4)
    torch.testing.assert_close(done.taps[1], expected.hidden_states[1], atol=2e-4, rtol=1e-4)
    model.logits(done.hidden).sum().backward()
    assert all(parameter.grad is not None for name, parameter in model.named_parameters() if "layers" in name)


def test_parameter_count(ours, theirs):
    assert ours.parameter_count == sum(parameter.numel() for parameter in theirs.parameters())


# Parts of the model, on one made in memory.


@pytest.fixture(scope="module")
def tiny():
    return tiny_transformer(61, layers=4, seed=3)


TOKENS = torch.tensor([[5, 1, 2, 3, 9, 8, 7, 9]])


@torch.inference_mode()
def run(model, tokens=TOKENS, cache=None, **options):
    return model(tokens, cache if cache is not None else model.new_cache(1, 32), **options)


@torch.inference_mode()
@pytest.mark.parametrize("middle", [0, 1, 2, 4])
def test_layer_ranges_compose(tiny, middle):
    cache = tiny.new_cache(1, 32)
    span = tiny.span(cache, TOKENS.shape[1])
    first = tiny.run(tiny.embed(TOKENS), span, LayerPlan(stop=middle)).hidden
    second = tiny.run(first, span, LayerPlan(start=middle)).hidden
    assert torch.equal(second, run(tiny).hidden)


@torch.inference_mode()
def test_skipping_everything_passes_the_embeddings_on(tiny):
    every = frozenset(range(4))
    plan = LayerPlan(skipped_attention=every, skipped_feed_forward=every)
    assert torch.equal(run(tiny, plan=plan).hidden, tiny.embed(TOKENS))


@torch.inference_mode()
def test_a_skipped_sublayer_is_left_out_and_others_run(tiny):
    """The same as a sublayer whose last projection is zero."""
    plan = LayerPlan(skipped_attention=frozenset({1}), skipped_feed_forward=frozenset({2}))
    silenced = deepcopy(tiny)
    silenced.layers[1].output.weight.zero_()
    silenced.layers[2].down.weight.zero_()
    expected = run(silenced).hidden
    assert torch.equal(run(tiny, plan=plan).hidden, expected)
    assert not torch.allclose(run(tiny).hidden, expected)


@torch.inference_mode()
def test_view_is_attention_restricted_to_its_slots(tiny):
    """Sink and window: the same as the whole cache with the slots in between masked."""
    cache = tiny.new_cache(2, 32)
    rows = torch.tensor([[5, 1, 2, 3, 9, 8, 7, 9], [3, 3, 1, 60, 2, 0, 4, 4]])
    run(tiny, rows, cache)
    cache.advance([8, 8])
    slots = [[0, 1, 6, 7], [0, 3, 4, 7]]
    view = cache.view(slots, room=4)
    new = torch.tensor([[6], [11]])
    got = run(tiny, new, view, positions=torch.tensor([[8], [8]])).hidden
    mask = torch.zeros(2, 1, 9, dtype=torch.bool)
    mask[:, :, 8] = True
    for row, chosen in enumerate(slots):
        mask[row, 0, chosen] = True
    # A mask of nine columns covers all slots: the cache is rewound so that they count as scratch.
    whole = cache.branch()
    whole.rewind([0, 0])
    whole.advance([8, 8])
    expected = run(tiny, new, whole, mask=mask).hidden
    torch.testing.assert_close(got, expected, atol=1e-4, rtol=1e-4)
    assert cache.lengths == [8, 8]


@torch.inference_mode()
def test_mask_over_scratch_of_earlier_passes(tiny):
    """More columns than width: a tree level that sees only its ancestors among the scratch written before."""
    for lengths in ([3, 3], [3, 1]):
        cache = tiny.new_cache(2, 32)
        prompts = [[5, 1, 2][:length] for length in lengths]
        run(tiny, pad_rows(prompts, tiny.device), cache)
        cache.advance(lengths)
        branch = cache.branch()
        starts = torch.tensor(lengths)[:, None]
        run(tiny, torch.tensor([[7, 8, 9]] * 2), branch, positions=starts.expand(-1, 3),
            mask=torch.eye(3, dtype=torch.bool)[None])  # fmt: skip
        branch.advance([3, 3])
        mask = torch.tensor([[[False, True, False, True, False], [True, False, False, False, True]]])
        children = torch.tensor([[4, 6]] * 2)
        got = run(tiny, children, branch, positions=(starts + 1).expand(-1, 2), mask=mask).hidden
        for row, prompt in enumerate(prompts):
            for place, path in enumerate(([8, 4], [7, 6])):
                expected = run(tiny, torch.tensor([[*prompt, *path]])).hidden[0, -1]
                torch.testing.assert_close(got[row, place], expected, atol=1e-4, rtol=1e-4)


# What is refused.


@pytest.fixture
def config(tmp_path):
    return json.loads((make_tiny_checkpoint(tmp_path, vocabulary=97, hidden=32) / "config.json").read_text())


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"model_type": "gpt2"}, "gpt2"),
        ({"model_type": "gemma2"}, "gemma2"),
        ({"model_type": "mixtral"}, "mixtral"),
        ({"model_type": "mamba2"}, "mamba2"),
        ({"model_type": "lfm2"}, "lfm2"),
        ({"model_type": "qwen3_next"}, "qwen3_next"),
        ({"model_type": "qwen2_vl"}, "qwen2_vl"),
        ({"quantization_config": {"quant_method": "gptq"}}, "quantization_config"),
        ({"mlp_bias": True}, "mlp_bias"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}, "yarn"),
        ({"rope_parameters": None, "rope_scaling": {"type": "dynamic", "factor": 2.0}}, "dynamic"),
        ({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}, "partial_rotary_factor"),
        ({"pretraining_tp": 2}, "pretraining_tp"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_unsupported_features_are_refused_by_name(config, changes, named):
    with pytest.raises(UnsupportedArchitecture, match=named):
        parse_architecture(config | changes, "somewhere/config.json")


def test_a_sliding_window_caps_the_context(config):
    mistral = config | {"model_type": "mistral", "sliding_window": 32}
    assert parse_architecture(mistral, "").context == 32
    assert parse_architecture(mistral | {"sliding_window": None}, "").context == config["max_position_embeddings"]
    qwen = config | {"model_type": "qwen2", "sliding_window": 32, "use_sliding_window": False}
    assert parse_architecture(qwen, "").context == config["max_position_embeddings"]
    assert parse_architecture(qwen | {"use_sliding_window": True}, "").context == 32


def test_damaged_checkpoints_are_named(tmp_path):
    with pytest.raises(ModelSourceError, match=r"config\.json"):
        read_architecture(tmp_path)
    folder = make_tiny_checkpoint(tmp_path, vocabulary=97, hidden=32)
    weights = folder / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[: len(content) // 2])
    with pytest.raises(ModelSourceError, match="not a readable safetensors"):
        load_transformer(folder, dtype=torch.float32)
    weights.unlink()
    (folder / "pytorch_model.bin").write_bytes(b"pickle")
    with pytest.raises(ModelSourceError, match="only safetensors"):
        load_transformer(folder, dtype=torch.float32)
