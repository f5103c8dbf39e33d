// Keys. A screen adds its own while it is shown; "?" lists all of them.
import { untrack } from 'svelte'

export type Shortcut = { keys: string; does: string; run: (event: KeyboardEvent) => void }

class Shortcuts {
  all = $state.raw<Shortcut[]>([])
  #first = ''
  #firstAt = 0

  /** Adds keys until the returned function is called. Keys are one key, or two with a space between them: "g s". */
  add(list: Shortcut[]): () => void {
    // Who adds keys in an effect does not depend on those of others.
    this.all = [...untrack(() => this.all), ...list]
    return () => {
      this.all = untrack(() => this.all).filter((s) => !list.includes(s))
    }
  }

  /** Runs what a key stands for, unless somebody is writing. */
  handle(event: KeyboardEvent): void {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return
    const target = event.target
    if (target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))) return
    if (document.querySelector('dialog[open]')) return
    const first = event.timeStamp - this.#firstAt < 1500 ? this.#first : ''
    this.#first = ''
    const pressed = first === '' ? event.key : `${first} ${event.key}`
    const found = this.all.findLast((s) => s.keys === pressed)
    if (found) {
      event.preventDefault()
      found.run(event)
    } else if (this.all.some((s) => s.keys.startsWith(`${event.key} `))) {
      this.#first = event.key
      this.#firstAt = event.timeStamp
    }
  }
}

export const shortcuts = new Shortcuts()
