// The calculator. What the rules are comes from rule.js, which the build writes from oneclock's own source; the tests
// hold every function here against its Python counterpart, in a browser.
"use strict";

const oneclock = (() => {
  const { recommended, paper, measured, ranges } = ONECLOCK;

  const rates = {
    Refresh: (rule, steps) => rule.refreshes / steps,
    Fixed: (rule) => 1 - rule.beta,
    Power: (rule, steps) => rule.c * (steps / rule.t0) ** -rule.alpha,
    SquareRoot: (rule, steps) => rule.divisor / (Math.sqrt(steps) + rule.divisor),
  };

  /** beta in [0, 1) for a horizon in steps; null where the rule has none. */
  function betaFor(steps, rule = recommended) {
    const rate = rates[rule.kind](rule, steps);
    const beta = rule.kind === "Fixed" ? rule.beta : 1 - rate;
    const none = rule.kind === "Refresh" ? rate >= 1 : !(rate <= 1);
    return none || beta >= 1 ? null : beta;
  }

  /** [low, high]: the betas that are expected to lose at most 0.2 % more than the recommended one. */
  function rangeFor(steps) {
    const place = Math.min(Math.max(10 * Math.log10(steps), 0), ranges.length - 1.000001);
    const [one, two] = [ranges[Math.floor(place)], ranges[Math.floor(place) + 1]];
    const share = place - Math.floor(place);
    const own = rates[recommended.kind](recommended, steps);
    return [0, 1].map((end) => Math.max(1 - own * 2 ** -(one[end] + share * (two[end] - one[end])), 0));
  }

  const TIMES = { "": 1, k: 1e3, m: 1e6, b: 1e9, g: 1e9, t: 1e12 };

  /** A number as people type it, as the command takes it: 20000, 20,000, 2e4, 20k; NaN where it is none. */
  function typed(text) {
    const number = /^([-+]?(?:\d{1,3}(?:[,_]\d{3})+|\d+)?(?:\.\d*)?(?:e[-+]?\d+)?)\s*([kmbgt]?)$/i;
    const [, digits, times] = number.exec(text.trim()) ?? [];
    return digits ? Number(digits.replace(/[,_]/g, "")) * TIMES[times.toLowerCase()] : NaN;
  }

  function stepsFromTokens(tokens, perStep) {
    return Math.ceil(tokens / perStep);
  }

  function stepsFromEpochs(epochs, samples, batchSize, accumulate = 1, dropLast = false) {
    const batches = dropLast ? Math.floor(samples / batchSize) : Math.ceil(samples / batchSize);
    return Math.ceil(epochs * Math.ceil(batches / accumulate));
  }

  /** beta with four digits of 1 - beta, so that no long memory is written as 1. */
  function written(beta) {
    return String(Number(beta.toFixed(Math.min(Math.ceil(-Math.log10(1 - beta)) + 4, 15))));
  }

  return { betaFor, rangeFor, typed, stepsFromTokens, stepsFromEpochs, written, recommended, paper, measured };
})();

