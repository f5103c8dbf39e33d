import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, logIn, prepare, startServer, test } from './harness'

test('a transcript of 10,000 messages and 100,000 sessions', async ({ page }) => {
  test.setTimeout(300_000)
  const dir = mkdtempSync(join(tmpdir(), 'holdfast-page-size-'))
  const file = join(dir, 'large.db')
  prepare('sessions', file, '100000')
  prepare('messages', file, 'long', '10000')
  const server = await startServer({}, [], `sqlite:${file}`)
  try {
    await logIn(page, server)
    await page.goto(`${server.url}/sessions`)
    const rows = page.getByRole('listitem')
    await expect(rows.first()).toBeVisible()
    const paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0)
    console.log(`100,000 sessions: first paint after ${Math.round(paint)} ms`)
    expect(paint).toBeGreaterThan(0)

    // However far one scrolls, a few dozen rows are in the document.
    const list = page.getByRole('list', { name: 'Sessions' })
    for (let i = 0; i < 8; i++) {
      await list.evaluate((box) => (box.scrollTop = box.scrollHeight))
      await expect(page.getByText(/shown/)).toContainText(new RegExp(`^${(200 * (i + 2)).toLocaleString('en')} `))
      expect(await rows.count()).toBeLessThan(60)
    }
    await page.getByRole('searchbox').fill('s0000042')
    await expect(rows.filter({ hasText: 'session 42' })).toBeVisible()

    await page.goto(`${server.url}/sessions/long`)
    await expect(page.getByText('answer number 9999')).toBeVisible()
    const transcript = page.getByRole('region', { name: 'Transcript' })
    // A call is folded, with its arguments and result, and numbers have all digits.
    await page.locator('summary').filter({ hasText: 'pay' }).click()
    await expect(page.getByLabel('Arguments of pay', { exact: true })).toContainText('9007199254740993')
    await expect(page.getByLabel('Result of pay', { exact: true })).toContainText('9007199254740993')
    await page.locator('summary').filter({ hasText: 'Reasoning' }).click()
    await expect(page.getByText('It has to be paid.').last()).toBeVisible()
    let seen = 9999
    for (let i = 0; i < 12; i++) {
      await transcript.evaluate((box) => (box.scrollTop = 0))
      await expect(async () => {
        const first = await transcript.locator('[data-row]').first().innerText()
        const number = Number(/number (\d+)/.exec(first)?.[1])
        expect(number).toBeLessThan(seen)
        seen = number
      }).toPass()
      expect(await transcript.locator('[data-row]').count()).toBeLessThanOrEqual(260)
    }
    await page.getByRole('button', { name: 'To the end' }).click()
    await expect(page.getByText('answer number 9999')).toBeInViewport()
  } finally {
    await page.close() // its stream must not break
    await server.end()
    rmSync(dir, { recursive: true, force: true })
  }
})
