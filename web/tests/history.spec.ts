import { expect, expectAccessible, expectFits, logIn, test, type Server } from './harness'

const hostile = '<img src=x onerror="window.taken=1"><script>window.taken=1</script> [x](javascript:window.taken=1)'

type Made = { sessionId: string; version: number }

/** A chat with two answers, a name, another prompt and a rewound end: version 6. */
async function makeChat(server: Server): Promise<string> {
  const { sessionId: id } = await server.call<Made>('POST', '/v1/sessions', { definition: { name: 'guide', systemPrompt: 'Be kind.' }, name: `past ${hostile}` })
  const at = `/v1/sessions/${id}`
  await server.call('POST', `${at}/messages`, { text: `first question ${hostile}` })
  await server.call('POST', `${at}/actions/ChangeSystemPrompt`, { text: 'Be very brief.' })
  await server.call('POST', `${at}/messages`, { text: 'second question' })
  return id
}

test('a session is seen at any version, forked with another message and rewound @stores', async ({ page, server }) => {
  await logIn(page, server)
  const id = await makeChat(server)
  await page.goto(`${server.url}/sessions/${id}/history`)
  await expect(page.getByText('Version 4 of 4')).toBeVisible()
  await expect(page.getByRole('article', { name: 'Agent' })).toHaveCount(2)
  await page.keyboard.press('[')
  await page.keyboard.press('[')
  await expect(page).toHaveURL(/v=2/)
  await expect(page.getByRole('article', { name: 'Agent' })).toHaveCount(1)
  await expect(page.getByText('second question')).toHaveCount(0)
  await page.getByRole('slider', { name: 'Version' }).press('ArrowLeft')
  await expect(page.getByText('Version 1 of 4')).toBeVisible()

  // The address leads to the same version, and to the request of that moment.
  await page.goto(`${server.url}/sessions/${id}/history?v=2&view=request`)
  await expect(page.getByLabel('system prompt', { exact: true })).toHaveText('Be kind.')
  await expect(page.getByRole('article', { name: 'Message 1: user' })).toContainText('first question <img')
  await page.getByRole('button', { name: 'State' }).click()
  await expect(page.getByLabel('state', { exact: true })).toContainText('"systemPrompt": "Be kind."')

  // A fork from before the message, which says it differently.
  await page.goto(`${server.url}/sessions/${id}/history?v=4`)
  await page.getByRole('button', { name: 'Fork from here…' }).click()
  const dialog = page.getByRole('dialog')
  await expect(dialog.getByRole('textbox', { name: 'Message' })).toHaveValue('second question')
  await expect(dialog.getByLabel('System prompt')).toHaveValue('Be very brief.')
  await dialog.getByRole('textbox', { name: 'Message' }).fill('another question')
  await dialog.getByLabel('System prompt').fill('Be long.')
  await dialog.getByLabel('Name').fill('other course')
  await dialog.getByRole('button', { name: 'Command line for: Fork' }).click()
  await expect(dialog.getByRole('group', { name: 'Fork in a terminal' })).toContainText(`holdfast sessions fork ${id} --at 3`)
  await dialog.getByRole('button', { name: 'Fork', exact: true }).click()
  await expect(page.getByRole('heading', { name: 'other course' })).toBeVisible()
  await expect(page.getByText('You said: another question')).toBeVisible()
  const fork = await server.call<{ items: { sessionId: string; fork: { version: number } }[] }>('GET', `/v1/sessions?parent=${id}`)
  expect(fork.items.map((s) => s.fork.version)).toEqual([3])
  const sent = await server.call<{ system: string; messages: { content: string }[] }>('GET', `/v1/sessions/${fork.items[0]!.sessionId}/versions/3/request`)
  expect(sent.system).toBe('Be long.')
  expect(sent.messages.at(-1)!.content).toBe('another question')

  // A rewind, and its undoing.
  await page.goto(`${server.url}/sessions/${id}/history?v=2`)
  await page.getByRole('button', { name: 'Rewind to here', exact: true }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Rewind to here' }).click()
  await expect(page.getByText('Version 5 of 5')).toBeVisible()
  await expect.poll(async () => (await server.call<{ total: number }>('GET', `/v1/sessions/${id}/messages`)).total).toBe(2)
  await page.getByRole('button', { name: 'Undo: return to version 4', exact: true }).click()
  await expect(page.getByText('Version 6 of 6')).toBeVisible()
  await expect.poll(async () => (await server.call<{ total: number }>('GET', `/v1/sessions/${id}/messages`)).total).toBe(4)
  expect(await page.evaluate(() => 'taken' in window)).toBe(false)
})

test('the log has every change, live, and by kind', async ({ page, server }) => {
  await logIn(page, server)
  const id = await makeChat(server)
  await page.goto(`${server.url}/sessions/${id}/log`)
  const rows = page.getByRole('list', { name: 'Changes' }).getByRole('listitem')
  const { items } = await server.call<{ items: unknown[] }>('GET', `/v1/sessions/${id}/log`)
  await expect(rows).toHaveCount(items.length)
  await server.call('POST', `/v1/sessions/${id}/actions/RenameSession`, { to: 'a new name' })
  await expect(rows).toHaveCount(items.length + 1)
  await page.getByLabel('Kind').selectOption('message_added')
  await expect(page).toHaveURL(/kind=message_added/)
  await expect(rows).toHaveCount(4)
  await page.keyboard.press('Tab')
  await page.getByRole('heading', { name: 'a new name' }).click()
  await page.keyboard.press('j')
  await expect(page.getByLabel('change as JSON', { exact: true })).toContainText('first question <img')
  await page.reload()
  await expect(rows).toHaveCount(4)
  expect(await page.evaluate(() => 'taken' in window)).toBe(false)
})

test('forks are a tree, and two of them are compared', async ({ page, server }) => {
  await logIn(page, server)
  const id = await makeChat(server)
  const fork = await server.call<Made>('POST', `/v1/sessions/${id}/fork`, { at: 3, name: 'the branch' })
  await server.call('POST', `/v1/sessions/${fork.sessionId}/messages`, { text: 'third question' })
  await page.goto(`${server.url}/sessions/${fork.sessionId}/forks`)
  await expect(page.getByRole('link', { name: 'the branch' })).toBeVisible()
  await expect(page.getByText('left at version 3')).toBeVisible()
  await page.getByRole('button', { name: /^Left: past/ }).click()
  await page.getByRole('button', { name: /^Right: the branch/ }).click()
  await expect(page.getByText('2 messages in common')).toBeVisible()
  await expect(page.getByRole('article', { name: 'Left: user' })).toContainText('second question')
  await expect(page.getByRole('article', { name: 'Right: user' })).toContainText('third question')
  await page.getByLabel('Mark words that differ').check()
  await expect(page.getByRole('article', { name: 'Right: user' }).locator('del')).toHaveText('second')
  await expect(page.getByRole('article', { name: 'Right: user' }).locator('ins')).toHaveText('third')
  await page.getByRole('link', { name: 'All differences' }).click()
  await expect(page.getByRole('heading', { name: 'header.name' })).toBeVisible()

  // Two versions of one session: the words of a prompt that changed.
  await page.goto(`${server.url}/sessions/${id}/diff?from=2&to=3`)
  const prompt = page.getByRole('article').filter({ hasText: 'systemPrompt' })
  await expect(prompt.locator('del')).toHaveText('kind')
  await expect(prompt.locator('ins')).toHaveText('very brief')
  await expect(page.getByText('system_prompt_changed')).toBeVisible()
  await page.getByLabel('From version').fill('1')
  await page.getByLabel('From version').press('Enter')
  await expect(page).toHaveURL(/from=1/)
  await expect(page.getByText('first question <img').first()).toBeVisible()
})

test.describe('screens', () => {
  test.use({ quiet: ['status of 422'] }) // a version that is not there
  for (const scheme of ['light', 'dark'] as const) {
    test(`nothing is wrong for screen readers and eyes: ${scheme}`, async ({ page, server }) => {
      await page.emulateMedia({ colorScheme: scheme })
      await logIn(page, server)
      const id = await makeChat(server)
      const fork = await server.call<Made>('POST', `/v1/sessions/${id}/fork`, { at: 3, name: 'the branch' })
      await server.call('POST', `/v1/sessions/${fork.sessionId}/messages`, { text: 'third question' })
      const screens: Record<string, string> = {
        '/history': 'Version 4 of 4',
        '/history?v=4&view=request': 'Be very brief.',
        '/history?view=state': '"systemPrompt"',
        '/log': 'user: first question',
        '/diff?from=1&to=4': 'between them',
        '/diff?from=99': 'invalid · 422',
        [`/forks?a=${id}&b=${fork.sessionId}`]: 'in common',
      }
      for (const [path, text] of Object.entries(screens)) {
        await page.goto(`${server.url}/sessions/${id}${path}`)
        await expect(page.getByText(new RegExp(text)).first()).toBeVisible()
        if (path === '/log') await page.keyboard.press('j')
        await expectAccessible(page)
        if (scheme === 'light') continue
        await page.setViewportSize({ width: 640, height: 400 }) // 200 % of 1280 by 800
        await expectFits(page)
        await page.setViewportSize({ width: 1280, height: 800 })
      }
    })
  }
})
