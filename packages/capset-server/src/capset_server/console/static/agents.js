// The agent editor: dragging, and keeping what the server's responses must not undo. Without it, the buttons suffice.
(() => {
  "use strict";
  const form = () => document.getElementById("agent-form");
  let dragged = null;
  let sent = new Map();
  let later = [];
  let focused = null;
  let isDirty = false;

  const texts = () => [...form().querySelectorAll("input[id]:not([type=hidden], [type=checkbox]), textarea[id]")];

  // Sections that the user has opened or closed stay so when a response is merged in.
  const chosen = new WeakSet();
  document.addEventListener("click", (event) => {
    const summary = event.target.closest("summary");
    if (summary) chosen.add(summary.parentElement);
  });
  htmx.registerExtension("keep-open", {
    htmx_before_morph_attr: (element, detail) => !(detail.attrName === "open" && chosen.has(element)),
  });

  // Text typed during a request is newer than its response.
  document.addEventListener("htmx:config:request", (event) => {
    if (event.detail.ctx.sourceElement !== form()) return;
    sent = new Map(texts().map((one) => [one.id, one.value]));
  });
  document.addEventListener("htmx:before:swap", (event) => {
    if (event.detail.ctx.sourceElement !== form()) return;
    later = texts().filter((one) => sent.has(one.id) && sent.get(one.id) !== one.value).map((one) => [one.id, one.value]);
    focused = document.activeElement && document.activeElement.id;
  });
  document.addEventListener("htmx:after:swap", () => {
    if (!form()) return;
    for (const [id, value] of later) {
      const element = document.getElementById(id);
      if (element) element.value = value;
    }
    later = [];
    const element = focused && document.getElementById(focused);
    if (element && document.activeElement === document.body) element.focus();
    focused = null;
  });

  // The browser asks before it discards typed text. Saving leaves the page without a question.
  document.addEventListener("input", (event) => { if (form() && form().contains(event.target)) isDirty = true; });
  document.addEventListener("submit", (event) => {
    const what = event.submitter && event.submitter.value;
    if (event.target === form() && /^(save|overwrite)/.test(what || "")) isDirty = false;
    else if (event.target === form()) isDirty = true;
  }, true);
  document.addEventListener("htmx:after:swap", () => { if (document.getElementById("editor-error")) isDirty = true; });
  window.addEventListener("beforeunload", (event) => { if (isDirty && form()) event.preventDefault(); });

  // Capabilities are dragged by their handles; the form then has the new order.
  document.addEventListener("dragstart", (event) => {
    const handle = event.target.closest && event.target.closest(".handle");
    if (!handle) return;
    dragged = handle.closest("[data-entry]");
    event.dataTransfer.effectAllowed = "move";
    event.dataTransfer.setData("text/plain", dragged.dataset.entry);
    dragged.classList.add("dragged");
  });
  document.addEventListener("dragover", (event) => {
    const over = dragged && event.target.closest && event.target.closest("#entries > [data-entry]");
    if (!over) return;
    event.preventDefault();
    if (over === dragged) return;
    // Swap only past the middle, in the direction of the movement: otherwise the two would swap back.
    const box = over.getBoundingClientRect(), isLower = event.clientY > box.top + box.height / 2;
    const comesAfter = Boolean(over.compareDocumentPosition(dragged) & Node.DOCUMENT_POSITION_FOLLOWING);
    if (isLower !== comesAfter) over.parentElement.insertBefore(dragged, isLower ? over.nextSibling : over);
  });
  document.addEventListener("drop", (event) => { if (dragged) event.preventDefault(); });
  document.addEventListener("dragend", () => {
    if (!dragged) return;
    dragged.classList.remove("dragged");
    dragged = null;
    isDirty = true;
    htmx.trigger(form(), "moved");
  });
})();
