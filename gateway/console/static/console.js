// What only the browser knows: its zone, its theme, its keyboard. Names from clients never come here as code.
(() => {
  "use strict";
  const muster = (window.muster = {});
  const stored = () => { try { return localStorage.getItem("muster-theme") || "auto"; } catch { return "auto"; } };
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const theme = () => (stored() === "auto" ? (dark.matches ? "dark" : "light") : stored());
  const applied = theme();
  document.documentElement.dataset.theme = applied;
  dark.addEventListener("change", () => { if (theme() !== applied) location.reload(); });
  muster.isDark = applied === "dark";
  muster.theme = stored;
  muster.setTheme = (value) => { try { localStorage.setItem("muster-theme", value); } catch { /* private mode */ } location.reload(); };
  muster.nextTheme = () => muster.setTheme({ auto: "light", light: "dark", dark: "auto" }[stored()]);
  muster.color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  // Times: <muster-time ms="..." mode="ago|clock|full">, in the viewer's zone.
  const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  const full = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short" });
  const ago = (ms) => {
    const s = Math.round((Date.now() - ms) / 1000), a = Math.abs(s);
    const text = a < 60 ? `${a} s` : a < 3600 ? `${Math.floor(a / 60)} min` : a < 86400 ? `${Math.floor(a / 3600)} h ${Math.floor((a % 3600) / 60)} min` : `${Math.floor(a / 86400)} d`;
    return s >= 0 ? (a < 1 ? "now" : `${text} ago`) : `in ${text}`;
  };
  const times = new Set();
  class Time extends HTMLElement {
    static get observedAttributes() { return ["ms", "mode"]; }
    connectedCallback() { times.add(this); this.show(); }
    disconnectedCallback() { times.delete(this); }
    attributeChangedCallback() { this.show(); }
    show() {
      const ms = Number(this.getAttribute("ms"));
      if (!ms) { this.textContent = "–"; return; }
      const when = new Date(ms), mode = this.getAttribute("mode") || "full";
      const text = mode === "ago" ? ago(ms) : mode === "clock" ? clock.format(when) : full.format(when);
      if (this.textContent !== text) this.textContent = text;
      this.title = full.format(when);
    }
  }
  customElements.define("muster-time", Time);
  setInterval(() => { for (const each of times) if (each.getAttribute("mode") === "ago") each.show(); }, 1000);

  muster.sort = (a, b, name) => {
    const x = a[`_${name}`] ?? a[name], y = b[`_${name}`] ?? b[name];
    if (x === y) return 0;
    if (x === null || x === undefined) return -1;
    if (y === null || y === undefined) return 1;
    return typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), undefined, { numeric: true });
  };

  // Charts
  const short = (v, base, units) => {
    if (v === null || v === undefined || Number.isNaN(v)) return "–";
    let i = 0;
    while (Math.abs(v) >= base * 0.9995 && i < units.length - 1) { v /= base; i += 1; }
    const digits = i === 0 || Math.abs(v) >= 99.95 ? v.toFixed(i === 0 && v % 1 ? 1 : 0) : v.toFixed(Math.abs(v) >= 9.995 ? 1 : 2);
    return `${digits.includes(".") ? digits.replace(/\.?0+$/, "") : digits}${units[i] ? (base === 1024 ? " " : "") + units[i] : ""}`;
  };
  muster.format = {
    count: (v) => short(v, 1000, ["", "k", "M", "G", "T"]),
    rate: (v) => (v === null || v === undefined ? "–" : `${short(v, 1024, ["B", "KiB", "MiB", "GiB", "TiB"])}/s`),
    bytes: (v) => short(v, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]),
    seconds: (v) => v === null || v === undefined ? "–" : v === 0 ? "0 s" : v < 1 ? `${Math.round(v * 1000)} ms` : v < 60 ? `${Number(v.toFixed(1))} s` : v < 3600 ? `${Number((v / 60).toFixed(1))} min` : `${Number((v / 3600).toFixed(1))} h`,
  };
  const escaped = (text) => String(text).replace(/[&<>"']/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" })[c]);
  muster.tooltip = (kind) => (points) => {
    const list = Array.isArray(points) ? points : [points];
    if (!list.length) return "";
    const at = list[0].axisValue ?? list[0].value?.[0];
    const lines = list.filter((p) => p.seriesType === "line" || p.seriesType === "bar").map((p) => `<div>${p.marker} ${escaped(p.seriesName)} <b style="float:right;margin-left:14px">${escaped(muster.format[kind](p.value[1]))}</b></div>`);
    return `<div>${escaped(clock.format(new Date(at)))}</div>${lines.join("")}`;
  };
  muster.phase = (colors) => (params, api) => {
    const from = api.coord([api.value(1), api.value(0)]), to = api.coord([api.value(2), api.value(0)]);
    const height = Math.min(api.size([0, 1])[1] * 0.62, 18), box = params.coordSys;
    const x0 = Math.max(from[0], box.x), x1 = Math.min(Math.max(to[0], from[0] + 4), box.x + box.width);
    if (x1 < box.x || x0 > box.x + box.width) return null;
    return { type: "rect", shape: { x: x0, y: from[1] - height / 2, width: Math.max(x1 - x0, 2), height, r: 2 }, style: { fill: muster.color(colors[api.value(3)] || "accent") } };
  };
  muster.phaseTip = (p) => `<div>${escaped(clock.format(new Date(p.value[1])))}</div><b>${escaped(p.value[4])}</b><div>${escaped(p.value[5])}</div>`;
  const held = new Map();
  // Rows that begin before the curve replace it. rows: [[time, value of series 0, value of series 1, ...], ...]; a row of the time of the last one replaces it.
  const steps = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];
  const secondsStep = (largest) => steps.find((step) => largest / step <= 4) ?? 86400 * (Math.floor(largest / 345600) + 1);
  const bytesStep = (largest) => 2 ** Math.max(Math.ceil(Math.log2(Math.max(largest, 1) / 4)), 0);
  // scaled: kind by number of the curve whose value axis has whole minutes, or powers of 2 of bytes.
  muster.push = (id, rows, fromMs, scaled = {}) => {
    const chart = getElement(id)?.chart;
    if (!chart || chart.isDisposed?.()) return;
    let data = held.get(id);
    if (!data || data.chart !== chart) {
      const series = chart.getOption().series.filter((s) => s.type === "line" || s.type === "bar");
      data = { chart, points: series.map((s) => s.data.map((d) => (Array.isArray(d) ? d : d.value))) };
      held.set(id, data);
    }
    if (data.points.every((points) => points.length && rows[0][0] <= points[0][0])) data.points = data.points.map(() => []);
    for (const [at, ...values] of rows) {
      data.points.forEach((points, i) => {
        if (points.length && points[points.length - 1][0] === at) points[points.length - 1] = [at, values[i]];
        else if (!points.length || points[points.length - 1][0] < at) points.push([at, values[i]]);
        while (points.length && points[0][0] < fromMs) points.shift();
      });
    }
    const names = chart.getOption().series.filter((s) => s.type === "line" || s.type === "bar");
    const last = Math.max(...data.points.map((points) => (points.length ? points[points.length - 1][0] : 0)));
    const options = { xAxis: chart.getOption().xAxis.map((axis) => (axis.max ? { min: Math.max(axis.min, fromMs), max: last } : { min: Math.max(axis.min, fromMs) })) };
    const axes = chart.getOption().yAxis;
    const values = axes.filter((axis) => axis.type === "value").length;
    for (const [number, kind] of Object.entries(scaled)) {
      const points = values > 1 ? [data.points[number]] : data.points;
      const largest = points.flat().reduce((most, p) => Math.max(most, p[1] ?? 0), 0);
      const step = kind === "seconds" ? secondsStep(largest) : bytesStep(largest);
      options.yAxis = axes.map(() => ({}));
      options.yAxis[axes.length - values + Number(number)] = { interval: step, max: step * Math.max(Math.ceil(largest / step), 1) };
    }
    chart.setOption({ ...options, series: data.points.map((points, i) => ({ id: names[i].id, data: points })) });
  };
  muster.marks = (id, marks) => {
    const chart = getElement(id)?.chart;
    if (chart) chart.setOption({ series: [{ id: "marks", markLine: { data: marks } }] });
  };
  muster.groupTip = (points) => {
    const list = (Array.isArray(points) ? points : [points]).filter((p) => p.seriesType === "line" && p.value[1] !== null);
    if (!list.length) return "";
    const lines = list.map((p) => `<div>${p.marker} ${escaped(p.seriesName)} <b style="float:right;margin-left:14px">${escaped(muster.format[p.seriesId === "line-1" ? "seconds" : "count"](p.value[1]))}</b></div>`);
    return `<div>${escaped(clock.format(new Date(list[0].value[0])))}</div>${lines.join("")}`;
  };
  muster.markTip = (p) => `<div>${escaped(clock.format(new Date(p.data.xAxis ?? p.value)))}</div><b>${escaped(p.data.text ?? p.name)}</b>`;

  // Keyboard, copying
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      const search = document.querySelector(".main .page-search input") || document.querySelector(".top .search input");
      if (search) { event.preventDefault(); search.focus(); search.select(); }
    }
  });
  muster.copy = async (text) => {
    try { await navigator.clipboard.writeText(text); } catch {
      const area = Object.assign(document.createElement("textarea"), { value: text });
      document.body.append(area); area.select(); document.execCommand("copy"); area.remove();
    }
  };
  // Quasar's lists of options have a child that takes the focus, and may have options only. The focus is the field's.
  new MutationObserver((changes) => {
    if (!changes.some((change) => change.addedNodes.length)) return;
    for (const each of document.querySelectorAll('[role="listbox"] > .q-virtual-scroll__content[tabindex]')) each.removeAttribute("tabindex");
  }).observe(document.documentElement, { childList: true, subtree: true });
  // On a narrow screen the navigation is a row that scrolls.
  muster.showPlace = () => document.querySelector(".nav [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
  muster.replaceUrl = (url) => history.replaceState(history.state, "", url);

  // The grid of groups
  muster.openGroup = (event) => { if (event.data) location.href = `/group?${new URLSearchParams({ name: event.data.group })}`; };
  muster.groupsSorted = (event) => {
    const sort = event.api.getColumnState().find((column) => column.sort), url = new URL(location.href);
    if (sort) { url.searchParams.set("sort", sort.colId); url.searchParams.set("desc", sort.sort === "desc" ? "1" : "0"); }
    else { url.searchParams.delete("sort"); url.searchParams.delete("desc"); }
    muster.replaceUrl(url.pathname + url.search);
  };
  muster.groups = () => ({
    getRows: async (p) => {
      const sort = p.sortModel[0];
      const url = new URLSearchParams(location.search);
      url.set("start", p.startRow); url.set("end", p.endRow);
      if (sort) { url.set("sort", sort.colId); url.set("desc", sort.sort === "desc" ? "1" : "0"); }
      try {
        const response = await fetch(`/data/groups?${url}`);
        if (!response.ok) throw new Error(response.status);
        const found = await response.json();
        p.successCallback(found.rows, found.total);
      } catch { p.failCallback(); }
    },
  });
  muster.stateClass = (state) => ({ Stable: "s-ok", Empty: "s-info", Dead: "s-bad", PreparingRebalance: "s-warn", CompletingRebalance: "s-warn", Assigning: "s-warn", Reconciling: "s-warn" })[state] || "";
  muster.stateMark = (state) => ({ Stable: "●", Empty: "○", Dead: "✕" })[state] || "◐";
})();
