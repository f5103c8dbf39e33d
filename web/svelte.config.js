import { vitePreprocess } from '@sveltejs/vite-plugin-svelte'

export default {
  preprocess: vitePreprocess(),
  // Class names come from what a style says, not from where its file lies.
  compilerOptions: { runes: true, cssHash: ({ hash, css }) => `s-${hash(css)}` },
}
