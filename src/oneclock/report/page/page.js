"use strict";
// Draws the chart values of the report as SVG. Text goes in as text nodes only; numbers are looked up, never computed.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const DASHES = { dashed: "6 3", dotted: "1.5 3", dashdot: "8 3 1.5 3" };
  const SHAPES = {
    circle: "M-3.5 0A3.5 3.5 0 1 0 3.5 0A3.5 3.5 0 1 0-3.5 0Z",
    square: "M-3.2-3.2H3.2V3.2H-3.2Z",
    cell: "M-8-8H8V8H-8Z",
    triangle: "M0-4.4L4.2 3.2H-4.2Z",
    diamond: "M0-5.5L5.5 0L0 5.5L-5.5 0Z",
    frame: "M0-9L9 0L0 9L-9 0Z",
    ring: "M-3.4 0A3.4 3.4 0 1 0 3.4 0A3.4 3.4 0 1 0-3.4 0Z",
    cross: "M-3.8-3.8L3.8 3.8M-3.8 3.8L3.8-3.8",
    star: "M0-7L1.7-2.2L6.7-2.2L2.7.9L4.1 5.7L0 2.8L-4.1 5.7L-2.7.9L-6.7-2.2L-1.7-2.2Z",
  };
  const byId = (id) => document.getElementById(id);
  const tip = byId("tip");
  const plots = [];
  let clips = 0;

  function add(parent, tag, attributes = {}, text) {
    const svg = parent instanceof SVGElement || tag === "svg";
    const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== undefined) node.textContent = text;
    return parent.appendChild(node);
  }
  const paint = (node, property, color) => node.style.setProperty(property, `var(--${color})`);
  const shown = (value) => Number(value.toPrecision(6)).toLocaleString("en", { maximumFractionDigits: 9 });
  const wordsOf = (chart, series, i) =>
    series.texts?.[i] ?? `${series.name}: ${chart.x.label} ${shown(series.x[i])}, ${chart.y.label} ${shown(series.y[i])}`;

  function drawMarker(parent, series, x, y) {
    if (!series.marker || series.marker === "none") return;
    const node = add(parent, "path", { d: SHAPES[series.marker], transform: `translate(${x} ${y})`, "stroke-width": 1 });
    const open = ["cross", "frame", "ring"].includes(series.marker);
    paint(node, "stroke", open ? series.color : "paper");
    if (series.marker === "ring") node.setAttribute("stroke-width", 1.8), paint(node, "fill", "paper");
    else if (open) node.setAttribute("stroke-width", 2.2), node.setAttribute("fill", "none");
    else paint(node, "fill", series.color);
  }
  function drawLine(parent, points, color, dash, width = 1.8) {
    const node = add(parent, "polyline", { points: points.map((p) => p.join(",")).join(" "), fill: "none", "stroke-width": width });
    paint(node, "stroke", color);
    if (DASHES[dash]) node.setAttribute("stroke-dasharray", DASHES[dash]);
  }
  function drawBand(parent, series, x, y) {
    let part = [];
    const flush = () => {
      if (part.length > 1) {
        const edge = [...part.map((i) => [x(series.x[i]), y(series.high[i])]), ...part.reverse().map((i) => [x(series.x[i]), y(series.low[i])])];
        paint(add(parent, "polygon", { points: edge.map((p) => p.join(",")).join(" "), opacity: 0.2 }), "fill", series.color);
      }
      part = [];
    };
    series.x.forEach((at, i) => {
      const [low, high] = [series.low[i], series.high[i]];
      if (low === null || high === null) flush(); // no bound on a side: a bar at most, from the other bound to the point
      else part.push(i);
      if (low === null && high === null) return;
      if (series.marker && series.marker !== "none") paint(add(parent, "line", { x1: x(at), x2: x(at), y1: y(low ?? series.y[i]), y2: y(high ?? series.y[i]), opacity: 0.6 }), "stroke", series.color);
    });
    flush();
  }

  class Plot {
    constructor(host, chart, hidden) {
      Object.assign(this, { host, chart, hidden, width: 0, at: null });
      plots.push(this);
      new ResizeObserver(() => this.draw()).observe(host);
    }
    visible(series) {
      return !this.hidden.has(series.group);
    }
    draw(again = false) {
      const width = Math.floor(this.host.clientWidth);
      if (!width || (width === this.width && !again)) return;
      this.width = width;
      const { chart } = this;
      const named = chart.y.low > chart.y.high;
      const longest = Math.max(...chart.y.ticks.map(([, text]) => text.length), 1);
      const left = this.host.closest(".small") ? longest * 7 + 10 : named ? Math.min(longest * 6.6 + 10, width * 0.46) : longest * 7 + 26;
      const box = { left, right: width - 14, top: (chart.title ? 26 : 10) + (chart.x.beyond.length ? 16 : 0) };
      box.bottom = box.top + (named ? chart.y.ticks.length * 21 : this.host.closest(".small") ? 84 : Math.max(150, Math.min(width * 0.5, width < 420 ? 210 : 340)));
      const x = (value) => box.left + ((value - chart.x.low) / (chart.x.high - chart.x.low)) * (box.right - box.left);
      const y = (value) => box.bottom - ((value - chart.y.low) / (chart.y.high - chart.y.low)) * (box.bottom - box.top);
      const height = box.bottom + (this.host.closest(".small") ? 24 : 42);
      this.host.replaceChildren();
      const label = `${chart.title} ${chart.y.label} against ${chart.x.label}`.trim();
      const svg = add(this.host, "svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": label, tabindex: 0 });
      if (chart.title) add(svg, "text", { x: 0, y: 14, class: "title" }, chart.title);
      this.axes(svg, box, x, y, named);
      const clip = `clip-${clips++}`;
      add(add(add(svg, "defs"), "clipPath", { id: clip }), "rect", { x: box.left, y: box.top - 4, width: box.right - box.left + 9, height: box.bottom - box.top + 13 });
      this.marks(add(svg, "g", { "clip-path": `url(#${clip})` }), box, x, y);
      this.ring = add(svg, "circle", { r: 7, fill: "none", "stroke-width": 1.5, visibility: "hidden" });
      paint(this.ring, "stroke", "text");
      this.listen(svg, x, y, box);
    }
    axes(svg, box, x, y, named) {
      const { chart } = this;
      const room = (box.right - box.left) / Math.max(...[...chart.x.ticks.map(([, text]) => text), ...chart.x.beyond].map((text) => text.length * 7.5 + 8));
      const every = Math.max(1, Math.ceil(chart.x.ticks.length / room));
      chart.x.ticks.forEach(([at, text], i) => {
        add(svg, "line", { x1: x(at), x2: x(at), y1: box.top, y2: box.bottom, class: "grid" });
        if (i % every === 0) add(svg, "text", { x: x(at), y: box.bottom + 16, "text-anchor": "middle" }, text);
        if (i % every === 0 && chart.x.beyond.length) add(svg, "text", { x: x(at), y: box.top - 5, "text-anchor": "middle", class: "label beyond" }, chart.x.beyond[i]);
      });
      for (const [at, text] of chart.y.ticks) {
        add(svg, "line", { x1: box.left, x2: box.right, y1: y(at), y2: y(at), class: "grid" });
        const node = add(svg, "text", { x: box.left - 7, y: y(at) + 4, "text-anchor": "end" }, text);
        if (named && node.getComputedTextLength() > box.left - 8) {
          node.setAttribute("textLength", box.left - 10);
          node.setAttribute("lengthAdjust", "spacingAndGlyphs");
        }
      }
      add(svg, "path", { d: `M${box.left} ${box.top}V${box.bottom}H${box.right}`, fill: "none", class: "frame" });
      add(svg, "text", { x: (box.left + box.right) / 2, y: box.bottom + 35, "text-anchor": "middle", class: "label" }, chart.x.label);
      if (!named) add(svg, "text", { transform: `translate(12 ${(box.top + box.bottom) / 2}) rotate(-90)`, "text-anchor": "middle", class: "label" }, chart.y.label);
    }
    marks(group, box, x, y) {
      for (const span of this.chart.spans) {
        const rect = add(group, "rect", { x: x(span.low), width: Math.max(0, x(span.high) - x(span.low)), y: box.top, height: box.bottom - box.top, opacity: 0.14 });
        paint(rect, "fill", span.color);
      }
      for (const line of this.chart.lines) {
        const at = line.axis === "x" ? x(line.at) : y(line.at);
        drawLine(group, line.axis === "x" ? [[at, box.top], [at, box.bottom]] : [[box.left, at], [box.right, at]], line.color, line.dash, 1.3);
      }
      const open = this.chart.series.filter((one) => this.visible(one));
      for (const series of [...open.filter((one) => one.dash !== "none"), ...open.filter((one) => one.dash === "none")]) {
        const points = series.x.map((value, i) => [x(value), y(series.y[i])]);
        if (series.low) drawBand(group, series, x, y);
        if (series.dash !== "none") drawLine(group, points, series.color, series.dash, points.length > 40 ? 1.4 : 1.9);
        for (const point of points) drawMarker(group, series, ...point);
      }
    }
    listen(svg, x, y, box) {
      const reach = (event) => {
        const frame = svg.getBoundingClientRect();
        const [px, py] = [event.clientX - frame.left, event.clientY - frame.top];
        let best = null;
        this.chart.series.forEach((series, s) => {
          if (!this.visible(series)) return;
          series.x.forEach((value, i) => {
            const [cx, cy] = [x(value), y(series.y[i])];
            if (cy < box.top - 9 || cy > box.bottom + 9) return;
            const far = Math.hypot(cx - px, cy - py) - (series.dash === "none" ? 3 : 0);
            if (!best || far < best.far) best = { far, s, i };
          });
        });
        if (best && best.far < 60) this.point(svg, x, y, best);
        else this.leave();
      };
      svg.addEventListener("pointermove", reach);
      svg.addEventListener("pointerdown", reach);
      svg.addEventListener("pointerleave", () => this.leave());
      svg.addEventListener("blur", () => this.leave());
      svg.addEventListener("keydown", (event) => {
        const move = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
        const open = this.chart.series.map((one, s) => s).filter((s) => this.visible(this.chart.series[s]));
        if (!move || !open.length) return;
        event.preventDefault();
        const from = this.at ?? { s: open[0], i: -1 };
        const s = open[(open.indexOf(from.s) + move[0] + open.length) % open.length] ?? open[0];
        const last = this.chart.series[s].x.length - 1;
        this.point(svg, x, y, { s, i: Math.max(0, Math.min(last, from.i + move[1])) });
      });
    }
    point(svg, x, y, { s, i }) {
      const series = this.chart.series[s];
      this.at = { s, i };
      const [cx, cy] = [x(series.x[i]), y(series.y[i])];
      this.ring.setAttribute("cx", cx);
      this.ring.setAttribute("cy", cy);
      this.ring.setAttribute("visibility", "visible");
      tip.textContent = wordsOf(this.chart, series, i);
      tip.hidden = false;
      const frame = svg.getBoundingClientRect();
      const wide = document.documentElement.clientWidth;
      tip.style.left = `${Math.max(4, Math.min(frame.left + cx + 12, wide - tip.offsetWidth - 6)) + window.scrollX}px`;
      tip.style.top = `${frame.top + cy + window.scrollY - tip.offsetHeight - 14}px`;
    }
    leave() {
      this.ring?.setAttribute("visibility", "hidden");
      tip.hidden = true;
    }
  }

  // A legend entry per group; a click hides or shows what belongs to it, in all panels of the figure.
  function figure(host, charts) {
    const folded = charts.flatMap((chart) => chart.folded);
    const hidden = new Set(folded);
    host.replaceChildren();
    const panels = add(host, "div", { class: "panels" });
    const views = charts.map((chart) => new Plot(add(panels, "div", { class: "panel" }), chart, hidden));
    const legend = add(host, "div", { class: "legend" });
    const switches = new Map();
    const still = new Map();
    for (const chart of charts) {
      for (const series of chart.series) {
        if (series.group && !switches.has(series.group)) switches.set(series.group, series);
      }
      for (const line of chart.lines) still.set(line.label, line);
      for (const span of chart.spans) still.set(span.label, span);
    }
    const refresh = () => {
      for (const button of legend.querySelectorAll("button[data-group]")) button.setAttribute("aria-pressed", !hidden.has(button.dataset.group));
      for (const view of views) view.draw(true);
    };
    if (switches.size > 6) {
      const lines = [...switches.values()].filter((series) => series.dash !== "none").map((series) => series.group);
      const choices = [["show all", []], ...(folded.length ? [["the best few", folded]] : []), ["hide all", lines]];
      for (const [text, groups] of choices) {
        add(legend, "button", { type: "button" }, text).addEventListener("click", () => {
          hidden.clear();
          for (const group of groups) hidden.add(group);
          refresh();
        });
      }
    }
    for (const [group, series] of [...switches].sort(([one], [two]) => hidden.has(one) - hidden.has(two))) {
      const button = add(legend, "button", { type: "button", "aria-pressed": !hidden.has(group), "data-group": group });
      const swatch = add(button, "svg", { viewBox: "0 0 30 14", "aria-hidden": "true" });
      if (series.dash !== "none") drawLine(swatch, [[1, 7], [29, 7]], series.color, series.dash);
      drawMarker(swatch, { ...series, marker: series.marker === "frame" ? "diamond" : series.marker }, 15, 7);
      button.append(group);
      button.addEventListener("click", () => {
        hidden.has(group) ? hidden.delete(group) : hidden.add(group);
        refresh();
      });
    }
    for (const [text, mark] of still) {
      const entry = add(legend, "span");
      const swatch = add(entry, "svg", { viewBox: "0 0 30 14", "aria-hidden": "true" });
      if (mark.axis) drawLine(swatch, [[1, 7], [29, 7]], mark.color, mark.dash);
      else paint(add(swatch, "rect", { x: 4, y: 1, width: 22, height: 12, opacity: 0.3 }), "fill", mark.color);
      entry.append(text);
    }
  }

  function sortable(table) {
    const body = table.tBodies[0];
    const original = [...body.rows];
    const heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
    const value = (row, column) => row.cells[column].dataset.value;
    const compare = (a, b) => (isNaN(a) || isNaN(b) ? a.localeCompare(b, "en", { numeric: true }) : a - b);
    heads.forEach((head, column) => {
      head.querySelector("button").addEventListener("click", () => {
        const next = { none: "ascending", ascending: "descending", descending: "none" }[head.getAttribute("aria-sort")];
        for (const other of heads) other.setAttribute("aria-sort", "none");
        head.setAttribute("aria-sort", next);
        table.toggleAttribute("data-sorted", next !== "none");
        const known = original.filter((row) => value(row, column) !== undefined);
        const unknown = original.filter((row) => value(row, column) === undefined);
        const sign = next === "descending" ? -1 : 1;
        known.sort((a, b) => sign * compare(value(a, column), value(b, column)));
        body.append(...(next === "none" ? original : [...known, ...unknown]));
      });
    });
  }

  for (const host of document.querySelectorAll("[data-figure]")) figure(host, data.figures[host.dataset.figure]);
  document.querySelectorAll("table").forEach(sortable);
})();
