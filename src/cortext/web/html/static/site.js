"use strict";
// `words` are sorted; `found` are the conversations of each, as distances from the one before.
const { words, found } = JSON.parse(document.getElementById("index").textContent);
const items = [...document.querySelectorAll("#list > li")];
const links = items.map((item) => item.querySelector("a"));
const addresses = links.map((link) => link.getAttribute("href"));
const count = document.getElementById("count");
const LONGEST = 64;
// As `site.py` splits text: in scripts without spaces, each sign is a word.
const SIGNS = "\\u0e00-\\u0eff\\u1000-\\u109f\\u1780-\\u17ff\\u3040-\\u30ff\\u3400-\\u4dbf\\u4e00-\\u9fff\\uf900-\\ufaff\\u{20000}-\\u{3ffff}";
const WORD = new RegExp(`[${SIGNS}]|(?:(?![${SIGNS}])[\\p{L}\\p{N}])+`, "gu");
const asked = (text) => (text.normalize("NFKC").toLowerCase().match(WORD) ?? []).map((word) => [...word].slice(0, LONGEST).join(""));

// The position of the first word that is not before the given one.
function position(word) {
  let [low, high] = [0, words.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (words[middle] < word) low = middle + 1;
    else high = middle;
  }
  return low;
}

// The conversations with a word that begins like this, each with the first such word.
function beginningWith(word) {
  const matches = new Map();
  for (let at = position(word); at < words.length && words[at].startsWith(word); at += 1) {
    let number = 0;
    for (const distance of found[at]) {
      number += distance;
      if (!matches.has(number)) matches.set(number, words[at]);
    }
  }
  return matches;
}

function search(text) {
  const each = asked(text).map(beginningWith);
  let shown = 0;
  for (const [number, item] of items.entries()) {
    item.hidden = !each.every((matches) => matches.has(number));
    shown += item.hidden ? 0 : 1;
    // Browsers that know text fragments scroll to the word.
    const word = each[0]?.get(number);
    links[number].setAttribute("href", addresses[number] + (word ? `#:~:text=${encodeURIComponent(word)}` : ""));
  }
  count.textContent = `${shown} of ${items.length} ${items.length === 1 ? "conversation" : "conversations"}`;
}

document.getElementById("q").hidden = false;
document.getElementById("q").addEventListener("input", (event) => search(event.target.value));
