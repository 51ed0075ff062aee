// The activity page while conversations are still being read: it is asked again until the charts are there.

import { $, get, parsed } from "./common.js";

const PAUSE = 1500; // milliseconds

export function startSee() {
  if ($("[data-again]")) setTimeout(again, PAUSE);
}

async function again() {
  try {
    const html = await (await get(location.href)).text();
    $("main").replaceChildren(...$("main", parsed(html)).childNodes);
  } catch {
    return; // the server has stopped
  }
  startSee();
}
