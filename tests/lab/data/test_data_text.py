"""Text as a task: real tokenizer files, packing, splits, the token cache, and errors in one line."""

import pickle
import socket
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from small_data import SETTINGS, documents, small, write_jsonl, write_parquet, write_tokenizers

from oneclock.lab.data import load_task
from oneclock.lab.data.text_sources import HUB, Documents, HubText
from oneclock.lab.data.tokens import Layout, Limit, Tokens
from oneclock.lab.experiments import find, override
from oneclock.lab.models import build

TEXT = [name for name in SETTINGS if name.startswith(("nanogpt", "llama", "t5"))]


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


def texts_of(spec, split, root):
    return [text for batch in Documents(spec.data, split, root).batches(size=7) for text in batch]


@pytest.mark.parametrize("name", TEXT)
def test_batches_are_a_function_of_seed_step_and_micro(name, tmp_path):
    spec = small(name, tmp_path)
    first, second = load_task(spec, tmp_path), load_task(spec, tmp_path)
    places = [(1, 0, 0), (1, 0, 1), (1, 5, 1), (2, 0, 0)]
    batches = [first.batch(*place) for place in places]
    torch.manual_seed(0)
    state = torch.get_rng_state()
    for place, batch in reversed(list(zip(places, batches, strict=True))):
        assert same(second.batch(*place), batch)
    assert torch.equal(torch.get_rng_state(), state)
    assert not any(same(batches[0], batch) for batch in batches[1:3])
    assert same(batches[0], batches[3]) == (spec.data.order_seed is not None)
    assert max(batch["input_ids"].shape[1] for batch in batches) <= spec.data.length
    assert max(batch["labels"].shape[1] for batch in batches) <= spec.data.length


@pytest.mark.parametrize("name", TEXT)
def test_evaluation_is_the_same_at_every_call(name, tmp_path):
    spec = small(name, tmp_path)
    task = load_task(spec, tmp_path)
    for split in ("train", "validation"):
        first, second = list(task.evaluation(split)), list(load_task(spec, tmp_path).evaluation(split))
        assert len(first) == len(second) > 0
        assert all(map(same, first, second))
        assert first[0]["input_ids"].shape[0] == spec.evaluation.batch_size or spec.batch_size


def test_the_size_of_the_evaluation(tmp_path):
    wikitext, c4, t5 = (small(name, tmp_path) for name in ("nanogpt-wikitext103", "llama60m-c4", "t5small-bookcorpus"))
    for split in ("train", "validation"):
        assert len(load_task(wikitext, tmp_path).evaluation(split)) == wikitext.evaluation.batches
        batches = list(load_task(c4, tmp_path).evaluation(split))
        tokens = [int(batch["attention_mask"].sum()) for batch in batches]
        assert sum(tokens) >= c4.evaluation.tokens > sum(tokens[:-1])  # whole batches until they are reached
        assert {len(batch["labels"]) for batch in batches} == {c4.batch_size}
    task = load_task(t5, tmp_path)
    assert sum(len(batch["labels"]) for batch in task.evaluation("validation")) == len(task.validation)


def test_two_processes_with_accumulation_one_take_what_one_with_two_takes(tmp_path):
    spec = small("nanogpt-wikitext103", tmp_path)
    assert spec.accumulate == 2
    alone = load_task(spec, tmp_path)
    single = load_task(replace(spec, accumulate=1), tmp_path)
    for step in range(3):
        for micro in range(2):
            assert same(alone.batch(1, step, micro), single.batch(1, 2 * step + micro, 0))


def test_packing_keeps_every_token_in_order(tmp_path):
    spec = override(small("nanogpt-openwebtext-as-printed", tmp_path), ["data.separate=true"])
    task = load_task(spec, tmp_path)
    tokens = Tokens.load("gpt2", tmp_path)
    expected = []
    for text in texts_of(spec, "train", tmp_path):
        expected += [*tokens.tokenizer.encode(text).ids, tokens.end]
    assert task.train.rows.ravel().tolist() == expected[: task.train.rows.size]
    assert len(expected) - task.train.rows.size < spec.data.length


def test_lines_of_wikitext_run_on(tmp_path):
    spec = small("nanogpt-wikitext103", tmp_path)
    task = load_task(spec, tmp_path)
    assert Tokens.load("gpt2", tmp_path).end not in task.train.ids
    decoded = Tokens.load("gpt2", tmp_path).tokenizer.decode(task.train.ids.tolist())
    assert decoded == "".join(texts_of(spec, "train", tmp_path))


