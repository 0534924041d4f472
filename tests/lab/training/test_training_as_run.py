"""Each experiment and form as the authors ran it, row by row: what training sees, and what an evaluation weighs.

Decay groups by name are in test_training_eleven, rates in test_training_schedule, the vision transforms and Caltech's
splits in tests/lab/data/test_data_images, every setting in tests/lab/experiments/test_experiments_as_run.
"""

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from small_data import SETTINGS, documents, small

from oneclock.lab import models
from oneclock.lab.data import load_task as load_task
from oneclock.lab.data.tokens import Tokens
from oneclock.lab.experiments import EXPERIMENTS, find, override
from oneclock.lab.training import train

NANOGPT = ["nanogpt-wikitext103", "nanogpt-openwebtext"]
LLAMA = ["llama60m-c4", "llama60m-slimpajama"]
VISION = [name for name in SETTINGS if not name.startswith(("nanogpt", "llama", "t5"))]


def load(spec, root) -> Any:
    """The task, of which more is looked at here than its interface shows."""
    return load_task(spec, root)


def trained(spec, root, seed=1):
    """The model after its last update, its task and the last line of its curve."""
    built = []
    options = {"data_dir": root / "data", "model": lambda: built.append(models.build(spec.model)) or built[0]}
    train(spec, 0.9, seed, root / f"run{seed}", **options)
    lines = (root / f"run{seed}" / "curve.jsonl").read_text().splitlines()
    return built[0].eval(), load(spec, root / "data"), json.loads(lines[-1])


@torch.no_grad()
def batch_losses(model, task, *arguments):
    batches = list(task.evaluation("validation", *arguments))
    return batches, [task.loss(model, batch, training=False).item() for batch in batches]


@pytest.mark.parametrize("name", NANOGPT)
def test_nanogpt_trains_on_windows_at_any_place_drawn_with_replacement(name, tmp_path):
    task = load(small(name, tmp_path), tmp_path)
    stream, length = task.train.ids.tolist(), 32
    starts = []
    for step in range(40):
        for micro in range(2):
            batch = task.batch(1, step, micro)
            assert torch.equal(batch["input_ids"], batch["labels"])
            assert task.weight(batch) == 2 * (length - 1)
            for row, start in zip(batch["input_ids"], task.order.indices(1, 2 * step + micro), strict=True):
                assert row.tolist() == stream[start : start + length]
                starts.append(int(start))
    assert len({start % length for start in starts}) > 20  # no multiples of a block
    assert max(starts) > 0.9 * (len(stream) - length) > 0.1 * len(stream) > min(starts)
    assert task.order.batches  # the draw never ends
    assert Tokens.load("gpt2", tmp_path).end not in stream


@pytest.mark.parametrize("name", NANOGPT)
def test_nanogpt_draws_its_evaluation_anew_the_same_for_every_seed(name, tmp_path):
    spec = small(name, tmp_path / "data")
    assert (find(name).evaluation.batches, find(name).batch_size) == (50, 8)
    model, task, last = trained(spec, tmp_path)
    first, second = (torch.cat([b["input_ids"] for b in task.evaluation("validation", step)]) for step in (3, 6))
    assert not torch.equal(first, second)
    assert torch.equal(
        first, torch.cat([b["input_ids"] for b in load(spec, tmp_path / "data").evaluation("validation", 3)])
    )
    _, losses = batch_losses(model, task, 6)
    assert last["val_loss"] == pytest.approx(sum(losses) / len(losses), rel=1e-6)
    steps = [json.loads(line)["step"] for line in (tmp_path / "run1" / "curve.jsonl").read_text().splitlines()]
    assert steps == [1, 3, 6]


