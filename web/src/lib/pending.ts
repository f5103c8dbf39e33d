// Calls that wait for a person, and how they are responded to.
import { shellQuote, type PendingCall, type Request, type Schemas } from './api'

/** A call with the session it belongs to. */
export type Waiting = Schemas['Pending']

export type Response = { action: 'approve' | 'deny' | 'answer' | 'result'; choice?: string; text?: string }

/** The request that responds to a call. */
export function respondRequest(sessionID: string, id: string, body: Response): Request {
  return {
    method: 'POST',
    path: '/v1/sessions/{ref}/pending/{id}',
    params: { ref: sessionID, id },
    body: Object.fromEntries(Object.entries(body).filter(([, v]) => v !== undefined && v !== '')),
  }
}

/** The command that does the same. */
export function respondLine(sessionID: string, id: string, r: Response): string {
  const parts = ['holdfast respond', sessionID, id, r.action]
  if (r.choice) parts.push('--choice', shellQuote(r.choice))
  if (r.text) parts.push(...(r.action === 'deny' ? ['--reason'] : []), shellQuote(r.text))
  return parts.join(' ')
}

const scopeNames: Record<string, string> = { session: 'in this session', workspace: 'in this workspace', profile: 'always' }

/** How long an approval or a denial may hold: the choices that add a rule, by their scope. "" is this time. */
export function scopesOf(call: PendingCall): { value: string; label: string }[] {
  const found = new Set<string>()
  for (const c of call.choices ?? []) {
    const scope = /^(?:allow|deny)_(\w+)$/.exec(c.value)?.[1]
    if (c.rule && scope) found.add(scope)
  }
  return [{ value: '', label: 'this time' }, ...[...found].map((value) => ({ value, label: scopeNames[value] ?? value }))]
}

/** The choice that approves or denies for a scope; undefined where it is for this time, or not offered. */
export function choiceFor(call: PendingCall, effect: 'allow' | 'deny', scope: string): string | undefined {
  return scope === '' ? undefined : call.choices?.find((c) => c.value === `${effect}_${scope}`)?.value
}

/** What a call wants to do, in one line: its command, address or file. */
export function targetOf(call: PendingCall): string {
  const a = call.arguments
  if (a === null || typeof a !== 'object') return ''
  for (const name of ['command', 'url', 'path']) {
    const value = (a as Record<string, unknown>)[name]
    if (typeof value === 'string' && value !== '') return value
  }
  return ''
}
