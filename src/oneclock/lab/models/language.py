"""GPT-2, Llama and T5 as transformers has them, at the sizes a spec gives."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from torch import nn

from oneclock.lab.experiments.spec import GPT2, T5, Llama
from oneclock.lab.models.checkpoints import hub_checkpoint

if importlib.util.find_spec("torchvision"):  # transformers imports it where it is installed
    importlib.import_module("oneclock.torchvision_guard")

try:
    import transformers
except ImportError as error:
    raise ImportError("language models need transformers: pip install 'oneclock[language]'") from error


def build(spec: GPT2 | Llama | T5) -> nn.Module:
    """The language model of a spec."""
    if isinstance(spec, GPT2):
        model = transformers.GPT2LMHeadModel(_gpt2(spec))
        model.loss_type = "ForCausalLM"  # this is the default, but transformers warns unless it is given
        return model
    if isinstance(spec, Llama):
        return transformers.LlamaForCausalLM(_llama(spec))
    return transformers.T5ForConditionalGeneration(_t5(spec)) if spec.checkpoint is None else _pretrained(spec)


def _gpt2(spec: GPT2) -> Any:
    return transformers.GPT2Config(
        vocab_size=spec.vocabulary,
        n_positions=spec.context,
        n_layer=spec.layers,
        n_head=spec.heads,
        n_embd=spec.width,
        resid_pdrop=spec.dropout,
        embd_pdrop=spec.dropout,
        attn_pdrop=spec.dropout,
        bos_token_id=None,
        eos_token_id=None,
        use_cache=False,
    )


def _llama(spec: Llama) -> Any:
    return transformers.LlamaConfig(
        vocab_size=spec.vocabulary,
        max_position_embeddings=spec.context,
        num_hidden_layers=spec.layers,
        num_attention_heads=spec.heads,
        hidden_size=spec.width,
        intermediate_size=spec.intermediate,
        rms_norm_eps=1e-6,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=spec.padding,
        use_cache=False,
    )


def _t5(spec: T5) -> Any:
    return transformers.T5Config(
        vocab_size=spec.vocabulary,
        num_layers=spec.layers,
        num_heads=spec.heads,
        d_model=spec.width,
        d_ff=spec.feed_forward,
        d_kv=spec.head_width,
        dropout_rate=spec.dropout,
        decoder_start_token_id=0,
        use_cache=False,
    )


def _checkpoint(name: str) -> Any:
    """The pretrained model of that name or folder; ValueError if it is not here and cannot be downloaded."""
    problem: BaseException | None = None
    for place in dict.fromkeys([hub_checkpoint(name), name]):
        try:
            return transformers.T5ForConditionalGeneration.from_pretrained(place)
        except (OSError, ValueError) as error:  # noqa: PERF203
            problem = problem or error
    reason = " ".join(str(problem).split())[:120]
    raise ValueError(
        f"the checkpoint {name!r} is not here and cannot be downloaded ({reason}): fetch config.json and "
        f"model.safetensors of {hub_checkpoint(name)} and set model.checkpoint to their folder, or set it to none to "
        "train new weights, whose losses are not the paper's"
    )


def _pretrained(spec: T5) -> nn.Module:
    config, model = _t5(spec), _checkpoint(str(spec.checkpoint))
    names = ("vocab_size", "num_layers", "num_heads", "d_model", "d_ff", "d_kv", "dropout_rate")
    for name in names:
        has, wanted = getattr(model.config, name), getattr(config, name)
        if has != wanted:
            raise ValueError(
                f"the checkpoint {spec.checkpoint!r} has {name} {has}, the experiment says {wanted}: "
                "set model.checkpoint=none to train another size from new weights"
            )
    model.config.use_cache = False
    return model
