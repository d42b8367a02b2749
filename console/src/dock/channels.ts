// Frames of a terminal: the first byte says what the rest is. Pure.

export const STDIN = 0;
export const STDOUT = 1;
export const STDERR = 2;
export const STATUS = 3;
export const RESIZE = 4;
export const CLOSE = 255;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export function frame(channel: number, payload: string | Uint8Array): Uint8Array<ArrayBuffer> {
  const bytes = typeof payload === "string" ? encoder.encode(payload) : payload;
  const out = new Uint8Array(bytes.length + 1);
  out[0] = channel;
  out.set(bytes, 1);
  return out;
}

export const input = (text: string) => frame(STDIN, text);
export const size = (columns: number, rows: number) => frame(RESIZE, JSON.stringify({ Width: columns, Height: rows }));

export interface Ended {
  code: number | null;
  message: string;
}

/** The end of a session as Kubernetes says it: a Status with the exit code among its causes. */
export function ended(payload: Uint8Array): Ended {
  const said = decoder.decode(payload);
  try {
    const status = JSON.parse(said) as {
      status?: string;
      message?: string;
      details?: { causes?: { reason?: string; message?: string }[] };
    };
    if (status.status === "Success") return { code: 0, message: "" };
    const cause = status.details?.causes?.find((one) => one.reason === "ExitCode");
    return { code: cause?.message ? Number(cause.message) : null, message: status.message ?? "" };
  } catch {
    return { code: null, message: said };
  }
}
