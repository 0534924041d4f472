"""The models: sizes on the meta device, equal to the libraries' own but for the head, and able to learn."""

import pytest
import torch

from oneclock import torchvision_guard  # noqa: F401  the guard before torchvision
from oneclock.lab.experiments import find, override
from oneclock.lab.experiments.spec import GPT2, T5, EfficientNet, Llama, ResNet, Swin, ViT
from oneclock.lab.models import build

from torchvision import models as zoo  # isort: skip


def size(model):
    return sum(parameter.numel() for parameter in model.parameters())


def on_meta(spec):
    with torch.device("meta"):
        return build(spec)


def linear(inputs, outputs):
    return inputs * outputs + outputs


# Counted from the architectures' descriptions; torchvision documents the four of its models for 1,000 classes.
SIZES = {
    "nanogpt-wikitext103": 50304 * 384 + 256 * 384 + 6 * (12 * 384**2 + 13 * 384) + 2 * 384,
    "llama60m-c4": 2 * 32100 * 512 + 8 * (4 * 512**2 + 3 * 512 * 1376 + 2 * 512) + 512,
    "vitb16-cifar100": 86_567_656 - linear(768, 1000) + linear(768, 100),
    "vitb16-tinyimagenet": 86_567_656 - linear(768, 1000) + linear(768, 200),
    "resnet50-food101": 25_557_032 - linear(2048, 1000) + linear(2048, 101),
    "resnet50-imagenet100": 25_557_032 - linear(2048, 1000) + linear(2048, 100),
    "efficientnetb0-cars": 5_288_548 - linear(1280, 1000) + linear(1280, 196),
    "swint-caltech256": 28_288_354 - linear(768, 1000) + linear(768, 256),
    "t5small-bookcorpus": 60_506_624,
}
SIZES |= {"nanogpt-openwebtext": SIZES["nanogpt-wikitext103"], "llama60m-slimpajama": SIZES["llama60m-c4"]}


@pytest.mark.parametrize("name", SIZES)
def test_the_number_of_parameters(name):
    settings = ["model.checkpoint=none"] if name.startswith("t5") else []
    assert size(on_meta(override(find(name), settings).model)) == SIZES[name]


def test_llama60m_has_about_58_million():
    assert round(SIZES["llama60m-c4"] / 1e6) == 58


@pytest.mark.parametrize(
    ("name", "reference", "head"),
    [
        ("resnet50-food101", zoo.resnet50, "fc"),
        ("vitb16-cifar100", zoo.vit_b_16, "heads"),
        ("efficientnetb0-cars", zoo.efficientnet_b0, "classifier"),
        ("swint-caltech256", zoo.swin_t, "head"),
    ],
)
def test_vision_models_are_torchvisions_but_for_the_head(name, reference, head):
    ours = on_meta(find(name).model)
    with torch.device("meta"):
        theirs = reference(weights=None)
    assert body(ours, head) == body(theirs, head)
    assert settings(ours, head) == settings(theirs, head)


def body(model, head):
    return {key: value.shape for key, value in model.state_dict().items() if not key.startswith(f"{head}.")}


def settings(model, head):
    """What state dicts do not hold: strides, dropout and stochastic depth, layer by layer."""
    return [
        repr(part) for name, part in model.named_modules() if not name.startswith(head) and not list(part.children())
    ]


@pytest.mark.parametrize("name", ["resnet50-food101", "resnet50-imagenet100"])
def test_resnet_head_is_dropout_then_linear(name):
    dropout, last = on_meta(find(name).model).fc
    assert (type(dropout), dropout.p) == (torch.nn.Dropout, 0.2)
    assert last.out_features == find(name).model.classes


def test_gpt2_drops_out_everywhere():
    config = on_meta(GPT2(dropout=0.2)).config
    assert (config.resid_pdrop, config.embd_pdrop, config.attn_pdrop) == (0.2, 0.2, 0.2)


