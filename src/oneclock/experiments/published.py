"""The eleven experiments of the paper's appendix "Experimental Details", in the order of its tables.

Where the appendix leaves a setting open, the value here is a choice: `oneclock.experiments.notes` names each.
"""

from __future__ import annotations

from dataclasses import replace

from oneclock.experiments.spec import (
    GPT2,
    T5,
    Augmentation,
    EfficientNet,
    Evaluation,
    Experiment,
    Images,
    Llama,
    Optimizer,
    ResNet,
    Schedule,
    SpanCorruption,
    Swin,
    Text,
    ViT,
)

_nanogpt_wikitext103 = Experiment(
    name="nanogpt-wikitext103",
    title="NanoGPT on WikiText-103",
    split="development",
    model=GPT2(),
    data=Text("wikitext103", tokenizer="gpt2"),
    objective="next-token",
    optimizer=Optimizer("adamw", lr=6e-4, weight_decay=0.01, decay="weights", clip=1.0),
    schedule=Schedule(min_lr=6e-6, warmup_steps=2000),
    evaluation=Evaluation(every=500, batches=50, train_loss="fixed"),
    budget=10_000,
    batch_size=8,
    accumulate=128,
    t_es=6_000,
)
_nanogpt_openwebtext = replace(
    _nanogpt_wikitext103,
    name="nanogpt-openwebtext",
    title="NanoGPT on OpenWebText",
    data=Text("openwebtext", tokenizer="gpt2", held_out_documents=4_007),
    t_es=10_000,
)
_llama60m_c4 = Experiment(
    name="llama60m-c4",
    title="Llama60M on C4",
    split="development",
    model=Llama(),
    data=Text("c4", tokenizer="t5-base", streaming=True),
    objective="next-token",
    optimizer=Optimizer("adam", lr=1e-3, weight_decay=1e-5, decay="all"),
    schedule=Schedule(min_lr=1e-4, warmup_steps=1000),
    evaluation=Evaluation(every=1000, at_start=True, tokens=10_000_000),
    budget=10_000,
    batch_size=64,
    accumulate=8,
    t_es=10_000,
)
_llama60m_slimpajama = replace(
    _llama60m_c4,
    name="llama60m-slimpajama",
    title="Llama60M on SlimPajama-6B",
    data=Text("slimpajama6b", tokenizer="t5-base"),
)
_vitb16_cifar100 = Experiment(
    name="vitb16-cifar100",
    title="ViT-B/16 on CIFAR-100",
    split="development",
    model=ViT(classes=100),
    data=Images("cifar100", Augmentation(scale=(0.5, 1.0), rand_augment=(2, 12), random_erasing=0.25)),
    optimizer=Optimizer("adamw", lr=5e-4, weight_decay=0.1, decay="weights", clip=1.0),
    schedule=Schedule(min_lr=5e-6, warmup_steps=1000),
    evaluation=Evaluation(every=390),
    budget=19_500,
    batch_size=128,
    label_smoothing=0.1,
    t_es=20_000,
)
_vitb16_tinyimagenet = replace(
    _vitb16_cifar100,
    name="vitb16-tinyimagenet",
    title="ViT-B/16 on TinyImageNet",
    model=ViT(classes=200),
    data=replace(_vitb16_cifar100.data, source="tinyimagenet"),
    evaluation=Evaluation(every=781),
    budget=39_050,
    t_es=30_000,
)
_resnet50_food101 = Experiment(
    name="resnet50-food101",
    title="ResNet50 on Food-101",
    split="development",
    model=ResNet(classes=101),
    data=Images("food101", Augmentation(scale=(0.6, 1.0), color_jitter=(0.2, 0.2, 0.2, 0.1))),
    optimizer=Optimizer("adamw", lr=3e-4, weight_decay=0.01, decay="weights"),
    schedule=Schedule(min_lr=3e-5, warmup_share=0.05),
    evaluation=Evaluation(every=591),
    budget=29_550,
    batch_size=128,
    label_smoothing=0.1,
    t_es=30_000,
)
_resnet50_imagenet100 = replace(
    _resnet50_food101,
    name="resnet50-imagenet100",
    title="ResNet50 on ImageNet100",
    model=ResNet(classes=100),
    data=replace(_resnet50_food101.data, source="imagenet100"),
    evaluation=Evaluation(every=1015),
    budget=81_200,
    t_es=40_000,
)
_efficientnetb0_cars = Experiment(
    name="efficientnetb0-cars",
    title="EfficientNet-B0 on Stanford Cars",
    split="heldout",
    model=EfficientNet(classes=196),
    data=Images(
        "cars",
        Augmentation(
            scale=(0.7, 1.0),
            ratio=(0.85, 1.15),
            color_jitter=(0.1, 0.1, 0.1, 0.05),
            rand_augment=(1, 7),
            random_erasing=0.1,
        ),
    ),
    optimizer=Optimizer("adam", lr=8e-4, weight_decay=5e-5, decay="all", clip=1.0),
    schedule=Schedule(min_lr=1e-5, warmup_steps=100, warmup_share=0.05),
    evaluation=Evaluation(every=128),
    budget=12_800,
    batch_size=64,
    label_smoothing=0.05,
    drop_last=False,
    t_es=10_000,
)
_t5small_bookcorpus = Experiment(
    name="t5small-bookcorpus",
    title="T5-small on BookCorpus",
    split="heldout",
    model=T5(),
    data=Text("bookcorpus", tokenizer="t5-small", held_out_documents=20_000),
    objective="span-corruption",
    span_corruption=SpanCorruption(noise_density=0.15, mean_span_length=3.0),
    optimizer=Optimizer("adamw", lr=1e-4, weight_decay=0.01, decay="all", clip=1.0),
    schedule=Schedule(min_lr=1e-5, warmup_share=0.1),
    evaluation=Evaluation(every=1000, batch_size=8),
    budget=10_000,
    batch_size=8,
    accumulate=8,
    seeds=(1,),
    t_es=10_000,
)
_swint_caltech256 = Experiment(
    name="swint-caltech256",
    title="Swin-T on Caltech-256",
    split="heldout",
    model=Swin(classes=257),
    data=Images(
        "caltech256",
        Augmentation(scale=(0.5, 1.0), rand_augment=(2, 12), random_erasing=0.25),
        train_per_class=60,
        split_seed=123,
    ),
    optimizer=Optimizer("adamw", lr=4e-4, weight_decay=0.05, decay="weights", clip=1.0),
    schedule=Schedule(min_lr=4e-6, warmup_steps=100, warmup_share=0.05),
    evaluation=Evaluation(every=376),
    budget=22_560,
    batch_size=64,
    label_smoothing=0.1,
    drop_last=False,
    t_es=20_000,
)

PUBLISHED: tuple[Experiment, ...] = (
    _nanogpt_wikitext103,
    _nanogpt_openwebtext,
    _llama60m_c4,
    _llama60m_slimpajama,
    _vitb16_cifar100,
    _vitb16_tinyimagenet,
    _resnet50_food101,
    _resnet50_imagenet100,
    _efficientnetb0_cars,
    _t5small_bookcorpus,
    _swint_caltech256,
)
