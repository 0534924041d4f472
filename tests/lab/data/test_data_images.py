"""Images as a task: the layouts of the sources, splits, augmentation, and errors in one line."""

import hashlib
import pickle
import random
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from small_data import SETTINGS, WRITERS, small, write_image

from oneclock.lab.data import load_task
from oneclock.lab.data.image_sources import open_images
from oneclock.lab.data.image_tables import HubImages
from oneclock.lab.data.imagenet100 import CLASSES
from oneclock.lab.data.images import evaluation_transform, training_transform
from oneclock.lab.data.pictures import TensorImages, split_per_class
from oneclock.lab.experiments import find, override
from oneclock.lab.models import build

from torchvision import datasets as zoo  # isort: skip
from torchvision.transforms import v2  # isort: skip

IMAGES = [name for name in SETTINGS if not name.startswith(("nanogpt", "llama", "t5"))]


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize("name", IMAGES)
def test_batches_are_a_function_of_seed_step_and_micro(name, tmp_path):
    spec = replace(small(name, tmp_path), accumulate=2)
    first, second = load_task(spec, tmp_path), load_task(spec, tmp_path)
    places = [(1, 0, 0), (1, 0, 1), (1, 7, 1), (2, 0, 0)]
    batches = [first.batch(*place) for place in places]
    state = torch.get_rng_state()
    for place, batch in reversed(list(zip(places, batches, strict=True))):
        assert same(second.batch(*place), batch)
    assert torch.equal(torch.get_rng_state(), state)
    assert not any(same(batches[0], batch) for batch in batches[1:])
    assert batches[0]["images"].shape == (4, 3, 32, 32)
    assert batches[0]["images"].dtype == torch.float32


@pytest.mark.parametrize("name", IMAGES)
def test_the_colour_of_each_image_tells_its_class(name, tmp_path):
    """Labels belong to their images: class k is brightest in channel k in the small data."""
    spec = small(name, tmp_path)
    task = load_task(spec, tmp_path)
    for split, pictures in (("train", task.train), ("validation", task.validation)):
        count = 0
        for batch in task.evaluation(split):
            pixels = batch["images"] * torch.tensor(spec.data.std)[:, None, None]
            channels = (pixels + torch.tensor(spec.data.mean)[:, None, None]).mean((2, 3))
            assert channels.argmax(1).tolist() == batch["labels"].tolist()
            count += task.weight(batch)
        assert count == len(pictures)


@pytest.mark.parametrize("name", IMAGES)
def test_evaluation_is_fixed_and_labels_are_smoothed_in_training_only(name, tmp_path):
    spec = small(name, tmp_path)
    task = load_task(spec, tmp_path)
    first, second = list(task.evaluation("validation")), list(task.evaluation("validation"))
    assert all(map(same, first, second))
    torch.manual_seed(0)
    model = build(spec.model).eval()
    with torch.no_grad():
        plain = task.loss(model, first[0], training=False)
        smoothed = task.loss(model, first[0], training=True)
        logits = model(first[0]["images"])
    right = logits.log_softmax(1)[torch.arange(len(logits)), first[0]["labels"]]
    share = find(name).label_smoothing
    assert share > 0
    assert torch.allclose(plain, -right.mean())
    assert torch.allclose(smoothed, -(1 - share) * right.mean() - share * logits.log_softmax(1).mean())


CHAINS = {
    "food101": [
        "ToImage", "RandomResizedCrop", "RandomHorizontalFlip", "ColorJitter", "ToDtype", "Normalize", "ToPureTensor",
    ],
    "cifar100": [
        "ToImage", "RandomResizedCrop", "RandomHorizontalFlip", "RandAugment", "ToDtype", "Normalize", "RandomErasing",
        "ToPureTensor",
    ],
    "cars": [
        "ToImage", "RandomResizedCrop", "RandomHorizontalFlip", "ColorJitter", "RandAugment", "ToDtype", "Normalize",
        "RandomErasing", "ToPureTensor",
    ],
}  # fmt: skip
CHAIN_OF = {
    "resnet50-food101": "food101",
    "resnet50-imagenet100": "food101",
    "vitb16-cifar100": "cifar100",
    "vitb16-tinyimagenet": "cifar100",
    "swint-caltech256": "cifar100",
    "efficientnetb0-cars": "cars",
}


