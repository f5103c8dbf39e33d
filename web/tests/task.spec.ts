import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, expectAccessible, expectFits, logIn, newStore, test } from './harness'
import { startWorkplace } from './model'

let work: Awaited<ReturnType<typeof startWorkplace>>
test.beforeAll(async ({}, info) => {
  work = await startWorkplace(newStore(info))
})
test.afterAll(() => work.end())

const hostile = '<img src=x onerror="document.title=1"> [x](javascript:alert(1))'

async function startTask(title: string, steps: string[], more: Record<string, unknown> = {}): Promise<string> {
  const budget = { maxTurns: 10, maxTokens: 100_000, maxCost: 2 }
  const { id } = await work.call<{ id: string }>('POST', '/v1/tasks', {
    prompt: `tidy up ${hostile}`, title, model: 'script/model', budget, plan: { description: `A plan ${hostile}`, steps: steps.map((description) => ({ description })) }, ...more,
  })
  return id
}
const statusOf = async (id: string): Promise<string> => (await work.call<{ status: string }>('GET', `/v1/tasks/${id}`)).status

test('a task is seen working, approved in place and followed to its end @stores', async ({ page }) => {
  await logIn(page, work)
  const id = await startTask(`tidy ${hostile}`, ['list: read it, mend it', 'edit: two deux', 'write: new.txt hello'])
  await page.goto(`${work.url}/sessions`)
  await page.getByRole('listitem').filter({ hasText: id.slice(0, 8) }).getByRole('link').click()
  await expect(page).toHaveURL(new RegExp(`/sessions/${id}/task$`))
  await expect(page.getByText('Waits for an approval')).toBeVisible()
  await expect(page.locator('.pending pre').filter({ hasText: '+deux' })).toBeVisible()
  await expect(page.getByRole('region', { name: 'The agent\'s list' })).toContainText('mend it')
  await expect(page.getByRole('listitem').filter({ hasText: 'step-2' })).toHaveAttribute('aria-current', 'step')
  await expect(page.getByRole('meter', { name: 'Turns: 3 of 10' })).toBeVisible()
  await page.getByRole('button', { name: 'Approve', exact: true }).click()
  await expect(page.locator('.pending pre').filter({ hasText: '+hello' })).toBeVisible()
  await page.getByRole('button', { name: 'Approve', exact: true }).click()
  await expect(page.getByRole('heading', { name: 'Result' })).toBeVisible()
  expect(await statusOf(id)).toBe('completed')
  expect(readFileSync(join(work.folder, 'notes.txt'), 'utf8')).toContain('deux')
  expect(readFileSync(join(work.folder, 'new.txt'), 'utf8')).toBe('hello')
  const files = page.getByRole('region', { name: 'Changed files' })
  await files.locator('summary').filter({ hasText: 'notes.txt' }).click()
  await expect(files.getByLabel('Changes of notes.txt', { exact: true })).toContainText('+deux')
  await expect(files.locator('summary').filter({ hasText: 'new.txt' })).toContainText('done')
  await page.getByRole('button', { name: 'Retry', exact: true }).click()
  await expect.poll(async () => (await work.call<{ run: number }>('GET', `/v1/tasks/${id}`)).run).toBe(2)
})

