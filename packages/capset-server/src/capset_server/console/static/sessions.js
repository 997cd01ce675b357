// What a session's pages do beside htmx: sending by Enter, following the end of a conversation, and uploads.
(() => {
  "use strict";

  // htmx looks at the page in a task of its own, which may run before its extension for streams is there, or after.
  setTimeout(() => {
    const live = document.getElementById("live");
    if (!live) return;
    live.setAttribute("hx-sse:connect", live.dataset.stream);
    htmx.process(live);
  });

  document.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || !event.target.matches("textarea[data-enter]")) return;
    event.preventDefault();
    event.target.form.requestSubmit();
  });

  // The conversation stays at its end while it grows, unless somebody reads further up.
  const root = document.scrollingElement;
  const isAtEnd = () => root.scrollHeight - root.scrollTop - root.clientHeight < 120;
  let follows = true;
  document.addEventListener("htmx:sse:before:message", () => { follows = isAtEnd(); });
  document.addEventListener("htmx:sse:after:message", () => { if (follows) root.scrollTop = root.scrollHeight; });
  if (document.querySelector("#conversation .turn")) root.scrollTop = root.scrollHeight;

  // A stream that may not go on belongs to a sign-in that is over, or to a session that is gone: the page says which.
  document.addEventListener("htmx:sse:error", (event) => {
    if ([401, 403, 404].includes(event.detail.status)) location.reload();
  });

  document.addEventListener("submit", (event) => {
    const folder = event.target.dataset.newFile;
    if (folder === undefined) return;
    event.preventDefault();
    const name = event.target.querySelector("input").value;
    location.assign(`${folder}${encodeURIComponent(name)}?edit=1`);
  });

  document.addEventListener("change", async (event) => {
    const folder = event.target.dataset.upload;
    if (folder === undefined) return;
    const state = document.querySelector("[data-upload-state]");
    for (const file of event.target.files) {
      state.textContent = `Storing ${file.name} …`;
      const problem = await store(folder + encodeURIComponent(file.name), file);
      if (problem) {
        state.textContent = `${file.name} was not stored: ${problem}`;
        return;
      }
    }
    location.reload();
  });

  async function store(path, file) {
    let answer = await put(path, file, { "If-None-Match": "*" });
    if (answer.status === 412 && window.confirm(`${file.name} is there already. Replace it?`)) {
      answer = await put(path, file, {});
    }
    if (answer.ok) return "";
    const said = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("[role=alert]");
    return said ? said.textContent : `the server answered ${answer.status}`;
  }

  function put(path, file, headers) {
    const own = { "X-Capset-Token": document.body.dataset.token, "HX-Request": "true", "Content-Type": "application/octet-stream" };
    return fetch(path, { method: "PUT", body: file, headers: { ...own, ...headers }, redirect: "error" });
  }
})();