@pytest.mark.parametrize("name", CHAIN_OF)
def test_the_chain_of_augmentations(name):
    spec = find(name)
    plan = spec.data.augmentation
    chain = {type(step).__name__: step for step in training_transform(spec.data).transforms}
    assert list(chain) == CHAINS[CHAIN_OF[name]]
    assert chain["RandomResizedCrop"].size == (224, 224)
    assert chain["RandomResizedCrop"].scale == plan.scale
    assert chain["RandomResizedCrop"].ratio == plan.ratio
    cifar = name == "vitb16-cifar100"
    assert chain["Normalize"].mean == ([0.5071, 0.4867, 0.4408] if cifar else [0.485, 0.456, 0.406])
    assert chain["Normalize"].std == ([0.2675, 0.2565, 0.2761] if cifar else [0.229, 0.224, 0.225])
    if "RandAugment" in chain:
        assert (chain["RandAugment"].num_ops, chain["RandAugment"].magnitude) == plan.rand_augment
        erasing = chain["RandomErasing"]
        assert erasing.p == plan.random_erasing
        assert (erasing.scale, erasing.ratio) == (plan.erasing_area, plan.erasing_aspect)
        assert erasing.value is None  # which is noise
    if "ColorJitter" in chain:
        brightness, contrast, saturation, hue = plan.color_jitter
        assert chain["ColorJitter"].brightness == (1 - brightness, 1 + brightness)
        assert chain["ColorJitter"].contrast == (1 - contrast, 1 + contrast)
        assert chain["ColorJitter"].saturation == (1 - saturation, 1 + saturation)
        assert chain["ColorJitter"].hue == (-hue, hue)
    steps = evaluation_transform(spec.data).transforms
    assert [type(step) for step in steps] == [
        v2.ToImage, v2.Resize, v2.CenterCrop, v2.ToDtype, v2.Normalize, v2.ToPureTensor
    ]  # fmt: skip
    assert (steps[1].size, steps[2].size) == ([256], (224, 224))


def test_a_split_per_class_has_so_many_of_each_and_validates_on_the_rest():
    labels = np.repeat(np.arange(257), [80 + number % 50 for number in range(257)])
    rng = np.random.default_rng(0)
    rng.shuffle(labels)
    train, validation = split_per_class(labels, 60, seed=123)
    assert np.bincount(labels[train]).tolist() == [60] * 257
    assert sorted([*train, *validation]) == list(range(len(labels)))
    assert (split_per_class(labels, 60, seed=123)[0] == train).all()
    assert (split_per_class(labels, 60, seed=124)[0] != train).any()
    with pytest.raises(ValueError, match="leave none to validate"):
        split_per_class(labels, 80, seed=123)


def test_caltech_as_printed_draws_from_each_class_with_pythons_generator(tmp_path):
    spec = small("swint-caltech256-as-printed", tmp_path)
    train, validation = open_images(spec.data, tmp_path)
    assert (len(train), len(validation)) == (3 * 4, 7 + 8 + 9 - 3 * 4)
    assert not set(train.paths) & set(validation.paths)
    draw, folder = random.Random(123), tmp_path / "caltech256" / "256_ObjectCategories"
    for label, name in enumerate(("001.ak47", "002.american-flag", "003.backpack")):
        files = sorted((folder / name).iterdir())
        draw.shuffle(files)
        chosen = [path for path, number in zip(train.paths, train.labels, strict=True) if number == label]
        assert chosen == files[:4]


