"use strict";
// The script comes before the data: if the end of the file is missing, it can still say so.
const DAMAGED = "This file is damaged or not complete: get it again. No passphrase opens it.";
const UNSUPPORTED = "This browser decrypts only files from the disk and pages over https: save the file and open it from there.";
const WRONG = "That is not the passphrase.";
const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

async function isWhole(data) {
  if (!data?.digest) return false;
  const text = [data.iterations, data.salt, data.nonce, data.ciphertext].join(".");
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  return [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("") === data.digest;
}

async function decrypted(data, passphrase) {
  const base = await crypto.subtle.importKey("raw", new TextEncoder().encode(passphrase), "PBKDF2", false, ["deriveKey"]);
  const how = { name: "PBKDF2", hash: "SHA-256", salt: bytes(data.salt), iterations: Number(data.iterations) };
  const key = await crypto.subtle.deriveKey(how, base, { name: "AES-GCM", length: 256 }, false, ["decrypt"]);
  return crypto.subtle.decrypt({ name: "AES-GCM", iv: bytes(data.nonce) }, key, bytes(data.ciphertext));
}

document.getElementById("open").addEventListener("submit", async (event) => {
  event.preventDefault();
  const said = document.getElementById("said");
  const data = document.getElementById("sealed")?.dataset;
  if (!globalThis.crypto?.subtle) {
    said.textContent = UNSUPPORTED;
    return;
  }
  said.textContent = "Opening…";
  let plain;
  try {
    if (!await isWhole(data)) {
      said.textContent = DAMAGED;
      return;
    }
    plain = await decrypted(data, document.getElementById("passphrase").value);
  } catch (error) {
    said.textContent = error.name === "OperationError" ? WRONG : `The browser could not open it: ${error.message}`;
    return;
  }
  const page = new DOMParser().parseFromString(new TextDecoder().decode(plain), "text/html");
  document.title = page.title;
  document.replaceChild(document.adoptNode(page.documentElement), document.documentElement);
});
