"""Images as a task: the layouts of the sources, splits, augmentation, and errors in one line."""

import hashlib
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from small_data import SETTINGS, WRITERS, small, write_image

from oneclock.data import load
from oneclock.data.image_sources import TensorImages, hub_images, open_images, split_per_class
from oneclock.data.images import evaluation_transform, training_transform
from oneclock.experiments import find, override
from oneclock.models import build

from torchvision import datasets as zoo  # isort: skip
from torchvision.transforms import v2  # isort: skip

IMAGES = [name for name in SETTINGS if not name.startswith(("nanogpt", "llama", "t5"))]


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize("name", IMAGES)
def test_batches_are_a_function_of_seed_step_and_micro(name, tmp_path):
    spec = replace(small(name, tmp_path), accumulate=2)
    first, second = load(spec, tmp_path), load(spec, tmp_path)
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
    task = load(spec, tmp_path)
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
    task = load(spec, tmp_path)
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
    assert chain["Normalize"].mean == [0.485, 0.456, 0.406]
    assert chain["Normalize"].std == [0.229, 0.224, 0.225]
    if "RandAugment" in chain:
        assert (chain["RandAugment"].num_ops, chain["RandAugment"].magnitude) == plan.rand_augment
        assert chain["RandomErasing"].p == plan.random_erasing
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


def test_caltech_trains_on_sixty_of_each_class_and_validates_on_the_rest():
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


def test_caltech_split_of_the_task(tmp_path):
    spec = small("swint-caltech256", tmp_path)
    train, validation = open_images(spec.data, tmp_path)
    assert (len(train), len(validation)) == (3 * 4, 7 + 8 + 9 - 3 * 4)
    assert not set(train.indices) & set(validation.indices)


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
    settings = ["data.augmentation=none", "model.image=32", "batch_size=3", "data.mean=0,0,0", "data.std=1,1,1"]
    task = load(override(find("vitb16-cifar100"), settings), tmp_path)
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
    task = load(spec, tmp_path)
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
    read = hub_images(str(repository), "validation")
    train, validation = read(tmp_path, find("vitb16-tinyimagenet").data)
    assert (len(train), len(validation)) == (3, 3)
    for pictures in (train, validation):
        for image, label in (pictures[number] for number in range(3)):
            assert np.asarray(image).mean((0, 1)).argmax() == label
    with pytest.raises(OSError, match="."):
        hub_images(str(tmp_path / "absent"), "validation")(tmp_path, find("vitb16-tinyimagenet").data)


@pytest.mark.parametrize("name", ["vitb16-cifar100", "swint-caltech256"])
def test_a_task_travels_to_a_worker(name, tmp_path):
    task = load(small(name, tmp_path), tmp_path)
    twin = pickle.loads(pickle.dumps(task))
    assert same(twin.batch(1, 2, 0), task.batch(1, 2, 0))
    assert same(twin.evaluation("validation")[1], task.evaluation("validation")[1])


@pytest.mark.parametrize("name", IMAGES)
def test_absent_and_offline_says_what_to_fetch_and_where_to_put_it(name, tmp_path):
    with pytest.raises(ValueError, match="fetch") as caught:
        load(find(name), tmp_path)
    message = str(caught.value)
    assert "\n" not in message
    assert str(tmp_path) in message
    assert "is not here and could not be downloaded" in message


def test_misfits_are_sentences(tmp_path):
    spec = small("resnet50-food101", tmp_path)
    with pytest.raises(ValueError, match="fewer than one batch of 1000"):
        load(override(spec, ["batch_size=1000"]), tmp_path)
    with pytest.raises(ValueError, match="did you mean 'food101'"):
        load(override(spec, ["data.source=food11"]), tmp_path)
    with pytest.raises(ValueError, match="set model.classes"):
        list(load(override(spec, ["model.classes=2"]), tmp_path).evaluation("validation"))
    WRITERS["cifar100"](tmp_path)
    (tmp_path / "cifar100" / "val" / "class0").rename(tmp_path / "cifar100" / "val" / "odd")
    with pytest.raises(ValueError, match="differ in their classes, first 'class0'"):
        load(find("vitb16-cifar100"), tmp_path)