def test_of_a_small_class_four_fifths_train(tmp_path):
    spec = small("swint-caltech256-as-printed", tmp_path)
    train, validation = open_images(override(spec, ["data.train_per_class=8"]).data, tmp_path)
    assert np.bincount(train.labels).tolist() == [5, 6, 8]
    assert np.bincount(validation.labels).tolist() == [2, 2, 1]


def test_caltech_as_run_has_the_split_of_its_copy_and_no_clutter(tmp_path):
    train, validation = open_images(small("swint-caltech256", tmp_path).data, tmp_path)
    assert np.bincount(train.labels).tolist() == [6, 6, 6]
    assert np.bincount(validation.labels).tolist() == [3, 3, 3]
    everything, _ = open_images(replace(find("swint-caltech256").data, leave_out=()), tmp_path)
    assert len(everything) == 24


def test_caltech_as_run_does_not_take_a_set_without_a_split(tmp_path):
    WRITERS["caltech256-as-printed"](tmp_path)
    with pytest.raises(ValueError, match="has no split of its own.*swint-caltech256-as-printed"):
        open_images(find("swint-caltech256").data, tmp_path)


def test_caltech_as_printed_does_not_take_a_copy_that_is_divided_otherwise(tmp_path):
    WRITERS["caltech256"](tmp_path)
    spec = override(find("swint-caltech256-as-printed"), SETTINGS["swint-caltech256-as-printed"]).data
    with pytest.raises(ValueError, match=r"fetch 256_ObjectCategories.tar of data.caltech.edu and put it into"):
        open_images(spec, tmp_path)
    for part, count in (("train", 5), ("val", 2)):
        for number in range(count):
            write_image(tmp_path / "caltech256" / part / "ak47" / f"{number}.png", 0, number)
    with pytest.raises(ValueError, match=r"has 5 images of the class 'ak47', and the experiment trains on 4 of each"):
        open_images(spec, tmp_path)


def test_a_set_with_a_split_of_its_own_is_not_divided_again(tmp_path):
    spec = override(small("resnet50-food101", tmp_path), ["data.train_per_class=2"])
    with pytest.raises(ValueError, match=r"food101 has a split of its own: data.train_per_class must be none"):
        open_images(spec.data, tmp_path)


def test_tables_are_read_as_datasets_saves_them(tmp_path):
    """The form in which the authors had Caltech-256: a folder of each split, with Arrow files."""
    from datasets import load_dataset

    WRITERS["caltech256"](tmp_path / "hub")
    rows = load_dataset(str(tmp_path / "hub" / "caltech256"), cache_dir=str(tmp_path / "cache"))
    rows.save_to_disk(tmp_path / "saved" / "caltech256")
    for root in (tmp_path / "hub", tmp_path / "saved"):
        train, validation = open_images(find("swint-caltech256").data, root)
        assert np.bincount(train.labels).tolist() == [6, 6, 6]
        assert np.bincount(validation.labels).tolist() == [3, 3, 3]
        assert np.asarray(train[4][0]).mean((0, 1)).argmax() == train[4][1]


def write_imagenet_tables(root, names):
    """As the hub's copy, which divides the training images in two and names classes in a column."""
    import pyarrow.parquet as pq

    WRITERS["caltech256"](root)
    (root / "caltech256").rename(root / "imagenet100")
    for path in (root / "imagenet100").rglob("*.parquet"):
        table = pq.read_table(path)
        spelled = [names[label - 1] for label in table["label"].to_pylist()]
        pq.write_table(table.set_column(2, "text", [spelled]), path)


def test_tables_of_imagenet100_lie_where_its_folders_would(tmp_path):
    write_imagenet_tables(tmp_path, ["tench", "goldfish, Carassius auratus", "great_white_shark", "a fish unheard of"])
    train, validation = open_images(find("resnet50-imagenet100").data, tmp_path)
    assert (len(train), len(validation)) == (4 * (6 + 3), 4 * 2)


