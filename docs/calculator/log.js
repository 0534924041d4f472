// A log given to the page is read by oneclock's own Python, which starts in the browser on first use. The build writes
// all that it needs into python.js; nothing is asked of any server, and a page opened from disk does it too.
"use strict";

(() => {
  const LARGEST = 200; // megabytes that a page can hold with ease; the command reads more
  const READ = `
import json, os, shutil
from oneclock.advise import advise
from oneclock.plain_text import printable

def answer(folder, wanted):
    os.chdir(folder)
    try:
        found = advise(**json.loads(wanted))
    except (ValueError, OSError) as error:
        return json.dumps({"problem": printable(" ".join(str(error).split()))})
    finally:
        os.chdir("/")
        shutil.rmtree(folder)
    return json.dumps({"said": str(found), "steps": found.horizon if found.unit == "steps" else None})

answer`;
  const find = (id) => document.getElementById(id);
  let given = [];
  let python = null;
  let reads = 0;

  function load(source) {
    return new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = source;
      script.onload = resolve;
      script.onerror = () => reject(new Error(`${source} did not load; reload the page`));
      document.head.append(script);
    });
  }

  async function part(name, type = "") {
    const packed = await fetch(`data:;base64,${ONECLOCK_PYTHON[name]}`);
    const whole = new Response(packed.body.pipeThrough(new DecompressionStream("gzip")));
    return new Blob([await whole.arrayBuffer()], { type });
  }

  async function start() {
    await load("python.js");
    const address = async (name, type) => URL.createObjectURL(await part(name, type));
    const started = await loadPyodide({
      indexURL: `${await address("wasm", "application/wasm")}#/`, // a file's name put behind the # changes nothing
      stdLibURL: await address("library"),
      lockFileContents: ONECLOCK_PYTHON.lock,
      createPyodideModule: (await import(await address("module", "text/javascript"))).default,
    });
    started.unpackArchive(await (await part("package")).arrayBuffer(), "zip");
    return { files: started.FS, answer: started.runPython(READ) };
  }

  function options() {
    const said = {};
    for (const field of document.querySelectorAll("#log [data-option]")) {
      const { option, kind } = field.dataset;
      const text = field.value.trim();
      if (!text) continue;
      if (kind === "number" && Number.isNaN(oneclock.typed(text)))
        throw new Error(`'${text}' is not a number; type it as 20000, 20,000, 2e4 or 20k`);
      const parts = () => text.split(",").map((name) => name.trim());
      said[option] = kind === "number" ? oneclock.typed(text) : kind === "list" ? parts() : text;
    }
    return said;
  }

  async function read() {
    const size = given.reduce((sum, file) => sum + file.size, 0) / 2 ** 20;
    if (size > LARGEST) throw new Error(`more than ${LARGEST} MB is too much for a page; oneclock advise reads it`);
    const wanted = options();
    python ??= start();
    const { files, answer } = await python;
    const folder = `/logs/${(reads += 1)}`;
    for (const file of given) {
      const path = `${folder}/${file.webkitRelativePath || file.name}`;
      files.mkdirTree(path.slice(0, path.lastIndexOf("/")));
      files.writeFile(path, new Uint8Array(await file.arrayBuffer()));
    }
    wanted.source = [...new Set(given.map((file) => (file.webkitRelativePath || file.name).split("/")[0]))];
    return JSON.parse(answer(folder, JSON.stringify(wanted)));
  }

  function show(said, problem) {
    find("log-answer").textContent = said;
    find("log-answer").hidden = !said;
    find("log-problem").textContent = problem;
    find("log-problem").hidden = !problem;
    find("log").scrollIntoView({ block: "nearest" });
  }

  async function advise() {
    if (!given.length) return;
    show(python ? "reading ..." : "starting Python, once ...", "");
    await new Promise((resolve) => setTimeout(resolve, 30)); // the line is drawn before Python takes the page's time
    try {
      const { said = "", problem = "", steps = null } = await read();
      show(said, problem);
      if (steps !== null) take(steps);
    } catch (error) {
      show("", error.message.trim().split("\n").at(-1));
    }
  }

  /** The horizon that was found becomes the calculator's. */
  function take(steps) {
    document.querySelector("[name=known][value=steps]").checked = true;
    find("steps").value = String(steps);
    find("steps").dispatchEvent(new Event("input", { bubbles: true }));
  }

  function dropped(event) {
    event.preventDefault();
    find("log").classList.remove("over");
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry());
    if (entries.some((entry) => entry?.isDirectory)) return show("", "that is a folder: choose it with the button");
    given = [...event.dataTransfer.files];
    advise();
  }

  if (!ONECLOCK.readsLogs) {
    find("log").textContent =
      "This copy of the page was built without the part that reads logs; the command reads them: oneclock advise LOG";
    return;
  }
  for (const id of ["log-files", "log-folder"])
    find(id).addEventListener("change", () => {
      given = [...find(id).files];
      find(id).value = "";
      advise();
    });
  for (const field of document.querySelectorAll("#log [data-option]")) field.addEventListener("change", advise);
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    find("log").classList.add("over");
  });
  document.addEventListener("dragleave", () => find("log").classList.remove("over"));
  document.addEventListener("drop", dropped);
})();
