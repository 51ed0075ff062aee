// Starts what the page needs. Everything works without this file except live updates, folding all calls and copying.

import { startKeys } from "./keys.js";
import { startReader } from "./reader.js";
import { startSearch } from "./search.js";
import { startSee } from "./see.js";
import { startReceipts } from "./receipts.js";
import { startCopying } from "./copying.js";

const starts = { home: startSearch, conversation: startReader, continue: startReceipts, see: startSee };

startCopying();
startKeys();
starts[document.body.dataset.page]?.();
document.documentElement.dataset.ready = "";

for (const menu of document.querySelectorAll("details.menu")) {
  document.addEventListener("click", (event) => {
    if (menu.open && !menu.contains(event.target)) menu.open = false;
  });
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
}
