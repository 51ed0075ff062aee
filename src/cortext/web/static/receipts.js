// The receipts of the installed tools, one after the other: each reads the conversation.

import { $, $$, get, parsed } from "./common.js";

export async function startReceipts() {
  for (const item of $$("[data-receipt]")) {
    const place = $(".place", item);
    if (place.children.length) continue;
    place.innerHTML = '<p class="loading">Working out what would be carried over…</p>';
    try {
      place.replaceChildren(parsed(await (await get(item.dataset.receipt)).text()));
    } catch {
      place.innerHTML = '<p class="warning">The receipt could not be made.</p>';
    }
    for (const button of $$("[data-copy]", place)) button.hidden = false;
  }
}
