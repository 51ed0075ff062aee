// What the other modules share.

export const $ = (selector, within = document) => within.querySelector(selector);
export const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];

export async function get(address, options = {}) {
  const answer = await fetch(address, { credentials: "same-origin", ...options });
  if (answer.status === 401) {
    say("This page has expired. Start cortext web again.");
    throw new Error("not allowed");
  }
  if (!answer.ok) throw new Error(`${answer.status}`);
  return answer;
}

// Only for HTML of this server, in which everything that was stored is escaped.
export function parsed(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}

let quietLater;
export function say(text) {
  const toast = $(".toast");
  toast.textContent = text;
  toast.hidden = false;
  clearTimeout(quietLater);
  quietLater = setTimeout(() => { toast.hidden = true; }, 4000);
}

export function follow(address, changed) {
  let source;
  const open = () => {
    source = new EventSource(address);
    source.addEventListener("changed", changed);
  };
  open();
  // A hidden page needs no connection; it catches up when it is shown again.
  document.addEventListener("visibilitychange", () => {
    source.close();
    if (document.hidden) return;
    open();
    changed();
  });
  addEventListener("pagehide", () => source.close());
}

export function isTyping(event) {
  const target = event.target;
  return event.ctrlKey || event.metaKey || event.altKey
    || target.isContentEditable || ["INPUT", "SELECT", "TEXTAREA"].includes(target.tagName);
}
