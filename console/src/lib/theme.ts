// Dark, light, or as the system has it; a choice is kept in this browser.
import { kept } from "./store";

export type Theme = "system" | "light" | "dark";
const isTheme = (value: unknown): value is Theme => value === "system" || value === "light" || value === "dark";

export const theme = kept<Theme>("theme", "system", isTheme);

const darkSystem = matchMedia("(prefers-color-scheme: dark)");

export const isDark = (): boolean => (theme.get() === "system" ? darkSystem.matches : theme.get() === "dark");

const apply = () => {
  document.documentElement.dataset.theme = isDark() ? "dark" : "light";
};
theme.subscribe(apply);
darkSystem.addEventListener("change", apply);
apply();