def test_special_tokens_in_the_text_are_text(tmp_path):
    write_tokenizers(tmp_path)
    tokens = Tokens.load("t5-small", tmp_path)
    text = "the </s> of <extra_id_3> and <pad>"
    assert not tokens.special.isdisjoint(tokens.tokenizer.encode(text).ids)  # the unigrams would take it
    with open(tmp_path / "ids", "w+b") as file:
        tokens.write([[text]], file, Layout(ended=False), Limit())
        file.seek(0)
        ids = np.frombuffer(file.read(), tokens.dtype).tolist()
    assert ids
    assert tokens.special.isdisjoint(ids)
    assert max(ids) <= tokens.highest < tokens.sentinels.min()
    assert tokens.sentinels.tolist() == sorted(tokens.sentinels.tolist(), reverse=True)
    assert len(tokens.sentinels) == 100


def test_permuted_documents_are_those_of_datasets_own_division(tmp_path):
    from datasets import Dataset

    spec = small("nanogpt-openwebtext", tmp_path)
    everything = [*documents(80, seed=1), *documents(60, seed=2)]
    parts = Dataset.from_dict({"text": everything}).train_test_split(test_size=0.1, seed=123_456)
    assert texts_of(spec, "validation", tmp_path) == parts["test"]["text"][:]
    assert texts_of(spec, "train", tmp_path) == parts["train"]["text"][:]


def test_the_first_documents_are_held_out(tmp_path):
    spec = small("t5small-bookcorpus", tmp_path)
    assert texts_of(spec, "validation", tmp_path) == documents(140, seed=1)[:12]
    assert texts_of(spec, "train", tmp_path) == documents(140, seed=1)[12:]


def test_held_out_documents_are_drawn_from_all_and_never_trained_on(tmp_path):
    spec = override(small("t5small-bookcorpus", tmp_path), ["data.held_out_by=drawn"])
    train, held_out = texts_of(spec, "train", tmp_path), texts_of(spec, "validation", tmp_path)
    assert len(held_out) == spec.data.held_out_documents == 12
    assert sorted([*train, *held_out]) == sorted(documents(140, seed=1))
    assert held_out == texts_of(spec, "validation", tmp_path)
    assert held_out != texts_of(override(spec, ["data.split_seed=5"]), "validation", tmp_path)
    assert {int(text.split()[0]) for text in held_out} - set(range(12))


BLOCKS = ["data.examples=blocks", "data.shortest=0", "data.filler=none", "span_corruption.mask_by=batch"]


def test_span_corruption_of_the_real_task_reconstructs_its_blocks(tmp_path):
    spec = override(small("t5small-bookcorpus", tmp_path), BLOCKS)
    task = load_task(spec, tmp_path)
    sentinels = set(task.tokens.sentinels.tolist())
    batch = task.batch(1, 0, 0)
    for number, row in enumerate(task.order.indices(1, 0)):
        lost, text = {}, []
        for token in batch["labels"][number, :-1].tolist():
            if token in sentinels:
                run = lost[token] = []
            else:
                run.append(token)
        for token in batch["input_ids"][number, :-1].tolist():
            text += lost[token] if token in sentinels else [token]
        assert text == task.train.rows[row].tolist()
        assert batch["input_ids"][number, -1] == batch["labels"][number, -1] == task.tokens.end


@pytest.mark.parametrize("name", TEXT)
def test_the_loss_is_the_mean_over_the_weight(name, tmp_path):
    spec = small(name, tmp_path)
    task = load_task(spec, tmp_path)
    torch.manual_seed(0)
    model = build(spec.model).eval()
    batch = task.batch(1, 0, 0)
    with torch.no_grad():
        logits = model(**batch).logits
        loss = task.loss(model, batch, training=False)
        assert torch.equal(loss, task.loss(model, batch, training=True))
    labels = batch["labels"]
    if spec.objective == "next-token":
        logits, labels = logits[:, :-1], labels[:, 1:]
    total = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")
    if spec.evaluation.mean == "tokens":
        assert task.weight(batch) == batch["attention_mask"].sum()
        task = load_task(override(spec, ["evaluation.mean=targets"]), tmp_path)
    assert task.weight(batch) == (labels != -100).sum()
    assert torch.allclose(loss * task.weight(batch), total)


