// A phase machine drawn: phases as boxes, the ways between them as arrows, how many objects are where. Loaded when the first one is shown.
import dagre from "@dagrejs/dagre";
import { useMemo } from "react";
import type { PhaseGraph } from "../../api/types";
import { useText } from "../../i18n";
import { layout } from "./layout";

interface GraphProps {
  graph: PhaseGraph;
  counts: ReadonlyMap<string, number>;
  label: string;
}

const KINDS = ["success", "failure", "cancel", "forced"];
const kindOf = (on: string) => (KINDS.includes(on) ? on : "forced");

export default function Graph({ graph, counts, label }: GraphProps) {
  const t = useText();
  const drawn = useMemo(() => layout(graph, dagre), [graph]);
  const words: Record<string, string> = t.reconcilers.edges;
  const kinds = [...new Set(graph.edges.map((edge) => kindOf(edge.on)))];
  return (
    <figure className="graph">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reachable by keyboard */}
      <section className="graph-scroll" tabIndex={0} aria-label={label}>
        <svg
          width={drawn.width}
          height={drawn.height}
          viewBox={`0 0 ${drawn.width} ${drawn.height}`}
          role="img"
          aria-label={label}
        >
          <defs>
            {kinds.map((kind) => (
              <marker
                key={kind}
                id={`arrow-${kind}`}
                className={`arrow ${kind}`}
                viewBox="0 0 8 8"
                refX="7"
                refY="4"
                markerWidth="7"
                markerHeight="7"
                orient="auto-start-reverse"
              >
                <path d="M0 0 8 4 0 8z" />
              </marker>
            ))}
          </defs>
          {drawn.edges.map((edge) => (
            <path
              key={`${edge.from} ${edge.to} ${edge.on}`}
              className={`edge ${kindOf(edge.on)}`}
              d={edge.path}
              markerEnd={`url(#arrow-${kindOf(edge.on)})`}
            >
              <title>{`${edge.from} → ${edge.to}: ${words[edge.on] ?? edge.on}`}</title>
            </path>
          ))}
          {drawn.nodes.map((node) => (
            <g
              key={node.name}
              transform={`translate(${node.x - node.width / 2} ${node.y - node.height / 2})`}
              className={`phase ${node.terminal ? "last" : ""} ${counts.get(node.name) ? "occupied" : ""}`}
            >
              <rect width={node.width} height={node.height} rx={node.terminal ? node.height / 2 : 6} />
              <text x={node.width / 2} y={node.height / 2} dominantBaseline="central" textAnchor="middle">
                {node.name}
              </text>
              {counts.get(node.name) ? (
                <g transform={`translate(${node.width} 0)`} className="count">
                  <circle r="10" />
                  <text dominantBaseline="central" textAnchor="middle">
                    {counts.get(node.name)}
                  </text>
                </g>
              ) : null}
            </g>
          ))}
        </svg>
      </section>
      <figcaption className="legend muted">
        {kinds.map((kind) => (
          <span key={kind} className={`key ${kind}`}>
            <svg width="28" height="8" aria-hidden="true">
              <path className={`edge ${kind}`} d="M0 4H28" />
            </svg>
            {words[kind] ?? kind}
          </span>
        ))}
      </figcaption>
      <details>
        <summary>{t.reconcilers.asText}</summary>
        <ul>
          {graph.edges.map((edge) => (
            <li key={`${edge.from} ${edge.to} ${edge.on}`}>
              {edge.from} → {edge.to} <span className="muted">({words[edge.on] ?? edge.on})</span>
            </li>
          ))}
        </ul>
      </details>
    </figure>
  );
}
