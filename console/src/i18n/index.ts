// All text comes from here. A dictionary that lacks a key, or has one too many, does not compile.
import { kept, useStore } from "../lib/store";
import { en } from "./en";
import { zh } from "./zh";

type Widen<T> = T extends string
  ? string
  : T extends (...values: infer Values) => string
    ? (...values: Values) => string
    : { readonly [Key in keyof T]: Widen<T[Key]> };

export type Dictionary = Widen<typeof en>;
export type Language = "en" | "zh";

const dictionaries: Record<Language, Dictionary> = { en, zh };
const isLanguage = (value: unknown): value is Language => value === "en" || value === "zh";
const preferred = (): Language => (navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en");

export const language = kept<Language>("language", preferred(), isLanguage);

const applyLanguage = () => {
  document.documentElement.lang = language.get() === "zh" ? "zh-CN" : "en";
};
language.subscribe(applyLanguage);
applyLanguage();

export const useLanguage = (): Language => useStore(language);
export const useText = (): Dictionary => dictionaries[useStore(language)];
/** For places outside of components. */
export const text = (): Dictionary => dictionaries[language.get()];
