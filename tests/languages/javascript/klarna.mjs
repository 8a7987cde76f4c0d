// Klarna in JavaScript: who works, takes the amount and costs least.
//
// The rule is that of klarna.mjs and cash_app.c alike; main.rs holds both against it.
import log from "kassette:plugin/log@0.2.0";

const COUNTRIES = ["AT", "BE", "DE", "FI", "FR", "NL"];
const HEALTHY = ["operational", "degraded"];
const UNKNOWN = Infinity;

/** Why a candidate cannot take the payment, or null. */
function obstacle(candidate, amount) {
  if (!HEALTHY.includes(candidate.health.status)) {
    return { ground: "health", detail: `it is ${candidate.health.status}` };
  }
  if (amount === null) return null; // the payer only browses
  if (candidate.minimum !== null && amount < candidate.minimum) {
    return { ground: "amount", detail: `below ${candidate.minimum}` };
  }
  if (candidate.maximum !== null && amount > candidate.maximum) {
    return { ground: "amount", detail: `above ${candidate.maximum}` };
  }
  return null;
}

function better(a, b) {
  return (
    HEALTHY.indexOf(a.health.status) - HEALTHY.indexOf(b.health.status) ||
    // two unknown fees are equal, and their difference is no number
    (a.fee ?? UNKNOWN) - (b.fee ?? UNKNOWN) ||
    (a.id < b.id ? -1 : 1)
  );
}

export const routing = {
  describe() {
    return {
      id: "klarna",
      label: "Klarna",
      version: "1.0.0",
      currencies: ["EUR"],
      translations: [{ language: "de", label: "Klarna", note: "Jetzt kaufen, später zahlen." }],
      icon: [{ tag: "line", val: "M4 12h16" }],
      settings: [],
    };
  },

  checkSettings() {}, // there are none to judge

  rank(context) {
    if (context.country !== null && !COUNTRIES.includes(context.country)) {
      log.write("debug", `not sold in ${context.country}`);
      throw { ground: "country", detail: `Klarna is not sold in ${context.country}` };
    }
    const refused = [];
    const eligible = [];
    for (const candidate of context.candidates) {
      const why = obstacle(candidate, context.amount);
      if (why === null) eligible.push(candidate);
      else refused.push({ id: candidate.id, outcome: { tag: "err", val: why } });
    }
    const ranked = eligible.sort(better).map(({ id, fee, health }, place) => {
      const cost = fee === null ? "fee unknown" : `fee ${fee}`;
      return { id, outcome: { tag: "ok", val: `${place + 1}: ${health.status}, ${cost}` } };
    });
    return [...ranked, ...refused];
  },
};
