// Numbers, amounts and times as people read them, in their language.
import type { Language } from "../i18n";

const units: Record<Language, Record<"s" | "m" | "h" | "d" | "y", string>> = {
  en: { s: "s", m: "m", h: "h", d: "d", y: "y" },
  zh: { s: "秒", m: "分", h: "时", d: "天", y: "年" },
};

/** How long ago, as short as kubectl says it: 45s, 12m, 5h, 3d4h, 2y. */
export function age(from: string | number | undefined, now: number, language: Language): string {
  if (from === undefined || from === "") return "–";
  const then = typeof from === "number" ? from : Date.parse(from);
  if (!Number.isFinite(then)) return "–";
  const seconds = Math.max(0, Math.floor((now - then) / 1000));
  const unit = units[language];
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  const days = Math.floor(hours / 24);
  if (seconds < 120) return `${seconds}${unit.s}`;
  if (minutes < 10 && seconds % 60) return `${minutes}${unit.m}${seconds % 60}${unit.s}`;
  if (minutes < 180) return `${minutes}${unit.m}`;
  if (hours < 10 && minutes % 60) return `${hours}${unit.h}${minutes % 60}${unit.m}`;
  if (hours < 48) return `${hours}${unit.h}`;
  if (days < 8 && hours % 24) return `${days}${unit.d}${hours % 24}${unit.h}`;
  if (days < 730) return `${days}${unit.d}`;
  return `${Math.floor(days / 365)}${unit.y}`;
}

const locale = (language: Language) => (language === "zh" ? "zh-CN" : "en-GB");

export const fullTime = (time: string | number, language: Language): string => {
  const date = new Date(time);
  if (Number.isNaN(date.getTime())) return String(time);
  return new Intl.DateTimeFormat(locale(language), { dateStyle: "medium", timeStyle: "medium" }).format(date);
};

export const number = (value: number, language: Language, digits = 0): string =>
  new Intl.NumberFormat(locale(language), { maximumFractionDigits: digits }).format(value);

const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"] as const;

export function bytes(value: number, language: Language): string {
  let amount = value;
  let step = 0;
  while (amount >= 1024 && step < BINARY.length - 1) {
    amount /= 1024;
    step += 1;
  }
  return `${number(amount, language, amount < 10 && step > 0 ? 1 : 0)} ${BINARY[step]}`;
}

/** Both in the unit of the whole: 156 / 288 GiB. */
export function bytesOf(part: number, whole: number, language: Language): string {
  const step = whole > 0 ? Math.min(BINARY.length - 1, Math.floor(Math.log(whole) / Math.log(1024))) : 0;
  const scaled = (value: number) => number(value / 1024 ** step, language, value / 1024 ** step < 10 ? 1 : 0);
  return `${scaled(part)} / ${scaled(whole)} ${BINARY[step]}`;
}

export const percent = (part: number, whole: number): number => (whole > 0 ? Math.round((part / whole) * 100) : 0);
