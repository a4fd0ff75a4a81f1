"""A cross-encoder of a few kilobytes in the format of a published one: its logit grows with the shared words."""

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper, save
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
MAX_TOKENS = 64


def logit(shared: int) -> float:
    """Return its answer for a text that repeats that many of the question's words."""
    return 2.0 * shared - 3.0


def make(folder: Path, words: Iterable[str]) -> Path:
    """Write a model that knows these words, in the layout of fastembed; return `folder`."""
    (folder / "onnx").mkdir(parents=True)
    vocabulary = {word: place for place, word in enumerate((*SPECIAL, *sorted({w.lower() for w in words})))}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = Lowercase()
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])],
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    limits = {"model_max_length": MAX_TOKENS, "pad_token": "[PAD]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(limits))
    (folder / "config.json").write_text(json.dumps({"pad_token_id": 0}))
    _save_graph(folder / "onnx" / "model.onnx")
    return folder


def _save_graph(path: Path) -> None:
    """Write the graph: logits (batch, 1) of input_ids, attention_mask and token_type_ids, each (batch, sequence)."""
    nodes = [
        # (batch, sequence): 1 at each known word of the question, or of the text
        helper.make_node("Greater", ["input_ids", "last_special"], ["is_word"]),
        helper.make_node("Cast", ["is_word"], ["word"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["token_type_ids"], ["second"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["word", "mask"], ["known"]),
        helper.make_node("Mul", ["known", "second"], ["in_text"]),
        helper.make_node("Sub", ["known", "in_text"], ["in_question"]),
        # (batch, sequence, sequence): a word of the question against one of the text
        helper.make_node("Unsqueeze", ["input_ids", "last_axis"], ["ids_down"]),
        helper.make_node("Unsqueeze", ["input_ids", "first_axis"], ["ids_across"]),
        helper.make_node("Equal", ["ids_down", "ids_across"], ["is_same"]),
        helper.make_node("Cast", ["is_same"], ["same"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["in_text", "first_axis"], ["text_across"]),
        helper.make_node("Mul", ["same", "text_across"], ["met"]),
        helper.make_node("ReduceMax", ["met", "last_axis"], ["repeated"], keepdims=0),
        helper.make_node("Mul", ["repeated", "in_question"], ["shared_words"]),
        helper.make_node("ReduceSum", ["shared_words", "first_axis"], ["shared"], keepdims=1),
        helper.make_node("Mul", ["shared", "slope"], ["scaled"]),
        helper.make_node("Add", ["scaled", "start"], ["logits"]),
    ]
    constants = {
        "last_special": np.array(len(SPECIAL) - 1, np.int64),
        "first_axis": np.array([1], np.int64),
        "last_axis": np.array([2], np.int64),
        "slope": np.array(logit(1) - logit(0), np.float32),
        "start": np.array(logit(0), np.float32),
    }
    names = ("input_ids", "attention_mask", "token_type_ids")
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"]) for name in names],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 1])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    checker.check_model(model)
    save(model, str(path))
