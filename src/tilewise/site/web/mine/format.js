// In: a value and a format of Python's, as lessons quote numbers: `.1f`, `,.0f`, `.0%`, `.3g`, `us` for a time.
// Out: the text that tilewise/build/numbers.py would have written. A format that is not known gives nothing.

const FORM = /^(,)?(?:\.(\d{1,2}))?([feg%d]?)$/;
const LONGEST = 80;
const TIMES = [
  ["s", 1e6],
  ["ms", 1e3],
  ["µs", 1],
  ["ns", 1e-3],
];

export function formatted(value, form) {
  if (typeof value === "string") return form ? undefined : value.slice(0, LONGEST);
  if (typeof value === "boolean") return form ? undefined : value ? "yes" : "no";
  if (typeof value !== "number" || !Number.isFinite(value)) return undefined;
  if (!form) return number(value);
  if (form === "us") return microseconds(value);
  const [, comma, digits, kind] = FORM.exec(form) ?? [];
  if (kind === undefined) return undefined;
  const precision = digits === undefined ? 6 : Number(digits);
  const text = written(value, kind, precision, digits === undefined);
  return comma ? grouped(text) : text;
}

function written(value, kind, precision, isBare) {
  if (kind === "%") return `${fixed(value * 100, precision)}%`;
  if (kind === "f") return fixed(value, precision);
  if (kind === "e") return exponential(value, precision);
  if (kind === "g" || !isBare) return general(value, precision);
  return String(value);
}

/** A number for a reader, as tilewise/outputs/table.py writes it. */
export function number(value) {
  const isWhole = Number.isInteger(value) || Math.abs(value) >= 1000;
  return isWhole && Math.abs(value) < 1e15 ? grouped(fixed(value, 0)) : general(value, 4);
}

/** A number for a chart, as tilewise/figures/values.py writes it. */
export function short(value) {
  if (Number.isInteger(value)) return grouped(String(value));
  const power = Math.floor(Math.log10(Math.abs(value)));
  return power < -4 || power >= 9 ? exponential(value, 3) : grouped(String(Number(value.toPrecision(4))));
}

function microseconds(time) {
  const [unit, scale] = TIMES.find(([, size]) => Math.abs(time) >= size) ?? TIMES.at(-1);
  return `${general(time / scale, 3)} ${unit}`;
}

function grouped(text) {
  return text.replace(/^-?\d+/, (whole) => whole.replace(/\B(?=(\d{3})+$)/g, ","));
}

function general(value, precision) {
  const digits = Math.max(precision, 1);
  const [mantissa, power] = exponential(value, digits - 1).split("e");
  const exponent = Number(power);
  const short = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
  if (exponent < -4 || exponent >= digits) return `${short(mantissa)}e${power}`;
  return short(fixed(value, digits - 1 - exponent));
}

function exponential(value, digits) {
  const [mantissa, power] = even(value, (count) => value.toExponential(count), digits).split("e");
  return `${mantissa}e${power[0]}${power.slice(1).padStart(2, "0")}`;
}

function fixed(value, digits) {
  return even(value, (count) => value.toFixed(count), digits);
}

/** Python rounds a half to the even digit; JavaScript away from zero. */
function even(value, write, digits) {
  const [short, long] = [write(digits), write(100)];
  const [mantissa, power = ""] = long.split("e");
  const point = mantissa.indexOf(".") + 1;
  if (!/^50*$/.test(mantissa.slice(point + digits))) return short;
  const down = mantissa.slice(0, digits ? point + digits : point - 1);
  return /[02468]$/.test(down) ? `${down}${power && `e${power}`}` : short;
}
