// Log files inside a container: listed, and one picked to be read.
import { FileText } from "lucide-react";
import { useId, useState } from "react";
import { useRead } from "../api/hooks";
import { logFiles, type PodRef } from "../api/paths";
import type { LogFile } from "../api/types";
import { useLanguage, useText } from "../i18n";
import { bytes } from "../lib/format";
import { Age, Button, Spinner } from "../ui/basics";
import { Dialog } from "../ui/dialog";
import { Empty, Problem } from "../ui/problem";

interface FilesProps {
  pod: PodRef;
  container: string;
  onClose: () => void;
  onPick: (path: string) => void;
}

export function FilesDialog({ pod, container, onClose, onPick }: FilesProps) {
  const t = useText();
  const language = useLanguage();
  const id = useId();
  const [typed, setTyped] = useState("/var/log");
  const [folder, setFolder] = useState("/var/log");
  const files = useRead<LogFile[]>(logFiles(pod, container, folder), { once: true, keep: false });
  return (
    <Dialog title={t.logs.filesOf(pod.name)} onClose={onClose}>
      <form
        className="row"
        onSubmit={(event) => {
          event.preventDefault();
          setFolder(typed);
        }}
      >
        <label htmlFor={id}>{t.logs.folder}</label>
        <input id={id} value={typed} spellCheck={false} onChange={(event) => setTyped(event.target.value)} />
        <Button type="submit">{t.logs.list}</Button>
      </form>
      {files.error ? (
        <Problem error={files.error} compact />
      ) : !files.data ? (
        <Spinner label={t.common.loading} />
      ) : files.data.length === 0 ? (
        <Empty title={t.logs.noFiles} />
      ) : (
        <ul className="pick-list">
          {files.data.map((file) => (
            <li key={file.path}>
              <button type="button" onClick={() => onPick(file.path)}>
                <FileText size={14} aria-hidden />
                <span className="grow">{file.path}</span>
                <span className="muted number">{file.size === undefined ? "" : bytes(file.size, language)}</span>
                <span className="muted">
                  <Age of={file.modified} />
                </span>
              </button>
            </li>
          ))}
        </ul>
      )}
    </Dialog>
  );
}