def test_tokens_are_made_once_and_shared(tmp_path):
    spec = small("nanogpt-wikitext103", tmp_path)
    load_task(spec, tmp_path)
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "tokens").glob("*.bin")}
    assert len(files) == 2
    load_task(override(spec, ["optimizer.lr=1e-4", "budget=99", "batch_size=4", "data.length=16"]), tmp_path)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "tokens").glob("*.bin")} == files
    write_parquet(tmp_path / "wikitext103" / "train-00000-of-00001.parquet", documents(150, seed=9))
    load_task(spec, tmp_path)
    assert len(list((tmp_path / "tokens").glob("*.bin"))) == 3


def test_cached_tokens_of_a_hub_source_need_no_source(tmp_path, monkeypatch):
    write_tokenizers(tmp_path)
    spec = override(find("nanogpt-wikitext103"), SETTINGS["nanogpt-wikitext103"])
    monkeypatch.setattr(Documents, "batches", lambda self: iter([documents(50)]))
    load_task(spec, tmp_path)
    monkeypatch.undo()
    assert len(load_task(spec, tmp_path).train) > 0


@pytest.mark.parametrize("examples", ["documents", "blocks"])
def test_streaming_reads_no_more_than_the_budget_needs(tmp_path, examples):
    spec = override(small("llama60m-c4", tmp_path), [f"data.examples={examples}"])
    task = load_task(spec, tmp_path)
    assert len(task.train) == spec.budget * spec.accumulate * spec.batch_size
    seen = [row for step in range(spec.budget) for micro in range(2) for row in task.order.indices(1, 2 * step + micro)]
    assert sorted(seen) == list(range(len(task.train)))
    whole = load_task(override(spec, ["data.streaming=false"]), tmp_path)
    assert len(whole.train) > len(task.train)


@pytest.mark.parametrize(
    ("file", "write"),
    [
        ("en/c4-train.00000-of-01024.json.gz", write_jsonl),
        ("train.jsonl", write_jsonl),
        ("data/train-00000-of-00001.parquet", write_parquet),
        ("train.txt", lambda path, texts: path.write_text("\n".join(texts))),
    ],
)
def test_local_files_are_found_as_the_hub_names_them(tmp_path, file, write):
    path = tmp_path / "c4" / file
    path.parent.mkdir(parents=True)
    write(path, documents(9))
    assert texts_of(find("llama60m-c4"), "train", tmp_path) == documents(9)