def test_another_choice_of_a_hundred_classes_is_not_imagenet100(tmp_path):
    write_imagenet_tables(tmp_path / "tables", ["tench", "bonnet", "langur", "window screen"])
    with pytest.raises(ValueError, match=r"imagenet100 has 3 classes that do not belong to it, first 'bonnet'"):
        open_images(find("resnet50-imagenet100").data, tmp_path / "tables")
    WRITERS["imagenet100"](tmp_path)
    for part in ("train.X1", "val.X"):
        (tmp_path / "imagenet100" / part / "n01440764").rename(tmp_path / "imagenet100" / part / "n02869837")
    with pytest.raises(ValueError, match=r"has a class 'n02869837' that is not in Kaggle's ImageNet100"):
        open_images(find("resnet50-imagenet100").data, tmp_path)


def test_the_hundred_classes_of_imagenet100_are_a_hundred():
    assert len(CLASSES) == len(set(CLASSES.values())) == 100


def write_cifar(root, monkeypatch):
    """The pickles in which CIFAR-100 is distributed; torchvision checks their md5, which is the small files' here."""
    folder = root / "cifar-100-python"
    folder.mkdir()
    rng = np.random.default_rng(0)
    images = {name: rng.integers(0, 256, (6, 3072), dtype=np.uint8) for name in ("train", "test")}
    contents = {name: {"data": data, "fine_labels": [5, 4, 3, 2, 1, 0]} for name, data in images.items()}
    contents["meta"] = {"fine_label_names": [str(number) for number in range(6)]}
    sums = {}
    for name, content in contents.items():
        (folder / name).write_bytes(pickle.dumps(content))
        sums[name] = hashlib.md5((folder / name).read_bytes()).hexdigest()
    monkeypatch.setattr(zoo.CIFAR100, "train_list", [["train", sums["train"]]])
    monkeypatch.setattr(zoo.CIFAR100, "test_list", [["test", sums["test"]]])
    monkeypatch.setattr(zoo.CIFAR100, "meta", zoo.CIFAR100.meta | {"md5": sums["meta"]})
    return images


def test_cifar_as_it_is_distributed(tmp_path, monkeypatch):
    images = write_cifar(tmp_path, monkeypatch)
    train, validation = open_images(find("vitb16-cifar100").data, tmp_path)
    assert isinstance(train, TensorImages)
    assert train.images.shape == (6, 3, 32, 32)
    assert train.images[1].flatten().tolist() == images["train"][1].tolist()
    assert validation[2][1] == 3
    (tmp_path / "cifar-100-python" / "train").write_bytes(b"torn")
    with pytest.raises(ValueError, match=r"cifar-100-python: .*not found or corrupted"):
        open_images(find("vitb16-cifar100").data, tmp_path)


def test_images_in_memory_without_augmentation_are_only_normalized(tmp_path, monkeypatch):
    write_cifar(tmp_path, monkeypatch)
    settings = [
        "data.augmentation=none",
        "model.classes=6",
        "model.image=32",
        "batch_size=3",
        "data.mean=0,0,0",
        "data.std=1,1,1",
    ]
    task = load_task(override(find("vitb16-cifar100"), settings), tmp_path)
    raw, _ = open_images(find("vitb16-cifar100").data, tmp_path)
    batch = task.batch(1, 0, 0)
    chosen = task.order.indices(1, 0).tolist()
    assert torch.allclose(batch["images"] * 255, raw.images[chosen].float())
    assert batch["labels"].tolist() == raw.labels[chosen].tolist()


@pytest.mark.parametrize("name", IMAGES)
def test_class_folders_do_for_every_source_with_a_split(name, tmp_path):
    spec = override(find(name), SETTINGS[name])
    for part, count in (("train", 4), ("val", 2)):
        for label in range(3):
            for number in range(count):
                write_image(tmp_path / spec.data.source / part / f"c{label}" / f"{number}.png", label, number)
    task = load_task(spec, tmp_path)
    assert (len(task.train), len(task.validation)) == (12, 6)
    assert set(torch.cat([batch["labels"] for batch in task.evaluation("validation")]).tolist()) == {0, 1, 2}


