// The page's one WebSocket: it comes back by itself, and says when it is away.
import { emit, keepNow } from "./state.js";
/** @import { Order } from "./types.d.ts" */

const LONGEST_WAIT = 15_000;
const NOT_IN_CLASS = 4403; // as explorer/web/runs.py closes it

/** @type {WebSocket | null} */
let socket = null;
let wait = 500;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;
let lost = false;

const openSocket = () => (socket?.readyState === WebSocket.OPEN ? socket : null);

export const isConnected = () => openSocket() !== null;

export function connect() {
  clearTimeout(timer);
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  socket = new WebSocket(`${scheme}://${location.host}/ws`);
  socket.addEventListener("open", () => {
    wait = 500;
    emit("connection", { isUp: true, isBack: lost });
    lost = false;
  });
  socket.addEventListener("message", ({ data }) => {
    const said = JSON.parse(data);
    if (said.event === "class") emit("class", said);
    else emit("run-event", said);
  });
  socket.addEventListener("close", ({ code }) => {
    // The page that comes asks for the class's code; the tab's session keeps the text.
    if (code === NOT_IN_CLASS) {
      keepNow();
      location.reload();
      return;
    }
    lost = true;
    emit("connection", { isUp: false, wait });
    timer = setTimeout(connect, wait);
    wait = Math.min(wait * 2, LONGEST_WAIT);
  });
}

/** @param {Order} order */
export const send = (order) => openSocket()?.send(JSON.stringify(order));
