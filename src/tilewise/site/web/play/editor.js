// The editor for CUDA: CodeMirror in a shadow root, with style sheets that a strict policy allows.
// In: an element, a text. Out: the edited text; lines of errors and hazards are marked. The caller processes the
// text. Tab leaves the editor; Ctrl+] and Ctrl+[ indent.

import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { cpp } from "@codemirror/lang-cpp";
import { bracketMatching, HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting, syntaxTree } from "@codemirror/language";
import { lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import { Decoration, EditorView, highlightActiveLine, highlightActiveLineGutter, keymap, lineNumbers, MatchDecorator, ViewPlugin } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const WORDS =
  /\b(?:__(?:global|device|host|shared|constant|managed|restrict|forceinline|noinline|grid_constant)__|__launch_bounds__|__cluster_dims__|threadIdx|blockIdx|blockDim|gridDim|warpSize|half2?|__half2?|__nv_bfloat162?|(?:float|double|int|uint|char|uchar|short|ushort|long|ulong|longlong|ulonglong)[1-4])\b|<<<|>>>/g;
const NOT_CODE = new Set(["LineComment", "BlockComment", "String", "RawString", "CharLiteral"]);
const word = Decoration.mark({ class: "tw-cuda-word" });
const words = new MatchDecorator({
  regexp: WORDS,
  decorate(add, from, to, _, view) {
    if (!NOT_CODE.has(syntaxTree(view.state).resolveInner(from, 1).name)) add(from, to, word);
  },
});
const cudaWords = ViewPlugin.fromClass(
  class {
    constructor(view) {
      this.decorations = words.createDeco(view);
    }

    update(update) {
      const isParsed = syntaxTree(update.startState) !== syntaxTree(update.state);
      this.decorations = isParsed ? words.createDeco(update.view) : words.updateDeco(update, this.decorations);
    }
  },
  { decorations: (plugin) => plugin.decorations },
);

const colour = (name) => ({ color: `var(--md-code-hl-${name}-color)` });
const highlighting = HighlightStyle.define([
  { tag: [tags.keyword, tags.modifier, tags.typeName, tags.standard(tags.typeName), tags.operatorKeyword], ...colour("keyword") },
  { tag: [tags.number, tags.bool, tags.null], ...colour("number") },
  { tag: [tags.string, tags.character], ...colour("string") },
  { tag: [tags.comment], ...colour("comment") },
  { tag: [tags.processingInstruction, tags.macroName, tags.meta], ...colour("special") },
  { tag: [tags.operator, tags.punctuation], ...colour("operator") },
]);

const theme = EditorView.theme({
  "&": { color: "var(--tw-ink)", backgroundColor: "var(--tw-panel)", fontSize: "0.67rem", maxHeight: "34rem" },
  "&.cm-focused": { outline: "2px solid var(--tw-accent)", outlineOffset: "1px" },
  ".cm-scroller": { fontFamily: "var(--tw-mono)", lineHeight: "1.55", overflow: "auto", fontVariantLigatures: "none" },
  ".cm-content": { caretColor: "var(--tw-ink)", padding: "0.5em 0" },
  ".cm-gutters": { backgroundColor: "var(--tw-panel)", color: "var(--tw-ink-3)", border: "none" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "color-mix(in srgb, var(--tw-accent-soft) 55%, transparent)" },
  ".cm-line ::selection, .cm-line::selection": { backgroundColor: "var(--tw-rule-2)" },
  ".cm-matchingBracket": { backgroundColor: "transparent", outline: "1px solid var(--tw-ink-3)" },
  ".tw-cuda-word, .tw-cuda-word span": colour("special"),
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--tw-bad)", textUnderlineOffset: "3px" },
  ".cm-lintRange-warning": { backgroundImage: "none", textDecoration: "underline wavy var(--tw-warn)", textUnderlineOffset: "3px" },
  ".cm-tooltip": { color: "var(--tw-ink)", backgroundColor: "var(--tw-paper)", border: "1px solid var(--tw-rule-2)", maxWidth: "min(34rem, 90vw)" },
  ".cm-panels": { color: "var(--tw-ink)", backgroundColor: "var(--tw-paper)", borderTop: "1px solid var(--tw-rule-2)" },
  ".cm-diagnostic-error": { borderLeftColor: "var(--tw-bad)" },
  ".cm-diagnostic-warning": { borderLeftColor: "var(--tw-warn)" },
});

/**
 * @typedef {{line: number, message: string, severity: "error" | "warning"}} Remark
 * @param {HTMLElement} host empty; gets a shadow root
 * @param {{text: string, label: string, changed: () => void, run: () => void}} options
 */
export function edit(host, { text, label, changed, run }) {
  const root = host.attachShadow({ mode: "open" });
  let isShown = false; // another text is, which nobody has typed
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: text,
      extensions: [
        keymap.of([{ key: "Mod-Enter", run: () => (run(), true) }]),
        lineNumbers(),
        lintGutter(),
        highlightActiveLine(),
        highlightActiveLineGutter(),
        history(),
        indentOnInput(),
        bracketMatching(),
        indentUnit.of("    "),
        cpp(),
        syntaxHighlighting(highlighting),
        cudaWords,
        theme,
        keymap.of([...defaultKeymap, ...historyKeymap, ...lintKeymap]),
        EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0", spellcheck: "false", autocorrect: "off", autocapitalize: "off" }),
        EditorView.updateListener.of((update) => update.docChanged && !isShown && changed()),
      ],
    }),
  });
  const lineAt = (number) => view.state.doc.line(Math.min(Math.max(number, 1), view.state.doc.lines));
  return {
    text: () => view.state.doc.toString(),
    show(other) {
      isShown = true;
      if (other !== view.state.doc.toString()) view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: other } });
      isShown = false;
    },
    /** @param {Remark[]} remarks */
    mark(remarks) {
      const found = remarks.map(({ line, message, severity }) => {
        const { from, to, text: code } = lineAt(line);
        return { from: Math.min(from + code.search(/\S|$/), to), to, severity, message };
      });
      view.dispatch(setDiagnostics(view.state, found));
    },
    go(line) {
      const { from } = lineAt(line);
      view.dispatch({ selection: { anchor: from }, effects: EditorView.scrollIntoView(from, { y: "center" }) });
      view.focus();
    },
    focus: () => view.focus(),
    close: () => view.destroy(),
  };
}