def test_the_hub_route_gives_images_and_labels(tmp_path, monkeypatch):
    """A repository of the hub is also a folder in its layout: datasets loads both alike."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    repository = tmp_path / "repository"
    for part in ("train", "valid"):
        for label in range(3):
            write_image(repository / part / f"c{label}" / "0.png", label, 0)
    data = find("vitb16-tinyimagenet").data
    train, validation = HubImages(str(repository)).read(data)
    assert (len(train), len(validation)) == (3, 3)
    for pictures in (train, validation):
        for image, label in (pictures[number] for number in range(3)):
            assert np.asarray(image).mean((0, 1)).argmax() == label
    with pytest.raises(OSError, match="."):
        HubImages(str(tmp_path / "absent")).read(data)
    with pytest.raises(ValueError, match=r"gives 3 of the 9 rows of its train split: put a whole copy of tinyimagenet"):
        HubImages(str(repository), rows={"train": 9}).read(data)
    with pytest.raises(ValueError, match=r"has no column 'picture', only image, label: it is not a copy of"):
        HubImages(str(repository), image="picture").read(data)


@pytest.mark.parametrize("name", ["vitb16-cifar100", "swint-caltech256"])
def test_a_task_travels_to_a_worker(name, tmp_path):
    task = load_task(small(name, tmp_path), tmp_path)
    twin = pickle.loads(pickle.dumps(task))
    assert same(twin.batch(1, 2, 0), task.batch(1, 2, 0))
    assert same(twin.evaluation("validation")[1], task.evaluation("validation")[1])


@pytest.mark.parametrize("name", IMAGES)
def test_absent_and_offline_says_what_to_fetch_and_where_to_put_it(name, tmp_path):
    with pytest.raises(ValueError, match="fetch") as caught:
        load_task(find(name), tmp_path)
    message = str(caught.value)
    assert "\n" not in message
    assert str(tmp_path) in message
    assert "is not here and could not be downloaded" in message


def test_misfits_are_sentences(tmp_path):
    spec = small("resnet50-food101", tmp_path)
    with pytest.raises(ValueError, match="fewer than one batch of 1000"):
        load_task(override(spec, ["batch_size=1000"]), tmp_path)
    with pytest.raises(ValueError, match="did you mean 'food101'"):
        load_task(override(spec, ["data.source=food11"]), tmp_path)
    with pytest.raises(ValueError, match="set model.classes"):
        load_task(override(spec, ["model.classes=2"]), tmp_path)
    with pytest.raises(ValueError, match=r"food101 has 3 classes to train on.*and the model 101"):
        load_task(override(spec, ["model.classes=101"]), tmp_path)
    WRITERS["cifar100"](tmp_path)
    (tmp_path / "cifar100" / "val" / "class0").rename(tmp_path / "cifar100" / "val" / "odd")
    with pytest.raises(ValueError, match="differ in their classes, first 'class0'"):
        load_task(find("vitb16-cifar100"), tmp_path)


def sorted_validation(root):
    """TinyImageNet's validation images moved into class folders, as many people have them."""
    folder = root / "tiny-imagenet-200" / "val"
    for line in (folder / "val_annotations.txt").read_text().splitlines():
        file, name = line.split("\t")[:2]
        (folder / name / "images").mkdir(parents=True, exist_ok=True)
        (folder / "images" / file).rename(folder / name / "images" / file)
    (folder / "images").rmdir()
    (folder / "val_annotations.txt").unlink()


def test_tinyimagenet_with_its_validation_in_folders_is_the_same(tmp_path):
    spec = small("vitb16-tinyimagenet", tmp_path)
    before = open_images(spec.data, tmp_path)[1]
    sorted_validation(tmp_path)
    after = open_images(spec.data, tmp_path)[1]
    assert {(path.name, label) for path, label in zip(before.paths, before.labels, strict=True)} == {
        (path.name, label) for path, label in zip(after.paths, after.labels, strict=True)
    }


