// Short notices: that something was done, or why it was not.
import { problemOf, type Problem } from './api'

export type Notice = { id: number; text: string; problem?: Problem }

class Notices {
  all = $state.raw<Notice[]>([])
  #last = 0

  /** Says that something was done. It goes away by itself. */
  say(text: string): void {
    const id = this.#add({ text })
    setTimeout(() => this.close(id), 6000)
  }

  /** Shows why something failed, until it is closed. */
  fail(error: unknown): void {
    const problem = problemOf(error)
    this.#add({ text: problem.detail || problem.title || 'it failed', problem })
  }

  close(id: number): void {
    this.all = this.all.filter((n) => n.id !== id)
  }

  #add(n: Omit<Notice, 'id'>): number {
    const id = ++this.#last
    this.all = [...this.all, { ...n, id }]
    return id
  }
}

export const notices = new Notices()
