"use strict";
const texts = JSON.parse(document.getElementById("texts").textContent);
const items = [...document.querySelectorAll("#list > li")];
const count = document.getElementById("count");
document.getElementById("q").hidden = false;
document.getElementById("q").addEventListener("input", (event) => {
  const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const [index, item] of items.entries()) {
    const text = `${item.textContent.toLowerCase()} ${texts[index]}`;
    item.hidden = !words.every((word) => text.includes(word));
    if (!item.hidden) shown += 1;
  }
  count.textContent = `${shown} of ${items.length} conversations`;
});
