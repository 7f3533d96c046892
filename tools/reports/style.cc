#include "tools/reports/style.h"

#include <algorithm>
#include <string_view>

namespace gradsync::tools {
namespace {

constexpr std::string_view kStrategies[] = {"none",           "naive", "flat", "overlap", "bucketed_sync",
                                            "bucketed_async", "core",  "ddp",  "ddp_view"};
constexpr std::string_view kPeerPrefix = "pytorch_";
constexpr size_t kNumOthers = 3;

size_t ColumnNamed(const Table& table, std::string_view name) {
  const auto found = std::find_if(table.columns().begin(), table.columns().end(),
                                  [&](const Column& column) { return column.name == name; });
  return static_cast<size_t>(found - table.columns().begin());
}

}  // namespace

StrategyStyles::StrategyStyles(const std::vector<Table>& tables) {
  size_t num_others = 0;
  const auto add = [&](const std::string& strategy) {
    if (strategy.empty() || styles_.contains(strategy)) return;
    const bool is_peer = strategy.starts_with(kPeerPrefix);
    const std::string own = is_peer ? strategy.substr(kPeerPrefix.size()) : strategy;
    const auto known = std::find(std::begin(kStrategies), std::end(kStrategies), own);
    const std::string peer = is_peer ? " peer" : "";
    if (known != std::end(kStrategies)) {
      styles_[strategy] = {"s-" + own + peer, static_cast<size_t>(known - std::begin(kStrategies))};
    } else {
      styles_[strategy] = {"s-other" + std::to_string(1 + num_others % kNumOthers) + peer, num_others};
      ++num_others;
    }
  };
  for (const Table& table : tables) {
    const size_t column = ColumnNamed(table, "strategy");
    if (column == table.columns().size() || !table.is_text(column)) continue;
    for (size_t row = 0; row < table.num_rows(); ++row) add(std::string(table.text(row, column)));
  }
}

std::string StrategyStyles::Of(const std::string& strategy) const {
  const auto found = styles_.find(strategy);
  return found == styles_.end() ? "s-none" : found->second.classes;
}

size_t StrategyStyles::MarkerOf(const std::string& strategy) const {
  const auto found = styles_.find(strategy);
  return found == styles_.end() ? 0 : found->second.marker;
}

const char kReportStyleSheet[] = R"css(
:root {
  color-scheme: light dark;
  --paper: #fdfdfb; --ink: #1b1d20; --ink-2: #474b51; --ink-3: #656a71;
  --rule: #dcdcd6; --strong-rule: #55595e; --wash: #f3f3ee; --shadow: #0000002e; --link: #1f4fa3;
  --forward: #d5d8db; --backward: #aab0b6; --optimizer: #757d86;
  --none: #6a6d70; --naive: #8c2304; --flat: #c78424; --overlap: #1a794c; --bucketed-sync: #e73c86;
  --bucketed-async: #4d95c4; --core: #2c4497; --ddp: #6f4ac7; --ddp-view: #1f8a9e; --other1: #8a6d3b; --other2: #3f7f86; --other3: #84506f;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #15171a; --ink: #e9e7e2; --ink-2: #bfc2c5; --ink-3: #979ca2;
    --rule: #33373c; --strong-rule: #a5a9ae; --wash: #1e2125; --shadow: #000000b0; --link: #8db7f5;
    --forward: #3b4046; --backward: #5a6169; --optimizer: #838b94;
    --none: #8a8d8f; --naive: #e74e0e; --flat: #e5c555; --overlap: #75eab8; --bucketed-sync: #e7849f;
    --bucketed-async: #6fbbee; --core: #3f7bd0; --ddp: #9485ef; --ddp-view: #4fc3d6; --other1: #c2a06a; --other2: #62b3bb; --other3: #c58bb0;
  }
}
@media print {
  :root {
    color-scheme: light;
    --paper: #ffffff; --ink: #000000; --ink-2: #333333; --ink-3: #555555;
    --rule: #cccccc; --strong-rule: #333333; --wash: #f3f3f3; --shadow: #00000000; --link: #000000;
    --forward: #d5d8db; --backward: #aab0b6; --optimizer: #757d86;
    --none: #6a6d70; --naive: #8c2304; --flat: #c78424; --overlap: #1a794c; --bucketed-sync: #e73c86;
    --bucketed-async: #4d95c4; --core: #2c4497; --ddp: #6f4ac7; --ddp-view: #1f8a9e; --other1: #8a6d3b; --other2: #3f7f86; --other3: #84506f;
  }
}
.s-none { --c: var(--none); } .s-naive { --c: var(--naive); } .s-flat { --c: var(--flat); }
.s-overlap { --c: var(--overlap); } .s-bucketed_sync { --c: var(--bucketed-sync); }
.s-bucketed_async { --c: var(--bucketed-async); } .s-core { --c: var(--core); } .s-ddp { --c: var(--ddp); } .s-ddp_view { --c: var(--ddp-view); }
.s-other1 { --c: var(--other1); } .s-other2 { --c: var(--other2); } .s-other3 { --c: var(--other3); }
.b-0 { --c: var(--ink); } .b-1 { --c: var(--ink-3); } .b-2 { --c: var(--other2); } .b-3 { --c: var(--other1); }

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
p, .prose { max-width: 44rem; margin: 0 0 0.9rem; }
a { color: var(--link); text-decoration-thickness: 1px; text-underline-offset: 0.15em; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
code, pre { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: 0.84em; }
.eyebrow, nav, th, td, figcaption, .key, .notes, .constants, dl, .meta, footer, .chart text, .panel-title, .chart-title, .chart-facts {
  font-family: "Helvetica Neue", Helvetica, Arial, "Liberation Sans", "DejaVu Sans", sans-serif;
}
.eyebrow { font-size: 0.8rem; letter-spacing: 0.06em; text-transform: uppercase; color: var(--ink-3); margin: 0 0 0.5rem; }
.abstract { font-size: 1.125rem; }
nav { font-size: 0.875rem; margin: 1.5rem 0 0; }
nav a { margin-right: 1.1rem; white-space: nowrap; }
.findings { max-width: 44rem; margin: 0; padding-left: 1.2rem; }
.findings li { margin-bottom: 0.35rem; }

figure { margin: 0 0 3rem; }
.panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 21rem), 1fr)); gap: 1.75rem 2.5rem; align-items: start; }
@media (min-width: 56rem) { .panels.pairs { grid-template-columns: repeat(2, minmax(0, 28rem)); } }
.chart { display: block; width: 100%; max-width: 28rem; height: auto; overflow: visible; }
figcaption { font-size: 0.875rem; line-height: 1.5; color: var(--ink-2); max-width: 46rem; margin-top: 1rem; }
figcaption strong { color: var(--ink); font-weight: 600; }
.key { display: flex; flex-wrap: wrap; gap: 0.25rem 1.2rem; list-style: none; margin: 0 0 0.9rem; padding: 0; font-size: 0.8125rem; color: var(--ink-2); }
.key li { display: flex; align-items: center; gap: 0.45rem; }
.key svg { width: 18px; height: 14px; flex: none; display: block; }
@media (min-width: 56rem) {
  figure.single { display: grid; grid-template-columns: 28rem minmax(0, 1fr); column-gap: 2.5rem; }
  figure.single .key { grid-column: 1 / -1; }
  figure.single figcaption { margin-top: 1.6rem; }
}
.wide { overflow-x: auto; -webkit-overflow-scrolling: touch; }
.wide svg { display: block; width: 100%; min-width: 52rem; height: auto; }
.wide .gradsync-timeline .paper { fill: transparent; }

