// The items of one session as the server projects them. Nothing is folded here:
// the server says what happened to which item, and this keeps the result.
import { get, problemOf, type Item, type Problem } from './api'
import { stream, type EventData } from './stream.svelte'

type Change = { op: 'added' | 'grew' | 'updated' | 'finished' | 'withdrawn'; item: Item }

/** One item that may change. Its key never does. */
export class Row {
  item: Item = $state.raw() as Item
  /** Only said, by an answer that was given up. */
  dropped = $state(false)
  constructor(
    item: Item,
    readonly key: string,
  ) {
    this.item = item
  }
  /** What is not in the log yet may be lost. */
  get saved(): boolean {
    return (this.item.seq ?? 0) > 0
  }
}

const pageSize = 200

export class Transcript {
  rows = $state.raw<Row[]>([])
  loaded = $state(false)
  more = $state(false)
  loading = $state(false)
  total = $state(0)
  problem = $state.raw<Problem | undefined>(undefined)
  /** The last change of the log that is shown. */
  seq = $state(0)

  #byID = new Map<string, Row>()
  #leave: (() => void) | undefined
  #keys = 0
  #closed = false

  constructor(
    readonly id: string,
    readonly version = 0,
  ) {}

  /** Reads the newest items and then follows the session, unless a version was asked for. */
  async open(): Promise<void> {
    try {
      const page = await get('/v1/sessions/{ref}/items', { params: { ref: this.id }, query: { limit: pageSize, version: this.version || undefined } })
      if (this.#closed) return
      this.rows = (page.items ?? []).map((i) => this.#row(i))
      this.more = page.more ?? false
      this.total = page.total
      this.seq = page.seq
      this.loaded = true
      this.problem = undefined
    } catch (error) {
      this.problem = problemOf(error)
      return
    }
    if (this.version !== 0) return
    this.#leave = stream.follow({
      topic: () => `items:${this.id}:${this.seq}`,
      session: this.id,
      on: (event, data) => this.#on(event, data),
      opened: () => this.#forget(),
    })
  }

  close(): void {
    this.#closed = true
    this.#leave?.()
  }

  /** Reads the page before the first item. */
  async readMore(): Promise<void> {
    const first = this.rows.find((r) => r.saved)?.item.seq
    if (this.loading || !this.more || first === undefined) return
    this.loading = true
    try {
      const page = await get('/v1/sessions/{ref}/items', {
        params: { ref: this.id },
        query: { limit: pageSize, before: first, version: this.version || undefined },
      })
      if (this.#closed) return
      const older = (page.items ?? []).filter((i) => !this.#byID.has(i.id)).map((i) => this.#row(i))
      this.rows = [...older, ...this.rows]
      this.more = page.more ?? false
    } catch (error) {
      this.problem = problemOf(error)
    } finally {
      this.loading = false
    }
  }

  #row(item: Item): Row {
    const row = new Row(item, `${item.id}#${this.#keys++}`)
    this.#byID.set(item.id, row)
    return row
  }

  /** Drops what was only said before the stream broke: it comes again, or it is lost. */
  #forget(): void {
    for (const [id, row] of this.#byID) if (!row.saved) this.#byID.delete(id)
    this.rows = this.rows.filter((r) => r.saved)
  }

  #on(event: string, data: EventData): void {
    if (event === 'gone') this.problem = data.problem
    if (event !== 'items') return
    for (const change of (data.changes ?? []) as Change[]) this.#apply(change)
    if (data.seq !== undefined) this.seq = data.seq
  }

  #apply({ op, item }: Change): void {
    const row = this.#byID.get(item.id)
    switch (op) {
      case 'added':
        if (row) row.item = item
        else this.#add(item)
        break
      case 'grew':
        if (row) row.item = grown(row.item, item)
        break
      case 'updated':
      case 'finished':
        if (row) row.item = item
        else if (!this.#before(item)) this.#add(item)
        break
      case 'withdrawn':
        this.#byID.delete(item.id)
        if (row && !row.saved) row.dropped = true
        else this.rows = this.rows.filter((r) => r !== row)
        this.total--
        break
    }
  }

  /** Reports that an item lies before those that were read. */
  #before(item: Item): boolean {
    const first = this.rows.find((r) => r.saved)?.item.seq ?? 0
    return this.more && (item.seq ?? 0) !== 0 && (item.seq ?? 0) < first
  }

  #add(item: Item): void {
    if (this.#before(item)) return
    const row = this.#row(item)
    this.total++
    const seq = item.seq ?? 0
    // Records come in order, and an answer that is being given is always last.
    let at = this.rows.length
    while (seq > 0 && at > 0 && (!this.rows[at - 1]!.saved || (this.rows[at - 1]!.item.seq ?? 0) > seq) && !this.rows[at - 1]!.dropped) at--
    this.rows = this.rows.toSpliced(at, 0, row)
  }
}

/** Adds the text of a piece to an item. */
function grown(item: Item, piece: Item): Item {
  if (item.message) return { ...item, message: { ...item.message, text: item.message.text + (piece.message?.text ?? '') } }
  if (item.reasoning) return { ...item, reasoning: { ...item.reasoning, text: item.reasoning.text + (piece.reasoning?.text ?? '') } }
  return item
}

/** Where the last execution of a session stands: "" before the first. */
export function executionOf(rows: Row[]): { status: string; reason: string } {
  for (const row of rows.toReversed()) {
    const s = row.item.status
    if (s && /^(execution_(started|continued|waiting|finished)|transcript_cleared|session_rewound)$/.test(s.event))
      return { status: s.status ?? '', reason: s.message || s.reason || '' }
  }
  return { status: '', reason: '' }
}
