// What a kind of row asks, and how much of its limit a reply says is used: from 0 to 1, or more.
export const funnel = {
  words: ({ capacity, count, period, quantity }) => [capacity, count, period, quantity],
  used: (reply, { capacity, count, period }) => Number(reply.reset_after) * count / period / capacity,
};
const slots = {
  words: ({ limit, ttl }, job) => [limit, "SLOTS", ttl, `job-${job}`],
  used: (reply) => 1 - reply.remaining / Math.max(reply.limit, 1),
};
const quota = {
  words: ({ limit, until, quantity }) => [limit, "UNTIL", until, quantity],
  used: (reply) => 1 - reply.remaining / Math.max(reply.limit, 1),
};
const midnight = Math.floor(Date.now() / 86_400_000 + 1) * 86_400; // in UTC

// Each tab makes calls on its rows, with the values of its fields. A button has a text, a
// command, and how often it is called.
export const tabs = [
  {
    id: "one",
    title: "One limit",
    lead: "A call pours tokens into the funnel of a key, and they leak at a constant rate. What does not fit as a " +
      "whole is limited, and changes nothing. Charge records tokens that were used, even if they do not fit; " +
      "Refund gives back the tokens of the last call, except for those that have leaked.",
    rows: [{ key: "demo", kind: funnel, fields: { capacity: 15, count: 30, period: 60, quantity: 1 } }],
    buttons: [
      ["Pour", "reserve"],
      ["Pour 20 times", "reserve", 20],
      ["Charge", "charge"],
      ["Refund", "refund"],
      ["Empty", "reset"],
    ],
  },
  {
    id: "several",
    title: "Several limits",
    lead: "A call pours into both funnels, or into neither if one of them limits it.",
    rows: [
      { key: "second", kind: funnel, fields: { capacity: 5, count: 1, period: 1, quantity: 1 } },
      { key: "minute", kind: funnel, fields: { capacity: 20, count: 20, period: 60, quantity: 1 } },
    ],
    buttons: [["Pour", "reserve"], ["Pour 20 times", "reserve", 20], ["Empty", "reset"]],
  },
  {
    id: "turns",
    title: "Reservations",
    lead: "A call also takes tokens that will have leaked within max_wait, and its reply says when its turn comes. " +
      "Turns come in the order of asking.",
    rows: [{ key: "turns", kind: funnel, fields: { capacity: 3, count: 1, period: 2, quantity: 1, max_wait: 10 } }],
    buttons: [["Reserve", "reserve"], ["5 callers", "reserve", 5], ["Empty", "reset"]],
  },
  {
    id: "slots",
    title: "Slots",
    lead: "Slots limit what is in flight. A call takes a slot and a token, or neither. A job that ends gives its " +
      "slot back; one that runs on renews it in time. The slot of a job that has crashed is free when its ttl is " +
      "over.",
    rows: [
      { key: "slots", kind: slots, fields: { limit: 5, ttl: 10 } },
      { key: "tokens", kind: funnel, fields: { capacity: 20, count: 20, period: 60, quantity: 1 } },
    ],
    buttons: [
      ["Begin", "reserve"],
      ["7 jobs", "reserve", 7],
      ["Renew", "renew"],
      ["End", "refund"],
      ["Empty", "reset"],
    ],
  },
  {
    id: "quotas",
    title: "Quotas",
    lead: "A quota limits a sum until an instant, in Unix time: here, until midnight. A call uses a part of the " +
      "quota and a token, or neither. Charge records what was used, even if it does not fit. Refund gives back " +
      "what the last call used, unless its period has ended.",
    rows: [
      { key: "plan", kind: quota, fields: { limit: 30, until: midnight, quantity: 1 } },
      { key: "rate", kind: funnel, fields: { capacity: 10, count: 1, period: 1, quantity: 1 } },
    ],
    buttons: [
      ["Use", "reserve"],
      ["Use 20 times", "reserve", 20],
      ["Charge", "charge"],
      ["Refund", "refund"],
      ["Empty", "reset"],
    ],
  },
];
