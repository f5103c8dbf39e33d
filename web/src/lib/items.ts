// What the items of a session say, in words.
import type { Item } from './api'

type Status = NonNullable<Item['status']>

const failures = (s: Status): string => (s.errors ?? []).map((e) => e.message).join('; ')

/** Says what a change of status means; "" where there is nothing to say. */
export function statusText(s: Status): string {
  switch (s.event) {
    case 'session_created':
      return 'Session created'
    case 'session_forked':
      return `Forked at version ${s.version ?? ''}`
    case 'session_imported':
      return `Imported${s.name ? ` from ${s.name}` : ''}`
    case 'session_rewound':
      return `Rewound to version ${s.version ?? ''}`
    case 'transcript_cleared':
      return 'Transcript cleared'
    case 'tail_discarded':
      return 'What was written without being saved as a version was discarded'
    case 'status_changed':
      return `Session is ${s.status ?? ''}${s.reason ? `: ${s.reason}` : ''}`
    case 'execution_continued':
      return 'Continued after an interruption'
    case 'execution_waiting':
      return 'Waiting for a response'
    case 'inference_failed':
      return `The model failed: ${failures(s)}`
    case 'window_moved':
      return `Earlier messages left the model's window${s.strategy ? ` (${s.strategy})` : ''}`
    case 'execution_finished':
      if (s.status === 'completed') return ''
      return `The turn ${s.status ?? 'ended'}${s.message || s.reason ? `: ${s.message || s.reason}` : ''}${failures(s) ? ` – ${failures(s)}` : ''}`
    case 'execution_started':
      return ''
  }
  const words = s.event.replaceAll('_', ' ')
  return [words.charAt(0).toUpperCase() + words.slice(1), s.name, s.status, s.message || s.reason, failures(s)].filter(Boolean).join(' · ')
}

/** Reports that something failed. */
export function isFailure(s: Status): boolean {
  return s.event === 'inference_failed' || (s.errors ?? []).length > 0 || s.status === 'failed'
}

/** Reports whether an item is shown in a transcript. */
export function isShown(i: Item): boolean {
  return i.status === undefined || statusText(i.status) !== ''
}

/** The parts of a message that are not text. */
export type Part = { type: string; text?: string; url?: string; data?: string; mediaType?: string; name?: string }

export function attachmentsOf(content: unknown): Part[] {
  return Array.isArray(content) ? (content as Part[]).filter((p) => p.type !== 'text' && p.type !== 'reasoning') : []
}