.chart text { font-size: 12px; fill: var(--ink-2); font-variant-numeric: tabular-nums; }
.chart-title, .chart-facts { font-size: 0.8125rem; line-height: 1.35; max-width: 28rem; margin: 0 0 0.3rem; }
.chart-title { font-size: 0.875rem; font-weight: 600; }
.chart-facts { color: var(--ink-2); margin-top: -0.2rem; }
.chart .tick { fill: var(--ink-3); font-size: 11.5px; }
.chart .axis { fill: var(--ink-2); }
.chart .name, .chart .value { fill: var(--ink); }
.grid { stroke: var(--rule); stroke-width: 1; }
.axis-line { stroke: var(--ink-3); stroke-width: 1; }
.reference { stroke: var(--ink-2); stroke-width: 1.25; stroke-dasharray: 3 3; }
.line { fill: none; stroke: var(--c); stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
.line.peer { stroke-dasharray: 5 4; }
.marker { fill: var(--c); stroke: var(--paper); stroke-width: 1; }
.marker.peer { fill: var(--paper); stroke: var(--c); stroke-width: 1.5; }
.band { fill: var(--c); opacity: 0.15; }
.band-line { stroke: var(--c); stroke-width: 5; opacity: 0.25; }
.leader { stroke: var(--c); stroke-width: 1.25; }
.part { stroke: var(--paper); stroke-width: 0.75; }
.part.forward { fill: var(--forward); } .part.backward { fill: var(--backward); }
.part.optimizer { fill: var(--optimizer); } .part.sync { fill: var(--c); } .part.peer.sync { opacity: 0.6; }
.part.whole { fill: var(--wash); stroke: var(--ink-3); }
.part.backward-and-sync { fill: var(--backward); fill: color-mix(in srgb, var(--c) 45%, var(--backward)); }
.total { fill: var(--ink); stroke: var(--paper); stroke-width: 1; }
.interval { stroke: var(--ink); stroke-width: 1.25; }

.table { margin: 0 0 2.75rem; }
.table h3 { margin-top: 0; }
.constants { font-size: 0.8125rem; color: var(--ink-2); max-width: 60rem; margin: 0 0 0.7rem; }
.table .findings { font-size: 0.9375rem; line-height: 1.45; margin: 0 0 0.8rem; }
.table .findings li { margin-bottom: 0.15rem; }
.panel-title { max-width: none; font-size: 0.875rem; font-weight: 600; margin: 1.1rem 0 0.4rem; }
.scroll {
  overflow-x: auto; -webkit-overflow-scrolling: touch; margin: 0 0 0.9rem;
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
td.flags { white-space: normal; min-width: 9rem; }
tr > :first-child { position: sticky; left: 0; background: var(--paper); padding-left: 0.15rem; }
tbody tr:hover > * { background: var(--wash); }
tr.group > * { border-top: 1px solid var(--rule); }
.flag { display: inline-block; font-size: 0.75rem; line-height: 1.25; padding: 0 0.3em; margin-right: 0.25em; border: 1px solid var(--rule); border-radius: 3px; color: var(--ink-2); text-decoration: none; white-space: nowrap; background: var(--wash); }
a.flag:hover { border-color: var(--ink-3); }
.dot { display: inline-block; width: 0.6em; height: 0.6em; border-radius: 50%; background: var(--c, transparent); margin-right: 0.5em; }
.dot.peer { background: transparent; box-shadow: inset 0 0 0 2px var(--c); }
.notes { font-size: 0.8125rem; line-height: 1.5; color: var(--ink-2); max-width: 46rem; margin: 0; padding-left: 1.1rem; }
.notes li { margin-bottom: 0.2rem; }

dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 0.3rem 1.5rem; font-size: 0.875rem; margin: 0 0 1.5rem; max-width: 56rem; }
dt { color: var(--ink-3); } dd { margin: 0; overflow-wrap: anywhere; }
dl.flag-list dt { color: var(--ink); }
pre { margin: 0 0 1.25rem; padding: 0.7rem 0.9rem; background: var(--wash); border-left: 2px solid var(--strong-rule); white-space: pre-wrap; overflow-wrap: anywhere; max-width: 56rem; line-height: 1.5; }
.argument { display: inline-block; max-width: 100%; }
.meta { font-size: 0.8125rem; color: var(--ink-2); margin: 0 0 0.4rem; max-width: 56rem; }
footer { font-size: 0.8125rem; color: var(--ink-3); border-top: 1px solid var(--rule); margin-top: 3.5rem; padding-top: 0.8rem; }

@media (max-width: 40rem) {
  main { padding: 1.75rem 1rem 3rem; }
  h1 { font-size: 1.65rem; }
  h2 { margin-top: 2.5rem; }
  .abstract { font-size: 1.0625rem; }
  dl { grid-template-columns: minmax(0, 1fr); gap: 0 0; }
  dd { margin-bottom: 0.55rem; }
}
@media print {
  @page { margin: 15mm; }
  @page wide { size: landscape; }
  html { font-size: 10pt; }
  main { max-width: none; padding: 0; }
  nav { display: none; }
  h2, h3, .panel-title, .constants, thead { break-after: avoid; }
  .chart, .panels > div, .wide, tr { break-inside: avoid; }
  figcaption { break-before: avoid; break-inside: avoid; }
  .panels, .panels.pairs { grid-template-columns: 1fr 1fr; }
  .part, .band, .marker, .dot, .flag, .key svg { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  .scroll, .wide { overflow: visible; }
  .wide svg { min-width: 0; }
  #tables, .table { page: wide; }
  table { font-size: 6.5pt; width: 100%; }
  th, td { padding: 1pt 2.5pt; }
    td .flag { font-size: 5.5pt; border: 0; padding: 0; background: none; }
  tr > :first-child { position: static; }
}
)css";

}  // namespace gradsync::tools
