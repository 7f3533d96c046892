#include "tools/reports/charts.h"

namespace gradsync::tools {

const char kChartStyleSheet[] = R"css(
:root {
  color-scheme: light dark;
  --paper: #fdfdfb; --ink: #1b1d20; --ink-2: #474b51; --ink-3: #656a71;
  --rule: #dcdcd6; --strong-rule: #55595e; --wash: #f3f3ee; --shadow: #0000002e; --link: #1f4fa3;
  --faster: #c9ddf3; --slower: #f6d3b3; --open: #ececea; --equal: #dcd9ee;
  --c0: #6a6d70; --c1: #8c2304; --c2: #c78424; --c3: #1a794c; --c4: #e73c86;
  --c5: #4d95c4; --c6: #2c4497; --c7: #6f4ac7; --c8: #1f8a9e; --c9: #8a6d3b; --c10: #3f7f86; --c11: #84506f;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --paper: #15171a; --ink: #e9e7e2; --ink-2: #bfc2c5; --ink-3: #979ca2;
    --rule: #33373c; --strong-rule: #a5a9ae; --wash: #1e2125; --shadow: #000000b0; --link: #8db7f5;
    --faster: #1f4a78; --slower: #7a4117; --open: #2b2f34; --equal: #443f66;
    --c0: #8a8d8f; --c1: #e74e0e; --c2: #e5c555; --c3: #75eab8; --c4: #e7849f;
    --c5: #6fbbee; --c6: #3f7bd0; --c7: #9485ef; --c8: #4fc3d6; --c9: #c2a06a; --c10: #62b3bb; --c11: #c58bb0;
  }
}
.c-0 { --c: var(--c0); } .c-1 { --c: var(--c1); } .c-2 { --c: var(--c2); } .c-3 { --c: var(--c3); }
.c-4 { --c: var(--c4); } .c-5 { --c: var(--c5); } .c-6 { --c: var(--c6); } .c-7 { --c: var(--c7); }
.c-8 { --c: var(--c8); } .c-9 { --c: var(--c9); } .c-10 { --c: var(--c10); } .c-11 { --c: var(--c11); }

