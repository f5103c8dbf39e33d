import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, expectAccessible, expectFits, logIn, newStore, test } from './harness'
import { startChat, startWorkplace } from './model'

type Workplace = Awaited<ReturnType<typeof startWorkplace>>
let work: Workplace
test.beforeAll(async ({}, info) => {
  work = await startWorkplace(newStore(info))
})
test.afterAll(() => work.end())

const hostile = '<img src=x onerror="document.title=1"><script>document.title=1</script> [x](javascript:alert(1)) {{7*7}} \u202e'

test('what waits comes live, and is approved, denied and answered by keys @stores', async ({ page }) => {
  await logIn(page, work)
  await page.goto(`${work.url}/waiting`)
  await expect(page.getByText('Nothing waits for you')).toBeVisible()
  await expectAccessible(page)

  const edited = await startChat(work, `editor ${hostile}`, 'edit: two deux')
  const card = page.getByRole('listitem').filter({ hasText: 'editor <img' })
  await expect(card).toContainText('-two')
  await expect(card).toContainText('+deux')
  const ran = await startChat(work, 'runner', `run: echo ${hostile}`)
  const asked = await startChat(work, 'asker', `ask: Which colour? ${hostile}`)
  await expect(page.getByRole('listitem')).toHaveCount(3)
  await expect(page.getByRole('listitem').filter({ hasText: 'runner' }).locator('.target')).toContainText('echo <img src=x')
  await expect(page).toHaveTitle('(3) Waiting for you · Holdfast')

  // The call that asked first is chosen. "d" in a box is a letter.
  await expect(card).toHaveAttribute('aria-current', 'true')
  await page.keyboard.press('j')
  await page.keyboard.press('r')
  await page.keyboard.type('not today')
  await page.keyboard.press('Escape')
  await page.getByRole('heading', { name: 'Waiting for you' }).click()
  await page.keyboard.press('d')
  await expect(page.getByRole('listitem')).toHaveCount(2)
  await page.keyboard.press('k')
  await page.keyboard.press('a')
  await expect(page.getByRole('listitem')).toHaveCount(1)
  await page.keyboard.press('r')
  await page.keyboard.type('blue')
  await page.keyboard.press('Enter')
  await expect(page.getByText('Nothing waits for you')).toBeVisible()

  // It was really done.
  const text = async (id: string): Promise<string> => JSON.stringify(await work.call('GET', `/v1/sessions/${id}/items`))
  await expect.poll(() => text(ran)).toContain('not today')
  await expect.poll(() => text(asked)).toContain('blue')
  await expect.poll(() => readFileSync(join(work.folder, 'notes.txt'), 'utf8')).toBe('one\ndeux\nthree\n')
  await expect.poll(() => text(edited)).toContain('It is done.')
  expect(await page.title()).toBe('Waiting for you · Holdfast')
})

test('an approval may hold for longer, and the lines say the same', async ({ page }) => {
  await logIn(page, work)
  const id = await startChat(work, 'often', 'write: a.txt first')
  await page.goto(`${work.url}/waiting?kind=chat`)
  const card = page.getByRole('listitem').filter({ hasText: 'often' })
  await card.getByLabel('For how long').selectOption('in this session')
  await card.getByRole('button', { name: 'Command line for: Approve' }).click()
  await expect(page.getByRole('group', { name: 'Approve in a terminal' })).toContainText('approve --choice allow_session')
  await page.keyboard.press('Escape')
  await card.getByRole('button', { name: 'Approve', exact: true }).click()
  await expect(card).toHaveCount(0)
  await expect.poll(async () => JSON.stringify(await work.call('GET', `/v1/sessions/${id}/items`))).toContain('It is done.')
  await work.call('POST', `/v1/sessions/${id}/messages`, { text: 'write: a.txt second' })
  expect(readFileSync(join(work.folder, 'a.txt'), 'utf8')).toBe('second') // without being asked

  // A question with choices is answered by one of them.
  const asked = await startChat(work, 'chooser', 'ask: red or blue')
  await page.getByRole('listitem').filter({ hasText: 'chooser' }).getByRole('button', { name: 'blue', exact: true }).click()
  await expect.poll(async () => JSON.stringify(await work.call('GET', `/v1/sessions/${asked}/items`))).toContain('"text":"blue"')
  await page.getByLabel('Of which kind').selectOption('Tasks')
  await expect(page).toHaveURL(/kind=task/)
})

test('the browser tells what waits, also on other screens', async ({ page }) => {
  await page.addInitScript(() => {
    const told: string[] = []
    class Fake {
      static permission = 'granted'
      static requestPermission = () => Promise.resolve('granted')
      onclick: (() => void) | null = null
      constructor(title: string, options: { body: string }) {
        told.push(`${title}: ${options.body}`)
      }
      close(): void {}
    }
    Object.assign(window, { Notification: Fake, told })
  })
  await logIn(page, work)
  await page.goto(`${work.url}/waiting`)
  await page.getByRole('button', { name: 'Notify me' }).click()
  await expect(page.getByRole('button', { name: 'Notifications are on' })).toHaveAttribute('aria-pressed', 'true')
  await page.keyboard.press('g')
  await page.keyboard.press('s')
  await expect(page.getByRole('heading', { name: 'Sessions', exact: true })).toBeVisible()
  await expect(page.getByRole('button', { name: 'Live' })).toBeVisible()
  const id = await startChat(work, 'bell', 'run: date')
  await expect.poll(() => page.evaluate(() => (window as unknown as { told: string[] }).told.join())).toContain('bell waits for you: shell date')
  // An earlier version shows the call as it was, and takes no response.
  await page.goto(`${work.url}/sessions/${id}/history`)
  await expect(page.getByText('At this version.')).toBeVisible()
  await expect(page.getByRole('button', { name: 'Approve', exact: true })).toHaveCount(0)
  const { items } = await work.call<{ items: { id: string; session: { sessionId: string } }[] }>('GET', '/v1/pending')
  await work.call('POST', `/v1/sessions/${id}/pending/${items.find((i) => i.session.sessionId === id)!.id}`, { action: 'deny' })
})

for (const scheme of ['light', 'dark'] as const) {
  test(`the inbox is for everybody: ${scheme}`, async ({ page }, info) => {
    await page.emulateMedia({ colorScheme: scheme })
    await logIn(page, work)
    const ids = [await startChat(work, 'an edit', `edit: one ${scheme}`), await startChat(work, 'a command', 'run: ls -l'), await startChat(work, 'a question', 'ask: Which colour shall it be?')]
    await page.goto(`${work.url}/waiting`)
    await expect(page.getByRole('listitem')).toHaveCount(3)
    await expectAccessible(page)
    await page.screenshot({ path: info.outputPath(`waiting-${scheme}.png`) })
    await page.setViewportSize({ width: 640, height: 800 }) // 200 % of 1280
    await expectFits(page)
    await page.screenshot({ path: info.outputPath(`waiting-${scheme}-narrow.png`) })
    for (const id of ids) await work.call('DELETE', `/v1/sessions/${id}`)
  })
}
