"""One thread per test process: two OpenMP programs at two threads each slow each other tenfold on two cores."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

collect_ignore_glob = ["conftest.py", "*/conftest.py"]  # doctests are in src; two files of one name would clash