SMALL = {
    "gpt2": GPT2(vocabulary=64, context=16, layers=1, heads=2, width=32, dropout=0.0),
    "llama": Llama(vocabulary=64, context=16, layers=1, heads=2, width=32, intermediate=64),
    "t5": T5(checkpoint=None, vocabulary=64, layers=1, heads=2, width=32, feed_forward=64, head_width=16, dropout=0.0),
    "resnet": ResNet(classes=4, blocks=(1, 1, 1, 1), width=8, head_dropout=0.0, stem="small"),
    "resnet-imagenet-stem": ResNet(classes=4, blocks=(1, 1, 1, 1), width=8, head_dropout=0.0),
    "vit": ViT(classes=4, image=16, patch=4, layers=1, heads=2, width=32, feed_forward=64),
    "efficientnet": EfficientNet(
        classes=4, width_multiplier=0.25, depth_multiplier=0.3, dropout=0.0, stochastic_depth=0.0, stem="small"
    ),
    "swin": Swin(classes=4, patch=2, width=16, depths=(1, 1), heads=(2, 4), window=4, stochastic_depth=0.0),
}


@pytest.mark.parametrize("family", SMALL)
def test_fifty_steps_on_one_batch_bring_the_loss_down(family):
    torch.manual_seed(0)
    spec = SMALL[family]
    model = build(spec)
    if isinstance(spec, GPT2 | Llama | T5):
        ids = torch.randint(4, 64, (4, 16))
        loss_of = lambda: model(input_ids=ids, labels=ids).loss  # noqa: E731
    else:
        images, labels = torch.randn(8, 3, 16, 16), torch.arange(8) % 4
        loss_of = lambda: torch.nn.functional.cross_entropy(model(images), labels)  # noqa: E731
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    first = loss_of().item()
    for _ in range(50):
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
    assert loss_of().item() < first / 2


@pytest.mark.parametrize("family", ["resnet", "efficientnet"])
def test_the_small_stem_keeps_the_size_of_the_image(family):
    stem = build(SMALL[family]).conv1 if family == "resnet" else build(SMALL[family]).features[0][0]
    assert stem(torch.zeros(1, 3, 8, 8)).shape[-2:] == (8, 8)


def test_two_models_of_one_seed_are_equal():
    models = []
    for _ in range(2):
        torch.manual_seed(3)
        models.append(build(SMALL["vit"]))
    for one, other in zip(*(model.parameters() for model in models), strict=True):
        assert torch.equal(one, other)


def test_t5_comes_from_its_checkpoint(tmp_path):
    saved = build(SMALL["t5"])
    saved.save_pretrained(tmp_path)
    spec = override(
        find("t5small-bookcorpus"),
        [
            f"model.checkpoint={tmp_path}",
            "model.vocabulary=64",
            "model.layers=1",
            "model.heads=2",
            "model.width=32",
            "model.feed_forward=64",
            "model.head_width=16",
            "model.dropout=0",
        ],
    ).model
    loaded = build(spec)
    for key, value in saved.state_dict().items():
        assert torch.equal(loaded.state_dict()[key], value)
    with pytest.raises(ValueError, match=r"d_model 32, the experiment says 512.*model.checkpoint=none"):
        build(T5(checkpoint=str(tmp_path), vocabulary=64, layers=1, heads=2))


def test_t5_without_its_checkpoint_says_so(tmp_path):
    absent = T5(str(tmp_path / "t5-small"), vocabulary=64, layers=1, heads=2, width=32, feed_forward=64)
    with pytest.raises(ValueError, match="is not here and cannot be downloaded.*set it to none") as caught:
        build(absent)
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="model.safetensors of google-t5/t5-small"):
        build(find("t5small-bookcorpus").model)


def test_the_padding_of_llama_starts_at_zero_and_learns_nothing():
    spec = Llama(vocabulary=64, context=16, layers=1, heads=2, width=32, intermediate=64, padding=0)
    model = build(spec)
    embedding = model.get_input_embeddings().weight
    ids = torch.tensor([[3, 4, 5, 0, 0]])
    mask = (ids != 0).long()
    model(input_ids=ids, attention_mask=mask, labels=torch.where(mask == 1, ids, -100)).loss.backward()
    assert embedding[0].abs().max() == 0
    assert embedding.grad[0].abs().max() == 0
    assert embedding.grad[3].abs().max() > 0