@pytest.mark.parametrize("streaming", [False, True])
def test_the_hub_route_gives_what_local_files_give(tmp_path, monkeypatch, streaming):
    """A repository of the hub is also a folder in its layout: datasets loads both alike."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    repository = tmp_path / "repository"
    for split, seed in (("train", 1), ("validation", 2)):
        write_parquet(repository / "data" / f"{split}-00000-of-00001.parquet", documents(60, seed=seed))
    monkeypatch.setitem(HUB, "slimpajama6b", HubText(str(repository)))
    spec = override(find("llama60m-slimpajama"), [f"data.streaming={streaming}"])
    assert texts_of(spec, "train", tmp_path) == documents(60, seed=1)
    assert texts_of(spec, "validation", tmp_path) == documents(60, seed=2)
    held_out = override(spec, ["data.streaming=false", "data.held_out_documents=5"])
    parts = [texts_of(held_out, split, tmp_path) for split in ("train", "validation")]
    assert [len(part) for part in parts] == [55, 5]
    assert not set(parts[0]) & set(parts[1])


def test_a_repository_with_a_part_of_its_rows_gives_way_to_a_copy(tmp_path, monkeypatch):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    for name, count in (("part", 10), ("whole", 60)):
        write_parquet(tmp_path / name / "data" / "train-00000-of-00001.parquet", documents(count))
    part, whole = str(tmp_path / "part"), str(tmp_path / "whole")
    spec = override(find("nanogpt-openwebtext"), ["data.held_out_share=0.1", "data.held_out_by=first"])
    monkeypatch.setitem(HUB, "openwebtext", HubText(part, rows={"train": 60}, copies=(whole,)))
    assert texts_of(spec, "train", tmp_path) == documents(60)[6:]
    monkeypatch.setitem(HUB, "openwebtext", HubText(part, rows={"train": 60}))
    with pytest.raises(ValueError, match="part gives 10 of the 60 rows.*: fetch"):
        texts_of(spec, "train", tmp_path)


def test_what_datasets_saves_is_read_and_a_part_is_refused(tmp_path):
    from datasets import Dataset, DatasetDict

    parts = {"train": Dataset.from_dict({"text": documents(9)}), "validation": Dataset.from_dict({"text": ["one"]})}
    DatasetDict(parts).save_to_disk(tmp_path / "wikitext103")
    spec = find("nanogpt-wikitext103")
    assert texts_of(spec, "train", tmp_path) == documents(9)
    assert texts_of(spec, "validation", tmp_path) == ["one"]
    write_parquet(tmp_path / "openwebtext" / "plain_text" / "partial-train" / "0000.parquet", documents(9))
    with pytest.raises(ValueError, match="holds only a part of the train split"):
        Documents(find("nanogpt-openwebtext").data, "train", tmp_path)


def test_a_task_travels_to_a_worker(tmp_path):
    task = load_task(small("t5small-bookcorpus", tmp_path), tmp_path)
    twin = pickle.loads(pickle.dumps(task))
    assert same(twin.batch(1, 2, 0), task.batch(1, 2, 0))
    assert same(twin.evaluation("validation")[1], task.evaluation("validation")[1])


def offline_message(name, root):
    with pytest.raises(ValueError, match="fetch") as caught:
        load_task(find(name), root)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_absent_and_offline_says_what_to_fetch_and_where_to_put_it(tmp_path):
    message = offline_message("nanogpt-wikitext103", tmp_path)
    assert "tokenizer.json of openai-community/gpt2" in message
    assert str(tmp_path / "tokenizers" / "gpt2") in message
    write_tokenizers(tmp_path)
    message = offline_message("nanogpt-wikitext103", tmp_path)
    assert "Salesforce/wikitext (wikitext-103-raw-v1)" in message
    assert str(tmp_path / "wikitext103") in message
    assert "bookcorpus/bookcorpus" in offline_message("t5small-bookcorpus", tmp_path)


def test_without_a_network_the_hub_is_not_tried_again_and_again(tmp_path, monkeypatch):
    import datasets
    import huggingface_hub

    def unknown(*_):
        raise socket.gaierror(-2, "Name or service not known")

    for module in (huggingface_hub.constants, datasets.config):
        monkeypatch.setattr(module, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    monkeypatch.setattr("oneclock.lab.data.data_dirs.getproxies", dict)
    assert "tokenizer.json of openai-community/gpt2" in offline_message("nanogpt-wikitext103", tmp_path)
    write_tokenizers(tmp_path)
    assert "Salesforce/wikitext" in offline_message("nanogpt-wikitext103", tmp_path)
    assert huggingface_hub.constants.HF_HUB_OFFLINE
    assert datasets.config.HF_HUB_OFFLINE


def test_the_folder_comes_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("ONECLOCK_DATA", str(tmp_path))
    spec = small("llama60m-slimpajama", tmp_path)
    assert load_task(spec).batch(1, 0, 0)["input_ids"].shape == (2, 32)
    with pytest.raises(ValueError, match="is a file; give a folder"):
        load_task(spec, Path(__file__))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["batch_size=100000"], "fewer than one batch of 100000"),
        (["data.length=256"], "more text|gives|blocks"),
        (["model.vocabulary=100"], "set model.vocabulary="),
        (["data.source=wikitext"], "did you mean 'wikitext103'"),
        (["data.held_out_documents=5000"], "5000 are to be held out"),
        (["data.tokenizer=nonsense"], "the tokenizer 'nonsense' is not here"),
    ],
)
def test_a_misfit_is_a_sentence(tmp_path, settings, message):
    spec = small("nanogpt-wikitext103-as-printed", tmp_path)
    if settings == ["data.length=256"]:
        write_parquet(tmp_path / "wikitext103" / "validation-00000-of-00001.parquet", documents(1))
        message = "less than one block of 256"
    with pytest.raises(ValueError, match=message):
        load_task(override(spec, settings), tmp_path)


def test_damaged_and_odd_files_are_a_sentence(tmp_path):
    spec = small("nanogpt-wikitext103", tmp_path)
    (tmp_path / "tokenizers" / "gpt2" / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match="is not a tokenizer"):
        load_task(spec, tmp_path)
    write_tokenizers(tmp_path)
    write_jsonl(tmp_path / "wikitext103" / "train.jsonl", documents(3))
    with pytest.raises(ValueError, match="more than one format"):
        load_task(spec, tmp_path)


def test_a_tokenizer_without_sentinels_cannot_corrupt_spans(tmp_path):
    spec = small("t5small-bookcorpus", tmp_path)
    with pytest.raises(ValueError, match="sentinels, and the tokenizer 'gpt2' has 0"):
        load_task(override(spec, ["data.tokenizer=gpt2"]), tmp_path)
