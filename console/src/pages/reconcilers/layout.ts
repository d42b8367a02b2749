// Where phases and arrows stand.
import type dagreType from "@dagrejs/dagre";
import type { PhaseGraph } from "../../api/types";

export interface Drawn {
  width: number;
  height: number;
  nodes: { name: string; terminal: boolean; x: number; y: number; width: number; height: number }[];
  edges: { from: string; to: string; on: string; path: string }[];
}

const HEIGHT = 34;
const widthOf = (name: string) => Math.max(72, name.length * 8 + 28);

export function layout(graph: PhaseGraph, dagre: typeof dagreType): Drawn {
  const plan = new dagre.graphlib.Graph({ multigraph: true });
  plan.setGraph({ rankdir: "LR", nodesep: 26, ranksep: 52, marginx: 16, marginy: 16 });
  plan.setDefaultEdgeLabel(() => ({}));
  const known = new Set(graph.phases.map((phase) => phase.name));
  for (const { name } of graph.phases) plan.setNode(name, { width: widthOf(name), height: HEIGHT });
  const edges = graph.edges.filter((edge) => known.has(edge.from) && known.has(edge.to));
  for (const edge of edges) plan.setEdge(edge.from, edge.to, {}, edge.on);
  dagre.layout(plan);
  const size = plan.graph();
  return {
    width: Math.ceil(size.width ?? 0),
    height: Math.ceil(size.height ?? 0),
    nodes: graph.phases.map(({ name, terminal = false }) => {
      const { x, y, width, height } = plan.node(name) as { x: number; y: number; width: number; height: number };
      return { name, terminal, x, y, width, height };
    }),
    edges: edges.map(({ from, to, on }) => ({
      from,
      to,
      on,
      path: curve((plan.edge(from, to, on) as { points: { x: number; y: number }[] }).points),
    })),
  };
}

/** A smooth line through points: each middle one bends it. */
export function curve(points: readonly { x: number; y: number }[]): string {
  const [first, ...rest] = points;
  if (!first) return "";
  const last = rest[rest.length - 1];
  if (!last) return `M${first.x} ${first.y}`;
  let path = `M${first.x} ${first.y}`;
  for (let n = 0; n < rest.length - 1; n += 1) {
    const [bend, next] = [rest[n], rest[n + 1]];
    if (!bend || !next) continue;
    const end = n === rest.length - 2 ? next : { x: (bend.x + next.x) / 2, y: (bend.y + next.y) / 2 };
    path += ` Q${bend.x} ${bend.y} ${end.x} ${end.y}`;
  }
  return rest.length === 1 ? `${path} L${last.x} ${last.y}` : path;
}
