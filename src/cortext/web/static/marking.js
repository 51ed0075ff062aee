// The words that a person looks for in a conversation, marked where they stand. The browser draws that over the text:
// nothing in the document changes. One without such marks shows none.

const MOST = 500; // marks at a time

export function startMarking(list, wanted) {
  if (!wanted || !CSS.highlights) return;
  const words = wanted.toLowerCase();
  let due = 0;

  function mark() {
    due = 0;
    const found = [];
    const walker = document.createTreeWalker(list, NodeFilter.SHOW_TEXT);
    while (found.length < MOST && walker.nextNode()) {
      const node = walker.currentNode;
      const text = node.data.toLowerCase();
      if (text.length !== node.data.length) continue; // a letter whose small form is longer: positions would differ
      for (let at = text.indexOf(words); at >= 0; at = text.indexOf(words, at + words.length)) {
        const range = new Range();
        range.setStart(node, at);
        range.setEnd(node, at + words.length);
        found.push(range);
      }
    }
    CSS.highlights.set("found", new Highlight(...found));
  }

  // Messages come and go while a person scrolls.
  new MutationObserver(() => { due ||= requestAnimationFrame(mark); }).observe(list, { childList: true, subtree: true });
  mark();
}
