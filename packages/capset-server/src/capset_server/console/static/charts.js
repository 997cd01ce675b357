// Charts of the record: uPlot draws each figure with data-chart in the colours of the page.
(() => {
  "use strict";
  const HEIGHT = 220;
  const drawn = new Map();
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const dollars = (value) => `$${value.toLocaleString("en", { maximumFractionDigits: 4 })}`;
  const counted = (value, unit) => `${value.toLocaleString("en", { maximumFractionDigits: 1 })} ${unit}`;
  const shown = (value, unit) => value == null ? "–" : unit === "$" ? dollars(value) : counted(value, unit);
  const time = (seconds) => new Date(seconds * 1000).toISOString().replace("T", " ");

  function draw(figure) {
    const data = JSON.parse(figure.dataset.chart);
    const place = figure.querySelector(".plot");
    const isShort = data.x[data.x.length - 1] - data.x[0] <= 2 * 86400;
    const axis = { stroke: colour("quiet"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1 } };
    const options = {
      width: place.clientWidth,
      height: HEIGHT,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      scales: { y: { range: (plot, low, high) => [0, (high || 1) * 1.05] } },
      axes: [
        { ...axis, values: (plot, splits) => splits.map((one) => isShort ? time(one).slice(11, 16) : time(one).slice(5, 10)) },
        { ...axis, size: 56, ...data.unit === "$" && { values: (plot, splits) => splits.map(dollars) } },
      ],
      series: [
        { label: "Time (UTC)", value: (plot, seconds) => seconds == null ? "–" : time(seconds).slice(0, 16) },
        ...data.series.map((one) => ({
          label: one.label,
          stroke: colour(one.colour),
          width: 2,
          dash: one.dash.length ? one.dash : undefined,
          paths: uPlot.paths.stepped({ align: 1 }),
          points: { show: data.unit === "ms", size: 5 },
          value: (plot, value) => shown(value, data.unit),
        })),
      ],
    };
    if (drawn.has(figure)) drawn.get(figure).destroy();
    // A step is as wide as its bucket, including the last one.
    const x = [...data.x, data.x[data.x.length - 1] + data.step];
    drawn.set(figure, new uPlot(options, [x, ...data.series.map((one) => [...one.values, one.values[one.values.length - 1]])], place));
  }

  const figures = [...document.querySelectorAll("[data-chart]")];
  const redraw = () => figures.forEach(draw);
  redraw();
  new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  const resized = new ResizeObserver((entries) => {
    for (const entry of entries) {
      const plot = drawn.get(entry.target.closest("[data-chart]"));
      const width = Math.floor(entry.contentRect.width);
      if (plot && width > 0 && width !== plot.width) plot.setSize({ width, height: HEIGHT });
    }
  });
  for (const figure of figures) resized.observe(figure.querySelector(".plot"));
})();
