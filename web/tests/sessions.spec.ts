import { expect, expectAccessible, logIn, test } from './harness'

test('sessions come live, are found and opened @stores', async ({ page, server }) => {
  await logIn(page, server)
  await page.goto(server.url)
  await expect(page.getByRole('button', { name: 'Live' })).toBeVisible()
  const made = await server.call<{ sessionId: string }>('POST', '/v1/sessions', { definition: { name: 'echo' }, name: 'journey to Rome' })
  const row = page.getByRole('listitem').filter({ hasText: 'journey to Rome' })
  await expect(row).toBeVisible()
  await server.call('POST', `/v1/sessions/${made.sessionId}/actions/RenameSession`, { to: 'journey to Naples' })
  await expect(page.getByRole('listitem').filter({ hasText: 'journey to Naples' })).toBeVisible()
  await expect(row).toHaveCount(0)

  // The search is in the address, and is there again after a reload.
  await page.keyboard.press('/')
  await page.keyboard.type('naples kind:chat')
  await expect(page).toHaveURL(/q=naples\+kind%3Achat/)
  await page.reload()
  await expect(page.getByRole('searchbox')).toHaveValue('naples kind:chat')
  await expect(page.getByRole('listitem')).toHaveCount(1)
  await page.getByRole('searchbox').fill('no such session')
  await expect(page.getByText('No session matches')).toBeVisible()

  // An id opens its session, also the beginning of one.
  await page.getByRole('searchbox').fill(made.sessionId.slice(0, 8))
  await page.keyboard.press('Enter')
  await expect(page.getByRole('heading', { name: 'journey to Naples' })).toBeVisible()
  await page.goBack()
  await page.getByRole('searchbox').fill('')
  await page.keyboard.press('Escape')
  await expect(page).not.toHaveURL(/q=/) // the search has begun, which forgets the row
  await expect(page.getByRole('listitem').filter({ hasText: 'journey to Naples' })).toBeVisible()
  await page.keyboard.press('j')
  await expect(page.locator('[role=listitem] [aria-current=true]')).toBeVisible()
  await page.keyboard.press('Enter')
  await expect(page).toHaveURL(/\/sessions\/./)
})

test('a session is made, written to and renamed by hand @stores', async ({ page, server }) => {
  await logIn(page, server)
  await page.goto(`${server.url}/sessions`)
  await page.getByRole('button', { name: 'New session' }).click()
  await page.getByLabel('Name').fill('by hand')
  await page.getByRole('button', { name: 'Create', exact: true }).click()
  await expect(page.getByRole('heading', { name: 'by hand' })).toBeVisible()
  await page.getByLabel('Message', { exact: true }).fill('hello')
  await page.keyboard.press('Enter')
  await expect(page.getByRole('article', { name: 'Agent' })).toContainText('You said: hello')
  await expect(page.locator('.unsaved')).toHaveCount(0)
  await page.getByRole('button', { name: 'Command line for: Send' }).click()
  await expect(page.getByRole('group', { name: 'Send in a terminal' })).toContainText('holdfast send')
  await page.keyboard.press('Escape')
  await page.getByRole('button', { name: 'Rename' }).click()
  await page.getByLabel('Name of the session').fill('renamed')
  await page.keyboard.press('Enter')
  await expect(page.getByRole('heading', { name: 'renamed' })).toBeVisible()
  await page.getByRole('button', { name: 'Delete', exact: true }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
  await expect(page).toHaveURL(/\/sessions$/)
})

test('words are found in messages, and rows say what was spent @stores', async ({ page, server }, info) => {
  await logIn(page, server)
  const { sessionId } = await server.call<{ sessionId: string }>('POST', '/v1/sessions', { definition: { name: 'echo' }, name: 'plans' })
  const word = `zebra${info.project.name}${info.retry}`
  await server.call('POST', `/v1/sessions/${sessionId}/messages`, { text: `Where does the ${word} live? <img src=x onerror="window.taken=1">` })
  await page.goto(`${server.url}/sessions`)
  const row = page.getByRole('listitem').filter({ hasText: sessionId.slice(0, 8) })
  await expect(row).toContainText('$0')
  await page.getByRole('searchbox').fill(`${word} LIVE`)
  const said = page.getByRole('region', { name: 'Said in messages' })
  await expect(said).toContainText(`Where does the ${word} live? <img src=x`)
  await expect(said.locator('mark').first()).toHaveText(word)
  await expectAccessible(page)
  await page.getByRole('searchbox').fill(`${word} kind:task`)
  await expect(page.getByText('No session matches')).toBeVisible()
  await page.getByRole('searchbox').fill(word)
  await said.getByRole('link').first().click()
  await expect(page.getByRole('heading', { name: 'plans' })).toBeVisible()
  expect(await page.evaluate(() => 'taken' in window)).toBe(false)
})

test.describe('screens', () => {
  test.use({ quiet: ['status of 404'] }) // a session that is not there

  for (const scheme of ['light', 'dark'] as const) {
    test(`nothing is wrong for screen readers and eyes: ${scheme}`, async ({ page, server }) => {
      await page.emulateMedia({ colorScheme: scheme })
      await logIn(page, server)
      const { sessionId } = await server.call<{ sessionId: string }>('POST', '/v1/sessions', { definition: { name: 'echo' }, name: `seen ${scheme}` })
      await server.call('POST', `/v1/sessions/${sessionId}/messages`, { text: '# A list\n- one\n- [link](https://example.org)\n\n```go\nfunc main() {}\n```\n| a | b |\n|---|---|\n| 1 | 2 |' })
      const screens: Record<string, string> = {
        '/sessions': `seen ${scheme}`,
        [`/sessions/${sessionId}`]: 'this session is real and saved',
        '/sessions/nobody': 'Try again',
        '/no/such/page': 'There is no such page',
      }
      for (const [path, text] of Object.entries(screens)) {
        await page.goto(server.url + path)
        await expect(page.getByText(text).first()).toBeVisible()
        await expectAccessible(page)
      }
    })
  }
})
