// Reading a conversation: windows of messages while scrolling, jumps between one's own messages, folds, live updates.

import { $, $$, follow, get, isTyping, parsed, say } from "./common.js";
import { addCopyButtons } from "./copying.js";
import { startMarking } from "./marking.js";

const COUNT = 40; // messages that are loaded at a time
const MOST = 240; // messages in the document; the farthest are removed

export function startReader() {
  const reader = $(".reader");
  const section = $(".messages");
  const list = $("#messages");
  const state = {
    start: Number(section.dataset.start),
    end: Number(section.dataset.end),
    total: Number(section.dataset.total),
  };
  const here = reader.dataset.here;
  const branch = reader.dataset.branch ? `&branch=${reader.dataset.branch}` : "";
  let open = false;
  if (matchMedia("(max-width: 60rem)").matches) $(".timeline").open = Boolean($("#find").value);
  let busy = null;

  // ── windows ────────────────────────────────────────────────────────────────────────────────────

  // Change the document without moving what is being read.
  function steadily(change) {
    const kept = $$("article", list).find((each) => each.getBoundingClientRect().bottom > 0);
    const before = kept?.getBoundingClientRect().top;
    change();
    if (kept?.isConnected) scrollBy({ top: kept.getBoundingClientRect().top - before, behavior: "instant" });
  }

  async function piece(from, count, last = "") {
    const answer = await get(`${here}/messages?from=${from}&count=${count}&last=${last}${branch}`);
    const number = (name) => Number(answer.headers.get(name));
    const content = parsed(await answer.text());
    if (open) for (const fold of $$("details.fold", content)) fold.open = true;
    addCopyButtons(content);
    const forked = answer.headers.has("X-Forked");
    return { start: number("X-Start"), end: number("X-End"), total: number("X-Total"), forked, content };
  }

  function once(work) {
    busy ??= work().catch(() => {}).finally(() => { busy = null; });
    return busy;
  }

  const later = () => state.end < state.total && once(async () => {
    const got = await piece(state.end, COUNT);
    steadily(() => {
      merge(got.content);
      state.end = got.end;
      prune(true);
    });
    update(got.total);
  });

  const earlier = () => state.start > 0 && once(async () => {
    const from = Math.max(0, state.start - COUNT);
    const got = await piece(from, state.start - from);
    steadily(() => {
      // A result that stood alone is now shown with its call.
      for (const anchor of $$(".anchor", got.content)) $(`article#${anchor.id}`, list)?.remove();
      const fresh = [...got.content.children].filter((each) => !document.getElementById(each.id));
      list.prepend(...fresh);
      state.start = got.start;
      prune(false);
    });
    update(got.total);
  });

  // Replace messages that are here already (a result may have arrived), and append the others.
  function merge(content) {
    for (const article of [...content.children]) {
      const known = document.getElementById(article.id);
      if (known?.tagName === "ARTICLE") {
        if (known.textContent !== article.textContent && !known.dataset.revealed) {
          for (const [index, fold] of $$("details.fold", known).entries()) {
            const twin = $$("details.fold", article)[index];
            if (twin) twin.open = fold.open;
          }
          known.replaceWith(article);
        }
      } else if (!known) {
        list.append(article);
      }
    }
  }

  // The server writes the position of each message: some have no article, because another shows them or they are empty.
  function prune(fromTop) {
    const articles = $$("article", list);
    const excess = articles.length - MOST;
    if (excess <= 0) return;
    const gone = fromTop ? articles.slice(0, excess) : articles.slice(-excess);
    if (fromTop) state.start = Number(articles[excess].dataset.at);
    else state.end = Number(gone[0].dataset.at);
    for (const article of gone) article.remove();
  }

  function update(total) {
    state.total = total;
    const text = `${total.toLocaleString("en")} message${total === 1 ? "" : "s"}`;
    $("[data-count]").textContent = text;
    $("[data-earlier]")?.closest(".step").toggleAttribute("hidden", state.start <= 0);
    const place = $("[data-later-place]");
    place.replaceChildren();
    if (state.end < state.total) {
      const link = document.createElement("a");
      link.href = `${here}?from=${state.end}${branch}`;
      link.dataset.later = "";
      link.textContent = `${(state.total - state.end).toLocaleString("en")} later messages`;
      place.append(link);
    }
  }

  // Load before the edge is reached; again while it is still near, because observers only report changes.
  const ends = new IntersectionObserver((entries) => {
    if (entries.some((each) => each.isIntersecting)) nearEdge();
  }, { rootMargin: "1200px 0px" });
  async function nearEdge() {
    const height = innerHeight + 1200;
    if (state.end < state.total && $("[data-later-place]").getBoundingClientRect().top < height) await later();
    else if (state.start > 0 && list.getBoundingClientRect().top > -1200 && !settling) await earlier();
    else return;
    requestAnimationFrame(nearEdge);
  }
  let settling = true; // until the browser has gone to the message in the address
  requestAnimationFrame(() => requestAnimationFrame(() => {
    settling = false;
    ends.observe($("[data-later-place]"));
    const first = $("[data-earlier]")?.closest(".step");
    if (first) ends.observe(first);
    let waiting = false; // for the next frame: measuring at every event would slow scrolling down
    addEventListener("scroll", () => {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => { waiting = false; nearEdge(); markTick(); });
    }, { passive: true });
  }));

  // ── moving ─────────────────────────────────────────────────────────────────────────────────────

  async function jump(by) {
    for (const more of [true, false]) {
      const mine = $$("article.user", list);
      const at = document.activeElement?.closest?.("#messages article") ?? $("article:target", list);
      const box = at?.getBoundingClientRect();
      const edge = box && box.bottom > 0 && box.top < innerHeight ? box.top : 90;
      const found = by > 0
        ? mine.find((each) => each.getBoundingClientRect().top > edge + 5)
        : mine.findLast((each) => each.getBoundingClientRect().top < edge - 5);
      if (found) {
        found.focus({ preventScroll: true });
        found.scrollIntoView({ block: "start" });
        return;
      }
      if (more) await (by > 0 ? later() : earlier());
    }
    const edge = $$("[data-seq]", list).at(by > 0 ? -1 : 0)?.dataset.seq ?? 0;
    const seq = await (await get(`${here}/own?${by > 0 ? "after" : "before"}=${edge}${branch}`)).text();
    if (seq) location.assign(`${here}?at=${seq}${branch}#m${seq}`);
    else say(by > 0 ? "That is the last of your messages." : "That is the first of your messages.");
  }

  async function toEnd() {
    if (state.end < state.total) location.assign(`${here}?from=${Math.max(0, state.total - COUNT)}${branch}`);
    else scrollTo(0, document.body.scrollHeight);
  }

  function fold() {
    open = !open;
    for (const each of $$("details.fold", list)) each.open = open;
    const button = $("[data-folds]");
    button.textContent = open ? "Fold all calls" : "Open all calls";
    button.setAttribute("aria-pressed", String(open));
  }

  const folds = $("[data-folds]");
  folds.hidden = false;
  folds.addEventListener("click", fold);
  document.addEventListener("keydown", (event) => {
    if (isTyping(event) || $("#keys").open) return;
    if (event.key === "j") jump(1);
    else if (event.key === "k") jump(-1);
    else if (event.key === "o") fold();
    else if (event.key === "g") state.start > 0 ? location.assign(`${here}?from=0${branch}`) : scrollTo(0, 0);
    else if (event.key === "G") toEnd();
    else return;
    event.preventDefault();
  });

  function markTick() {
    const top = $$("article", list).find((each) => each.getBoundingClientRect().bottom > 120);
    const seq = Number(top?.dataset.seq ?? -1);
    let current = null;
    for (const tick of $$("[data-tick]")) {
      if (Number(tick.dataset.tick) <= seq) current = tick;
      tick.removeAttribute("aria-current");
    }
    current?.setAttribute("aria-current", "true");
  }
  markTick();

  // The address names a message that is inside a folded call, or that consists of one: open it.
  function openTarget() {
    const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    if (!target) return;
    const inside = target.closest("details.fold");
    const only = $(":scope > .prose", target) ? null : $("details.fold:not(.thinking)", target);
    const fold = inside ?? only;
    if (fold) fold.open = true;
    inside?.scrollIntoView({ block: "center" });
  }
  openTarget();
  addEventListener("hashchange", openTarget);

  // ── one message ────────────────────────────────────────────────────────────────────────────────

  list.addEventListener("click", async (event) => {
    const link = event.target.closest("a[data-reveal], a[data-full]");
    const article = link?.closest("article");
    if (!article) {
      const permanent = event.target.closest("a.link");
      if (permanent) navigator.clipboard?.writeText(permanent.href).then(() => say("The link was copied."), () => {});
      return;
    }
    event.preventDefault();
    const how = link.matches("[data-reveal]") ? "revealed" : "full";
    const answer = await get(`${here}/m/${article.dataset.seq}?as=${how}${branch}`);
    const content = parsed(await answer.text());
    const fresh = $("article", content);
    for (const [index, each] of $$("details.fold", article).entries()) {
      const twin = $$("details.fold", fresh)[index];
      if (twin) twin.open = each.open || link.closest("details.fold") === each;
    }
    addCopyButtons(content);
    fresh.dataset.revealed = how;
    fresh.dataset.at = article.dataset.at;
    article.replaceWith(fresh);
    fresh.focus({ preventScroll: true });
  });

  // ── live ───────────────────────────────────────────────────────────────────────────────────────

  async function changed() {
    const wasAtEnd = state.end >= state.total;
    const nearBottom = innerHeight + scrollY > document.body.scrollHeight - 160;
    const from = wasAtEnd ? Math.max(state.start, state.end - 4) : state.end;
    const got = await piece(from, 200, $$("[data-seq]", list).at(-1)?.dataset.seq);
    if (got.forked) {
      location.reload(); // the conversation went back: what is shown is no longer the current branch
      return;
    }
    if (wasAtEnd) {
      merge(got.content);
      state.end = got.end;
      if (nearBottom && got.total > state.total) scrollTo({ top: document.body.scrollHeight });
      $(".messages .empty")?.remove();
    }
    const grown = got.total !== state.total;
    update(got.total);
    if (grown) {
      const side = await get(`${here}/side?${branch.slice(1)}`);
      $("[data-side]").replaceChildren(parsed(await side.text()));
      markTick();
    }
  }
  follow(`${here}/live?shown=${reader.dataset.state}`, () => changed().catch(() => {}));
  addCopyButtons(list);
  startMarking(list, $("#find").value);
}
