"use strict";
const bytes = (name) => Uint8Array.from(atob(document.getElementById("sealed").dataset[name]), (c) => c.charCodeAt(0));
document.getElementById("open").addEventListener("submit", async (event) => {
  event.preventDefault();
  const said = document.getElementById("said");
  said.textContent = "Opening…";
  try {
    const typed = new TextEncoder().encode(document.getElementById("passphrase").value);
    const base = await crypto.subtle.importKey("raw", typed, "PBKDF2", false, ["deriveKey"]);
    const iterations = Number(document.getElementById("sealed").dataset.iterations);
    const how = { name: "PBKDF2", hash: "SHA-256", salt: bytes("salt"), iterations };
    const key = await crypto.subtle.deriveKey(how, base, { name: "AES-GCM", length: 256 }, false, ["decrypt"]);
    const plain = await crypto.subtle.decrypt({ name: "AES-GCM", iv: bytes("nonce") }, key, bytes("ciphertext"));
    const page = new DOMParser().parseFromString(new TextDecoder().decode(plain), "text/html");
    document.title = page.title;
    document.replaceChild(document.adoptNode(page.documentElement), document.documentElement);
  } catch {
    said.textContent = "That is not the passphrase.";
  }
});
