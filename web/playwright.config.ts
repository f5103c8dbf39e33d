import { defineConfig } from '@playwright/test'

// Debian's Chromium, without a download. The tests start servers of their own.
export default defineConfig({
  testDir: './tests',
  timeout: 120_000,
  expect: { timeout: 30_000 },
  workers: 2,
  retries: 0, // a test that passes only sometimes is a fault
  forbidOnly: true,
  reporter: 'line',
  globalSetup: './tests/setup.ts',
  // On PostgreSQL only what depends on the store.
  projects: [{ name: 'sqlite' }, ...(process.env.HOLDFAST_PAGE_NO_POSTGRES ? [] : [{ name: 'postgres', grep: /@stores/ }])],
  use: {
    viewport: { width: 1280, height: 800 },
    colorScheme: 'light',
    launchOptions: {
      executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
      args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
    },
  },
})