(() => {
  const { betaFor, written, paper, measured } = oneclock;
  const find = (id) => document.getElementById(id);
  const count = (value) => value.toLocaleString("en", { maximumFractionDigits: value < 100 ? 1 : 0 });

  const HUB = "https://github.com";
  const PRESETS = [
    {
      title: "nanoGPT, characters of Shakespeare: 5,000 steps",
      values: { steps: 5000 },
      source: `${HUB}/karpathy/nanoGPT/blob/master/config/train_shakespeare_char.py`,
    },
    {
      title: "nanoGPT, GPT-2 124M: 600,000 steps",
      values: { steps: 600000 },
      source: `${HUB}/karpathy/nanoGPT/blob/master/config/train_gpt2.py`,
    },
    {
      title: "Pythia: 300 billion tokens",
      values: { tokens: 299892736000, "tokens-per-step": 2097152 },
      source: `${HUB}/EleutherAI/pythia`,
    },
    {
      title: "Llama 2: 2 trillion tokens",
      values: { tokens: 2e12, "tokens-per-step": 4e6 },
      source: "https://arxiv.org/abs/2307.09288",
    },
    {
      title: "Alpaca 7B, fine-tuned: 3 epochs",
      values: { epochs: 3, samples: 52002, "batch-size": 128, accumulate: 1 },
      source: `${HUB}/tatsu-lab/stanford_alpaca`,
    },
    {
      title: "DeiT-small on ImageNet: 300 epochs",
      values: { epochs: 300, samples: 1281167, "batch-size": 1024, accumulate: 1 },
      dropLast: true,
      source: `${HUB}/facebookresearch/deit`,
    },
  ];

  const LINES = {
    "torch": (beta) => `optimizer = torch.optim.AdamW(model.parameters(), lr=lr, betas=(${beta}, ${beta}))`,
    "oneclock": (beta, steps) => `optimizer = oneclock.BalancedAdamW(model.parameters(), lr=lr, horizon=${steps})`,
    "transformers": (beta) => `args = TrainingArguments(output_dir, adam_beta1=${beta}, adam_beta2=${beta})`,
    "Lightning": (beta) =>
      `def configure_optimizers(self):\n    return torch.optim.AdamW(self.parameters(), lr=self.lr, betas=(${beta}, ${beta}))`,
    "optax": (beta) => `optimizer = optax.adamw(lr, b1=${beta}, b2=${beta})`,
    "timm": (beta) => `python train.py --opt adamw --opt-betas ${beta} ${beta}`,
    "nanoGPT": (beta) => `python train.py --beta1=${beta} --beta2=${beta}`,
  };

  function known() {
    return document.querySelector("[name=known]:checked").value;
  }

  function entered(id, whole = false) {
    const value = oneclock.typed(find(id).value);
    const what = find(id).parentElement.textContent.trim();
    if (!(value > 0 && value < 1e300)) throw new Error(`${what}: a number above 0 is needed`);
    if (whole && !Number.isInteger(value)) throw new Error(`${what}: a whole number is needed`);
    return value;
  }

  function planned() {
    if (known() === "steps") return entered("steps");
    if (known() === "tokens") return oneclock.stepsFromTokens(entered("tokens"), entered("tokens-per-step"));
    const sizes = ["samples", "batch-size", "accumulate"].map((id) => entered(id, true));
    const steps = oneclock.stepsFromEpochs(entered("epochs"), ...sizes, find("drop-last").checked);
    if (!steps) throw new Error("these samples do not fill one batch: lower the batch size or keep the last");
    return steps;
  }

  function trust(steps) {
    const [low, high] = measured;
    const span = `Known sweeps cover ${count(low)} to ${count(high)} steps`;
    return steps < low || steps > high ? `${span}: this answer is extrapolated.` : `${span}.`;
  }

  /** beta with two digits of 1 - beta. */
  const short = (beta) => String(Number(beta.toFixed(beta < 0.9 ? 2 : 1 - Math.floor(Math.log10(1 - beta)))));

  function answer(steps) {
    const beta = betaFor(steps);
    if (beta === null) throw new Error("so long that beta rounds to 1; give a shorter time");
    const around = oneclock.rangeFor(steps).map((one) => (one >= 1 ? "1" : short(one)));
    const papers = betaFor(steps, paper);
    return {
      beta: written(beta),
      horizon: count(steps),
      memory: `${count(1 / (1 - beta))} steps`,
      range: around.join(" to "),
      paper: papers === null ? `none up to ${count(paper.refreshes)} steps` : written(papers),
      trust: trust(steps),
    };
  }

  const [HIGH, LEFT, TOP, RIGHT, BOTTOM] = [320, 48, 24, 48, 44];
  const wide = () => Math.max(find("curve").clientWidth, 280); // one unit is one pixel: text keeps its size on a phone
  const across = (steps) => LEFT + ((Math.log10(steps) - 2) / 5) * (wide() - LEFT - RIGHT);
  const up = (memory) => HIGH - BOTTOM - (Math.log10(memory) / 4) * (HIGH - TOP - BOTTOM);

  function line(rule) {
    const points = [];
    for (let power = 2; power <= 7.0001; power += 0.01) {
      const beta = betaFor(10 ** power, rule);
      if (beta !== null) points.push(`${across(10 ** power).toFixed(1)},${up(1 / (1 - beta)).toFixed(1)}`);
    }
    return points.join(" ");
  }

  function drawn(steps) {
    const label = (x, y, anchor, text) => `<text x="${x}" y="${y}" text-anchor="${anchor}">${text}</text>`;
    const end = wide() - RIGHT;
    const rows = [1, 10, 100, 1000, 10000].map(
      (memory) =>
        `<line class="grid" x1="${LEFT}" x2="${end}" y1="${up(memory)}" y2="${up(memory)}"/>` +
        label(LEFT - 8, up(memory) + 4, "end", count(memory)) +
        label(end + 8, up(memory) + 4, "start", written(1 - 1 / memory)),
    );
    const columns = [2, 3, 4, 5, 6, 7].map((power) =>
      label(across(10 ** power), HIGH - BOTTOM + 18, "middle", ["100", "1k", "10k", "100k", "1M", "10M"][power - 2]),
    );
    const [low, high] = measured.map(across);
    const beta = betaFor(steps);
    const inside = steps >= 100 && steps <= 1e7 && beta !== null;
    const here = inside
      ? `<line class="here" x1="${across(steps)}" x2="${across(steps)}" y1="${TOP}" y2="${HIGH - BOTTOM}"/>` +
        `<circle class="dot" cx="${across(steps)}" cy="${up(1 / (1 - beta))}" r="5.5"/>`
      : "";
    const name = "Memory over horizon: the recommendation and the paper's rule";
    return (
      `<svg viewBox="0 0 ${wide()} ${HIGH}" role="img" aria-label="${name}">` +
      `<rect class="band" x="${low}" y="${TOP}" width="${high - low}" height="${HIGH - TOP - BOTTOM}"/>` +
      rows.join("") +
      columns.join("") +
      `<polyline class="line" points="${line(oneclock.recommended)}"/>` +
      `<polyline class="line paper" points="${line(paper)}"/>` +
      here +
      label(0, TOP - 12, "start", "memory, steps") +
      label(wide(), TOP - 12, "end", "beta") +
      label((LEFT + end) / 2, HIGH - 4, "middle", "optimizer steps") +
      "</svg>"
    );
  }

  function pasted(beta, steps) {
    find("paste").replaceChildren(
      ...Object.entries(LINES).flatMap(([name, text]) => {
        const [title, frame, code] = ["h3", "pre", "code"].map((tag) => document.createElement(tag));
        title.textContent = name;
        code.textContent = text(beta, Number.isInteger(steps) ? String(steps) : steps.toPrecision(12));
        frame.append(code);
        return [title, frame];
      }),
    );
  }

  function update() {
    for (const part of document.querySelectorAll("[data-known]")) part.hidden = part.dataset.known !== known();
    let problem = "";
    try {
      const steps = planned();
      const said = answer(steps);
      for (const [id, text] of Object.entries(said)) find(id).textContent = text;
      find("curve").innerHTML = drawn(steps);
      find("slide").value = Math.log10(steps);
      pasted(said.beta, steps);
    } catch (error) {
      problem = error.message;
    }
    find("problem").textContent = problem;
    find("problem").hidden = !problem;
    for (const id of ["answer", "trust", "curve", "paste"]) find(id).style.visibility = problem ? "hidden" : "visible";
  }

  function take(values, dropLast = false) {
    const kind = Object.keys(values)[0];
    document.querySelector(`[name=known][value=${kind}]`).checked = true;
    for (const [id, value] of Object.entries(values)) find(id).value = count(value);
    find("drop-last").checked = dropLast;
  }

  /** A known training, with where its figures come from; none where a person goes on alone. */
  function preset(chosen) {
    if (chosen) take(chosen.values, chosen.dropLast);
    else find("preset").value = "";
    find("source").hidden = !chosen;
    find("source").firstElementChild.href = chosen?.source ?? "";
    find("source").firstElementChild.textContent = chosen?.source.replace("https://", "") ?? "";
  }

  for (const [place, { title }] of PRESETS.entries()) find("preset").add(new Option(title, String(place)));
  find("preset").addEventListener("change", () => {
    preset(PRESETS[find("preset").value]);
    update();
  });
  find("slide").addEventListener("input", () => {
    take({ steps: Number((10 ** find("slide").value).toPrecision(2)) });
    preset(null);
    update();
  });
  document.querySelector("#calculator form").addEventListener("input", (event) => {
    if (event.target.id === "preset") return;
    preset(null);
    update();
  });
  window.addEventListener("resize", update);
  document.querySelector("#calculator form").addEventListener("submit", (event) => event.preventDefault());
  update();
})();
