// iDEAL in JavaScript with the language's own clock, which stands at the time of the question.
export const routing = {
  describe() {
    return {
      id: "ideal", label: "iDEAL", version: "1.0.0", currencies: ["EUR"], translations: [], icon: [],
      settings: [],
    };
  },

  checkSettings() {},

  rank(context) {
    const asked = new Date().toISOString();
    return context.candidates.map(({ id }) => ({ id, outcome: { tag: "ok", val: `asked at ${asked}` } }));
  },
};
