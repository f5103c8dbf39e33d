import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, expectAccessible, logIn, startServer, test, type Server } from './harness'
import { lastText, startModel } from './model'

// A server with an agent that asks another one, and a model that fails when it is told to.
let server: Server & { end: () => Promise<void> }
let end: () => Promise<void>
let broken = true
test.beforeAll(async () => {
  const dir = mkdtempSync(join(tmpdir(), 'holdfast-agents-'))
  const agents = join(dir, 'holdfast', 'agents')
  mkdirSync(agents, { recursive: true })
  writeFileSync(join(agents, 'boss.md'), '---\nname: boss\nlabel: The boss\nmodel: script/model\nsubagents: [librarian]\ntools: []\n---\nYou ask the librarian.\n')
  writeFileSync(join(agents, 'librarian.md'), '---\nname: librarian\nmodel: script/model\ntools: []\n---\nYou know every book.\n')
  const model = await startModel((asked) => {
    const text = lastText(asked)
    if (text.includes('break') && broken) return { status: 400, text: 'no such luck' }
    if (asked.messages.at(-1)?.role === 'tool') return { text: 'The librarian knew it.' }
    if (asked.tools?.some((t) => t.function.name === 'spawn_subagent')) return { calls: [{ name: 'spawn_subagent', arguments: { subagent: 'librarian', prompt: 'Where is it?' } }] }
    return { text: 'It is on shelf **seven**.' }
  })
  server = await startServer({ ...model.env, XDG_CONFIG_HOME: dir })
  end = async () => {
    await server.end()
    model.end()
    rmSync(dir, { recursive: true, force: true })
  }
})
test.afterAll(() => end())

test('a subagent is shown where it was called, with what each step used', async ({ page }) => {
  await logIn(page, server)
  await page.goto(`${server.url}/sessions`)
  await page.getByRole('button', { name: 'New session' }).click()
  await page.getByLabel('Agent').selectOption('boss')
  await page.getByRole('button', { name: 'Create', exact: true }).click()
  await page.getByLabel('Message', { exact: true }).fill('Where is the book?')
  await page.keyboard.press('Enter')
  await expect(page.getByText('The librarian knew it.').last()).toBeVisible()
  await expect(page.getByText('1,200 in · 80 out')).toHaveCount(2)
  const call = page.locator('details.call').filter({ hasText: 'spawn_subagent' })
  await expect(call).toContainText('Where is it?')
  await call.locator('summary').click()
  await expect(page.getByLabel('Result of spawn_subagent', { exact: true })).toContainText('shelf **seven**')
  await page.locator('details.child > summary').click()
  await expect(page.locator('details.child').getByRole('article', { name: 'Agent' })).toContainText('It is on shelf seven.')
  await expectAccessible(page)
  await page.locator('details.child a').first().click()
  await expect(page.getByText('subagent of')).toBeVisible()
})

test('an agent is tried, and the chat forked with another model', async ({ page }) => {
  await logIn(page, server)
  await page.goto(`${server.url}/catalogue`)
  await page.locator('.agent').filter({ hasText: 'librarian' }).last().getByRole('button', { name: 'Try it', exact: true }).click()
  await page.getByLabel('Message', { exact: true }).fill('Where is the atlas?')
  await page.keyboard.press('Enter')
  await expect(page.getByRole('article', { name: 'Agent' })).toContainText('It is on shelf seven.')
  await expect(page.getByText('script/model')).toBeVisible()
  await page.getByRole('navigation', { name: 'Parts of the session' }).getByRole('link', { name: 'Time travel' }).click()
  await page.getByRole('button', { name: 'Fork from here…' }).click()
  const dialog = page.getByRole('dialog')
  await expect(dialog.getByLabel('Model')).toHaveValue('script/model')
  await dialog.getByLabel('Model').selectOption('offline/echo')
  await dialog.getByLabel('Name').fill('by the other model')
  await dialog.getByRole('button', { name: 'Fork', exact: true }).click()
  await expect(page.getByRole('heading', { name: 'by the other model' })).toBeVisible()
  await expect(page.getByRole('article', { name: 'Agent' })).toContainText('You said: Where is the atlas?')
})

test('a turn that failed says why, and is run again', async ({ page }) => {
  await logIn(page, server)
  const { sessionId } = await server.call<{ sessionId: string }>('POST', '/v1/sessions', { agent: 'librarian', name: 'breaks' })
  await page.goto(`${server.url}/sessions/${sessionId}`)
  await page.getByLabel('Message', { exact: true }).fill('break')
  await page.keyboard.press('Enter')
  await expect(page.getByText('no such luck').first()).toBeVisible()
  broken = false
  await page.getByRole('button', { name: 'Retry', exact: true }).click()
  await expect(page.getByRole('article', { name: 'Agent' })).toContainText('shelf seven')
  await expect(page.getByRole('button', { name: 'Retry', exact: true })).toHaveCount(0)
})
