"use strict";
// Without this file everything works: a click selects a command, and this adds a button that copies it.
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