@pytest.mark.parametrize("name", NANOGPT)
def test_nanogpt_as_printed_has_fixed_blocks_and_fixed_batches(name, tmp_path):
    spec = small(f"{name}-as-printed", tmp_path / "data")
    _, task, _ = trained(spec, tmp_path)
    assert len(task.train) == task.train.rows.size // 32
    seen = np.concatenate([task.order.indices(1, number) for number in range(task.order.batches)])
    assert len(set(seen.tolist())) == len(seen) == 2 * (len(task.train) // 2)
    first, second = (torch.cat([b["input_ids"] for b in task.evaluation("validation", step)]) for step in (3, 6))
    assert torch.equal(first, second)
    steps = [json.loads(line)["step"] for line in (tmp_path / "run1" / "curve.jsonl").read_text().splitlines()]
    assert steps == [3, 6]


def test_openwebtext_holds_out_the_share_of_datasets_division_rounded_up(tmp_path):
    published = find("nanogpt-openwebtext").data
    assert math.ceil(published.held_out_share * 8_013_769) == 8_014
    assert (published.held_out_by, published.split_seed) == ("permuted", 123_456)


@pytest.mark.parametrize("name", LLAMA)
def test_llama_sees_one_document_cut_ended_and_padded(name, tmp_path):
    spec = override(small(name, tmp_path), ["data.length=120", "model.context=120"])
    task, tokens = load(spec, tmp_path), Tokens.load("t5-base", tmp_path)
    texts = documents(120, seed=1)
    batch = task.batch(1, 0, 0)
    padded = 0
    for row, number in enumerate(task.order.indices(42, 0)):
        pieces = tokens.encode([texts[number]])[0]
        wanted = [*pieces[:119], tokens.end]
        padded += 120 - len(wanted)
        assert batch["input_ids"][row].tolist() == [*wanted, *[0] * (120 - len(wanted))]
        assert batch["attention_mask"][row].tolist() == [1] * len(wanted) + [0] * (120 - len(wanted))
        assert batch["labels"][row].tolist() == [*wanted, *[-100] * (120 - len(wanted))]
    assert padded > 0
    short = override(spec, ["data.length=8", "model.context=8"])
    ids = load(short, tmp_path).batch(1, 0, 0)["input_ids"]
    assert ids.shape == (2, 8)
    assert (ids[:, -1] == tokens.end).all()  # the rest of a long document is lost


@pytest.mark.parametrize("name", LLAMA)
def test_llamas_seed_sets_the_weights_alone(name, tmp_path):
    spec = small(name, tmp_path / "data")
    one, task, _ = trained(spec, tmp_path, seed=1)
    two, _, _ = trained(spec, tmp_path, seed=2)
    assert all(torch.equal(task.batch(1, 3, 1)[key], task.batch(2, 3, 1)[key]) for key in task.batch(1, 3, 1))
    assert not torch.equal(one.lm_head.weight, two.lm_head.weight)
    assert one.get_input_embeddings().weight[0].abs().max() == 0  # the padding's row


@pytest.mark.parametrize("name", LLAMA)
def test_llamas_validation_is_weighted_by_tokens_and_its_train_loss_is_the_last(name, tmp_path):
    spec = override(small(name, tmp_path / "data"), ["data.length=64", "model.context=64"])
    model, task, last = trained(spec, tmp_path)
    batches, losses = batch_losses(model, task)
    tokens = [int(batch["attention_mask"].sum()) for batch in batches]
    assert last["val_loss"] == pytest.approx(np.average(losses, weights=tokens), rel=1e-6)
    assert sum(tokens) >= spec.evaluation.tokens
    running = override(spec, ["evaluation.train_loss=running"])
    train(running, 0.9, 1, tmp_path / "running", data_dir=tmp_path / "data")
    means = [json.loads(line) for line in (tmp_path / "running" / "curve.jsonl").read_text().splitlines()]
    lasts = [json.loads(line) for line in (tmp_path / "run1" / "curve.jsonl").read_text().splitlines()]
    assert lasts[0]["train_loss"] == means[0]["train_loss"]  # one update so far
    assert lasts[-1]["train_loss"] != means[-1]["train_loss"]
    assert [point["val_loss"] for point in lasts] == [point["val_loss"] for point in means]


def test_llamas_first_evaluation_is_of_the_initial_model(tmp_path):
    """Its first update has rate 0."""
    spec = small("llama60m-c4", tmp_path / "data")
    torch.manual_seed(1)
    _, losses = batch_losses(models.build(spec.model).eval(), load(spec, tmp_path / "data"))
    tokens = [int(batch["attention_mask"].sum()) for batch in load(spec, tmp_path / "data").evaluation("validation")]
    trained(spec, tmp_path)
    first = json.loads((tmp_path / "run1" / "curve.jsonl").read_text().splitlines()[0])
    assert first["val_loss"] == pytest.approx(np.average(losses, weights=tokens), rel=1e-6)


@pytest.mark.parametrize("name", VISION)
def test_visions_validation_is_the_plain_mean_of_batch_means(name, tmp_path):
    spec = override(small(name, tmp_path / "data"), ["evaluation.batch_size=5"])
    model, task, last = trained(spec, tmp_path)
    batches, losses = batch_losses(model, task)
    sizes = [len(batch["labels"]) for batch in batches]
    assert sizes[-1] < sizes[0]  # a partial batch, which weighs as much
    assert last["val_loss"] == pytest.approx(sum(losses) / len(losses), rel=1e-6)
    assert last["val_loss"] != pytest.approx(np.average(losses, weights=sizes), rel=1e-9)


@pytest.mark.parametrize("name", ["vitb16-cifar100", "vitb16-tinyimagenet", "efficientnetb0-cars", "swint-caltech256"])
def test_what_is_erased_becomes_noise_of_its_area(name, tmp_path):
    """On constant images without other transforms: what differs from the constant is the erased part."""
    plan = find(name).data.augmentation
    from oneclock.lab.data.images import training_transform

    chain = training_transform(find(name).data).transforms
    erase = next(step for step in chain if type(step).__name__ == "RandomErasing")
    torch.manual_seed(0)
    areas, values = [], []
    for _ in range(400):
        changed = erase(torch.full((3, 64, 64), 7.0))
        lost = changed[0] != 7.0
        if lost.any():
            areas.append(lost.float().mean().item())
            values += changed[:, lost].flatten().tolist()
            height, width = lost.any(1).sum().item(), lost.any(0).sum().item()
            low, high = plan.erasing_aspect
            assert 0.8 * low < height / width < 1.25 * high
    assert 0.7 * plan.random_erasing < len(areas) / 400 < 1.3 * plan.random_erasing
    assert 0.8 * plan.erasing_area[0] < min(areas) < max(areas) < 1.1 * plan.erasing_area[1]
    assert abs(np.mean(values)) < 0.05
    assert abs(np.std(values) - 1) < 0.05


WHITE = {  # (1 - mean) / std of each channel, by hand
    "vitb16-cifar100": (1.842617, 2.001170, 2.025353),
    "others": (2.248908, 2.428571, 2.640000),
}


@pytest.mark.parametrize("name", VISION)
def test_pixels_are_normalized_as_the_authors_were(name, tmp_path):
    """White as training and evaluation see it; jitter and the operations of RandAugment apart, which may darken it."""
    from PIL import Image

    from oneclock.lab.data.images import evaluation_transform, training_transform

    spec = find(name)
    wanted = WHITE.get(name, WHITE["others"])
    white = Image.new("RGB", (300, 280), "white")
    plain = ["data.augmentation.color_jitter=none", "data.augmentation.rand_augment=none"]
    plain.append("data.augmentation.random_erasing=0")
    for transform in (evaluation_transform(spec.data), training_transform(override(spec, plain).data)):
        pixels = transform(white)
        assert pixels.shape == (3, 224, 224)
        assert torch.allclose(pixels, torch.tensor(wanted)[:, None, None].expand_as(pixels), atol=1e-5)


def write_rows(root):
    """BookCorpus with rows of 2 to 9 words, the twenty-first of them a word."""
    texts = [" ".join(text.split()[: 2 + number % 8]) for number, text in enumerate(documents(140, seed=1))]
    texts[20] = "  to "
    (root / "bookcorpus" / "train.txt").write_text("\n".join(texts) + "\n")
    return texts


def rebuilt(inputs, targets, sentinels):
    """The row that was corrupted, from its input and its target, both without their end."""
    lost, text, run = {}, [], []
    for token in targets:
        if token in sentinels:
            run = lost[token] = []
        else:
            run.append(token)
    for token in inputs:
        text += lost[token] if token in sentinels else [token]
    return text


def test_t5_corrupts_one_row_at_a_time_with_a_mask_that_stays(tmp_path):
    spec = small("t5small-bookcorpus", tmp_path)
    tokens = Tokens.load("t5-small", tmp_path)
    filler = tokens.encode([spec.data.filler])[0][:32]
    pieces = tokens.encode([text.strip() for text in write_rows(tmp_path)[12:]])
    rows = [ids[:32] if len(ids) >= 8 else filler for ids in pieces]
    assert rows[8] == filler
    task = load(spec, tmp_path)
    sentinels, seen = set(tokens.sentinels.tolist()), {}
    for position in range(2 * task.order.batches):  # two passes
        batch = task.batch(1, position // 2, position % 2)
        for place, number in enumerate(task.order.indices(1, position)):
            length = int(batch["attention_mask"][place].sum())
            inputs = batch["input_ids"][place, :length].tolist()
            targets = [token for token in batch["labels"][place].tolist() if token != -100]
            assert inputs[-1] == targets[-1] == tokens.end
            assert inputs[-2] in sentinels  # one span always lies at the end
            assert rebuilt(inputs[:-1], targets[:-1], sentinels) == rows[number]
            assert (batch["input_ids"][place, length:] == 0).all()
            assert seen.setdefault(int(number), (inputs, targets)) == (inputs, targets)
        assert batch["attention_mask"].sum(1).max() == batch["input_ids"].shape[1]  # as long as the longest
        assert task.weight(batch) == (batch["labels"] != -100).sum()
    assert len(seen) == 128
    assert 8 in seen
    other = task.batch(2, 0, 0)
    assert other["labels"].tolist() != task.batch(1, 0, 0)["labels"].tolist()


def test_t5_validates_on_the_first_rows_weighted_by_targets(tmp_path):
    spec = small("t5small-bookcorpus", tmp_path / "data")
    write_rows(tmp_path / "data")
    model, task, last = trained(spec, tmp_path)
    batches, losses = batch_losses(model, task)
    assert sum(len(batch["labels"]) for batch in batches) == 12
    targets = [int((batch["labels"] != -100).sum()) for batch in batches]
    assert last["val_loss"] == pytest.approx(np.average(losses, weights=targets), rel=1e-6)
    again = list(load(spec, tmp_path / "data").evaluation("validation"))
    assert all(torch.equal(one["labels"], other["labels"]) for one, other in zip(batches, again, strict=True))


def test_short_rows_have_one_span():
    """Up to 30 pieces there is one span of 1 to 4."""
    from oneclock.lab.data.spans import shape_of

    noise = find("t5small-bookcorpus").span_corruption
    shapes = [shape_of(length, noise) for length in range(8, 31)]
    assert {shape.spans for shape in shapes} == {1}
    assert {shape.noise for shape in shapes} == {1, 2, 3, 4}


def test_the_seeds_of_each_are_those_that_a_sweep_should_use():
    assert {name: spec.seeds for name, spec in EXPERIMENTS.items() if spec.seeds != (1, 2, 3)} == {
        "t5small-bookcorpus": (1,)
    }


def test_a_running_loss_weighted_by_targets_is_just_that(tmp_path):
    spec = override(small("t5small-bookcorpus", tmp_path / "data"), ["budget=1", "model.dropout=0"])
    write_rows(tmp_path / "data")
    task = load(spec, tmp_path / "data")
    batches = {seed: [task.batch(seed, 0, micro) for micro in range(2)] for seed in range(1, 20)}
    seed = next(seed for seed, (one, other) in batches.items() if task.weight(one) != task.weight(other))
    torch.manual_seed(seed)
    model = models.build(spec.model).train()
    with torch.no_grad():
        losses = [task.loss(model, batch, training=True).item() for batch in batches[seed]]
    train(spec, 0.9, seed, tmp_path / "run", data_dir=tmp_path / "data")
    point = json.loads((tmp_path / "run" / "curve.jsonl").read_text())
    assert point["train_loss"] == pytest.approx(
        np.average(losses, weights=list(map(task.weight, batches[seed]))), rel=1e-6
    )
