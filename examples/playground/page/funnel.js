// A drawn funnel. What the server says of it is one instant, at which it will be empty: all
// else follows from that, the limit and the time.

const middle = 180, mouth = 106, neck = 27, spout = 8; // half widths
const depth = 226; // from the brim to the bottom of the cone
const still = matchMedia("(prefers-reduced-motion: reduce)");
let drawn = 0;

export class Funnel {
  capacity = 1;
  interval = 1; // seconds between two leaks
  emptyAt = 0; // by performance.now()
  limitedUntil = 0;
  turns = []; // {caller, at, quantity} of reservations, in their order
  maxWait = 0; // seconds

  // With compact, only the funnel, without what is written beside it.
  constructor(parent, { headroom = 40, compact = false }) {
    const brim = headroom, bottom = brim + depth, end = bottom + 66;
    Object.assign(this, { brim, bottom, shown: 0, texts: new Map() });
    const side = (to) => `${middle + to * mouth} ${brim} L${middle + to * neck} ${bottom} L${middle + to * spout} ${bottom + 22} L${middle + to * spout} ${end}`;
    const left = side(-1), right = side(1);
    const back = right.split(" L").reverse().join(" L");
    const clip = `inside-${++drawn}`;
    const view = compact ? `54 0 252 ${end + 26}` : `0 0 400 ${end + 34}`;
    const wave = "M-64 0" + " q16 -5 32 0 t32 0".repeat(8) + ` V${depth + 120} H-64 Z`;
    parent.innerHTML = `
      <svg viewBox="${view}" role="img">
        <defs>
          <clipPath id="${clip}"><path d="M${left} L${back} Z"/></clipPath>
          <linearGradient id="${clip}-water" gradientUnits="userSpaceOnUse" x1="0" x2="0" y1="0" y2="${depth + 90}">
            <stop class="light" offset="0"/><stop class="deep" offset="1"/>
          </linearGradient>
        </defs>
        <g class="above"></g>
        <g clip-path="url(#${clip})">
          <rect class="air" x="0" y="${brim}" width="400" height="${end - brim}"/>
          <g class="water"><path class="wave" d="${wave}" fill="url(#${clip}-water)"/></g>
          <path class="marks"/>
        </g>
        <path class="wall" d="M${left}"/><path class="wall" d="M${right}"/>
        <circle class="drop" cx="${middle}" cy="${end + 6}" r="4.5"/>
        <path class="measure"/><path class="ceiling"/>
        <text class="count" data-text="capacity" x="${middle - mouth - 12}" y="${brim + 6}" text-anchor="end"></text>
        <text class="word" x="${middle - mouth - 12}" y="${brim + 22}" text-anchor="end">capacity</text>
        <text class="count" data-text="upper" x="306"></text><text class="word" data-text="upper word" x="306"></text>
        <text class="count" data-text="lower" x="306"></text><text class="word" data-text="lower word" x="306"></text>
        <text class="word" data-text="rate" x="${middle + 24}" y="${end - 2}"></text>
        <text class="word" data-text="ceiling" x="306"></text>
      </svg>`;
    this.svg = parent.firstElementChild;
    if (compact) this.svg.querySelectorAll("text, .measure, .ceiling").forEach((e) => e.remove());
    this.parts = Object.fromEntries(["above", "water", "marks", "measure", "ceiling"].map((name) => [name, this.svg.querySelector(`.${name}`)]));
    for (const text of this.svg.querySelectorAll("[data-text]")) this.texts.set(text.dataset.text, text);
  }

  // level is in tokens.
  level(now) { return Math.max(0, this.emptyAt - now) / 1000 / this.interval; }

  // remaining agrees with the server's: a float is off by less than a millionth of a token.
  remaining(now) { return Math.max(0, Math.floor(this.capacity - this.level(now) + 1e-6)); }

  get isLimited() { return performance.now() < this.limitedUntil; }

