// The search box of the sessions: words, an id or the beginning of one, a name,
// and filters such as status:failed agent:writer kind:task.
import type { Query, Session } from './api'
import { statusOf } from './status'

export type Search = {
  words: string[]
  status?: string
  agent?: string
  kind?: string
  user?: string
  pending: boolean
  deleted: boolean
}

export const filterNames = ['status', 'agent', 'kind', 'user', 'is'] as const

/** Reads what was typed. A value with blanks stands between quotes: agent:"my agent". */
export function parseSearch(text: string): Search {
  const search: Search = { words: [], pending: false, deleted: false }
  for (const [token] of text.matchAll(/\w+:"[^"]*"?|"[^"]*"?|\S+/g)) {
    const [, name, quoted] = /^(\w+):(.+)$/.exec(token) ?? []
    const value = quoted?.replaceAll('"', '') ?? ''
    if (name === 'is' && value === 'waiting') search.pending = true
    else if (name === 'is' && value === 'deleted') search.deleted = true
    else if ((name === 'status' || name === 'agent' || name === 'kind' || name === 'user') && value !== '') search[name] = value
    else if (token.replaceAll('"', '') !== '') search.words.push(token.replaceAll('"', ''))
  }
  return search
}

const sessionStatuses = ['active', 'suspended', 'completed', 'failed', 'deleted']
const runStatuses = ['running', 'paused', 'cancelled']

/** Returns the search as the API has it. */
export function searchQuery(s: Search): Query {
  const q: Query = { agent: s.agent, user: s.user, kind: s.kind, words: s.words.join(' ') }
  if (s.pending) q.pending = true
  if (s.deleted) q.includeDeleted = true
  if (s.status === undefined) return q
  if (s.kind === 'task') q.taskStatus = s.status
  else if (s.kind === 'workflow' || (s.kind === undefined && runStatuses.includes(s.status))) q.runStatus = s.status
  else if (s.kind === 'chat' || sessionStatuses.includes(s.status)) q.status = s.status
  else q.taskStatus = s.status
  return q
}

/** Reports whether a session that changed belongs to what is shown. */
export function matches(s: Search, i: Session): boolean {
  if (i.kind === 'policy' && s.kind !== 'policy') return false
  if (i.status === 'deleted' && !s.deleted && s.status !== 'deleted') return false
  if (s.kind !== undefined && i.kind !== s.kind) return false
  if (s.agent !== undefined && i.agentName !== s.agent) return false
  if (s.user !== undefined && i.userId !== s.user) return false
  if (s.pending && !i.pending) return false
  if (s.status !== undefined && statusOf(i) !== s.status && i.status !== s.status) return false
  const text = [i.sessionId, i.name, i.agentName, i.agentLabel, i.userId, i.task?.title, i.task?.prompt, i.workflow?.name].join('\n').toLowerCase()
  return s.words.every((w) => text.includes(w.toLowerCase()))
}

/** Returns the text with one filter set or removed. */
export function withFilter(text: string, name: (typeof filterNames)[number], value: string | undefined): string {
  const rest = text.replace(new RegExp(`(^|\\s)${name}:("[^"]*"?|\\S+)`, 'g'), '').trim()
  if (value === undefined || value === '') return rest
  const filter = `${name}:${/\s/.test(value) ? `"${value}"` : value}`
  return rest === '' ? filter : `${filter} ${rest}`
}
