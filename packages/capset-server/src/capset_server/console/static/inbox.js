// The inbox: a list in use does not move, the title has the number of open requests, and j and k select requests.
(() => {
  "use strict";
  const ids = (root) => [...root.querySelectorAll("[data-request]")].map((one) => one.dataset.request);
  const base = document.title;
  let waiting = null;

  function isInUse(list) {
    return list.matches(":hover") || list.contains(document.activeElement);
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

  document.addEventListener("click", (event) => {
    if (!event.target.closest("#held button")) return;
    waiting = document.getElementById("inbox");  // the next response is shown even if the list is in use
    htmx.ajax("GET", waiting.getAttribute("hx-get"), { source: waiting, target: waiting, swap: "outerMorph" });
  });

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea, select")) return;
    if (event.key !== "j" && event.key !== "k") return;
    const links = [...document.querySelectorAll("a.request")].filter((one) => one.checkVisibility());
    if (!links.length) return;
    const at = links.findIndex((one) => one === document.activeElement || one.getAttribute("aria-current"));
    const focused = links.indexOf(document.activeElement);
    const from = focused >= 0 ? focused : at;
    const to = from < 0 ? 0 : Math.min(Math.max(from + (event.key === "j" ? 1 : -1), 0), links.length - 1);
    event.preventDefault();
    links[to].focus();
  });

  const list = document.getElementById("inbox");
  if (list) count(list);
})();
