"""The hundred classes of Kaggle's ImageNet100, to recognise copies of it.

Several sets have that name, with different classes of ImageNet. Folders are named by WordNet ids and must be these.
Tables may spell the names in their own way, so only most of the names must match.
"""

from __future__ import annotations

from collections.abc import Collection

CLASSES = dict(
    line.split(" ", 1)
    for line in """\
n01440764 tench
n01443537 goldfish
n01484850 great white shark
n01491361 tiger shark
n01494475 hammerhead
n01496331 electric ray
n01498041 stingray
n01514668 cock
n01514859 hen
n01531178 goldfinch
n01537544 indigo bunting
n01560419 bulbul
n01582220 magpie
n01592084 chickadee
n01601694 water ouzel
n01608432 kite
n01614925 bald eagle
n01622779 great grey owl
n01630670 common newt
n01632458 spotted salamander
n01632777 axolotl
n01644900 tailed frog
n01664065 loggerhead
n01665541 leatherback turtle
n01667114 mud turtle
n01667778 terrapin
n01675722 banded gecko
n01677366 common iguana
n01685808 whiptail
n01687978 agama
n01693334 green lizard
n01695060 Komodo dragon
n01698640 American alligator
n01728572 thunder snake
n01729322 hognose snake
n01729977 green snake
n01734418 king snake
n01735189 garter snake
n01739381 vine snake
n01740131 night snake
n01742172 boa constrictor
n01749939 green mamba
n01751748 sea snake
n01753488 horned viper
n01755581 diamondback
n01756291 sidewinder
n01770081 harvestman
n01770393 scorpion
n01773157 black and gold garden spider
n01773549 barn spider
n01773797 garden spider
n01774384 black widow
n01774750 tarantula
n01775062 wolf spider
n01776313 tick
n01795545 black grouse
n01796340 ptarmigan
n01798484 prairie chicken
n01806143 peacock
n01818515 macaw
n01819313 sulphur-crested cockatoo
n01820546 lorikeet
n01824575 coucal
n01828970 bee eater
n01829413 hornbill
n01833805 hummingbird
n01843383 toucan
n01847000 drake
n01855672 goose
n01860187 black swan
n01877812 wallaby
n01883070 wombat
n01910747 jellyfish
n01914609 sea anemone
n01924916 flatworm
n01930112 nematode
n01943899 conch
n01944390 snail
n01950731 sea slug
n01955084 chiton
n01968897 chambered nautilus
n01978287 Dungeness crab
n01978455 rock crab
n01984695 spiny lobster
n01985128 crayfish
n01986214 hermit crab
n02002556 white stork
n02006656 spoonbill
n02007558 flamingo
n02011460 bittern
n02012849 crane
n02013706 limpkin
n02018207 American coot
n02018795 bustard
n02027492 red-backed sandpiper
n02028035 redshank
n02037110 oystercatcher
n02051845 pelican
n02058221 albatross
n02077923 sea lion
""".splitlines()
)
"""WordNet id -> the first of the class's names."""

_NAMES = {name.lower() for name in CLASSES.values()}


def strangers(names: Collection[str]) -> list[str]:
    """The names among `names`, WordNet ids or words, that no class of ImageNet100 has; none where most are known.

    >>> strangers(["n01440764", "n02869837"]), strangers(["tench", "Komodo_dragon", "wood duck"])
    (['n02869837'], [])
    """
    odd = sorted(name for name in names if name not in CLASSES and _plain(name) not in _NAMES)
    ids = any(name in CLASSES for name in names)
    return odd if ids or 2 * len(odd) > len(names) else []


def _plain(name: str) -> str:
    """The first of the names, in small letters and with blanks."""
    return name.partition(",")[0].replace("_", " ").strip().lower()
