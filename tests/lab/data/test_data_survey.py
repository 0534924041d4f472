"""`oneclock lab data check`: what is here, what would come from where, and what is wrong, with nothing changed."""

import json

import pytest
from small_data import SETTINGS, small, write_jsonl, write_parquet

from oneclock.cli import main
from oneclock.lab.data.survey import survey
from oneclock.lab.experiments import EXPERIMENTS, find


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as stopped:
        main(["lab", "data", "check", *map(str, arguments)])
    return stopped.value.code or 0, capsys.readouterr().out


def test_where_nothing_is_here_it_says_where_all_would_come_from(capsys, tmp_path):
    code, out = run(capsys, "--data-dir", tmp_path)
    assert code == 0
    for name in EXPERIMENTS:
        assert f"\n{name}\n" in f"\n{out}"
    for origin in ("Skylion007/openwebtext or dvruette/openwebtext", "google-t5/t5-small", "ilee0022/Caltech-256"):
        assert origin in out
    assert "(about 305 GB), read only as far as the budget needs" in out
    assert all("B)" in line or "(size not known)" in line for line in out.splitlines() if "not here" in line)
    assert "rows: train 1,801,350 expected, validation 3,760 expected; columns: text\n" in out
    assert "rows: train 24,791 expected, validation 2,755 expected; columns: image, label, text\n" in out
    assert list(tmp_path.iterdir()) == []


def test_as_printed_caltech_would_come_from_its_authors(tmp_path):
    (part,) = survey(find("swint-caltech256-as-printed"), tmp_path)
    assert part.origin.startswith("256_ObjectCategories.tar of data.caltech.edu")


@pytest.mark.parametrize("name", SETTINGS)
def test_a_small_copy_is_here_and_too_small(name, tmp_path):
    spec = small(name, tmp_path)
    before = sorted(tmp_path.rglob("*"))
    data, *others = survey(spec, tmp_path)
    assert data.place is not None
    assert data.place.startswith(str(tmp_path))
    assert all(part.place for part in others if part.what.startswith("tokenizer"))
    counted = [found for _, found, _ in data.counts]
    assert len(counted) == (1 if name.startswith(("nanogpt-openwebtext", "t5")) else 2)
    if spec.data.source not in ("c4", "slimpajama6b", "bookcorpus"):  # whose files do not say how many rows they have
        assert "fetch all of it" in str(data.problem) or name == "swint-caltech256-as-printed"
    assert sorted(tmp_path.rglob("*")) == before


def test_the_command_fails_where_something_is_wrong(capsys, tmp_path):
    small("nanogpt-wikitext103", tmp_path)
    code, out = run(capsys, "nanogpt-wikitext103", "--data-dir", tmp_path)
    assert code == 1
    assert "rows: train 120 (1,801,350 expected), validation 30 (3,760 expected)" in out
    assert "WRONG: wikitext103 has 120 of about 1,801,350 rows in its train split" in out
    code, out = run(capsys, "nanogpt-wikitext103", "--data-dir", tmp_path, "--json")
    assert code == 1
    data, tokenizer = json.loads(out)["nanogpt-wikitext103"]
    assert data["counts"][0] == ["train", 120, 1_801_350]
    assert tokenizer["problem"] is None


def test_a_missing_split_a_wrong_column_and_a_part_are_named(tmp_path):
    spec = find("nanogpt-wikitext103")
    small("nanogpt-wikitext103", tmp_path)
    (tmp_path / "wikitext103" / "validation-00000-of-00001.parquet").unlink()
    assert "wikitext103 has no validation split" in str(survey(spec, tmp_path)[0].problem)
    write_parquet(tmp_path / "wikitext103" / "validation-00000-of-00001.parquet", ["a"])
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"words": ["a"]}), tmp_path / "wikitext103" / "train-00000-of-00001.parquet")
    assert "(train) has no column 'text', only words" in str(survey(spec, tmp_path)[0].problem)
    write_parquet(tmp_path / "openwebtext" / "plain_text" / "partial-train" / "0000.parquet", ["a"])
    assert "holds only a part of the train split" in str(survey(find("nanogpt-openwebtext"), tmp_path)[0].problem)
    wrong = tmp_path / "slimpajama6b" / "train.jsonl"
    write_jsonl(wrong, ["a"])
    write_jsonl(wrong.with_name("validation.jsonl"), ["a"])
    assert survey(find("llama60m-slimpajama"), tmp_path)[0].problem is None
    wrong.write_text('{"words": "a"}\n')
    assert "(train) has no column 'text', only words" in str(survey(find("llama60m-slimpajama"), tmp_path)[0].problem)
    write_jsonl(tmp_path / "wikitext103" / "train.jsonl", ["a"])
    assert "more than one format" in str(survey(spec, tmp_path)[0].problem)


def test_tables_of_images_are_counted_and_their_classes(tmp_path):
    small("swint-caltech256", tmp_path)
    (part,) = survey(find("swint-caltech256"), tmp_path)
    assert part.counts == (("train", 24, 24_791), ("validation", 12, 2_755))
    assert part.columns == ("image", "label", "text")
    assert part.problem == f"{tmp_path / 'caltech256'} has 3 classes, and the experiment 256: fetch all of it"
    shard = tmp_path / "caltech256" / "data" / "train-00000-of-00001.parquet"
    shard.write_bytes(shard.read_bytes()[:-100])
    assert "cannot be read" in str(survey(find("swint-caltech256"), tmp_path)[0].problem)


def test_what_datasets_saved_is_counted(tmp_path):
    from datasets import Dataset, DatasetDict

    parts = {"train": Dataset.from_dict({"text": ["a", "b"]}), "validation": Dataset.from_dict({"text": ["c"]})}
    DatasetDict(parts).save_to_disk(tmp_path / "wikitext103")
    part, _ = survey(find("nanogpt-wikitext103"), tmp_path)
    assert part.counts == (("train", 2, 1_801_350), ("validation", 1, 3_760))


def test_what_datasets_keeps_of_the_hub_is_found_and_counted(tmp_path, monkeypatch):
    """The cache is made by datasets of a local repository and given the name it has for one of the hub; by that name
    datasets itself finds it again."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    for split in ("train", "validation"):
        write_parquet(tmp_path / "SlimPajama-6B" / "data" / f"{split}-00000-of-00001.parquet", ["a", "b"])
    datasets.load_dataset(str(tmp_path / "SlimPajama-6B"))
    (folder,) = (path for path in (tmp_path / "cache").iterdir() if path.is_dir())
    folder.rename(folder.with_name(f"DKYoon___{folder.name}"))
    assert datasets.load_dataset("DKYoon/SlimPajama-6B", split="train").num_rows == 2
    part, _ = survey(find("llama60m-slimpajama"), tmp_path / "data")
    assert part.place is not None
    assert "DKYoon___" in part.place
    assert part.counts == (("train", 2, 5_489_000), ("validation", 2, 9_347))
    assert "has 2 of about 5,489,000 rows in its train split" in str(part.problem)
    assert survey(find("nanogpt-wikitext103"), tmp_path / "data")[0].place is None


def test_a_part_of_a_stream_is_not_wrong(tmp_path):
    for split in ("train", "validation"):
        write_parquet(tmp_path / "c4" / f"{split}-00000-of-00001.parquet", ["a", "b"])
    part, _ = survey(find("llama60m-c4"), tmp_path)
    assert part.counts == (("train", 2, None), ("validation", 2, None))
    assert part.problem is None
