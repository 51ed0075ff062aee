// Copying: a command, a message as markdown, or the whole conversation.

import { $$, $, get, say } from "./common.js";

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    say("Copied.");
  } catch {
    say("The browser did not allow copying.");
  }
}

export function startCopying() {
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy], [data-copy-message], [data-copy-all]");
    if (!button) return;
    if (button.matches("[data-copy]")) {
      await copy(button.dataset.copy);
      return;
    }
    const here = $(".reader").dataset.here;
    const address = button.matches("[data-copy-all]")
      ? `${here}/export?format=markdown`
      : `${here}/m/${button.closest("article").dataset.seq}?as=markdown`;
    await copy(await (await get(address)).text());
  });
  for (const button of $$("[data-copy], [data-copy-all]")) button.hidden = false;
}

export function addCopyButtons(within) {
  for (const header of $$("article.message > header", within)) {
    if ($("[data-copy-message]", header)) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.dataset.copyMessage = "";
    button.textContent = "Copy";
    button.setAttribute("aria-label", "Copy this message as markdown");
    header.insertBefore(button, $(".link", header));
  }
}
