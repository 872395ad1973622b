import gguf
import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer as Backend
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from specatlas.errors import ModelSourceError
from specatlas.models.gguf_import import convert_gguf
from specatlas.models.tiny import make_tiny_checkpoint
from specatlas.models.tokenizer import Tokenizer

from .gguf_files import VOCABULARY, write_gguf


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return make_tiny_checkpoint(tmp_path_factory.mktemp("original"), "smollm2", vocabulary=VOCABULARY, layers=1)


def converted(tmp_path, folder, chat_template=None, **options):
    target = tmp_path / "converted"
    target.mkdir()
    conversion = convert_gguf(write_gguf(tmp_path / "x.gguf", folder, **options), target, chat_template)
    return target, conversion


@pytest.mark.parametrize(("family", "tied"), [("smollm2", True), ("llama", False), ("qwen2", False)])
def test_unquantised_weights_come_back_rounded_once(tmp_path, family, tied):
    folder = make_tiny_checkpoint(
        tmp_path / "original", family, vocabulary=VOCABULARY, layers=2, tie_embeddings=tied, tokenizer="none"
    )
    target, conversion = converted(tmp_path, folder)
    before, after = load_file(folder / "model.safetensors"), load_file(target / "model.safetensors")
    assert before.keys() == after.keys()
    assert all(torch.equal(after[key], weight.to(torch.bfloat16)) for key, weight in before.items())
    assert set(conversion.quantisation) == {"F32"}
    assert 0 < conversion.rounding < 2**-8
    config = AutoConfig.from_pretrained(target)
    assert (config.tie_word_embeddings, config.vocab_size, config.dtype) == (tied, VOCABULARY, torch.bfloat16)
    assert config.rms_norm_eps == AutoConfig.from_pretrained(folder).rms_norm_eps


def test_q4_1_agrees_with_transformers(tmp_path, original):
    reference = pytest.importorskip("transformers.modeling_gguf_pytorch_utils")
    target, conversion = converted(tmp_path, original, quantise=gguf.GGMLQuantizationType.Q4_1)
    model = AutoModelForCausalLM.from_pretrained(target)
    expected = reference.load_gguf_checkpoint(str(tmp_path / "x.gguf"), return_tensors=True, model_to_load=model)
    weights = model.state_dict()
    assert conversion.quantisation["Q4_1"] == 8
    assert not hasattr(model.config, "quantization_config")
    for key, tensor in expected["tensors"].items():
        assert torch.equal(weights[key], torch.as_tensor(tensor).to(torch.bfloat16)), key


def test_tokenizer_splits_digits_as_the_original_does(tmp_path, original):
    target, _ = converted(tmp_path, original)
    tokenizer = Tokenizer(target)
    before = Tokenizer(original)
    assert tokenizer.vocabulary == before.vocabulary
    assert tokenizer.eos_ids == {2}
    assert tokenizer.encode_chat("Hi") == before.encode_chat("Hi")
    pieces = tokenizer._backend.backend_tokenizer.pre_tokenizer.pre_tokenize_str("a\n\n12")
    assert [piece for piece, _ in pieces] == ["a", "ĊĊ", "1", "2"]


def test_qwen2_splits_as_transformers_own_tokenizer_does(tmp_path):
    original = make_tiny_checkpoint(tmp_path / "o", "qwen2", vocabulary=VOCABULARY, layers=1, tokenizer="none")
    target, _ = converted(tmp_path, original, split="qwen2")
    qwen = AutoTokenizer.from_pretrained(target).backend_tokenizer.pre_tokenizer
    ours = Backend.from_file(str(target / "tokenizer.json")).pre_tokenizer
    for text in ("It's 12  o'clock\n\n  x=3;\t\ty", "naïve 東京 🙂 ... ok \n z"):
        assert ours.pre_tokenize_str(text) == qwen.pre_tokenize_str(text)


def test_template_of_the_entry_fills_in(tmp_path, original):
    target, _ = converted(tmp_path, original, template=None, chat_template="{{ messages[0]['content'] }}")
    assert Tokenizer(target).render_chat("Hi") == "Hi"


def test_no_template_at_all_is_refused(tmp_path, original):
    with pytest.raises(ModelSourceError, match="no chat template"):
        converted(tmp_path, original, template=None)


def test_unchecked_split_rule_is_refused(tmp_path, original):
    with pytest.raises(ModelSourceError, match="'tekken'"):
        converted(tmp_path, original, split="tekken")


def test_missing_tensor_is_refused(tmp_path, original):
    with pytest.raises(ModelSourceError, match="input_layernorm"):
        converted(tmp_path, original, drop={"blk.0.attn_norm.weight"})


def test_damaged_file_is_refused(tmp_path):
    (tmp_path / "x.gguf").write_bytes(b"GGUF, or so it says" * 9)
    with pytest.raises(ModelSourceError, match="not a readable GGUF file"):
        convert_gguf(tmp_path / "x.gguf", tmp_path)