.chart text { font-family: "Helvetica Neue", Helvetica, Arial, "Liberation Sans", "DejaVu Sans", sans-serif; font-size: 12px; fill: var(--ink-2); font-variant-numeric: tabular-nums; }
.chart .tick { fill: var(--ink-3); font-size: 11.5px; }
.chart .name, .chart .value { fill: var(--ink); }
.chart .over { paint-order: stroke; stroke: var(--paper); stroke-width: 4px; stroke-linejoin: round; }
.grid { stroke: var(--rule); stroke-width: 1; }
.axis-line { stroke: var(--ink-3); stroke-width: 1; }
.line { fill: none; stroke: var(--c); stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
.marker { fill: var(--c); stroke: var(--paper); stroke-width: 1; }
.band { fill: var(--c); opacity: 0.15; }
.band-line { stroke: var(--c); stroke-width: 5; opacity: 0.25; }
.zero { stroke: var(--ink-2); stroke-width: 1.25; }
.chart .heading { fill: var(--ink); font-weight: 600; }
.part.exposed { fill: var(--c1); } .part.tax { fill: var(--c2); } .part.own { fill: var(--c5); } .part.rest { fill: var(--c0); }
.mark, .swatch { fill: var(--ink-3); } .interval { stroke: var(--ink-3); stroke-width: 2; }
.mark { stroke: var(--paper); stroke-width: 1; }
.mark.faster, .swatch.faster { fill: var(--c6); } .interval.faster { stroke: var(--c6); }
.mark.slower, .swatch.slower { fill: var(--c2); } .interval.slower { stroke: var(--c2); }
.mark.equal, .swatch.equal { fill: var(--c7); } .interval.equal { stroke: var(--c7); }
.mark.total { fill: var(--ink); } .interval.total { stroke: var(--ink); stroke-width: 1.25; }
.cell { fill: none; } .cell.faster { fill: var(--faster); } .cell.slower { fill: var(--slower); }
.cell.open { fill: var(--open); } .cell.equal { fill: var(--equal); }
.forward { fill: #56b4e9; } .backward { fill: #0072b2; } .op { fill: #8cc5ea; } .op2 { fill: #4f9fd3; }
.optimizer { fill: #008a64; } .hidden { fill: #f2c078; } .exposed { fill: #e06a1b; } .idle { fill: var(--rule); }
.queued { fill: var(--ink-3); } .lane { fill: var(--wash); } .cut { stroke: var(--paper); stroke-width: 0.8; }
.last { stroke: var(--c5); stroke-width: 1.2; stroke-dasharray: 3 2; }
.chart .on-dark { fill: #fff; } .chart .on-light { fill: #0c2233; } .chart .tag { fill: #241400; font-size: 11px; }
.chart .title { fill: var(--ink); font-size: 14px; font-weight: 600; }

.paper { fill: var(--paper); }
)css";

const char kPageStyleSheet[] = R"css(
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 1.0625rem/1.55 "Iowan Old Style", "Palatino Linotype", Palatino, "URW Palladio L", P052, Georgia, "DejaVu Serif", serif;
  font-variant-numeric: lining-nums; hanging-punctuation: first; text-rendering: optimizeLegibility;
}
main { max-width: 79rem; margin: 0 auto; padding: 3rem 1.5rem 4rem; }
h1 { font-size: 2.1rem; line-height: 1.15; font-weight: 600; letter-spacing: -0.01em; margin: 0 0 0.75rem; text-wrap: balance; }
h2 { font-size: 1.35rem; line-height: 1.25; font-weight: 600; margin: 3.5rem 0 1rem; padding-top: 0.6rem; border-top: 1px solid var(--rule); }
h3 { font-size: 1.05rem; font-weight: 600; margin: 2rem 0 0.4rem; }
p { max-width: 44rem; margin: 0 0 0.9rem; }
p, li { overflow-wrap: anywhere; }
a { color: var(--link); text-decoration-thickness: 1px; text-underline-offset: 0.15em; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
code, pre { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: 0.84em; }
.eyebrow, summary, .figure-title, .ref, th, td, figcaption, .key, .notes, .constants, dl, .meta, footer, .panel-title, .chart-title {
  font-family: "Helvetica Neue", Helvetica, Arial, "Liberation Sans", "DejaVu Sans", sans-serif;
}
.eyebrow { font-size: 0.8rem; letter-spacing: 0.06em; text-transform: uppercase; color: var(--ink-3); margin: 0 0 0.5rem; }
.findings { max-width: 44rem; margin: 0; padding-left: 1.2rem; }
.findings li { margin-bottom: 0.35rem; }
.findings code { white-space: nowrap; }

figure { margin: 0 0 3rem; }
.panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 21rem), 1fr)); gap: 1.75rem 2.5rem; align-items: start; }
@media (min-width: 56rem) { .panels.pairs { grid-template-columns: repeat(2, minmax(0, 28rem)); } }
.chart { display: block; width: 100%; max-width: 28rem; height: auto; overflow: visible; }
figcaption { font-size: 0.875rem; line-height: 1.5; color: var(--ink-2); max-width: 46rem; margin-top: 1rem; }
.figure-title { font-size: 1.0625rem; font-weight: 600; line-height: 1.35; max-width: 60rem; margin-bottom: 0.6rem; }
.ref { font-size: 0.8125rem; white-space: nowrap; }
.key { display: flex; flex-wrap: wrap; gap: 0.25rem 1.2rem; list-style: none; margin: 0 0 0.9rem; padding: 0; font-size: 0.8125rem; color: var(--ink-2); }
.key li { display: flex; align-items: center; gap: 0.45rem; }
.key svg { width: 18px; height: 14px; flex: none; display: block; }
.wide .chart { max-width: none; min-width: 60rem; }

