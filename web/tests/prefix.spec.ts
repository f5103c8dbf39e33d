import { expect, logIn, startServer, test } from './harness'

test('the page works below a path, and a link leads to what it shows', async ({ page }) => {
  const server = await startServer({}, ['--prefix', '/hold/fast'])
  try {
    const at = `${server.url}/hold/fast`
    await logIn(page, { ...server, url: at })
    const { sessionId } = await server.call<{ sessionId: string }>('POST', '/hold/fast/v1/sessions', { definition: { name: 'echo' }, name: 'below' })
    await page.goto(`${at}/sessions/${sessionId}`)
    await expect(page.getByRole('heading', { name: 'below' })).toBeVisible()
    await expect(page.getByRole('button', { name: 'Live' })).toBeVisible()
    await page.getByLabel('Message', { exact: true }).fill('hello')
    await page.keyboard.press('Enter')
    await expect(page.getByRole('article', { name: 'Agent' })).toContainText('You said: hello')
    await page.getByRole('link', { name: 'All sessions' }).click()
    await expect(page).toHaveURL(`${at}/sessions`)
    await page.getByRole('listitem').filter({ hasText: 'below' }).getByRole('link').click()
    await expect(page).toHaveURL(`${at}/sessions/${sessionId}`)
    await page.getByRole('button', { name: 'Command line for: Send' }).click()
    await expect(page.getByRole('group', { name: 'Send in a terminal' })).toContainText(`${at}/v1/sessions/${sessionId}/messages`)
  } finally {
    await page.close() // its stream must not break
    await server.end()
  }
})
