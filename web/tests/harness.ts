// Runs the real program on a real store, and gives each test a page that fails
// on any error in the console.
import { AxeBuilder } from '@axe-core/playwright'
import { test as base, expect, type Page, type TestInfo } from '@playwright/test'
import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** How long anything may take on a slow machine. */
export const patience = 30_000

/** One process of the program. */
export class Node {
  url = ''
  #process: ChildProcess | undefined

  constructor(
    private readonly store: string,
    public env: Record<string, string> = {},
    private readonly flags: string[] = [],
    private listen = '127.0.0.1:0',
  ) {}

  /** Starts the process, the next time on the same port. */
  async start(): Promise<void> {
    const child = spawn(process.env.HOLDFAST_BIN!, ['serve', '--listen', this.listen, '--store', this.store, '--quiet', ...this.flags], {
      env: { PATH: process.env.PATH, HOME: process.env.HOME, HOLDFAST_OFFLINE_PACE: '0s', HOLDFAST_NO_TITLES: '1', ...this.env },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    this.#process = child
    let said = ''
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`the server did not start: ${said}`)), patience)
      child.on('exit', (code) => reject(new Error(`the server ended with ${code}: ${said}`)))
      child.stderr!.on('data', (chunk: Buffer) => {
        said += chunk.toString()
        const listening = /listening on (http:\/\/(127\.0\.0\.1:\d+))/.exec(said)
        if (!listening) return
        clearTimeout(late)
        this.url = listening[1]!
        this.listen = listening[2]!
        resolve()
      })
    })
  }

  /** Ends the process in the middle of whatever it does. */
  async kill(): Promise<void> {
    const child = this.#process
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    child.removeAllListeners('exit')
    await new Promise((resolve) => {
      child.once('exit', resolve)
      child.kill('SIGKILL')
    })
  }
}

export type Server = {
  node: Node
  url: string
  key: string
  store: string
  /** Sends a request to the API. */
  call: <T = Record<string, unknown>>(method: string, path: string, body?: unknown, headers?: Record<string, string>) => Promise<T>
}

/** Returns a new database where the project is PostgreSQL; "" stands for a new SQLite file. */
export function newStore(info: Pick<TestInfo, 'project'>): string {
  if (info.project.name !== 'postgres') return ''
  return execFileSync(process.env.HOLDFAST_PAGETEST!, ['database', process.env.HOLDFAST_PAGE_POSTGRES!]).toString().trim()
}

/** Starts a server on a store of its own. */
export async function startServer(env: Record<string, string> = {}, flags: string[] = [], store = ''): Promise<Server & { end: () => Promise<void> }> {
  const dir = mkdtempSync(join(tmpdir(), 'holdfast-page-'))
  const url = store || `sqlite:${join(dir, 'page.db')}`
  const node = new Node(url, env, flags)
  await node.start()
  // The first key is shown once, and a store may have been used before.
  const key = execFileSync(process.env.HOLDFAST_BIN!, ['keys', 'create', '--scope', 'admin', '--store', url], { stdio: ['ignore', 'pipe', 'ignore'] }).toString().trim()
  const call: Server['call'] = async (method, path, body, headers = {}) => {
    const response = await fetch(node.url + path, {
      method,
      headers: { Authorization: `Bearer ${key}`, ...(body === undefined ? {} : { 'Content-Type': 'application/json' }), ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`)
    return (text === '' ? undefined : JSON.parse(text)) as never
  }
  return {
    node,
    get url() {
      return node.url
    },
    key,
    store: url,
    call,
    end: async () => {
      await node.kill()
      rmSync(dir, { recursive: true, force: true })
    },
  }
}

/** Prepares something with the program of internal/pagetest. */
export function prepare(...args: string[]): void {
  execFileSync(process.env.HOLDFAST_PAGETEST!, args, { stdio: 'inherit' })
}

/** Logs a page in. */
export async function logIn(page: Page, server: Server): Promise<void> {
  const response = await page.context().request.post(`${server.url}/login`, { form: { key: server.key }, maxRedirects: 0 })
  expect([204, 303]).toContain(response.status())
}

/** Fails where the page is wider than the window: at 200 % of a window of 1280 pixels everything is reached by scrolling down. */
export async function expectFits(page: Page): Promise<void> {
  const wide = await page.evaluate(() =>
    [...document.querySelectorAll('html, main, main *')]
      .filter((e) => e.scrollWidth > e.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(e).overflowX) && e.getAttribute('role') === null && e.tagName !== 'PRE')
      .map((e) => `${e.tagName}.${e.className}: ${e.scrollWidth} > ${e.clientWidth}`),
  )
  expect(wide).toEqual([])
  expect(await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)).toBeLessThanOrEqual(0)
  // What can be pressed lies inside the window when it is scrolled to, unless it is in a box that scrolls by itself.
  const hidden = await page.evaluate(() =>
    [...document.querySelectorAll<HTMLElement>('a[href], button, input, select, textarea, summary')]
      .filter((e) => e.checkVisibility() && !e.closest('svg, [role=group][tabindex], .skip, pre'))
      .filter((e) => {
        e.scrollIntoView({ block: 'center' })
        const box = e.getBoundingClientRect()
        return box.left < -1 || box.right > window.innerWidth + 1 || box.top < -1 || box.bottom > window.innerHeight + 1
      })
      .map((e) => e.outerHTML.slice(0, 120)),
  )
  expect(hidden).toEqual([])
}

/** Fails where something is wrong for people who do not see, hear or point well (WCAG 2.2 AA). */
export async function expectAccessible(page: Page): Promise<void> {
  const found = await new AxeBuilder({ page: page as never }).withTags(['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa', 'best-practice']).analyze()
  expect(found.violations.map((v) => `${v.id}: ${v.nodes.map((n) => `${n.target.join(' ')} ${n.html.slice(0, 100)}`).join(' | ')}`)).toEqual([])
}

export const test = base.extend<{ server: Server; quiet: string[] }, { shared: Server }>({
  shared: [
    async ({}, use, info) => {
      const server = await startServer({}, [], newStore(info))
      await use(server)
      await server.end()
    },
    { scope: 'worker' },
  ],
  server: async ({ shared }, use) => use(shared),
  /** What the page may say in the console without failing the test, such as a connection that is refused. */
  quiet: [[], { option: true }],
  page: async ({ page, quiet }, use) => {
    const errors: string[] = []
    page.on('console', (m) => m.type() === 'error' && errors.push(m.text()))
    page.on('pageerror', (e) => errors.push(String(e)))
    await use(page)
    expect(errors.filter((e) => !quiet.some((q) => e.includes(q)))).toEqual([])
  },
})

export { expect }
