// The console's scripts besides htmx. Pages have no inline scripts, and nothing is evaluated.
(() => {
  "use strict";
  const root = document.documentElement;

  const stored = localStorage.getItem("capset-theme");
  if (stored) root.dataset.theme = stored;

  // htmx must not evaluate text as code: attributes such as hx-on or "js:" do nothing.
  const refuse = class { constructor() { throw new Error("evaluation is disabled"); } };
  htmx.registerExtension("no-eval", { init: (api) => api.initSecurity(null, refuse, refuse) });

  // The token proves that a request of htmx comes from a page of this sign-in.
  document.addEventListener("htmx:config:request", (event) => {
    const request = event.detail.ctx.request;
    request.headers["X-Capset-Token"] = document.body.dataset.token;
  });

  // Errors are shown in the message area, and replace nothing else.
  document.addEventListener("htmx:before:swap", (event) => {
    const response = event.detail.ctx.response;
    if (!response || response.status < 400) return;
    event.preventDefault();
    showMessage(event.detail.ctx.text);
    if (response.status === 401 || response.status === 403) renewToken();
  });
  document.addEventListener("htmx:error", () => showText("The server cannot be reached. Try again."));

  // After a new sign-in in another window, a page keeps its typed text and takes the token of the new sign-in.
  let isOld = false;
  async function renewToken() {
    isOld = true;
    const answer = await fetch(location.href);
    const found = new DOMParser().parseFromString(await answer.text(), "text/html").body.dataset.token;
    if (!found) return;
    isOld = false;
    document.body.dataset.token = found;
    for (const input of document.querySelectorAll("input[type=hidden][name=token]")) input.value = found;
  }
  window.addEventListener("focus", () => { if (isOld) renewToken(); });

  function showMessage(html) {
    const found = new DOMParser().parseFromString(html, "text/html").querySelector("[role=alert]");
    showText(found ? found.textContent : "Something went wrong. Try again.");
  }
  function showText(text) {
    const place = document.getElementById("messages");
    if (!place) return;
    const line = document.createElement("p");
    line.className = "alert";
    line.textContent = text;
    place.replaceChildren(line);
    place.scrollIntoView({ block: "nearest" });
  }

  document.addEventListener("click", (event) => {
    const element = event.target.closest("[data-theme-switch], [data-copy], [data-confirm]");
    for (const open of document.querySelectorAll("details.account[open]")) {
      if (!open.contains(event.target)) open.open = false;
    }
    if (!element) return;
    if (element.matches("[data-theme-switch]")) {
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
      localStorage.setItem("capset-theme", root.dataset.theme);
    } else if (element.matches("[data-copy]")) {
      copy(element);
    } else if (!window.confirm(element.dataset.confirm)) {
      event.preventDefault();
      event.stopPropagation();
    }
  }, true);

  async function copy(element) {
    try {
      await navigator.clipboard.writeText(element.dataset.copy);
      element.textContent = "Copied";
    } catch {
      showText("The browser does not allow copying. Select the text and copy it yourself.");
    }
  }

  // What is shown once is removed, so that it is gone when the user goes back, even if the browser has cached the page.
  addEventListener("pagehide", () => {
    for (const element of document.querySelectorAll("[data-once]")) element.remove();
    for (const form of document.querySelectorAll("form[data-single]")) delete form.dataset.sent;
  });

  // A form whose response must not be lost is sent only once, even if its button is pressed again.
  document.addEventListener("submit", (event) => {
    if (!event.target.matches("[data-single]")) return;
    if (event.target.dataset.sent) event.preventDefault();
    event.target.dataset.sent = "yes";
  });

  // Shortcuts: a key presses the element with its data-key, except while the user is typing. With data-key-focuses the
  // element is only focused, so that no single key decides anything.
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input:not([type=checkbox]), textarea, select")) return;
    const found = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    if (!found) return;
    event.preventDefault();
    found.matches("input, textarea, select, [data-key-focuses]") ? found.focus() : found.click();
  });
})();
