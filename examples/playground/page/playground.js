import { Funnel, short, span } from "./funnel.js";

// All calls go through one queue: answers come in the order of the calls, and so does
// what the page learns from them.
let queue = Promise.resolve();

function ask(call) {
  const answer = queue.then(async () => {
    try {
      const response = await fetch("call", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(call) });
      return { ...await response.json(), status: response.status };
    } catch {
      return { status: 0, error: "the playground does not answer: is go run ./examples/playground still running?" };
    }
  });
  queue = answer;
  return answer.then(notice);
}

// notice shows above all else whether Redis decides, and by which way.
function notice(answer) {
  const outage = document.getElementById("outage"), server = document.getElementById("server");
  const isOut = answer.status !== 200 && answer.status !== 400;
  const text = !isOut ? "" : answer.status === 0 ? `No decision: ${answer.error}` :
    answer.status === 502 ? `Redis at ${answer.redis} replies an error: ${answer.error}` :
    `Redis at ${answer.redis} does not answer: ${answer.error}. The page goes on asking.`;
  if (outage.textContent !== text) outage.textContent = text;
  outage.hidden = !isOut;
  if (isOut) {
    server.dataset.state = "out";
    server.textContent = "no decision";
  } else if (answer.status === 200) {
    server.dataset.state = answer.path;
    server.textContent = `by the ${answer.path}`;
    server.title = answer.redis;
  }
  return answer;
}

const words = ["limited", "limit", "remaining", "wait", "reset_after", "tat"];

class Section {
  calls = []; // the latest ones: whether they were limited
  turns = [];
  callers = 0;
  pressed = 0; // buttons whose calls are not answered yet
  verdict = { kind: "idle" };

