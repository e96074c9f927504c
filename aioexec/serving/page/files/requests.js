/* Requests to the server that the page comes from; all paths are relative, so that the page works under any prefix. */

import { byId } from "./dom.js";

const TOKEN = "aioexec-token";

/** An error reply of the server: its status and message. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Send a request, with the token if there is one; a 401 opens the dialog for a token, and the request is repeated. */
export async function send(path, options = {}) {
  for (;;) {
    const token = sessionStorage.getItem(TOKEN);
    const headers = { ...options.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
    const reply = await fetch(path, { ...options, headers, cache: "no-store" });
    if (reply.ok) return reply;
    if (reply.status === 401) await askForToken(token);
    else throw new Refused(reply.status, await messageOf(reply));
  }
}

export async function getJson(path) {
  return (await send(path)).json();
}

export async function postJson(path, body) {
  return (await send(path, { method: "POST", body, headers: { "Content-Type": "application/json" } })).json();
}

/** The values of a stream of server-sent events, each parsed from JSON. Not EventSource: it cannot send a token. */
export async function* events(path) {
  const reply = await send(path, { headers: { Accept: "text/event-stream" } });
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) if (part.startsWith("data: ")) yield JSON.parse(part.slice(6));
  }
}

async function messageOf(reply) {
  const text = await reply.text();
  try {
    return JSON.parse(text).error ?? text;
  } catch {
    return text || `HTTP status ${reply.status}`;
  }
}

let asked = null; // the dialog's promise while it is open: concurrent requests share it

function askForToken(refused) {
  if (sessionStorage.getItem(TOKEN) !== refused) return Promise.resolve(); // another request got one meanwhile
  asked ??= new Promise((resolve) => {
    const dialog = byId("token-dialog");
    dialog.addEventListener("close", () => {
      sessionStorage.setItem(TOKEN, byId("token").value);
      byId("token").value = "";
      asked = null;
      resolve();
    }, { once: true });
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    dialog.showModal();
  });
  return asked;
}
