// Every test begins with an empty page and storage, in English.
import { cleanup, configure } from "@testing-library/react";
import { afterEach, beforeAll, vi } from "vitest";
import { queries } from "../api/hooks";
import { who } from "../frame/session";
import { language } from "../i18n";

// A busy machine is slow, not wrong.
configure({ asyncUtilTimeout: 15_000 });

beforeAll(() => {
  // happy-dom has no modal dialogs.
  HTMLDialogElement.prototype.showModal = function showModal(this: HTMLDialogElement) {
    this.setAttribute("open", "");
  };
});

afterEach(() => {
  cleanup();
  queries.clear();
  who.set({ is: "unknown" });
  language.set("en");
  localStorage.clear();
  vi.unstubAllGlobals();
});