  constructor(form) {
    this.form = form;
    this.part = (name) => form.querySelector(name);
    this.funnels = [...form.querySelectorAll("[data-key]")].map((element) => {
      const drawing = element.querySelector(".drawing");
      const funnel = new Funnel(drawing, { headroom: Number(drawing.dataset.headroom ?? 40), compact: "compact" in drawing.dataset });
      return Object.assign(funnel, { element, key: element.dataset.key });
    });
    form.addEventListener("input", () => this.read());
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.press(event.submitter.value, Number(event.submitter.dataset.times ?? 1));
    });
    this.read();
    this.showCalls();
  }

  // input is that of the funnel, or of all of them.
  input(funnel, name) {
    return funnel.element.querySelector(`[name=${name}]`) ?? this.part(`[name=${name}]`);
  }

  get used() {
    return this.funnels.filter((funnel) => funnel.element.querySelector("[name=used]")?.checked ?? true);
  }

  // read has the funnels drawn with the limits as they are typed: only the level is stored.
  read() {
    for (const input of this.form.querySelectorAll("[aria-invalid]")) input.removeAttribute("aria-invalid");
    for (const funnel of this.funnels) {
      const [capacity, count, period] = ["capacity", "count", "period"].map((name) => Number(this.input(funnel, name).value));
      const interval = Math.floor(Math.round(period * 1e9) / count) / 1e9;
      if (capacity >= 1 && interval > 0 && interval < Infinity) Object.assign(funnel, { capacity, interval });
      funnel.maxWait = Number(this.part("[name=max_wait]")?.value) || 0;
      funnel.element.disabled = !this.used.includes(funnel); // but not what is in its legend
    }
    this.part(".side legend span").textContent = this.used.map((funnel) => funnel.key).join(" ");
  }

  ask(command) {
    return ask({
      command,
      funnels: this.used.map((funnel) => ({
        key: funnel.key,
        ...Object.fromEntries(["capacity", "count", "period", "quantity"].map((name) => [name, this.input(funnel, name).value.trim()])),
      })),
      max_wait: command === "reserve" ? this.part("[name=max_wait]")?.value.trim() ?? "" : "",
    });
  }

  async peek() {
    const used = this.used, answer = await this.ask("peek");
    if (answer.status === 200) this.learn(used, answer.rows);
    return answer;
  }

  learn(used, rows) {
    const now = performance.now();
    rows.forEach((row, i) => { used[i].emptyAt = now + row.reset_after * 1000; });
  }

  async press(command, times) {
    this.form.ariaBusy = String(++this.pressed > 0);
    try {
      await this.makeCalls(command, times);
    } finally {
      this.form.ariaBusy = String(--this.pressed > 0);
    }
  }

  async makeCalls(command, times) {
    const tally = { allowed: 0, limited: 0 };
    let answer, used;
    for (let call = 0; call < times; call++) {
      used = this.used;
      const quantity = Number(this.input(used[0], "quantity").value);
      answer = await this.ask(command);
      if (answer.status !== 200) break;
      if (command === "reserve" && quantity > 0) {
        tally[answer.limited ? "limited" : "allowed"]++;
        this.calls = [...this.calls, answer.limited].slice(-40);
        for (const funnel of used) funnel.pour(quantity, answer.limited);
      }
      this.learn(used, answer.rows);
      this.judge(command, quantity, used, answer);
    }
    this.verdict.tally = times > 1 && answer.status === 200 ? `${tally.allowed} allowed, ${tally.limited} limited` : "";
    if (answer.status !== 200) {
      const input = answer.field && this.input(used[answer.funnel], answer.field);
      const whose = input?.closest("[data-key]") ? `${used[answer.funnel].key}: ` : "";
      this.verdict = { kind: "error", text: answer.status === 400 ? whose + answer.error : "Redis has not decided." };
      input?.setAttribute("aria-invalid", "true");
    }
    this.showCalls();
    if (answer.commands?.length) this.showCommands(answer.commands);
    const { headline, detail } = this.say(performance.now());
    this.part("[role=status]").textContent = [headline, this.verdict.tally, detail].filter(Boolean).join(". ");
  }

  // judge keeps what the answer means.
  judge(command, quantity, used, answer) {
    const now = performance.now(), until = now + answer.wait * 1000;
    used.forEach((funnel, i) => {
      const { limited, wait } = answer.rows[i];
      funnel.limitedUntil = !limited ? 0 : wait < 0 ? Infinity : now + wait * 1000;
    });
    if (command === "reset") {
      Object.assign(this, { calls: [], turns: [], callers: 0 });
      for (const funnel of used) Object.assign(funnel, { turns: this.turns, limitedUntil: 0 });
      this.verdict = { kind: "emptied" };
    } else if (command !== "reserve") {
      this.verdict = { kind: command, until, quantity };
    } else if (answer.limited) {
      const limiting = used.filter((_, i) => answer.rows[i].limited);
      this.verdict = { kind: answer.wait < 0 ? "never" : "limited", until, quantity, limiting };
    } else if (this.part("[name=max_wait]")) {
      const turn = { caller: ++this.callers, at: until, quantity };
      this.turns.push(turn);
      used[0].turns = this.turns;
      this.verdict = { kind: "reserved", until, caller: turn.caller };
    } else {
      this.verdict = { kind: "allowed" };
    }
  }

  // say puts the verdict in words.
  say(now) {
    const { kind, until, quantity, limiting, caller, text } = this.verdict, left = (until - now) / 1000;
    const first = this.funnels[0], alone = this.funnels.length === 1;
    const level = first.level(now), state = level > 0
      ? `${short(first.remaining(now))} of ${short(first.capacity)} remaining, empty in ${span(level * first.interval)}`
      : `${short(first.capacity)} of ${short(first.capacity)} remaining`;
    const by = !alone && limiting?.length ? `limited by ${limiting.map((funnel) => funnel.key).join(" and ")}` : "";
    const tokens = quantity === 1 ? "1 token" : `${short(quantity ?? 0)} tokens`;
    const usual = alone ? state : "";
    switch (kind) {
      case "limited":
        if (left > 0) return { state: "limited", headline: `limited: come back in ${span(left)}`, detail: by || state };
        return { state: "ready", headline: "come back now", detail: alone ? state : `it was ${by}` };
      case "never":
        return { state: "limited", headline: `limited: ${tokens} never fit`, detail: `The quantity is larger than the capacity${by ? ` of ${limiting.map((funnel) => funnel.key).join(" and ")}` : ""}: no waiting helps.` };
      case "allowed": return { state: "allowed", headline: "allowed", detail: usual || "poured into all of them" };
      case "reserved":
        if (left > 0) return { state: "reserved", headline: `caller ${caller}: your turn in ${span(left)}`, detail: usual };
        return { state: "allowed", headline: `caller ${caller}: go ahead`, detail: usual };
      case "charge":
        if (left > 0) return { state: "limited", headline: `charged: overfull for ${span(left)}`, detail: usual };
        return { state: "allowed", headline: "charged", detail: usual };
      case "refund": return { state: "allowed", headline: "refunded", detail: usual };
      case "error": return { state: "error", headline: "error", detail: text };
    }
    return { state: "idle", headline: level > 0 ? "leaking" : "empty", detail: usual || "pour, and see which of them limits" };
  }

  showCalls() {
    const strip = this.part(".calls"), limited = this.calls.filter(Boolean).length;
    strip.replaceChildren(...this.calls.map((isLimited) => {
      const square = document.createElement("i");
      square.className = isLimited ? "limited" : "allowed";
      return square;
    }));
    strip.setAttribute("aria-label", `The last ${this.calls.length} calls: ${this.calls.length - limited} allowed, ${limited} limited`);
  }

  // The commands as they were sent, with the names of what was replied.
  showCommands(commands) {
    const terminal = this.part(".terminal");
    terminal.replaceChildren();
    for (const { sent, reply } of commands) {
      const line = document.createElement("b");
      line.textContent = sent;
      terminal.append(terminal.childNodes.length ? "\n> " : "> ", line);
      const lines = reply.split("\n"), named = lines.length > 1 && lines.length % words.length === 2;
      const width = Math.max(...lines.map((text) => text.length));
      lines.forEach((text, i) => {
        terminal.append("\n", text);
        if (named) {
          const name = document.createElement("span");
          name.textContent = `${" ".repeat(width - text.length)}   # ${i < 2 ? ["limited", "wait"][i] : words[(i - 2) % words.length]}`;
          terminal.append(name);
        }
      });
    }
  }

  showQueue(now) {
    const list = this.part(".queue");
    if (!list) return;
    this.turns = this.turns.filter(({ at }) => at > now - 2500);
    this.funnels[0].turns = this.turns;
    while (list.children.length > this.turns.length) list.lastChild.remove();
    while (list.children.length < this.turns.length) {
      const item = document.createElement("li");
      item.append(document.createElement("b"), document.createElement("span"));
      list.append(item);
    }
    this.turns.forEach(({ caller, at }, i) => {
      const item = list.children[i], waits = at > now;
      item.classList.toggle("waits", waits);
      set(item.firstChild, `caller ${caller}`);
      set(item.lastChild, waits ? span((at - now) / 1000) : "go ahead");
    });
  }

  draw(now, elapsed) {
    for (const funnel of this.funnels) {
      funnel.draw(now, elapsed);
      const remaining = `${short(funnel.remaining(now))} of ${short(funnel.capacity)} remaining`;
      if (funnel.svg.ariaLabel !== remaining) funnel.svg.setAttribute("aria-label", remaining);
      const row = funnel.element.querySelector(".row");
      if (!row) continue;
      row.classList.toggle("limited", funnel.isLimited);
      set(row, funnel.element.disabled ? "not asked" : !funnel.isLimited ? remaining : funnel.limitedUntil === Infinity ? "limits: never fits" : `limits: wait ${span((funnel.limitedUntil - now) / 1000)}`);
    }
    this.showQueue(now);
    const { state, headline, detail } = this.say(now);
    if (this.form.dataset.state !== state) this.form.dataset.state = state;
    set(this.part(".headline"), headline);
    set(this.part(".detail"), [this.verdict.tally, detail].filter(Boolean).join(" · "));
  }
}

