// Addresses of the explorer's pages.
import { groupName, type KindRef, type ObjectRef } from "../../api/paths";

const part = encodeURIComponent;

export const kindPlace = (kind: KindRef) =>
  `/explore/${part(groupName(kind.group))}/${part(kind.version)}/${part(kind.plural)}`;

/** A cluster-scoped object has `-` where others have their namespace. */
export const objectPlace = (ref: ObjectRef, tab = "") =>
  `${kindPlace(ref)}/${part(ref.cluster)}/${part(ref.namespace || "-")}/${part(ref.name)}${tab && `/${tab}`}`;
