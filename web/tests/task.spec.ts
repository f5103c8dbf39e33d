import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, expectAccessible, logIn, test } from './harness'
import { startWorkplace } from './model'

let work: Awaited<ReturnType<typeof startWorkplace>>
test.beforeAll(async () => {
  work = await startWorkplace()
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

test('a task is seen working, approved in place and followed to its end', async ({ page }) => {
  await logIn(page, work)
  const id = await startTask(`tidy ${hostile}`, ['list: read it, mend it', 'edit: two deux', 'write: new.txt hello'])
  await page.goto(`${work.url}/sessions/${id}`)
  await page.getByRole('navigation', { name: 'Parts of the session' }).getByRole('link', { name: 'Task' }).click()
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

for (const scheme of ['light', 'dark'] as const) {
  test(`a task is for everybody: ${scheme}`, async ({ page }, info) => {
    await page.emulateMedia({ colorScheme: scheme })
    await logIn(page, work)
    const id = await startTask('tidy up the notes', ['list: read the notes, mend them, check them', `write: ${scheme}.txt some words`, 'run: cat notes.txt'])
    await expect.poll(() => statusOf(id)).toBe('blocked')
    await page.goto(`${work.url}/sessions/${id}/task`)
    await expect(page.getByText('Waits for an approval')).toBeVisible()
    await expectAccessible(page)
    await page.screenshot({ path: info.outputPath(`task-${scheme}.png`) })
    await page.setViewportSize({ width: 640, height: 1200 }) // 200 % of 1280
    expect(await page.locator('.body').evaluate((m) => m.scrollWidth - m.clientWidth)).toBeLessThanOrEqual(0)
    await page.screenshot({ path: info.outputPath(`task-${scheme}-narrow.png`) })
  })
}
