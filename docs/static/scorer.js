// What the search shows first: names of the package and of statements if the query looks like one, else the
// pages that the query's words are about (the weights are those of tools/site_search.py).
const CODE = /[_.()]|[a-z][A-Z]/, STATEMENT = /^#(assumption|definition|eq|lemma|prop|property|remark|theorem)-/;
var Scorer = {
  query: "", words: [], keys: {},
  about: docname => {
    const k = Search._index.docnames.indexOf(docname), table = Search._index.weights;
    const weight = word => Math.max(0, ...(Scorer.keys[word] || []).map(key => table[key][k] || 0));
    const sum = Scorer.words.reduce((sum, word) => sum + weight(word), 0);
    const pairs = Scorer.words.slice(1).map((word, i) => (table[`${Scorer.words[i]} ${word}`] || {})[k] || 0);
    const phrase = Scorer.query.includes(" ") && Search._index.leads[k].includes(Scorer.query.toLowerCase());
    const together = pairs.reduce((sum, pair) => sum + pair, 0) / Math.max(pairs.length, 1);
    return sum / Math.max(Scorer.words.length, 1) + .5 * together + .8 * phrase;
  },
  score: ([docname, title, anchor, descr, score, filename, kind]) => {
    const code = CODE.test(Scorer.query), query = Scorer.query.toLowerCase().replace(/\(\)$/, "");
    if (kind === "object") {
      const exact = title.toLowerCase() === query || title.toLowerCase().endsWith("." + query);
      return score + (exact ? (code ? 500 : 40) : -100);
    }
    if (kind === "title" && STATEMENT.test(anchor)) return score + 400;
    const share = kind === "title" && anchor ? .5 : 1;  // a page comes before its sections
    const named = kind === "title" && !anchor ? 40 : 0;
    return score / 10 + named + 100 * share * Scorer.about(docname);
  },
  objNameMatch: 11, objPartialMatch: 6, objPrio: { 0: 15, 1: 5, 2: -5 }, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
};
if (typeof Search !== "undefined") {
  const parsed = Search._parseQuery, text = Search.htmlToText;
  Search._parseQuery = query => {
    const stemmer = new Stemmer(), letters = query.toLowerCase().match(/[\p{L}\p{N}_]+(-[\p{L}\p{N}_]+)*/gu) || [];
    Scorer.query = query.trim();
    Scorer.words = letters.filter(word => !stopwords.has(word)).map(word => stemmer.stemWord(word));
    // the stems of the browser are not all those of the index: interv, interval
    const like = word => Object.keys(Search._index.weights).filter(
      key => key.startsWith(word) && key.length <= word.length + 2);
    const own = word => Object.hasOwn(Search._index.weights, word);
    Scorer.keys = Object.fromEntries(Scorer.words.map(word => [word, own(word) ? [word] : like(word)]));
    return parsed(query);
  };
  // The lines under a result are prose, not code or formulas.
  Search.htmlToText = (html, anchor) => {
    const page = new DOMParser().parseFromString(html, "text/html");
    page.querySelectorAll("pre, details, table, .cell_input, .cell_output, .cell-note, .download, .toc-drawer")
      .forEach(e => e.remove());
    page.querySelectorAll(".math").forEach(e => { e.textContent = "\u2026"; });
    return text(page.documentElement.outerHTML, anchor);
  };
}
