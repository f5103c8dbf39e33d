// Everything that waits for a person, of all sessions. It is read again when a
// session changes that has, or had, such a call.
import { get, problemOf, type Problem, type Session } from './api'
import { targetOf, type Waiting } from './pending'
import { go } from './router.svelte'
import { titleOf } from './status'
import { stream } from './stream.svelte'

const pageSize = 50 // sessions
const most = 1000
const place = 'holdfast-notify'

class Inbox {
  calls = $state.raw<Waiting[]>([])
  more = $state(false)
  loaded = $state(false)
  problem = $state.raw<Problem | undefined>(undefined)
  /** A person wants to be told by the browser, also while the page is hidden. */
  notify = $state(false)

  #size = pageSize
  #readers = 0
  #leave: (() => void) | undefined
  #planned: ReturnType<typeof setTimeout> | undefined
  #seen: Set<string> | undefined

  constructor() {
    try {
      this.notify = localStorage.getItem(place) === 'yes' && 'Notification' in window && Notification.permission === 'granted'
    } catch {
      // A browser that keeps nothing is asked again.
    }
  }

  /** Follows what waits until the returned function is called. */
  follow(): () => void {
    if (this.#readers++ === 0) {
      void this.load()
      this.#leave = stream.follow({
        topic: () => 'sessions',
        whileHidden: () => this.notify,
        on: (event, data) => {
          const s = data as unknown as Session
          if (event === 'session' && ((s.pending ?? 0) > 0 || this.calls.some((c) => c.session.sessionId === s.sessionId))) this.#plan()
        },
        opened: () => this.#plan(),
      })
    }
    return () => {
      if (--this.#readers > 0) return
      this.#leave?.()
      clearTimeout(this.#planned)
      this.#planned = undefined
    }
  }

  /** Reads what waits. Who asked first comes first. */
  async load(): Promise<void> {
    try {
      const page = await get('/v1/pending', { query: { limit: this.#size } })
      this.calls = (page.items ?? []).toSorted((a, b) => a.askedAt.localeCompare(b.askedAt))
      this.more = page.next !== undefined && page.next !== '' && this.#size < most
      this.loaded = true
      this.problem = undefined
      this.#tell()
    } catch (error) {
      this.problem = problemOf(error)
    }
  }

  readMore(): void {
    this.#size = Math.min(most, this.#size * 4)
    void this.load()
  }

  /** Asks the browser for the permission to notify, or stops it. */
  async setNotify(on: boolean): Promise<boolean> {
    this.notify = on && 'Notification' in window && (await Notification.requestPermission()) === 'granted'
    try {
      localStorage.setItem(place, this.notify ? 'yes' : 'no')
    } catch {
      // It holds until the page is closed.
    }
    return this.notify
  }

  #plan(): void {
    this.#planned ??= setTimeout(() => {
      this.#planned = undefined
      void this.load()
    }, 200)
  }

  /** Notifies of calls that were not there before. */
  #tell(): void {
    const before = this.#seen
    this.#seen = new Set(this.calls.map((c) => c.id))
    if (!this.notify || before === undefined) return
    for (const c of this.calls) {
      if (before.has(c.id)) continue
      const n = new Notification(`${titleOf(c.session)} waits for you`, { body: (c.kind === 'approval' ? `${c.tool ?? ''} ${targetOf(c)}` : (c.prompt ?? '')).slice(0, 200), tag: c.id })
      n.onclick = () => {
        window.focus()
        go('/waiting')
        n.close()
      }
    }
  }
}

export const inbox = new Inbox()
