// Statements and names of the package come before pages that mention them.
var Scorer = {
  score: ([docname, title, anchor, descr, score, filename, kind]) =>
    score + (kind === "title" && /^#(assumption|definition|eq|lemma|prop|property|remark|theorem)-/.test(anchor) ? 200 : 0)
          + (kind === "object" ? 100 : 0),
  objNameMatch: 11, objPartialMatch: 6, objPrio: { 0: 15, 1: 5, 2: -5 }, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
};
