// In: a formula as a reader types it, such as `ceil_div(n, blockDim.x)`, and the values of its names. Out: an integer.
// Division rounds down, as between ints. Only the operations below are evaluated.

/** A formula that cannot be read, in a sentence. */
export class Unreadable extends Error {}

const TOKEN = /\s*(?:(\d+(?:\.\d+)?(?:e[+-]?\d+)?)|([A-Za-z_][\w.]*)|([-+*/%(),]))/iy;
const FUNCTIONS = {
  ceil_div: (a, b) => Math.ceil(divided(a, b)),
  min: Math.min,
  max: Math.max,
};
const MOST_LETTERS = 200;

function divided(a, b) {
  if (b === 0) throw new Unreadable("It divides by 0.");
  return a / b;
}

/** @param {string} text @param {Map<string, number>} known */
export function worth(text, known) {
  const tokens = split(text);
  let at = 0;
  const peek = () => tokens[at];
  const take = (wanted) => {
    if (tokens[at] !== wanted) throw new Unreadable(tokens[at] === undefined ? "It ends too early." : `I did not expect “${tokens[at]}”.`);
    at += 1;
  };
  const sum = () => {
    let value = product();
    while (peek() === "+" || peek() === "-") value = tokens[at++] === "+" ? value + product() : value - product();
    return value;
  };
  const product = () => {
    let value = signed();
    while (["*", "/", "%"].includes(peek())) {
      const operator = tokens[at++];
      const by = signed();
      if (operator === "*") value *= by;
      else value = operator === "/" ? Math.floor(divided(value, by)) : value - by * Math.floor(divided(value, by));
    }
    return value;
  };
  const signed = () => {
    if (peek() !== "-") return single();
    at += 1;
    return -signed();
  };
  const single = () => {
    const token = peek();
    if (token === "(") {
      at += 1;
      const value = sum();
      take(")");
      return value;
    }
    if (token === undefined || "+*/%),".includes(token)) take("a number");
    at += 1;
    if (/^\d/.test(token)) return Number(token);
    if (peek() === "(" && Object.hasOwn(FUNCTIONS, token)) return called(FUNCTIONS[token]);
    if (known.has(token)) return known.get(token);
    throw new Unreadable(`There is no ${token}; there is ${[...known.keys()].join(", ")}.`);
  };
  const called = (make) => {
    take("(");
    const first = sum();
    take(",");
    const second = sum();
    take(")");
    return make(first, second);
  };
  const value = sum();
  if (at < tokens.length) throw new Unreadable(`I did not expect “${tokens[at]}”.`);
  return value;
}

function split(text) {
  if (text.length > MOST_LETTERS) throw new Unreadable("It is too long.");
  const tokens = [];
  TOKEN.lastIndex = 0;
  while (text.slice(TOKEN.lastIndex).trim()) {
    const from = TOKEN.lastIndex;
    const found = TOKEN.exec(text);
    if (!found) throw new Unreadable(`I can't read “${text.slice(from).trim().slice(0, 12)}”.`);
    tokens.push(found[1] ?? found[2] ?? found[3]);
  }
  return tokens;
}
