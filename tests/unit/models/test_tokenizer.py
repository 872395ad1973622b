import json
import shutil

import pytest

from specatlas.errors import ModelSourceError
from specatlas.models.tiny import make_tiny_checkpoint, write_tiny_tokenizer
from specatlas.models.tokenizer import Tokenizer, as_messages, compare_vocabularies, read_eos_ids, same_vocabulary

TEXTS = ["Hello, world!", "  spaces   and\ttabs\n\n", "naïve – 東京 🙂", "x = 12345 ** 2", ""]


@pytest.fixture(scope="module")
def tokenizer(tiny_folder):
    return Tokenizer(tiny_folder)


def tokenizer_with(folder, **config):
    write_tiny_tokenizer(folder, 300)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | config))
    return Tokenizer(folder)


@pytest.mark.parametrize("text", TEXTS)
def test_text_survives_encoding_and_decoding(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_chat_has_each_special_token_once(tokenizer):
    ids = tokenizer.encode_chat("Hi there")
    start, end = tokenizer.vocabulary["<|im_start|>"], tokenizer.vocabulary["<|im_end|>"]
    assert (ids.count(start), ids.count(end)) == (2, 1)
    assert tokenizer.decode(ids, special_tokens=True) == "<|im_start|>user\nHi there<|im_end|>\n<|im_start|>assistant\n"


def test_second_turn_continues_the_first(tokenizer):
    first = tokenizer.encode_chat("One")
    second = tokenizer.encode_chat(["One", "Answer", "Two"])
    assert second[: len(first)] == first
    assert second == tokenizer.encode_chat(
        [
            {"role": "user", "content": "One"},
            {"role": "assistant", "content": "Answer"},
            {"role": "user", "content": "Two"},
        ]
    )


@pytest.mark.parametrize("conversation", [[], ["a", "b"], [{"role": "assistant", "content": "x"}]])
def test_a_conversation_must_end_with_the_user(conversation):
    with pytest.raises(ValueError, match="must end with the user"):
        as_messages(conversation)


def test_bos_is_never_doubled(tmp_path):
    """A template that writes BOS and a tokenizer that adds it must not add up (fault F04)."""
    write_tiny_tokenizer(tmp_path, 300)
    path = tmp_path / "tokenizer.json"
    content = json.loads(path.read_text())
    content["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<|endoftext|>": {"id": "<|endoftext|>", "ids": [0], "tokens": ["<|endoftext|>"]}},
    }
    path.write_text(json.dumps(content))
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    settings |= {"bos_token": "<|endoftext|>"}
    settings["chat_template"] = "{{ bos_token }}" + settings["chat_template"]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    tokenizer = Tokenizer(tmp_path)
    assert tokenizer.encode_chat("Hi").count(0) == 1
    assert tokenizer.encode("Hi", special_tokens=True).count(0) == 1
    assert tokenizer.encode(tokenizer.render_chat("Hi"), special_tokens=True) == tokenizer.encode_chat("Hi")
    assert tokenizer.encode("Hi").count(0) == 0


def test_no_chat_template_is_a_clear_refusal(tmp_path):
    tokenizer = tokenizer_with(tmp_path, chat_template=None)
    with pytest.raises(ModelSourceError, match="no chat template"):
        tokenizer.encode_chat("Hi")


def test_no_tokenizer_is_a_clear_refusal(tmp_path):
    with pytest.raises(ModelSourceError, match="has no tokenizer"):
        Tokenizer(tmp_path)


@pytest.mark.parametrize(
    ("eos", "expected"), [(None, set()), (7, {7}), ([7, 5], {5, 7}), (0, {0})], ids=["none", "one", "several", "zero"]
)
def test_eos_forms(tmp_path, eos, expected):
    make_tiny_checkpoint(tmp_path, vocabulary=8, hidden=16, heads=2, kv_heads=1, eos=eos)
    assert read_eos_ids(tmp_path) == expected


def test_eos_joins_tokenizer_and_generation_config(tmp_path):
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [0, 5]}')
    assert tokenizer_with(tmp_path).eos_ids == {0, 2, 5}


def test_vocabularies_are_compared_by_tokens_not_by_sizes(tokenizer, tmp_path):
    """Same tokens under a wider embedding match; same size under other ids does not (fault F01)."""
    padded = Tokenizer(make_tiny_checkpoint(tmp_path / "padded", vocabulary=384, layers=1))
    permuted = Tokenizer(make_tiny_checkpoint(tmp_path / "permuted", layers=1, tokenizer="permuted"))
    shorter = Tokenizer(make_tiny_checkpoint(tmp_path / "shorter", vocabulary=320, layers=1))
    config = json.loads((tmp_path / "padded" / "config.json").read_text()) | {"vocab_size": 512}
    (tmp_path / "padded" / "config.json").write_text(json.dumps(config))
    assert same_vocabulary(tokenizer, padded)
    assert len(permuted.vocabulary) == len(tokenizer.vocabulary)
    assert compare_vocabularies(tokenizer, permuted) == "different"
    assert compare_vocabularies(tokenizer, shorter) == compare_vocabularies(shorter, tokenizer) == "compatible"


def test_template_hash_covers_template_and_arguments(tiny_folder, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(tiny_folder, copy)
    plain, other = Tokenizer(tiny_folder), tokenizer_with(tmp_path, chat_template="{{ messages[0]['content'] }}")
    assert Tokenizer(copy).template_sha256 == plain.template_sha256 != other.template_sha256
    changed = Tokenizer(copy)
    changed.template_arguments = {"enable_thinking": False}
    assert changed.template_sha256 != plain.template_sha256


def test_template_arguments_reach_the_template(tmp_path):
    tokenizer = tokenizer_with(tmp_path, chat_template="{{ date_string }}: {{ messages[0]['content'] }}")
    tokenizer.template_arguments = {"date_string": "26 Jul 2024"}
    assert tokenizer.render_chat("Hi") == "26 Jul 2024: Hi"
