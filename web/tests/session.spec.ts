import { expect, logIn, startServer, test, type Server } from './harness'

const lost = ['ERR_CONNECTION_REFUSED', 'ERR_INCOMPLETE_CHUNKED_ENCODING', 'ERR_CONNECTION_RESET', 'ERR_EMPTY_RESPONSE', 'ERR_NETWORK']
const long = Array.from({ length: 40 }, (_, i) => `word${i}`).join(' ')

async function newSession(server: Server, name: string): Promise<string> {
  return (await server.call<{ sessionId: string }>('POST', '/v1/sessions', { definition: { name: 'echo' }, name })).sessionId
}

test('two tabs see the same session @stores', async ({ page, server, context }) => {
  await logIn(page, server)
  const id = await newSession(server, 'two tabs')
  const other = await context.newPage()
  for (const tab of [page, other]) await tab.goto(`${server.url}/sessions/${id}`)
  await other.bringToFront()
  await expect(other.getByText('Nothing was said yet').or(other.getByText('Session created')).first()).toBeVisible()
  await page.getByLabel('Message', { exact: true }).fill('from the first tab')
  await page.keyboard.press('Enter')
  for (const tab of [page, other]) await expect(tab.getByRole('article', { name: 'Agent' })).toContainText('You said: from the first tab')
  await other.getByLabel('Message', { exact: true }).fill('from the second tab')
  await other.keyboard.press('Enter')
  for (const tab of [page, other]) await expect(tab.getByRole('article', { name: 'Agent' })).toHaveCount(2)
  await other.close()
})

test.describe('a node that is killed', () => {
  test.use({ quiet: lost })

  test('shows what was saved, and the answer when it goes on @stores', async ({ page, server }) => {
    await server.node.kill()
    server.node.env.HOLDFAST_OFFLINE_PACE = '1500ms'
    await server.node.start()
    await logIn(page, server)
    const id = await newSession(server, 'killed')
    await page.goto(`${server.url}/sessions/${id}`)
    await page.getByLabel('Message', { exact: true }).fill(long)
    await page.keyboard.press('Enter')
    // Words that are only said are dashed.
    const said = page.getByRole('article', { name: 'Agent, not saved yet' })
    await expect(said).toContainText('You said: word0')
    await expect(page.locator('.unsaved')).toHaveCount(1)
    await server.node.kill()
    await expect(page.getByRole('button', { name: /Connection lost|Connecting/ })).toBeVisible()
    server.node.env.HOLDFAST_OFFLINE_PACE = '0s'
    await server.node.start()
    await expect(page.getByRole('button', { name: 'Live' })).toBeVisible()
    await expect(page.getByRole('article', { name: 'You' })).toContainText('word39')
    // Another process takes it up when the lease of the dead one is over.
    await expect(page.getByRole('article', { name: 'Agent', exact: true })).toContainText('word39', { timeout: 60_000 })
    await expect(page.locator('.unsaved')).toHaveCount(0)
  })

  test('leaves a turn that a person continues or abandons', async ({ page }) => {
    const server = await startServer({ HOLDFAST_OFFLINE_PACE: '5s' }, ['--no-work'])
    try {
      const ids = [await newSession(server, 'to continue'), await newSession(server, 'to abandon')]
      for (const id of ids) await server.call('POST', `/v1/sessions/${id}/messages`, { text: long }, { Prefer: 'respond-async' })
      await server.node.kill()
      server.node.env.HOLDFAST_OFFLINE_PACE = '0s'
      await server.node.start()
      await logIn(page, server)
      await page.goto(`${server.url}/sessions/${ids[0]}`)
      await expect(page.getByText('Nobody works on it')).toBeVisible({ timeout: 60_000 })
      await page.getByRole('button', { name: 'Continue', exact: true }).click()
      await expect(page.getByRole('article', { name: 'Agent', exact: true })).toContainText('word39')
      await page.goto(`${server.url}/sessions/${ids[1]}`)
      await page.getByRole('button', { name: 'Abandon', exact: true }).click()
      await page.getByRole('dialog').getByRole('button', { name: 'Abandon' }).click()
      await expect(page.getByText('The turn stopped').or(page.getByText('The turn failed')).first()).toBeVisible()
      await expect(page.getByRole('button', { name: 'Retry', exact: true })).toBeVisible()
    } finally {
      await page.close() // its stream must not break
      await server.end()
    }
  })
})

