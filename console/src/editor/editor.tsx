// The YAML editor and the view of differences. Loaded when the first one is shown.
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, foldGutter, HighlightStyle, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, linter, lintGutter } from "@codemirror/lint";
import { MergeView, unifiedMergeView } from "@codemirror/merge";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { EditorState, type Extension } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "react";
import { parseAllDocuments, parseDocument, stringify } from "yaml";
import type { Json } from "../api/types";
import { text } from "../i18n";

export const write = (value: unknown): string => stringify(value, { lineWidth: 0, aliasDuplicateObjects: false });

/** The value, or what is wrong with the text. */
export function parse(written: string): { value: Json; wrong: "" } | { value: null; wrong: string } {
  const document = parseDocument(written, { prettyErrors: true });
  const error = document.errors[0];
  if (error) return { value: null, wrong: error.message };
  try {
    // Few aliases: a document that unfolds into millions of values is refused.
    return { value: document.toJS({ maxAliasCount: 100 }) as Json, wrong: "" };
  } catch (problem) {
    return { value: null, wrong: String(problem) };
  }
}

/** All documents of a text, without the empty ones; or what is wrong with it. */
export function parseAll(written: string): { values: Json[]; wrong: "" } | { values: null; wrong: string } {
  const documents = parseAllDocuments(written, { prettyErrors: true });
  if (!Array.isArray(documents)) return { values: [], wrong: "" };
  const values: Json[] = [];
  for (const document of documents) {
    const error = document.errors[0];
    if (error) return { values: null, wrong: error.message };
    try {
      const value = document.toJS({ maxAliasCount: 100 }) as Json;
      if (value !== null && value !== undefined) values.push(value);
    } catch (problem) {
      return { values: null, wrong: String(problem) };
    }
  }
  return { values, wrong: "" };
}

const check = linter((view): Diagnostic[] => {
  const written = view.state.doc.toString();
  // Several documents in one text are no mistake while something new is written.
  const found = parseAllDocuments(written);
  return (Array.isArray(found) ? found.flatMap((document) => document.errors) : []).map((error) => ({
    from: Math.min(error.pos[0], written.length),
    to: Math.min(Math.max(error.pos[1], error.pos[0] + 1), written.length),
    severity: "error",
    message: error.message,
  }));
});

const colors = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--code-key)" },
  { tag: tags.string, color: "var(--code-string)" },
  { tag: [tags.number, tags.bool, tags.null, tags.keyword, tags.atom], color: "var(--code-value)" },
  { tag: tags.comment, color: "var(--muted)" },
  { tag: [tags.punctuation, tags.separator, tags.meta], color: "var(--muted)" },
]);

const look = EditorView.theme({
  "&": { fontSize: "12.5px", backgroundColor: "var(--surface)", color: "var(--text)", height: "100%" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55" },
  ".cm-gutters": { backgroundColor: "var(--surface)", color: "var(--muted)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--hover)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--select)" },
  ".cm-changedLine": { backgroundColor: "var(--diff-line)" },
  ".cm-deletedChunk, .cm-merge-a .cm-changedLine": { backgroundColor: "var(--diff-gone)" },
  ".cm-merge-b .cm-changedLine": { backgroundColor: "var(--diff-new)" },
  ".cm-changedText": { background: "var(--diff-text)" },
  ".cm-deletedChunk .cm-deletedText": { background: "var(--diff-gone-text)" },
  ".cm-collapsedLines": { background: "var(--hover)", color: "var(--muted)", padding: "3px 12px" },
  ".cm-collapsedLines:before, .cm-collapsedLines:after": { content: "none" },
  ".cm-panels": { backgroundColor: "var(--raised)", color: "var(--text)" },
  ".cm-tooltip": { backgroundColor: "var(--raised)", color: "var(--text)", border: "1px solid var(--line)" },
});

const basic = (label: string, editable: boolean): Extension[] => [
  lineNumbers(),
  foldGutter(),
  drawSelection(),
  bracketMatching(),
  highlightSelectionMatches(),
  indentUnit.of("  "),
  yaml(),
  syntaxHighlighting(colors),
  look,
  EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
  EditorState.phrases.of(text().editor),
  EditorState.readOnly.of(!editable),
  // A read-only text can still be reached and read by keyboard.
  EditorView.editable.of(true),
];

interface EditorProps {
  value: string;
  label: string;
  editable: boolean;
  onChange?: (text: string) => void;
}

/** The text belongs to the editor; a new `value` from outside replaces it only when it differs. */
export function YamlEditor({ value, label, editable, onChange }: EditorProps) {
  const box = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const tell = useRef(onChange);
  tell.current = onChange;
  const first = useRef(value);
  first.current = value;
  useEffect(() => {
    if (!box.current) return;
    const editor = new EditorView({
      parent: box.current,
      state: EditorState.create({
        doc: first.current,
        extensions: [
          basic(label, editable),
          editable ? [history(), highlightActiveLine(), check, lintGutter()] : [],
          keymap.of([...(editable ? [...historyKeymap, indentWithTab] : []), ...searchKeymap, ...defaultKeymap]),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) tell.current?.(update.state.doc.toString());
          }),
        ],
      }),
    });
    view.current = editor;
    return () => {
      editor.destroy();
      view.current = null;
    };
  }, [label, editable]);
  useEffect(() => {
    const editor = view.current;
    if (!editor || editor.state.doc.toString() === value) return;
    editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: value } });
  }, [value]);
  return <div className="editor" ref={box} data-keys="own" />;
}

const SIDE_BY_SIDE = 900;

export function Differences({ before, after, label }: { before: string; after: string; label: string }) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const parent = box.current;
    if (!parent) return;
    if (before === "") {
      // Of something new there is nothing to compare: half a page of nothing, and everything marked, would only hide it.
      const view = new EditorView({
        parent,
        state: EditorState.create({ doc: after, extensions: basic(label, false) }),
      });
      return () => view.destroy();
    }
    const collapseUnchanged = { margin: 4, minSize: 6 };
    if (parent.clientWidth >= SIDE_BY_SIDE) {
      const view = new MergeView({
        parent,
        a: { doc: before, extensions: basic(`${label} −`, false) },
        b: { doc: after, extensions: basic(`${label} +`, false) },
        collapseUnchanged,
        gutter: true,
      });
      return () => view.destroy();
    }
    const view = new EditorView({
      parent,
      state: EditorState.create({
        doc: after,
        extensions: [
          basic(label, false),
          unifiedMergeView({ original: before, mergeControls: false, collapseUnchanged }),
        ],
      }),
    });
    return () => view.destroy();
  }, [before, after, label]);
  return <div className="editor differences" ref={box} data-keys="own" />;
}
