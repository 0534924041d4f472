"""One training loop, one schedule, checkpoints: `train` takes an experiment, a beta and a seed to a record."""

from oneclock.lab.training.interrupt import stop_on_signal
from oneclock.lab.training.run import identify, is_main_process, train
from oneclock.lab.training.schedule import learning_rate, warmup_steps

__all__ = ["identify", "is_main_process", "learning_rate", "stop_on_signal", "train", "warmup_steps"]
