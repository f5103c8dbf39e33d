// One stream of events for the whole tab: browsers open six connections to a
// server, and a stream per thing would use them up.
import { base } from './router.svelte'
import { parseJSON } from './json'
import { ProblemError, problemOf, readResponse, type Problem } from './api'

/** What a part of the page follows. */
export type Subscription = {
  /** The topic as the server knows it; called at each opening, so that it can say how far it has come. */
  topic: () => string
  /** The session that it is about; undefined: all events without one. */
  session?: string
  on: (event: string, data: EventData) => void
  /** Whether it is followed also while nobody sees the page. */
  whileHidden?: () => boolean
  /** The stream was opened, again or for the first time: what was only said is void. */
  opened?: () => void
  /** The server refused to send it. */
  refused?: (problem: Problem) => void
}

export type EventData = Record<string, unknown> & { session?: string; seq?: number; problem?: Problem }

export type StreamState = 'idle' | 'connecting' | 'live' | 'lost' | 'paused'

/** Splits a text into server-sent events as it comes. */
export class EventParser {
  #rest = ''
  constructor(private readonly emit: (event: string, data: string) => void) {}

  push(text: string): void {
    const blocks = (this.#rest + text).replaceAll('\r\n', '\n').split('\n\n')
    this.#rest = blocks.pop() ?? ''
    for (const block of blocks) {
      let event = 'message'
      const data: string[] = []
      for (const line of block.split('\n')) {
        const colon = line.indexOf(':')
        if (colon <= 0) continue // a comment, or nothing
        const value = line.slice(colon + 1).replace(/^ /, '')
        if (line.startsWith('event:')) event = value
        else if (line.startsWith('data:')) data.push(value)
      }
      if (data.length > 0) this.emit(event, data.join('\n'))
    }
  }
}

class Stream {
  state = $state<StreamState>('idle')
  /** A person holds live updates; it stays so until they let go. */
  paused = $state(false)
  problem = $state.raw<Problem | undefined>(undefined)

  #subscriptions = new Set<Subscription>()
  #abort: AbortController | undefined
  #planned = false
  #retry: ReturnType<typeof setTimeout> | undefined
  #failures = 0

  constructor() {
    document.addEventListener('visibilitychange', () => this.#plan())
    addEventListener('online', () => this.#plan())
  }

  /** Follows something until the returned function is called. */
  follow(s: Subscription): () => void {
    this.#subscriptions.add(s)
    this.#plan()
    return () => {
      this.#subscriptions.delete(s)
      this.#plan()
    }
  }

  /** Holds live updates, or lets them go on where they were. */
  setPaused(paused: boolean): void {
    this.paused = paused
    this.#plan()
  }

  /** Opens the stream again soon: several changes at once are one. */
  #plan(): void {
    if (this.#planned) return
    this.#planned = true
    queueMicrotask(() => {
      this.#planned = false
      this.#restart()
    })
  }

  #restart(): void {
    clearTimeout(this.#retry)
    this.#abort?.abort()
    this.#abort = undefined
    if (this.paused) this.state = 'paused'
    else if (this.#subscriptions.size === 0 || (document.hidden && ![...this.#subscriptions].some((s) => s.whileHidden?.()))) this.state = 'idle'
    else void this.#run((this.#abort = new AbortController()).signal)
  }

  async #run(signal: AbortSignal): Promise<void> {
    if (this.state !== 'live') this.state = 'connecting'
    const followed = [...this.#subscriptions]
    try {
      const topics = [...new Set(followed.map((s) => s.topic()))].join(',')
      const response = await fetch(`${base}v1/events?topics=${encodeURIComponent(topics)}`, {
        headers: { Accept: 'text/event-stream' },
        signal,
        credentials: 'same-origin',
      })
      if (!response.ok || !response.body) await readResponse(response)
      this.state = 'live'
      this.problem = undefined
      this.#failures = 0
      for (const s of followed) s.opened?.()
      await this.#read(response.body!, followed, signal)
      if (!signal.aborted) throw new Error('the stream ended')
    } catch (error) {
      if (signal.aborted) return
      this.#lost(error, followed)
    }
  }

  async #read(body: ReadableStream<Uint8Array>, followed: Subscription[], signal: AbortSignal): Promise<void> {
    const parser = new EventParser((event, text) => {
      if (signal.aborted) return
      const data = parseJSON(text) as EventData
      for (const s of followed) if (this.#subscriptions.has(s) && (data.session === undefined || s.session === data.session)) s.on(event, data)
    })
    const decoder = new TextDecoder()
    const reader = body.getReader()
    for (;;) {
      const { done, value } = await reader.read()
      if (done || signal.aborted) return
      parser.push(decoder.decode(value, { stream: true }))
    }
  }

  #lost(error: unknown, followed: Subscription[]): void {
    this.state = 'lost'
    this.problem = problemOf(error)
    if (error instanceof ProblemError && [401, 403, 404, 422].includes(this.problem.status ?? 0)) {
      for (const s of followed) s.refused?.(this.problem)
      if (this.problem.status !== 404) return // asking again would not help
    }
    this.#failures++
    this.#retry = setTimeout(() => this.#restart(), Math.min(500 * 2 ** (this.#failures - 1), 5000))
  }
}

export const stream = new Stream()
