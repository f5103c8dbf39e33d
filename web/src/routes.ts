// Every screen of the page, in one place. A screen is one file; it gets the
// values of its path as properties. The first route that matches counts.
import type { Component } from 'svelte'
import Differences from './screens/Differences.svelte'
import Forks from './screens/Forks.svelte'
import Log from './screens/Log.svelte'
import Run from './screens/Run.svelte'
import Session from './screens/Session.svelte'
import Sessions from './screens/Sessions.svelte'
import TimeTravel from './screens/TimeTravel.svelte'
import Task from './screens/Task.svelte'
import Waiting from './screens/Waiting.svelte'

export type Route = {
  path: string
  screen: Component<Record<string, string>>
  title: string
  /** In the navigation, with the keys that go there. */
  nav?: { label: string; keys: string }
  /** A part of a session's screens, shown as a tab. */
  tab?: string
  /** Of sessions of this kind alone. */
  kind?: 'task' | 'workflow'
}

const screen = (component: unknown): Route['screen'] => component as Route['screen']

export const routes: Route[] = [
  { path: '/', screen: screen(Sessions), title: 'Sessions' },
  { path: '/sessions', screen: screen(Sessions), title: 'Sessions', nav: { label: 'Sessions', keys: 'g s' } },
  { path: '/waiting', screen: screen(Waiting), title: 'Waiting for you', nav: { label: 'Waiting for you', keys: 'g w' } },
  { path: '/sessions/:ref', screen: screen(Session), title: 'Session', tab: 'Transcript' },
  { path: '/sessions/:ref/run', screen: screen(Run), title: 'Run', tab: 'Run', kind: 'workflow' },
  { path: '/sessions/:ref/task', screen: screen(Task), title: 'Task', tab: 'Task', kind: 'task' },
  { path: '/sessions/:ref/history', screen: screen(TimeTravel), title: 'Time travel', tab: 'Time travel' },
  { path: '/sessions/:ref/log', screen: screen(Log), title: 'Log', tab: 'Log' },
  { path: '/sessions/:ref/diff', screen: screen(Differences), title: 'Differences', tab: 'Differences' },
  { path: '/sessions/:ref/forks', screen: screen(Forks), title: 'Forks', tab: 'Forks' },
]

/** The address of a session, or of one of its tabs. */
export function sessionPath(ref: string, tab = ''): string {
  return `/sessions/${encodeURIComponent(ref)}${tab}`
}
