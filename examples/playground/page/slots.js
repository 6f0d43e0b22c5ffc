// Drawn slots: those that run are bars, which shorten until the slots end.
export class Slots {
  capacity = 1;
  period = 1; // the ttl, in seconds
  limitedUntil = 0;
  taken = []; // the rows of calls that took one, with the time at which it ends

  constructor(parent) {
    parent.innerHTML = `<svg viewBox="0 0 252 358" role="img"></svg>`;
    this.svg = parent.firstElementChild;
  }

  running(now) { return this.taken.filter(({ emptyAt }) => emptyAt > now); }

  level(now) { return this.running(now).length; }

  remaining(now) { return Math.max(0, this.capacity - this.level(now)); }

  get isLimited() { return performance.now() < this.limitedUntil && this.remaining(performance.now()) === 0; }

  draw(now) {
    const running = this.running(now), shown = Math.min(Math.max(this.capacity, running.length), 20);
    const height = 358 / shown - 6;
    const bar = (name, i, width) => `<rect class="${name}" x="1" y="${i * (height + 6) + 3}" width="${width.toFixed(1)}" height="${height}" rx="4"/>`;
    let bars = "";
    for (let i = 0; i < shown; i++) {
      bars += bar("air", i, 250);
      if (!running[i]) continue;
      bars += bar("turn", i, 250 * Math.min(1, (running[i].emptyAt - now) / 1000 / this.period));
      if (height > 15) bars += `<text class="word" x="12" y="${i * (height + 6) + height / 2 + 8}">job-${running[i][0].job}</text>`;
    }
    this.svg.classList.toggle("limited", this.isLimited);
    if (bars !== this.bars) this.svg.innerHTML = this.bars = bars;
  }
}
