import { hostname } from 'node:os'
import { expect, logIn, newStore, Node, startServer, test } from './harness'

const long = Array.from({ length: 40 }, (_, i) => `word${i}`).join(' ')

test('a node is killed in the middle of an answer, and another one takes over @stores', async ({ page }, info) => {
  const first = await startServer({ HOLDFAST_OFFLINE_PACE: '1500ms' }, [], newStore(info))
  const second = new Node(first.store)
  try {
    await second.start()
    for (const node of [first.node, second]) {
      await node.kill()
      await node.start() // on a port that is known before it listens, so that the other node is told
    }
    await logIn(page, { ...first, url: second.url })
    const { sessionId } = await first.call<{ sessionId: string }>('POST', '/v1/sessions', { definition: { name: 'echo' }, name: 'two nodes' })
    await page.goto(`${second.url}/work`)
    await expect(page.getByRole('button', { name: 'Drain', exact: true })).toHaveCount(2)
    await page.goto(`${second.url}/sessions`)
    await first.call('POST', `/v1/sessions/${sessionId}/messages`, { text: long }, { Prefer: 'respond-async' })
    // The row says which process works on it.
    const row = page.getByRole('listitem').filter({ hasText: 'two nodes' })
    await expect(row.getByTitle('Worked on by')).toContainText(`${hostname()}/`)
    // The words of the first node come through the second. They are only said.
    await row.getByRole('link').click()
    await expect(page.getByRole('article', { name: 'Agent, not saved yet' })).toContainText('You said: word0')
    await expect(page.locator('.unsaved')).toHaveCount(1)
    await expect(page.getByRole('article', { name: 'Agent', exact: true })).toHaveCount(0)
    await first.node.kill()
    // What was saved stays, what was only said comes again, and is saved.
    await expect(page.getByRole('article', { name: 'Agent', exact: true })).toContainText('word39', { timeout: 60_000 })
    await expect(page.getByText('Continued after an interruption')).toBeVisible()
    await expect(page.getByRole('article', { name: 'You' })).toHaveCount(1)
    await expect(page.locator('.unsaved')).toHaveCount(0)
  } finally {
    await page.close() // its stream must not break
    await second.kill()
    await first.end()
  }
})
