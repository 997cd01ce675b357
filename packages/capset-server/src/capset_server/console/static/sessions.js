// The scripts of a session's pages besides htmx: sending with Enter, following the end of a conversation, uploads.
(() => {
  "use strict";

  // htmx processes the page in a separate task, which may run before or after its extension for streams is loaded.
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

  // While the conversation grows, the page stays scrolled to its end, unless the reader has scrolled up.
  const root = document.scrollingElement;
  const isAtEnd = () => root.scrollHeight - root.scrollTop - root.clientHeight < 120;
  let follows = true;
  document.addEventListener("htmx:sse:before:message", () => { follows = isAtEnd(); });
  document.addEventListener("htmx:sse:after:message", () => { if (follows) root.scrollTop = root.scrollHeight; });
  if (document.querySelector("#conversation .turn")) root.scrollTop = root.scrollHeight;

  // The stream is refused if the sign-in has ended or the session was deleted: the reloaded page says which.
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
      state.textContent = `Uploading ${file.name} …`;
      const problem = await store(folder + encodeURIComponent(file.name), file);
      if (problem) {
        state.textContent = `${file.name} was not uploaded: ${problem}`;
        return;
      }
    }
    location.reload();
  });

  async function store(path, file) {
    let answer = await put(path, file, { "If-None-Match": "*" });
    if (answer.status === 412 && window.confirm(`${file.name} already exists. Replace it?`)) {
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
