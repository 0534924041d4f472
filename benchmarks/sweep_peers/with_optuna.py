"""The 23 runs by Optuna: two processes, one thread each, sharing its storage."""

import json
import multiprocessing
import sys
import tempfile

import optuna
import torch
from digits import BETAS, best, second_stage


def objective(trial):
    beta = trial.suggest_categorical("beta", BETAS)
    seed = trial.suggest_categorical("seed", [1, 2, 3])
    loss, seconds = best(beta, seed)
    trial.set_user_attr("seconds", seconds)
    return loss


def work(storage):
    torch.set_num_threads(1)
    study = optuna.load_study(study_name="bench", storage=storage)
    states = (optuna.trial.TrialState.WAITING,)

    def stop_when_empty(study, _):
        if not study.get_trials(deepcopy=False, states=states):
            study.stop()

    if study.get_trials(deepcopy=False, states=states):
        study.optimize(objective, callbacks=[stop_when_empty])


def run(study, storage, cells):
    for beta, seed in cells:
        study.enqueue_trial({"beta": beta, "seed": seed})
    workers = [multiprocessing.get_context("fork").Process(target=work, args=(storage,)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    torch.set_num_threads(1)
    storage = f"sqlite:///{tempfile.mkdtemp()}/optuna.db"
    study = optuna.create_study(study_name="bench", storage=storage)
    run(study, storage, [(beta, 1) for beta in BETAS])
    first = {trial.params["beta"]: trial.value for trial in study.trials}
    run(study, storage, second_stage(first))
    rows = [[t.params["beta"], t.params["seed"], t.value, t.user_attrs["seconds"]] for t in study.trials if t.value]
    json.dump(rows, open(sys.argv[1], "w"))  # noqa: SIM115
