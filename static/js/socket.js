// The page's one WebSocket: it comes back by itself, and says when it is away.
import { emit } from "./state.js";

const LONGEST_WAIT = 15_000;

let socket = null;
let wait = 500;
let timer = 0;
let lost = false;

export const isConnected = () => socket?.readyState === WebSocket.OPEN;

export function connect() {
  clearTimeout(timer);
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  socket = new WebSocket(`${scheme}://${location.host}/ws`);
  socket.addEventListener("open", () => {
    wait = 500;
    emit("connection", { isUp: true, isBack: lost });
    lost = false;
  });
  socket.addEventListener("message", ({ data }) => emit("run-event", JSON.parse(data)));
  socket.addEventListener("close", () => {
    lost = true;
    emit("connection", { isUp: false, wait });
    timer = setTimeout(connect, wait);
    wait = Math.min(wait * 2, LONGEST_WAIT);
  });
}

export function send(order) {
  if (!isConnected()) return false;
  socket.send(JSON.stringify(order));
  return true;
}
