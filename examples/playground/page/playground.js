import { funnel, tabs } from "./tabs.js";

// The page keeps no state of a limit: it shows what the server replies to the visitor's calls,
// and twice a second to CL.PEEK.

const part = (id) => document.getElementById(id);
const few = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const seconds = (text) => `${few.format(Math.ceil(Number(text) * 10 - 1e-6) / 10)} s`;
const names = ["limited", "limit", "remaining", "wait", "reset_after", "tat"];

let tab; // that is open
let queue = Promise.resolve(); // answers come in the order of the calls

function send(call) {
  queue = queue.then(async () => {
    try {
      const response = await fetch("call", { method: "POST", body: JSON.stringify(call) });
      return { ...await response.json(), status: response.status };
    } catch {
      return { status: 0, error: "the playground does not answer: is go run ./examples/playground still running?" };
    }
  });
  return queue.then((answer) => {
    const isDown = answer.status !== 200 && answer.status !== 400;
    part("outage").hidden = !isDown;
    part("outage").textContent = `No decision by Redis at ${answer.redis}: ${answer.error}`;
    if (isDown || answer.source) part("source").textContent = isDown ? "no decision" : `by the ${answer.source}`;
    return answer;
  });
}

// rowsOf returns the words of the tab's rows, as typed. A new job is the holder of a slot.
function rowsOf({ rows, number }) {
  return rows.map(({ key, kind, values }) => [key, ...kind.words(values, number)].map(String));
}

async function peek() {
  const peeked = tab;
  const { status, reply } = await send({ command: "peek", rows: rowsOf(peeked) });
  if (status === 200 && peeked === tab) reply[2].forEach((row, i) => showRow(peeked.rows[i], row));
}

function showRow(row, words) {
  const reply = Object.fromEntries(names.map((name, i) => [name, words[i]]));
  const used = row.kind.used(reply, row.values);
  row.part(".level").style.height = `${Math.min(used, 1) * 100}%`;
  row.part(".gauge").classList.toggle("limited", reply.limited === 1);
  row.part(".state").textContent = `${few.format(reply.remaining)} of ${few.format(reply.limit)} remaining`
    + (used > 0 ? `, all in ${seconds(reply.reset_after)}` : "");
}

// press makes the calls of a button, one after the other.
async function press(command, times) {
  document.forms[0].ariaBusy = "true";
  const pressed = tab;
  if (command === "renew") times = pressed.taken.length;
  for (let call = 0; call < times && await make(pressed, command, call); call++);
  await peek();
  document.forms[0].ariaBusy = "false";
}

// make makes one call, and says whether Redis has decided.
async function make(pressed, command, call) {
  const asked = wordsOf(pressed, command, call);
  if (!asked) {
    part("headline").textContent = "nothing to give back";
    return false;
  }
  const answer = await send(asked);
  showCommand(answer);
  if (answer.status !== 200) {
    part("headline").textContent = answer.status === 400 ? answer.error : "Redis has not decided";
    return false;
  }
  const [, wait, rows] = command === "reset" ? [0, "0", []] : answer.reply;
  const limiting = asked.rows.filter((_, i) => rows[i]?.[0] === 1).map(([key]) => key);
  part("headline").textContent = say(command, limiting, wait, isSlots(asked.rows[0]) && rows[0]?.[5]);
  document.forms[0].classList.toggle("limited", limiting.length > 0);
  if (command === "reset") Object.assign(pressed, { calls: [], taken: [] });
  if (command === "reserve") {
    pressed.calls.push({ isLimited: limiting.length > 0, turn: Date.now() + wait * 1000 });
  }
  if (command === "charge" || command === "reserve" && limiting.length === 0) {
    const [row] = asked.rows; // a job that ends has used its tokens
    pressed.taken.push({ rows: [row], more: pressed.rows[0].kind === funnel ? [rows[0][5]] : [] });
    pressed.number++;
  }
  showCalls();
  return true;
}

const isSlots = ([, , word]) => word === "SLOTS";

// wordsOf returns the call of a button, or nothing if there is nothing to give back.
function wordsOf({ rows, taken, number }, command, call) {
  if (command === "renew") {
    const [key, , ...words] = taken[call].rows[0];
    return { command: "reserve", rows: [[key, "0", ...words]] }; // limit 0 takes no slot
  }
  if (command === "refund") {
    const last = taken.pop();
    return last && { command, ...last };
  }
  const maxWait = rows[0].values.max_wait;
  const more = command === "reserve" && maxWait ? [String(maxWait)] : [];
  return { command, rows: rowsOf({ rows, number }), more };
}

