import { expect, expectAccessible, expectFits, logIn, test, type Server } from './harness'

const hostile = '<img src=x onerror="document.title=1"> [x](javascript:alert(1))'
const head = (name: string) => ({ version: 1, name, runtime: { provider: 'offline', model_id: 'echo', max_parallel: 4 }, agents: { guide: { prompt: 'You guide people.', tools: [] } } })

async function startRun(server: Server, name: string, pattern: unknown): Promise<string> {
  const made = await server.call<{ session: { sessionId: string } }>('POST', '/v1/runs', { spec: { ...head(name), pattern }, name })
  return made.session.sessionId
}
const statusOf = async (server: Server, id: string): Promise<string> => (await server.call<{ status: string }>('GET', `/v1/runs/${id}`)).status
const asking = (prompt: string) => ({
  type: 'chain',
  config: { steps: [{ agent: 'guide', input: `Begin ${prompt}` }, { type: 'hitl', prompt: `Shall it go on? ${prompt}`, context_display: 'Think well.' }, { agent: 'guide', input: 'The reader says: {{ hitl_response }}' }] },
})
const branches = (n: number) => ({
  type: 'parallel',
  config: { branches: Array.from({ length: n }, (_, i) => ({ id: `b${i}`, steps: [{ agent: 'guide', input: `Part ${i}` }] })), reduce: { agent: 'guide', input: 'Join them.' } },
})

test('a run is drawn live, its question answered in place, and a unit done again @stores', async ({ page, server }) => {
  await logIn(page, server)
  const id = await startRun(server, 'asks', asking(hostile))
  await page.goto(`${server.url}/sessions`)
  await page.getByRole('listitem').filter({ hasText: id.slice(0, 8) }).getByRole('link').click()
  await expect(page).toHaveURL(new RegExp(`/sessions/${id}/run$`))
  await expect(page.getByRole('button', { name: 'step/0, finished' })).toBeVisible()
  await expect(page.getByRole('button', { name: 'step/1, waiting' })).toBeVisible()
  await expect(page.getByText(`Shall it go on? ${hostile}`).first()).toBeVisible()
  await page.getByLabel('Answer', { exact: true }).fill('yes, go on')
  await page.keyboard.press('Enter')
  await expect(page.getByRole('button', { name: 'step/2, finished' })).toBeVisible()
  await expect.poll(() => statusOf(server, id)).toBe('completed')

  // The details of a unit, by the keyboard, with an address of their own.
  await page.getByRole('button', { name: 'step/2, finished' }).focus()
  await page.keyboard.press('Enter')
  await expect(page).toHaveURL(/node=step%2F2/)
  const unit = page.getByRole('region', { name: 'step/2' })
  await expect(unit.getByLabel('Prompt', { exact: true })).toContainText('yes, go on')
  await expect(unit).toContainText('You said:')
  await expect(page.getByRole('list', { name: 'Units by time' }).getByRole('listitem')).toHaveCount(3) // the time of the person too
  const before = (await server.call<{ session: { version: number } }>('GET', `/v1/runs/${id}`)).session.version
  await unit.getByRole('button', { name: 'Command line for: Do it again' }).click()
  await expect(page.getByRole('group', { name: 'Do it again in a terminal' })).toContainText(`holdfast run --resume ${id} --redo step/2`)
  await page.keyboard.press('Escape')
  await unit.getByRole('button', { name: 'Do it again', exact: true }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Do it again' }).click()
  await expect.poll(async () => (await server.call<{ session: { version: number } }>('GET', `/v1/runs/${id}`)).session.version).toBeGreaterThan(before)
  await expect.poll(() => statusOf(server, id)).toBe('completed')
  expect(await page.title()).toBe('asks · Holdfast')
})

test('a group is one node until it is opened; the graph is exported; a run is cancelled', async ({ page, server }) => {
  await logIn(page, server)
  const id = await startRun(server, 'wide', branches(20))
  await page.goto(`${server.url}/sessions/${id}/run`)
  await expect(page.getByRole('button', { name: 'branch: 20 finished. Open the group' })).toBeVisible()
  await expect(page.locator('.node')).toHaveCount(2)
  await page.getByRole('button', { name: 'branch (20)' }).click()
  await expect(page.getByRole('button', { name: 'b0, finished' })).toBeVisible()
  await page.keyboard.press('/')
  await page.keyboard.type('b17')
  await page.getByRole('group', { name: 'Nodes that were found' }).getByRole('button', { name: 'b17' }).click()
  await expect(page.getByRole('region', { name: 'b17' }).getByLabel('Prompt', { exact: true })).toContainText('Part 17')
  for (const [format, begin] of [['mermaid', 'flowchart LR'], ['dot', 'digraph {']] as const) {
    const href = await page.getByRole('link', { name: format, exact: true }).getAttribute('href')
    expect(await (await page.request.get(server.url + href!)).text()).toContain(begin)
  }
  expect(await page.locator('path[marker-end="url(#arrow)"]').count()).toBeGreaterThan(0) // edges say where they lead

  const other = await startRun(server, 'given up', asking('now'))
  await expect.poll(() => statusOf(server, other)).toBe('paused')
  await page.goto(`${server.url}/sessions/${other}/run`)
  const session = async () => (await server.call<{ session: { status: string } }>('GET', `/v1/runs/${other}`)).session.status
  await page.getByRole('button', { name: 'Suspend', exact: true }).click()
  await expect.poll(session).toBe('suspended')
  await expect(page.getByRole('button', { name: 'Suspend', exact: true })).toHaveCount(0)
  await page.getByRole('button', { name: 'Resume', exact: true }).click()
  await expect.poll(session).toBe('active')
  await page.getByRole('button', { name: 'Cancel the run', exact: true }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel the run' }).click()
  await expect.poll(() => statusOf(server, other)).toBe('cancelled')
})

test('a graph of 2,000 nodes has few in the document', async ({ page, server }) => {
  await logIn(page, server)
  const tasks = Array.from({ length: 1999 }, (_, i) => ({ id: `t${i}`, agent: 'guide', input: 'x', deps: ['gate'] }))
  const id = await startRun(server, 'large', { type: 'workflow', config: { tasks: [{ id: 'gate', type: 'hitl', prompt: 'Begin?' }, ...tasks] } })
  await page.goto(`${server.url}/sessions/${id}/run`)
  await expect(page.getByText('2,000 nodes')).toBeVisible()
  await expect(page.locator('.node').first()).toBeVisible()
  expect(await page.locator('.node').count()).toBeLessThan(100)
  await page.getByRole('region', { name: 'Graph of the run' }).evaluate((box) => (box.scrollTop = box.scrollHeight))
  await expect(page.getByRole('button', { name: 't1998, ahead' })).toBeVisible()
  expect(await page.locator('.node').count()).toBeLessThan(100)
  await server.call('POST', `/v1/runs/${id}/cancel`)
})

for (const scheme of ['light', 'dark'] as const) {
  test(`a run is for everybody: ${scheme}`, async ({ page, server }, info) => {
    await page.emulateMedia({ colorScheme: scheme })
    await logIn(page, server)
    const id = await startRun(server, `seen ${scheme}`, asking('with care'))
    await expect.poll(() => statusOf(server, id)).toBe('paused')
    await page.goto(`${server.url}/sessions/${id}/run?node=step%2F0`)
    await expect(page.getByRole('region', { name: 'step/0' })).toContainText('You said:')
    await expectAccessible(page)
    await page.screenshot({ path: info.outputPath(`run-${scheme}.png`) })
    await page.setViewportSize({ width: 640, height: 1000 }) // 200 % of 1280
    await expectFits(page)
  })
}
