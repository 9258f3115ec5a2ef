// Mathematics inside a line that is wider than its column gets a scrollbar of its own.
const markWide = () => {
  const inline = [...document.querySelectorAll("mjx-container:not([display])")];
  inline.forEach(e => e.classList.remove("wide"));
  const column = e => e.closest("p, li, dd, td, th, h1, h2, h3, h4, summary, article") || document.body;
  inline.filter(e => e.offsetWidth > column(e).clientWidth).forEach(e => e.classList.add("wide"));
};
// What scrolls sideways fades where there is more to see.
const SCROLLS = "article :is(div.math, .table-wrapper, div.cell_output, div.output, mjx-container.wide, .picture, pre)";
const fade = e => {
  const room = e.scrollWidth - e.clientWidth;
  e.classList.toggle("more", room > 2 && e.scrollLeft < room - 2);
  e.classList.toggle("less", room > 2 && e.scrollLeft > 2);
};
const markAll = () => {
  markWide();
  document.querySelectorAll(".cell_output pre").forEach(  // columns under each other are not broken into lines
    e => e.classList.toggle("aligned", /\S {3,}\S/.test(e.textContent)));
  document.querySelectorAll(SCROLLS).forEach(fade);
};
addEventListener("scroll", event => event.target.matches && event.target.matches(SCROLLS) && fade(event.target), true);
addEventListener("load", () => (window.MathJax ? MathJax.startup.promise : Promise.resolve()).then(() => {
  markAll();
  addEventListener("resize", () => requestAnimationFrame(markAll));
  document.querySelectorAll("details").forEach(e => e.addEventListener("toggle", markAll));
}));

// A link to code opens it; the sidebar shows where one is.
const opened = () => {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  const next = target.nextElementSibling, fold = target.closest("details") || target.querySelector("details");
  const found = fold || (next && (next.matches("details") ? next : null));
  if (found) { found.open = true; target.scrollIntoView(); }
};
addEventListener("hashchange", opened);
addEventListener("DOMContentLoaded", () => {
  opened();
  const here = document.querySelector("nav.parts [aria-current]"), box = here && here.closest(".sidebar-scroll");
  if (box) box.scrollTop += here.getBoundingClientRect().top - box.getBoundingClientRect().top - box.clientHeight / 2;
});
