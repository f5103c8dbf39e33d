// Runs every test with the program of this repository. A file without a test
// that passed, and a test that was skipped, are failures.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { run } from 'node:test'
import { spec } from 'node:test/reporters'

const here = import.meta.dirname
const dir = mkdtempSync(join(tmpdir(), 'holdfast-clients-build-'))
process.on('exit', () => rmSync(dir, { recursive: true, force: true }))
if (!process.env.HOLDFAST_BIN) {
  process.env.HOLDFAST_BIN = join(dir, 'holdfast')
  execFileSync('go', ['build', '-o', process.env.HOLDFAST_BIN, './cmd/holdfast'], { cwd: join(here, '..'), stdio: 'inherit' })
}

const wanted = process.argv.slice(2)
const files = readdirSync(here).filter((f) => f.endsWith('.test.js') && (wanted.length === 0 || wanted.includes(f)))
const passed = new Set()
const gaps = []
const events = run({ files: files.map((f) => join(here, f)), concurrency: 1, timeout: 600_000 })
events.on('test:fail', () => (process.exitCode = 1))
events.on('test:pass', (t) => {
  if (t.skip !== undefined || t.todo !== undefined) gaps.push(`${t.name} was skipped`)
  else if (t.details?.type !== 'suite' && t.file) passed.add(basename(t.file))
})
events.on('end', () => {
  for (const f of files) if (!passed.has(f)) gaps.push(`${f} ran no test`)
  for (const gap of gaps) console.error(gap)
  if (gaps.length > 0) process.exitCode = 1
})
events.compose(spec).pipe(process.stdout)
