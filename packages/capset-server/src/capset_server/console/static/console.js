// The little that the console does in the browser beside htmx. There is no inline script, and nothing is evaluated.
(() => {
  "use strict";
  const root = document.documentElement;

  const stored = localStorage.getItem("capset-theme");
  if (stored) root.dataset.theme = stored;

  // htmx may not make code of text: attributes such as hx-on or "js:" do nothing.
  const refuse = class { constructor() { throw new Error("evaluation is off"); } };
  htmx.registerExtension("no-eval", { init: (api) => api.initSecurity(null, refuse, refuse) });

  // Every request of htmx that changes something proves that it comes from a page of this sign-in.
  document.addEventListener("htmx:config:request", (event) => {
    const request = event.detail.ctx.request;
    request.headers["X-Capset-Token"] = document.body.dataset.token;
  });

  // What went wrong is shown in the place of messages, and replaces nothing else.
  document.addEventListener("htmx:before:swap", (event) => {
    const response = event.detail.ctx.response;
    if (!response || response.status < 400) return;
    event.preventDefault();
    showMessage(event.detail.ctx.text);
    if (response.status === 401 || response.status === 403) renewToken();
  });
  document.addEventListener("htmx:error", () => showText("The server cannot be reached. Try again."));

  // After another sign-in, in another window, a page goes on with what is typed in it: by the token of that sign-in.
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
    showText(found ? found.textContent : "Something went wrong.");
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
      showText("The browser does not allow it to be copied: select it, and copy it by hand.");
    }
  }

  // What is shown once is not there any more when somebody goes back to its page, even if the browser has kept that.
  addEventListener("pagehide", () => {
    for (const element of document.querySelectorAll("[data-once]")) element.remove();
    for (const form of document.querySelectorAll("form[data-single]")) delete form.dataset.sent;
  });

  // A form whose answer must not be lost is sent once, however often its button is pressed.
  document.addEventListener("submit", (event) => {
    if (!event.target.matches("[data-single]")) return;
    if (event.target.dataset.sent) event.preventDefault();
    event.target.dataset.sent = "yes";
  });

  // Keys: each element with data-key="a" is pressed by that key, unless one is writing; with data-key-focuses it is only
  // focused, so that no single key decides anything.
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea, select")) return;
    const found = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    if (!found) return;
    event.preventDefault();
    found.matches("input, textarea, select, [data-key-focuses]") ? found.focus() : found.click();
  });
})();
