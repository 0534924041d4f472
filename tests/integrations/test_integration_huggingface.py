"""A real Trainer on a tiny GPT-2: the beta expected, the plain torch run, and a resumed one."""

import pytest
import torch
from torch.utils.data import Dataset

from oneclock.integrations.huggingface import RefreshCallback, _schedule, balanced_adamw, trainer_steps

from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments  # isort: skip

STEPS, REFRESHES, BETA = 40, 4, 0.9
RULE = f"refresh:{REFRESHES}"


class Tokens(Dataset):
    """`count` sequences of 8 tokens, in which each follows from the one before; it remembers what was asked for."""

    def __init__(self, count, seed):
        start = torch.randint(0, 31, (count, 1), generator=torch.Generator().manual_seed(seed))
        self.tokens = (start + 3 * torch.arange(8)) % 31
        self.asked = []

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        self.asked.append(index)
        return {"input_ids": self.tokens[index], "labels": labels_of(self.tokens[index])}


def labels_of(tokens):
    """The tokens but for the first, which nothing predicts; a Trainer divides by the number of labels given."""
    return torch.cat([torch.full_like(tokens[..., :1], -100), tokens[..., 1:]], dim=-1)


def tiny_gpt2():
    torch.manual_seed(0)
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=31, n_positions=8, n_embd=16, n_layer=1, n_head=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
            bos_token_id=0, eos_token_id=0,
        )
    )  # fmt: skip


def arguments(folder, **changes):
    settings = dict(
        output_dir=str(folder), max_steps=STEPS, learning_rate=3e-3, weight_decay=0.1, lr_scheduler_type="constant",
        max_grad_norm=0, per_device_train_batch_size=4, logging_steps=1, save_steps=20, eval_strategy="steps",
        eval_steps=5, report_to=[], disable_tqdm=True, use_cpu=True, dataloader_pin_memory=False,
    )  # fmt: skip
    return TrainingArguments(**{**settings, **changes})


def trainer_of(args, **options):
    return Trainer(
        tiny_gpt2(), args, train_dataset=Tokens(64, seed=1), eval_dataset=Tokens(16, seed=2),
        optimizer_cls_and_kwargs=balanced_adamw(args, rule=RULE, **options), callbacks=[RefreshCallback()],
    )  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    trainer = trainer_of(arguments(tmp_path_factory.mktemp("run")))
    trainer.train()
    return trainer


def test_the_beta_is_the_rules_in_the_optimizer_the_logs_and_the_arguments(finished):
    trainer = finished
    assert trainer.optimizer.optimizer.beta == BETA
    logged = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert [entry["beta"] for entry in logged] == [BETA] * STEPS
    assert logged[-1]["memory_horizon"] == pytest.approx(10)
    assert logged[-1]["refresh_count"] == pytest.approx(REFRESHES)
    assert (trainer.args.adam_beta1, trainer.args.adam_beta2) == (BETA, BETA)
    assert not any("beta" in entry for entry in trainer.state.log_history if "eval_loss" in entry)


