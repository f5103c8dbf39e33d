// The one place that talks to the server, apart from the stream.
import type { components, paths } from '../api-types'
import { base } from './router.svelte'
import { formatJSON, parseJSON } from './json'

export type Schemas = components['schemas']
export type Session = Schemas['Session']
export type Item = Schemas['Item']
export type Problem = Schemas['Problem']
export type PendingCall = Schemas['PendingCall']

/** A request as the API has it. It can be sent, and shown as a line for curl. */
export type Request<P extends keyof paths = keyof paths> = {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  path: P
  params?: Record<string, string | number>
  query?: Query
  body?: unknown
  headers?: Record<string, string>
}

export type Query = Record<string, string | number | boolean | string[] | undefined>

type Content<R> = R extends { content: { 'application/json': infer T } } ? T : never
type Responses<P extends keyof paths, M extends string> = paths[P] extends { [K in M]: { responses: infer R } } ? R : never
type Success<R> = Content<R[keyof R & (200 | 201 | 202)]>
/** What a route answers with. */
export type Answer<P extends keyof paths, M extends string = 'get'> = Success<Responses<P, M>>

/** A request that failed: the problem that the server sent, or that none was reached. */
export class ProblemError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail || problem.title || `the server answered with status ${problem.status}`)
  }
  get code(): string {
    return this.problem.code ?? ''
  }
}

/** Turns anything that was thrown into a problem to show. */
export function problemOf(error: unknown): Problem {
  if (error instanceof ProblemError) return error.problem
  return unreachable(error instanceof Error ? error.message : String(error))
}

function unreachable(detail: string): Problem {
  return { status: 0, code: 'unreachable', title: 'The server cannot be reached', detail } as Problem
}

/** Returns the path of a request, below the prefix. */
export function pathOf(r: Request): string {
  let path: string = r.path
  for (const [name, value] of Object.entries(r.params ?? {})) path = path.replace(`{${name}}`, encodeURIComponent(value))
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(r.query ?? {})) {
    if (value === undefined || value === '') continue
    for (const one of Array.isArray(value) ? value : [value]) query.append(name, String(one))
  }
  const text = query.toString()
  return text === '' ? path : `${path}?${text}`
}

/** Sends a request and returns what the server answered, or throws a ProblemError. */
export async function send<T = unknown>(r: Request, signal?: AbortSignal): Promise<T> {
  const headers = new Headers(r.headers)
  headers.set('Accept', 'application/json')
  if (r.method !== 'GET' && !headers.has('Idempotency-Key')) headers.set('Idempotency-Key', newKey())
  if (r.body !== undefined) headers.set('Content-Type', 'application/json')
  let response: Response
  try {
    response = await fetch(base + pathOf(r).slice(1), {
      method: r.method,
      headers,
      body: r.body === undefined ? undefined : JSON.stringify(r.body),
      signal,
      credentials: 'same-origin',
    })
  } catch (error) {
    if (signal?.aborted) throw error
    throw new ProblemError(unreachable('It may have ended, or the network is down. What was saved is safe; try again.'))
  }
  return readResponse<T>(response)
}

/** Reads a response, and throws its problem if it is one. */
export async function readResponse<T>(response: Response): Promise<T> {
  const text = await response.text()
  let value: unknown
  try {
    value = text === '' ? undefined : parseJSON(text)
  } catch {
    value = undefined
  }
  if (response.ok) return value as T
  const problem = (value ?? { title: response.statusText, detail: text.slice(0, 500) }) as Problem
  throw new ProblemError({ ...problem, status: response.status } as Problem)
}

/** Reads a route. */
export function get<P extends keyof paths>(
  path: P,
  options: { params?: Record<string, string | number>; query?: Query; signal?: AbortSignal } = {},
): Promise<Answer<P>> {
  return send<Answer<P>>({ method: 'GET', path, params: options.params, query: options.query }, options.signal)
}

/** Returns an idempotency key: the same request sent twice acts once. */
export function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  return Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('')
}

/** Puts a text between quotes for a shell, if it needs them. */
export function shellQuote(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}

/** Returns the line for curl that does the same. */
export function curlLine(r: Request): string {
  const parts = ['curl', '-s']
  if (r.method !== 'GET' && !(r.method === 'POST' && r.body !== undefined)) parts.push('-X', r.method)
  parts.push(shellQuote(location.origin + base.slice(0, -1) + pathOf(r)), '-H', '"Authorization: Bearer $KEY"')
  for (const [name, value] of Object.entries(r.headers ?? {})) parts.push('-H', shellQuote(`${name}: ${value}`))
  if (r.body !== undefined) parts.push('--json', shellQuote(formatJSON(r.body).replace(/\n\s*/g, ' ')))
  return parts.join(' ')
}
