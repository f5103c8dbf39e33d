import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

// Builds the program once, unless HOLDFAST_BIN names one.
export default function setup(): (() => void) | void {
  if (process.env.HOLDFAST_BIN) return
  const dir = mkdtempSync(join(tmpdir(), 'holdfast-bin-'))
  process.env.HOLDFAST_BIN = join(dir, 'holdfast')
  execFileSync('go', ['build', '-o', process.env.HOLDFAST_BIN, './cmd/holdfast'], { cwd: join(import.meta.dirname, '..', '..'), stdio: 'inherit' })
  return () => rmSync(dir, { recursive: true, force: true })
}
