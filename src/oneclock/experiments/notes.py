"""What a spec decides where the appendix is silent or slips, for people: shown by `oneclock experiments NAME`."""

from __future__ import annotations

_LLAMA = (
    "The appendix names llama_60m.json and not its contents: hidden 512, 8 layers, 8 heads, intermediate 1376 and "
    "32,000 tokens are those of the public file of that name.",
    "No decay groups are named: all parameters decay.",
    "No training loss at evaluation is described: it is the running mean of the objective.",
)
_EPOCHS = "An epoch is the appendix's number of batches; a last partial batch is dropped, as that number implies."
_VISION = (
    "Standard normalization is taken as ImageNet's mean and standard deviation.",
    "No training loss at evaluation is described: it is the running mean of the objective, smoothed labels included.",
)
_RESNET = (
    "The optimizer is initialised with learning rate 5e-4 and the schedule uses 3e-4 from the first step on: only the "
    "latter has an effect, and it alone stands here.",
    _EPOCHS,
    *_VISION,
)
_SWIN_EPOCHS = (
    "The appendix prints 376 batches per epoch, where 60 images x 257 classes / 64 gives 241. The printed budget "
    "(60 x 376 = 22,560) and cadence (376) stand; they make about 94 passes over the training images, not 60."
)

NOTES: dict[str, tuple[str, ...]] = {
    "nanogpt-wikitext103": (
        "Lines run on without end-of-text tokens between them.",
        "Parameters with decay are taken as weights of two or more dimensions, embeddings among them.",
    ),
    "nanogpt-openwebtext": (
        "OpenWebText has no validation split: 4,007 documents, one in 2,000, are held out with split seed 123.",
        "Parameters with decay are taken as weights of two or more dimensions, embeddings among them.",
    ),
    "llama60m-c4": (
        *_LLAMA,
        "The stream is read in its order only as far as the budget needs (1.31e9 tokens), then shuffled by seed.",
    ),
    "llama60m-slimpajama": (*_LLAMA, "Evaluation at the first step is taken over from C4, whose protocol it shares."),
    "vitb16-cifar100": (_EPOCHS, *_VISION),
    "vitb16-tinyimagenet": (_EPOCHS, *_VISION),
    "resnet50-food101": _RESNET,
    "resnet50-imagenet100": (
        *_RESNET,
        "1,015 batches of 128 imply 129,920 to 130,047 training images: the ImageNet100 of 1,300 images per class.",
    ),
    "efficientnetb0-cars": (
        "Mild ColorJitter is not given in numbers: 0.1/0.1/0.1/0.05 is half of what Food-101 has.",
        "128 batches of 64 from 8,144 images imply that the last partial batch is kept.",
        "No decay groups are named: all parameters decay.",
        "The linear classifier follows the dropout of 0.2 that EfficientNet-B0 has.",
        *_VISION,
    ),
    "t5small-bookcorpus": (
        "The final analysis uses seed 1 alone.",
        "The 20,000 documents, rows of the source, are drawn with split seed 123.",
        "Rows are sentences and run on; blocks are as long as inputs of at most 256 tokens allow after corruption.",
        "No decay groups are named: all parameters decay.",
        "No training loss at evaluation is described: it is the running mean of the objective.",
    ),
    "swint-caltech256": (
        _SWIN_EPOCHS,
        "The last partial batch is kept: the appendix does not say.",
        "All 257 categories count, clutter among them.",
        *_VISION,
    ),
}
