// Which files a session changed, and how: from its recorded calls.
import type { Item } from './api'

export type FileChange = { id: string; path: string; tool: string; at: string; state: 'done' | 'failed' | 'open'; diff: string }

type Arguments = { path?: unknown; to?: unknown; from?: unknown; content?: unknown; old?: unknown; new?: unknown }

const text = (v: unknown): string => (typeof v === 'string' ? v : '')
const signed = (sign: string, v: string): string => (v === '' ? '' : v.replace(/\n$/, '').split('\n').map((line) => sign + line).join('\n') + '\n')

/** Lists the calls that change files, in order. The diff is the one a person was shown, else what the arguments say. */
export function fileChanges(items: Item[]): FileChange[] {
  const diffs = new Map<string, string>()
  for (const i of items) if (i.pending?.diff && i.pending.callId) diffs.set(i.pending.callId, i.pending.diff)
  const found: FileChange[] = []
  for (const i of items) {
    const call = i.call
    if (!call || !/^file_(write|edit|move|delete)$/.test(call.name)) continue
    const a = (call.arguments ?? {}) as Arguments
    found.push({
      id: i.id,
      path: [text(a.path), text(a.from), text(a.to)].filter(Boolean).join(' → '),
      tool: call.name,
      at: call.endedAt ?? i.at ?? '',
      state: call.result?.isError ? 'failed' : call.state === 'done' ? 'done' : 'open',
      diff: diffs.get(call.callId) ?? signed('-', text(a.old)) + signed('+', text(a.new) || text(a.content)),
    })
  }
  return found
}
