// Mathematics inside a line that is wider than its column gets a scrollbar of its own.
const markWide = () => {
  const inline = [...document.querySelectorAll("mjx-container:not([display])")];
  inline.forEach(e => e.classList.remove("wide"));
  const column = e => e.closest("p, li, dd, td, th, h1, h2, h3, h4, summary, article") || document.body;
  inline.filter(e => e.offsetWidth > column(e).clientWidth).forEach(e => e.classList.add("wide"));
};
addEventListener("load", () => window.MathJax && MathJax.startup.promise.then(() => {
  markWide();
  addEventListener("resize", () => requestAnimationFrame(markWide));
}));