// say puts a reply in words. held is how long the slot of a refund would have run on.
function say(command, limiting, wait, held) {
  const isLimited = limiting.length > 0;
  switch (command) {
    case "reset": return "empty";
    case "renew": return isLimited ? "lost: the slot had ended" : "renewed";
    case "refund": return held === "0" ? "the slot had ended" : "given back";
    case "charge": return isLimited ? `charged: limits for ${seconds(wait)}` : "charged";
  }
  const again = wait === "-1" ? "never fits" : `retry after ${seconds(wait)}`;
  if (isLimited) return `limited by ${limiting.join(" and ")}: ${again}`;
  return wait === "0" ? "allowed" : `your turn in ${seconds(wait)}`;
}

// showCalls draws a square for each of the last calls: limited, waiting for its turn, or allowed.
function showCalls() {
  const limited = tab.calls.filter(({ isLimited }) => isLimited).length;
  part("calls").ariaLabel = `${tab.calls.length - limited} allowed, ${limited} limited`;
  part("calls").replaceChildren(...tab.calls.slice(-40).map(({ isLimited, turn }) => {
    const square = document.createElement("i");
    square.className = isLimited ? "limited" : turn > Date.now() ? "waits" : "allowed";
    return square;
  }));
}

// showCommand shows a command as it was sent, and what the lines of its reply mean.
function showCommand({ sent, shown, error }) {
  const lines = (shown || `(error) ${error}`).split("\n");
  const width = Math.max(...lines.map((line) => line.length));
  const sixth = sent.includes(" SLOTS ") ? "held" : sent.includes(" UNTIL ") ? "until" : "tat";
  const meanings = ["limited", "wait", ...names.slice(0, 5), sixth, ...names];
  const command = document.createElement("b");
  command.textContent = sent;
  part("terminal").replaceChildren("> ", command);
  lines.forEach((line, i) => {
    const comment = document.createElement("span");
    if (lines.length > 1) comment.textContent = `${" ".repeat(width - line.length)}   # ${meanings[i]}`;
    part("terminal").append("\n", line, comment);
  });
}

// open builds the tab that the address names, and keeps what was typed and called in it.
function open() {
  tab = tabs.find(({ id }) => `#${id}` === location.hash) ?? tabs[0];
  for (const link of document.querySelectorAll("nav a")) {
    link.ariaCurrent = link.hash === `#${tab.id}` ? "page" : null;
  }
  part("lead").textContent = tab.lead;
  part("headline").textContent = part("terminal").textContent = "";
  part("rows").innerHTML = tab.rows.map(({ key, kind, fields }) => `
    <fieldset>
      <legend>${key}</legend>
      <div class="gauge ${kind === funnel ? "funnel" : "bar"}"><div class="level"></div></div>
      <p class="state"></p>
      ${Object.keys(fields).map((name) => `<label>${name} <input name="${name}"></label>`).join("")}
    </fieldset>`).join("");
  [...part("rows").children].forEach((element, i) => {
    const row = tab.rows[i];
    row.part = (selector) => element.querySelector(selector);
    for (const input of element.querySelectorAll("input")) {
      input.value = row.values[input.name];
      input.addEventListener("input", () => { row.values[input.name] = input.value; });
    }
  });
  part("buttons").innerHTML = tab.buttons.map(([text, command, times = 1]) =>
    `<button value="${command}" data-times="${times}">${text}</button>`).join("");
  showCalls();
  peek();
}

for (const each of tabs) {
  // taken is what can be given back, number the next job's.
  Object.assign(each, { calls: [], taken: [], number: 1 });
  for (const row of each.rows) row.values = { ...row.fields };
}
document.querySelector("nav").innerHTML = tabs.map(({ id, title }) => `<a href="#${id}">${title}</a>`).join("");
document.forms[0].addEventListener("submit", (event) => {
  event.preventDefault();
  press(event.submitter.value, Number(event.submitter.dataset.times));
});
addEventListener("hashchange", open);
open();

// Others may use the keys, too, and Redis may go away.
async function keepAsking() {
  if (!document.hidden) await peek();
  showCalls();
  setTimeout(keepAsking, 500);
}
keepAsking();
