// Results as you type, filters without a reload, and a list that follows what is captured.

import { $, $$, follow, get, parsed } from "./common.js";

const PAUSE = 90; // milliseconds after a key

export function startSearch() {
  const form = $("form.search");
  const results = $("#results");
  let waiting, running, again;

  const query = () => {
    const fields = [...new FormData(form)].filter(([, value]) => value);
    return new URLSearchParams(fields).toString();
  };

  // Say which filters are chosen, and offer to clear them.
  function showFilters() {
    for (const menu of $$(".pick")) {
      const chosen = $$("input:checked", menu).map((box) => box.parentNode.textContent.trim());
      $("[data-chosen]", menu).textContent = chosen.join(", ") || menu.dataset.every;
      $("summary", menu).classList.toggle("on", chosen.length > 0);
    }
    for (const select of $$(".filters select")) select.classList.toggle("on", Boolean(select.value));
    const words = $("#q").value;
    const clear = $(".filters .clear");
    clear.hidden = !$(".filters .on, .filters [type=hidden]");
    clear.href = words ? `/?${new URLSearchParams({ q: words })}` : "/";
  }

  async function refresh(address = query(), keep = false) {
    running?.abort();
    running = new AbortController();
    const mine = running;
    results.setAttribute("aria-busy", "true");
    try {
      const answer = await get(`/results?${address}`, { signal: mine.signal });
      const html = await answer.text();
      if (mine !== running) return;
      const focused = document.activeElement?.closest(".card h2 a")?.getAttribute("href");
      results.replaceChildren(parsed(html));
      if (focused) $(`.card h2 a[href="${CSS.escape(focused)}"]`)?.focus();
      if (!keep) history.replaceState(null, "", address ? `/?${address}` : "/");
      clearTimeout(again);
      if ($("[data-again]", results)) again = setTimeout(refresh, 1500);
    } catch (error) {
      if (error.name !== "AbortError" && mine === running) {
        results.replaceChildren(parsed('<div class="empty"><h2>That did not work</h2><p>The filter may be invalid, or the server has stopped.</p></div>'));
      }
    } finally {
      if (mine === running) results.setAttribute("aria-busy", "false");
    }
  }

  form.addEventListener("submit", (event) => { event.preventDefault(); refresh(); });
  form.addEventListener("input", (event) => {
    clearTimeout(waiting);
    showFilters();
    if (event.target.id === "q") waiting = setTimeout(refresh, PAUSE);
    else refresh();
  });
  results.addEventListener("click", (event) => {
    const more = event.target.closest("[data-more]");
    if (!more) return;
    event.preventDefault();
    refresh(new URL(more.href).search.slice(1)); // in the address, so that the next change keeps it
  });
  if ($("[data-again]", results)) again = setTimeout(refresh, 1500);
  showFilters(); // a browser that goes back may have restored other choices
  // While a person reads results of a search, or further down, the list stays as it is; at its top it catches up.
  const atTop = () => !$("#q").value && scrollY < 200;
  function renew() {
    delete results.dataset.old;
    refresh(location.search.slice(1), true);
  }
  follow(`/live?shown=${form.dataset.state}`, () => { if (atTop()) renew(); else results.dataset.old = ""; });
  addEventListener("scroll", () => { if ("old" in results.dataset && atTop()) renew(); }, { passive: true });
}
