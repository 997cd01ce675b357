// The inbox: a list in use does not move, selected requests stay selected, the title has the number of open requests,
// and keys lead through the rows.
(() => {
  "use strict";
  const ids = (root) => [...root.querySelectorAll("[data-request]")].map((one) => one.dataset.request);
  const boxes = () => [...document.querySelectorAll("#inbox input[name=request]")];
  const base = document.title;
  let waiting = null, selected = new Set();

  function isInUse(list) {
    return list.matches(":hover") || list.contains(document.activeElement) || boxes().some((box) => box.checked);
  }

  // Requests that come after all others move nothing.
  function movesAnything(before, after) {
    return before.some((id, place) => after[place] !== id);
  }

  function count(list) {
    const pending = list.dataset.pending;
    if (pending === undefined) return;
    document.title = pending === "0" ? base : `(${pending}) ${base}`;
    const announced = document.getElementById("announced");
    const text = pending === "1" ? "1 open request" : `${pending} open requests`;
    if (announced && announced.textContent !== text) announced.textContent = text;
  }

  // While the list is in use, its order does not change: decided requests are marked, and new ones are counted above.
  function hold(list, fresh) {
    const before = ids(list), after = new Set(ids(fresh));
    for (const row of list.querySelectorAll("[data-request]")) {
      const gone = row.querySelector(".gone");
      if (!gone) continue;
      gone.hidden = after.has(row.dataset.request);
      gone.textContent = gone.hidden ? "" : "No longer listed: it was decided, or has expired.";
      row.classList.toggle("is-gone", !gone.hidden);
    }
    const news = [...after].filter((id) => !before.includes(id)).length;
    const held = document.getElementById("held");
    if (!held) return;
    held.hidden = false;
    held.firstElementChild.textContent = news ? `Show ${news} new` : "Refresh the list";
  }

  // A selection is of exactly the requests that were shown: if a row has got another equal one, it is not selected.
  const note = () => { selected = new Set(boxes().filter((box) => box.checked).map((box) => box.value)); showAll(); };
  function showAll() {
    const all = document.getElementById("select-all");
    if (!all) return;
    all.closest("p").hidden = !boxes().length;
    all.checked = boxes().length > 0 && boxes().every((box) => box.checked);
  }

  document.addEventListener("htmx:before:swap", (event) => {
    const ctx = event.detail.ctx, list = ctx.target;
    if (!list || !list.matches("#inbox, #beside") || ctx.response.status !== 200) return;
    const fresh = new DOMParser().parseFromString(ctx.text, "text/html").querySelector("#inbox, #beside");
    if (!fresh) return;
    count(fresh);
    if (waiting !== list && isInUse(list) && movesAnything(ids(list), ids(fresh))) {
      event.preventDefault();
      hold(list, fresh);
    } else {
      waiting = null;
      const held = document.getElementById("held");
      if (held) held.hidden = true;
    }
  });

  document.addEventListener("htmx:after:swap", () => {
    for (const box of boxes()) box.checked = selected.has(box.value);
    note();
  });

  document.addEventListener("change", (event) => {
    if (event.target.id === "select-all") for (const box of boxes()) box.checked = event.target.checked;
    if (event.target.closest("#decisions")) note();
  });

  document.addEventListener("click", (event) => {
    if (!event.target.closest("#held button")) return;
    waiting = document.getElementById("inbox");  // the next response is shown even if the list is in use
    htmx.ajax("GET", waiting.getAttribute("hx-get"), { source: waiting, target: waiting, swap: "outerMorph" });
  });

  function move(key, links) {
    const at = links.findIndex((one) => one === document.activeElement || one.getAttribute("aria-current"));
    const focused = links.indexOf(document.activeElement);
    const from = focused >= 0 ? focused : at;
    const to = from < 0 ? 0 : Math.min(Math.max(from + (key === "j" ? 1 : -1), 0), links.length - 1);
    links[to].focus();
  }

  // Before the shortcuts of all pages: "a" and "r" select the focused request if none is selected, so that the button
  // and the reason that they lead to are for it.
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.matches("input:not([type=checkbox]), textarea, select");
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping) return;
    const links = [...document.querySelectorAll("a.request")].filter((one) => one.checkVisibility());
    if (links.length && (event.key === "j" || event.key === "k")) {
      event.preventDefault();
      move(event.key, links);
      return;
    }
    const row = document.activeElement.closest("#inbox [data-request]");
    const box = row && row.querySelector("input[name=request]");
    if (!box) return;
    if (event.key === "x" || ("ar".includes(event.key) && !boxes().some((one) => one.checked))) {
      box.checked = event.key === "x" ? !box.checked : true;
      note();
    } else if (event.key === "e") {
      location.assign(row.querySelector("[data-edit]").dataset.edit);
    }
  }, true);

  const list = document.getElementById("inbox");
  if (list) count(list);
  note();
})();
