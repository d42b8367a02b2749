// Data for components: what the server answered, kept fresh by its notices.
import { keepPreviousData, QueryClient, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";
import { useStore } from "../lib/store";
import { setQuery, useWhere } from "../router/router";
import { get, Refusal } from "./client";
import { live } from "./live";
import { withQuery } from "./paths";
import type { List } from "./types";

export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      // A refusal is an answer; only silence and a failing server are worth asking again.
      retry: (count, error) => count < 2 && (!(error instanceof Refusal) || error.code === 0 || error.code >= 502),
      refetchOnWindowFocus: true,
    },
  },
});

const NOT_LIVE_EVERY_MS = 10_000;

interface Reading {
  enabled?: boolean;
  /** Notices for another path than the one that is read (a list narrowed by `fields`, say). */
  notices?: string | null;
  /** It does not change while it is looked at: neither notices nor the clock ask again. */
  once?: boolean;
  /** Shown meanwhile: what was there before the address changed. */
  keep?: boolean;
}

/** Reads a path and reads it again whenever the server says that it has changed. */
export function useRead<T>(path: string, { enabled = true, notices, once = false, keep = true }: Reading = {}) {
  const client = useQueryClient();
  const liveness = useStore(live.liveness);
  const watched = once ? null : notices === undefined ? path : notices;
  // A path that the server does not (or no longer) follow for us is asked for again by the clock.
  const [deaf, setDeaf] = useState<string | null>(null);
  const told = liveness.state === "live" && watched !== null && deaf !== watched;
  const result = useQuery<T, Error>({
    queryKey: [path],
    queryFn: ({ signal }) => get<T>(path, signal),
    enabled,
    ...(keep && { placeholderData: keepPreviousData }),
    ...(once && { staleTime: 60_000 }),
    refetchInterval: told || once ? false : NOT_LIVE_EVERY_MS,
  });
  useEffect(() => {
    if (!enabled || watched === null) return;
    return live.subscribe(watched, (event) => {
      if (event !== "changed") setDeaf(watched);
      void client.invalidateQueries({ queryKey: [path], exact: true });
    });
  }, [client, enabled, path, watched]);
  return result;
}

/** Everything that was read is read again: after something was done. */
export const refresh = () => queries.invalidateQueries();

export interface ListState {
  page: number;
  pageSize: number;
  sort: string;
  q: string;
  filter: string;
  namespace: string;
  labelSelector: string;
}

export const PAGE_SIZE = 50;

/** Page, order and filters of a list: part of the address, so that a view can be shared. */
export function useListState(sort = ""): ListState {
  const { query } = useWhere();
  return useMemo(
    () => ({
      page: Math.max(1, Number(query.get("page")) || 1),
      pageSize: PAGE_SIZE,
      sort: query.get("sort") ?? sort,
      q: query.get("q") ?? "",
      filter: query.get("filter") ?? "",
      namespace: query.get("ns") ?? "",
      labelSelector: query.get("labels") ?? "",
    }),
    [query, sort],
  );
}

/** Changes the list; whatever is changed but the page itself goes back to page one. */
export function changeList(
  changes: Partial<Record<"page" | "sort" | "q" | "filter" | "ns" | "labels", string | null>>,
) {
  setQuery("page" in changes ? changes : { ...changes, page: null });
}

export function listPath(path: string, state: ListState, extra: Record<string, string | undefined> = {}): string {
  return withQuery(path, {
    page: state.page > 1 ? state.page : undefined,
    pageSize: state.pageSize,
    sort: state.sort,
    q: state.q,
    filter: state.filter,
    labelSelector: state.labelSelector,
    ...extra,
  });
}

export const useList = <Row>(
  path: string,
  state: ListState,
  extra: Record<string, string | undefined> = {},
  on = true,
) => useRead<List<Row>>(listPath(path, state, extra), { enabled: on });
