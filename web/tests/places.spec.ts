import { expect, expectAccessible, expectFits, logIn, startServer, test } from './harness'

const hostile = '<img src=x onerror="window.taken=1"><script>window.taken=1</script>'

test('costs are added up by group and time @stores', async ({ page, server }) => {
  await logIn(page, server)
  const { sessionId } = await server.call<{ sessionId: string }>('POST', '/v1/sessions', { definition: { name: 'spender' }, userId: `user ${hostile}` })
  await page.goto(`${server.url}/cost?group=agent`)
  await server.call('POST', `/v1/sessions/${sessionId}/messages`, { text: 'hello' })
  // It comes without a reload, with the numbers of the API.
  const row = page.getByRole('row').filter({ has: page.getByRole('rowheader', { name: 'spender' }) })
  await expect(row).toBeVisible()
  const stats = await server.call<{ items: { group: string; usage: { input: number; output: number } }[] }>('GET', '/v1/stats?group=agent')
  const { usage } = stats.items.find((i) => i.group === 'spender')!
  await expect(row.getByRole('cell').nth(2)).toHaveText(String(usage.input))
  await expect(row.getByRole('cell').nth(3)).toHaveText(String(usage.output))
  await page.getByLabel('by').selectOption('user')
  await expect(page.getByRole('rowheader', { name: /^user <img/ })).toBeVisible()
  await page.getByLabel('by').selectOption('session')
  await page.getByRole('link', { name: sessionId }).click()
  await expect(page.getByText('You said: hello')).toBeVisible()
  await page.goto(`${server.url}/cost?to=2001-01-01`)
  await expect(page.getByText('No answers in this time')).toBeVisible()
  expect(await page.evaluate(() => 'taken' in window)).toBe(false)
})