  draw(now, elapsed) {
    const level = this.level(now);
    this.shown = still.matches || Math.abs(level - this.shown) < 1e-4 * this.capacity
      ? level : level + (this.shown - level) * Math.exp(-elapsed / 90);
    const { brim, bottom } = this;
    const inside = Math.min(this.shown / this.capacity, 1);
    const surface = bottom - inside * depth;

    this.svg.classList.toggle("limited", this.isLimited);
    this.svg.classList.toggle("leaks", level > 0);
    set(this.parts.water, "transform", `translate(0 ${this.shown > 0 ? surface - (this.shown > this.capacity ? 6 : 0) : bottom + 120})`);
    this.drawLimit();
    const over = this.drawAbove(now);
    if (!this.texts.size) return;

    const isOver = level > this.capacity + 1e-6;
    const ceiling = this.maxWait > 0 ? brim - this.maxWait / this.interval * this.heightAbove(over) : brim;
    set(this.parts.ceiling, "d", ceiling < brim ? `M${middle - mouth - 6} ${ceiling} H300` : "");
    this.write("ceiling", ceiling < brim ? `max_wait ${round(span(this.maxWait))}` : "", ceiling + 5);
    const top = isOver ? brim - over * this.heightAbove(over) : surface;
    const lines = [[isOver ? top : brim, isOver ? brim : surface], [surface, bottom]];
    set(this.parts.measure, "d", lines.filter(([from, to]) => to - from > 6)
      .map(([from, to]) => `M291 ${from + 1} h6 V${to - 1} h-6`).join(""));
    const [upper, lower] = lines.map(([from, to]) => (from + to) / 2);
    this.write("capacity", short(this.capacity));
    this.write("upper", isOver ? short(Math.ceil((level - this.capacity) * 10 - 1e-6) / 10) : short(this.remaining(now)), upper);
    this.write("upper word", isOver ? "overfull" : "remaining", upper + 17);
    this.write("lower", level > 0 ? span(level * this.interval) : "", lower);
    this.write("lower word", level > 0 ? "until empty" : "empty", lower + 17);
    this.write("rate", rate(this.interval));
  }

  write(name, text, y) {
    const element = this.texts.get(name);
    if (element.textContent !== text) element.textContent = text;
    if (y !== undefined) set(element, "y", y.toFixed(1));
  }

  // A line for each token, where they can be told apart; and how often a drop falls.
  drawLimit() {
    const limit = `${this.capacity} ${this.interval}`;
    if (this.limit === limit) return;
    this.limit = limit;
    this.svg.style.setProperty("--leak", `${Math.min(Math.max(this.interval, 0.25), 3)}s`);
    let lines = "";
    for (let token = 1; token < this.capacity && this.capacity <= 40; token++) {
      const height = token / this.capacity;
      const half = neck + (mouth - neck) * height;
      lines += `M${middle - half} ${this.bottom - height * depth} h${half / 5}`;
    }
    set(this.parts.marks, "d", lines);
  }

  // heightAbove is the height of a token above the brim.
  heightAbove(over) {
    const most = this.maxWait > 0 ? this.maxWait / this.interval : over;
    return Math.min(depth / this.capacity, (this.brim - 22) / Math.max(most, 1e-9));
  }

  // What is above the brim: the tokens that do not fit yet, and whose they are.
  drawAbove(now) {
    const over = Math.max(0, this.shown - this.capacity);
    const height = this.heightAbove(over);
    const rect = (name, from, to) => `<rect class="${name}" x="${middle - mouth}" width="${2 * mouth}" y="${(this.brim - to * height).toFixed(1)}" height="${((to - from) * height).toFixed(1)}" rx="3"/>`;
    let parts = over > 0 ? rect("over", 0, over) : "";
    for (const { caller, at, quantity } of this.turns) {
      const to = (at - now) / 1000 / this.interval;
      if (to <= 0) continue;
      const from = Math.max(0, to - quantity);
      parts += rect("turn", from, to - Math.min(2 / height, (to - from) / 2));
      if ((to - from) * height > 15) parts += `<text class="word" x="${middle}" y="${(this.brim - (from + to) / 2 * height + 5).toFixed(1)}" text-anchor="middle">caller ${caller}</text>`;
    }
    if (parts !== this.above) this.parts.above.innerHTML = this.above = parts;
    return over;
  }
}

// set sets what differs: the browser paints again whatever is set.
function set(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

const few = new Intl.NumberFormat("en", { maximumFractionDigits: 1 }), many = new Intl.NumberFormat("en", { notation: "compact" });

// short writes a number of tokens.
export function short(number) { return (number < 1e5 ? few : many).format(number); }

// span writes seconds, rounded up: who waits so long is not too early.
export function span(seconds) {
  if (seconds < 59.95) return `${(Math.ceil(seconds * 10 - 1e-6) / 10).toFixed(1)} s`;
  const whole = Math.ceil(seconds - 1e-6);
  for (const [unit, length, lower, divisor] of [["d", 86400, "h", 3600], ["h", 3600, "min", 60], ["min", 60, "s", 1]]) {
    if (whole >= length) return `${short(Math.floor(whole / length))} ${unit} ${Math.floor(whole % length / divisor)} ${lower}`;
  }
}

function rate(interval) {
  return interval < 1 ? `${short(1 / interval)} tokens leak a second` : `a token leaks every ${round(span(interval))}`;
}

function round(time) { return time.replace(".0 s", " s"); }