test('a turn is cancelled, and a message waits for it', async ({ page }) => {
  const server = await startServer({ HOLDFAST_OFFLINE_PACE: '5s' })
  try {
    await logIn(page, server)
    const id = await newSession(server, 'busy')
    await page.goto(`${server.url}/sessions/${id}`)
    await page.getByLabel('Message', { exact: true }).fill(long)
    await page.keyboard.press('Enter')
    await expect(page.getByText('The agent is working')).toBeVisible()
    await page.getByLabel('Message', { exact: true }).fill('and this')
    await page.keyboard.press('Enter')
    await expect(page.getByText('waits in the inbox')).toBeVisible()
    await page.getByRole('button', { name: 'Cancel', exact: true }).click()
    await expect(page.getByText('The turn is asked to stop')).toBeVisible()
    await expect(page.getByText(/The turn (stopped|failed)/).first()).toBeVisible()
    // What was only said was dropped, and is shown so.
    await expect(page.getByText('Dropped: an answer').first()).toBeVisible()
  } finally {
    await page.close() // its stream must not break
    await server.end()
  }
})

test('live updates that are paused hold still', async ({ page, server }) => {
  await logIn(page, server)
  const id = await newSession(server, 'paused')
  await page.goto(`${server.url}/sessions/${id}`)
  await expect(page.getByRole('button', { name: 'Live' })).toBeVisible()
  await page.getByRole('button', { name: 'Live' }).click()
  await expect(page.getByRole('button', { name: 'Paused' })).toBeVisible()
  await server.call('POST', `/v1/sessions/${id}/messages`, { text: 'meanwhile' })
  await expect(page.getByText('meanwhile')).toHaveCount(0)
  await page.getByRole('button', { name: 'Paused' }).click()
  await expect(page.getByRole('article', { name: 'Agent' })).toContainText('meanwhile')
})

test('a tab that nobody sees follows nothing, and catches up', async ({ page, server }) => {
  await logIn(page, server)
  const id = await newSession(server, 'hidden')
  await page.goto(`${server.url}/sessions/${id}`)
  await expect(page.getByRole('button', { name: 'Live' })).toBeVisible()
  const setHidden = (hidden: boolean): Promise<void> =>
    page.evaluate((hidden) => {
      Object.defineProperty(document, 'hidden', { value: hidden, configurable: true })
      document.dispatchEvent(new Event('visibilitychange'))
    }, hidden)
  await setHidden(true)
  await expect(page.getByRole('button', { name: 'Not live' })).toBeVisible()
  await server.call('POST', `/v1/sessions/${id}/messages`, { text: 'while nobody looked' })
  await expect(page.getByText('while nobody looked')).toHaveCount(0)
  await setHidden(false)
  await expect(page.getByRole('article', { name: 'Agent' })).toContainText('while nobody looked')
  await expect(page.getByRole('article')).toHaveCount(2) // each once
})

test('an attachment is sent', async ({ page, server }) => {
  await logIn(page, server)
  const id = await newSession(server, 'attachments')
  await page.goto(`${server.url}/sessions/${id}`)
  const png = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64')
  await page.locator('input[type=file]').setInputFiles({ name: 'dot.png', mimeType: 'image/png', buffer: png })
  await expect(page.getByText('dot.png')).toBeVisible()
  await page.getByLabel('Message', { exact: true }).fill('what is this?')
  await page.getByRole('button', { name: 'Send', exact: true }).click()
  await expect(page.getByRole('img', { name: 'dot.png' })).toBeVisible()
})
