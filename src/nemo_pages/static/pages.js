/* What every page does in the browser: times in the viewer's zone, live updates, chosen runs. */
"use strict";
(() => {
  const root = document.documentElement;
  const body = document.body;
  root.classList.add("scripted");

  /* ---- times ---- */

  const whole = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
  const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
  const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

  function age(seconds) {
    if (seconds < 5) return "just now";
    const at = UNITS.findIndex(([, size]) => seconds >= size);
    const [unit, size] = UNITS[at];
    const count = Math.floor(seconds / size);
    const next = UNITS[at + 1];
    const rest = next && count < 10 && at < 2 ? Math.floor((seconds % size) / next[1]) : 0;
    return `${count} ${unit}${rest ? ` ${rest} ${next[0]}` : ""} ago`;
  }

  function writeTimes(within) {
    const now = Date.now();
    for (const element of within.querySelectorAll("time[data-time]")) {
      const at = new Date(element.dateTime);
      if (Number.isNaN(at.getTime())) continue;
      let text = whole.format(at);
      if (element.dataset.time === "ago") {
        const seconds = (now - at.getTime()) / 1000;
        if (seconds > -60 && seconds < 45 * 86400) text = age(Math.max(0, seconds));
      }
      if (element.textContent !== text) element.textContent = text;
    }
  }

  writeTimes(document);
  setInterval(() => { if (!document.hidden) writeTimes(document); }, 1000);

  /* ---- menus close by Escape and by a click elsewhere ---- */

  document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && document.querySelector("details.menu[open]");
    if (menu) { menu.open = false; menu.querySelector("summary").focus(); }
  });
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      if (!menu.contains(event.target)) menu.open = false;
    }
  });

  /* ---- chosen runs stay chosen when the list changes ---- */

  const CHOSEN = "chosen-runs";
  const chosen = new Set(readChosen());

  function readChosen() {
    try { return JSON.parse(sessionStorage.getItem(CHOSEN)) || []; } catch { return []; }
  }

  function showChosen() {
    for (const box of document.querySelectorAll(".chosen-runs input[name=runs]")) box.checked = chosen.has(box.id);
    const shown = document.querySelectorAll(".chosen-runs input[name=runs]:checked").length;
    for (const button of document.querySelectorAll("[data-compare]")) {
      button.disabled = shown < 2;
      button.textContent = shown > 1 ? `Compare ${shown} runs` : "Choose two or more runs to compare";
    }
  }

  document.addEventListener("change", (event) => {
    if (!event.target.matches(".chosen-runs input[name=runs]")) return;
    if (event.target.checked) chosen.add(event.target.id); else chosen.delete(event.target.id);
    try { sessionStorage.setItem(CHOSEN, JSON.stringify([...chosen].slice(-200))); } catch { /* private window */ }
    showChosen();
  });
  showChosen();

  if (typeof htmx === "undefined") return;

  /* ---- parts of the page that are replaced ---- */

  if (typeof Idiomorph !== "undefined") {
    Idiomorph.defaults.ignoreActiveValue = true;
    Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, element) =>
      !(name === "open" && element.tagName === "DETAILS");
  }
  document.addEventListener("htmx:afterSwap", () => { writeTimes(document); showChosen(); });
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.xhr.status >= 400) failed(event.detail.xhr);
  });
  document.addEventListener("htmx:sendError", () => lose());
  document.addEventListener("htmx:timeout", () => lose());

  function failed(answer) {
    if (answer.status === 401) { location.reload(); return; }
    const told = document.createElement("div");
    told.className = "problem";
    told.setAttribute("role", "alert");
    const parsed = new DOMParser().parseFromString(answer.responseText, "text/html");
    told.textContent = (parsed.querySelector(".problem") || parsed.body).textContent.trim().slice(0, 600);
    document.querySelectorAll("#main > .problem[role=alert]").forEach((old) => old.remove());
    document.getElementById("main").prepend(told);
  }

  /* ---- live updates: a stream, or questions every few seconds where other windows hold the streams ---- */

  const topics = (body.dataset.topics || "").split(/\s+/).filter(Boolean);
  if (!topics.length) { document.getElementById("live")?.remove(); return; }
  const query = topics.map((topic) => `topic=${encodeURIComponent(topic)}`).join("&");
  const STREAMS = 3;          /* of the six connections that a browser opens to one server */
  const SILENCE = 31000;      /* a stream says something every ten seconds */
  const POLL = 5000;
  const sign = document.getElementById("live");
  const banner = document.getElementById("lost");
  let known = null;
  let stream = null;
  let release = null;
  let asking = null;
  let silence = null;
  let round = 0;
  let heard = new Date();

  function show(state, word) {
    if (sign.dataset.live === state) return;
    sign.dataset.live = state;
    sign.querySelector("[data-live-word]").textContent = word;
  }

  function hear(versions, state, word) {
    heard = new Date();
    banner.hidden = true;
    show(state, word);
    const before = known || shownVersions();
    for (const topic of topics) {
      if ((known || topic in before) && versions[topic] !== before[topic]) htmx.trigger(body, `${topic}-changed`, { version: versions[topic] });
    }
    known = versions;
  }

  /* What changed between the making of the page and the first event is seen by the version in the page. */
  function shownVersions() {
    const shown = [...document.querySelectorAll("[data-topic][data-version]")];
    return Object.fromEntries(shown.map((element) => [element.dataset.topic, element.dataset.version]));
  }

  function lose() {
    if (document.hidden) return;
    if (banner.hidden) {
      banner.querySelector("[data-lost-since]").textContent = clock.format(heard);
      banner.hidden = false;
    }
    show("lost", "connection lost");
  }

  function stop() {
    round += 1;
    stream?.close();
    release?.();
    clearTimeout(asking);
    clearTimeout(silence);
    stream = release = asking = silence = null;
  }

  function later(mine, wait) {
    clearTimeout(asking);
    asking = setTimeout(() => { if (mine === round) start(); }, wait);
  }

  function listen(mine) {
    const watch = () => {
      clearTimeout(silence);
      silence = setTimeout(() => { if (mine === round) { lose(); start(); } }, SILENCE);
    };
    stream = new EventSource(`${body.dataset.events}?${query}`);
    stream.addEventListener("versions", (event) => { watch(); hear(JSON.parse(event.data), "stream", "live"); });
    stream.onerror = () => {
      lose();
      if (stream && stream.readyState === EventSource.CLOSED) { stop(); later(round, POLL); }
    };
    watch();
  }

  async function ask(mine) {
    try {
      const answer = await fetch(`${body.dataset.versions}?${query}`, { cache: "no-store", signal: AbortSignal.timeout(15000) });
      if (mine !== round) return;
      if (answer.status === 401) { location.reload(); return; }
      if (!answer.ok) throw new Error(String(answer.status));
      hear(await answer.json(), "polling", "every 5 s");
    } catch {
      if (mine === round) lose();
    }
    if (mine === round) later(mine, POLL);
  }

  /* A lock of the browser for each stream: eight windows share them, and a closed window frees its own. */
  async function place(mine, number) {
    if (!navigator.locks || number >= STREAMS) return ask(mine);
    await navigator.locks.request(`pages-stream-${location.host}-${number}`, { ifAvailable: true }, async (lock) => {
      if (mine !== round) return;
      if (!lock) { place(mine, number + 1); return; }
      const held = new Promise((resolve) => { release = resolve; });
      listen(mine);
      await held;
    });
  }

  function start() {
    stop();
    if (!document.hidden) place(round, 0);
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { stop(); show("hidden", "paused while hidden"); } else start();
  });
  addEventListener("pagehide", stop);
  addEventListener("pageshow", (event) => { if (event.persisted) start(); });
  start();
})();
