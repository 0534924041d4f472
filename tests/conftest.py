"""One thread per test process: two OpenMP programs at two threads each slow each other tenfold on two cores."""

import os

from hypothesis import settings

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

# On CI the same examples each time; elsewhere new ones, which is how failures are found.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "explore")

collect_ignore_glob = ["conftest.py", "*/conftest.py"]  # doctests are in src; two files of one name would clash
