// Keys that work on every page.

import { $, $$, isTyping } from "./common.js";

export function startKeys() {
  const dialog = $("#keys");
  const button = $("[data-keys]");
  button.hidden = false;
  button.addEventListener("click", () => dialog.showModal());
  document.addEventListener("keydown", (event) => {
    const search = $("#q") ?? $("#find");
    if (event.key === "Escape" && event.target === search) search.blur();
    if (isTyping(event) || dialog.open) return;
    if (event.key === "?") dialog.showModal();
    else if (event.key === "/" && search) search.focus();
    else if (event.key === "u" && document.body.dataset.page !== "home") location.assign($("[data-back]")?.href ?? "/");
    else if (event.key === "c" && $("[data-continue]")) location.assign($("[data-continue]").href);
    else if (["j", "k"].includes(event.key) && document.body.dataset.page === "home") step(event.key === "j" ? 1 : -1);
    else return;
    event.preventDefault();
  });
  // From the search box, the arrow leads into the list.
  $("#q")?.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown") return;
    event.preventDefault();
    step(1);
  });
}

function step(by) {
  const links = $$(".card h2 a");
  const at = links.indexOf(document.activeElement);
  const next = links[Math.max(0, Math.min(links.length - 1, at + by))];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}