test('nodes, and schedules that are paused, resumed and deleted @stores', async ({ page, server }) => {
  await logIn(page, server)
  const { sessionId } = await server.call<{ sessionId: string }>('POST', '/v1/sessions', { definition: { name: 'echo' } })
  await page.goto(`${server.url}/work`)
  await expect(page.getByText('of 32 slots')).toBeVisible()
  await expect(page.getByRole('button', { name: 'Live' })).toBeVisible()
  const made = await server.call<{ id: string }>('POST', '/v1/schedules', { label: 'once a year', cron: '0 0 1 1 *', sessionId, text: hostile }) // comes by itself
  const item = page.getByRole('listitem').filter({ hasText: 'once a year' })
  await expect(item).toContainText(hostile)
  await item.getByRole('button', { name: 'Pause', exact: true }).click()
  await expect(item.getByRole('button', { name: 'Resume', exact: true })).toBeVisible()
  expect((await server.call<{ paused: boolean }>('GET', `/v1/schedules/${made.id}`)).paused).toBe(true)
  await item.getByRole('button', { name: 'Resume', exact: true }).click()
  await expect(item.getByRole('button', { name: 'Pause', exact: true })).toBeVisible()
  await item.getByRole('button', { name: 'Delete', exact: true }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
  await expect(item).toHaveCount(0)
  expect((await server.call<{ items: unknown[] }>('GET', '/v1/schedules')).items).toEqual([])
  const nodes = await server.call<{ items: { id: string }[] }>('GET', '/v1/system/nodes')
  for (const n of nodes.items) await expect(page.getByRole('listitem').filter({ hasText: n.id })).toBeVisible()
})

test('a node is drained, and takes work again', async ({ page }) => {
  const own = await startServer()
  try {
    await logIn(page, own)
    await page.goto(`${own.url}/work`)
    await page.getByRole('button', { name: 'Drain', exact: true }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Drain' }).click()
    const draining = async () => (await own.call<{ items: { draining: boolean }[] }>('GET', '/v1/system/nodes')).items.map((n) => n.draining)
    await expect.poll(draining, { timeout: 30_000 }).toEqual([true])
    await page.getByRole('button', { name: 'Take work again', exact: true }).click()
    await expect.poll(draining, { timeout: 30_000 }).toEqual([false])
  } finally {
    await page.close() // its stream must not break
    await own.end()
  }
})

test('a key is created, shown once, and revoked', async ({ page, server }) => {
  await logIn(page, server)
  await page.goto(`${server.url}/catalogue`)
  await expect(page.getByText('offline/echo')).toBeVisible()
  await page.getByRole('button', { name: 'New key…' }).click()
  await page.getByLabel('Label').fill(`for a robot ${hostile}`)
  await page.getByLabel('write: create').uncheck()
  await page.getByRole('button', { name: 'Create', exact: true }).click()
  const secret = await page.getByRole('dialog').locator('.secret').textContent()
  const as = (key: string) => fetch(`${server.url}/v1/sessions?limit=1`, { headers: { Authorization: `Bearer ${key}` } }).then((r) => r.status)
  expect(await as(secret!)).toBe(200)
  await page.getByRole('button', { name: 'Close' }).first().click()
  await expect(page.getByText(secret!)).toHaveCount(0)
  const row = page.getByRole('row').filter({ hasText: 'for a robot <img' })
  await row.getByRole('button', { name: 'Revoke', exact: true }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click()
  await expect(row).toContainText('revoked')
  await expect.poll(() => as(secret!), { timeout: 30_000 }).toBe(401)
})

test.describe('memory', () => {
  test.use({ quiet: ['status of 409', 'status of 412', 'status of 422'] }) // a value that changed meanwhile, a session without a user
  test('is stored, edited, found and deleted, and never overwritten unseen @stores', async ({ page, server }) => {
    await logIn(page, server)
    const { sessionId } = await server.call<{ sessionId: string }>('POST', '/v1/sessions', { definition: { name: 'keeper' } })
    const at = `/v1/sessions/${sessionId}/memory/session`
    await page.goto(`${server.url}/sessions/${sessionId}/memory`)
    await expect(page.getByText('Nothing is stored')).toBeVisible()
    await page.getByRole('button', { name: 'New value…' }).click()
    await page.getByRole('textbox', { name: 'Key' }).fill('trip/city')
    await page.getByLabel('Value: a text').fill(`Naples ${hostile}`)
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    const entry = page.getByRole('article', { name: 'trip/city' })
    await expect(entry).toContainText('Naples <img')
    await page.getByLabel('Search memory').fill('naples')
    await page.getByRole('search').getByRole('combobox').selectOption('keyword')
    await page.getByRole('button', { name: 'Search', exact: true }).click()
    await expect(page.getByText('score 1.00')).toBeVisible()

    // By meaning, in other words than it was stored.
    await server.call('PUT', `${at}/pet`, 'The cat sleeps on the sofa.')
    await page.goto(`${server.url}/sessions/${sessionId}/memory?mode=semantic&q=${encodeURIComponent('a kitten is sleeping on the couch')}`)
    await expect(page.getByRole('heading', { name: 'Found' })).toBeVisible()
    await expect(page.locator('article').filter({ hasText: 'score' }).first()).toContainText('The cat sleeps on the sofa.')

    // Somebody else is quicker: what they wrote stays.
    await entry.getByRole('button', { name: 'Edit' }).click()
    await server.call('PUT', `${at}/trip%2Fcity`, 'Rome')
    await page.getByLabel('Value: a text').fill('{"city": 9007199254740993}')
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    await expect(page.locator('.notice.failed')).toBeVisible()
    expect((await server.call<{ value: string }>('GET', `${at}/trip%2Fcity`)).value).toBe('Rome')
    await page.reload()
    await entry.getByRole('button', { name: 'Edit' }).click()
    await page.getByLabel('Value: a text').fill('{"city": 9007199254740993}')
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    await expect(entry).toContainText('"city": 9007199254740993')
    await entry.getByRole('button', { name: 'Delete', exact: true }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await expect(entry).toHaveCount(0)
    await page.getByRole('region', { name: 'Memory' }).getByRole('combobox').first().selectOption('user')
    await expect(page.getByRole('alert')).toContainText('has no user')
    expect(await page.evaluate(() => 'taken' in window)).toBe(false)
  })
})

for (const scheme of ['light', 'dark'] as const) {
  test(`nothing is wrong for screen readers and eyes: ${scheme}`, async ({ page, server }) => {
    await page.emulateMedia({ colorScheme: scheme })
    await logIn(page, server)
    const { sessionId } = await server.call<{ sessionId: string }>('POST', '/v1/sessions', { definition: { name: 'seen' } })
    await server.call('POST', `/v1/sessions/${sessionId}/messages`, { text: 'hello' })
    await server.call('PUT', `/v1/sessions/${sessionId}/memory/session/colour`, 'blue')
    const made = await server.call<{ id: string }>('POST', '/v1/schedules', { label: `yearly ${scheme}`, cron: '0 0 1 1 *', sessionId, text: 'hello' })
    const screens: Record<string, string> = { '/cost': 'Tokens in', '/work': `yearly ${scheme}`, '/catalogue': 'New key…', [`/sessions/${sessionId}/memory`]: 'colour' }
    for (const [path, text] of Object.entries(screens)) {
      await page.goto(server.url + path)
      await expect(page.getByText(text).first()).toBeVisible()
      await expectAccessible(page)
      await page.setViewportSize({ width: 640, height: 400 }) // 200 % of 1280 by 800
      await expectFits(page)
      await page.setViewportSize({ width: 1280, height: 800 })
    }
    await server.call('DELETE', `/v1/schedules/${made.id}`)
  })
}
