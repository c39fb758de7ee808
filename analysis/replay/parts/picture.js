// A PNG file of what is shown: title, maps, curves with their values, and the scale of colours.

const PAGE_PX = 16; // margin of the picture
const CARD_HEAD_PX = 44; // above a chart

/** Let the browser save the picture. */
async function savePicture(replay) {
  const canvas = paintPicture(replay);
  const blob = await new Promise((done) => { canvas.toBlob(done, "image/png"); });
  const link = element("a", { href: URL.createObjectURL(blob), download: pictureName(replay) });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  setText(byId("said"), `saved as ${link.download}`);
}

/** A file name such as warzone-0h25m00s.png. */
function pictureName({ content, player }) {
  const plain = content.title.replace(/[^\p{L}\p{N}.]+/gu, "-").replace(/^[-.]+|[-.]+$/g, "").slice(0, 60) || "run";
  const clock = clockText(player.time).replace(/ d /, "d").replace(/:/, "h").replace(/:/, "m");
  return `${plain}-${clock}s.png`;
}

function paintPicture({ content, stages, cards, player }) {
  const colour = palette();
  const maps = stages.map((stage) => ({ stage, width: stage.view.width, height: stage.view.height }));
  const wide = maps.reduce((sum, { width }) => sum + width, 0) + PAGE_PX * (maps.length - 1);
  const head = stages.length > 1 ? 80 : 52;
  const tall = Math.max(...maps.map(({ height }) => height));
  const across = Math.max(1, Math.min(cards.length, Math.floor(wide / 260)));
  const cardWidth = (wide - PAGE_PX * (across - 1)) / across;
  const chartOf = ({ chart }) => chart.canvas.getBoundingClientRect();
  const scaled = (card) => Math.min(1, cardWidth / chartOf(card).width);
  const cardTall = CARD_HEAD_PX + Math.max(...cards.map((card) => chartOf(card).height * scaled(card))) + PAGE_PX;
  const rows = Math.ceil(cards.length / across);
  const canvas = document.createElement("canvas");
  const ratio = Math.max(2, devicePixelRatio || 1);
  canvas.width = Math.round((wide + 2 * PAGE_PX) * ratio);
  canvas.height = Math.round((head + tall + PAGE_PX + rows * cardTall + 34) * ratio);
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  context.fillStyle = colour("surface");
  context.fillRect(0, 0, canvas.width, canvas.height);
  const write = (text, x, y, font, ink, room) => {
    context.font = `${font} ${colour("font")}`;
    context.fillStyle = colour(ink);
    context.textAlign = "left";
    context.textBaseline = "alphabetic";
    context.fillText(text, x, y, room);
    return context.measureText(text).width;
  };
  write(`${clockText(player.time)}  ${content.title}`, PAGE_PX, 24, "650 17px", "ink", wide);
  write(content.facts.join(" · "), PAGE_PX, 43, "13px", "muted", wide);
  let x = PAGE_PX;
  for (const [i, { stage, width, height }] of maps.entries()) {
    if (maps.length > 1) write(`${"AB"[i]}  ${stage.history.content.title}`, x, 70, "650 13px", `run-${i}`, width);
    context.drawImage(stage.map.canvases.live, x, head, width, height);
    x += width + PAGE_PX;
  }
  cards.forEach((card, i) => {
    const left = PAGE_PX + (i % across) * (cardWidth + PAGE_PX);
    const top = head + tall + PAGE_PX + Math.floor(i / across) * cardTall;
    write(card.title, left, top + 12, "650 13px", "ink", cardWidth);
    paintReadout(context, card, left, top + 32, cardWidth, colour);
    const { width, height } = chartOf(card);
    context.drawImage(card.chart.canvas, left, top + CARD_HEAD_PX, width * scaled(card), height * scaled(card));
  });
  const bottom = head + tall + PAGE_PX + rows * cardTall + 14;
  const low = write(`clients by test accuracy: ${byId("scale-low").textContent}`, PAGE_PX, bottom, "12px", "muted", wide);
  context.drawImage(byId("scale"), PAGE_PX + low + 8, bottom - 9, 160, 10);
  write(byId("scale-high").textContent, PAGE_PX + low + 176, bottom, "12px", "muted", wide);
  paintGroups(context, stages[0].history.groups, PAGE_PX + low + 226, bottom, wide + PAGE_PX, colour);
  return canvas;
}

/** The values of a card's curves in one line, each after a piece of its curve. */
function paintReadout(context, card, left, y, room, colour) {
  const texts = card.lines.map((line, i) => `${line.label} ${card.values[i].textContent}`);
  context.font = `12px ${colour("font")}`;
  const widths = texts.map((text) => context.measureText(text).width + 40);
  const share = Math.min(1, room / widths.reduce((sum, width) => sum + width, 0));
  let x = left;
  card.lines.forEach((line, i) => {
    context.strokeStyle = colour(line.colour);
    context.lineWidth = 2;
    context.setLineDash(DASHES[line.dash]);
    context.beginPath();
    context.moveTo(x, y - 4);
    context.lineTo(x + 18 * share, y - 4);
    context.stroke();
    context.setLineDash([]);
    context.fillStyle = colour("ink");
    context.fillText(texts[i], x + 24 * share, y, (widths[i] - 30) * share);
    x += widths[i] * share;
  });
}

/** The shapes of the groups with their names, as far as there is room. */
function paintGroups(context, groups, left, y, right, colour) {
  let x = left;
  if (!groups.haveShapes) return;
  context.font = `12px ${colour("font")}`;
  for (const [i, name] of groups.names.entries()) {
    const width = context.measureText(name).width + 30;
    if (x + width > right) return;
    context.save();
    context.translate(x + 6, y - 4);
    traceShape(context, SHAPES[i], 5);
    context.fillStyle = colour("unknown");
    context.fill();
    context.strokeStyle = colour("ink");
    context.lineWidth = 1.25;
    context.stroke();
    context.restore();
    context.fillStyle = colour("muted");
    context.fillText(name, x + 16, y);
    x += width;
  }
}
