// What two texts or two documents have in common and what not.
import { ExactNumber, formatJSON } from './json'

export type Piece = { op: 'same' | 'removed' | 'added'; text: string }

const mostCells = 1_000_000

/** Compares two texts by words. Texts that are too long for that are one removed and one added piece where they differ. */
export function compareWords(before: string, after: string): Piece[] {
  const a = before.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? []
  const b = after.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? []
  let start = 0
  while (start < a.length && start < b.length && a[start] === b[start]) start++
  let end = 0
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++
  const pieces: Piece[] = []
  const add = (op: Piece['op'], text: string): void => {
    const last = pieces.at(-1)
    if (text === '') return
    if (last?.op === op) last.text += text
    else pieces.push({ op, text })
  }
  add('same', a.slice(0, start).join(''))
  middle(a.slice(start, a.length - end), b.slice(start, b.length - end), add)
  add('same', a.slice(a.length - end).join(''))
  return pieces
}

/** The longest common part, by a table of lengths. */
function middle(a: string[], b: string[], add: (op: Piece['op'], text: string) => void): void {
  if (a.length * b.length > mostCells) {
    add('removed', a.join(''))
    add('added', b.join(''))
    return
  }
  const width = b.length + 1
  const common = new Uint32Array((a.length + 1) * width)
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      common[i * width + j] = a[i] === b[j] ? common[(i + 1) * width + j + 1]! + 1 : Math.max(common[(i + 1) * width + j]!, common[i * width + j + 1]!)
  let [i, j] = [0, 0]
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) (add('same', a[i]!), i++, j++)
    else if (common[(i + 1) * width + j]! >= common[i * width + j + 1]!) add('removed', a[i++]!)
    else add('added', b[j++]!)
  }
  add('removed', a.slice(i).join(''))
  add('added', b.slice(j).join(''))
}

export type Difference = { path: string; before: string | undefined; after: string | undefined }

const isObject = (v: unknown): v is Record<string, unknown> => typeof v === 'object' && v !== null && !(v instanceof ExactNumber)

/** Members by name; of a list by the id of each, or by its place. */
function members(v: unknown): Record<string, unknown> | undefined {
  if (Array.isArray(v)) return Object.fromEntries(v.map((m: unknown, i) => [isObject(m) && typeof m.id === 'string' ? m.id : String(i), m]))
  return isObject(v) ? v : undefined
}

/** Compares two JSON documents: every place where they differ, with the values as text. */
export function compareDocuments(before: unknown, after: unknown, path = ''): Difference[] {
  const [a, b] = [members(before), members(after)]
  if (a && b) {
    const names = [...new Set([...Object.keys(a), ...Object.keys(b)])]
    return names.flatMap((name) => compareDocuments(a[name], b[name], path === '' ? name : `${path}.${name}`))
  }
  const text = (v: unknown): string | undefined => (v === undefined || v === null || v === '' ? undefined : typeof v === 'string' ? v : formatJSON(v))
  const [x, y] = [text(before), text(after)]
  return x === y ? [] : [{ path, before: x, after: y }]
}