test('feedback, messages, budgets and the end of a task', async ({ page }) => {
  await logIn(page, work)
  const id = await startTask('waits', ['run: date', 'run: date'])
  await expect.poll(() => statusOf(id)).toBe('blocked')
  await page.goto(`${work.url}/sessions/${id}/task`)
  await page.getByLabel('Feedback', { exact: true }).selectOption('skip')
  await page.getByLabel('About which step').selectOption('step-2')
  await page.getByLabel('In words').fill('no need')
  await page.getByRole('button', { name: 'Command line for: Give feedback' }).click()
  await expect(page.getByRole('group', { name: 'Give feedback in a terminal' })).toContainText(`holdfast task feedback ${id} step-2 skip 'no need'`)
  await page.keyboard.press('Escape')
  await page.getByRole('button', { name: 'Give feedback', exact: true }).click()
  await expect(page.getByLabel('In words')).toHaveValue('')
  await page.getByLabel('Message to the task').fill('be quick')
  await page.getByRole('button', { name: 'Leave the message', exact: true }).click()
  await expect(page.getByLabel('Message to the task')).toHaveValue('')
  const inbox = JSON.stringify(await work.call('GET', `/v1/sessions/${id}/items`)) + JSON.stringify(await work.call('GET', `/v1/sessions/${id}/inbox`))
  expect(inbox).toContain('no need')
  expect(inbox).toContain('be quick')
  await page.getByText('Raise them when it continues').click()
  await page.getByLabel('Dollars in all').fill('5')
  await page.getByRole('button', { name: 'Command line for: Continue' }).click()
  await expect(page.getByRole('group', { name: 'Continue in a terminal' })).toContainText(`holdfast task continue ${id} --cost 5`)
  await page.keyboard.press('Escape')
  await page.getByRole('button', { name: 'Cancel the task', exact: true }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel the task' }).click()
  await expect.poll(() => statusOf(id)).toBe('cancelled')
  await expect(page.getByRole('button', { name: 'Cancel the task', exact: true })).toHaveCount(0)
})

test('a task that used up its turns continues with more, and one that works is asked to wrap up', async ({ page }) => {
  await logIn(page, work)
  const id = await startTask('short of turns', ['say one', 'say two', 'say three'], { budget: { lifetimeTurns: 1 } })
  await page.goto(`${work.url}/sessions/${id}/task`)
  await expect.poll(async () => (await work.call<{ terminalStatus: string }>('GET', `/v1/tasks/${id}`)).terminalStatus).toBe('needs_user_action')
  await page.getByText('Raise them when it continues').click()
  await page.getByRole('spinbutton', { name: 'Turns in all' }).fill('9')
  await page.getByRole('button', { name: 'Continue', exact: true }).click()
  await expect.poll(() => statusOf(id)).toBe('completed')
  await expect(page.getByRole('heading', { name: 'Result' })).toBeVisible()

  const long = await startTask('works', ['hold: on', 'say two'])
  await page.goto(`${work.url}/sessions/${long}/task`)
  await page.getByRole('button', { name: 'Wrap up', exact: true }).click()
  await expect(page.getByText('It is asked to finish with what it has')).toBeVisible()
  work.release()
  await expect.poll(() => statusOf(long)).toBe('interrupted')
  await page.getByRole('button', { name: 'Continue', exact: true }).click()
  await expect.poll(() => statusOf(long)).toBe('completed')
})

for (const scheme of ['light', 'dark'] as const) {
  test(`a task is for everybody: ${scheme}`, async ({ page }, info) => {
    await page.emulateMedia({ colorScheme: scheme })
    await logIn(page, work)
    const id = await startTask('tidy up the notes', ['list: read the notes, mend them, check them', `write: ${scheme}.txt some words`, 'run: cat notes.txt'])
    await expect.poll(() => statusOf(id)).toBe('blocked')
    await page.goto(`${work.url}/sessions/${id}/task`)
    await expect(page.getByText('Waits for an approval')).toBeVisible()
    await expectAccessible(page)
    const moving = (): Promise<number> => page.evaluate(() => document.getAnimations().length)
    expect(await moving()).toBeGreaterThan(0) // the sign of the step that runs
    await page.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' })
    await expect.poll(moving).toBe(0)
    await page.screenshot({ path: info.outputPath(`task-${scheme}.png`) })
    await page.setViewportSize({ width: 640, height: 1200 }) // 200 % of 1280
    await expectFits(page)
    await page.screenshot({ path: info.outputPath(`task-${scheme}-narrow.png`) })
  })
}
