// Every screen of the page, in one place. A screen is one file; it gets the
// values of its path as properties. The first route that matches counts.
import type { Component } from 'svelte'
import type { Session as Header } from './lib/api'
import Catalogue from './screens/Catalogue.svelte'
import Cost from './screens/Cost.svelte'
import Differences from './screens/Differences.svelte'
import Forks from './screens/Forks.svelte'
import Log from './screens/Log.svelte'
import Run from './screens/Run.svelte'
import Memory from './screens/Memory.svelte'
import Session from './screens/Session.svelte'
import Sessions from './screens/Sessions.svelte'
import TimeTravel from './screens/TimeTravel.svelte'
import Task from './screens/Task.svelte'
import Waiting from './screens/Waiting.svelte'
import Work from './screens/Work.svelte'

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
  { path: '/cost', screen: screen(Cost), title: 'Cost', nav: { label: 'Cost', keys: 'g c' } },
  { path: '/work', screen: screen(Work), title: 'Nodes and work', nav: { label: 'Nodes', keys: 'g n' } },
  { path: '/catalogue', screen: screen(Catalogue), title: 'Agents and keys', nav: { label: 'Agents and keys', keys: 'g a' } },
  { path: '/sessions/:ref', screen: screen(Session), title: 'Session', tab: 'Transcript' },
  { path: '/sessions/:ref/run', screen: screen(Run), title: 'Run', tab: 'Run', kind: 'workflow' },
  { path: '/sessions/:ref/task', screen: screen(Task), title: 'Task', tab: 'Task', kind: 'task' },
  { path: '/sessions/:ref/history', screen: screen(TimeTravel), title: 'Time travel', tab: 'Time travel' },
  { path: '/sessions/:ref/log', screen: screen(Log), title: 'Log', tab: 'Log' },
  { path: '/sessions/:ref/diff', screen: screen(Differences), title: 'Differences', tab: 'Differences' },
  { path: '/sessions/:ref/forks', screen: screen(Forks), title: 'Forks', tab: 'Forks' },
  { path: '/sessions/:ref/memory', screen: screen(Memory), title: 'Memory', tab: 'Memory' },
]

/** The address of the screen that a list opens: the tab of its kind, or its transcript. */
export function homePath(s: Header): string {
  return sessionPath(s.sessionId, routes.find((r) => r.kind === s.kind)?.path.replace('/sessions/:ref', ''))
}

/** The address of a session, or of one of its tabs. */
export function sessionPath(ref: string, tab = ''): string {
  return `/sessions/${encodeURIComponent(ref)}${tab}`
}