function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const sections = [...document.querySelectorAll("form")].map((form) => new Section(form));
let active;

function open(id) {
  active = sections.find(({ form }) => form.id === id) ?? sections[0];
  for (const section of sections) {
    const tab = document.getElementById(`tab-${section.form.id}`);
    section.form.hidden = section !== active;
    tab.setAttribute("aria-selected", section === active);
    tab.tabIndex = section === active ? 0 : -1;
  }
  active.peek();
}

const tabs = [...document.querySelectorAll("[role=tab]")];
tabs.forEach((tab, i) => {
  tab.addEventListener("click", () => {
    const id = tab.getAttribute("aria-controls");
    history.pushState(null, "", `#${id}`); // to set location.hash would take the focus away
    open(id);
  });
  tab.addEventListener("keydown", ({ key }) => {
    const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: -1 }[key];
    if (to === undefined) return;
    tabs.at(to % tabs.length).focus();
    tabs.at(to % tabs.length).click();
  });
});
addEventListener("hashchange", () => open(location.hash.slice(1)));
open(location.hash.slice(1));

// Others may use the funnels, too, and Redis may go away: the page asks now and then.
async function keepAsking() {
  const { status } = document.hidden ? {} : await active.peek();
  setTimeout(keepAsking, status === 200 || status === 400 ? 2000 : 1000);
}
keepAsking();

let last = 0;
function frame(time) {
  active.draw(performance.now(), time - last);
  last = time;
  requestAnimationFrame(frame);
}
requestAnimationFrame(frame);