def test_it_matches_the_plain_torch_run(finished):
    trainer, data = finished, finished.train_dataset
    model = tiny_gpt2().train()
    decays = set(trainer.get_decay_parameter_names(model))
    groups = [
        {"params": [p for n, p in model.named_parameters() if n in decays], "weight_decay": 0.1},
        {"params": [p for n, p in model.named_parameters() if n not in decays], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=3e-3, betas=(BETA, BETA), fused=True)
    losses = []
    for first in range(0, 4 * STEPS, 4):
        tokens = data.tokens[data.asked[first : first + 4]]
        loss = model(input_ids=tokens, labels=labels_of(tokens)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    logged = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert logged == pytest.approx(losses, abs=1e-4)  # older Trainers round to four digits
    assert losses[-1] < losses[0] - 0.5
    for ours, plain in zip(trainer.model.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(ours, plain)


def test_a_resumed_run_has_the_beta_and_ends_at_the_same_weights(finished):
    straight = finished
    again = trainer_of(arguments(straight.args.output_dir))
    again.train(resume_from_checkpoint=f"{straight.args.output_dir}/checkpoint-20")
    assert again.optimizer.optimizer.beta == BETA
    for ours, plain in zip(again.model.parameters(), straight.model.parameters(), strict=True):
        assert torch.equal(ours, plain)


@pytest.mark.parametrize(
    "changes",
    [
        dict(num_train_epochs=3),
        dict(num_train_epochs=2.5, gradient_accumulation_steps=4),
        dict(num_train_epochs=3, dataloader_drop_last=True, gradient_accumulation_steps=3),
        dict(num_train_epochs=3, max_steps=7),
    ],
)
def test_planned_steps_are_those_the_trainer_takes(tmp_path, changes):
    args = arguments(tmp_path, **{"max_steps": -1, "eval_strategy": "no", "save_strategy": "no", **changes})
    trainer = Trainer(tiny_gpt2(), args, train_dataset=Tokens(63, seed=1))
    assert trainer_steps(args, trainer.train_dataset) == trainer_steps(args, 63) == trainer.train().global_step


def test_several_processes_share_an_epoch(tmp_path):
    args = arguments(tmp_path, max_steps=-1, num_train_epochs=2)
    args.distributed_state.num_processes = 8
    try:
        assert trainer_steps(args, 64) == 4
        args.accelerator_config.split_batches = True  # a batch of four for all eight
        assert trainer_steps(args, 64) == 32
    finally:
        args.distributed_state.num_processes = 1


def test_what_the_arguments_say_reaches_the_optimizer(tmp_path):
    args = arguments(tmp_path, max_steps=20_000, adam_epsilon=1e-6)
    kind, options = balanced_adamw(args, rule="paper")
    optimizer = kind([torch.nn.Parameter(torch.ones(1))], **options)
    group = optimizer.param_groups[0]
    assert (optimizer.beta, group["lr"], group["eps"], group["weight_decay"]) == (0.95, 3e-3, 1e-6, 0.1)
    assert (
        kind([torch.nn.Parameter(torch.ones(1))], **balanced_adamw(args, horizon=8000, rule="paper")[1]).beta == 0.875
    )


def test_epochs_without_the_number_of_samples_are_refused_in_words(tmp_path):
    with pytest.raises(ValueError, match="give the training set or its length"):
        balanced_adamw(arguments(tmp_path, max_steps=-1))


def test_put_first_the_callback_reaches_the_reporters_too(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    args = arguments(tmp_path / "run", report_to=["tensorboard"], save_strategy="no")
    trainer = trainer_of(args)
    trainer.callback_handler.callbacks.insert(0, RefreshCallback())
    trainer.train()
    (events,) = tmp_path.rglob("events.out.tfevents.*")
    log = accumulator.EventAccumulator(str(events))
    log.Reload()
    assert [scalar.value for scalar in log.Scalars("train/beta")] == pytest.approx([BETA] * STEPS)


def test_the_advice_is_printed_when_training_ends(tmp_path, capsys):
    args = arguments(tmp_path, max_steps=10, save_strategy="no", eval_steps=1)
    trainer_of(args, maximize=True).train()  # uphill: the first evaluation stays the best
    printed = capsys.readouterr().out
    assert printed.count("oneclock: the validation loss turned near step 1 ") == 1  # said once, while training
    assert "oneclock: Useful for 1 of 10 steps" in printed
    assert "BalancedAdamW(model.parameters(), lr=..., horizon=1)" in printed


def test_without_evaluations_there_is_no_advice_and_the_callback_says_why(tmp_path, capsys):
    trainer_of(arguments(tmp_path, max_steps=5, save_strategy="no", eval_strategy="no")).train()
    assert "no advice, because no finite validation loss was seen" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("kind", "shape"),
    [("linear", "linear"), ("cosine", "cosine"), ("constant_with_warmup", "constant"), ("polynomial", None)],
)
def test_the_horizon_gets_the_trainers_schedule(tmp_path, kind, shape):
    assert _schedule(arguments(tmp_path, lr_scheduler_type=kind)) == shape
