import { execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const root = join(import.meta.dirname, '..', '..')

// Builds the programs once, unless they are named, and starts a PostgreSQL
// server. A machine without one says so with HOLDFAST_PAGE_NO_POSTGRES=1,
// which CI never does.
export default async function setup(): Promise<() => Promise<void>> {
  const dir = mkdtempSync(join(tmpdir(), 'holdfast-page-setup-'))
  process.env.HOLDFAST_BIN ||= build(dir, 'holdfast', './cmd/holdfast')
  process.env.HOLDFAST_PAGETEST ||= build(dir, 'pagetest', './internal/pagetest')
  const remove = (): void => rmSync(dir, { recursive: true, force: true })
  if (process.env.HOLDFAST_PAGE_NO_POSTGRES) {
    if (process.env.CI) throw new Error('CI tests the page on PostgreSQL too: HOLDFAST_PAGE_NO_POSTGRES must not be set')
    return async () => remove()
  }
  const postgres = spawn(process.env.HOLDFAST_PAGETEST, ['postgres', tmpdir()], { stdio: ['pipe', 'pipe', 'inherit'] })
  const ended = new Promise<void>((resolve) => postgres.once('exit', () => resolve()))
  process.env.HOLDFAST_PAGE_POSTGRES = await new Promise<string>((resolve, reject) => {
    postgres.stdout.once('data', (chunk: Buffer) => resolve(chunk.toString().trim()))
    postgres.once('exit', (code) => reject(new Error(`PostgreSQL did not start (${code}); without one, set HOLDFAST_PAGE_NO_POSTGRES=1`)))
  })
  return async () => {
    postgres.stdin.end()
    await ended
    remove()
  }
}

function build(dir: string, name: string, folder: string): string {
  execFileSync('go', ['build', '-o', join(dir, name), folder], { cwd: root, stdio: 'inherit' })
  return join(dir, name)
}
