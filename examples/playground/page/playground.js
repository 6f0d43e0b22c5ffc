import { Funnel, short, span } from "./funnel.js";
import { Slots } from "./slots.js";

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
  outage.hidden = answer.status === 200 || answer.status === 400;
  if (!outage.hidden) {
    set(outage, `No decision${answer.redis ? ` by Redis at ${answer.redis}` : ""}: ${answer.error}`);
    set(server, "no decision");
    server.dataset.state = "out";
  } else if (answer.status === 200) {
    set(server, `by the ${answer.source}`);
    server.dataset.state = answer.source;
  }
  return answer;
}

const words = ["limited", "limit", "remaining", "wait", "reset_after", "tat"];

class Section {
  calls = []; // the latest ones: whether they were limited
  taken = []; // the funnels of calls that took tokens, with their receipts
  turns = [];
  callers = 0;
  verdict = { kind: "idle" };

  constructor(form) {
    this.form = form;
    this.part = (name) => form.querySelector(name);
    const begin = `<div class="verdict"><p class="headline"></p><p class="detail"></p><p class="calls" role="img"></p></div>`;
    const end = `<pre class="terminal" tabindex="0" aria-label="The last command and its reply"></pre>`;
    this.part(".side").innerHTML = begin + this.part(".side").innerHTML + end + `<p class="spoken" role="status"></p>`;
    this.funnels = [...form.querySelectorAll("[data-key]")].map((element) => {
      const drawing = element.querySelector(".drawing");
      const funnel = "slots" in drawing.dataset ? new Slots(drawing)
        : new Funnel(drawing, { headroom: Number(drawing.dataset.headroom ?? 40), compact: "compact" in drawing.dataset });
      return Object.assign(funnel, { element, key: element.dataset.key });
    });
    this.slots = this.funnels.find((funnel) => funnel instanceof Slots);
    form.addEventListener("input", () => this.read());
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.makeCalls(event.submitter.value, Number(event.submitter.dataset.times ?? 1));
    });
    this.read();
    this.showCalls();
  }

  // number is what is typed for the funnel, or for all of them.
  number(funnel, name) {
    return Number((funnel.element.querySelector(`[name=${name}]`) ?? this.part(`[name=${name}]`)).value);
  }

  get maxWait() { return Number(this.part("[name=max_wait]")?.value ?? 0); }

  // read has the funnels drawn with the limits as they are typed: only the level is stored.
  read() {
    for (const funnel of this.funnels) {
      const [capacity, count, period] = ["capacity", "count", "period"].map((name) => this.number(funnel, name));
      const interval = Math.floor(Math.round(period * 1e9) / count) / 1e9;
      if (capacity >= 1 && interval > 0 && interval < Infinity) Object.assign(funnel, { capacity, period, interval });
      funnel.maxWait = this.maxWait;
    }
  }

  get asked() {
    return this.funnels.map((funnel) => ({
      key: funnel.key,
      job: funnel === this.slots ? this.callers + 1 : 0,
      ...Object.fromEntries(["capacity", "count", "period", "quantity"].map((name) => [name, this.number(funnel, name)])),
    }));
  }

  async peek() {
    const answer = await ask({ command: "peek", funnels: this.asked });
    if (answer.status === 200) this.learn(answer.rows);
    return answer;
  }

  learn(rows) {
    const now = performance.now();
    rows.forEach((row, i) => { this.funnels[i].emptyAt = now + row.reset_after * 1000; });
  }

  async makeCalls(command, times) {
    let answer;
    this.form.ariaBusy = "true";
    if (this.slots) this.slots.taken = this.taken = this.slots.running(performance.now());
    if (command === "renew") times = this.taken.length;
    for (let call = 0; call < times; call++) {
      const renewed = command === "renew" && [{ ...this.taken[call][0], capacity: 0 }];
      const funnels = renewed || (command === "refund" ? this.taken.pop() : this.asked);
      if (!funnels || funnels.emptyAt <= performance.now()) {
        this.verdict = { kind: "nothing" };
        break;
      }
      answer = await ask({ command: renewed ? "reserve" : command, funnels, max_wait: this.maxWait });
      if (answer.status !== 200) {
        this.verdict = { kind: "error", text: answer.status === 400 ? answer.error : "Redis has not decided." };
        break;
      }
      this.learn(answer.rows);
      if (renewed && !answer.rows[0].limited) this.taken[call].emptyAt = this.slots.emptyAt;
      this.judge(command, funnels, answer.rows);
    }
    this.showCalls();
    if (answer?.commands?.length) this.showCommands(answer.commands);
    const { headline, detail } = this.say(performance.now());
    this.part("[role=status]").textContent = `${headline}. ${detail}`;
    this.form.ariaBusy = "false";
  }

  // judge keeps what the answer means.
  judge(command, asked, rows) {
    const now = performance.now(), { quantity } = asked[0];
    const instant = ({ wait }) => wait < 0 ? Infinity : now + wait * 1000;
    rows.forEach((row, i) => { this.funnels[i].limitedUntil = row.limited ? instant(row) : 0; });
    const limiting = this.funnels.filter((_, i) => rows[i]?.limited), limited = limiting.length > 0;
    const until = limited ? Math.max(...limiting.map((funnel) => funnel.limitedUntil)) : instant(rows[0]);
    if (command === "reserve") this.calls = [...this.calls, limited].slice(-40);
    if (command === "charge" || command === "reserve" && !limited) {
      const kept = this.slots ? asked.slice(0, 1) : asked; // a job that ends has used its tokens
      const taken = kept.map((funnel, i) => ({ ...funnel, receipt: rows[i].receipt }));
      this.taken.push(Object.assign(taken, { emptyAt: this.funnels[0].emptyAt }));
    }
    if (command === "reset") {
      Object.assign(this, { calls: [], taken: [], turns: [], callers: 0 });
      for (const funnel of this.funnels) funnel.limitedUntil = 0;
      this.verdict = { kind: "emptied" };
    } else if (command !== "reserve") {
      this.verdict = { kind: command, until };
    } else if (limited && limiting[0] === this.slots) {
      this.verdict = { kind: "full", limiting };
    } else if (limited) {
      this.verdict = { kind: until === Infinity ? "never" : "limited", until, quantity, limiting };
    } else if (this.part("[name=max_wait]")) {
      this.turns.push({ caller: ++this.callers, at: until, quantity });
      this.verdict = { kind: "reserved", until, caller: this.callers };
    } else {
      this.callers++;
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
      case "full":
        if (this.slots.isLimited) return { state: "limited", headline: "limited: no slot is free", detail: by };
        return { state: "ready", headline: "a slot is free", detail: `it was ${by}` };
      case "allowed": return { state: "allowed", headline: "allowed", detail: usual || (this.slots ? "took a slot and tokens" : "poured into both of them") };
      case "reserved":
        if (left > 0) return { state: "reserved", headline: `caller ${caller}: your turn in ${span(left)}`, detail: usual };
        return { state: "allowed", headline: `caller ${caller}: go ahead`, detail: usual };
      case "charge":
        if (left > 0) return { state: "limited", headline: `charged: overfull for ${span(left)}`, detail: usual };
        return { state: "allowed", headline: "charged", detail: usual };
      case "renew": return { state: "allowed", headline: "renewed", detail: "" };
      case "refund": return { state: "allowed", headline: this.slots ? "given back" : "refunded", detail: usual };
      case "nothing": return { state: "idle", headline: "nothing to refund", detail: this.slots ? "No job runs." : "No tokens of a call are left in the funnel." };
      case "error": return { state: "error", headline: "error", detail: text };
    }
    return { state: "idle", headline: level > 0 ? "leaking" : "empty", detail: usual || "call, and see which of them limits" };
  }

  showCalls() {
    const strip = this.part(".calls"), limited = this.calls.filter(Boolean).length;
    this.counts = this.calls.length > 1 ? `${this.calls.length - limited} allowed, ${limited} limited` : "";
    strip.replaceChildren(...this.calls.map((isLimited) => {
      const square = document.createElement("i");
      square.className = isLimited ? "limited" : "allowed";
      return square;
    }));
    strip.setAttribute("aria-label", `The last calls: ${this.counts}`);
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
      const word = (i) => i === 5 && sent.includes(" SLOTS ") ? "held" : words[i % words.length];
      lines.forEach((text, i) => {
        terminal.append("\n", text);
        if (named) {
          const name = document.createElement("span");
          name.textContent = `${" ".repeat(width - text.length)}   # ${i < 2 ? ["limited", "wait"][i] : word(i - 2)}`;
          terminal.append(name);
        }
      });
    }
  }

  draw(now, elapsed) {
    this.turns = this.turns.filter(({ at }) => at > now);
    if (this.slots) this.slots.taken = this.taken;
    for (const funnel of this.funnels) {
      funnel.turns = this.turns;
      funnel.draw(now, elapsed);
      const remaining = `${short(funnel.remaining(now))} of ${short(funnel.capacity)} remaining`;
      if (funnel.svg.ariaLabel !== remaining) funnel.svg.setAttribute("aria-label", remaining);
      const row = funnel.element.querySelector(".row");
      if (!row) continue;
      row.classList.toggle("limited", funnel.isLimited);
      set(row, !funnel.isLimited ? remaining : funnel === this.slots ? "limits: none is free" : funnel.limitedUntil === Infinity ? "limits: never fits" : `limits: wait ${span((funnel.limitedUntil - now) / 1000)}`);
    }
    const { state, headline, detail } = this.say(now);
    if (this.form.dataset.state !== state) this.form.dataset.state = state;
    set(this.part(".headline"), headline);
    set(this.part(".detail"), [this.counts, detail].filter(Boolean).join(" · "));
  }
}

function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const sections = [...document.querySelectorAll("form")].map((form) => new Section(form));
let active;

function open() {
  active = sections.find(({ form }) => `#${form.id}` === location.hash) ?? sections[0];
  for (const { form } of sections) form.hidden = form !== active.form;
  for (const link of document.querySelectorAll("nav a")) link.ariaCurrent = link.hash === `#${active.form.id}` ? "page" : null;
  active.peek();
}

addEventListener("hashchange", open);
open();

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