.chart-title { font-size: 0.875rem; font-weight: 600; line-height: 1.35; max-width: 28rem; margin: 0 0 0.3rem; }
.table { margin: 0 0 2.75rem; }
.table h3 { margin-top: 0; }
.constants { font-size: 0.8125rem; color: var(--ink-2); max-width: 60rem; margin: 0 0 0.7rem; }
.table .findings { font-size: 0.9375rem; line-height: 1.45; margin: 0 0 0.8rem; }
.panel-title { max-width: none; font-size: 0.875rem; font-weight: 600; margin: 1.1rem 0 0.4rem; }
.scroll { margin: 0 0 0.9rem; }
.scroll, .wide {
  overflow-x: auto; -webkit-overflow-scrolling: touch;
  /* A shadow at the right edge for as long as there is more. */
  background: linear-gradient(to left, var(--paper) 40%, transparent) right / 2rem 100% no-repeat local,
    linear-gradient(to left, var(--shadow), transparent) right / 0.9rem 100% no-repeat scroll;
}
table { border-collapse: collapse; font-size: 0.8125rem; line-height: 1.35; font-variant-numeric: tabular-nums; border-top: 1.5px solid var(--strong-rule); border-bottom: 1.5px solid var(--strong-rule); }
th, td { padding: 0.26rem 0.5rem; text-align: right; white-space: nowrap; vertical-align: baseline; }
th { font-weight: 600; }
thead th { border-bottom: 1px solid var(--strong-rule); vertical-align: bottom; color: var(--ink-2); white-space: normal; line-height: 1.2; }
tbody th { font-weight: 400; }
.t { text-align: left; }
tr > :first-child { position: sticky; left: 0; background: var(--paper); padding-left: 0.15rem; }
tbody tr:hover > * { background: var(--wash); }
.flag { display: inline-block; font-size: 0.75rem; line-height: 1.25; padding: 0 0.3em; margin-right: 0.25em; border: 1px solid var(--rule); border-radius: 3px; color: var(--ink-2); text-decoration: none; white-space: nowrap; background: var(--wash); }
a.flag:hover { border-color: var(--ink-3); }
.notes { font-size: 0.8125rem; line-height: 1.5; color: var(--ink-2); max-width: 46rem; margin: 0; padding-left: 1.1rem; }
.notes li { margin-bottom: 0.2rem; }

dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 0.3rem 1.5rem; font-size: 0.875rem; margin: 0 0 1.5rem; max-width: 56rem; }
dt { color: var(--ink-3); } dd { margin: 0; overflow-wrap: anywhere; }
dl.subject { margin: 0 0 1rem; }
summary { cursor: pointer; font-size: 0.875rem; color: var(--ink-2); margin: 0 0 0.6rem; }
pre { margin: 0 0 1.25rem; padding: 0.7rem 0.9rem; background: var(--wash); border-left: 2px solid var(--strong-rule); white-space: pre-wrap; overflow-wrap: anywhere; max-width: 56rem; line-height: 1.5; }
.meta { font-size: 0.8125rem; color: var(--ink-2); margin: 0 0 0.4rem; max-width: 56rem; }
footer { font-size: 0.8125rem; color: var(--ink-3); border-top: 1px solid var(--rule); margin-top: 3.5rem; padding-top: 0.8rem; }

@media (max-width: 40rem) {
  main { padding: 1.75rem 1rem 3rem; }
  h1 { font-size: 1.65rem; }
  h2 { margin-top: 2.5rem; }
  dl { grid-template-columns: minmax(0, 1fr); gap: 0 0; }
  dd { margin-bottom: 0.55rem; }
  /* Long names leave room for the columns that scroll beside them. */
  tr > :first-child { white-space: normal; min-width: 5.5rem; }
}
)css";

}  // namespace gradsync::tools