def test_imagenet100_below_kagglehubs_versions(tmp_path):
    spec = small("resnet50-imagenet100", tmp_path)
    before = open_images(spec.data, tmp_path)
    (tmp_path / "imagenet100").rename(tmp_path / "moved")
    versions = tmp_path / "imagenet100" / "datasets" / "ambityga" / "imagenet100" / "versions"
    for number in ("8", "10"):
        (versions / number / "train.X1" / "n0" if number == "8" else versions).mkdir(parents=True, exist_ok=True)
    (tmp_path / "moved").rename(versions / "10")
    after = open_images(spec.data, tmp_path)
    assert [len(part) for part in after] == [len(part) for part in before] == [18, 9]
    assert [list(part.labels) for part in after] == [list(part.labels) for part in before]


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("vitb16-tinyimagenet", lambda root: remove(root / "tiny-imagenet-200/val/val_annotations.txt"), "is missing"),
        ("vitb16-tinyimagenet", lambda root: remove(root / "tiny-imagenet-200/val/images/val_1.JPEG"), "val_1.JPEG"),
        ("vitb16-tinyimagenet", lambda root: empty(root / "tiny-imagenet-200/train"), "holds no class folders"),
        ("resnet50-imagenet100", lambda root: empty(root / "imagenet100/val.X"), "holds no class folders"),
        ("resnet50-imagenet100", lambda root: empty(root / "imagenet100/val.X/n01440764"), "holds no images"),
        ("resnet50-imagenet100", lambda root: remove(root / "imagenet100/val.X/n01440764"), "first 'n01440764'"),
        ("resnet50-imagenet100", lambda root: empty(root / "imagenet100"), "no train.X1 to train.X4"),
        ("resnet50-food101", lambda root: remove(root / "food-101/meta/test.json"), "food-101"),
        ("efficientnetb0-cars", lambda root: remove(root / "stanford_cars/cars_test"), "stanford_cars"),
        ("swint-caltech256", lambda root: cut(root / "caltech256/data/train-00000-of-00001.parquet"), "fetch it again"),
        ("swint-caltech256", lambda root: remove(root / "caltech256/data/validation-00000-of-00001.parquet"), "valid"),
        ("vitb16-cifar100", lambda root: empty(root / "cifar100/train"), "holds no class folders"),
        ("vitb16-cifar100", lambda root: remove(root / "cifar100/val"), "none to validate with"),
        ("vitb16-cifar100", lambda root: remove(root / "cifar100/train/class2"), "differ in their classes"),
    ],
)
def test_bad_images_are_one_clear_line(name, damage, message, tmp_path):
    spec = small(name, tmp_path)
    damage(tmp_path)
    with pytest.raises(ValueError, match=message) as caught:
        load_task(spec, tmp_path)
    assert "\n" not in str(caught.value)


def remove(path):
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def empty(path):
    remove(path)
    path.mkdir()


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def test_half_a_download_is_not_taken_for_the_whole(tmp_path, monkeypatch):
    """A download that breaks off leaves nothing, and what a killed one has left is removed."""
    monkeypatch.delenv("HF_HUB_OFFLINE")
    (tmp_path / ".food101.download" / "food-101").mkdir(parents=True)
    fetched = []

    def broken(root, *rest, download=False):
        fetched.append(root)
        assert not root.exists()
        (root / "food-101").mkdir(parents=True)
        raise OSError("connection reset")

    monkeypatch.setattr(zoo, "Food101", broken)
    with pytest.raises(ValueError, match=r"food101 is not here and could not be downloaded \(connection reset\)"):
        load_task(find("resnet50-food101"), tmp_path)
    assert len(fetched) == 1
    assert [path.name for path in tmp_path.iterdir()] == [".food101.lock"]
