// The one place that says what the status of a session is and how it looks.
import type { Session } from './api'

/** The status to show: of its task or its run where it is one, else its own. */
export function statusOf(s: Session): string {
  if (s.status === 'deleted') return 'deleted'
  return s.task?.status || s.workflow?.status || s.status
}

export type Tone = 'plain' | 'busy' | 'good' | 'wait' | 'bad'

const tones: Record<string, Tone> = {
  active: 'plain',
  suspended: 'wait',
  completed: 'good',
  complete: 'good',
  partial: 'wait',
  failed: 'bad',
  deleted: 'plain',
  running: 'busy',
  in_progress: 'busy',
  executing: 'busy',
  planning: 'busy',
  paused: 'wait',
  blocked: 'wait',
  waiting: 'wait',
  awaiting_approval: 'wait',
  awaiting_user_input: 'wait',
  interrupted: 'wait',
  stopped: 'wait',
  cancelled: 'plain',
  done: 'good',
  finished: 'good',
  called: 'busy',
  streaming: 'busy',
}

export function toneOf(status: string): Tone {
  return tones[status] ?? 'plain'
}

/** A title for a session that has no name. */
export function titleOf(s: Session): string {
  return s.name || s.task?.title || s.workflow?.name || s.agentLabel || s.agentName || s.sessionId
}
