"use strict";
// Without this file everything works: a click selects a command, and a page that follows something loads itself again.
for (const button of document.querySelectorAll("button.copy")) {
  const code = button.parentElement.querySelector("code");
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = "Press Ctrl+C";
    }
  });
}
// Only what changed is put in place, so that a screen reader says that, and the focus stays.
async function follow(live) {
  while (live.hasAttribute("data-live")) {
    await new Promise((done) => setTimeout(done, 1000));
    try {
      const answer = await fetch(location.href, { credentials: "same-origin" });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const now = page.getElementById("live");
      if (!now) return location.reload();
      if (now.innerHTML !== live.innerHTML) live.innerHTML = now.innerHTML;
      live.toggleAttribute("data-live", now.hasAttribute("data-live"));
    } catch {
      // The next second tries again.
    }
  }
}
const live = document.getElementById("live");
if (live) follow(live);
