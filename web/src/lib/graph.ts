// The graph of a run as it is drawn: nodes that stand side by side can be one.
import type { Schemas } from './api'

type Graph = Schemas['Graph']
type Node = NonNullable<Graph['nodes']>[number]

/** What is drawn: a node of the run, or a bundle of several with how many have which status. */
export type Shape = { id: string; x: number; y: number; label: string; status: string; node?: Node; counts?: [string, number][]; size: number }
export type Line = { id: string; from: Shape; to: Shape; label: string; back: boolean }
export type Drawing = { shapes: Shape[]; lines: Line[]; width: number; height: number }

/** The name of the bundle that a node belongs to: all branches, all routes, all workers. */
export const bundleOf = (n: Node): string => (n.group ?? '').split('/')[0] ?? ''

/** The bundles of a graph with their sizes. One of a single node is none. */
export function bundles(g: Graph): Map<string, number> {
  const sizes = new Map<string, number>()
  for (const n of g.nodes ?? []) if (bundleOf(n)) sizes.set(bundleOf(n), (sizes.get(bundleOf(n)) ?? 0) + 1)
  for (const [name, size] of sizes) if (size < 2) sizes.delete(name)
  return sizes
}

const order = ['failed', 'waiting', 'running', 'ahead', 'finished']

/** Draws a graph with some bundles shut. What is left closes up: layers stay where they are, rows move together. */
export function draw(g: Graph, shut: Set<string>): Drawing {
  const shapes = new Map<string, Shape>()
  const shapeOf = new Map<string, Shape>()
  for (const n of g.nodes ?? []) {
    const bundle = shut.has(bundleOf(n)) ? bundleOf(n) : ''
    const id = bundle ? `bundle ${bundle}` : n.id
    let s = shapes.get(id)
    if (!s) shapes.set(id, (s = { id, x: n.x, y: n.y, label: bundle || n.label, status: n.status, node: bundle ? undefined : n, counts: bundle ? [] : undefined, size: 0 }))
    s.size++
    s.x = Math.min(s.x, n.x)
    if (s.counts) {
      const count = s.counts.find(([status]) => status === n.status)
      if (count) count[1]++
      else s.counts.push([n.status, 1])
      if (order.indexOf(n.status) < order.indexOf(s.status)) s.status = n.status
    }
    shapeOf.set(n.id, s)
  }
  const all = [...shapes.values()]
  let height = g.height
  if (all.some((s) => s.counts)) {
    const row = g.nodeHeight + 24
    const layers = new Map<number, Shape[]>()
    for (const s of all) layers.set(s.x, [...(layers.get(s.x) ?? []), s])
    const most = Math.max(...[...layers.values()].map((l) => l.length))
    height = most * row - 24
    for (const layer of layers.values()) layer.forEach((s, i) => (s.y = ((most - layer.length) * row) / 2 + i * row))
  }
  const lines = new Map<string, Line>()
  for (const e of g.edges ?? []) {
    const from = shapeOf.get(e.from)
    const to = shapeOf.get(e.to)
    if (!from || !to || (from === to && from.counts)) continue
    const id = `${from.id}\n${to.id}\n${e.label ?? ''}`
    if (!lines.has(id)) lines.set(id, { id, from, to, label: e.label ?? '', back: e.back ?? false })
  }
  return { shapes: all, lines: [...lines.values()], width: g.width, height }
}
