// The inbox: a list in use does not move, selected requests stay selected, the title has the number of open requests,
// and keys lead through the rows.
(() => {
  "use strict";
  const rows = (root) => [...root.querySelectorAll("[data-request]")];
  const ids = (row) => (row.dataset.requests ?? row.dataset.request).split(" ");  // of equal requests, which share a row
  const boxes = () => [...document.querySelectorAll("#inbox input[name=request]")];
  const base = document.title;
  let waiting = null, selected = [], pending = null;

  function isInUse(list) {
    return list.matches(":hover") || list.contains(document.activeElement) || boxes().some((box) => box.checked);
  }

  // Requests that come after all others move nothing.
  function movesAnything(list, fresh) {
    const after = rows(fresh);
    return rows(list).some((row, place) => after[place]?.dataset.request !== row.dataset.request);
  }

  // A selected row that is another one by now, since an equal request joined it or an approver changed its arguments.
  function changesSelection(fresh) {
    const shown = new Set([...fresh.querySelectorAll("input[name=request]")].map((box) => box.value));
    return boxes().some((box) => box.checked && !shown.has(box.value));
  }

  function announce(text) {
    const announced = document.getElementById("announced");
    if (announced) announced.textContent = text;
  }

  function count(list) {
    if (list.dataset.pending === undefined || list.dataset.pending === pending) return;
    pending = list.dataset.pending;
    document.title = pending === "0" ? base : `(${pending}) ${base}`;
    announce(pending === "1" ? "1 open request" : `${pending} open requests`);
  }

  // While the list is in use, its order does not change: decided requests are marked, and new ones are counted above.
  function hold(list, fresh) {
    const before = new Set(rows(list).flatMap(ids)), after = new Set(rows(fresh).flatMap(ids));
    for (const row of rows(list)) {
      const gone = row.querySelector(".gone");
      if (!gone) continue;
      const own = ids(row), left = own.filter((id) => after.has(id)).length;
      gone.hidden = left === own.length;
      if (gone.hidden) gone.textContent = "";
      else if (own.length === 1) gone.textContent = "No longer listed: it was decided, or has expired.";
      else gone.textContent = `No longer listed (decided or expired): ${own.length - left} of ${own.length}.`;
      row.classList.toggle("is-gone", !left);
    }
    const news = [...after].filter((id) => !before.has(id)).length;
    const held = document.getElementById("held");
    if (!held) return;
    held.hidden = false;
    held.firstElementChild.textContent = news ? `Show ${news} new` : "Refresh the list";
  }

  // The requests of the selected rows, each with the round that was shown.
  const note = () => {
    selected = boxes().filter((box) => box.checked).flatMap((box) => box.value.split(" "));
    showAll();
  };
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
    if (waiting !== list && isInUse(list) && (movesAnything(list, fresh) || changesSelection(fresh))) {
      event.preventDefault();
      hold(list, fresh);
    } else {
      waiting = null;
      const held = document.getElementById("held");
      if (held) held.hidden = true;
    }
  });

  // A row that an equal request has joined stays selected; it was shown on request. One with other arguments does not.
  document.addEventListener("htmx:after:swap", () => {
    const before = selected;
    for (const box of boxes()) box.checked = box.value.split(" ").some((request) => before.includes(request));
    note();
    const lost = before.filter((request) => !selected.includes(request)).length;
    if (lost) announce(lost === 1 ? "1 request is no longer selected" : `${lost} requests are no longer selected`);
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
